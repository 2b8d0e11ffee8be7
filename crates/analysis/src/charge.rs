//! The row of `where` that a stretch of the path is charged to, by the [rules](crate::Groups) of an operating system.
//!
//! The aim is that a developer can fix what each row names. Printing is one row over all callers. A blamed thread, a
//! probe and a mount are whole rows, with everything under them. A delay is charged to its caller, with the mechanism
//! as a suffix. The rest goes to the innermost initcall, attach or function.
//!
//! A rule tests what is around a place, and a boot has millions of places. Therefore each span inherits the answers
//! from the span around it, in one pass, and a stretch only looks them up. Calls too short to be spans are paths of the
//! profile. They continue from the answers of the span in which they were made.

use crate::chain::Frame;
use crate::groups::{Groups, Place, any_matches};
use crate::phases::Phase;
use crate::stretch::StretchKind;
use hashbrown::HashMap;
use timeline::{NameId, NodeId, Ns, SpanId, SpanKind, Spans, Timeline, TrackId};

/// The row for a stretch: a [`Base`] by its number, and how the time passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Charge {
    pub base: BaseId,
    pub suffix: Suffix,
}

/// An index into [`Charger::bases`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BaseId(pub u32);

impl BaseId {
    pub const NOTHING: BaseId = BaseId(0);
}

/// The thing that took the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Base {
    /// A row that gets its name from a rule, by the rule's number.
    Named(u32),
    /// A span's name and detail.
    Work(NameId, NameId),
    /// The time after a message.
    After(NameId),
    /// The time between the initcalls of a level.
    Between(NameId),
    /// A thread of which only the name is known.
    Thread(NameId),
    /// A thread of a unit: the unit, and the thread's name.
    UnitThread(NameId, NameId),
    /// Nothing narrower than the phase.
    Nothing,
}

/// The way in which the time passed, if not by running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Suffix {
    None,
    Delay(NameId),
    /// For a timer, a device, or a topic that no thread is seen to hold.
    WaitFor(NameId),
    Wait,
    Runqueue,
    /// No thread is known to run: the CPUs slept, or there is no evidence yet.
    NoThread,
    /// The recording itself caused the time.
    Recording,
}

/// The spans and tracks that a row of `where` is about. They give the row's places in time. Several rows may be about
/// one thing and differ only in how its time passed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Things {
    /// The thing that each span stands for.
    pub of_span: Vec<u32>,
    /// The thing that each track stands for while another thread waits for it.
    pub of_track: Vec<u32>,
}

/// Finds the charge of stretches: what each span stands for, and which span around it gets the time.
pub struct Charger<'a> {
    timeline: &'a Timeline,
    groups: &'a Groups,
    /// All bases of the boot.
    pub bases: Vec<Base>,
    /// All names and details of spans.
    pub functions: Vec<(NameId, NameId)>,
    /// The base that each span itself stands for: the row whose total includes it.
    pub base: Vec<u32>,
    /// The name and detail of each span, as an index into `functions`.
    pub function: Vec<u32>,
    /// The surroundings of each span.
    around: Vec<SpanAround>,
    /// The base of each track as a blamed thread, and the rule for it.
    thread: Vec<(Option<u32>, BaseId)>,
    /// The name and detail of each path of the profile, as an index into `functions`.
    pub path_function: Vec<u32>,
    /// The base of each path and its role by the rules. `None` for the bottom of a stack.
    paths: Vec<Option<(u32, NameId, Role)>>,
}

/// The surroundings of a place, including its own innermost span or path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Around {
    /// The thing that has the row by the first rule that matches anything around, and that rule.
    earner: Option<(Thing, u32)>,
    /// The innermost thing that does not belong to a delay.
    here: Option<Thing>,
    /// True if `here` is work, not a level of initcalls or a function that only calls steps.
    is_work: bool,
    /// The outermost delay, and its name.
    delay: Option<(Thing, NameId)>,
    /// True if the recording itself caused it.
    recording: bool,
}

/// [`Around`] of a span, which has only spans around it. A boot has millions of spans, so each thing is its span's
/// number: the base and the name are looked up. [`NONE`] stands for no span.
#[derive(Clone, Copy)]
struct SpanAround {
    earner: u32,
    /// The rule of the earner.
    rule: u32,
    here: u32,
    delay: u32,
    is_work: bool,
    recording: bool,
}

const NONE: u32 = u32::MAX;

impl SpanAround {
    fn new(around: &Around) -> SpanAround {
        let number = |thing: Option<Thing>| match thing.map(|thing| thing.by) {
            Some(Doer::Span(span)) => span.0,
            _ => NONE,
        };
        SpanAround {
            earner: number(around.earner.map(|(thing, _)| thing)),
            rule: around.earner.map_or(0, |(_, rule)| rule),
            here: number(around.here),
            delay: number(around.delay.map(|(thing, _)| thing)),
            is_work: around.is_work,
            recording: around.recording,
        }
    }

