//! Packs a recording into one file: a tar archive, compressed with zstd.
//!
//! Layout: `<folder>/recording.json` first, then the other files, sorted. There are no times and no owners, so the same
//! recording gives the same bytes. The recording is opened first: bootscope must not pack what it cannot read.
//!
//! A capture holds what a machine's logs hold, so only its owner may read it, also after `tar` unpacks its files. The
//! umask sets the mode of other recordings.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::Path;

use tempfile::NamedTempFile;

use tar::{Builder, EntryType, Header};

use crate::manifest::{Evidence, Manifest, State};
use crate::open::read_file;
use crate::write::{list_files, replace_with};
use crate::{CAPTURE, Error, MANIFEST_NAME, Recording, beside, is_plain_name, private_beside};

const ZSTD_LEVEL: i32 = 9;

/// Packs the recording in the folder `dir` into the file `out`, which must not exist unless `force`.
///
/// # Errors
/// If `dir` is not a recording's folder or is packed already, `out` exists, or reading or writing fails.
pub fn pack(dir: &Path, out: &Path, force: bool) -> Result<(), Error> {
    // Opening it reports its faults before anything is written.
    let is_capture = is_capture(Recording::open(dir)?.names());
    if !dir.is_dir() {
        return Err(Error::PackedAlready { path: dir.to_path_buf() });
    }
    may_be_written(out, force)?;
    replace_with(out, file_creator(is_capture), |file| write_archive(dir, is_capture, file, out))
}

/// True if a recording with these files was captured from a running machine.
fn is_capture<'n>(mut names: impl Iterator<Item = &'n str>) -> bool {
    names.any(|name| name == CAPTURE)
}

fn file_creator(is_capture: bool) -> fn(&Path) -> io::Result<NamedTempFile> {
    if is_capture { private_beside } else { beside }
}

/// Checks that a packed recording may be written to `out`.
///
/// # Errors
/// If `out` exists and is not a file, or exists and `force` is not set.
pub fn may_be_written(out: &Path, force: bool) -> Result<(), Error> {
    if out.symlink_metadata().is_ok_and(|m| !m.is_file()) {
        return Err(Error::Foreign { path: out.to_path_buf(), why: "it is not a file" });
    }
    if out.exists() && !force {
        return Err(Error::Exists { path: out.to_path_buf() });
    }
    Ok(())
}

/// A recording built in memory, to be packed at once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InMemory {
    pub manifest: Manifest,
    /// The files: name, content and origin.
    pub files: Vec<(String, Vec<u8>, String)>,
}

impl InMemory {
    /// Writes the packed recording to `out`, which must not exist unless `force`. The file gets its name when it is
    /// complete.
    ///
    /// # Errors
    /// If a name is not plain, `out` exists, or writing fails.
    pub fn pack(self, out: &Path, force: bool) -> Result<(), Error> {
        may_be_written(out, force)?;
        replace_with(out, file_creator(self.is_capture()), |file| self.write(file, out))
    }

    fn is_capture(&self) -> bool {
        is_capture(self.files.iter().map(|(name, ..)| name.as_str()))
    }

    /// Writes the packed recording to a stream. `path` names that stream in errors.
    ///
    /// # Errors
    /// If a name is not plain, or writing fails.
    pub fn write(mut self, to: impl Write, path: &Path) -> Result<(), Error> {
        let bad = |name: &str| !is_plain_name(name) || name == MANIFEST_NAME;
        if let Some((name, ..)) = self.files.iter().find(|(name, ..)| bad(name)) {
            return Err(Error::BadName { name: name.clone() });
        }
        self.files.sort();
        let evidence = |(file, bytes, origin): &(String, Vec<u8>, String)| {
            let (file, origin) = (file.clone(), origin.clone());
            Evidence { file, bytes: bytes.len() as u64, origin }
        };
        self.manifest.evidence = self.files.iter().map(evidence).collect();
        self.manifest.state = State::Finished;
        let mut archive = Archive::begin(to, "recording".to_owned(), self.is_capture(), path)?;
        archive.add(MANIFEST_NAME, &self.manifest.to_json())?;
        for (name, bytes, _) in &self.files {
            archive.add(name, bytes)?;
        }
        archive.finish()
    }
}

/// A packed recording that is being written.
struct Archive<'p, W: Write> {
    tar: Builder<zstd::Encoder<'static, W>>,
    folder: String,
    /// The mode of its files when `tar` unpacks them.
    mode: u32,
    path: &'p Path,
}

impl<'p, W: Write> Archive<'p, W> {
    fn begin(to: W, folder: String, is_capture: bool, path: &'p Path) -> Result<Self, Error> {
        let zstd = zstd::Encoder::new(to, ZSTD_LEVEL).map_err(Error::io("write", path))?;
        let mode = if is_capture { 0o600 } else { 0o644 };
        Ok(Archive { tar: Builder::new(zstd), folder, mode, path })
    }

    fn add(&mut self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(self.mode);
        header.set_size(bytes.len() as u64);
        let name = format!("{}/{name}", self.folder);
        self.tar.append_data(&mut header, name, bytes).map_err(Error::io("write", self.path))
    }

    fn finish(self) -> Result<(), Error> {
        let zstd = self.tar.into_inner().map_err(Error::io("write", self.path))?;
        let mut to = zstd.finish().map_err(Error::io("write", self.path))?;
        to.flush().map_err(Error::io("write", self.path))
    }
}

fn write_archive(dir: &Path, is_capture: bool, file: impl Write, path: &Path) -> Result<(), Error> {
    let mut archive = Archive::begin(file, folder_name(dir), is_capture, path)?;
    let evidence = list_files(dir)?.plain.into_iter().map(|(name, _)| name);
    for name in std::iter::once(MANIFEST_NAME.to_owned()).chain(evidence) {
        let from = dir.join(&name);
        if name == MANIFEST_NAME && !from.exists() {
            continue;
        }
        archive.add(&name, &read_file(&from)?)?;
    }
    archive.finish()
}

/// The name of the folder if it is a plain one, else `recording`.
fn folder_name(dir: &Path) -> String {
    let real = dir.canonicalize().unwrap_or_else(|_| dir.to_path_buf());
    match real.file_name().and_then(OsStr::to_str) {
        Some(name) if is_plain_name(name) => name.to_owned(),
        _ => "recording".to_owned(),
    }
}
