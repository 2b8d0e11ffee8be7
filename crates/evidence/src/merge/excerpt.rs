//! A log of initcalls without levels may be an excerpt: which phases it shows, and which it cannot.

use super::{Merge, ROOT_PHASE};
use timeline::{Boundary, Ns, SpanKind, SpanRow, TrackId};

impl Merge<'_> {
    /// Without levels, initcalls are at least one phase: from the first one of process 1's to the last one's return. Only
    /// where process 1 is known to have begun were these all of them.
    pub fn initcalls_without_levels(&mut self, init: TrackId, process_1_said: bool) {
        if self.timeline.spans.iter().any(|(_, s)| s.kind == SpanKind::Level) {
            return;
        }
        let of_init = |s: &SpanRow| s.kind == SpanKind::Initcall && s.track == init;
        let spans: Vec<_> = self.timeline.spans.iter().map(|(_, s)| s).filter(of_init).collect();
        let (first, last) = (spans.iter().map(|s| s.start).min(), spans.iter().map(|s| s.end).max());
        let (Some(first), Some(last)) = (first, last) else { return };
        let begun = ["hand-over", ROOT_PHASE, "process 1"].iter().any(|phase| self.start_of(phase).is_some());
        let marked = self.manifest.end.as_ref().is_some_and(|end| end.what == "init");
        let (initcalls, then) = match begun || marked || process_1_said {
            true => ("initcalls: all levels", "hand-over"),
            // The kernel starts the other CPUs between the early initcalls and the others.
            false if self.other_cpus_started_after(last) => ("initcalls: early", "after the last initcall"),
            false => ("initcalls: those in the log", "after the last initcall"),
        };
        let error = Ns::from_us(500);
        let evidence = match self.initcall_error {
            Ns::ZERO => "kernel log: the first initcall",
            _ => "kernel log: the first initcall, timed in whole ticks",
        };
        self.timeline.boundary(initcalls, first, error.max(self.initcall_error), evidence);
        self.timeline.boundary(then, last, error, "kernel log: the last initcall returned");
    }

    /// Whether the kernel says so in a message after `last`: `smp: Brought up 1 node, 4 CPUs`, `Brought up 1 CPUs`.
    fn other_cpus_started_after(&self, last: Ns) -> bool {
        let names = &self.timeline.names;
        let said = |text: &str| text.contains("Brought up ") && text.contains("CPU");
        self.timeline.marks.iter().any(|mark| mark.at >= last && said(names.get(mark.name)))
    }

    /// A log that begins inside an initcall, or among initcalls of which only the returns are there, has no early kernel.
    pub fn only_initcalls(&mut self) {
        let names = &self.timeline.names;
        let is_level = |b: &&Boundary| names.get(b.phase).starts_with("initcalls: ");
        let Some(first) = self.timeline.boundaries.iter().filter(is_level).map(|b| b.at).min() else { return };
        let early = names.find("early kernel");
        let begins = self.timeline.marks.iter().any(|mark| names.get(mark.name).starts_with("Linux version"));
        let excerpt = self.initcall_error > Ns::ZERO && !begins;
        self.timeline.boundaries.retain(|b| Some(b.phase) != early || (b.at <= first && !excerpt));
    }
}
