//! Opens a recording and collects the data for views and campaigns: its timeline, and how it was run.

use crate::import::Unusable;
use crate::{Notes, milestone_end};
use analysis::{Bound, Groups, MachineModel};
use anyhow::{Context, bail};
use benchmark::Values;
use evidence::Followed;
use recording::{GuestSpec, Known, Recording};
use report::{Boot, Facts, ModelDocument, Priced, WarningLine};
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use timeline::{DiagnosticKind, Ns, Timeline};

/// An open recording with its evaluated evidence.
pub struct OpenedBoot {
    /// The folder or packed file.
    pub recording: Recording,
    /// The timeline built from its evidence.
    pub timeline: Timeline,
    /// Its call trace, if calls were recorded.
    pub calls: Option<Followed>,
    /// The facts of how it was run.
    pub facts: Facts,
    /// The boot as recorded, and the model whose prices `timeline` has; `None` without a model.
    pricing: Option<Pricing>,
    /// The command line that the kernel reports.
    pub command_line: Option<String>,
    /// The temporary folder of a recording that was imported only for this view.
    _scratch: Option<TempDir>,
}

/// A priced boot as it was recorded.
struct Pricing {
    recorded: Timeline,
    document: ModelDocument,
    model: MachineModel,
}

/// The source of the activities in a boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivitySource {
    /// A call trace alone.
    Calls,
    /// A trace of the threads, and a call trace.
    TraceAndCalls,
    /// A log from the kernel, a trace of the threads alone, or less.
    Other,
}

impl OpenedBoot {
    /// The rules for its rows: those in `file`, or those of its operating system.
    pub fn groups(&self, file: Option<&Path>) -> anyhow::Result<Groups> {
        let Some(file) = file else { return Ok(Boot::groups_of(&self.timeline, &self.facts)) };
        let text = recording::read_regular_text(file, recording::SMALL_BYTES_MAX)
            .with_context(|| format!("cannot read {}", file.display()))?;
        Groups::parse(&text).with_context(|| format!("{} has no rules for rows", file.display()))
    }

    /// The source of its activities.
    pub fn activity_source(&self) -> ActivitySource {
        match self.timeline.cpus_followed_until {
            Some(Ns::MAX) => ActivitySource::Calls,
            _ if self.timeline.profile.is_empty() => ActivitySource::Other,
            _ => ActivitySource::TraceAndCalls,
        }
    }

    /// The analysed boot, with rows by the rules of a file or of its operating system.
    pub fn boot(&self, group: Option<&Path>) -> anyhow::Result<Boot<'_>> {
        let mut boot = Boot::with_groups(&self.timeline, &self.facts, self.groups(group)?);
        if let Some(pricing) = &self.pricing {
            let Pricing { recorded, document, model } = pricing;
            let arch = self.arch();
            let [low, high] = [Bound::Low, Bound::High].map(|bound| analysis::priced(recorded, &arch, model, bound));
            let (low, high) = (low?, high?);
            let limits = [&low, &high].map(|limit| Boot::with_groups(limit, &self.facts, boot.groups().clone()));
            let model = (document.name.as_str(), document.source.as_str());
            boot.priced = Some(Priced::new(model, analysis::counted(recorded), [&limits[0], &limits[1]]));
        }
        Ok(boot)
    }

    /// Gives the boot the prices of a machine model. All its times are then those of the model's machine.
    ///
    /// # Errors
    /// If it is not a deterministic boot, or the model is of another architecture.
    pub fn price(&mut self, (document, model): (ModelDocument, MachineModel)) -> anyhow::Result<()> {
        let priced = analysis::priced(&self.timeline, &self.arch(), &model, Bound::Value)?;
        let recorded = std::mem::replace(&mut self.timeline, priced);
        self.pricing = Some(Pricing { recorded, document, model });
        Ok(())
    }

    /// The guest's architecture, as QEMU names it.
    fn arch(&self) -> String {
        GuestSpec::of(&self.recording.manifest().how).unwrap_or_default().arch
    }

    /// The same boot up to the same end, with activities only from its call trace.
    pub fn from_calls(&self) -> anyhow::Result<OpenedBoot> {
        let recorded = self.pricing.as_ref().map_or(&self.timeline, |pricing| &pricing.recorded);
        let until = analysis::total(recorded);
        let mut boot =
            opened(open_recording(self.recording.path())?, |recording| evidence::read_by_calls(recording, until))?;
        if let Some(Pricing { document, model, .. }) = &self.pricing {
            boot.price((document.clone(), model.clone()))?;
        }
        Ok(boot)
    }
}

/// Reads a recording for a view that does not print its warnings. They go to standard error.
pub fn open_noting_warnings(path: &Path, notes: &dyn Notes) -> anyhow::Result<OpenedBoot> {
    let opened = open(path)?;
    note_warnings(&opened, path, notes);
    Ok(opened)
}

/// Notes the warnings of an open boot.
pub(crate) fn note_warnings(opened: &OpenedBoot, path: &Path, notes: &dyn Notes) {
    for warning in WarningLine::all(&opened.timeline) {
        notes.note(&format!("{}: warning: {}", path.display(), warning.text));
    }
}

