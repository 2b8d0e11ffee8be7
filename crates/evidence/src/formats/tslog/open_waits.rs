//! A thread's waits, and the ends of those for which the log has no `UNWAIT`.
//!
//! A thread that waits sleeps. If it enters a function other than `_sleep` and leaves it again, its wait was over at
//! that entry. The wait ends earlier if the thread leaves the function in which the wait began.

use super::Record;
use super::stacks::Stacks;
use timeline::{DiagnosticKind, NameId, Ns, SpanId};

/// A thread's waits.
#[derive(Default)]
pub(super) struct Waits {
    all: Vec<OpenWait>,
    /// The waits without an end, by topic, as places in `all`.
    open: Stacks<u32>,
    /// The number of waits without an end.
    count: usize,
    /// Waits whose function was not left yet. Later waits are deeper inside, so these are in the order of their spans.
    inside: Vec<(SpanId, u32)>,
    /// Spans that were left while a wait was open, except sleeps.
    ran: Vec<SpanId>,
}

/// A wait whose end is not logged yet.
#[derive(Clone, Copy)]
pub(super) struct OpenWait {
    pub from: Ns,
    pub record: Record,
    /// The first span that is entered after it began.
    next: SpanId,
    /// The time at which the thread left the function in which the wait began.
    left: Option<Ns>,
    /// The first function that its thread entered after the wait began, and left.
    ran: Option<SpanId>,
}

impl OpenWait {
    pub(super) fn new(from: Ns, record: Record, next: SpanId) -> OpenWait {
        OpenWait { from, record, next, left: None, ran: None }
    }

    /// Returns when the wait ended, and the diagnostic for how that is known. `start` returns a span's beginning.
    pub(super) fn until(&self, start: impl Fn(SpanId) -> Ns) -> (Ns, DiagnosticKind) {
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
    /// Adds a wait that begins in the span `inside`, the innermost.
    pub(super) fn begin(&mut self, topic: NameId, wait: OpenWait, inside: Option<SpanId>) {
        let number = timeline::number(self.all.len());
        self.all.push(wait);
        self.count += 1;
        self.open.push(topic, number);
        self.inside.extend(inside.map(|span| (span, number)));
    }

    /// Ends the innermost wait for a topic. Returns when it began.
    pub(super) fn end(&mut self, topic: NameId) -> Option<Ns> {
        let number = self.open.pop(topic)?;
        self.count -= 1;
        Some(self.all[number as usize].from)
    }

    /// True if [`Waits::leave`] must be called for spans that are left.
    pub(super) fn any(&self) -> bool {
        self.count > 0 || !self.inside.is_empty()
    }

    /// Notes that a span was left, and all that began after it.
    pub(super) fn leave(&mut self, span: SpanId, at: Ns, sleeps: bool) {
        while let Some(&(_, number)) = self.inside.last().filter(|(inside, _)| *inside >= span) {
            self.all[number as usize].left = Some(at);
            self.inside.pop();
        }
        if self.count > 0 && !sleeps {
            self.ran.push(span);
        }
    }

    /// Returns the waits without an end, by topic.
    pub(super) fn without_end(mut self) -> Vec<(NameId, OpenWait)> {
        self.ran.sort_unstable();
        let wait = |number: u32| {
            let wait = self.all[number as usize];
            let ran = self.ran.get(self.ran.partition_point(|&span| span < wait.next)).copied();
            OpenWait { ran, ..wait }
        };
        self.open.into_sorted().into_iter().map(|(topic, number)| (topic, wait(number))).collect()
    }
}
