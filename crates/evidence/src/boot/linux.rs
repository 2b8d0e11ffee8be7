//! Rules that hold for Linux only, for evidence of any format: its levels of initcalls as phases, and its panics.
//!
//! It reads what is on the timeline, and no file. The names that it compares are those that the kernel prints.

pub(crate) mod deferrals;
pub(crate) mod excerpt;

use crate::boot::Placing;
use recording::InputRole;
use timeline::{DiagnosticKind, Initcalls, Mark, NameId, Ns, Os, Phase, SpanKind, SpanRow, Timeline};

/// A level of initcalls. Only three of them make a difference to the phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    /// Console initcalls run in the middle of the early kernel and are no phase.
    Console,
    /// Those before other CPUs are started.
    Early,
    /// The last one.
    Late,
    Other,
}

impl Level {
    /// By the name that the kernel's trace and log have for it.
    fn of(name: &str) -> Level {
        match name {
            "console" => Level::Console,
            "early" => Level::Early,
            "late" => Level::Late,
            _ => Level::Other,
        }
    }
}

/// The levels on a timeline, but for the console's.
fn levels_of(timeline: &Timeline) -> impl Iterator<Item = (Level, SpanRow)> + '_ {
    let levels = timeline.spans.iter().map(|(_, span)| span).filter(|span| span.kind == SpanKind::Level);
    let levels = levels.map(|span| (Level::of(timeline.names.get(span.detail)), span));
    levels.filter(|(level, _)| *level != Level::Console)
}

/// True if the levels of the kernel's initcalls are known.
pub(crate) fn knows_levels(timeline: &Timeline) -> bool {
    levels_of(timeline).next().is_some()
}

/// Error of a time that `initcall_debug` prints: its lines are stamped when they are printed.
pub(crate) const LOGGED_ERROR: Ns = Ns::from_us(500);

/// Phases by level of initcalls.
pub(crate) fn levels(boot: &mut Placing<'_>) {
    let (source, entered, error) = match boot.are_levels_logged {
        true => ("kernel log", "kernel log: “entering initcall level”", LOGGED_ERROR),
        false => ("trace", "trace: initcall_level", boot.trace_error),
    };
    let timeline = &mut boot.timeline;
    let found = levels_of(timeline).map(|(level, span)| (level, span.start, span.end, span.detail));
    let mut levels: Vec<(Level, Ns, Ns, NameId)> = found.collect();
    levels.sort_by_key(|level| level.1);
    note_missing(&levels.iter().map(|level| level.3).collect::<Vec<NameId>>(), timeline);
    for (i, &(level, start, end, name)) in levels.iter().enumerate() {
        let which = if level == Level::Early { Initcalls::Early } else { Initcalls::Level(name) };
        timeline.boundary(Phase::Initcalls(which), start, error, entered);
        let evidence = format!("{source}: last initcall of level {} returned", timeline.names.get(name));
        if level == Level::Early && i + 1 < levels.len() {
            timeline.boundary(Phase::StartOtherCpus, end, error, &evidence);
        }
        if i + 1 == levels.len() {
            // A trace that ends before the last level says nothing of what came after it.
            let phase = if level == Level::Late { Phase::HandOver } else { Phase::Unexplained };
            timeline.boundary(phase, end, error, &evidence);
        }
    }
}

/// The levels that every Linux has, in their order.
const ALWAYS: [&str; 7] = ["core", "postcore", "arch", "subsys", "fs", "device", "late"];

/// Counts levels that are not known while one before and one after them is.
fn note_missing(known: &[NameId], timeline: &mut Timeline) {
    let has = |name: &&str| known.iter().any(|level| timeline.names.get(*level) == *name);
    let (first, last) = (ALWAYS.iter().position(has), ALWAYS.iter().rposition(has));
    let between = first.zip(last).map_or(&[][..], |(first, last)| &ALWAYS[first..last]);
    for missing in between.iter().filter(|name| !has(name)) {
        timeline.diagnostics.note_about(DiagnosticKind::InitcallLevelMissing, missing, String::new);
    }
}

/// If nothing says when initcalls ran, the phase “early kernel” has them in it: its name then says so.
pub(crate) fn name_the_kernel(boot: &mut Placing<'_>) {
    // Another kernel has no initcalls.
    let is_other = boot.subject.os.is_known() && boot.subject.os != Os::Linux;
    let named = if is_other { Phase::Kernel } else { Phase::KernelWithInitcalls };
    let timeline = &mut boot.timeline;
    let told_apart = timeline.boundaries.iter().any(|b| matches!(b.phase, Phase::Initcalls(_)));
    let early = timeline.boundaries.iter_mut().filter(|b| !told_apart && b.phase == Phase::EarlyKernel);
    early.for_each(|b| b.phase = named);
}

/// If there is an initrd and process 1 becomes the root's init later, its phase before that is named after the initrd.
pub(crate) fn name_the_initrd(boot: &mut Placing<'_>) {
    if !boot.manifest.inputs.iter().any(|input| InputRole::Initrd.is(&input.role)) {
        return;
    }
    let timeline = &mut boot.timeline;
    let root = timeline.boundaries.iter().filter(|b| b.phase == Phase::UserSpace).map(|b| b.at).max();
    let before = timeline.boundaries.iter_mut().filter(|b| b.phase == Phase::Process1 && Some(b.at) < root);
    before.for_each(|b| b.phase = Phase::Initrd);
}

/// The kernel's messages that say that it panicked.
pub(crate) fn panics(timeline: &Timeline) -> impl Iterator<Item = &Mark> {
    timeline.marks.iter().filter(|mark| timeline.names.get(mark.name).starts_with("Kernel panic"))
}

/// The panics after which the kernel stops. Other lines about a panic only mark the end of an earlier report.
pub(crate) fn fatal_panics(timeline: &Timeline) -> impl Iterator<Item = &Mark> {
    panics(timeline).filter(|mark| timeline.names.get(mark.name).starts_with("Kernel panic - not syncing"))
}
