//! Wrapping evidence that was taken elsewhere into a recording.
//!
//! Files are copied as they are, under `NN-<their name>`: what they hold is found out by its readers,
//! from the content. There is no outcome and no time base but the evidence's own.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};

use crate::manifest::{Input, Manifest};
use crate::{BYTES_MAX, Error, Writer, open_regular};

/// What whoever took the evidence knows, and it does not say; 0 or none where it does.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Known {
    /// How fast the counter runs that an event log was stamped with.
    pub ticks_hz: Option<f64>,
    /// How many CPUs the machine has.
    pub cpus: u32,
    /// How much memory.
    pub memory_bytes: u64,
}

/// A file to import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// What it is called, and where it is.
    pub path: PathBuf,
    /// Its content, if that was read already, as from a pipe, which can be read once only.
    pub bytes: Option<Vec<u8>>,
    /// Whether the content is only the beginning: the rest went beyond a limit and was not read.
    pub cut: bool,
}

/// Makes the recording `dir` from `files`, replacing one that is there only with `force`.
///
/// # Errors
/// As [`import_known`].
pub fn import(files: &[PathBuf], dir: &Path, force: bool) -> Result<(), Error> {
    let files = files.iter().map(|path| Source { path: path.clone(), bytes: None, cut: false }).collect();
    import_known(files, dir, force, Known::default())
}

/// The same, with what is `known` beside the evidence.
///
/// # Errors
/// If a file cannot be read or is larger than 1 GiB, or the folder cannot be made.
pub fn import_known(files: Vec<Source>, dir: &Path, force: bool, known: Known) -> Result<(), Error> {
    // Open all of them first: a mistyped name must not cost the recording that `force` replaces.
    let cut: Vec<PathBuf> = files.iter().filter(|file| file.cut).map(|file| file.path.clone()).collect();
    let open: Vec<(PathBuf, Box<dyn Read>)> = files.into_iter().map(open).collect::<Result<_, _>>()?;
    let mut manifest = Manifest::begun_now();
    let cut = cut.iter().map(|path| format!("{} went on: only its beginning was imported", path.display()));
    manifest.notes.extend(cut);
    manifest.ticks_hz = known.ticks_hz;
    (manifest.subject.cpus, manifest.subject.memory_bytes) = (known.cpus, known.memory_bytes);
    let mut writer = Writer::create(dir, force, &manifest)?;
    let written = copy_all(&mut writer, open, &mut manifest).and_then(|()| writer.write_end(manifest));
    if written.is_err() {
        // A folder with a part of the evidence would refuse the next try, and the evidence is still where it was.
        let _ = writer.discard();
    }
    written
}

fn copy_all(writer: &mut Writer, files: Vec<(PathBuf, Box<dyn Read>)>, manifest: &mut Manifest) -> Result<(), Error> {
    for (number, (path, content)) in files.into_iter().enumerate() {
        let bytes = copy(writer, &format!("{number:02}-{}", plain(&path)), &path, content)?;
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

/// The file's own name with everything replaced that a recording's names cannot have.
fn plain(path: &Path) -> String {
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
    // `.partial` at the end would be taken for a file that was never finished.
    if name.ends_with(['.']) || name.ends_with(crate::PARTIAL_SUFFIX) || name.is_empty() {
        name.push('_');
    }
    name
}
