//! Files and folders, as whoever must not lose anything handles them.

use crate::Error;
use parquet::errors::ParquetError;
use recording::{PARTIAL_SUFFIX, beside, open_regular};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// A head is small, and so is that which is noted.
const SMALL_BYTES_MOST: u64 = 1 << 16;

/// Waits until nobody else adds. The lock lasts until the file is closed.
pub fn lock(head: &Path) -> Result<File, Error> {
    // For writing too: NFS takes no exclusive lock of a file that is only read.
    let file = OpenOptions::new().read(true).write(true).open(head).map_err(Error::io("open", head))?;
    loop {
        match flock(&file, FlockOperation::LockExclusive) {
            Ok(()) => return Ok(file),
            Err(Errno::INTR) => {}
            Err(e) => return Err(Error::NoLock { path: head.to_owned(), source: e.into() }),
        }
    }
}

/// Writes a file that is there whole or not at all, and for good.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let mut file = beside(path).map_err(Error::io("make a file beside", path))?;
    file.write_all(bytes).and_then(|()| file.as_file().sync_all()).map_err(Error::io("write", path))?;
    file.persist(path).map_err(|e| Error::io("give its name to", path)(e.error))?;
    path.parent().map_or(Ok(()), sync_folder)
}

/// Makes the names in a folder lasting.
pub fn sync_folder(folder: &Path) -> Result<(), Error> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(Error::io("write the folder", folder))
}

/// Runs what reads a Parquet file. Its reader may fail in its own way on one that is none: that is an error as any other.
pub fn guarded<T>(path: &Path, read: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(read))
        .unwrap_or_else(|_| Err(Error::parquet(path)(ParquetError::General("it is no Parquet file".to_owned()))))
}

/// Makes a file. What has its name goes, and is not written to: it may be a link.
pub fn anew(path: &Path) -> Result<File, Error> {
    remove(path)?;
    OpenOptions::new().write(true).create_new(true).open(path).map_err(Error::io("make", path))
}

/// Removes a file, if it is there.
pub fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", path)(e)),
        _ => Ok(()),
    }
}

/// The beginning of a file that is small.
pub fn small(path: &Path) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let file = open_regular(path).map_err(Error::io("open", path))?;
    file.take(SMALL_BYTES_MOST).read_to_end(&mut bytes).map_err(Error::io("read", path))?;
    Ok(bytes)
}

/// What is in a folder, sorted; nothing if it is not there, or is a file.
pub fn entries(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::io("read the folder", folder))? {
        found.push(entry.map_err(Error::io("read the folder", folder))?.path());
    }
    found.sort();
    Ok(found)
}

/// Whether it is a file that readers of Parquet take.
pub fn is_parquet(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "parquet")
}

/// Whether it is a file that is still being written.
pub fn is_partial(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().contains(PARTIAL_SUFFIX))
}
