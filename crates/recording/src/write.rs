//! Making a recording: the folder, its streams, its whole files and its manifest.
//!
//! Order matters more than speed here. The folder is locked and `recording.json` (state `running`)
//! is written before any evidence; a file gets its name only when whole; `recording.json` is
//! replaced by rename, last of all. So at every moment a kill leaves a recording that opens. Room for
//! the last `recording.json` is held from the start, so that a full disk leaves one that is finished.
//! Nothing but a recording is ever removed, and only when asked to.
//!
//! Each file is created new, so that a link which somebody else puts there is never followed. In a shared folder (`/tmp`) a
//! recording's folder has to be the user's own.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::lock::{Locked, LockedElsewhere};
use crate::manifest::{Evidence, Manifest, State};
use crate::{BYTES_MAX, Error, MANIFEST_NAME, PARTIAL_SUFFIX, Stream, beside, is_plain_name, own_folder, read_regular};

/// What the last `recording.json` may take; usual are 10 KiB.
const RESERVE_BYTES: usize = 64 << 10;

/// Writes a recording.
#[derive(Debug)]
pub struct Writer {
    dir: PathBuf,
    /// Whether the folder was not there before.
    made: bool,
    /// Holds the lock that keeps a second recorder out of the folder.
    _lock: Locked,
    /// A file without a name that is only there to hold room; gone with us, however we end.
    reserve: Option<File>,
    origins: Vec<(String, String)>,
}

/// A file of a recording that is not whole yet.
///
/// It is written as `NAME.partial`; [`commit`](Partial::commit) gives it its name. Dropped without, it
/// stays as it is, and readers find it as an unfinished file.
#[derive(Debug)]
pub struct Partial {
    file: File,
    path: PathBuf,
    name: String,
}

impl Writer {
    /// Makes the folder `dir` and writes `manifest` into it, with state `running`.
    ///
    /// An empty folder is taken as it is. With `force` a recording that is there is replaced. A folder that is there already in
    /// one where everybody may write has to be the user's own.
    ///
    /// # Errors
    /// If something else is there, another process records into it, or it cannot be written.
    pub fn create(dir: &Path, force: bool, manifest: &Manifest) -> Result<Writer, Error> {
        let made = own_folder(dir).map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
                Error::Foreign { path: dir.to_path_buf(), why: "it, or a folder above it, is a file" }
            }
            _ => Error::io("create the folder", dir)(e),
        })?;
        let lock = Locked::take(File::open(dir).map_err(Error::io("open", dir))?)
            .map_err(|LockedElsewhere| Error::InUse { path: dir.to_path_buf() })?;
        make_room(dir, force)?;
        let mut writer = Writer { dir: dir.to_path_buf(), made, _lock: lock, reserve: None, origins: Vec::new() };
        match writer.update(manifest).and_then(|()| reserve(dir)) {
            Ok(reserve) => writer.reserve = Some(reserve),
            Err(e) => {
                // What is left of it would refuse the next try. Why it failed is said, not that this failed too.
                let _ = writer.discard();
                return Err(e);
            }
        }
        Ok(writer)
    }

    /// The folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Begins the stream `NAME.log` with its index `NAME.idx`, both together at most `bytes_max` bytes; of a longer one,
    /// the last 64 KiB come on top, with their index.
    ///
    /// # Errors
    /// If the name is not plain, is taken, or the files cannot be made.
    pub fn stream(&mut self, name: &str, origin: &str, bytes_max: u64) -> Result<Stream, Error> {
        self.note_origin(format!("{name}.log"), origin)?;
        self.note_origin(format!("{name}.idx"), "arrival time of each line")?;
        Stream::create(self.dir.join(name), bytes_max)
    }

    /// Begins a file that gets its name once it is whole.
    ///
    /// # Errors
    /// If the name is not plain or the file cannot be made.
    pub fn partial(&mut self, name: &str, origin: &str) -> Result<Partial, Error> {
        self.note_origin(name.to_owned(), origin)?;
        let path = self.dir.join(format!("{name}{PARTIAL_SUFFIX}"));
        let file = File::create_new(&path).map_err(Error::io("create", &path))?;
        Ok(Partial { file, path, name: name.to_owned() })
    }

    /// Writes a whole file.
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

    /// Gives up the room that is held for the end, a little before [`finish`](Writer::finish): for what is small, comes
    /// last, and should be there even if the disk is full.
    pub fn release(&mut self) {
        self.reserve = None;
    }

    /// Writes the final `recording.json`, with state `finished` and the list of the files that are there.
    ///
    /// # Errors
    /// If it cannot be written; the recording then still says `running`, and is readable.
    pub fn finish(mut self, manifest: Manifest) -> Result<(), Error> {
        self.write_end(manifest)
    }

    /// As [`finish`](Writer::finish), for a caller that may discard what failed.
    pub(crate) fn write_end(&mut self, manifest: Manifest) -> Result<(), Error> {
        self.release();
        let manifest = Manifest { state: State::Finished, evidence: self.evidence()?, ..manifest };
        replace(&self.dir.join(MANIFEST_NAME), &manifest.to_json())
    }

    /// Takes the recording back, because nothing came of it: its files go, and the folder if it was not there before.
    ///
    /// # Errors
    /// If something cannot be removed.
    pub fn discard(self) -> Result<(), Error> {
        let entries = fs::read_dir(&self.dir).map_err(Error::io("list", &self.dir))?;
        for entry in entries {
            let path = entry.map_err(Error::io("list", &self.dir))?.path();
            fs::remove_file(&path).map_err(Error::io("remove", &path))?;
        }
        if self.made {
            fs::remove_dir(&self.dir).map_err(Error::io("remove", &self.dir))?;
        }
        Ok(())
    }

    fn evidence(&self) -> Result<Vec<Evidence>, Error> {
        let mut list = Vec::new();
        for (name, bytes) in files_in(&self.dir)?.plain {
            let known = name.strip_suffix(PARTIAL_SUFFIX).unwrap_or(&name);
            let origin = self.origins.iter().find(|(file, _)| file == known);
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
    /// Adds bytes.
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

    /// Where it is for now.
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

    /// Removes the file: it holds nothing worth keeping.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn discard(self) -> Result<(), Error> {
        fs::remove_file(&self.path).map_err(Error::io("remove", &self.path))
    }
}

