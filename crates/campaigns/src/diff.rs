//! Compares two open recordings: the evidence that both have, and how they were run.

use crate::opened_boot::{self, ActivitySource, OpenedBoot};
use crate::repeat::Repeated;
use crate::{Notes, Watcher};
use anyhow::{Context, bail};
use machine::RecordOptions;
use recording::{Difference, GuestSpec, OutcomeKind};
use report::Diff;
use std::path::Path;

/// Compares the evidence that both boots have. If both have a call trace but only one has a thread trace or a log, it
/// compares the call traces: a thread named by only one side would be a false difference. If both have a log, phases
/// and rows come from the log and functions from the call traces, since a log has only annotated functions.
pub(crate) fn compared(before: (&str, &OpenedBoot), after: (&str, &OpenedBoot), same: bool) -> anyhow::Result<Diff> {
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

/// Compares two open recordings, and how they were run.
pub fn between(before: (&str, &OpenedBoot), after: (&str, &OpenedBoot)) -> anyhow::Result<Diff> {
    let diff = compared(before, after, same_inputs(before.1, after.1))?;
    Ok(Diff { how_differs: how_differs(before.1, after.1), ..diff })
}

/// Boots both sides several times with dummy arguments of other lengths, and compares the medians. Each side is the name to print and its
/// recording.
///
/// # Errors
/// If a recording cannot be booted again, or a boot does not reach its end mark.
pub fn dithered(
    sides: [(&str, &Path); 2],
    boots: u32,
    is_trusted: bool,
    watcher: &mut dyn Watcher,
    notes: &dyn Notes,
) -> anyhow::Result<Diff> {
    let scratch = recording::private_folder().context("cannot make a folder for the boots")?;
    let mut boot =
        |name: &str, recording| boot_again(recording, boots, is_trusted, &scratch.path().join(name), watcher, notes);
    let [(before_name, before), (after_name, after)] = sides;
    let [(before, of_before), (after, of_after)] = [boot("before", before)?, boot("after", after)?];
    let first = between((before_name, &before), (after_name, &after))?;
    Ok(first.dithered(&of_before, &of_after))
}

/// Boots again as recorded, with dummy arguments, into a folder. Returns the first of these boots, and its differences
/// from each other one.
fn boot_again(
    recording: &Path,
    boots: u32,
    is_trusted: bool,
    into: &Path,
    watcher: &mut dyn Watcher,
    notes: &dyn Notes,
) -> anyhow::Result<(OpenedBoot, Vec<Diff>)> {
    let name = recording.display();
    let next = "record it here with `bootscope record --like` and options of your own, and compare that";
    let options = Repeated::of(recording, is_trusted, notes)?.with_given(|_| false, next)?;
    if !options.guest.deterministic || options.guest.kernel.is_none() {
        bail!(
            "--dither compares deterministic boots of a --kernel, and {name} is none: for others there is `bootscope bench`"
        );
    }
    let mut boot = |round: u32| -> anyhow::Result<OpenedBoot> {
        watcher.announce_boot(&format!("{name}: boot {} of {boots}", round + 1));
        let mut options = RecordOptions { out: into.join(round.to_string()), ..options.clone() };
        options.guest.append = benchmark::dithered(&options.guest.append, round);
        let outcome = machine::record(&options, watcher.observer())?.outcome;
        if outcome.kind != OutcomeKind::Reached {
            bail!("a boot as {name} did not reach its end mark: {}", outcome.detail);
        }
        opened_boot::open(&options.out)
    };
    let first = boot(0)?;
    let mut others = Vec::new();
    for round in 1..boots {
        let other = boot(round)?;
        others.push(compared(("", &first), ("", &other), false)?);
    }
    Ok((first, others))
}

/// The differences in how the two boots were run, as recorded. A changed file name is no difference if the content is
/// known to be the same.
fn how_differs(before: &OpenedBoot, after: &OpenedBoot) -> Vec<Difference> {
    let [before, after] = [before, after].map(|opened| opened.recording.manifest());
    let (Some(guest), Some(other)) = (GuestSpec::of(&before.how), GuestSpec::of(&after.how)) else {
        return Vec::new();
    };
    let mut differences = guest.differences(&other);
    for input in &before.inputs {
        let Some(now) = after.inputs.iter().find(|now| now.role == input.role) else { continue };
        if input.sha256.is_empty() || now.sha256.is_empty() {
            continue;
        }
        if input.sha256 == now.sha256 {
            differences.retain(|difference| difference.what != input.role);
        } else if !differences.iter().any(|difference| difference.what == input.role) {
            let hash = |input: &recording::Input| format!("sha256 {:.12}", input.sha256);
            differences.push(Difference { what: input.role.clone(), before: hash(input), after: hash(now) });
        }
    }
    let around = [("QEMU", &before.vmm.version, &after.vmm.version), ("host", &before.host.cpu, &after.host.cpu)];
    for (what, before, after) in around.into_iter().filter(|(_, before, after)| before != after) {
        differences.push(Difference { what: what.to_owned(), before: before.clone(), after: after.clone() });
    }
    differences
}

/// True if both recordings have the same known inputs and the same guest options, however they were observed.
fn same_inputs(before: &OpenedBoot, after: &OpenedBoot) -> bool {
    let [before, after] = [before, after].map(|opened| opened.recording.manifest());
    let hashes = |manifest: &recording::Manifest| -> Vec<(String, String)> {
        manifest.inputs.iter().map(|input| (input.role.clone(), input.sha256.clone())).collect()
    };
    let guest = GuestSpec::of(&before.how);
    let inputs_are_known = guest.is_some() && before.inputs.iter().all(|input| !input.sha256.is_empty());
    inputs_are_known && guest == GuestSpec::of(&after.how) && hashes(before) == hashes(after)
}
