//! Reading a recording, from its folder or packed.
//!
//! What can be read is read: a missing or damaged manifest, a file that was still being written and
//! things that have no place in a recording are diagnostics. Only a later schema, something that is
//! no recording at all, and a packed file that tries to climb out are errors.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::lock::Locked;
use crate::manifest::{BYTES_OF_MANIFEST_MAX, Manifest, OutcomeKind, SCHEMA_VERSION, State, Unreadable};
use crate::write::files_in;
use crate::{BYTES_MAX, Diagnostic, Error, MANIFEST_NAME, Oddity, PARTIAL_SUFFIX, open_regular, packed};

/// A recording that is open for reading.
#[derive(Debug)]
pub struct Recording {
    path: PathBuf,
    manifest: Manifest,
    /// What was odd about it.
    pub diagnostics: Vec<Diagnostic>,
    condition: Condition,
    files: Source,
}

/// What became of a recording, as far as the folder says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Its recorder finished it.
    Finished,
    /// Its recorder is at work at this moment.
    AtWork,
    /// Its recorder was killed.
    Killed,
    /// The manifest does not say.
    Unknown(NotKnown),
}

/// Why a manifest does not say what became of its recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotKnown {
    /// There is no manifest.
    Missing,
    /// It cannot be read: what its parser found.
    Damaged(String),
    /// It has no state.
    NoState,
}

/// A file that is not there as the manifest lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Its name.
    pub file: String,
    /// Its size when it was recorded.
    pub recorded_bytes: u64,
    /// What is there of it; none if the file is missing.
    pub found_bytes: Option<u64>,
}

/// Where the files are: names as they are stored, sorted, and sizes.
#[derive(Debug)]
enum Source {
    Folder(Vec<(String, u64)>),
    Packed(packed::Entries),
}

impl Recording {
    /// Opens a folder or a packed recording.
    ///
    /// # Errors
    /// If it is neither, if a later bootscope wrote it, or if a packed one holds what none should.
    pub fn open(path: &Path) -> Result<Recording, Error> {
        let meta = fs::metadata(path).map_err(Error::io("open", path))?;
        let mut diagnostics = Vec::new();
        let (files, manifest) = if meta.is_dir() {
            open_folder(path, &mut diagnostics)?
        } else if meta.is_file() {
            let mut entries = packed::read(path, &mut diagnostics)?;
            let manifest = entries.remove(MANIFEST_NAME);
            (Source::Packed(entries), manifest)
        } else {
            return Err(Error::NotARecording { path: path.to_path_buf() });
        };
        let (manifest, not_known) = understand(path, manifest, &mut diagnostics)?;
        let condition = match (not_known, manifest.state) {
            (Some(why), _) => Condition::Unknown(why),
            (None, State::Unknown) => Condition::Unknown(NotKnown::NoState),
            (None, State::Finished) => Condition::Finished,
            (None, State::Running) if meta.is_dir() && is_recorded_into(path) => Condition::AtWork,
            (None, State::Running) => Condition::Killed,
        };
        let recording = Recording { path: path.to_path_buf(), manifest, diagnostics, condition, files };
        Ok(recording.with_partial_files_noted())
    }

    /// Whether its recorder finished it.
    #[must_use]
    pub fn condition(&self) -> &Condition {
        &self.condition
    }

    /// How the boot ended, as one word. `panicked` is whether its evidence says that the kernel panicked.
    #[must_use]
    pub fn outcome_word(&self, panicked: bool) -> &'static str {
        match self.condition {
            Condition::Finished if panicked => OutcomeKind::Panic.as_str(),
            // A killed recorder leaves a manifest that still says it runs.
            Condition::Killed => OutcomeKind::Interrupted.as_str(),
            _ => self.manifest.outcome_word(),
        }
    }

    /// Whether it has a manifest, readable or not.
    #[must_use]
    pub fn has_manifest(&self) -> bool {
        !self.diagnostics.iter().any(|odd| odd.kind == Oddity::MissingManifest)
    }

    /// The files that the manifest lists and that are missing, or shorter than it says.
    #[must_use]
    pub fn lost(&self) -> Vec<Lost> {
        let size = |name: &str| self.stored().find(|(stored, _)| *stored == name).map(|(_, bytes)| bytes);
        let lost = self.manifest.evidence.iter().map(|listed| Lost {
            file: listed.file.clone(),
            recorded_bytes: listed.bytes,
            found_bytes: size(&listed.file).or_else(|| size(&format!("{}{PARTIAL_SUFFIX}", listed.file))),
        });
        lost.filter(|lost| lost.found_bytes.is_none_or(|found| found < lost.recorded_bytes)).collect()
    }

    /// The files that are larger than [`BYTES_MAX`], which [`Recording::read`] refuses, and their sizes. The others can be read.
    pub fn too_large(&self) -> impl Iterator<Item = (&str, u64)> {
        let large = self.stored().filter(|(_, bytes)| *bytes > BYTES_MAX);
        large.map(|(name, bytes)| (name.strip_suffix(PARTIAL_SUFFIX).unwrap_or(name), bytes))
    }

    /// The path it was opened from.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How it was made and how it ended.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The names of its files, sorted, without the manifest. A file that was never finished has its
    /// intended name here, unless there is a finished one too.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let mut names: Vec<&str> =
            self.stored().map(|(name, _)| name.strip_suffix(PARTIAL_SUFFIX).unwrap_or(name)).collect();
        names.sort_unstable();
        names.dedup();
        names.into_iter()
    }

    /// The content of a file; none if the recording has no such file.
    ///
    /// # Errors
    /// If it is there but cannot be read, or is larger than 1 GiB.
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let Some(stored) = self.stored_as(name) else {
            return Ok(None);
        };
        match &self.files {
            Source::Packed(entries) => Ok(entries.get(&stored).cloned()),
            Source::Folder(_) => read_file(&self.path.join(stored)).map(Some),
        }
    }

    /// The beginning of a file, so many bytes at most; as [`Recording::read`] otherwise.
    ///
    /// # Errors
    /// If it exists and cannot be read.
    pub fn read_head(&self, name: &str, most: usize) -> Result<Option<Vec<u8>>, Error> {
        let Some(stored) = self.stored_as(name) else {
            return Ok(None);
        };
        if let Source::Packed(entries) = &self.files {
            return Ok(entries.get(&stored).map(|bytes| bytes[..bytes.len().min(most)].to_vec()));
        }
        read_beginning(&self.path.join(stored), most).map(Some)
    }

    /// The name that a file is stored under: its own, or that of one which was not finished.
    fn stored_as(&self, name: &str) -> Option<String> {
        let names = [name.to_owned(), format!("{name}{PARTIAL_SUFFIX}")];
        names.into_iter().find(|wanted| self.stored().any(|(stored, _)| stored == wanted))
    }

    /// Names as they are stored, and sizes.
    fn stored(&self) -> Box<dyn Iterator<Item = (&str, u64)> + '_> {
        match &self.files {
            Source::Folder(files) => Box::new(files.iter().map(|(name, bytes)| (name.as_str(), *bytes))),
            Source::Packed(entries) => {
                Box::new(entries.iter().map(|(name, content)| (name.as_str(), content.len() as u64)))
            }
        }
    }

    fn with_partial_files_noted(mut self) -> Self {
        let partial: Vec<String> =
            self.stored().filter_map(|(name, _)| name.strip_suffix(PARTIAL_SUFFIX)).map(str::to_owned).collect();
        for detail in partial {
            self.diagnostics.push(Diagnostic { kind: Oddity::UnfinishedFile, detail });
        }
        self
    }
}

