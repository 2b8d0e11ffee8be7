//! Reading a recording in one file, which [`pack`](crate::pack) makes.
//!
//! Reading takes entries with or without the one
//! folder in front, and refuses the whole file if any entry is not a regular file or folder, has a
//! path that is absolute or climbs out, or comes twice; nothing is ever unpacked to disk. All that
//! is read is held in memory, at most [`bytes_max`] of the packed size: what declares more is refused
//! before it is unpacked. An archive that was cut gives what it still holds.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read};
use std::path::{Component, Path};

use tar::{Archive, Entry, EntryType};

use crate::{BYTES_MAX, Diagnostic, Error, MANIFEST_NAME, Oddity, PARTIAL_SUFFIX, is_plain_name, open_regular};

/// The files of a packed recording.
pub(crate) type Entries = BTreeMap<String, Vec<u8>>;

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// What of a zstd frame's header follows the magic (RFC 8878, 3.1.1.1).
const FRAME_HEADER_BYTES_MAX: u64 = 14;

/// Headers and padding beside the files' bytes; long names too are read into memory.
const ARCHIVE_OVERHEAD_MAX: u64 = 64 << 20;

/// A packed recording is hardly smaller than a thirtieth of its files. One that has more than this for each of its bytes was not
/// made of a boot.
const UNPACKED_RATIO_MAX: u64 = 200;
/// A small one may have this much, whatever its ratio: a console that was left running is mostly the same lines.
const UNPACKED_BYTES_SMALL: u64 = 64 << 20;

/// The most that the files of a packed recording of this size may have together.
pub(crate) fn bytes_max(packed_bytes: u64) -> u64 {
    packed_bytes.saturating_mul(UNPACKED_RATIO_MAX).clamp(UNPACKED_BYTES_SMALL, BYTES_MAX)
}

/// Reads a packed recording.
pub(crate) fn read(path: &Path, diagnostics: &mut Vec<Diagnostic>) -> Result<Entries, Error> {
    let file = open_regular(path).map_err(Error::io("open", path))?;
    let limit = bytes_max(file.metadata().map_err(Error::io("read", path))?.len());
    let mut file = BufReader::new(file);
    let not_one = || Error::NotARecording { path: path.to_path_buf() };
    let mut magic = [0; 4];
    file.read_exact(&mut magic).map_err(|_| not_one())?;
    if magic != ZSTD_MAGIC {
        return Err(not_one());
    }
    let mut head = magic.to_vec();
    (&mut file).take(FRAME_HEADER_BYTES_MAX).read_to_end(&mut head).map_err(Error::io("read", path))?;
    let declared = zstd::zstd_safe::get_frame_content_size(&head).ok().flatten();
    if declared.is_some_and(|bytes| bytes > limit + ARCHIVE_OVERHEAD_MAX) {
        return Err(too_large(path, limit));
    }
    let file = io::Cursor::new(head).chain(file);
    let zstd = zstd::Decoder::with_buffer(file).map_err(Error::io("unpack", path))?;
    let mut archive = Archive::new(zstd.take(limit + ARCHIVE_OVERHEAD_MAX));
    let mut reader = Reader { path, folder: None, entries: Entries::new(), limit, room: limit };
    let cut = archive.entries().map_err(Error::io("unpack", path))?.find_map(|entry| reader.take(entry).transpose());
    match cut {
        None => {}
        Some(Err(error)) => return Err(error),
        Some(Ok(_)) if reader.entries.is_empty() => return Err(not_one()),
        Some(Ok(cut)) => diagnostics.push(Diagnostic {
            kind: Oddity::CutArchive,
            detail: format!("after {} files: {}", reader.entries.len(), cut.0),
        }),
    }
    if reader.entries.is_empty() {
        return Err(not_one());
    }
    Ok(reader.entries)
}

fn too_large(path: &Path, limit: u64) -> Error {
    let hint = " unpacked: unpack it with `tar --zstd -xf` and open the folder";
    Error::TooLarge { path: path.to_path_buf(), limit, hint }
}

/// Why the rest of an archive cannot be read.
struct Cut(String);

struct Reader<'a> {
    path: &'a Path,
    folder: Option<Option<String>>,
    entries: Entries,
    limit: u64,
    room: u64,
}

impl Reader<'_> {
    /// Takes one entry: nothing if it was taken, why not if the archive is cut here.
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
        if entry.size() > self.room {
            return Err(too_large(self.path, self.limit));
        }
        let mut bytes = Vec::new();
        // An entry's reader gives no more than its size.
        let result = entry.read_to_end(&mut bytes);
        self.room -= bytes.len() as u64;
        // Of a file that was cut, what is there is kept, under a name that says so.
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
