//! Tar archives among imported files: each file in one is looked at as if it had been given by itself.
//!
//! bootchart leaves its logs in an archive, and a directory of `/sys` travels in one. Nothing is written anywhere, so a path
//! that climbs out of the archive is a name and no more. Memory is bounded by the archive's own length: links, devices and
//! sparse files bring no bytes of their own and are counted, and so is what is cut.
//!
//! It must know no format of what is inside.

use crate::input::File;
use std::io::Read;
use tar::{Archive, EntryType, Header};
use timeline::{DiagnosticKind, Diagnostics};

/// More files than any tool puts beside each other.
const MEMBERS_MAX: usize = 1 << 12;
/// A longer name is cut.
const NAME_BYTES_MAX: usize = 4096;
/// How long a file of `/sys` says that it is.
const SYSFS_BYTES: usize = 4096;
/// What a tar archive consists of.
const BLOCK_BYTES: usize = 512;

/// Whether bytes begin with the header of a tar archive: its checksum is right. Old archives have no magic number.
pub(crate) fn is_archive(bytes: &[u8]) -> bool {
    let Some(block) = bytes.get(..BLOCK_BYTES) else { return false };
    let stored = Header::from_byte_slice(block).cksum().ok();
    // The checksum counts its own eight bytes as spaces.
    let sum: u32 = block[..148].iter().chain(&[b' '; 8]).chain(&block[156..]).map(|byte| u32::from(*byte)).sum();
    block[0] != 0 && stored == Some(sum)
}

/// A file, or the files in it if it is an archive.
pub(crate) fn members(file: File, diagnostics: &mut Diagnostics) -> Vec<File> {
    if !is_archive(&file.bytes) {
        return vec![file];
    }
    let mut members = Vec::new();
    let mut archive = Archive::new(&file.bytes[..]);
    let Ok(entries) = archive.entries() else { return members };
    for entry in entries {
        // Where one header is damaged nothing says where the next one is.
        let Ok(mut entry) = entry else {
            diagnostics.note(DiagnosticKind::ArchiveCut, || file.name.clone());
            break;
        };
        let path = entry.path_bytes();
        let name = inner_name(&file.name, &String::from_utf8_lossy(&path[..path.len().min(NAME_BYTES_MAX)]));
        match entry.header().entry_type() {
            EntryType::Regular | EntryType::Continuous => {}
            EntryType::Directory | EntryType::XGlobalHeader => continue,
            _ => {
                diagnostics.note_about(DiagnosticKind::ArchiveEntryIgnored, &file.name, || name);
                continue;
            }
        }
        if members.len() == MEMBERS_MAX {
            diagnostics.note_about(DiagnosticKind::EntriesBeyondBound, &file.name, || name);
            continue;
        }
        let mut bytes = Vec::new();
        let read = entry.by_ref().take(file.bytes.len() as u64).read_to_end(&mut bytes);
        let is_cut = read.is_err() || (bytes.len() as u64) < entry.size();
        if bytes.len() == SYSFS_BYTES {
            unpad(&mut bytes);
        }
        members.push(File { name, bytes: bytes.into() });
        if is_cut {
            diagnostics.note(DiagnosticKind::ArchiveCut, || file.name.clone());
            break;
        }
    }
    members
}

/// A text file of `/sys` says that it is as long as a page, and tar fills up with zeros what it does not have.
fn unpad(bytes: &mut Vec<u8>) {
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    if !bytes[..end].contains(&0) {
        bytes.truncate(end);
    }
}

/// How places name a file in an archive.
fn inner_name(archive: &str, path: &str) -> String {
    let path = path.trim_start_matches("./");
    if archive.is_empty() { path.to_owned() } else { format!("{archive}:{path}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, content) in files {
            let mut header = Header::new_gnu();
            // `set_path` refuses what climbs out; a stranger's archive does not.
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_size(content.len() as u64);
            header.set_cksum();
            builder.append(&header, *content).unwrap();
        }
        builder.into_inner().unwrap()
    }

    fn read(bytes: Vec<u8>) -> (Vec<(String, usize)>, Diagnostics) {
        let mut diagnostics = Diagnostics::default();
        let found = members(File { name: "a.tar".to_owned(), bytes: bytes.into() }, &mut diagnostics);
        (found.into_iter().map(|file| (file.name, file.bytes.len())).collect(), diagnostics)
    }

    #[test]
    fn each_file_is_one_of_its_own() {
        let (found, diagnostics) = read(archive(&[("./header", b"abc"), ("../../etc/passwd", b"")]));
        assert_eq!(found, [("a.tar:header".to_owned(), 3), ("a.tar:../../etc/passwd".to_owned(), 0)]);
        assert!(diagnostics.is_empty());
        assert_eq!(read(b"no archive".to_vec()).0, [("a.tar".to_owned(), 10)]);
        assert!(!is_archive(&[0; 1024]) && !is_archive(&[b' '; 1024]));
    }

    #[test]
    fn what_is_cut_or_no_file_is_counted() {
        let whole = archive(&[("a", &[1; 700]), ("b", &[2; 700])]);
        let (found, diagnostics) = read(whole[..2 * BLOCK_BYTES + 1].to_vec());
        assert_eq!((found.len(), diagnostics.count(DiagnosticKind::ArchiveCut) > 0), (1, true));

        let mut link = Header::new_gnu();
        link.set_path("link").unwrap();
        link.set_entry_type(EntryType::Symlink);
        link.set_size(0);
        link.set_cksum();
        let (found, diagnostics) = read([link.as_bytes().as_slice(), &whole].concat());
        assert_eq!((found.len(), diagnostics.count(DiagnosticKind::ArchiveEntryIgnored)), (2, 1));
    }

    #[test]
    fn a_header_that_promises_too_much_costs_nothing() {
        let mut header = Header::new_gnu();
        header.set_path("huge").unwrap();
        header.set_size(u64::MAX / 4);
        header.set_cksum();
        let (found, diagnostics) = read([header.as_bytes().as_slice(), &[7; 100]].concat());
        assert_eq!((found, diagnostics.count(DiagnosticKind::ArchiveCut)), (vec![("a.tar:huge".to_owned(), 100)], 1));
    }
}
