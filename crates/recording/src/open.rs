//! Reading a recording, from its folder or packed.
//!
//! What can be read is read: a missing or damaged manifest, a file that was still being written and
//! things that have no place in a recording are diagnostics. Only a later schema, something that is
//! no recording at all, and a packed file that tries to climb out are errors.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::manifest::{Manifest, SCHEMA_VERSION, State, Unreadable};
use crate::write::files_in;
use crate::{BYTES_MAX, Diagnostic, Error, MANIFEST_NAME, Oddity, PARTIAL_SUFFIX, packed};

/// A recording that is open for reading.
#[derive(Debug)]
pub struct Recording {
    path: PathBuf,
    manifest: Manifest,
    /// What was odd about it.
    pub diagnostics: Vec<Diagnostic>,
    files: Source,
}

/// Where the files are: names, sorted, as they are stored.
#[derive(Debug)]
enum Source {
    Folder(Vec<String>),
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
        let manifest = understand(path, manifest, &mut diagnostics)?;
        let recording = Recording { path: path.to_path_buf(), manifest, diagnostics, files };
        Ok(recording.with_partial_files_noted())
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
            self.stored().map(|name| name.strip_suffix(PARTIAL_SUFFIX).unwrap_or(name)).collect();
        names.sort_unstable();
        names.dedup();
        names.into_iter()
    }

    /// The content of a file; none if the recording has no such file.
    ///
    /// # Errors
    /// If it is there but cannot be read, or is larger than 1 GiB.
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let partial = format!("{name}{PARTIAL_SUFFIX}");
        let stored = [name, &partial].into_iter().find(|wanted| self.stored().any(|stored| stored == *wanted));
        let Some(stored) = stored else {
            return Ok(None);
        };
        match &self.files {
            Source::Packed(entries) => Ok(entries.get(stored).cloned()),
            Source::Folder(_) => read_bounded(&self.path.join(stored)).map(Some),
        }
    }

    fn stored(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        match &self.files {
            Source::Folder(names) => Box::new(names.iter().map(String::as_str)),
            Source::Packed(entries) => Box::new(entries.keys().map(String::as_str)),
        }
    }

    fn with_partial_files_noted(mut self) -> Self {
        let partial: Vec<String> =
            self.stored().filter_map(|name| name.strip_suffix(PARTIAL_SUFFIX)).map(str::to_owned).collect();
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
    let names: Vec<String> = found.plain.into_iter().map(|(name, _)| name).collect();
    let manifest_path = path.join(MANIFEST_NAME);
    let manifest = if manifest_path.symlink_metadata().is_ok_and(|m| m.is_file()) {
        Some(read_bounded(&manifest_path)?)
    } else {
        None
    };
    if manifest.is_none() && names.is_empty() {
        return Err(Error::NotARecording { path: path.to_path_buf() });
    }
    Ok((Source::Folder(names), manifest))
}

/// Turns the text of `recording.json`, if any, into a manifest, with diagnostics for what it lacks.
fn understand(path: &Path, text: Option<Vec<u8>>, diagnostics: &mut Vec<Diagnostic>) -> Result<Manifest, Error> {
    let mut note = |kind, detail: &str| {
        let detail = detail.to_owned();
        diagnostics.push(Diagnostic { kind, detail });
    };
    let Some(text) = text else {
        note(Oddity::MissingManifest, "there is no recording.json");
        return Ok(Manifest::default());
    };
    match Manifest::parse(&text) {
        Ok(manifest) => {
            if manifest.state == State::Running {
                let detail = "recording.json says running: the recorder is at work or was killed";
                note(Oddity::UnfinishedRecording, detail);
            }
            Ok(manifest)
        }
        Err(Unreadable::Later(found)) => {
            Err(Error::LaterSchema { path: path.to_path_buf(), found, known: SCHEMA_VERSION })
        }
        Err(Unreadable::Damaged(why)) => {
            note(Oddity::DamagedManifest, &format!("recording.json: {why}"));
            Ok(Manifest::default())
        }
    }
}

/// Reads a file of at most [`BYTES_MAX`] bytes, also if it grows meanwhile.
pub(crate) fn read_bounded(path: &Path) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(Error::io("open", path))?;
    // Room at once saves moving it again and again; that there is none, reading says.
    let length = file.metadata().map_or(0, |metadata| metadata.len().min(BYTES_MAX));
    let _ = bytes.try_reserve_exact(length as usize + 1);
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(Error::io("read", path))?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(Error::TooLarge { path: path.to_path_buf(), hint: ": cut out the part that is of interest" });
    }
    Ok(bytes)
}
