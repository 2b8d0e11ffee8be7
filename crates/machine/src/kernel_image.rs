//! The functions of a Linux kernel, read from its image: names for a guest that ends before it sends its own symbols.
//!
//! A bzImage holds the compressed kernel where its boot header says (Documentation/arch/x86/boot.rst: `setup_sects` at
//! 0x1f1, `payload_offset` at 0x248 and `payload_length` at 0x24c, from version 2.08 on). Its first bytes
//! say what is in it: gzip, xz, lzma, lz4 or zstd, or an ELF image as it is. The kernel's own table of its symbols is then found
//! in the image by its form ([`kallsyms`]); an ELF kernel is looked through as it is.
//!
//! Addresses are those that the kernel was linked to. A kernel with address randomisation runs elsewhere: readers find out by
//! how much. The image is not trusted: what it unpacks to, and what its tables claim, is bounded.

mod kallsyms;

use std::borrow::Cow;
use std::fmt;
use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use object::Endianness;
use object::elf::{FileHeader64, NoteType};
use object::read::elf::{FileHeader, ProgramHeader};

use recording::{BYTES_MAX, GuestSpec, read_regular};

use crate::arch;
use crate::arch::orc::Orc;
use crate::hash::{self, hash};
use crate::packed::{self, Compression, NoContent};

/// No kernel is longer, unpacked: Debian's are 70 MB.
const IMAGE_BYTES_MAX: u64 = 256 << 20;
/// Why an image gives no functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoFunctions {
    /// It is neither a bzImage with a payload nor an ELF image.
    NoKernel,
    /// What it unpacks cannot be had.
    Payload(NoContent),
    /// There is no table of symbols in it (built without `CONFIG_KALLSYMS`), or none of a form that is known.
    NoTable,
}

impl fmt::Display for NoFunctions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoFunctions::NoKernel => {
                write!(f, "it is neither a bzImage, an ELF image, an Image of arm64 or riscv64, nor a zImage")
            }
            NoFunctions::Payload(why) => write!(f, "its payload {why}"),
            NoFunctions::NoTable => write!(f, "there is no table of symbols in it: it has no CONFIG_KALLSYMS"),
        }
    }
}

/// The ELF image of a bzImage, or of an ELF kernel itself; or what lies in memory of arm64, riscv64 or 32-bit ARM, which is none.
///
/// # Errors
/// If it is no kernel, or cannot be unpacked.
pub(crate) fn unpacked_image(image: &[u8]) -> Result<Cow<'_, [u8]>, NoFunctions> {
    if image.starts_with(b"\x7fELF") {
        return Ok(Cow::Borrowed(image));
    }
    match arch::plain_image(image) {
        Some(plain) => Ok(plain),
        None => unpacked(payload(image).ok_or(NoFunctions::NoKernel)?).map(Cow::Owned),
    }
}

/// The functions of a bzImage or an ELF kernel, by address: where each begins, and its name.
///
/// # Errors
/// If it is no kernel, cannot be unpacked, or has no table of its symbols.
pub fn functions(image: &[u8]) -> Result<Vec<(u64, String)>, NoFunctions> {
    kallsyms::functions(&unpacked_image(image)?).ok_or(NoFunctions::NoTable)
}

/// The functions of an ELF kernel, by address; none where it has no table of them.
pub(crate) fn functions_of(elf: &[u8]) -> Vec<(u64, String)> {
    kallsyms::functions(elf).unwrap_or_default()
}

/// The variables of an ELF kernel that has a table of its symbols, by address; none where it lists functions alone.
pub(crate) fn variables(elf: &[u8]) -> Vec<(u64, String)> {
    kallsyms::variables(elf).unwrap_or_default()
}

/// Its variables of which each CPU has its own, by where their first values are; none where nothing says which they are.
pub(crate) fn per_cpu(elf: &[u8]) -> Vec<(u64, String)> {
    kallsyms::per_cpu(elf).unwrap_or_default()
}

