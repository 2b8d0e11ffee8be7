//! Reads a recording, from its folder or from a packed file.
//!
//! Reading goes as far as it can. A missing or damaged manifest, a partial file, and entries that no recording has are
//! diagnostics. Errors are only a later schema, something that is not a recording, and a packed file that tries to
//! climb out.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::lock::Locked;
use crate::manifest::{MAX_MANIFEST_BYTES, Manifest, SCHEMA_VERSION, State, Unreadable, key_of};
use crate::outcome::OutcomeKind;
use crate::write::list_files;
use crate::{BYTES_MAX, Diagnostic, Error, MANIFEST_NAME, Oddity, PARTIAL_SUFFIX, open_regular, unpack};
use sha2::{Digest, Sha256};

/// A recording that is open for reading.
#[derive(Debug)]
pub struct Recording {
    path: PathBuf,
    manifest: Manifest,
    /// The faults of the recording.
    pub diagnostics: Vec<Diagnostic>,
    condition: Condition,
    files: Storage,
}

/// The state of a recording, according to its folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Its recorder finished it.
    Finished,
    /// Its recorder is at work.
    AtWork,
    /// Its recorder was killed.
    Killed,
    /// The manifest does not contain the state.
    Unknown(NotKnown),
}

/// The reason why a manifest does not contain the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotKnown {
    /// There is no manifest.
    Missing,
    /// The manifest cannot be read; with the parser's reason.
    Damaged(String),
    /// The manifest has no state.
    NoState,
}

/// A file that is missing or shorter than the manifest lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    pub file: String,
    /// The size when it was recorded.
    pub recorded_bytes: u64,
    /// The size that is left; `None` if the file is missing.
    pub found_bytes: Option<u64>,
}

/// The files: names as stored, sorted, with sizes or contents.
#[derive(Debug)]
enum Storage {
    Folder(Vec<(String, u64)>),
    Packed(unpack::Entries),
}

impl Recording {
    /// Opens a folder or a packed recording.
    ///
    /// # Errors
    /// If it is neither, if a later bootscope wrote it, or if a packed one holds an entry that no recording can have.
    pub fn open(path: &Path) -> Result<Recording, Error> {
        let meta = fs::metadata(path).map_err(Error::io("open", path))?;
        let mut diagnostics = Vec::new();
        let (files, manifest) = if meta.is_dir() {
            open_folder(path, &mut diagnostics)?
        } else if meta.is_file() {
            let mut entries = unpack::read(path, &mut diagnostics)?;
            let manifest = entries.remove(MANIFEST_NAME);
            (Storage::Packed(entries), manifest)
        } else {
            return Err(Error::NotARecording { path: path.to_path_buf() });
        };
        let (manifest, not_known) = parse_manifest(path, manifest, &mut diagnostics)?;
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

    /// The state of the recording: finished, at work, killed or unknown.
    #[must_use]
    pub fn condition(&self) -> &Condition {
        &self.condition
    }

    /// The outcome as one word. `panicked` is true if the evidence shows that the kernel panicked.
    #[must_use]
    pub fn outcome_word(&self, panicked: bool) -> &'static str {
        match self.condition {
            Condition::Finished if panicked => OutcomeKind::Panic.as_str(),
            // A killed recorder leaves a manifest that still says `running`.
            Condition::Killed => OutcomeKind::Interrupted.as_str(),
            _ => self.manifest.outcome_word(),
        }
    }

    /// True if it has a manifest, readable or not.
    #[must_use]
    pub fn has_manifest(&self) -> bool {
        !self.diagnostics.iter().any(|diagnostic| diagnostic.kind == Oddity::MissingManifest)
    }

    /// The files that the manifest lists and that are missing or shorter than listed.
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

    /// The files that are larger than [`BYTES_MAX`], with their sizes. [`Recording::read`] refuses them; the others can
    /// be read.
    pub fn too_large(&self) -> impl Iterator<Item = (&str, u64)> {
        let large = self.stored().filter(|(_, bytes)| *bytes > BYTES_MAX);
        large.map(|(name, bytes)| (name.strip_suffix(PARTIAL_SUFFIX).unwrap_or(name), bytes))
    }

