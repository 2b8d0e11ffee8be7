//! A log of initcalls without levels may be an excerpt: which phases it shows, and which it cannot.

use crate::boot::{Boot, ROOT_PHASE};
use recording::EndMark;
use timeline::{Boundary, Ns, SpanKind, SpanRow};

/// Without levels, initcalls are at least one phase: from the first one of process 1's to the last one's return. Only
/// where process 1 is known to have begun were these all of them.
pub fn initcalls_without_levels(boot: &mut Boot<'_>) {
    let init = boot.init();
    if boot.timeline.spans.iter().any(|(_, s)| s.kind == SpanKind::Level) {
        return;
    }
    let of_init = |s: &SpanRow| s.kind == SpanKind::Initcall && s.track == init;
    let spans: Vec<_> = boot.timeline.spans.iter().map(|(_, s)| s).filter(of_init).collect();
    let (first, last) = (spans.iter().map(|s| s.start).min(), spans.iter().map(|s| s.end).max());
    let (Some(first), Some(last)) = (first, last) else { return };
    let begun = ["hand-over", ROOT_PHASE, "process 1"].iter().any(|phase| boot.start_of(phase).is_some());
    let marked = boot.manifest.end.as_ref().is_some_and(|end| end.mark() == EndMark::Init);
    let (initcalls, then) = match begun || marked || boot.process_1_spoke {
        true => ("initcalls: all levels", "hand-over"),
        // The kernel starts the other CPUs between the early initcalls and the others.
        false if other_cpus_started_after(boot, last) => ("initcalls: early", "after the last initcall"),
        false => ("initcalls: those in the log", "after the last initcall"),
    };
    let error = Ns::from_us(500);
    let evidence = match boot.initcall_error {
        Ns::ZERO => "kernel log: the first initcall",
        _ => "kernel log: the first initcall, timed in whole ticks",
    };
    boot.timeline.boundary(initcalls, first, error.max(boot.initcall_error), evidence);
    boot.timeline.boundary(then, last, error, "kernel log: the last initcall returned");
}

/// Whether the kernel says so in a message after `last`: `smp: Brought up 1 node, 4 CPUs`, `Brought up 1 CPUs`.
fn other_cpus_started_after(boot: &Boot<'_>, last: Ns) -> bool {
    let names = &boot.timeline.names;
    let said = |text: &str| text.contains("Brought up ") && text.contains("CPU");
    boot.timeline.marks.iter().any(|mark| mark.at >= last && said(names.get(mark.name)))
}

/// A log that begins inside an initcall, or among initcalls of which only the returns are there, has no early kernel.
pub fn only_initcalls(boot: &mut Boot<'_>) {
    let names = &boot.timeline.names;
    let is_level = |b: &&Boundary| names.get(b.phase).starts_with("initcalls: ");
    let Some(first) = boot.timeline.boundaries.iter().filter(is_level).map(|b| b.at).min() else { return };
    let early = names.find("early kernel");
    let begins = boot.timeline.marks.iter().any(|mark| names.get(mark.name).starts_with("Linux version"));
    let excerpt = boot.initcall_error > Ns::ZERO && !begins;
    boot.timeline.boundaries.retain(|b| Some(b.phase) != early || (b.at <= first && !excerpt));
}
