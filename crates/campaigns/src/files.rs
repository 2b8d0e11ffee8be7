//! Output files appear under their name only when complete, and replace an existing file only with `force`.

use anyhow::{Context, bail};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// The default output path: that of the recording with an ending.
pub fn beside(recording: &Path, ending: &str) -> PathBuf {
    let mut name = recording.components().as_path().as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Writes a file under a temporary name in the same folder, then renames it. An existing file is replaced only with
/// `force`. A device or a pipe is written to directly. Returns the number of bytes.
pub fn write_file(
    path: &Path,
    force: bool,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<u64> {
    let existing = refuse_existing(path, force)?;
    let written = if existing.is_some_and(|existing| !existing.is_file()) {
        OpenOptions::new().write(true).open(path).and_then(|file| fill(&file, write))
    } else {
        replace(path, write)
    };
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// Refuses a folder, and a file that may not be replaced, so that long work can check its output first. Returns the
/// metadata of an existing file.
pub fn refuse_existing(path: &Path, force: bool) -> anyhow::Result<Option<Metadata>> {
    let existing = path.metadata().ok();
    if existing.as_ref().is_some_and(Metadata::is_dir) {
        bail!("{} is a folder: name a file in it", path.display());
    }
    if existing.as_ref().is_some_and(Metadata::is_file) && !force {
        return Err(recording::Error::Exists { path: path.to_owned() }.into());
    }
    Ok(existing)
}

fn replace(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<u64> {
    let file = recording::beside(path)?;
    let bytes = fill(file.as_file(), write)?;
    file.persist(path)?;
    Ok(bytes)
}

fn fill(file: &File, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<u64> {
    let mut out = Counted { file: BufWriter::new(file), bytes: 0 };
    write(&mut out)?;
    out.flush()?;
    Ok(out.bytes)
}

/// Counts the bytes written, since a pipe cannot report them afterwards.
struct Counted<'a> {
    file: BufWriter<&'a File>,
    bytes: u64,
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
