//! A trial: boots the remedies of findings, and compares their savings with the claims.
//!
//! A trial is a bench with the recording's own guest and a variant of it for each remedy. Its boots, its journal and
//! its history are those of [`bench`](crate::bench). `choice` selects the remedies, `apply_change` changes the options of a
//! boot, and `benchmark::trial` computes the verdicts.

mod apply_change;
mod base_recording;
mod change_error;
mod choice;
mod kernels;
mod sources;

use crate::bench::{self, FinishedBench, ReadyBench, foresee, new_head, refuse_too_few};
use crate::benches::{self, JOURNAL};
use crate::repeat::check_begun_here;
use crate::{Interrupted, Notes, PlannedVariant, Watcher, opened_boot};
use anyhow::{Context, bail};
use base_recording::{BASE_RECORDING, base, refuse_others_files, replace};
use benchmark::tree::Sources;
use benchmark::trial::{Remedy, Saved, Trial, Untried};
use benchmark::{Document, Ended, Head, Plan, Setting, Stop};
use change_error::ChangeError;
use choice::Choice;
use kernels::Kernels;
use machine::{Patch, RecordOptions};
use recording::{Accel, OutcomeKind};
use sources::{default_cache, resumed_sources, sources};
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use timeline::Ns;

/// The user's request for a trial.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The recording; `None` to resume a trial.
    pub recording: Option<PathBuf>,
    /// The findings to try, by rule or subject; empty: the first five remedies that can be made.
    pub findings: Vec<String>,
    /// True to boot another user's recording with all of its options.
    pub trust_recording: bool,
    /// Remedies from the user: words for the kernel's command line.
    pub append: Vec<String>,
    /// Remedies from the user: changes to the guest's code.
    pub patches: Vec<Vec<Patch>>,
    /// Remedies from the user: options of the kernel's configuration, separated by commas.
    pub config: Vec<String>,
    /// The time that the user expects these remedies to save.
    pub claim: Option<Ns>,
    /// The sources to build kernels from.
    pub tree: Option<PathBuf>,
    /// The configuration to build from; `None`: the one that belongs to the recorded kernel.
    pub base_config: Option<PathBuf>,
    /// The folder of built and unpacked kernels; `None`: the user's cache.
    pub cache: Option<PathBuf>,
    /// The number of rounds; `None`: enough for a verdict.
    pub runs: Option<u32>,
    /// True to count instructions in place of time.
    pub deterministic: bool,
    /// The folder of the trial; `None`: one with the date in its name.
    pub folder: Option<PathBuf>,
    /// True to replace the trial in the folder.
    pub force: bool,
    /// The folder of the trial to resume.
    pub continued: Option<PathBuf>,
    /// True to keep the recording of every boot, not only of the failed ones.
    pub keep_recordings: bool,
    /// The history that keeps the trial; `None`: the user's.
    pub history: Option<PathBuf>,
    /// True to keep the trial out of the history.
    pub no_history: bool,
}

pub struct FinishedTrial {
    pub folder: PathBuf,
    /// The boots of each remedy alone.
    pub single: Document,
    /// The boots of all confirmed remedies together, if there are two or more; the error if they failed.
    pub joint: anyhow::Result<Option<Document>>,
}

/// Runs a trial.
///
/// # Errors
/// If the recording cannot be booted again, a remedy cannot be made, or the boots of single remedies fail.
pub fn run(request: &Request, watcher: &mut dyn Watcher, notes: &dyn Notes) -> anyhow::Result<FinishedTrial> {
    let mut tryer = TrialRunner::new(request, watcher, notes)?;
    let single = match &request.continued {
        Some(folder) => tryer.resume(folder)?,
        None => match tryer.begin()? {
            Begin::Boots(begun) => tryer.boot(*begun)?,
            Begin::Nothing(stage) => {
                return Ok(FinishedTrial { folder: stage.folder, single: stage.document, joint: Ok(None) });
            }
        },
    };
    let Stage { folder, document } = single;
    let joint = if is_done(&document) { tryer.together(&folder, &document) } else { Ok(None) };
    Ok(FinishedTrial { folder, single: document, joint })
}

/// The default number of rounds.
const DEFAULT_ROUNDS: u32 = 10;
const DEFAULT_DETERMINISTIC_ROUNDS: u32 = 5;
/// The name of the variant without a remedy.
const BASE: &str = "as recorded";
/// The folder of the boots with all remedies together, in the trial's folder.
pub const TOGETHER: &str = "together";
/// The number of rounds, and true if each boot gets another layout.
struct Rounds {
    given: Option<u32>,
    dither: bool,
}

