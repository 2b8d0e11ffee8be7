//! The first bytes of the user's files, by which their kind is recognized.

use std::io::Read;
use std::path::Path;

use recording::open_disk;

use crate::Error;

/// The number of bytes that include all magic numbers. That of an s390x kernel lies behind 64 KiB.
pub(crate) const HEAD_BYTES: usize = 80 << 10;

/// The first bytes, which include all magic numbers.
pub(crate) fn head(path: &Path) -> Result<Vec<u8>, Error> {
    first(path, HEAD_BYTES as u64)
}

/// At most this number of the first bytes.
pub(crate) fn first(path: &Path, bytes_max: u64) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    open_disk(path).and_then(|file| file.take(bytes_max).read_to_end(&mut bytes)).map_err(Error::unreadable(path))?;
    Ok(bytes)
}