fn open_folder(path: &Path, diagnostics: &mut Vec<Diagnostic>) -> Result<(Source, Option<Vec<u8>>), Error> {
    let found = files_in(path)?;
    for detail in found.other {
        diagnostics.push(Diagnostic { kind: Oddity::IgnoredEntry, detail });
    }
    let files = found.plain;
    let manifest_path = path.join(MANIFEST_NAME);
    let manifest = if manifest_path.symlink_metadata().is_ok_and(|m| m.is_file()) {
        // One byte more than a manifest may have shows that it has more.
        Some(read_beginning(&manifest_path, BYTES_OF_MANIFEST_MAX + 1)?)
    } else {
        None
    };
    if manifest.is_none() && files.is_empty() {
        return Err(Error::NotARecording { path: path.to_path_buf() });
    }
    Ok((Source::Folder(files), manifest))
}

/// Whether a recorder holds the folder at this moment. Where locks do not work, nobody does.
fn is_recorded_into(path: &Path) -> bool {
    let Ok(folder) = File::open(path) else { return false };
    Locked::is_taken(&folder)
}

/// Turns the text of `recording.json`, if any, into a manifest, with diagnostics for what it lacks; if it says nothing, why.
fn understand(
    path: &Path,
    text: Option<Vec<u8>>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<(Manifest, Option<NotKnown>), Error> {
    let mut note = |kind, detail: &str| {
        let detail = detail.to_owned();
        diagnostics.push(Diagnostic { kind, detail });
    };
    let Some(text) = text else {
        note(Oddity::MissingManifest, "there is no recording.json");
        return Ok((Manifest::default(), Some(NotKnown::Missing)));
    };
    match Manifest::parse(&text) {
        Ok(manifest) => {
            if manifest.state == State::Running {
                // Whether its recorder still works, [`Recording::condition`] says.
                note(Oddity::UnfinishedRecording, MANIFEST_NAME);
            }
            Ok((manifest, None))
        }
        Err(Unreadable::Later(found)) => {
            Err(Error::LaterSchema { path: path.to_path_buf(), found, known: SCHEMA_VERSION })
        }
        Err(Unreadable::Damaged(why)) => {
            note(Oddity::DamagedManifest, &format!("recording.json: {why}"));
            Ok((Manifest::default(), Some(NotKnown::Damaged(why))))
        }
    }
}

fn read_beginning(path: &Path, most: usize) -> Result<Vec<u8>, Error> {
    let file = open_regular(path).map_err(Error::io("open", path))?;
    let mut bytes = Vec::new();
    file.take(most as u64).read_to_end(&mut bytes).map_err(Error::io("read", path))?;
    Ok(bytes)
}

/// Reads a file of at most [`BYTES_MAX`] bytes, also if it grows meanwhile. One that is larger is refused unread.
///
/// # Errors
/// If it is larger, or cannot be read.
pub fn read_file(path: &Path) -> Result<Vec<u8>, Error> {
    let hint = ": cut out the part that is of interest";
    let too_large = || Error::TooLarge { path: path.to_path_buf(), limit: BYTES_MAX, hint };
    let file = open_regular(path).map_err(Error::io("open", path))?;
    let size = file.metadata().map_err(Error::io("read", path))?.len();
    if size > BYTES_MAX {
        return Err(too_large());
    }
    // As large as it is: one that grows in steps has more than it needs for a while.
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(usize::MAX).saturating_add(1));
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(Error::io("read", path))?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(too_large());
    }
    Ok(bytes)
}