/// A trial that passed all checks and is not written yet.
struct Staged {
    head: Head,
    variants: Vec<PlannedVariant>,
}

impl Staged {
    fn begin(self, folder: PathBuf, notes: &dyn Notes) -> anyhow::Result<ReadyBench> {
        ReadyBench::new(folder, self.head, self.variants, notes)
    }
}

/// A try before its first boot.
enum Begin {
    /// There are remedies to boot.
    Boots(Box<ReadyBench>),
    /// No remedy can be tried; the document says why.
    Nothing(Box<Stage>),
}

/// The finished boots of a trial.
struct Stage {
    folder: PathBuf,
    document: Document,
}

/// True if all of its rounds are finished.
fn is_done(document: &Document) -> bool {
    document.ended == Some(Ended::Rounds)
}

/// True if its rounds are finished, and the boot as recorded reached its end mark in at least one of them.
pub fn has_result(document: &Document) -> bool {
    is_done(document) && document.results.variants.first().is_some_and(|base| base.total.is_some())
}

/// Runs trials.
struct TrialRunner<'a> {
    request: &'a Request,
    notes: &'a dyn Notes,
    watcher: &'a mut dyn Watcher,
    kernels: Kernels<'a>,
    /// The sources for building kernels.
    sources: Option<Sources>,
}

