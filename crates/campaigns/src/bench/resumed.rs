//! `bench --continue`: resumes an interrupted bench from its journal. The files and the host must be those of the
//! earlier boots. Otherwise the bench would compare boots of different kinds as if they were of one kind.

use super::{foresee, variant};
use crate::PlannedVariant;
use crate::benches::JOURNAL;
use crate::repeat::check_begun_here;
use crate::{Notes, Watcher};
use anyhow::{Context, bail};
use benchmark::{Boot, Ended, Head, Host, Journal, Journaled, Variant};
use recording::Manifest;
use std::path::Path;
use std::time::Duration;

/// An interrupted bench, ready to resume.
pub struct InterruptedBench {
    pub head: Head,
    pub variants: Vec<PlannedVariant>,
    pub journal: Journal,
    /// The finished boots.
    pub boots: Vec<Boot>,
    /// The number of finished boots at each earlier resume.
    pub continued: Vec<u32>,
}

/// Opens the bench in a folder to resume it.
pub fn open(
    folder: &Path,
    pinned: bool,
    is_trusted: bool,
    watcher: &mut dyn Watcher,
    notes: &dyn Notes,
) -> anyhow::Result<InterruptedBench> {
    let (name, path) = (folder.display(), folder.join(JOURNAL));
    if !path.is_file() {
        bail!("{name} is no bench to go on with: it has no {JOURNAL}");
    }
    // Nothing is written before the bench is known to be the user's own.
    let head_before = check(folder, &benchmark::read(&path)?)?;
    check_begun_here(folder, &head_before, is_trusted, notes)?;
    recording::check_no_link(&folder.join("boots"))
        .with_context(|| format!("{name} cannot go on: its folder boots"))?;
    let (journal, journaled) = Journal::resume(&path)?;
    let head = check(folder, &journaled)?;
    if head != head_before {
        bail!("{name} cannot go on: its {JOURNAL} became another while it was read");
    }
    let boots = journaled.document.boots;
    if !pinned && !head.host_cpus_allowed.is_empty() && head.host_cpus_allowed != machine::pin::allowed() {
        super::pin_to(&head.host_cpus_allowed)?;
    }
    let variants = head.variants.iter().map(varied).collect::<anyhow::Result<Vec<PlannedVariant>>>()?;
    let foreseen = foresee(&variants, watcher)?;
    let changed = changed(&head, &variants, &foreseen);
    if !changed.is_empty() {
        bail!(
            "{name} cannot go on, its boots would not be of the same: {}; undo that, or begin another bench",
            changed.join("; ")
        );
    }
    let continued = journaled.document.continued;
    Ok(InterruptedBench { head, variants, journal, boots, continued })
}

/// The head of a bench that can be resumed.
fn check(folder: &Path, journaled: &Journaled) -> anyhow::Result<Head> {
    let name = folder.display();
    match journaled.document.ended {
        None | Some(Ended::Interrupted | Ended::Error) => {}
        Some(_) => bail!("{name} is finished, there is nothing to go on with: `bootscope show {name}` prints it"),
    }
    if let Err(boot) = benchmark::follow(&journaled.document.head.plan, &journaled.document.boots) {
        bail!(
            "{name} cannot go on: boot {boot} in its {JOURNAL} is missing, or not the one that its plan has there; \
             `bootscope show {name}` prints what there is"
        );
    }
    Ok(journaled.document.head.clone())
}

/// The running time of a bench up to the end of its last boot.
pub fn elapsed(boots: &[Boot]) -> Duration {
    boots
        .last()
        .map_or(Duration::ZERO, |last| Duration::from_nanos(last.began_ns.saturating_add(last.measured.recorded_ns)))
}

fn varied(variant: &Variant) -> anyhow::Result<PlannedVariant> {
    let options = serde_json::from_value(variant.how.clone())
        .with_context(|| format!("variant {}: its options are not such as this bootscope knows", variant.name))?;
    Ok(PlannedVariant { name: variant.name.clone(), settings: variant.settings.clone(), options })
}

/// The changes since the bench began, in words.
fn changed(head: &Head, variants: &[PlannedVariant], foreseen: &[Manifest]) -> Vec<String> {
    let mut changed = Vec::new();
    let mut note = |what: String| {
        if !changed.contains(&what) {
            changed.push(what);
        }
    };
    let was = |what: &str, before: &str, now: &str| format!("{what} was {before:?} and is {now:?}");
    let now = Manifest::begun_now();
    if head.tool_version != now.tool_version {
        note(was("bootscope", &head.tool_version, &now.tool_version));
    }
    if head.host_cpus_allowed != machine::pin::allowed() {
        note(was("--pin", &head.host_cpus_allowed, &machine::pin::allowed()));
    }
    for (before, (varied, manifest)) in head.variants.iter().zip(variants.iter().zip(foreseen)) {
        let after = variant(varied, manifest);
        let Host { cpu, cores, kernel } = &head.host;
        let (cores, cores_now) = (cores.to_string(), manifest.host.cores.to_string());
        for (what, before, now) in [
            ("the host's CPU", cpu, &manifest.host.cpu),
            ("the host's number of CPUs", &cores, &cores_now),
            ("the host's kernel", kernel, &manifest.host.kernel),
            ("QEMU", &before.booted.vmm, &after.booted.vmm),
            ("the accelerator", &before.booted.accelerator, &after.booted.accelerator),
        ] {
            if before != now {
                note(was(what, before, now));
            }
        }
        inputs(before, &after, &mut note);
        options(before, &after, &mut note);
    }
    changed
}

/// Reports files whose content changed.
fn inputs(before: &Variant, after: &Variant, note: &mut impl FnMut(String)) {
    for input in &before.booted.inputs {
        let same = |other: &&benchmark::InputFile| other.role == input.role && other.path == input.path;
        let (role, path) = (&input.role, &input.path);
        match after.booted.inputs.iter().find(same) {
            None => note(format!("the {role} {path} is not booted any more")),
            Some(other) if other.sha256 != input.sha256 => {
                note(format!("the {role} {path} has another content (SHA-256 {} → {})", input.sha256, other.sha256));
            }
            Some(_) => {}
        }
    }
    let was_booted = |input: &&benchmark::InputFile| before.booted.inputs.iter().any(|other| other.path == input.path);
    for input in after.booted.inputs.iter().filter(|input| !was_booted(input)) {
        note(format!("the {} {} was not booted before", input.role, input.path));
    }
}

/// Reports options that changed, by their names in the recorder's own format.
fn options(before: &Variant, after: &Variant, note: &mut impl FnMut(String)) {
    let empty = serde_json::Map::new();
    let [old, new] = [before, after].map(|variant| variant.how.as_object().unwrap_or(&empty));
    let names = old.keys().chain(new.keys().filter(|name| !old.contains_key(*name)));
    for name in names.filter(|name| old.get(*name) != new.get(*name)) {
        let value = |options: &serde_json::Map<_, serde_json::Value>| {
            options.get(name).map_or("nothing".to_owned(), ToString::to_string)
        };
        note(format!("option {name} of variant {} was {} and is {}", before.name, value(old), value(new)));
    }
}
