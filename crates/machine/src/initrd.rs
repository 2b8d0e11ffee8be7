//! Reads the archives of an initrd, and makes the same initrd without compression.
//!
//! An initrd is a sequence of cpio archives, each plain or compressed, with zeros between them (the kernel's
//! Documentation/driver-api/early-userspace/buffer-format.rst). Distributions put microcode in front of a compressed archive.

use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};

use recording::{GuestSpec, open_regular};

use crate::hash::{self, hash};
use crate::packed::{self, Compression, NoContent};

/// Upper bound for an initrd, packed or not: QEMU puts it into the guest's memory.
const MAX_BYTES: u64 = 1 << 30;
/// The kernel begins to read an archive at a multiple of this.
const ALIGN_BYTES: usize = 4;
const MAGIC: &[u8] = b"0707";
/// A header of the `newc` format: a magic number and 13 fields of eight hexadecimal digits.
const HEADER_BYTES: usize = 110;
/// The name that ends an archive, with the zero after it.
const TRAILER: &[u8] = b"TRAILER!!!\0";

/// The reason why an initrd cannot be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum NotUnpacked {
    /// Nothing in it is compressed.
    #[error("nothing in the initrd is compressed")]
    IsSo,
    /// The guest has no initrd besides bootscope's.
    #[error("the guest has no initrd of its own")]
    None,
    /// A part of it is no archive.
    #[error("the initrd {0}")]
    NoContent(NoContent),
    /// A file cannot be read or written.
    #[error("cannot unpack the initrd {path}: {why}{advice}", advice = recording::advice(why))]
    Io {
        path: PathBuf,
        /// The system's reason.
        why: io::Error,
    },
}

/// The compression of the largest part of an initrd; `None` if it cannot be recognised.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn compressed_with(mut file: File) -> io::Result<Option<&'static str>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.take(MAX_BYTES).read_to_end(&mut bytes)?;
    let plain = plain_bytes(&bytes).unwrap_or_default();
    if plain == bytes.len() && plain > 0 {
        return Ok(Some(Compression::No.name()));
    }
    let compression = Compression::of(&bytes[plain..]);
    Ok((!matches!(compression, Compression::No | Compression::Unknown)).then(|| compression.name()))
}

/// A guest's initrd without compression, as a file in this folder with its hash in its name. An existing file is not made again.
///
/// # Errors
/// If nothing in it is compressed, or it cannot be unpacked.
pub fn unpack(guest: &GuestSpec, folder: &Path) -> Result<PathBuf, NotUnpacked> {
    let initrd = guest.initrd.as_deref().ok_or(NotUnpacked::None)?;
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |why| NotUnpacked::Io { path, why }
    };
    let mut bytes = Vec::new();
    let file = open_regular(initrd).map_err(failed(initrd))?;
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(failed(initrd))?;
    let hash = hash(&*bytes).map_err(failed(initrd))?;
    let into = folder.join(format!("initrd-{}", hash::in_name(&hash)));
    if into.is_file() {
        return Ok(into);
    }
    let unpacked = unpacked(&bytes, MAX_BYTES).map_err(NotUnpacked::NoContent)?.ok_or(NotUnpacked::IsSo)?;
    recording::own_folder(folder).map_err(failed(folder))?;
    let partial = recording::beside(&into).map_err(failed(&into))?;
    fs::write(partial.path(), &unpacked).map_err(failed(&into))?;
    partial.persist(&into).map_err(|why| failed(&into)(why.error))?;
    Ok(into)
}

/// All archives without compression, at most `max_bytes` bytes; `None` if nothing is compressed.
///
/// # Errors
/// If an archive is truncated, cannot be unpacked or is too large, or if a part is no archive.
pub fn unpacked(mut initrd: &[u8], max_bytes: u64) -> Result<Option<Vec<u8>>, NoContent> {
    let mut all = Vec::new();
    let mut is_packed = false;
    loop {
        let plain = plain_bytes(initrd).ok_or_else(|| NoContent::Damaged("an archive in it is cut".to_owned()))?;
        all.extend_from_slice(&initrd[..plain]);
        all.resize(all.len().next_multiple_of(ALIGN_BYTES), 0);
        initrd = &initrd[plain..];
        if all.len() as u64 > max_bytes {
            return Err(NoContent::TooLarge(max_bytes));
        }
        if initrd.is_empty() {
            return Ok(is_packed.then_some(all));
        }
        if matches!(Compression::of(initrd), Compression::No) {
            return Err(NoContent::Damaged("something in it is no archive".to_owned()));
        }
        let (content, rest) = packed::content(initrd, max_bytes - all.len() as u64)?;
        all.extend(content);
        (initrd, is_packed) = (rest, true);
    }
}

/// Length of the uncompressed archives at the start of an initrd, with the zeros around them; `None` if one is truncated.
fn plain_bytes(initrd: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += initrd[at..].iter().take_while(|&&byte| byte == 0).count();
        if !initrd[at..].starts_with(MAGIC) {
            return Some(at);
        }
        at += archive_bytes(&initrd[at..])?;
    }
}