impl<'a> TrialRunner<'a> {
    fn new(
        request: &'a Request,
        watcher: &'a mut dyn Watcher,
        notes: &'a dyn Notes,
    ) -> anyhow::Result<TrialRunner<'a>> {
        let cache = match &request.cache {
            Some(cache) => cache.clone(),
            None => default_cache().context("neither XDG_CACHE_HOME nor HOME is set: name a folder with --cache")?,
        };
        let cache = std::path::absolute(&cache).with_context(|| format!("cannot use {}", cache.display()))?;
        let sources = match (&request.continued, &request.recording) {
            (Some(folder), _) => {
                let head = benches::read(folder)?.0.head;
                check_begun_here(folder, &head, request.trust_recording, notes)?;
                head.trial
                    .and_then(|trial| trial.sources)
                    .map(|kept| resumed_sources(kept, &cache, request.cache.is_some()))
                    .transpose()?
            }
            (None, Some(recording)) => sources(request, recording, &cache, notes)?,
            (None, None) => None,
        };
        let note = Box::new(|text: &str| notes.note(text));
        let kernels = Kernels::new(cache, sources.clone(), watcher.stop_check(), note);
        if request.continued.is_none() {
            kernels.open()?;
        }
        Ok(TrialRunner { request, notes, watcher, kernels, sources })
    }

    /// The options of the recorded boot as the trial repeats it; true if its claims need another recording.
    fn options(&self, path: &Path) -> anyhow::Result<(RecordOptions, bool)> {
        let request = self.request;
        let mut options = base(path, request.trust_recording, self.notes)?;
        // Otherwise the time of stopped vCPUs would be charged to the remedy.
        options.observe.silence_ms = None;
        options.observe.watch = None;
        let counts = request.deterministic && !options.guest.deterministic;
        if counts {
            options.guest.deterministic = true;
            options.guest.accel = Accel::Auto;
        }
        // The time that a kernel saves by not moving itself must not count for a patch.
        options.guest.fixed_address |= !request.patches.is_empty();
        Ok((options, counts || self.sources.is_some()))
    }

    /// Does everything before the first boot. Removes an earlier trial last, after the last check that can fail.
    fn begin(&mut self) -> anyhow::Result<Begin> {
        let request = self.request;
        let path = request.recording.as_deref().context("give a recording, or --continue DIR")?;
        let (mut options, needs_base) = self.options(path)?;
        self.check_booted(path, &options, needs_base)?;
        choice::check_user_remedies(request, &options, &self.kernels)?;
        let plan = Plan { leaves_out: true, variants: 1, warm_ups: 0, stop: stop(1), seed: 1, ..Plan::default() };
        let foreseen = foresee(&[as_recorded(&options)], self.watcher)?;
        let dated = new_head(plan, &[as_recorded(&options)], &foreseen, false);
        let folder = bench::folder(request.folder.as_deref(), request.force, &dated, "try")?;
        refuse_others_files(&folder, path, needs_base)?;
        if let Some(kernel) = self.kernels.base()? {
            options.guest.kernel = Some(kernel);
            // After the configuration is completed, more changes are known to be made already.
            choice::check_user_remedies(request, &options, &self.kernels)?;
            // Build the kernels first: an error must come before any boot.
            for remedy in choice::user_remedies(request) {
                with_remedy(&options, &remedy, &mut self.kernels)?;
            }
        }
        let base_recording = if needs_base { Some(self.record_base(&options, &folder)?) } else { None };
        let opened = match &base_recording {
            Some(base_recording) => {
                opened_boot::open_noting_warnings(&base_recording.path().join(BASE_RECORDING), self.notes)?
            }
            None => opened_boot::open_noting_warnings(path, self.notes)?,
        };
        let choice = Choice::of(&opened, &options, request, &mut self.kernels)?;
        let followed = Some(options.observe.calls);
        if options.guest.deterministic {
            // A boot without the call trace executes the same code, and is faster.
            options.observe.calls = false;
            options.observe.min_call_ns = None;
        }
        let recording = if needs_base { folder.join(BASE_RECORDING) } else { path.to_owned() };
        let trial = Trial {
            // The trial may be resumed from another folder.
            recording: std::path::absolute(&recording).unwrap_or(recording).display().to_string(),
            remedies: choice.remedies,
            untried: choice.untried,
            together: false,
            followed,
            sources: self.sources.clone(),
        };
        if trial.remedies.is_empty() {
            let nothing = Document::new(Head { trial: Some(trial), ..dated }, Vec::new(), None);
            return Ok(Begin::Nothing(Box::new(Stage { folder, document: nothing })));
        }
        self.check_patches(&options, &folder)?;
        let staged = self.stage(&options, trial, self.rounds())?;
        replace(&folder, base_recording)?;
        Ok(Begin::Boots(Box::new(staged.begin(folder, self.notes)?)))
    }

    /// Boots the guest once with each change to its code, because only a boot shows whether it fits.
    fn check_patches(&mut self, options: &RecordOptions, folder: &Path) -> anyhow::Result<()> {
        for patches in &self.request.patches {
            let made = temporary_folder(folder)?;
            let mut options = RecordOptions { out: made.path().join(BASE_RECORDING), force: false, ..options.clone() };
            options.guest.patches.extend(patches.iter().cloned());
            self.watcher.announce_boot("booting once to see whether the patch fits");
            let recorded = machine::record(&options, self.watcher.observer())?;
            self.watcher.clear();
            if recorded.outcome.kind == OutcomeKind::Interrupted {
                return Err(Interrupted("stopped while the patch was checked; nothing was tried".to_owned()).into());
            }
            if recorded.outcome.kind == OutcomeKind::Unpatched {
                bail!("nothing was tried: {}", recorded.outcome.detail);
            }
            recorded.patched.iter().for_each(|patched| self.notes.note(patched));
        }
        Ok(())
    }

    fn rounds(&self) -> Rounds {
        // One boot of each variant only repeats it. Several boots get another layout each.
        Rounds { given: self.request.runs, dither: self.request.runs != Some(1) }
    }

    /// Prepares the boots of these remedies, each alone, beside the unchanged guest.
    fn stage(&mut self, options: &RecordOptions, mut trial: Trial, rounds: Rounds) -> anyhow::Result<Staged> {
        let mut variants = vec![as_recorded(options)];
        for remedy in &mut trial.remedies {
            variants.push(with_remedy(options, remedy, &mut self.kernels)?);
            remedy.along = self.kernels.along(&remedy.changes);
        }
        let deterministic = options.guest.deterministic;
        let plan = Plan {
            leaves_out: true,
            variants: variants.len(),
            warm_ups: u32::from(!deterministic),
            stop: stop(rounds.given.unwrap_or(if deterministic {
                DEFAULT_DETERMINISTIC_ROUNDS
            } else {
                DEFAULT_ROUNDS
            })),
            seed: machine::monotonic_ns().unsigned_abs(),
            ..Plan::default()
        };
        let foreseen = foresee(&variants, self.watcher)?;
        let mut head = new_head(plan, &variants, &foreseen, rounds.dither);
        let (comparisons, test) = (variants.len() - 1, benchmark::Test::of(&head));
        match rounds.given {
            Some(runs) => refuse_too_few(runs, comparisons, test)?,
            None => {
                let rounds = &mut head.plan.stop.rounds;
                *rounds = benchmark::rounds_least(comparisons, test).max(*rounds);
            }
        }
        head.trial = Some(trial);
        Ok(Staged { head, variants })
    }

    fn boot(&mut self, begun: ReadyBench) -> anyhow::Result<Stage> {
        let over = begun.boot_all(self.request.keep_recordings, self.watcher);
        if !self.request.no_history {
            bench::remember(self.request.history.as_deref(), &over.folder, &over.document, self.notes);
        }
        let FinishedBench { folder, .. } = &over;
        Ok(Stage { folder: folder.clone(), document: over.write_document()? })
    }

    /// Resumes an interrupted trial, up to the end of its single remedies.
    fn resume(&mut self, folder: &Path) -> anyhow::Result<Stage> {
        let (document, _) = benches::read(folder)?;
        if document.head.trial.is_none() {
            bail!("{0} is a bench and no try: `bootscope bench --continue {0}` goes on with it", folder.display());
        }
        if is_done(&document) {
            return Ok(Stage { folder: folder.to_owned(), document });
        }
        let begun = bench::resume(folder, None, self.request.trust_recording, self.watcher, self.notes)?;
        self.boot(begun)
    }

    /// Boots all confirmed remedies together. Returns `None` if fewer than two were confirmed.
    fn together(&mut self, folder: &Path, single: &Document) -> anyhow::Result<Option<Document>> {
        let into = folder.join(TOGETHER);
        if into.join(JOURNAL).is_file() {
            let (document, _) = benches::read(&into)?;
            if is_done(&document) {
                return Ok(Some(document));
            }
            let begun = bench::resume(&into, None, self.request.trust_recording, self.watcher, self.notes)?;
            return Ok(Some(self.boot(begun)?.document));
        }
        let Some(trial) = &single.head.trial else { return Ok(None) };
        let confirmed = choice::confirmed(single);
        if confirmed.len() < 2 {
            return Ok(None);
        }
        let how = single.head.variants[0].how.clone();
        let options: RecordOptions = serde_json::from_value(how).context("the options of the boots")?;
        let (fitting, untried) = choice::fitting(&options, confirmed, &self.kernels, self.watcher.words());
        for Untried { finding, why } in &untried {
            self.notes.note(&format!("{} ({}) is not booted with the others: {why}", finding.rule, finding.about));
        }
        if fitting.len() < 2 {
            return Ok(None);
        }
        let joint = Trial {
            recording: trial.recording.clone(),
            remedies: vec![choice::joint(Path::new(&trial.recording), &fitting)],
            untried,
            together: true,
            followed: trial.followed,
            sources: trial.sources.clone(),
        };
        // Use the rounds of the single remedies, whatever this call requests.
        let rounds = Rounds { given: Some(single.head.plan.stop.rounds), dither: single.head.dithered };
        let begun = self.stage(&options, joint, rounds)?.begin(into, self.notes)?;
        Ok(Some(self.boot(begun)?.document))
    }
}

