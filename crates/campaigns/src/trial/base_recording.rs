//! The recording that the claims of a trial are about: the user's own, if its boot can be repeated on this machine, or one that the
//! trial makes beside its folder.

use super::{TOGETHER, TrialRunner, temporary_folder};
use crate::bench;
use crate::benches::{self, JOURNAL};
use crate::repeat::Repeated;
use crate::{Interrupted, Notes, opened_boot};
use anyhow::{Context, bail};
use machine::RecordOptions;
use recording::{Manifest, OutcomeKind};
use std::path::Path;
use tempfile::TempDir;

/// The name of the trial's own recording for claims. A trial makes it if the user's recording is of another kernel, or
/// if that has times and the trial counts instructions.
pub(super) const BASE_RECORDING: &str = "base";

/// The options of the recorded boot.
pub(super) fn base(path: &Path, is_trusted: bool, notes: &dyn Notes) -> anyhow::Result<RecordOptions> {
    let recording = opened_boot::open_recording(path)?;
    if recording.manifest().how.is_null() {
        bail!(
            "{} was imported, and does not say how it was booted: record that kernel with `bootscope record --kernel \
             FILE`, and try that recording",
            path.display()
        );
    }
    let next = "record it here with `bootscope record --like` and options of your own, and try that";
    Repeated::of(path, is_trusted, notes)?.with_given(|_| false, next)
}

impl TrialRunner<'_> {
    /// Records the guest again, beside the folder. A claim in time says nothing about a boot counted in instructions,
    /// nor does a claim about one kernel about another.
    pub(super) fn record_base(&mut self, options: &RecordOptions, folder: &Path) -> anyhow::Result<TempDir> {
        let made = temporary_folder(folder)?;
        let why =
            if self.sources.is_some() { "is of another kernel" } else { "has times, and instructions are counted" };
        self.notes.note(&format!("the recording {why}: the boot is recorded once more, for its claims"));
        self.watcher.announce_boot("recording once more");
        let options = RecordOptions { out: made.path().join(BASE_RECORDING), force: false, ..options.clone() };
        let recorded = machine::record(&options, self.watcher.observer())?;
        self.watcher.clear();
        if recorded.outcome.kind == OutcomeKind::Interrupted {
            return Err(
                Interrupted("stopped while the boot was recorded once more; nothing was tried".to_owned()).into()
            );
        }
        if recorded.outcome.kind != OutcomeKind::Reached {
            let (outcome, detail) = (recorded.manifest.outcome_word(), &recorded.outcome.detail);
            bail!("recorded once more, the boot does not reach its end mark: {outcome} ({detail})");
        }
        Ok(made)
    }

    /// Checks that the recorded boot can be repeated, since claims hold only for one kernel and one accelerator.
    pub(super) fn check_booted(
        &mut self,
        path: &Path,
        options: &RecordOptions,
        needs_base: bool,
    ) -> anyhow::Result<()> {
        let foreseen = machine::foresee(options, self.watcher.observer());
        self.watcher.clear();
        let next = || {
            format!(
                "{} cannot be booted again as it was recorded; put back what is missing, or record anew and try that",
                path.display()
            )
        };
        let foreseen = foreseen.with_context(next)?;
        let recorded = opened_boot::open_recording(path)?;
        let recorded = recorded.manifest();
        if recorded.outcome.as_ref().is_some_and(|outcome| outcome.kind != OutcomeKind::Reached) {
            bail!(
                "{} did not reach its end mark ({}), so there is no length to compare with: record a boot that does",
                path.display(),
                recorded.outcome_word()
            );
        }
        for input in &recorded.inputs {
            let same = foreseen.inputs.iter().find(|now| now.role == input.role && now.path == input.path);
            if same.is_some_and(|now| now.sha256 != input.sha256) {
                bail!(
                    "the {} {} has another content than when {} was recorded: record it again, and try that",
                    input.role,
                    input.path,
                    path.display()
                );
            }
        }
        // If the guest is recorded again, its claims are from this machine.
        if needs_base {
            return Ok(());
        }
        for note in differences(recorded, &foreseen).with_context(|| format!("{} cannot be tried", path.display()))? {
            self.notes.note(&note);
        }
        Ok(())
    }
}

/// True if the trial in the folder made its base recording itself. Otherwise a recording of that name is the user's.
pub(super) fn has_own_base_recording(folder: &Path) -> anyhow::Result<bool> {
    let trial = benches::read(folder)?.0.head.trial;
    let base_recording = folder.join(BASE_RECORDING).canonicalize();
    Ok(trial.is_some_and(|trial| Path::new(&trial.recording).canonicalize().ok() == base_recording.ok()))
}