/// The tables by which a kernel finds callers on its stacks; none if it cannot be read or has none.
pub(crate) fn tables(kernel: &Path) -> Option<Orc> {
    let image = read_regular(kernel, BYTES_MAX).ok()?;
    Orc::of(&unpacked_image(&image).ok()?)
}

/// Why an image cannot be booted unpacked.
#[derive(Debug, thiserror::Error)]
pub enum NotUnpacked {
    /// It is unpacked.
    #[error("the kernel is an ELF image already")]
    IsSo,
    /// It has no kernel that can be had.
    #[error("the kernel cannot be unpacked: {0}")]
    NoKernel(NoFunctions),
    /// Unpacked, it has no entry for a virtual machine monitor.
    #[error("the kernel has no PVH entry: it was built without CONFIG_PVH")]
    NoEntry,
    /// A file cannot be read or written.
    #[error("cannot unpack the kernel {path}: {why}{advice}", advice = recording::advice(why))]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        why: io::Error,
    },
}

/// Whether a VMM starts kernels of the guest's architecture unpacked, as [`unpack`] makes them.
#[must_use]
pub fn starts_unpacked(guest: &GuestSpec) -> bool {
    arch::of(guest).starts_unpacked
}

/// The ELF image that a guest's bzImage unpacks, as a file in this folder with its release and hash in its name. One that is there
/// is not made again.
///
/// # Errors
/// If it cannot be unpacked, or QEMU could not start what is in it.
pub fn unpack(guest: &GuestSpec, folder: &Path) -> Result<PathBuf, NotUnpacked> {
    let kernel = guest.kernel.as_deref().ok_or(NotUnpacked::NoKernel(NoFunctions::NoKernel))?;
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |why| NotUnpacked::Io { path, why }
    };
    let bytes = read_regular(kernel, BYTES_MAX).map_err(failed(kernel))?;
    if bytes.starts_with(b"\x7fELF") {
        return Err(NotUnpacked::IsSo);
    }
    let packed = payload(&bytes).ok_or(NotUnpacked::NoKernel(NoFunctions::NoKernel))?;
    let hash = hash(&*bytes).map_err(failed(kernel))?;
    let release = (arch::of(guest).linux_release)(&bytes).unwrap_or_default();
    let into = folder.join(format!("vmlinux-{release}-{}", hash::in_name(&hash)));
    if into.is_file() {
        return Ok(into);
    }
    let elf = unpacked(packed).map_err(NotUnpacked::NoKernel)?;
    if !has_pvh_entry(&elf) {
        return Err(NotUnpacked::NoEntry);
    }
    recording::own_folder(folder).map_err(failed(folder))?;
    let partial = recording::beside(&into).map_err(failed(&into))?;
    fs::write(partial.path(), &elf).map_err(failed(&into))?;
    partial.persist(&into).map_err(|why| failed(&into)(why.error))?;
    Ok(into)
}

/// `XEN_ELFNOTE_PHYS32_ENTRY`: where a machine monitor enters a kernel by PVH.
const PVH_ENTRY: NoteType = NoteType(18);

/// Whether an ELF image has the note by which QEMU starts it.
fn has_pvh_entry(elf: &[u8]) -> bool {
    let Ok(header) = FileHeader64::<Endianness>::parse(elf) else { return false };
    let Ok(endian) = header.endian() else { return false };
    let Ok(segments) = header.program_headers(endian, elf) else { return false };
    segments.iter().filter_map(|segment| segment.notes(endian, elf).ok().flatten()).any(|mut notes| {
        std::iter::from_fn(|| notes.next().ok().flatten())
            .any(|note| note.name() == b"Xen" && note.n_type(endian) == PVH_ENTRY)
    })
}

/// Whether a file that begins like this is a kernel that has to be unpacked, or searched whole, for its functions.
pub(crate) fn is_packed(head: &[u8]) -> bool {
    is_bzimage(head) || arch::is_plain_image(head)
}