    /// The whole surroundings. `base` has the base of each span.
    fn whole(self, spans: &Spans, base: &[u32]) -> Around {
        let thing = |number: u32| {
            (number != NONE).then(|| Thing { base: base[number as usize], by: Doer::Span(SpanId(number)) })
        };
        Around {
            earner: thing(self.earner).map(|thing| (thing, self.rule)),
            here: thing(self.here),
            is_work: self.is_work,
            delay: thing(self.delay).map(|thing| (thing, spans.get(SpanId(self.delay)).name)),
            recording: self.recording,
        }
    }
}

/// A thing that takes time: its base, and which instance of that base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Thing {
    base: u32,
    by: Doer,
}

/// One instance of a base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Doer {
    /// This span.
    Span(SpanId),
    /// Any span of the base.
    Spans,
    /// Calls too short to be spans.
    Path(NodeId),
}

/// The owner of a stretch, without its surroundings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    pub track: TrackId,
    /// True if another thread waited for it.
    pub blamed: bool,
    /// The way in which the time passed.
    pub kind: StretchKind,
}

/// The role of a name by the rules.
#[derive(Clone, Copy)]
struct Role {
    kind: SpanKind,
    rule: Option<u32>,
    is_work: bool,
    delays: bool,
    records: bool,
}

impl<'a> Charger<'a> {
    /// Computes the charge of each span. Linear in the number of spans.
    pub fn new(timeline: &'a Timeline, groups: &'a Groups) -> Self {
        let count = timeline.spans.len();
        let mut bases = Numbered::default();
        bases.number(Base::Nothing);
        let mut functions = Numbered::default();
        let mut roles: Vec<Role> = Vec::new();
        // The role of each name and detail, looked up once. Names seldom have two kinds.
        let mut role_of = |no: u32, kind, name, detail| {
            if no as usize == roles.len() {
                roles.push(role(timeline, groups, kind, name, detail));
            }
            let by_number = roles[no as usize];
            if by_number.kind == kind { by_number } else { role(timeline, groups, kind, name, detail) }
        };
        let mut base = Vec::with_capacity(count);
        let mut function = Vec::with_capacity(count);
        let mut around: Vec<SpanAround> = Vec::with_capacity(count);
        for (id, row) in timeline.spans.iter() {
            let no = functions.number((row.name, row.detail));
            let role = role_of(no, row.kind, row.name, row.detail);
            let outer = timeline.spans.parent(id).map(|p| around[p.0 as usize].whole(&timeline.spans, &base));
            let outer = outer.unwrap_or_default();
            let base_no = bases.number(own_base((row.kind, row.name, row.detail), role, groups));
            let whole = outer.and(Thing { base: base_no, by: Doer::Span(id) }, row.name, role, groups);
            around.push(SpanAround::new(&whole));
            base.push(base_no);
            function.push(no);
        }
        let initcall = timeline.names.find("initcall").unwrap_or_default();
        let (mut path_function, mut paths) = (Vec::new(), Vec::new());
        for (_, node) in timeline.profile.nodes() {
            let (name, detail) =
                if node.kind == SpanKind::Initcall { (initcall, node.name) } else { (node.name, NameId::EMPTY) };
            let no = functions.number((name, detail));
            path_function.push(no);
            let role = role_of(no, node.kind, name, detail);
            let base_no = node.parent.map(|_| bases.number(own_base((node.kind, name, detail), role, groups)));
            paths.push(base_no.map(|base_no| (base_no, name, role)));
        }
        let thread = timeline.tracks.iter().map(|(_, track)| {
            let rule = groups.rule_of_thread(timeline.names.get(track.name)).map(timeline::number);
            let named = rule.filter(|&rule| groups.rules[rule as usize].row.is_some());
            let unnamed = track.unit.map_or(Base::Thread(track.name), |unit| Base::UnitThread(unit, track.name));
            (rule, BaseId(bases.number(named.map_or(unnamed, Base::Named))))
        });
        let thread = thread.collect();
        let (bases, functions) = (bases.all, functions.all);
        Charger { timeline, groups, bases, functions, base, function, around, thread, path_function, paths }
    }

    /// Returns the charge of a stretch that `chain` owns, and the instance that gets it.
    pub fn charge(&self, kind: StretchKind, chain: &[Frame]) -> (Charge, Option<Doer>) {
        let Some(owner) = chain.last() else {
            return (Charge { base: BaseId::NOTHING, suffix: Suffix::NoThread }, None);
        };
        self.charge_at(self.around(owner.span), Owner { track: owner.track, blamed: chain.len() > 1, kind })
    }

