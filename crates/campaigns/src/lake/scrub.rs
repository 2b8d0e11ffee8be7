//! Removes a machine's identities from boots for a lake: names of rows and titles of findings quote the kernel's log.

use capture::Identities;
use recording::{Manifest, Recording};
use report::{Summary, WhereLine};
use std::borrow::Cow;
use std::collections::HashMap;

/// Replaces the identities in a boot by placeholders. Rows whose names become equal are merged.
///
/// # Errors
/// If a file of the recording cannot be read.
pub fn scrub(
    recording: &Recording,
    machine: Option<&str>,
    summary: &mut Summary,
    manifest: &mut Manifest,
) -> Result<(), recording::Error> {
    let identities = Identities::of(recording, machine)?;
    manifest.change_texts(&mut |text| *text = identities.without(text).into_owned());
    change_names(summary, &identities);
    Ok(())
}

fn change_names(summary: &mut Summary, identities: &Identities) {
    let names = summary.wheres.iter_mut().map(|row| &mut row.name);
    let names = names.chain(summary.phases.iter_mut().map(|phase| &mut phase.name));
    let names = names.chain(summary.initcalls.iter_mut().map(|call| &mut call.name));
    let names = names.chain(summary.units.iter_mut().map(|unit| &mut unit.name));
    let names = names.chain(summary.findings.iter_mut().map(|finding| &mut finding.title));
    let names = names.chain(std::iter::once(&mut summary.subject.kernel));
    let mut changed = false;
    for name in names {
        if let Cow::Owned(without) = identities.without(name) {
            *name = without;
            changed = true;
        }
    }
    if changed {
        join(&mut summary.wheres);
    }
}

/// Merges rows of the same name. The merged row stands in the place of the first.
fn join(rows: &mut Vec<WhereLine>) {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut joined: Vec<WhereLine> = Vec::with_capacity(rows.len());
    for row in rows.drain(..) {
        let next = joined.len();
        match *places.entry(row.name.clone()).or_insert(next) {
            place if place < next => {
                let first = &mut joined[place];
                first.self_ns = first.self_ns.saturating_add(row.self_ns);
                first.total_ns = first.total_ns.saturating_add(row.total_ns);
                first.count = first.count.saturating_add(row.count);
            }
            _ => joined.push(row),
        }
    }
    *rows = joined;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_have_one_name_then_are_one_and_their_sum_stays() {
        let row = |name: &str, self_ns| WhereLine { name: name.to_owned(), self_ns, count: 1, ..WhereLine::default() };
        let rows = vec![row("eth0 52:54:00:12:34:56", 5), row("acpi_init", 7), row("eth0 52:54:00:12:34:57", 2)];
        let mut summary = Summary { wheres: rows, ..Summary::default() };
        change_names(&mut summary, &Identities::default());
        let merged: Vec<_> = summary.wheres.iter().map(|row| (row.name.as_str(), row.self_ns, row.count)).collect();
        assert_eq!(merged, [("eth0 [address]", 7, 2), ("acpi_init", 7, 1)]);
    }
}