/// Reads a recording, or one file of imported evidence.
pub fn open(path: &Path) -> anyhow::Result<OpenedBoot> {
    open_files(&[path.to_owned()], None, &Silent)
}

/// Reads a recording, or files of imported evidence from one boot; `-` is standard input. `notes` gets the format of
/// each file. `boot` chooses one of several in them: 0 is the last, -1 the one before.
///
/// # Errors
/// If the path is neither, or if several paths are given and one of them is a recording.
pub fn open_files(paths: &[PathBuf], boot: Option<i32>, notes: &dyn Notes) -> anyhow::Result<OpenedBoot> {
    let mut refused = None;
    if let [path] = paths {
        match open_recording(path) {
            Ok(_) if boot.is_some() => bail!("{}: --boot is for logs, and this is a recording", path.display()),
            Ok(recording) => return from_recording(recording),
            Err(error) if path.as_os_str() != "-" && (!path.is_file() || is_packed(path)) => return Err(error),
            Err(error) => refused = Some(error),
        }
    }
    if let Some(path) = paths.iter().find(|path| path.is_dir() || Recording::open(path).is_ok_and(|r| r.has_manifest()))
    {
        bail!("{} is a recording: give one recording, or files of one boot", path.display());
    }
    let scratch = recording::private_folder().context("cannot make a temporary folder")?;
    let folder = scratch.path().join("imported");
    let imported = crate::import::import(paths, &folder, false, Known { boot, ..Known::default() }, notes);
    imported.map_err(|error| if error.is::<Unusable>() { error } else { refused.unwrap_or(error) })?;
    let opened = from_recording(Recording::open(&folder)?)?;
    Ok(OpenedBoot { _scratch: Some(scratch), ..opened })
}

/// True if a file is compressed like a recording. Its own error then says more than that it is not a log.
fn is_packed(path: &Path) -> bool {
    const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
    let mut begins = [0; 4];
    let read = std::fs::File::open(path).and_then(|mut file| std::io::Read::read_exact(&mut file, &mut begins));
    read.is_ok() && begins == ZSTD
}

/// Drops all remarks.
struct Silent;

impl Notes for Silent {
    fn note(&self, _: &str) {}
    fn warn(&self, _: &str) {}
}

/// Reads the evidence of an open recording.
pub fn from_recording(recording: Recording) -> anyhow::Result<OpenedBoot> {
    opened(recording, evidence::read)
}

fn opened(
    recording: Recording,
    read: impl Fn(&Recording) -> Result<evidence::Loaded, recording::Error>,
) -> anyhow::Result<OpenedBoot> {
    let loaded = read(&recording).with_context(|| format!("cannot read {}", recording.path().display()))?;
    let facts = Facts::of(
        recording.manifest(),
        evidence::booted(&recording, &loaded)?,
        recording.outcome_word(loaded.panic.is_some()),
        loaded.panic.as_deref(),
        Values::of_recording(&recording)?,
    );
    let command_line = loaded.subject.command_line;
    let until = recording.manifest().until.clone();
    let mut timeline = loaded.timeline;
    if let Some(boot) = recording.manifest().boot {
        if timeline.diagnostics.count(DiagnosticKind::LogBootMissing) > 0 {
            bail!("the log holds no boot {boot}: without --boot a warning names those that it holds");
        }
    }
    if !until.is_empty() {
        milestone_end::end_at(&until, &mut timeline, loaded.calls.is_some())?;
    }
    Ok(OpenedBoot { recording, timeline, calls: loaded.calls, facts, command_line, pricing: None, _scratch: None })
}

/// Opens a recording without reading what is in it.
pub fn open_recording(path: &Path) -> anyhow::Result<Recording> {
    let recording = Recording::open(path)?;
    check_is_recording(&recording)?;
    Ok(recording)
}

/// A folder or an archive without `recording.json` is one only if it holds evidence: the recorder may have been killed early.
pub fn check_is_recording(recording: &Recording) -> anyhow::Result<()> {
    const ITS_OWN: [&str; 5] = [recording::MANIFEST_NAME, "console.log", "trace.txt", "kmsg.log", "tslog.txt"];
    let path = recording.path();
    if recording.has_manifest() || recording.names().any(|name| ITS_OWN.contains(&name)) {
        return Ok(());
    }
    if path.is_file() {
        bail!(
            "{} is not a recording: it is an archive without {} and without evidence under a recorder's names; import \
             its files instead",
            path.display(),
            recording::MANIFEST_NAME
        );
    }
    if crate::benches::journal_path(path).is_some() {
        let path = path.display();
        bail!(
            "{path} is a bench: show, export, report, check and history --add take it; recordings that it kept are in {path}/boots"
        );
    }
    if path.join(benchmark::range::SEARCH).is_file() {
        bail!(
            "{0} is a search among commits: the same `range --bisect` prints it again; its benches are {0}/step-…",
            path.display()
        );
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let inside = entries.filter(|e| e.path().join(recording::MANIFEST_NAME).exists());
    let inside: Vec<String> = inside.map(|e| e.path().display().to_string()).collect();
    match inside.is_empty() {
        true => bail!("{} is not a recording: it has no {}", path.display(), recording::MANIFEST_NAME),
        false => bail!("{} is not a recording; recordings in it: {}", path.display(), inside.join(", ")),
    }
}
