//! A thread's waits, and when those end of which the log has no `UNWAIT`.
//!
//! A thread that waits sleeps. So where it enters another function than `_sleep` and leaves it again, its wait was over: it
//! ends with that entry, or earlier if the function is left in which it began.

use super::Record;
use hashbrown::HashMap;
use timeline::{DiagnosticKind, NameId, Ns, SpanId};

/// A thread's waits.
#[derive(Default)]
pub struct Waits {
    all: Vec<OpenWait>,
    /// Those without an end, by topic.
    open: HashMap<NameId, Vec<usize>>,
    /// How many these are.
    count: usize,
    /// Those whose function was not left yet. Who waits later waits deeper inside, so they are in the order of their spans.
    inside: Vec<(SpanId, usize)>,
    /// What was left while a wait was open, but for sleeping.
    ran: Vec<SpanId>,
}

/// A wait without an end.
#[derive(Clone, Copy)]
pub struct OpenWait {
    pub from: Ns,
    pub record: Record,
    /// The first span that is entered after it began.
    next: SpanId,
    /// When the function was left in which it began.
    left: Option<Ns>,
    /// The first function that its thread entered after it began, and left.
    ran: Option<SpanId>,
}

impl OpenWait {
    pub fn new(from: Ns, record: Record, next: SpanId) -> OpenWait {
        OpenWait { from, record, next, left: None, ran: None }
    }

    /// When it ended, and how that is known. `start` says when a span begins.
    pub fn until(&self, start: impl Fn(SpanId) -> Ns) -> (Ns, DiagnosticKind) {
        let ran = self.ran.map(start);
        let (until, problem) = match (self.left, ran) {
            (left, Some(ran)) if left.is_none_or(|left| ran < left) => (ran, DiagnosticKind::WaitLastsUntilCall),
            (Some(left), _) => (left, DiagnosticKind::WaitLastsUntilReturn),
            (None, _) => (Ns::MAX, DiagnosticKind::WaitLastsUntilLogEnd),
        };
        (until.max(self.from), problem)
    }
}

impl Waits {
    /// A wait begins, in the innermost span.
    pub fn begin(&mut self, topic: NameId, wait: OpenWait, inside: Option<SpanId>) {
        let number = self.all.len();
        self.all.push(wait);
        self.count += 1;
        self.open.entry(topic).or_default().push(number);
        self.inside.extend(inside.map(|span| (span, number)));
    }

    /// The innermost of a topic is over: when it began.
    pub fn end(&mut self, topic: NameId) -> Option<Ns> {
        let number = self.open.get_mut(&topic).and_then(Vec::pop)?;
        self.count -= 1;
        Some(self.all[number].from)
    }

    /// Whether it matters what is left.
    pub fn any(&self) -> bool {
        self.count > 0 || !self.inside.is_empty()
    }

    /// A span, and all that was begun after it, is over.
    pub fn leave(&mut self, span: SpanId, at: Ns, sleeps: bool) {
        while let Some(&(_, number)) = self.inside.last().filter(|(inside, _)| *inside >= span) {
            self.all[number].left = Some(at);
            self.inside.pop();
        }
        if self.count > 0 && !sleeps {
            self.ran.push(span);
        }
    }

    /// Those that have no end, by topic.
    pub fn without_end(mut self) -> HashMap<NameId, Vec<OpenWait>> {
        self.ran.sort_unstable();
        let wait = |number: usize| {
            let wait = self.all[number];
            let ran = self.ran.get(self.ran.partition_point(|&span| span < wait.next)).copied();
            OpenWait { ran, ..wait }
        };
        self.open.into_iter().map(|(topic, open)| (topic, open.into_iter().map(wait).collect())).collect()
    }
}
