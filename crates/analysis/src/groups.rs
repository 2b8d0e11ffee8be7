//! Which row of `where` a stretch of the path is charged to: an ordered list, first match wins.
//!
//! The aim is that each row is a thing one can fix. Printing is one row over all callers; a blamed
//! thread, a probe and a module are rows whole, with all under them; a delay is charged to whoever
//! asked for it, with the mechanism as a suffix; the rest goes to the innermost initcall, or to the
//! function below the containers that merely call one step of the boot after the other.
//!
//! A rule asks what is around a place, and a boot has millions of places: so each span inherits the
//! answers from the span around it, in one pass, and a stretch only looks them up.

use crate::path::{Frame, StretchKind};
use hashbrown::HashMap;
use timeline::{NameId, SpanId, SpanKind, SpanRow, Timeline};

/// The rules of one operating system: tables of names.
#[derive(Clone, Copy, Debug)]
pub struct Groups {
    /// Functions that print: all time under them is one row.
    pub printing: &'static [&'static str],
    /// Functions that delay or sleep: a suffix to whoever called them.
    pub delays: &'static [&'static str],
    /// Functions that only call the steps of the boot: a step is what they call.
    pub containers: &'static [&'static str],
    /// Initcalls that take their time because the boot is recorded.
    pub recording: &'static [&'static str],
}

impl Groups {
    /// Linux.
    pub const LINUX: Groups = Groups {
        printing: &["vprintk", "vprintk_emit", "vprintk_default", "_printk", "printk", "console_unlock"],
        delays: &["msleep", "msleep_interruptible", "usleep_range_state", "usleep_range", "__udelay", "__const_udelay"],
        containers: &[
            "secondary_startup_64_no_verify",
            "common_startup_64",
            "startup_64",
            "x86_64_start_kernel",
            "x86_64_start_reservations",
            "start_kernel",
            "arch_call_rest_init",
            "rest_init",
            "ret_from_fork",
            "kthread",
            "kernel_init",
            "kernel_init_freeable",
            "do_pre_smp_initcalls",
            "do_basic_setup",
            "do_initcalls",
            "do_initcall_level",
            "do_one_initcall",
        ],
        // It patches the trace points that were asked for on the command line into the running kernel.
        recording: &["event_trace_enable_again"],
    };
}

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
    Printing,
    /// A span's name and detail.
    Work(NameId, NameId),
    /// What followed a message.
    After(NameId),
    /// Between the initcalls of a level.
    Between(NameId),
    /// A thread, of which only the name is known.
    Thread(NameId),
    /// Nothing narrower than the phase.
    Nothing,
}

/// How it passed, where that is not by running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Suffix {
    None,
    Delay(NameId),
    Interrupt(NameId),
    Wait,
    Runqueue,
    /// It is the recording's own doing.
    Recording,
}

/// Finds the charge of stretches: what each span stands for, and what around it earns its time.
pub struct Charger {
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
    /// Of each track, its base as a blamed thread.
    thread: Vec<BaseId>,
}

/// What is around a place, the place's own innermost span included.
#[derive(Clone, Copy, Default)]
struct Around {
    /// The outermost that prints, else the outermost that is a row whole, else the innermost initcall.
    narrow: Option<Earner>,
    /// The outermost function that is no container.
    step: Option<SpanId>,
    /// The outermost function that delays.
    delay: Option<NameId>,
    /// Whether it is the recording's own doing.
    recording: bool,
}

#[derive(Clone, Copy)]
struct Earner {
    span: SpanId,
    rank: Rank,
}

/// What earns before what.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Initcall,
    Whole,
    Printing,
}

/// What a name is, by the rules.
#[derive(Clone, Copy)]
struct Roles {
    prints: bool,
    delays: bool,
    contains: bool,
    records: bool,
}

