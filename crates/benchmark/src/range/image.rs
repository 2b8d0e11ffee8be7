//! Identifies what is booted of a kernel's file.
//!
//! Two builds of equal sources may differ in what is never loaded: names of temporary files in a symbol table, paths in
//! debug information. So the hash of an ELF file covers its entry and its segments. That of any other file covers it whole.

use crate::hex;
use object::Endianness;
use object::elf::{FileHeader32, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader};
use object::read::{FileKind, ReadCache, ReadRef};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// The hash of what is booted of a kernel, in hexadecimal digits.
pub(super) fn hash_of(kernel: &Path) -> io::Result<String> {
    let mut file = File::open(kernel)?;
    let segments = {
        let cache = ReadCache::new(&mut file);
        match FileKind::parse(&cache) {
            Ok(FileKind::Elf32) => segments::<FileHeader32<Endianness>, _>(&cache),
            Ok(FileKind::Elf64) => segments::<FileHeader64<Endianness>, _>(&cache),
            _ => None,
        }
    };
    let mut hash = Sha256::new();
    // A damaged ELF file is hashed whole.
    match segments {
        Some((about, ranges)) => {
            hash.update(about);
            for (start, bytes) in ranges {
                file.seek(SeekFrom::Start(start))?;
                update(&mut hash, (&mut file).take(bytes))?;
            }
        }
        None => {
            file.rewind()?;
            update(&mut hash, file)?;
        }
    }
    Ok(hex(&hash.finalize()))
}

/// Addresses and sizes of an ELF file's segments, as bytes for a hash, and the ranges of the file that they load: start
/// and length.
type Segments = (Vec<u8>, Vec<(u64, u64)>);

/// The segments of an ELF file. `None` if it is damaged or has no segments.
fn segments<'a, Elf: FileHeader<Endian = Endianness>, R: ReadRef<'a>>(data: R) -> Option<Segments> {
    let header = Elf::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let mut about = header.e_entry(endian).into().to_le_bytes().to_vec();
    about.extend(header.e_machine(endian).0.to_le_bytes());
    let mut ranges = Vec::new();
    for segment in header.program_headers(endian, data).ok()? {
        let (start, bytes) = segment.file_range(endian);
        let numbers = [
            segment.p_type(endian).0.into(),
            segment.p_vaddr(endian).into(),
            segment.p_paddr(endian).into(),
            segment.p_memsz(endian).into(),
            bytes,
        ];
        about.extend(numbers.iter().flat_map(|number: &u64| number.to_le_bytes()));
        ranges.push((start, bytes));
    }
    (!ranges.is_empty()).then_some((about, ranges))
}

fn update(hash: &mut Sha256, mut bytes: impl Read) -> io::Result<()> {
    let mut chunk = vec![0; 1 << 16];
    loop {
        match bytes.read(&mut chunk)? {
            0 => return Ok(()),
            read => hash.update(&chunk[..read]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF file for x86-64 with a segment of `code` at an address, and `rest` that is not loaded.
    fn elf(address: u64, code: &[u8], rest: &[u8]) -> Vec<u8> {
        let mut file = b"\x7fELF\x02\x01\x01".to_vec();
        file.resize(16, 0);
        for half in [2_u16, 62] {
            file.extend(half.to_le_bytes());
        }
        file.extend(1_u32.to_le_bytes());
        for word in [address, 64, 0] {
            file.extend(word.to_le_bytes());
        }
        file.extend(0_u32.to_le_bytes());
        for half in [64_u16, 56, 1, 0, 0, 0] {
            file.extend(half.to_le_bytes());
        }
        file.extend(1_u32.to_le_bytes());
        file.extend(5_u32.to_le_bytes());
        let bytes = code.len() as u64;
        for word in [120, address, address, bytes, bytes, 1] {
            file.extend(word.to_le_bytes());
        }
        file.extend(code);
        file.extend(rest);
        file
    }

    #[test]
    fn only_what_is_loaded_counts() {
        let folder = tempfile::tempdir().unwrap();
        let hash = |content: &[u8]| {
            let path = folder.path().join("kernel");
            std::fs::write(&path, content).unwrap();
            hash_of(&path).unwrap()
        };
        let one = hash(&elf(0x100000, b"code", b"ccA.o"));
        assert_eq!(one, hash(&elf(0x100000, b"code", b"ccB.o, and more")));
        assert_ne!(one, hash(&elf(0x100000, b"cold", b"ccA.o")));
        assert_ne!(one, hash(&elf(0x200000, b"code", b"ccA.o")));
        let cut = &elf(0x100000, b"code", b"")[..90];
        assert_ne!(hash(cut), hash(&cut[..80]), "a damaged file is hashed whole");
        assert_ne!(hash(b"bzImage 1"), hash(b"bzImage 2"));
        assert!(hash_of(&folder.path().join("gone")).is_err());
    }
}
