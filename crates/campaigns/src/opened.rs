//! Opens a recording and puts together what views and campaigns need: its timeline, and how it was run.

use crate::Notes;
use analysis::Groups;
use anyhow::{Context, bail};
use benchmark::Values;
use evidence::calls::Followed;
use recording::{Known, Recording};
use report::{Boot, Facts, WarningLine};
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use timeline::{Ns, Timeline};

/// A recording, read.
pub struct Opened {
    /// The folder or packed file.
    pub recording: Recording,
    /// What its evidence says.
    pub timeline: Timeline,
    /// Its calls, if they were followed.
    pub calls: Option<Followed>,
    /// How it was run.
    pub facts: Facts,
    /// The command line that the kernel says it was started with.
    pub command_line: Option<String>,
    /// The folder of a recording that was made of files for this look alone.
    _scratch: Option<TempDir>,
}

/// What tells who did what in a boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToldBy {
    /// Followed calls alone.
    Calls,
    /// A trace of the threads, and followed calls.
    TraceAndCalls,
    /// A log that the kernel kept, a trace alone, or less.
    Other,
}

impl Opened {
    /// The rules to make its rows by: those of a file, or its operating system's.
    pub fn groups(&self, file: Option<&Path>) -> anyhow::Result<Groups> {
        let Some(file) = file else { return Ok(Boot::groups_of(&self.timeline, &self.facts)) };
        let text = recording::read_regular_text(file, recording::SMALL_BYTES_MAX)
            .with_context(|| format!("cannot read {}", file.display()))?;
        Groups::parse(&text).with_context(|| format!("{} has no rules for rows", file.display()))
    }

    /// What tells who did what.
    pub fn told_by(&self) -> ToldBy {
        match self.timeline.cpus_followed_until {
            Some(Ns::MAX) => ToldBy::Calls,
            _ if self.timeline.profile.is_empty() => ToldBy::Other,
            _ => ToldBy::TraceAndCalls,
        }
    }

    /// The boot, analysed, its rows made by the rules of a file or its operating system's.
    pub fn boot(&self, group: Option<&Path>) -> anyhow::Result<Boot<'_>> {
        Ok(Boot::with_groups(&self.timeline, &self.facts, self.groups(group)?))
    }

    /// The same boot up to the same end as its calls tell it, whatever log its kernel kept and whatever was traced.
    pub fn by_calls(&self) -> anyhow::Result<Opened> {
        let until = analysis::total(&self.timeline);
        opened(open_recording(self.recording.path())?, |recording| evidence::read_by_calls(recording, until))
    }
}

/// Reads a recording for a view that does not print its warnings: they go to standard error.
pub fn open_warned(path: &Path, notes: &dyn Notes) -> anyhow::Result<Opened> {
    let opened = open(path)?;
    for warning in WarningLine::all(&opened.timeline) {
        notes.note(&format!("{}: warning: {}", path.display(), warning.text));
    }
    Ok(opened)
}

/// Reads a recording, or a file of evidence that was taken elsewhere.
pub fn open(path: &Path) -> anyhow::Result<Opened> {
    open_files(&[path.to_owned()], &Silent)
}

/// Reads a recording, or files of one boot that were taken elsewhere; `-` is standard input. `notes` gets what each file is.
///
/// # Errors
/// If the path is neither, or several are given and one of them is a recording.
pub fn open_files(paths: &[PathBuf], notes: &dyn Notes) -> anyhow::Result<Opened> {
    let mut refused = None;
    if let [path] = paths {
        match open_recording(path) {
            Ok(recording) => return of_recording(recording),
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
    let imported = crate::import::import(paths, &folder, false, Known::default(), notes);
    imported.map_err(|error| refused.unwrap_or(error))?;
    let opened = of_recording(Recording::open(&folder)?)?;
    Ok(Opened { _scratch: Some(scratch), ..opened })
}

/// True if a file is packed as recordings are, so that its own error says more than that it is no log.
fn is_packed(path: &Path) -> bool {
    const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
    let mut begins = [0; 4];
    let read = std::fs::File::open(path).and_then(|mut file| std::io::Read::read_exact(&mut file, &mut begins));
    read.is_ok() && begins == ZSTD
}

/// Takes no remarks.
struct Silent;

impl Notes for Silent {
    fn note(&self, _: &str) {}
    fn warn(&self, _: &str) {}
}

/// Reads the evidence of a recording that is open.
pub fn of_recording(recording: Recording) -> anyhow::Result<Opened> {
    opened(recording, evidence::read)
}

fn opened(
    recording: Recording,
    read: impl Fn(&Recording) -> Result<evidence::Loaded, recording::Error>,
) -> anyhow::Result<Opened> {
    let loaded = read(&recording).with_context(|| format!("cannot read {}", recording.path().display()))?;
    let facts = Facts::of(
        recording.manifest(),
        evidence::booted(&recording, &loaded)?,
        recording.outcome_word(loaded.panic.is_some()),
        loaded.panic.as_deref(),
        Values::of_recording(&recording)?,
    );
    let command_line = loaded.subject.command_line;
    Ok(Opened { recording, timeline: loaded.timeline, calls: loaded.calls, facts, command_line, _scratch: None })
}

/// Opens a recording without reading what is in it.
pub fn open_recording(path: &Path) -> anyhow::Result<Recording> {
    let recording = Recording::open(path)?;
    refuse_other_folders(&recording)?;
    Ok(recording)
}

/// A folder or an archive without `recording.json` is one only if it holds evidence: the recorder may have been killed early.
pub fn refuse_other_folders(recording: &Recording) -> anyhow::Result<()> {
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
    if crate::benches::journal_of(path).is_some() {
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
