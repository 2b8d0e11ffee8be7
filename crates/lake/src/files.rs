//! File operations that lose no data if the program is killed or the power fails.

use crate::Error;
use parquet::errors::ParquetError;
use recording::{PARTIAL_SUFFIX, beside, open_regular};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Maximum number of bytes read from `lake.json` and `adding.json`, which are small.
const MAX_SMALL_BYTES: u64 = 1 << 16;

/// Takes the lake's lock, and waits for it. The lock lasts until the returned file is closed.
pub fn lock(head: &Path) -> Result<File, Error> {
    // Open it for writing, too: NFS refuses an exclusive lock on a file that is open only for reading.
    let file = OpenOptions::new().read(true).write(true).open(head).map_err(Error::io("open", head))?;
    loop {
        match flock(&file, FlockOperation::LockExclusive) {
            Ok(()) => return Ok(file),
            Err(Errno::INTR) => {}
            Err(e) => return Err(Error::NoLock { path: head.to_owned(), source: e.into() }),
        }
    }
}

/// Writes a file completely or not at all, and syncs it.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let mut file = beside(path).map_err(Error::io("make a file beside", path))?;
    file.write_all(bytes).and_then(|()| file.as_file().sync_all()).map_err(Error::io("write", path))?;
    file.persist(path).map_err(|e| Error::io("give its name to", path)(e.error))?;
    path.parent().map_or(Ok(()), sync_folder)
}

/// Syncs the names in a folder to disk.
pub fn sync_folder(folder: &Path) -> Result<(), Error> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(Error::io("write the folder", folder))
}

/// Runs a function that reads a Parquet file. Turns a panic into an error, because the library may panic on a malformed file.
pub fn catch_panics<T>(path: &Path, read: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(read))
        .unwrap_or_else(|_| Err(Error::parquet(path)(ParquetError::General("it is no Parquet file".to_owned()))))
}

/// Creates a new file. Removes an existing one first instead of writing to it, because it may be a link.
pub fn create_anew(path: &Path) -> Result<File, Error> {
    remove(path)?;
    OpenOptions::new().write(true).create_new(true).open(path).map_err(Error::io("make", path))
}

/// Removes a file, if it exists.
pub fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", path)(e)),
        _ => Ok(()),
    }
}

/// Reads a small file; cuts off a larger one.
pub fn read_small(path: &Path) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let file = open_regular(path).map_err(Error::io("open", path))?;
    file.take(MAX_SMALL_BYTES).read_to_end(&mut bytes).map_err(Error::io("read", path))?;
    Ok(bytes)
}

/// The sorted paths in a folder. Empty if it does not exist or is a file.
pub fn entries(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::io("read the folder", folder))? {
        paths.push(entry.map_err(Error::io("read the folder", folder))?.path());
    }
    paths.sort();
    Ok(paths)
}

/// True if readers of Parquet read a file of this name.
pub fn is_parquet(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "parquet")
}

/// True if the name is that of a file that is still being written.
pub fn is_partial(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().contains(PARTIAL_SUFFIX))
}