/// Whether a file that begins like this is a bzImage with a payload.
pub(crate) fn is_bzimage(head: &[u8]) -> bool {
    let version = head.get(0x206..0x208).and_then(|v| Some(u16::from_le_bytes(v.try_into().ok()?)));
    head.get(0x202..0x206) == Some(b"HdrS") && version >= Some(0x208)
}

/// What a bzImage unpacks, as its boot header says.
fn payload(image: &[u8]) -> Option<&[u8]> {
    let payload = payload_at(image)?;
    image.get(payload).filter(|payload| !payload.is_empty())
}

/// Where in a bzImage that begins like this its payload is.
fn payload_at(head: &[u8]) -> Option<Range<usize>> {
    let u32_at = |at: usize| Some(u32::from_le_bytes(head.get(at..at + 4)?.try_into().ok()?) as usize);
    if !is_bzimage(head) {
        return None;
    }
    let sectors = match head[0x1f1] {
        0 => 4,
        n => usize::from(n),
    };
    let begins = (sectors + 1) * 512 + u32_at(0x248)?;
    Some(begins..begins.checked_add(u32_at(0x24c)?)?)
}

/// What a bzImage is compressed with; none of another kernel, and where its first bytes do not tell.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn compressed_with(mut file: impl Read + Seek) -> io::Result<Option<&'static str>> {
    let mut head = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.by_ref().take(0x260).read_to_end(&mut head)?;
    let Some(payload) = payload_at(&head) else { return Ok(None) };
    let mut magic = Vec::new();
    file.seek(SeekFrom::Start(payload.start as u64))?;
    file.take(payload.len().min(8) as u64).read_to_end(&mut magic)?;
    let compression = Compression::of(&magic);
    Ok((compression != Compression::Unknown).then(|| compression.name()))
}

