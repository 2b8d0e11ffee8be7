//! Which row of `where` a stretch of the path is charged to, by the [rules](crate::Groups) of an operating system.
//!
//! The aim is that each row is a thing one can fix. Printing is one row over all callers; a blamed
//! thread, a probe and a mount are rows whole, with all under them; a delay is charged to whoever
//! asked for it, with the mechanism as a suffix; the rest goes to the innermost initcall, attach or function.
//!
//! A rule asks what is around a place, and a boot has millions of places: so each span inherits the
//! answers from the span around it, in one pass, and a stretch only looks them up. Calls too short to be
//! spans are paths of the profile, and go on from the answers of the span that they were made in.

use crate::chain::Frame;
use crate::groups::{Groups, Place, any};
use crate::phases::Phase;
use crate::stretch::StretchKind;
use hashbrown::HashMap;
use timeline::{NameId, NodeId, Ns, SpanId, SpanKind, Timeline, TrackId};

/// What a stretch is charged to: a [`Base`] by its number, and how the time passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Charge {
    pub base: BaseId,
    pub suffix: Suffix,
}

/// A base in [`Charger::bases`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BaseId(pub u32);

impl BaseId {
    /// [`Base::Nothing`].
    pub const NOTHING: BaseId = BaseId(0);
}

/// The thing that took the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Base {
    /// A row that its rule gives a name, by the rule's number.
    Named(u32),
    /// A span's name and detail.
    Work(NameId, NameId),
    /// What followed a message.
    After(NameId),
    /// Between the initcalls of a level.
    Between(NameId),
    /// A thread, of which only the name is known.
    Thread(NameId),
    /// A thread of a unit: the unit, and the thread's name.
    UnitThread(NameId, NameId),
    /// Nothing narrower than the phase.
    Nothing,
}

/// How it passed, where that is not by running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Suffix {
    None,
    Delay(NameId),
    /// For a timer or a device, or a topic that nobody is seen to hold.
    WaitFor(NameId),
    Wait,
    Runqueue,
    /// No thread is known to run: the CPUs slept, or there is no evidence yet.
    Nobody,
    /// It is the recording's own doing.
    Recording,
}

/// Which spans and tracks a row of `where` is about: so one finds its places in time. Several rows may be of one thing,
/// which differ in how its time passed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Things {
    /// Of each span, the thing that it stands for.
    pub of_span: Vec<u32>,
    /// Of each track, what it is where another waited for it.
    pub of_track: Vec<u32>,
}

/// Finds the charge of stretches: what each span stands for, and what around it earns its time.
pub struct Charger<'a> {
    timeline: &'a Timeline,
    groups: &'a Groups,
    /// All bases of the boot.
    pub bases: Vec<Base>,
    /// All names and details that spans have.
    pub functions: Vec<(NameId, NameId)>,
    /// Of each span, what it stands for by itself: the row whose total it counts to.
    pub base: Vec<u32>,
    /// Of each span, its name and detail in `functions`.
    pub function: Vec<u32>,
    /// Of each span, what is around it.
    around: Vec<Around>,
    /// Of each track, its base as a blamed thread, and the rule for it.
    thread: Vec<(Option<u32>, BaseId)>,
    /// Of each path of the profile, its name and detail in `functions`.
    pub path_function: Vec<u32>,
    /// Of each path, what it stands for by itself and what it is by the rules; none for the bottom of a stack.
    paths: Vec<Option<(u32, NameId, Role)>>,
}

/// What is around a place, the place's own innermost span or path included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Around {
    /// By the first rule that anything around matches: what has the row, and the rule.
    earner: Option<(Thing, u32)>,
    /// The innermost thing that is not a delay's.
    here: Option<Thing>,
    /// Whether that is work of its own, and neither a level of initcalls nor something that only calls steps.
    is_work: bool,
    /// The outermost that delays.
    delay: Option<(Thing, NameId)>,
    /// Whether it is the recording's own doing.
    recording: bool,
}

/// Something that takes time: its base, and which of those it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Thing {
    base: u32,
    by: Doer,
}

/// Which one of all that have a base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Doer {
    /// A span.
    Span(SpanId),
    /// Any of its spans.
    Spans,
    /// Calls too short to be spans.
    Path(NodeId),
}

