//! A log of initcalls without levels may be an excerpt: which phases it shows, and which it cannot.

use crate::boot::Placing;
use crate::boot::linux::LOGGED_ERROR;
use recording::EndMark;
use timeline::{Initcalls, Ns, Phase, SpanKind, SpanRow};

/// Without levels, initcalls are at least one phase: from the first one of process 1's to the last one's return. Only
/// where process 1 is known to have begun were these all of them.
pub(crate) fn initcalls_without_levels(boot: &mut Placing<'_>) {
    let init = boot.init();
    if boot.timeline.spans.iter().any(|(_, s)| s.kind == SpanKind::Level) {
        return;
    }
    let of_init = |s: &SpanRow| s.kind == SpanKind::Initcall && s.track == init;
    let spans: Vec<_> = boot.timeline.spans.iter().map(|(_, s)| s).filter(of_init).collect();
    let (first, last) = (spans.iter().map(|s| s.start).min(), spans.iter().map(|s| s.end).max());
    let (Some(first), Some(last)) = (first, last) else { return };
    let begun = [Phase::HandOver, Phase::ModulesAndRoot, Phase::Process1]
        .into_iter()
        .any(|phase| boot.start_of(phase).is_some());
    let marked = boot.manifest.end.as_ref().is_some_and(|end| end.mark() == EndMark::Init);
    let (initcalls, then) = match begun || marked || *boot.process_1_spoke {
        true => (Initcalls::All, Phase::HandOver),
        // The kernel starts the other CPUs between the early initcalls and the others.
        false if other_cpus_started_after(boot, last) => (Initcalls::Early, Phase::AfterTheLastInitcall),
        false => (Initcalls::OfTheLog, Phase::AfterTheLastInitcall),
    };
    let error = LOGGED_ERROR;
    let evidence = match boot.initcall_error {
        Ns::ZERO => "kernel log: the first initcall",
        _ => "kernel log: the first initcall, timed in whole ticks",
    };
    boot.timeline.boundary(Phase::Initcalls(initcalls), first, error.max(boot.initcall_error), evidence);
    boot.timeline.boundary(then, last, error, "kernel log: the last initcall returned");
}

/// True if the kernel reports the started CPUs at `last` or later: `smp: Brought up 1 node, 4 CPUs`, `Brought up 1
/// CPUs`.
fn other_cpus_started_after(boot: &Placing<'_>, last: Ns) -> bool {
    let names = &boot.timeline.names;
    let said = |text: &str| text.contains("Brought up ") && text.contains("CPU");
    boot.timeline.marks.iter().any(|mark| mark.at >= last && said(names.get(mark.name)))
}

/// A log that begins inside an initcall, or among initcalls of which only the returns are there, has no early kernel.
pub(crate) fn only_initcalls(boot: &mut Placing<'_>) {
    let names = &boot.timeline.names;
    let initcalls = boot.timeline.boundaries.iter().filter(|b| matches!(b.phase, Phase::Initcalls(_)));
    let Some(first) = initcalls.map(|b| b.at).min() else { return };
    let begins = boot.timeline.marks.iter().any(|mark| names.get(mark.name).starts_with("Linux version"));
    let excerpt = boot.initcall_error > Ns::ZERO && !begins;
    boot.timeline.boundaries.retain(|b| b.phase != Phase::EarlyKernel || (b.at <= first && !excerpt));
}