/// Refuses a folder that contains the recording, or files that no trial wrote.
pub(super) fn refuse_others_files(folder: &Path, recording: &Path, needs_base: bool) -> anyhow::Result<()> {
    let Ok(canonical) = folder.canonicalize() else { return Ok(()) };
    if recording.canonicalize().is_ok_and(|recording| recording.starts_with(&canonical)) {
        bail!(
            "{} lies inside {}, where the try would be: name another folder with -o",
            recording.display(),
            folder.display()
        );
    }
    if folder.join(JOURNAL).exists() {
        let (document, _) = benches::read(folder)?;
        if document.head.trial.is_none() {
            bail!("{} is a bench and no try, and is not replaced: name another folder with -o", folder.display());
        }
        if needs_base && folder.join(BASE_RECORDING).exists() && !has_own_base_recording(folder)? {
            bail!("{} has {BASE_RECORDING}, which its try did not make: name another folder with -o", folder.display());
        }
        return Ok(());
    }
    let parts: &[&str] = if needs_base { &[TOGETHER, BASE_RECORDING, "boots"] } else { &[TOGETHER, "boots"] };
    match parts.iter().find(|part| folder.join(part).exists()) {
        Some(part) => bail!("{} has {part}, which no try made: name another folder with -o", folder.display()),
        None => Ok(()),
    }
}

/// The differences between these boots and the recorded one that affect its claims, in words.
///
/// # Errors
/// If the accelerator differs: a saving under one says nothing about the other.
fn differences(recorded: &Manifest, foreseen: &Manifest) -> anyhow::Result<Vec<String>> {
    let (was, is) = (&recorded.subject.accelerator, &foreseen.subject.accelerator);
    if !was.is_empty() && !is.is_empty() && was != is {
        bail!(
            "it was recorded with {was} and would be booted with {is}, where its claims say nothing: record it again \
             here and try that, or give --deterministic"
        );
    }
    let of = |what: &str, was: &str, is: &str| {
        (!was.is_empty() && !is.is_empty() && was != is)
            .then(|| format!("the recording's claims are of another {what}: {was}, and here {is}"))
    };
    let vmm = of("QEMU", &recorded.vmm.version, &foreseen.vmm.version);
    let host = of("host CPU", &recorded.host.cpu, &foreseen.host.cpu);
    Ok(vmm.into_iter().chain(host).collect())
}

/// Removes an earlier trial from the folder, and puts this trial's own recording there.
pub(super) fn replace(folder: &Path, base_recording: Option<TempDir>) -> anyhow::Result<()> {
    if folder.join(JOURNAL).is_file() {
        let _ = std::fs::remove_dir_all(folder.join(TOGETHER));
        if has_own_base_recording(folder)? {
            let _ = std::fs::remove_dir_all(folder.join(BASE_RECORDING));
        }
    }
    bench::clear(folder);
    if let Some(base_recording) = base_recording {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        std::fs::rename(base_recording.path().join(BASE_RECORDING), folder.join(BASE_RECORDING))
            .with_context(|| format!("cannot make {}", folder.join(BASE_RECORDING).display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{BASE, stop};
    use super::*;
    use benchmark::trial::Trial;
    use benchmark::{Head, Plan};
    use std::path::PathBuf;

    fn manifest(accelerator: &str, vmm: &str) -> Manifest {
        let mut manifest = Manifest::begun_now();
        manifest.subject.accelerator = accelerator.to_owned();
        manifest.vmm.version = vmm.to_owned();
        manifest
    }

    #[test]
    fn claims_of_another_accelerator_are_refused() {
        let why = differences(&manifest("kvm", "7.2"), &manifest("tcg", "7.2")).unwrap_err().to_string();
        assert!(why.contains("recorded with kvm") && why.contains("--deterministic"), "{why}");
        assert_eq!(differences(&manifest("tcg", "7.2"), &manifest("tcg", "7.2")).unwrap(), [""; 0]);
        let notes = differences(&manifest("tcg", "7.2"), &manifest("tcg", "8.0")).unwrap();
        assert!(matches!(&notes[..], [note] if note.contains("another QEMU: 7.2, and here 8.0")), "{notes:?}");
        assert!(differences(&manifest("", ""), &manifest("tcg", "8.0")).unwrap().is_empty(), "nobody knows");
    }

    #[test]
    fn force_removes_the_recording_that_the_try_made_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(BASE_RECORDING)).unwrap();
        let made = |recording: PathBuf| {
            let trial = Some(Trial { recording: recording.display().to_string(), ..Trial::default() });
            let plan = Plan { leaves_out: true, variants: 1, warm_ups: 0, stop: stop(1), seed: 1, ..Plan::default() };
            let head = Head { trial, ..Head::of(plan, vec![benchmark::Variant::named(BASE)]) };
            let journal = folder.path().join(JOURNAL);
            let _ = std::fs::remove_file(&journal);
            drop(benchmark::Journal::create(&journal, &head).unwrap());
            has_own_base_recording(folder.path()).unwrap()
        };
        assert!(made(folder.path().join(BASE_RECORDING)));
        assert!(!made("/elsewhere".into()), "that is the user's own");
        let why = refuse_others_files(folder.path(), Path::new("/elsewhere"), true).unwrap_err().to_string();
        assert!(why.contains("its try did not make"), "{why}");
        assert!(refuse_others_files(folder.path(), Path::new("/elsewhere"), false).is_ok());
    }
}