/// Whose a stretch is, apart from what is around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// The thread.
    pub track: TrackId,
    /// Whether another waited for it.
    pub blamed: bool,
    /// How the time passed.
    pub kind: StretchKind,
}

/// What a name is, by the rules.
#[derive(Clone, Copy)]
struct Role {
    kind: SpanKind,
    rule: Option<u32>,
    is_work: bool,
    delays: bool,
    records: bool,
}

impl<'a> Charger<'a> {
    /// Gives each span its charge. Linear in the number of spans.
    pub fn new(timeline: &'a Timeline, groups: &'a Groups) -> Self {
        let count = timeline.spans.len();
        let mut bases = Numbered::default();
        bases.number(Base::Nothing);
        let mut functions = Numbered::default();
        let mut roles: Vec<Role> = Vec::new();
        // Of each name and detail by its number, looked up once; names are hardly ever of two kinds.
        let mut role_of = |no: u32, kind, name, detail| {
            if no as usize == roles.len() {
                roles.push(role(timeline, groups, kind, name, detail));
            }
            let known = roles[no as usize];
            if known.kind == kind { known } else { role(timeline, groups, kind, name, detail) }
        };
        let mut base = Vec::with_capacity(count);
        let mut function = Vec::with_capacity(count);
        let mut around: Vec<Around> = Vec::with_capacity(count);
        for (id, row) in timeline.spans.iter() {
            let no = functions.number((row.name, row.detail));
            let role_of = role_of(no, row.kind, row.name, row.detail);
            let outer = timeline.spans.parent(id).map_or_else(Around::default, |p| around[p.0 as usize]);
            let own = bases.number(own_base((row.kind, row.name, row.detail), role_of, groups));
            around.push(outer.and(Thing { base: own, by: Doer::Span(id) }, row.name, role_of, groups));
            base.push(own);
            function.push(no);
        }
        let initcall = timeline.names.find("initcall").unwrap_or_default();
        let (mut path_function, mut paths) = (Vec::new(), Vec::new());
        for (_, node) in timeline.profile.nodes() {
            let (name, detail) =
                if node.kind == SpanKind::Initcall { (initcall, node.name) } else { (node.name, NameId::EMPTY) };
            let no = functions.number((name, detail));
            path_function.push(no);
            let role_of = role_of(no, node.kind, name, detail);
            let own = node.parent.map(|_| bases.number(own_base((node.kind, name, detail), role_of, groups)));
            paths.push(own.map(|own| (own, name, role_of)));
        }
        let thread = timeline.tracks.iter().map(|(_, track)| {
            let rule = groups.rule_of_thread(timeline.names.get(track.name)).map(timeline::number);
            let named = rule.filter(|&rule| groups.rules[rule as usize].row.is_some());
            let own = track.unit.map_or(Base::Thread(track.name), |unit| Base::UnitThread(unit, track.name));
            (rule, BaseId(bases.number(named.map_or(own, Base::Named))))
        });
        let thread = thread.collect();
        let (bases, functions) = (bases.all, functions.all);
        Charger { timeline, groups, bases, functions, base, function, around, thread, path_function, paths }
    }

    /// The charge of a stretch that `chain` owns, and what earned it.
    pub fn charge(&self, kind: StretchKind, chain: &[Frame]) -> (Charge, Option<Doer>) {
        let Some(owner) = chain.last() else { return (Charge { base: BaseId::NOTHING, suffix: Suffix::Nobody }, None) };
        self.charge_at(self.around(owner.span), Owner { track: owner.track, blamed: chain.len() > 1, kind })
    }

    /// The charge of time spent where this is around.
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

    /// Whether the owner was in nothing narrower than a process: its time is that, but what it waited for is not.
    pub fn is_in_process(&self, chain: &[Frame]) -> bool {
        let span = chain.last().and_then(|owner| owner.span);
        span.is_some_and(|span| self.timeline.spans.get(span).kind == SpanKind::Process)
    }

    /// Whether the row of a stretch that `chain` owns says more than `phase` does.
    pub fn explains(&self, chain: &[Frame], phase: Option<&Phase>) -> bool {
        let Some(span) = chain.last().and_then(|owner| owner.span) else { return chain.len() > 1 };
        self.explains_at(self.around(Some(span)), chain.len() > 1, phase)
    }