/// Length of an archive; `None` if it is truncated.
fn archive_bytes(archive: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let header = archive.get(at..at + HEADER_BYTES).filter(|header| header.starts_with(MAGIC))?;
        let field =
            |n: usize| usize::from_str_radix(std::str::from_utf8(&header[6 + 8 * n..14 + 8 * n]).ok()?, 16).ok();
        let (file_bytes, name_bytes) = (field(6)?, field(11)?);
        let name = at + HEADER_BYTES;
        let is_last = archive.get(name..name + name_bytes)? == TRAILER;
        at = (name + name_bytes).next_multiple_of(ALIGN_BYTES) + file_bytes.next_multiple_of(ALIGN_BYTES);
        if is_last {
            return Some(at.min(archive.len()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packed::testing::packed;

    /// An archive of one file.
    fn archive(name: &str, content: &[u8]) -> Vec<u8> {
        let mut archive = Vec::new();
        for (name, content) in [(name, content), ("TRAILER!!!", b"")] {
            let header = format!("070701{:048}{:08x}{:032}{:08x}{:08}", 0, content.len(), 0, name.len() + 1, 0);
            assert_eq!(header.len(), HEADER_BYTES);
            for part in [format!("{header}{name}\0").as_bytes(), content] {
                archive.extend_from_slice(part);
                archive.resize(archive.len().next_multiple_of(ALIGN_BYTES), 0);
            }
        }
        archive
    }

    fn with(initrd: &[u8]) -> Option<&'static str> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), initrd).unwrap();
        compressed_with(file.reopen().unwrap()).unwrap()
    }

    #[test]
    fn archives_come_out_unchanged_from_each_compression() {
        let (microcode, root) = (archive("microcode", b"12345"), archive("init", &[7; 9000]));
        let both = [microcode.clone(), vec![0; 300], root.clone()].concat();
        let xz: &[&str] = &["--check=crc32", "-c"];
        for (program, flags, name) in [("gzip", &["-c"][..], "gzip"), ("xz", xz, "XZ")] {
            let packed_root = packed(&root, program, flags);
            assert_eq!(unpacked(&packed_root, MAX_BYTES).unwrap().unwrap(), root);
            assert_eq!(with(&packed_root), Some(name));
            let debians = [microcode.clone(), vec![0; 300], packed_root.clone(), vec![0; 2]].concat();
            let out = unpacked(&debians, MAX_BYTES).unwrap().unwrap();
            assert!(out.starts_with(&both) && out[both.len()..].iter().all(|&byte| byte == 0));
            assert_eq!(with(&debians), Some(name), "the microcode in front is small");
            let twice = [packed(&microcode, program, flags), packed_root].concat();
            assert_eq!(unpacked(&twice, MAX_BYTES).unwrap().unwrap(), [microcode.clone(), root.clone()].concat());
        }
        assert_eq!(unpacked(&both, MAX_BYTES), Ok(None));
        assert_eq!((with(&both), with(b"no archive"), with(b"")), (Some("not compressed"), None, None));
    }

    #[test]
    fn errors_name_the_problem() {
        let root = archive("init", &[7; 9000]);
        let check_error = |initrd: &[u8], why: &str| {
            let why_not = unpacked(initrd, 8192).unwrap_err().to_string();
            assert!(why_not.contains(why), "{why_not}");
        };
        check_error(&root[..500], "an archive in it is cut");
        check_error(&packed(&root, "gzip", &["-c"]), "more than 0 MiB");
        check_error(b"#!/bin/sh", "something unknown");
        check_error(b"\x7fELF", "no archive");
        check_error(b"\x1f\x8b\x08", "cannot be unpacked");
        let broken = [&b"0707010000"[..], &[b'x'; 200]].concat();
        check_error(&broken, "cut");
    }

    #[test]
    fn an_initrd_is_unpacked_once() {
        let folder = tempfile::tempdir().unwrap();
        let (initrd, into) = (folder.path().join("initrd"), folder.path().join("unpacked"));
        let unpack_from = |guest: Option<&Path>| {
            unpack(&GuestSpec { initrd: guest.map(Path::to_owned), ..GuestSpec::default() }, &into)
        };
        let root = archive("init", b"#!/bin/sh");
        fs::write(&initrd, packed(&root, "gzip", &["-c"])).unwrap();
        let made = unpack_from(Some(&initrd)).unwrap();
        assert_eq!(fs::read(&made).unwrap(), root);
        fs::write(&made, "as it was").unwrap();
        assert_eq!(
            (unpack_from(Some(&initrd)).unwrap(), fs::read(&made).unwrap()),
            (made, b"as it was".to_vec()),
            "it is not made again"
        );
        fs::write(&initrd, &root).unwrap();
        assert!(matches!(unpack_from(Some(&initrd)), Err(NotUnpacked::IsSo)));
        assert!(matches!(unpack_from(None), Err(NotUnpacked::None)));
        assert!(matches!(unpack_from(Some(&into.join("none"))), Err(NotUnpacked::Io { .. })));
        assert_eq!(fs::read_dir(&into).unwrap().count(), 1, "nothing half made is left");
    }
}