    /// Returns the charge of time spent in these surroundings.
    pub fn charge_at(&self, around: Around, owner: Owner) -> (Charge, Option<Doer>) {
        let (thread_rule, thread) = self.thread[owner.track.0 as usize];
        let thread_rule = thread_rule.filter(|_| owner.blamed);
        let (base, earner, rule) = match (around.earner, thread_rule) {
            (Some((earner, rule)), by) if by.is_none_or(|by| rule < by) => {
                (BaseId(earner.base), Some(earner), Some(rule))
            }
            (_, Some(by)) => (thread, None, Some(by)),
            _ if owner.blamed => (thread, None, None),
            _ => {
                let thing = around.here.or(around.delay.map(|delay| delay.0));
                (thing.map_or(BaseId::NOTHING, |thing| BaseId(thing.base)), thing, None)
            }
        };
        let whole = rule.is_some_and(|rule| self.groups.rules[rule as usize].place == Place::Whole);
        let suffix = match (around.delay, owner.kind) {
            _ if around.recording => Suffix::Recording,
            _ if whole && earner.is_none() && owner.kind == StretchKind::Runqueue => Suffix::Runqueue,
            _ if whole => Suffix::None,
            (Some((delay, name)), _) if earner != Some(delay) => Suffix::Delay(name),
            (_, StretchKind::Running) => Suffix::None,
            (_, StretchKind::Interrupt(name) | StretchKind::Topic(name)) => Suffix::WaitFor(name),
            (_, StretchKind::Wait) => Suffix::Wait,
            (_, StretchKind::Runqueue) => Suffix::Runqueue,
        };
        (Charge { base, suffix }, earner.map(|thing| thing.by))
    }

    /// True if the owner was in nothing narrower than a process. The time is then the process's, but what it waited for
    /// is unknown.
    pub fn is_in_process(&self, chain: &[Frame]) -> bool {
        let span = chain.last().and_then(|owner| owner.span);
        span.is_some_and(|span| self.timeline.spans.get(span).kind == SpanKind::Process)
    }

    /// True if the row of a stretch that `chain` owns says more than `phase` does.
    pub fn explains(&self, chain: &[Frame], phase: Option<&Phase>) -> bool {
        let Some(span) = chain.last().and_then(|owner| owner.span) else { return chain.len() > 1 };
        self.explains_at(self.around(Some(span)), chain.len() > 1, phase)
    }

    /// True if the row of time spent in these surroundings says more than `phase` does. Such a row is a step, a
    /// function, the time after a message, or another thread that was waited for. A level of initcalls is a phase
    /// itself. So is a function that spans a phase, and a function that only calls the steps of the boot.
    pub fn explains_at(&self, around: Around, blamed: bool, phase: Option<&Phase>) -> bool {
        let spans_phase = |doer: Doer| match (doer, phase) {
            (Doer::Span(span), Some(phase)) => self.covers_phase(span, phase),
            _ => false,
        };
        let row = around.earner.map(|(earner, _)| earner).or(around.here.filter(|_| around.is_work));
        blamed || around.delay.is_some() || row.is_some_and(|thing| !spans_phase(thing.by))
    }

    /// True if a span covers a phase except for at most a fiftieth of it. Always false for a stage, a message and a
    /// process: their rows say more than the phase, however long the phase is.
    fn covers_phase(&self, span: SpanId, phase: &Phase) -> bool {
        let row = self.timeline.spans.get(span);
        if matches!(row.kind, SpanKind::Stage | SpanKind::Message | SpanKind::Process | SpanKind::Initcall) {
            return false;
        }
        let missed = (row.start - phase.start).max(Ns::ZERO) + (phase.end - row.end).max(Ns::ZERO);
        missed.0 <= (phase.end - phase.start).0 / 50
    }

    /// Returns the surroundings of a place in a span. Many places share them.
    pub fn around(&self, span: Option<SpanId>) -> Around {
        let around = span.map(|span| self.around[span.0 as usize].whole(&self.timeline.spans, &self.base));
        around.unwrap_or_default()
    }

    /// Returns the surroundings one call further in, where the call is too short to be a span.
    pub fn called(&self, around: Around, path: NodeId) -> Around {
        let Some((base, name, role)) = self.paths[path.index()] else { return around };
        around.and(Thing { base, by: Doer::Path(path) }, name, role, self.groups)
    }

    pub fn base_of(&self, id: BaseId) -> Base {
        self.bases[id.0 as usize]
    }

    /// Returns the base numbers of spans and tracks.
    pub fn things(self) -> Things {
        Things { of_span: self.base, of_track: self.thread.iter().map(|(_, base)| base.0).collect() }
    }

