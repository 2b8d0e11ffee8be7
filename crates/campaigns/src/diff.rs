//! Compares two open recordings.

use crate::opened_boot::{ActivitySource, OpenedBoot};
use report::Diff;

/// Compares the evidence that both boots have. If both have a call trace but only one has a thread trace or a log, it
/// compares the call traces: a thread named by only one side would be a false difference. If both have a log, phases
/// and rows come from the log and functions from the call traces, since a log has only annotated functions.
pub fn compared(before: (&str, &OpenedBoot), after: (&str, &OpenedBoot), same: bool) -> anyhow::Result<Diff> {
    let diff_of = |old: &OpenedBoot, new: &OpenedBoot| -> anyhow::Result<Diff> {
        Ok(Diff::new((before.0, &old.boot(None)?), (after.0, &new.boot(None)?), same))
    };
    let [old, new] = [before.1, after.1];
    let followed = old.calls.is_some() && new.calls.is_some();
    let activity_source = old.activity_source();
    if !followed || (activity_source == new.activity_source() && activity_source != ActivitySource::Other) {
        return diff_of(old, new);
    }
    let from_calls = diff_of(&old.from_calls()?, &new.from_calls()?)?;
    Ok(match activity_source == new.activity_source() {
        true => diff_of(old, new)?.with_functions_of(from_calls),
        false => from_calls.although_more_is_known(),
    })
}
