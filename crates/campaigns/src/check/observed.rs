//! Recordings as observations for budgets: checks that they are boots of one kind. The crate `benchmark` evaluates the
//! times.

use crate::Notes;
use crate::boot_view::BootView;
use crate::opened_boot::{self, OpenedBoot};
use anyhow::{Context, bail};
use benchmark::Measured;
use benchmark::budgets::{About, Noise, Observed};
use evidence::Followed;
use recording::{GuestSpec, Manifest, OutcomeKind, TimeBase};
use std::path::{Path, PathBuf};

/// The boots of one kind, one recording each. A folder stands for all recordings in it.
pub fn recordings(paths: &[&PathBuf], view: &BootView, notes: &dyn Notes) -> anyhow::Result<Observed> {
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
        let mut opened = opened_boot::open_noting_warnings(path, notes)?;
        let manifest = opened.recording.manifest();
        let (to, first) = observed.get_or_insert_with(|| {
            let mut observed = Observed::new(&name, noise(manifest));
            observed.about = about(&opened);
            observed.is_priced = view.model().is_some();
            (observed, manifest.clone())
        });
        same(first, manifest, &all[0], path)?;
        if append(manifest) != append(first) && to.noise == Noise::Repeats {
            to.noise = Noise::Dithered;
        }
        add(to, round, &mut opened, view, notes).with_context(|| format!("cannot read {}", path.display()))?;
    }
    observed.map(|(observed, _)| observed).context("there is no recording to check")
}

/// The recordings in a folder that is not a recording itself, ordered by name.
fn inside(path: &Path) -> Vec<PathBuf> {
    let is_one = |path: &Path| path.join(recording::MANIFEST_NAME).is_file();
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut recordings: Vec<PathBuf> = if is_one(path) { Vec::new() } else { entries.filter(|p| is_one(p)).collect() };
    recordings.sort();
    if recordings.is_empty() { vec![path.to_owned()] } else { recordings }
}

fn noise(manifest: &Manifest) -> Noise {
    if manifest.time_base == TimeBase::GuestVirtual { Noise::Repeats } else { Noise::Clock }
}

/// The machine and the kernel of a recording.
fn about(opened: &OpenedBoot) -> About {
    let (manifest, subject) = (opened.recording.manifest(), &opened.facts.subject);
    let deterministic = manifest.time_base == TimeBase::GuestVirtual;
    // Only a virtual machine runs on a host that is not itself the machine.
    let on_a_host = !subject.accelerator.is_empty() && !deterministic;
    About {
        kernel: subject.kernel.clone(),
        arch: GuestSpec::of(&manifest.how).map(|guest| guest.arch).unwrap_or_default(),
        machine: subject.machine.clone(),
        accelerator: subject.accelerator.clone(),
        cpus: subject.cpus,
        memory_bytes: subject.memory_bytes,
        host_cpu: if on_a_host { manifest.host.cpu.clone() } else { String::new() },
        deterministic,
    }
}

/// Refuses boots of different kernels or with different kinds of time, since they are not of one kind.
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

/// Adds a boot, or counts it as failed.
fn add(
    observed: &mut Observed,
    round: u32,
    opened: &mut OpenedBoot,
    view: &BootView,
    notes: &dyn Notes,
) -> anyhow::Result<()> {
    let manifest = opened.recording.manifest();
    if manifest.outcome.as_ref().is_some_and(|o| o.kind != OutcomeKind::Reached) {
        observed.add_failed();
        return Ok(());
    }
    let mut measured = Measured::default();
    measured.take_milestones(&opened.timeline);
    if let Err(why) = view.cut(opened) {
        notes.note(&format!("{}: {why:#}", opened.recording.path().display()));
        observed.add_failed();
        return Ok(());
    }
    view.price(opened)?;
    let boot = opened.boot(None)?;
    let calls = opened.calls.as_ref().filter(|_| observed.noise != Noise::Clock).map(Followed::tree);
    measured.metrics = boot.facts.metrics;
    measured.traced = Some(!boot.timeline.running.is_empty());
    measured.take_waits(boot.timeline, boot.cost());
    observed.add_recorded(round, (boot.timeline, boot.cost()), &boot.phases, boot.tables(), calls.as_ref(), &measured);
    Ok(())
}

/// The user's kernel command line.
fn append(manifest: &Manifest) -> Option<String> {
    GuestSpec::of(&manifest.how).map(|guest| guest.append)
}
