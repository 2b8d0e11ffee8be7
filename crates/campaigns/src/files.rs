//! Output files appear under their name only when whole, and replace nothing unasked.

use anyhow::{Context, bail};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Where the output goes by default: beside a recording, by its name with an ending.
pub fn beside(recording: &Path, ending: &str) -> PathBuf {
    let mut name = recording.components().as_path().as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Writes a file: first under another name in the same folder, then renamed. One that is there is replaced with `force`
/// only; a device or a pipe is written to as it is. How many bytes it is.
pub fn write_file(
    path: &Path,
    force: bool,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<u64> {
    let there = refuse_existing(path, force)?;
    let written = if there.is_some_and(|there| !there.is_file()) {
        OpenOptions::new().write(true).open(path).and_then(|file| fill(&file, write))
    } else {
        replace(path, write)
    };
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// Refuses a file that may not be replaced, and a folder: what takes long asks before it begins. What is there.
pub fn refuse_existing(path: &Path, force: bool) -> anyhow::Result<Option<Metadata>> {
    let there = path.metadata().ok();
    if there.as_ref().is_some_and(Metadata::is_dir) {
        bail!("{} is a folder: name a file in it", path.display());
    }
    if there.as_ref().is_some_and(Metadata::is_file) && !force {
        return Err(recording::Error::Exists { path: path.to_owned() }.into());
    }
    Ok(there)
}

fn replace(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<u64> {
    let beside = recording::beside(path)?;
    let bytes = fill(beside.as_file(), write)?;
    beside.persist(path)?;
    Ok(bytes)
}

fn fill(file: &File, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<u64> {
    let mut out = Counted { file: BufWriter::new(file), bytes: 0 };
    write(&mut out)?;
    out.flush()?;
    Ok(out.bytes)
}

/// Counts what goes through: a pipe cannot tell afterwards.
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