/// Holds [`RESERVE_BYTES`] of the disk.
fn reserve(dir: &Path) -> Result<File, Error> {
    let path = dir.join(".reserve");
    let mut file = File::create_new(&path).map_err(Error::io("create", &path))?;
    fs::remove_file(&path).map_err(Error::io("remove", &path))?;
    file.write_all(&vec![0; RESERVE_BYTES]).map_err(Error::io("write", &path))?;
    Ok(file)
}

/// Writes a file beside `path`, then renames it to `path`.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    replace_with(path, beside, |file| file.write_all(bytes).map_err(Error::io("write", path)))
}

/// Lets `write` fill a file that `make` makes beside `path`, then renames it to `path`; one that fails is not left there.
pub(crate) fn replace_with(
    path: &Path,
    make: fn(&Path) -> io::Result<NamedTempFile>,
    write: impl FnOnce(&mut File) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut beside = make(path).map_err(Error::io("create", path))?;
    write(beside.as_file_mut())?;
    beside.persist(path).map_err(|why| Error::io("replace", path)(why.error))?;
    Ok(())
}

/// The entries of a recording's folder.
#[derive(Debug, Default)]
pub(crate) struct Files {
    /// Regular files with plain names, sorted, and their sizes; the manifest is not among them.
    pub(crate) plain: Vec<(String, u64)>,
    /// Everything else but hidden files: printable names.
    pub(crate) other: Vec<String>,
}

/// Lists the folder; links are not followed.
pub(crate) fn files_in(dir: &Path) -> Result<Files, Error> {
    let mut files = Files::default();
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

/// Empties `dir` for a new recording, if it may be.
fn make_room(dir: &Path, force: bool) -> Result<(), Error> {
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
    // The manifest goes last: were this cut short, what is left is still seen to be a recording.
    let (manifest, evidence): (Vec<_>, Vec<_>) = entries.into_iter().partition(|path| path.ends_with(MANIFEST_NAME));
    for path in evidence.iter().chain(&manifest) {
        fs::remove_file(path).map_err(Error::io("remove", path))?;
    }
    Ok(())
}