    /// The path from which it was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The content of `recording.json`, or defaults.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The names of its files, sorted, without the manifest. A partial file has its intended name here, unless a
    /// complete one exists too.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let mut names: Vec<&str> =
            self.stored().map(|(name, _)| name.strip_suffix(PARTIAL_SUFFIX).unwrap_or(name)).collect();
        names.sort_unstable();
        names.dedup();
        names.into_iter()
    }

    /// The content of a file; `None` if the recording has no such file.
    ///
    /// # Errors
    /// If it exists but cannot be read, or is larger than 1 GiB.
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let Some(stored) = self.stored_as(name) else {
            return Ok(None);
        };
        match &self.files {
            Storage::Packed(entries) => Ok(entries.get(&stored).cloned()),
            Storage::Folder(_) => read_file(&self.path.join(stored)).map(Some),
        }
    }

    /// A hash of the evidence: 32 hexadecimal digits. A copy under another name has the same. Two recorded boots differ, also if
    /// they left the same evidence. Reads all of it.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn content_key(&self) -> Result<String, Error> {
        let mut hashes = Vec::new();
        for name in self.names() {
            hashes.push(Sha256::digest(self.read(name)?.unwrap_or_default()));
        }
        hashes.sort_unstable();
        let mut all = Sha256::new();
        hashes.iter().for_each(|hash| all.update(hash));
        if self.manifest.outcome.is_some() {
            all.update(&self.manifest.created);
        }
        Ok(key_of(&all.finalize()))
    }

    /// The first `max_bytes` bytes of a file, of any size; otherwise as [`Recording::read`].
    ///
    /// # Errors
    /// If it exists and cannot be read.
    pub fn read_head(&self, name: &str, max_bytes: usize) -> Result<Option<Vec<u8>>, Error> {
        let Some(stored) = self.stored_as(name) else {
            return Ok(None);
        };
        if let Storage::Packed(entries) = &self.files {
            return Ok(entries.get(&stored).map(|bytes| bytes[..bytes.len().min(max_bytes)].to_vec()));
        }
        read_beginning(&self.path.join(stored), max_bytes).map(Some)
    }

    /// The stored name of a file: its own, or its name as a partial file.
    fn stored_as(&self, name: &str) -> Option<String> {
        let names = [name.to_owned(), format!("{name}{PARTIAL_SUFFIX}")];
        names.into_iter().find(|wanted| self.stored().any(|(stored, _)| stored == wanted))
    }

    /// Names as stored, and sizes.
    fn stored(&self) -> Box<dyn Iterator<Item = (&str, u64)> + '_> {
        match &self.files {
            Storage::Folder(files) => Box::new(files.iter().map(|(name, bytes)| (name.as_str(), *bytes))),
            Storage::Packed(entries) => {
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

fn open_folder(path: &Path, diagnostics: &mut Vec<Diagnostic>) -> Result<(Storage, Option<Vec<u8>>), Error> {
    let listing = list_files(path)?;
    for detail in listing.other {
        diagnostics.push(Diagnostic { kind: Oddity::IgnoredEntry, detail });
    }
    let files = listing.plain;
    let manifest_path = path.join(MANIFEST_NAME);
    let manifest = if manifest_path.symlink_metadata().is_ok_and(|m| m.is_file()) {
        // One byte beyond the limit shows that the manifest exceeds it.
        Some(read_beginning(&manifest_path, MAX_MANIFEST_BYTES + 1)?)
    } else {
        None
    };
    if manifest.is_none() && files.is_empty() {
        return Err(Error::NotARecording { path: path.to_path_buf() });
    }
    Ok((Storage::Folder(files), manifest))
}

/// True if a recorder holds the folder at this moment. Always false on a file system without locks.
fn is_recorded_into(path: &Path) -> bool {
    let Ok(folder) = File::open(path) else { return false };
    Locked::is_taken(&folder)
}

/// Parses the text of `recording.json`, if any, and adds diagnostics for its faults. If it has no state, returns the
/// reason too.
fn parse_manifest(
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
                // [`Recording::condition`] tells whether its recorder is still at work.
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

fn read_beginning(path: &Path, max_bytes: usize) -> Result<Vec<u8>, Error> {
    let file = open_regular(path).map_err(Error::io("open", path))?;
    let mut bytes = Vec::new();
    file.take(max_bytes as u64).read_to_end(&mut bytes).map_err(Error::io("read", path))?;
    Ok(bytes)
}

/// Reads a file of at most [`BYTES_MAX`] bytes, also if it grows meanwhile. A larger file is refused unread.
///
/// # Errors
/// If it is larger or cannot be read.
pub fn read_file(path: &Path) -> Result<Vec<u8>, Error> {
    let hint = ": cut out the part that is of interest";
    let too_large = || Error::TooLarge { path: path.to_path_buf(), limit: BYTES_MAX, hint };
    let file = open_regular(path).map_err(Error::io("open", path))?;
    let size = file.metadata().map_err(Error::io("read", path))?.len();
    if size > BYTES_MAX {
        return Err(too_large());
    }
    // Reserve the whole size: a buffer that grows in steps has more memory than it needs for a while.
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(usize::MAX).saturating_add(1));
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(Error::io("read", path))?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(too_large());
    }
    Ok(bytes)
}
