//! Sampled stacks of other tools, with the sums that `awk` finds in the same files.

use super::imports::imported;
use timeline::{DiagnosticKind, Timeline};

fn totals(timeline: &Timeline, function: &str) -> (u64, u64, u64) {
    let sampled = timeline.sampled.as_ref().unwrap();
    let events = sampled.events();
    let [event] = &events[..] else { panic!("{events:?}") };
    let functions = event.functions();
    let function = functions.iter().find(|f| timeline.names.get(f.name) == function).unwrap();
    (event.all.samples, function.own.samples, function.total.samples)
}

#[test]
fn folded_stacks_are_samples() {
    let timeline = imported(&["stacks/folded-java.txt"]);
    assert_eq!(totals(&timeline, "java"), (36, 0, 35));
    // The file was cut at a column.
    assert_eq!(timeline.diagnostics.count(DiagnosticKind::SampleUnreadable), 16);
}

#[test]
fn stacks_of_dtrace_are_samples() {
    let timeline = imported(&["stacks/dtrace-illumos.txt"]);
    assert_eq!(totals(&timeline, "genunix`cv_broadcast"), (4, 1, 1));
}