impl Charger {
    /// Gives each span its charge. Linear in the number of spans.
    pub fn new(timeline: &Timeline, groups: &Groups) -> Self {
        let ids = |names: &[&str]| -> Vec<NameId> { names.iter().filter_map(|n| timeline.names.find(n)).collect() };
        let (printing, delays, containers) = (ids(groups.printing), ids(groups.delays), ids(groups.containers));
        let recording = ids(groups.recording);
        let count = timeline.spans.len();
        let mut bases = Numbered::default();
        bases.number(Base::Nothing);
        let mut functions = Numbered::default();
        let mut roles: Vec<Roles> = Vec::new();
        let mut base = Vec::with_capacity(count);
        let mut function = Vec::with_capacity(count);
        let mut around: Vec<Around> = Vec::with_capacity(count);
        for (id, row) in timeline.spans.iter() {
            let no = functions.number((row.name, row.detail));
            if no as usize == roles.len() {
                let has = |names: &[NameId]| names.contains(&row.name);
                roles.push(Roles {
                    prints: has(&printing),
                    delays: has(&delays),
                    contains: has(&containers),
                    records: recording.contains(&row.detail),
                });
            }
            let roles = roles[no as usize];
            let outer = timeline.spans.parent(id).map_or_else(Around::default, |p| around[p.0 as usize]);
            around.push(outer.and(id, &row, roles));
            base.push(bases.number(own_base(&row, roles)));
            function.push(no);
        }
        let thread = timeline.tracks.iter().map(|(_, t)| BaseId(bases.number(Base::Thread(t.name)))).collect();
        Charger { bases: bases.all, functions: functions.all, base, function, around, thread }
    }

    /// The charge of a stretch that `chain` owns, and the span that earned it.
    pub fn charge(&self, kind: StretchKind, chain: &[Frame]) -> (Charge, Option<SpanId>) {
        let Some(owner) = chain.last() else { return (Charge { base: BaseId::NOTHING, suffix: Suffix::None }, None) };
        let around = owner.span.map_or_else(Around::default, |s| self.around[s.0 as usize]);
        let blamed = chain.len() > 1;
        let earner = match around.narrow {
            Some(earner) => Some(earner.span),
            None if blamed => None,
            None => around.step.or(owner.span),
        };
        let base = match earner {
            Some(span) => BaseId(self.base[span.0 as usize]),
            None if blamed => self.thread[owner.track.0 as usize],
            None => BaseId::NOTHING,
        };
        let suffix = match (around.delay, kind) {
            _ if around.recording => Suffix::Recording,
            (Some(name), _) => Suffix::Delay(name),
            (None, StretchKind::Running) => Suffix::None,
            (None, StretchKind::Interrupt(name)) => Suffix::Interrupt(name),
            (None, StretchKind::Wait) => Suffix::Wait,
            (None, StretchKind::Runqueue) => Suffix::Runqueue,
        };
        (Charge { base, suffix }, earner)
    }

    /// Whether a stretch that `chain` owns has an owner narrower than a phase: an initcall, a probe, work, a function
    /// that is no mere container, what followed a message, or another thread that was waited for. A stage or a level
    /// of initcalls is a phase itself.
    pub fn explains(&self, chain: &[Frame]) -> bool {
        let Some(span) = chain.last().and_then(|owner| owner.span) else { return chain.len() > 1 };
        let around = self.around[span.0 as usize];
        let after_message = matches!(self.base_of(BaseId(self.base[span.0 as usize])), Base::After(_));
        chain.len() > 1 || around.narrow.is_some() || around.step.is_some() || after_message
    }

    /// A base by its number.
    pub fn base_of(&self, id: BaseId) -> Base {
        self.bases[id.0 as usize]
    }
}

impl Around {
    /// The same one span further in.
    fn and(self, span: SpanId, row: &SpanRow, roles: Roles) -> Around {
        let rank = match row.kind {
            SpanKind::Call if roles.prints => Some(Rank::Printing),
            SpanKind::Probe | SpanKind::Mount | SpanKind::Module | SpanKind::Work => Some(Rank::Whole),
            SpanKind::Initcall => Some(Rank::Initcall),
            _ => None,
        };
        let narrow = match (self.narrow, rank) {
            // Of two alike the outer one is the row, but of initcalls the inner one.
            (Some(outer), Some(rank)) if outer.rank > rank || (outer.rank == rank && rank != Rank::Initcall) => {
                Some(outer)
            }
            (outer, None) => outer,
            (_, Some(rank)) => Some(Earner { span, rank }),
        };
        let is_step = row.kind == SpanKind::Call && !roles.contains;
        Around {
            narrow,
            step: self.step.or(is_step.then_some(span)),
            delay: self.delay.or(roles.delays.then_some(row.name)),
            recording: self.recording || (row.kind == SpanKind::Initcall && roles.records),
        }
    }
}

/// What a span stands for by itself.
fn own_base(row: &SpanRow, roles: Roles) -> Base {
    match row.kind {
        SpanKind::Call if roles.prints => Base::Printing,
        SpanKind::Message => Base::After(row.name),
        SpanKind::Level => Base::Between(row.detail),
        _ => Base::Work(row.name, row.detail),
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
            (self.all.len() - 1) as u32
        })
    }
}
