//! Tar archives among imported files: each member is read as if it had been given by itself.
//!
//! bootchart leaves its logs in an archive, and a directory of `/sys` is often sent in one. Nothing is written to disk,
//! so a path that leads out of the archive is harmless. Memory is bounded by the archive's own length. Links, devices
//! and sparse files have no contents of their own and are counted, and so are members that are cut.
//!
//! It must know no format of the members.

use crate::input::File;
use std::io::Read;
use tar::{Archive, EntryType, Header};
use timeline::{DiagnosticKind, Diagnostics};

/// More files than any tool puts into one folder.
const MEMBERS_MAX: usize = 1 << 12;
/// Longer names are cut.
const NAME_BYTES_MAX: usize = 4096;
/// The length that the kernel states for a file of `/sys`.
const SYSFS_BYTES: usize = 4096;
/// The unit that a tar archive consists of.
const BLOCK_BYTES: usize = 512;

/// True if the bytes begin with the header of a tar archive, by its checksum. Old archives have no magic number.
pub(crate) fn is_archive(bytes: &[u8]) -> bool {
    let Some(block) = bytes.get(..BLOCK_BYTES) else { return false };
    let stored = Header::from_byte_slice(block).cksum().ok();
    // The checksum counts its own eight bytes as spaces.
    let sum: u32 = block[..148].iter().chain(&[b' '; 8]).chain(&block[156..]).map(|byte| u32::from(*byte)).sum();
    block[0] != 0 && stored == Some(sum)
}

/// The members of an archive; the file itself if it is not one.
pub(crate) fn members(file: File, diagnostics: &mut Diagnostics) -> Vec<File> {
    if !is_archive(&file.bytes) {
        return vec![file];
    }
    let mut members = Vec::new();
    let mut archive = Archive::new(&file.bytes[..]);
    let Ok(entries) = archive.entries() else { return members };
    for entry in entries {
        // After a damaged header, the position of the next one is unknown.
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

/// Removes zeros at the end of a text file of `/sys`: its stated length is a page, and tar fills it up with zeros.
fn unpad(bytes: &mut Vec<u8>) {
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    if !bytes[..end].contains(&0) {
        bytes.truncate(end);
    }
}

/// The name of a file in an archive, in places of diagnostics.
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
            // `set_path` refuses paths that lead out of the archive; archives from elsewhere can have them.
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
    fn each_member_is_a_file() {
        let (found, diagnostics) = read(archive(&[("./header", b"abc"), ("../../etc/passwd", b"")]));
        assert_eq!(found, [("a.tar:header".to_owned(), 3), ("a.tar:../../etc/passwd".to_owned(), 0)]);
        assert!(diagnostics.is_empty());
        assert_eq!(read(b"no archive".to_vec()).0, [("a.tar".to_owned(), 10)]);
        assert!(!is_archive(&[0; 1024]) && !is_archive(&[b' '; 1024]));
    }

    #[test]
    fn cut_members_and_links_are_counted() {
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
    fn a_huge_length_in_a_header_is_cut_to_the_file() {
        let mut header = Header::new_gnu();
        header.set_path("huge").unwrap();
        header.set_size(u64::MAX / 4);
        header.set_cksum();
        let (found, diagnostics) = read([header.as_bytes().as_slice(), &[7; 100]].concat());
        assert_eq!((found, diagnostics.count(DiagnosticKind::ArchiveCut)), (vec![("a.tar:huge".to_owned(), 100)], 1));
    }
}
