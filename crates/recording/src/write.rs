//! Creates a recording: the folder, its streams, its files and its manifest.
//!
//! The order of the steps matters more than speed. The folder is locked and `recording.json` (state `running`) is
//! written before any evidence. A file gets its name only when it is complete. `recording.json` is replaced by rename,
//! last of all. So a kill at any moment leaves a recording that opens. Space for the last `recording.json` is reserved
//! from the start, so a full disk still leaves a finished recording. Only a recording is ever removed, and only on
//! request.
//!
//! Each file is created new, so a link that another user puts there is never followed. In a shared folder (`/tmp`) a
//! recording's folder must belong to the user.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::lock::{Locked, LockedElsewhere};
use crate::manifest::{Evidence, Manifest, State};
use crate::{BYTES_MAX, Error, MANIFEST_NAME, PARTIAL_SUFFIX, Stream, beside, is_plain_name, own_folder, read_regular};

/// The space reserved for the last `recording.json`, which usually takes 10 KiB.
const RESERVE_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub struct Writer {
    dir: PathBuf,
    /// True if the writer created the folder.
    created: bool,
    /// Holds the lock that keeps a second recorder out of the folder.
    _lock: Locked,
    /// A file without a name that reserves space. The system removes it with this process, however that ends.
    reserve: Option<File>,
    origins: Vec<(String, String)>,
}

/// A partial file of a recording.
///
/// It is written as `NAME.partial`; [`commit`](Partial::commit) gives it its name. A drop before that leaves it, and
/// readers report it as an unfinished file.
#[derive(Debug)]
pub struct Partial {
    file: File,
    path: PathBuf,
    name: String,
}

impl Writer {
    /// Creates the folder `dir` and writes `manifest` into it, with state `running`.
    ///
    /// An existing empty folder is used. With `force`, an existing recording is replaced. An existing folder in one
    /// that every user may write must belong to the user.
    ///
    /// # Errors
    /// If `dir` is something else, another process records into it, or it cannot be written.
    pub fn create(dir: &Path, force: bool, manifest: &Manifest) -> Result<Writer, Error> {
        let created = own_folder(dir).map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
                Error::Foreign { path: dir.to_path_buf(), why: "it, or a folder above it, is a file" }
            }
            _ => Error::io("create the folder", dir)(e),
        })?;
        let lock = Locked::take(File::open(dir).map_err(Error::io("open", dir))?)
            .map_err(|LockedElsewhere| Error::InUse { path: dir.to_path_buf() })?;
        clear_folder(dir, force)?;
        let mut writer = Writer { dir: dir.to_path_buf(), created, _lock: lock, reserve: None, origins: Vec::new() };
        match writer.update(manifest).and_then(|()| reserve(dir)) {
            Ok(reserve) => writer.reserve = Some(reserve),
            Err(e) => {
                // The leftovers would refuse the next attempt. The caller gets the first error, not that of the
                // removal.
                let _ = writer.discard();
                return Err(e);
            }
        }
        Ok(writer)
    }

    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Begins the stream `NAME.log` with its index `NAME.idx`, together at most `max_bytes` bytes. A longer stream also
    /// keeps its last 64 KiB, with their index.
    ///
    /// # Errors
    /// If the name is not plain or already exists, or the files cannot be created.
    pub fn stream(&mut self, name: &str, origin: &str, max_bytes: u64) -> Result<Stream, Error> {
        self.note_origin(format!("{name}.log"), origin)?;
        self.note_origin(format!("{name}.idx"), "arrival time of each line")?;
        Stream::create(self.dir.join(name), max_bytes)
    }

    /// Begins a file that gets its name when it is complete.
    ///
    /// # Errors
    /// If the name is not plain or the file cannot be created.
    pub fn partial(&mut self, name: &str, origin: &str) -> Result<Partial, Error> {
        self.note_origin(name.to_owned(), origin)?;
        let path = self.dir.join(format!("{name}{PARTIAL_SUFFIX}"));
        let file = File::create_new(&path).map_err(Error::io("create", &path))?;
        Ok(Partial { file, path, name: name.to_owned() })
    }

    /// Writes a complete file.
    ///
    /// # Errors
    /// If the name is not plain or the file cannot be written.
    pub fn put(&mut self, name: &str, bytes: &[u8], origin: &str) -> Result<(), Error> {
        let mut partial = self.partial(name, origin)?;
        partial.append(bytes)?;
        partial.commit()
    }

    /// Replaces `recording.json`, still with state `running`.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn update(&self, manifest: &Manifest) -> Result<(), Error> {
        let manifest = Manifest { state: State::Running, ..manifest.clone() };
        replace(&self.dir.join(MANIFEST_NAME), &manifest.to_json())
    }

    /// Frees the space reserved for the end, shortly before [`finish`](Writer::finish). Small last files then fit even
    /// on a full disk.
    pub fn release(&mut self) {
        self.reserve = None;
    }

    /// Writes the final `recording.json`, with state `finished` and the list of the files in the folder.
    ///
    /// # Errors
    /// If it cannot be written. The recording then still says `running` and is readable.
    pub fn finish(mut self, manifest: Manifest) -> Result<(), Error> {
        self.write_end(manifest)
    }

    /// As [`finish`](Writer::finish), for a caller that may discard a failed recording.
    pub(crate) fn write_end(&mut self, manifest: Manifest) -> Result<(), Error> {
        self.release();
        let manifest = Manifest { state: State::Finished, evidence: self.evidence()?, ..manifest };
        replace(&self.dir.join(MANIFEST_NAME), &manifest.to_json())
    }

    /// Removes the recording, because it has no content: its files, and the folder if the writer created it.
    ///
    /// # Errors
    /// If something cannot be removed.
    pub fn discard(self) -> Result<(), Error> {
        let entries = fs::read_dir(&self.dir).map_err(Error::io("list", &self.dir))?;
        for entry in entries {
            let path = entry.map_err(Error::io("list", &self.dir))?.path();
            fs::remove_file(&path).map_err(Error::io("remove", &path))?;
        }
        if self.created {
            fs::remove_dir(&self.dir).map_err(Error::io("remove", &self.dir))?;
        }
        Ok(())
    }

    fn evidence(&self) -> Result<Vec<Evidence>, Error> {
        let mut list = Vec::new();
        for (name, bytes) in list_files(&self.dir)?.plain {
            let final_name = name.strip_suffix(PARTIAL_SUFFIX).unwrap_or(&name);
            let origin = self.origins.iter().find(|(file, _)| file == final_name);
            list.push(Evidence { bytes, origin: origin.map(|(_, o)| o.clone()).unwrap_or_default(), file: name });
        }
        Ok(list)
    }

    fn note_origin(&mut self, name: String, origin: &str) -> Result<(), Error> {
        if !is_plain_name(&name) || name == MANIFEST_NAME || name.ends_with(PARTIAL_SUFFIX) {
            return Err(Error::BadName { name });
        }
        self.origins.push((name, origin.to_owned()));
        Ok(())
    }
}

