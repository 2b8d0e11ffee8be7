//! The initrd: a cpio archive in the "newc" form, which is what `cpio -H newc` and guest-init write.
//!
//! Each entry is a header of 110 bytes (six, then thirteen fields of eight hexadecimal digits), the name with a NUL, and
//! the contents. Name and contents are each padded to a multiple of four bytes. The last entry is `TRAILER!!!`.

/// A file of the archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Path of the file, as bytes, because it need not be UTF-8.
    pub name: &'a [u8],
    /// Type and permissions.
    pub mode: u32,
    pub contents: &'a [u8],
}

/// The reason why the rest of an archive cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damaged {
    /// There is no header at this offset.
    NoHeader(usize),
    /// The archive ends within the entry whose header is at this offset.
    Cut(usize),
}

const HEADER_BYTES: usize = 110;

/// The entries of an archive, in order, up to its trailer or to the first damage.
pub fn entries(archive: &[u8]) -> impl Iterator<Item = Result<Entry<'_>, Damaged>> {
    let mut at = Some(0);
    core::iter::from_fn(move || {
        let here = at.take()?;
        match entry(archive, here) {
            Ok((entry, _)) if entry.name == b"TRAILER!!!" => None,
            Ok((entry, next)) => {
                at = Some(next);
                Some(Ok(entry))
            }
            Err(damaged) => Some(Err(damaged)),
        }
    })
}

/// Writes the part of an entry before its contents: the header, the name, and zeros up to a multiple of four.
pub fn write_header(name: &str, mode: u32, bytes: u32, mut put: impl FnMut(&[u8])) {
    put(b"070701");
    for field in [0, mode, 0, 0, 1, 0, bytes, 0, 0, 0, 0, name.len() as u32 + 1, 0] {
        let digit = |place: usize| b"0123456789abcdef"[(field >> (28 - 4 * place) & 15) as usize];
        put(&core::array::from_fn::<u8, 8, _>(digit));
    }
    put(name.as_bytes());
    let end = HEADER_BYTES + name.len() + 1;
    put(&[0; 4][..1 + end.next_multiple_of(4) - end]);
}

fn entry(archive: &[u8], at: usize) -> Result<(Entry<'_>, usize), Damaged> {
    let header = archive.get(at..).and_then(|rest| rest.get(..HEADER_BYTES)).ok_or(Damaged::Cut(at))?;
    if !matches!(&header[..6], b"070701" | b"070702") {
        return Err(Damaged::NoHeader(at));
    }
    let field = |number: usize| hexadecimal(&header[6 + number * 8..][..8]).ok_or(Damaged::NoHeader(at));
    let (mode, length, name_length) = (field(1)?, field(6)? as usize, field(11)? as usize);
    let name_at = at + HEADER_BYTES;
    let contents_at = (name_at + name_length).next_multiple_of(4);
    let name = archive.get(name_at..name_at + name_length).ok_or(Damaged::Cut(at))?;
    let contents = archive.get(contents_at..contents_at + length).ok_or(Damaged::Cut(at))?;
    let name = name.strip_suffix(b"\0").unwrap_or(name);
    Ok((Entry { name, mode, contents }, (contents_at + length).next_multiple_of(4)))
}

fn hexadecimal(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |value, &digit| Some(value << 4 | (digit as char).to_digit(16)?))
}

/// Writes a root image: an archive with one file of `bytes` zeros, and the trailer.
pub fn root_image(bytes: u32, mut put: impl FnMut(&[u8])) {
    const FILE: u32 = 0o100_644;
    write_header("blob", FILE, bytes, &mut put);
    let zeros = [0; 4096];
    let mut left = bytes.next_multiple_of(4) as usize;
    while left > 0 {
        let here = left.min(zeros.len());
        put(&zeros[..here]);
        left -= here;
    }
    write_header("TRAILER!!!", 0, 0, put);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (name, contents) in files.iter().chain(&[("TRAILER!!!", &[][..])]) {
            let fields = [0, 0o100644, 0, 0, 1, 0, contents.len(), 0, 0, 0, 0, name.len() + 1, 0];
            bytes.extend(b"070701");
            fields.iter().for_each(|field| bytes.extend(format!("{field:08x}").bytes()));
            bytes.extend(name.bytes().chain([0]));
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            bytes.extend(*contents);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes
    }

    #[test]
    fn files_up_to_the_trailer() {
        let mut bytes = archive(&[("init", b"hello"), ("etc/rc", b"")]);
        bytes.extend(b"garbage");
        let files: Vec<_> = entries(&bytes).map(|entry| entry.unwrap()).collect();
        assert_eq!(
            files.iter().map(|e| (e.name, e.contents)).collect::<Vec<_>>(),
            [(&b"init"[..], &b"hello"[..]), (b"etc/rc", b"")]
        );
        assert_eq!(files[0].mode, 0o100644);
    }

    #[test]
    fn a_header_that_is_written_is_read() {
        let mut bytes: Vec<u8> = Vec::new();
        for name in ["a", "ab", "abc", "abcd"] {
            write_header(name, 0o100644, 0xab_cdef, |part| bytes.extend(part));
            assert_eq!(bytes, archive(&[(name, &vec![0; 0xab_cdef])])[..bytes.len()]);
            assert_eq!(bytes.len() % 4, 0);
            bytes.clear();
        }
    }

    #[test]
    fn damage_is_reported_with_its_offset() {
        let bytes = archive(&[("init", b"hello")]);
        assert_eq!(entries(b"070701").next(), Some(Err(Damaged::Cut(0))));
        assert_eq!(entries(&[b'x'; 200]).next(), Some(Err(Damaged::NoHeader(0))));
        let cut: Vec<_> = entries(&bytes[..130]).collect();
        assert_eq!(cut.len(), 2);
        assert!(matches!(cut[1], Err(Damaged::Cut(124))), "{cut:?}");
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_do_harm(start: [u8; 6], rest: Vec<u8>) {
            let mut bytes = archive(&[("a", b"b")]);
            bytes[..6].copy_from_slice(&start);
            bytes.extend(&rest);
            proptest::prop_assert!(entries(&bytes).count() <= bytes.len());
            proptest::prop_assert!(entries(&rest).count() <= rest.len() + 1);
        }
    }

    #[test]
    fn a_root_image_is_an_archive_of_one_file() {
        let mut image: Vec<u8> = Vec::new();
        root_image(10_001, |part| image.extend(part));
        let entries: Vec<_> = entries(&image).map(|entry| entry.unwrap()).collect();
        assert_eq!((entries.len(), entries[0].contents.len()), (1, 10_001));
    }
}