/// The payload's content. Most formats are followed by the content's length, which is ignored.
fn unpacked(payload: &[u8]) -> Result<Vec<u8>, NoFunctions> {
    packed::content(payload, IMAGE_BYTES_MAX).map(|(content, _)| content).map_err(NoFunctions::Payload)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packed::testing::packed;

    /// A bzImage of this payload.
    fn bzimage(payload: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 2048];
        image[0x1f1] = 2;
        image[0x202..0x208].copy_from_slice(b"HdrS\x0f\x02");
        image[0x248..0x24c].copy_from_slice(&512u32.to_le_bytes());
        image[0x24c..0x250].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        image.extend(payload);
        image
    }

    #[test]
    fn a_compressor_is_told_by_the_payload_s_first_bytes() {
        let with = |image: &[u8]| compressed_with(io::Cursor::new(image)).unwrap();
        for (magic, name) in [
            (&b"\x1f\x8b\x08"[..], Some("gzip")),
            (b"\xfd7zXZ\0", Some("XZ")),
            (b"\x5d\0\0\x80", Some("LZMA")),
            (b"\x28\xb5\x2f\xfd", Some("zstd")),
            (b"\x02\x21\x4c\x18", Some("LZ4")),
            (b"BZh9", Some("bzip2")),
            (b"\x89LZO", Some("LZO")),
            (b"\x7fELF", Some("not compressed")),
            (b"what", None),
            (b"", None),
        ] {
            assert_eq!(with(&bzimage(magic)), name, "{magic:?}");
        }
        assert_eq!(with(b""), None);
        assert_eq!(with(b"\x7fELF"), None, "an ELF kernel unpacks nothing");
        assert_eq!(with(&bzimage(b"\x1f\x8b\x08")[..1000]), None, "cut before its payload");
    }

    /// An ELF image with one segment of notes: a note of this name and kind.
    fn elf(name: &[u8; 4], kind: u32) -> Vec<u8> {
        let mut elf = b"\x7fELF\x02\x01\x01".to_vec();
        elf.resize(16, 0);
        let words = |elf: &mut Vec<u8>, all: &[u64]| all.iter().for_each(|word| elf.extend(word.to_le_bytes()));
        elf.extend([2, 0, 62, 0, 1, 0, 0, 0]);
        words(&mut elf, &[0x100_0000, 64, 0]); // entry, program headers, sections
        elf.extend([0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 64, 0, 0, 0, 0, 0]);
        elf.extend([4, 0, 0, 0, 4, 0, 0, 0]); // PT_NOTE
        words(&mut elf, &[120, 0, 0, 20, 20, 4]);
        [4, 4, kind].iter().for_each(|word: &u32| elf.extend(word.to_le_bytes()));
        elf.extend(name);
        elf.extend(0x10_0000u32.to_le_bytes());
        elf
    }

    #[test]
    fn a_kernel_is_unpacked_once_into_a_file_that_qemu_can_start() {
        let folder = tempfile::tempdir().unwrap();
        let (kernel, into) = (folder.path().join("vmlinuz"), folder.path().join("unpacked"));
        let of = |kernel: &Path| unpack(&GuestSpec { kernel: Some(kernel.to_owned()), ..GuestSpec::default() }, &into);
        let with = |payload: &[u8]| {
            fs::write(&kernel, bzimage(payload)).unwrap();
            of(&kernel)
        };
        let good = elf(b"Xen\0", 18);
        let made = with(&packed(&good, "gzip", &["-c"])).unwrap();
        assert_eq!(fs::read(&made).unwrap(), good);
        fs::write(&made, "as it was").unwrap();
        assert_eq!(of(&kernel).unwrap(), made);
        assert_eq!(fs::read(&made).unwrap(), b"as it was", "it is not made again");
        assert!(matches!(with(&elf(b"Xen\0", 1)), Err(NotUnpacked::NoEntry)));
        assert!(matches!(with(&elf(b"GNU\0", 18)), Err(NotUnpacked::NoEntry)));
        assert!(matches!(with(&good[..64]), Err(NotUnpacked::NoEntry)), "cut");
        assert!(matches!(with(b"BZh9"), Err(NotUnpacked::NoKernel(_))));
        fs::write(&kernel, &good).unwrap();
        assert!(matches!(of(&kernel), Err(NotUnpacked::IsSo)));
        assert!(matches!(of(&into.join("none")), Err(NotUnpacked::Io { .. })));
        assert_eq!(fs::read_dir(&into).unwrap().count(), 1, "nothing half made is left");
    }

    #[test]
    fn what_gives_no_functions_says_why() {
        let says = |image: &[u8], why: &str| {
            let said = functions(image).unwrap_err().to_string();
            assert!(said.contains(why), "{said}");
        };
        says(b"", "neither");
        says(b"hello", "neither");
        says(b"\x7fELF\x02", "no table");
        says(&bzimage(b""), "neither");
        says(&bzimage(b"\x1f\x8b\x08"), "cannot be unpacked");
        says(&bzimage(b"\xfd7zXZ\0\0\0"), "cannot be unpacked");
        says(&bzimage(b"\x28\xb5\x2f\xfd\xff"), "cannot be unpacked");
        says(&bzimage(b"\x02\x21\x4c\x18\x04\0\0\0\xff\xff\xff\xff"), "cannot be unpacked");
        says(&bzimage(b"\x02\x21\x4c\x18\x05\0\0\0\xff\xff\xff\xff"), "a block of 5 bytes where 4 are left");
        says(&bzimage(b"BZh9"), "bzip2");
        says(&bzimage(b"\x89LZO"), "LZO");
        says(&bzimage(b"what"), "unknown");
        says(&bzimage(&packed(b"no kernel", "gzip", &["-c"])), "no table");
        let bomb = vec![0; 1 << 20];
        let bomb: Vec<u8> = std::iter::repeat_n(zstd::bulk::compress(&bomb, 1).unwrap(), 300).flatten().collect();
        says(&bzimage(&bomb), "no table"); // of several frames the first
        let mut cut = bzimage(b"\x7fELF, and then");
        cut.truncate(2050);
        says(&cut, "neither");
    }
}