    /// Whether the row of time spent where this is around says more than `phase` does: it is a step, a function, what
    /// followed a message, or another thread that was waited for. A level of initcalls is a phase itself, and so are a
    /// function that spans one and what only calls the steps of the boot.
    pub fn explains_at(&self, around: Around, blamed: bool, phase: Option<&Phase>) -> bool {
        let spans_it = |doer: Doer| match (doer, phase) {
            (Doer::Span(span), Some(phase)) => self.spans(span, phase),
            _ => false,
        };
        let row = around.earner.map(|(earner, _)| earner).or(around.here.filter(|_| around.is_work));
        blamed || around.delay.is_some() || row.is_some_and(|thing| !spans_it(thing.by))
    }

    /// Whether a span is all of a phase but a fiftieth of it. A stage is one piece of work, a message says what it says, and a
    /// process owns its own time, however long the phase is.
    fn spans(&self, span: SpanId, phase: &Phase) -> bool {
        let row = self.timeline.spans.get(span);
        if matches!(row.kind, SpanKind::Stage | SpanKind::Message | SpanKind::Process) {
            return false;
        }
        let missed = (row.start - phase.start).max(Ns::ZERO) + (phase.end - row.end).max(Ns::ZERO);
        missed.0 <= (phase.end - phase.start).0 / 50
    }

    /// What is around a place in a span, which is one of many.
    pub fn around(&self, span: Option<SpanId>) -> Around {
        span.map_or_else(Around::default, |s| self.around[s.0 as usize])
    }

    /// The same one call further in, too short to be a span.
    pub fn called(&self, around: Around, path: NodeId) -> Around {
        let Some((base, name, role)) = self.paths[path.index()] else { return around };
        around.and(Thing { base, by: Doer::Path(path) }, name, role, self.groups)
    }

    /// A base by its number.
    pub fn base_of(&self, id: BaseId) -> Base {
        self.bases[id.0 as usize]
    }

    /// Of each span and track, the number of its base.
    pub fn things(self) -> Things {
        Things { of_span: self.base, of_track: self.thread.iter().map(|(_, base)| base.0).collect() }
    }

    /// What tables print; `phase` is for what nothing narrower owns.
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
            Suffix::Nobody => format!("{base} · no thread known to run"),
            Suffix::Recording => format!("{base} · recording"),
        }
    }
}

impl Around {
    /// The same for whichever span of its kind it is: so much alike are stretches that are charged together.
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

    /// The same one thing further in. What a delay calls is the delay.
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

/// What a span is, by the rules. What delays or is skipped makes no row of its own. That a call was indirect is no part of
/// its name.
fn role(timeline: &Timeline, groups: &Groups, kind: SpanKind, name: NameId, detail: NameId) -> Role {
    let detail = if detail == NameId::INDIRECT { NameId::EMPTY } else { detail };
    let text = joined(timeline, name, detail);
    let delays = any(&groups.delays, kind, &text);
    let skipped = any(&groups.skips, kind, &text);
    let makes_a_row = !delays && !skipped;
    Role {
        kind,
        rule: groups.rule_of(kind, &text).filter(|_| makes_a_row).map(timeline::number),
        is_work: !skipped && kind != SpanKind::Level,
        delays,
        records: any(&groups.recording, kind, &text),
    }
}

/// What a thing stands for by itself.
fn own_base((kind, name, detail): (SpanKind, NameId, NameId), role: Role, groups: &Groups) -> Base {
    match (role.rule, kind) {
        (Some(rule), _) if groups.rules[rule as usize].row.is_some() => Base::Named(rule),
        (_, SpanKind::Message) => Base::After(name),
        (_, SpanKind::Level) => Base::Between(detail),
        _ => Base::Work(name, detail),
    }
}

/// What a table calls the time that followed a message.
pub fn after(message: &str) -> String {
    format!("after “{message}”")
}

/// A name and its detail, as tables print them.
pub fn joined(timeline: &Timeline, name: NameId, detail: NameId) -> String {
    match (timeline.names.get(name), timeline.names.get(detail)) {
        (name, "") => name.to_owned(),
        (name, detail) => format!("{name} {detail}"),
    }
}

/// Things, each with a number.
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
        // There are fewer different things than spans and tracks, and of those fewer than 2^32.
        *self.numbers.entry(thing).or_insert_with(|| {
            self.all.push(thing);
            timeline::number(self.all.len() - 1)
        })
    }
}