    /// Returns the name that tables print. `phase` names time that nothing narrower owns.
    pub fn label(&self, charge: Charge, phase: &str) -> String {
        let name = |id: NameId| self.timeline.names.get(id);
        let base = match self.base_of(charge.base) {
            Base::Named(rule) => self.groups.rules[rule as usize].row.clone().unwrap_or_default(),
            Base::Work(n, d) => joined(self.timeline, n, d),
            Base::After(message) => after(name(message)),
            Base::Between(level) => format!("between initcalls, level {}", name(level)),
            Base::Thread(n) => format!("{} {}", self.groups.thread_word, name(n)),
            Base::UnitThread(unit, n) => format!("unit {} · {}", name(unit), name(n)),
            Base::Nothing => format!("({phase})"),
        };
        match charge.suffix {
            Suffix::None => base,
            Suffix::Delay(by) => format!("{base} · {}", name(by)),
            Suffix::WaitFor(by) => format!("{base} · wait for {}", name(by)),
            Suffix::Wait => format!("{base} · wait"),
            Suffix::Runqueue => format!("{base} · runqueue"),
            Suffix::NoThread => format!("{base} · no thread known to run"),
            Suffix::Recording => format!("{base} · recording"),
        }
    }
}

impl Around {
    /// Returns the same with any span in place of a specific one. Stretches that are equal after this are charged
    /// together.
    pub fn of_any_span(self) -> Around {
        let any = |thing: Thing| match thing.by {
            Doer::Span(_) => Thing { by: Doer::Spans, ..thing },
            _ => thing,
        };
        Around {
            earner: self.earner.map(|(thing, rule)| (any(thing), rule)),
            here: self.here.map(any),
            is_work: self.is_work,
            delay: self.delay.map(|(thing, name)| (any(thing), name)),
            recording: self.recording,
        }
    }

    /// Returns the surroundings one thing further in. Calls of a delay are part of the delay.
    fn and(self, thing: Thing, name: NameId, role: Role, groups: &Groups) -> Around {
        let recording = self.recording || role.records;
        if self.delay.is_some() {
            return Around { recording, ..self };
        }
        if role.delays {
            return Around { delay: Some((thing, name)), recording, ..self };
        }
        let earner = match (self.earner, role.rule) {
            (outer, None) => outer,
            (Some(outer), Some(rule)) if outer.1 < rule => Some(outer),
            (Some(outer), Some(rule)) if outer.1 == rule && groups.rules[rule as usize].place != Place::Inner => {
                Some(outer)
            }
            (_, Some(rule)) => Some((thing, rule)),
        };
        Around { earner, here: Some(thing), is_work: role.is_work, delay: None, recording }
    }
}

/// Returns the role of a span by the rules. A delay or a skipped function makes no row. The mark of an indirect call is
/// not part of a name.
fn role(timeline: &Timeline, groups: &Groups, kind: SpanKind, name: NameId, detail: NameId) -> Role {
    let detail = if detail == NameId::INDIRECT { NameId::EMPTY } else { detail };
    let text = joined(timeline, name, detail);
    let delays = any_matches(&groups.delays, kind, &text);
    let skipped = any_matches(&groups.skips, kind, &text);
    let makes_a_row = !delays && !skipped;
    Role {
        kind,
        rule: groups.rule_of(kind, &text).filter(|_| makes_a_row).map(timeline::number),
        is_work: !skipped && kind != SpanKind::Level,
        delays,
        records: any_matches(&groups.recording, kind, &text),
    }
}

/// Returns the base that a thing itself stands for.
fn own_base((kind, name, detail): (SpanKind, NameId, NameId), role: Role, groups: &Groups) -> Base {
    match (role.rule, kind) {
        (Some(rule), _) if groups.rules[rule as usize].row.is_some() => Base::Named(rule),
        (_, SpanKind::Message) => Base::After(name),
        (_, SpanKind::Level) => Base::Between(detail),
        _ => Base::Work(name, detail),
    }
}

/// Returns the name in tables for the time after a message.
pub fn after(message: &str) -> String {
    format!("after “{message}”")
}

/// Returns a name and its detail as tables print them.
pub fn joined(timeline: &Timeline, name: NameId, detail: NameId) -> String {
    match (timeline.names.get(name), timeline.names.get(detail)) {
        (name, "") => name.to_owned(),
        (name, detail) => format!("{name} {detail}"),
    }
}

/// A list of different things with a number for each.
struct Numbered<T> {
    all: Vec<T>,
    numbers: HashMap<T, u32>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Numbered { all: Vec::new(), numbers: HashMap::new() }
    }
}

impl<T: Copy + Eq + std::hash::Hash> Numbered<T> {
    fn number(&mut self, thing: T) -> u32 {
        // The things are fewer than spans and tracks, which are fewer than 2^32.
        *self.numbers.entry(thing).or_insert_with(|| {
            self.all.push(thing);
            timeline::number(self.all.len() - 1)
        })
    }
}
