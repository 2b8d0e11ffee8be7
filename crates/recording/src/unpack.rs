//! Reads a recording packed into one file by [`pack`](fn@crate::pack).
//!
//! Entries may have one folder in front. Every entry must be a regular file or folder, with a relative path that does
//! not climb out, and may occur only once. Otherwise the whole file is refused. Nothing is unpacked to disk. All
//! content is held in memory, at most [`max_unpacked_bytes`] of the packed size. A file that declares more is refused
//! before it is unpacked. A truncated archive gives the entries that it still holds.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read};
use std::path::{Component, Path};

use tar::{Archive, Entry, EntryType};

use crate::{BYTES_MAX, Diagnostic, Error, MANIFEST_NAME, Oddity, PARTIAL_SUFFIX, is_plain_name, open_regular};

/// The files of a packed recording.
pub(crate) type Entries = BTreeMap<String, Vec<u8>>;

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The most bytes of a zstd frame's header after the magic (RFC 8878, 3.1.1.1).
const MAX_FRAME_HEADER_BYTES: u64 = 14;

/// The most bytes of headers and padding beside the files' content. Long names are read into memory too.
const MAX_ARCHIVE_OVERHEAD_BYTES: u64 = 64 << 20;

/// The most unpacked bytes for each packed byte. A recording of a boot rarely packs to less than a thirtieth of its
/// size. A file beyond this ratio was not made from one.
const MAX_UNPACKED_RATIO: u64 = 200;
/// The unpacked bytes allowed for any packed size, whatever the ratio: the lines of a console that was left running are
/// mostly the same.
const MIN_UNPACKED_LIMIT: u64 = 64 << 20;

/// The most bytes that the files of a packed recording of this size may have together.
pub(crate) fn max_unpacked_bytes(packed_bytes: u64) -> u64 {
    packed_bytes.saturating_mul(MAX_UNPACKED_RATIO).clamp(MIN_UNPACKED_LIMIT, BYTES_MAX)
}

/// Reads a packed recording.
pub(crate) fn read(path: &Path, diagnostics: &mut Vec<Diagnostic>) -> Result<Entries, Error> {
    let file = open_regular(path).map_err(Error::io("open", path))?;
    let limit = max_unpacked_bytes(file.metadata().map_err(Error::io("read", path))?.len());
    let mut file = BufReader::new(file);
    let not_a_recording = || Error::NotARecording { path: path.to_path_buf() };
    let mut magic = [0; 4];
    file.read_exact(&mut magic).map_err(|_| not_a_recording())?;
    if magic != ZSTD_MAGIC {
        return Err(not_a_recording());
    }
    let mut head = magic.to_vec();
    (&mut file).take(MAX_FRAME_HEADER_BYTES).read_to_end(&mut head).map_err(Error::io("read", path))?;
    let declared = zstd::zstd_safe::get_frame_content_size(&head).ok().flatten();
    if declared.is_some_and(|bytes| bytes > limit + MAX_ARCHIVE_OVERHEAD_BYTES) {
        return Err(too_large(path, limit));
    }
    let file = io::Cursor::new(head).chain(file);
    let zstd = zstd::Decoder::with_buffer(file).map_err(Error::io("unpack", path))?;
    let mut archive = Archive::new(zstd.take(limit + MAX_ARCHIVE_OVERHEAD_BYTES));
    let mut reader = Reader { path, folder: None, entries: Entries::new(), limit, bytes_left: limit };
    let cut = archive.entries().map_err(Error::io("unpack", path))?.find_map(|entry| reader.take(entry).transpose());
    match cut {
        None => {}
        Some(Err(error)) => return Err(error),
        Some(Ok(_)) if reader.entries.is_empty() => return Err(not_a_recording()),
        Some(Ok(cut)) => diagnostics.push(Diagnostic {
            kind: Oddity::CutArchive,
            detail: format!("after {} files: {}", reader.entries.len(), cut.0),
        }),
    }
    if reader.entries.is_empty() {
        return Err(not_a_recording());
    }
    Ok(reader.entries)
}

fn too_large(path: &Path, limit: u64) -> Error {
    let hint = " unpacked: unpack it with `tar --zstd -xf` and open the folder";
    Error::TooLarge { path: path.to_path_buf(), limit, hint }
}

/// The reason why the rest of an archive cannot be read.
struct Cut(String);

struct Reader<'a> {
    path: &'a Path,
    folder: Option<Option<String>>,
    entries: Entries,
    limit: u64,
    bytes_left: u64,
}

impl Reader<'_> {
    /// Reads one entry. Returns `None` if it was read, or the reason if the archive is truncated here.
    fn take<R: Read>(&mut self, entry: io::Result<Entry<'_, R>>) -> Result<Option<Cut>, Error> {
        let mut entry = match entry {
            Ok(entry) => entry,
            Err(e) => return Ok(Some(Cut(e.to_string()))),
        };
        let shown = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let refuse = |why| Error::HostilePack { path: self.path.to_path_buf(), entry: shown.clone(), why };
        match entry.header().entry_type() {
            EntryType::Regular => {}
            EntryType::Directory | EntryType::XGlobalHeader => return Ok(None),
            _ => return Err(refuse("is a link or a device, not a file")),
        }
        let (folder, name) = split_path(&shown).map_err(refuse)?;
        if *self.folder.get_or_insert_with(|| folder.clone()) != folder {
            return Err(refuse("is in another folder than the entries before it"));
        }
        if self.entries.contains_key(&name) {
            return Err(refuse("comes twice"));
        }
        if entry.size() > self.bytes_left {
            return Err(too_large(self.path, self.limit));
        }
        let mut bytes = Vec::new();
        // An entry's reader returns at most the entry's size.
        let result = entry.read_to_end(&mut bytes);
        self.bytes_left -= bytes.len() as u64;
        // The available part of a truncated file is kept under a name with `.partial`.
        let cut = match result {
            Ok(_) if (bytes.len() as u64) < entry.size() => Some(Cut(format!("{shown} is cut"))),
            Ok(_) => None,
            Err(e) => Some(Cut(format!("{shown}: {e}"))),
        };
        let name = if cut.is_some() && name != MANIFEST_NAME { format!("{name}{PARTIAL_SUFFIX}") } else { name };
        self.entries.insert(name, bytes);
        Ok(cut)
    }
}

/// Splits an entry's path into the folder in front, if any, and the file's name.
fn split_path(path: &str) -> Result<(Option<String>, String), &'static str> {
    let mut parts = Vec::new();
    for component in Path::new(path).components() {
        match component {
            Component::Normal(part) => parts.push(part.to_str().unwrap_or_default().to_owned()),
            Component::CurDir => {}
            _ => return Err("has a path that climbs out of the recording"),
        }
    }
    let name = parts.pop().unwrap_or_default();
    if !is_plain_name(&name) {
        return Err("has a name that no file of a recording can have");
    }
    match parts.len() {
        0 => Ok((None, name)),
        1 => Ok((parts.pop(), name)),
        _ => Err("is in a folder inside a folder, which a recording never has"),
    }
}