/// A temporary folder on the disk of `folder`.
fn temporary_folder(folder: &Path) -> anyhow::Result<TempDir> {
    let temporary_folder = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(temporary_folder).with_context(|| format!("cannot make {}", temporary_folder.display()))?;
    let owner_only = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    let made = tempfile::Builder::new().prefix(".try-").permissions(owner_only).tempdir_in(temporary_folder);
    made.with_context(|| format!("cannot make a folder in {}", temporary_folder.display()))
}

fn stop(rounds: u32) -> Stop {
    Stop { rounds, ..Stop::default() }
}

fn as_recorded(options: &RecordOptions) -> PlannedVariant {
    PlannedVariant { name: BASE.to_owned(), settings: Vec::new(), options: options.clone() }
}

/// The guest with a remedy.
fn with_remedy(options: &RecordOptions, remedy: &Remedy, kernels: &mut Kernels) -> Result<PlannedVariant, ChangeError> {
    let mut options = options.clone();
    for change in &kernels::in_order(&remedy.changes) {
        // With several remedies together, one may have made another's change.
        match apply_change::make(change, &mut options, kernels) {
            Ok(()) | Err(ChangeError::AlreadyMade) => {}
            Err(why) => return Err(why),
        }
    }
    let settings: Vec<Setting> = remedy.changes.iter().map(apply_change::setting).collect();
    let name = settings.iter().map(|setting| setting.value.as_str()).collect::<Vec<&str>>().join(", ");
    Ok(PlannedVariant { name, settings, options })
}

/// A price as a claim.
fn claim(price: findings::Price) -> Saved {
    let [low_ns, likely_ns, high_ns] = [price.low, price.likely, price.high].map(|time| time.0 as f64);
    Saved { low_ns, likely_ns, high_ns }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_that_was_stopped_is_an_interruption_and_no_verdict_on_the_remedy() {
        let stopped = anyhow::Error::from(ChangeError::Stopped("the build was stopped".to_owned()));
        assert!(crate::is_interruption(&stopped.context("the remedies could not be booted together")));
        let stopped = anyhow::Error::from(benchmark::tree::TreeError::Stopped("builds".into()));
        assert!(crate::is_interruption(&stopped));
        assert!(crate::is_interruption(&machine::Error::Stopped.into()));
        assert!(!crate::is_interruption(&ChangeError::NoKernel("no".to_owned()).into()));
    }
}
