//! Import of evidence that was recorded without bootscope.
//!
//! Files are copied unchanged, as `NN-<their name>`. Their readers detect the format from the content. An imported
//! recording has no outcome, and its time base is that of the evidence.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};

use crate::manifest::{Input, Manifest};
use crate::{BYTES_MAX, Error, Writer, open_regular};

/// Facts that the evidence does not contain and its owner supplies. A field is 0 or `None` if the evidence has the
/// fact.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Known {
    /// The rate of the counter that stamped an event log, in Hz.
    pub ticks_hz: Option<f64>,
    /// The number of the machine's CPUs.
    pub cpus: u32,
    /// The size of the machine's memory.
    pub memory_bytes: u64,
    /// The milestone at which the boot ends.
    pub until: String,
    /// The boot in logs of several: 0 is the last, -1 the one before.
    pub boot: Option<i32>,
}

/// A file to import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The path of the file, also used as its name in messages.
    pub path: PathBuf,
    /// The content, if the caller has read it already, as from a pipe. A pipe can be read only once.
    pub bytes: Option<Vec<u8>>,
    /// True if the content is only the beginning: the rest exceeded a limit and was not read.
    pub cut: bool,
}

/// Creates the recording `dir` from `files`. It replaces an existing recording only with `force`.
///
/// # Errors
/// As [`import_known`].
pub fn import(files: &[PathBuf], dir: &Path, force: bool) -> Result<(), Error> {
    let files = files.iter().map(|path| Source { path: path.clone(), bytes: None, cut: false }).collect();
    import_known(files, dir, force, Known::default())
}

/// As [`import`], with facts that the evidence does not contain.
///
/// # Errors
/// If a file cannot be read or is larger than 1 GiB, or the folder cannot be created.
pub fn import_known(files: Vec<Source>, dir: &Path, force: bool, facts: Known) -> Result<(), Error> {
    // Open all files before the folder is created: a mistyped name must not cost the recording that `force` replaces.
    let cut: Vec<PathBuf> = files.iter().filter(|file| file.cut).map(|file| file.path.clone()).collect();
    let open: Vec<(PathBuf, Box<dyn Read>)> = files.into_iter().map(open).collect::<Result<_, _>>()?;
    let mut manifest = Manifest::begun_now();
    let cut = cut.iter().map(|path| format!("{} went on: only its beginning was imported", path.display()));
    manifest.notes.extend(cut);
    manifest.ticks_hz = facts.ticks_hz;
    (manifest.until, manifest.boot) = (facts.until, facts.boot);
    (manifest.subject.cpus, manifest.subject.memory_bytes) = (facts.cpus, facts.memory_bytes);
    let mut writer = Writer::create(dir, force, &manifest)?;
    let written = copy_all(&mut writer, open, &mut manifest).and_then(|()| writer.write_end(manifest));
    if written.is_err() {
        // A folder with part of the evidence would refuse the next attempt. The evidence itself still exists elsewhere.
        let _ = writer.discard();
    }
    written
}

fn copy_all(writer: &mut Writer, files: Vec<(PathBuf, Box<dyn Read>)>, manifest: &mut Manifest) -> Result<(), Error> {
    for (number, (path, content)) in files.into_iter().enumerate() {
        let bytes = copy(writer, &format!("{number:02}-{}", plain_name(&path)), &path, content)?;
        manifest.inputs.push(Input {
            role: "evidence".to_owned(),
            path: path.display().to_string(),
            bytes,
            ..Input::default()
        });
    }
    Ok(())
}

fn open(source: Source) -> Result<(PathBuf, Box<dyn Read>), Error> {
    let content: Box<dyn Read> = match source.bytes {
        Some(bytes) => Box::new(Cursor::new(bytes)),
        None => Box::new(open_file(&source.path)?),
    };
    Ok((source.path, content))
}

fn open_file(path: &Path) -> Result<File, Error> {
    open_regular(path).map_err(Error::io("open", path))
}

fn copy(writer: &mut Writer, name: &str, path: &Path, mut content: Box<dyn Read>) -> Result<u64, Error> {
    let mut partial = writer.partial(name, &format!("imported from {}", path.display()))?;
    let mut buffer = vec![0; 1 << 16];
    let mut total = 0;
    loop {
        let n = match content.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(Error::io("read", path)(e)),
        };
        total += n as u64;
        if total > BYTES_MAX {
            return Err(Error::TooLarge {
                path: path.to_path_buf(),
                limit: BYTES_MAX,
                hint: ": cut out the part that is of interest",
            });
        }
        partial.append(&buffer[..n])?;
    }
    partial.commit()?;
    Ok(total)
}

/// The file's own name, with `_` for every character that a recording's names cannot have.
fn plain_name(path: &Path) -> String {
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned());
    let mut name: String = name
        .unwrap_or_default()
        .chars()
        .map(|c| match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' | '.' => c,
            _ => '_',
        })
        .take(100)
        .collect();
    // Readers would take `.partial` at the end for a file that was never finished.
    if name.ends_with(['.']) || name.ends_with(crate::PARTIAL_SUFFIX) || name.is_empty() {
        name.push('_');
    }
    name
}