impl Partial {
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.file.write_all(bytes).map_err(Error::io("write", &self.path))
    }

    /// The open file, for another process to write into.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The path until [`commit`](Partial::commit).
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// If it cannot be renamed.
    pub fn commit(self) -> Result<(), Error> {
        let to = self.path.with_file_name(&self.name);
        fs::rename(&self.path, &to).map_err(Error::io("rename to", &to))
    }

    /// Removes the file, because it has no useful content.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn discard(self) -> Result<(), Error> {
        fs::remove_file(&self.path).map_err(Error::io("remove", &self.path))
    }
}

/// Reserves [`RESERVE_BYTES`] of the disk.
fn reserve(dir: &Path) -> Result<File, Error> {
    let path = dir.join(".reserve");
    let mut file = File::create_new(&path).map_err(Error::io("create", &path))?;
    fs::remove_file(&path).map_err(Error::io("remove", &path))?;
    file.write_all(&vec![0; RESERVE_BYTES]).map_err(Error::io("write", &path))?;
    Ok(file)
}

/// Writes a new file in the folder of `path`, then renames it to `path`.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    replace_with(path, beside, |file| file.write_all(bytes).map_err(Error::io("write", path)))
}

/// Creates a file beside `path` with `make`, fills it with `write`, and renames it to `path`. After an error no file is
/// left.
pub(crate) fn replace_with(
    path: &Path,
    make: fn(&Path) -> io::Result<NamedTempFile>,
    write: impl FnOnce(&mut File) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut file = make(path).map_err(Error::io("create", path))?;
    write(file.as_file_mut())?;
    file.persist(path).map_err(|why| Error::io("replace", path)(why.error))?;
    Ok(())
}

/// The entries of a recording's folder.
#[derive(Debug, Default)]
pub(crate) struct FolderListing {
    /// Regular files with plain names, sorted, and their sizes; the manifest is not among them.
    pub(crate) plain: Vec<(String, u64)>,
    /// All other entries except hidden files, as printable names.
    pub(crate) other: Vec<String>,
}

/// Lists the folder. Links are not followed.
pub(crate) fn list_files(dir: &Path) -> Result<FolderListing, Error> {
    let mut files = FolderListing::default();
    for entry in fs::read_dir(dir).map_err(Error::io("list", dir))? {
        let entry = entry.map_err(Error::io("list", dir))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let regular = entry.metadata().ok().filter(fs::Metadata::is_file);
        let manifest = name == MANIFEST_NAME || name.starts_with("recording.json.");
        match regular {
            Some(_) if manifest || name.starts_with('.') => {}
            Some(meta) if is_plain_name(&name) => files.plain.push((name, meta.len())),
            _ => files.other.push(name.escape_debug().to_string()),
        }
    }
    files.plain.sort();
    files.other.sort();
    Ok(files)
}

/// Empties `dir` for a new recording, if that is allowed.
fn clear_folder(dir: &Path, force: bool) -> Result<(), Error> {
    let foreign = |why| Error::Foreign { path: dir.to_path_buf(), why };
    let entries: Vec<PathBuf> = fs::read_dir(dir)
        .map_err(Error::io("list", dir))?
        .map(|entry| entry.map(|e| e.path()))
        .collect::<Result<_, _>>()
        .map_err(Error::io("list", dir))?;
    if entries.is_empty() {
        return Ok(());
    }
    if !force {
        return Err(Error::Exists { path: dir.to_path_buf() });
    }
    let manifest = read_regular(&dir.join(MANIFEST_NAME), BYTES_MAX)
        .map_err(|_| foreign("it is not a recording (it has no recording.json)"))?;
    if let Err(crate::manifest::Unreadable::Damaged(_)) = Manifest::parse(&manifest) {
        return Err(foreign("its recording.json is not one of bootscope's"));
    }
    let removable = |path: &PathBuf| path.symlink_metadata().is_ok_and(|m| !m.is_dir());
    if !entries.iter().all(removable) {
        return Err(foreign("it holds a folder, which no recording does"));
    }
    // Remove the manifest last: if this is interrupted, the rest is still recognisable as a recording.
    let (manifest, evidence): (Vec<_>, Vec<_>) = entries.into_iter().partition(|path| path.ends_with(MANIFEST_NAME));
    for path in evidence.iter().chain(&manifest) {
        fs::remove_file(path).map_err(Error::io("remove", path))?;
    }
    Ok(())
}
