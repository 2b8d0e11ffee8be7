//! Recordings as budgets see them: what each boot took.

use crate::boot::{self, Opened};
use crate::output::Output;
use anyhow::{Context, bail};
use benchmark::budgets::{self, Kind, Noise, Observed, What};
use evidence::calls::Followed;
use recording::{GuestSpec, Manifest, OutcomeKind, TimeBase};
use std::path::{Path, PathBuf};

/// Boots of one thing, one recording each; a folder of recordings is all of them.
pub fn recordings(paths: &[&PathBuf], output: &Output) -> anyhow::Result<Observed> {
    let mut all = Vec::new();
    for path in paths {
        all.extend(inside(path));
    }
    let name = match paths {
        [one] => one.display().to_string(),
        [first, ..] => format!("{} and {} more", first.display(), paths.len() - 1),
        [] => String::new(),
    };
    let mut observed: Option<(Observed, Manifest)> = None;
    for (round, path) in (0..).zip(&all) {
        let opened = boot::open_warned(path, output)?;
        let manifest = opened.recording.manifest();
        let (to, first) = observed.get_or_insert_with(|| (Observed::new(&name, noise(manifest)), manifest.clone()));
        same(first, manifest, &all[0], path)?;
        if append(manifest) != append(first) && to.noise == Noise::Repeats {
            to.noise = Noise::Dithered;
        }
        add(to, round, &opened).with_context(|| format!("cannot read {}", path.display()))?;
    }
    observed.map(|(observed, _)| observed).context("there is no recording to check")
}

/// The recordings in a folder that is none itself, in order of their names.
fn inside(path: &Path) -> Vec<PathBuf> {
    let is_one = |path: &Path| path.join(recording::MANIFEST_NAME).is_file();
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<PathBuf> = if is_one(path) { Vec::new() } else { entries.filter(|p| is_one(p)).collect() };
    found.sort();
    if found.is_empty() { vec![path.to_owned()] } else { found }
}

fn noise(manifest: &Manifest) -> Noise {
    if manifest.time_base == TimeBase::GuestVirtual { Noise::Repeats } else { Noise::Clock }
}

/// Boots of different kernels, or in different times, are no boots of one thing.
fn same(first: &Manifest, other: &Manifest, first_path: &Path, path: &Path) -> anyhow::Result<()> {
    let differ = |what: &str| {
        format!("{} and {} differ in their {what}: check them one by one", first_path.display(), path.display())
    };
    if first.measured() != other.measured() {
        bail!(differ("kernel, machine, accelerator or CPUs"));
    }
    if first.time_base != other.time_base {
        bail!(differ("time: one counts instructions"));
    }
    Ok(())
}

/// Adds a boot: its total, phases, rows and functions, memory, and instructions where they were counted.
fn add(observed: &mut Observed, round: u32, opened: &Opened) -> anyhow::Result<()> {
    let manifest = opened.recording.manifest();
    if manifest.outcome.as_ref().is_some_and(|o| o.kind != OutcomeKind::Reached) {
        observed.add_failed();
        return Ok(());
    }
    let summary = report::Summary::of(&opened.boot(None)?);
    let mut values = vec![(What::total(), summary.total_ns as f64)];
    values.extend(summary.phases.iter().map(|p| (What::new(Kind::Phase, &p.name), (p.end_ns - p.start_ns) as f64)));
    let rows: Vec<(String, f64)> = summary.wheres.iter().map(|row| (row.name.clone(), row.self_ns as f64)).collect();
    // A function that is no row of its own is told with all that it called.
    let functions =
        summary.functions.iter().map(|f| (format!("{} {}", f.name, f.detail).trim().to_owned(), f.total_ns as f64));
    let functions = functions.filter(|(name, _)| !rows.iter().any(|(row, _)| row == name));
    let named: Vec<(String, f64)> = rows.iter().cloned().chain(functions).collect();
    values.extend(named.iter().map(|(name, ns)| (What::new(Kind::Function, name), *ns)));
    if observed.noise != Noise::Clock {
        values.extend(instructions(opened, summary.total_ns, &named));
    }
    values.extend(budgets::metrics(&summary.metrics));
    observed.add(round, values);
    Ok(())
}

/// As they were counted, where every call was followed; else one is a nanosecond of a deterministic boot.
fn instructions(opened: &Opened, total_ns: i64, named: &[(String, f64)]) -> Vec<(What, f64)> {
    let what = |name: &str| What::new(Kind::Instructions, name);
    let Some(found) = opened.calls.as_ref().map(Followed::tree) else {
        let rows = named.iter().map(|(name, ns)| (what(name), *ns));
        return std::iter::once((what("total"), total_ns as f64)).chain(rows).collect();
    };
    let mut all = vec![(what("total"), found.share.insns as f64)];
    for row in found.profile.functions().iter().filter(|row| !row.bottom) {
        all.push((what(found.names.get(row.name)), row.total as f64));
    }
    all
}

/// The command line that the user gave.
fn append(manifest: &Manifest) -> Option<String> {
    GuestSpec::of(&manifest.how).map(|guest| guest.append)
}
