//! Reads the functions of a Linux kernel from its image. They name the code of a guest that ends before it sends its own symbols.
//!
//! A bzImage holds the compressed kernel where its boot header says (Documentation/arch/x86/boot.rst: `setup_sects` at 0x1f1,
//! `payload_offset` at 0x248 and `payload_length` at 0x24c, from version 2.08 on). Its first bytes give the format: gzip, xz, lzma, lz4,
//! zstd, or a plain ELF image. The kernel's table of its symbols is then found in the image by its form ([`kallsyms`]); an ELF kernel is
//! searched directly.
//!
//! Addresses are those that the kernel was linked to. A kernel with address randomisation runs elsewhere; readers find the distance. The
//! image is not trusted: its unpacked size and the claims of its tables are bounded.

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
use object::read::{ReadCache, ReadRef};

use recording::{BYTES_MAX, GuestSpec, read_regular};

use crate::arch;
use crate::arch::orc::Orc;
use crate::hash::{self, hash};
use crate::packed::{self, Compression, NoContent};

/// Upper bound for an unpacked kernel: Debian's have 70 MB.
const MAX_IMAGE_BYTES: u64 = 256 << 20;
/// The reason why an image gives no functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoFunctions {
    /// It is neither a bzImage with a payload nor an ELF image.
    NoKernel,
    /// Its payload cannot be unpacked.
    Payload(NoContent),
    /// It has no table of symbols (built without `CONFIG_KALLSYMS`), or one of an unknown form.
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

/// The ELF image of a bzImage or of an ELF kernel. For arm64, riscv64 and 32-bit ARM it is the memory image, which is not ELF.
///
/// # Errors
/// If it is not a kernel, or cannot be unpacked.
pub(crate) fn unpacked_image(image: &[u8]) -> Result<Cow<'_, [u8]>, NoFunctions> {
    if image.starts_with(b"\x7fELF") {
        return Ok(Cow::Borrowed(image));
    }
    match arch::plain_image(image) {
        Some(plain) => Ok(plain),
        None => unpacked(payload(image).ok_or(NoFunctions::NoKernel)?).map(Cow::Owned),
    }
}

/// The functions of a bzImage or an ELF kernel, by address: start and name.
///
/// # Errors
/// If it is not a kernel, cannot be unpacked, or has no table of its symbols.
pub fn functions(image: &[u8]) -> Result<Vec<(u64, String)>, NoFunctions> {
    kallsyms::functions(&unpacked_image(image)?).ok_or(NoFunctions::NoTable)
}

/// The functions of an ELF kernel, by address; empty if it has no table of them.
pub(crate) fn functions_of(elf: &[u8]) -> Vec<(u64, String)> {
    kallsyms::functions(elf).unwrap_or_default()
}

/// The variables of an ELF kernel with a table of its symbols, by address; empty if the table has only functions.
pub(crate) fn variables(elf: &[u8]) -> Vec<(u64, String)> {
    kallsyms::variables(elf).unwrap_or_default()
}

/// The per-CPU variables of an ELF kernel, by the address of their first values; empty if the table does not show them.
pub(crate) fn per_cpu(elf: &[u8]) -> Vec<(u64, String)> {
    kallsyms::per_cpu(elf).unwrap_or_default()
}

/// The tables by which a kernel finds callers on its stacks; `None` if it cannot be read or lacks them.
pub(crate) fn tables(kernel: &Path) -> Option<Orc> {
    let image = read_regular(kernel, BYTES_MAX).ok()?;
    Orc::of(&unpacked_image(&image).ok()?)
}

/// The reason why an image cannot be booted unpacked.
#[derive(Debug, thiserror::Error)]
pub enum NotUnpacked {
    /// It is not packed.
    #[error("the kernel is an ELF image already")]
    IsSo,
    /// It has no kernel, or the kernel cannot be unpacked.
    #[error("the kernel cannot be unpacked: {0}")]
    NoKernel(NoFunctions),
    /// Its unpacked image has no entry for a virtual machine monitor.
    #[error("the kernel has no PVH entry: it was built without CONFIG_PVH")]
    NoEntry,
    /// A file cannot be read or written.
    #[error("cannot unpack the kernel {path}: {why}{advice}", advice = recording::advice(why))]
    Io {
        path: PathBuf,
        /// The system's reason.
        why: io::Error,
    },
}

/// True if a VMM starts unpacked kernels of the guest's architecture, as [`unpack`] makes them.
#[must_use]
pub fn starts_unpacked(guest: &GuestSpec) -> bool {
    arch::of(guest).facts.qemu.starts_unpacked
}

/// The unpacked ELF image of a guest's bzImage, as a file in this folder with the kernel's release and hash in its name. An existing file
/// is not made again.
///
/// # Errors
/// If it cannot be unpacked, or if QEMU could not start the unpacked image.
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
    if !has_pvh_entry(&*elf) {
        return Err(NotUnpacked::NoEntry);
    }
    recording::own_folder(folder).map_err(failed(folder))?;
    let partial = recording::beside(&into).map_err(failed(&into))?;
    fs::write(partial.path(), &elf).map_err(failed(&into))?;
    partial.persist(&into).map_err(|why| failed(&into)(why.error))?;
    Ok(into)
}

/// `XEN_ELFNOTE_PHYS32_ENTRY`: the place where a machine monitor enters a kernel by PVH.
const PVH_ENTRY: NoteType = NoteType(18);

/// True if QEMU cannot start a file: an ELF image for x86-64 without an entry for a machine monitor, and no multiboot kernel.
pub(crate) fn lacks_entry(kernel: &Path, head: &[u8]) -> bool {
    const IS_64_BIT: u8 = 2;
    const X86_64: [u8; 2] = [62, 0];
    let is_elf = head.starts_with(b"\x7fELF") && head.get(4) == Some(&IS_64_BIT) && head.get(18..20) == Some(&X86_64);
    let is_multiboot = head.chunks_exact(4).take(2048).any(|word| word == 0x1bad_b002_u32.to_le_bytes());
    // An image with debug information can be larger than memory.
    let has_entry = || fs::File::open(kernel).is_ok_and(|file| has_pvh_entry(&ReadCache::new(file)));
    is_elf && !is_multiboot && !has_entry()
}

/// True if an ELF image has the note by which QEMU starts it.
fn has_pvh_entry<'d>(elf: impl ReadRef<'d>) -> bool {
    let Ok(header) = FileHeader64::<Endianness>::parse(elf) else { return false };
    let Ok(endian) = header.endian() else { return false };
    let Ok(segments) = header.program_headers(endian, elf) else { return false };
    segments.iter().filter_map(|segment| segment.notes(endian, elf).ok().flatten()).any(|mut notes| {
        std::iter::from_fn(|| notes.next().ok().flatten())
            .any(|note| note.name() == b"Xen" && note.n_type(endian) == PVH_ENTRY)
    })
}

/// True if a file that begins like this is a kernel that must be unpacked or searched completely for its functions.
pub(crate) fn is_packed(head: &[u8]) -> bool {
    is_bzimage(head) || arch::is_plain_image(head)
}

/// True if a file that begins like this is a bzImage with a payload.
pub(crate) fn is_bzimage(head: &[u8]) -> bool {
    let version = head.get(0x206..0x208).and_then(|v| Some(u16::from_le_bytes(v.try_into().ok()?)));
    head.get(0x202..0x206) == Some(b"HdrS") && version >= Some(0x208)
}

/// The compressed kernel in a bzImage, as its boot header gives it.
fn payload(image: &[u8]) -> Option<&[u8]> {
    let payload = payload_at(image)?;
    image.get(payload).filter(|payload| !payload.is_empty())
}

/// The payload's range in a bzImage that begins like this.
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

/// The name of a bzImage's compression; `None` for another kernel, or if the payload's first bytes are unknown.
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

/// The unpacked payload. In most formats the content's length follows, which is ignored.
fn unpacked(payload: &[u8]) -> Result<Vec<u8>, NoFunctions> {
    packed::content(payload, MAX_IMAGE_BYTES).map(|(content, _)| content).map_err(NoFunctions::Payload)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packed::testing::packed;

    /// A bzImage with this payload.
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
    fn the_payloads_first_bytes_give_its_compression() {
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

    /// An ELF image with one segment of notes: one note of this name and kind.
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
        let unpack_from =
            |kernel: &Path| unpack(&GuestSpec { kernel: Some(kernel.to_owned()), ..GuestSpec::default() }, &into);
        let with = |payload: &[u8]| {
            fs::write(&kernel, bzimage(payload)).unwrap();
            unpack_from(&kernel)
        };
        let good = elf(b"Xen\0", 18);
        let made = with(&packed(&good, "gzip", &["-c"])).unwrap();
        assert_eq!(fs::read(&made).unwrap(), good);
        fs::write(&made, "as it was").unwrap();
        assert_eq!(unpack_from(&kernel).unwrap(), made);
        assert_eq!(fs::read(&made).unwrap(), b"as it was", "it is not made again");
        assert!(matches!(with(&elf(b"Xen\0", 1)), Err(NotUnpacked::NoEntry)));
        assert!(matches!(with(&elf(b"GNU\0", 18)), Err(NotUnpacked::NoEntry)));
        assert!(matches!(with(&good[..64]), Err(NotUnpacked::NoEntry)), "cut");
        assert!(matches!(with(b"BZh9"), Err(NotUnpacked::NoKernel(_))));
        fs::write(&kernel, &good).unwrap();
        assert!(matches!(unpack_from(&kernel), Err(NotUnpacked::IsSo)));
        assert!(matches!(unpack_from(&into.join("none")), Err(NotUnpacked::Io { .. })));
        assert_eq!(fs::read_dir(&into).unwrap().count(), 1, "nothing half made is left");
    }

    #[test]
    fn an_elf_kernel_without_an_entry_is_seen_before_the_boot() {
        let folder = tempfile::tempdir().unwrap();
        let kernel = folder.path().join("vmlinux");
        let lacks = |bytes: &[u8]| {
            fs::write(&kernel, bytes).unwrap();
            lacks_entry(&kernel, bytes)
        };
        assert!(!lacks(&elf(b"Xen\0", 18)));
        assert!(lacks(&elf(b"GNU\0", 18)));
        assert!(lacks(&elf(b"Xen\0", 18)[..70]), "cut");
        assert!(!lacks(&[elf(b"GNU\0", 18), 0x1bad_b002_u32.to_le_bytes().to_vec()].concat()), "multiboot");
        assert!(!lacks(&bzimage(b"\x7fELF")));
        let mut arm64 = elf(b"GNU\0", 18);
        arm64[18] = 183;
        assert!(!lacks(&arm64), "is refused elsewhere");
    }

    #[test]
    fn what_gives_no_functions_says_why() {
        let check_error = |image: &[u8], why: &str| {
            let why_not = functions(image).unwrap_err().to_string();
            assert!(why_not.contains(why), "{why_not}");
        };
        check_error(b"", "neither");
        check_error(b"hello", "neither");
        check_error(b"\x7fELF\x02", "no table");
        check_error(&bzimage(b""), "neither");
        check_error(&bzimage(b"\x1f\x8b\x08"), "cannot be unpacked");
        check_error(&bzimage(b"\xfd7zXZ\0\0\0"), "cannot be unpacked");
        check_error(&bzimage(b"\x28\xb5\x2f\xfd\xff"), "cannot be unpacked");
        check_error(&bzimage(b"\x02\x21\x4c\x18\x04\0\0\0\xff\xff\xff\xff"), "cannot be unpacked");
        check_error(&bzimage(b"\x02\x21\x4c\x18\x05\0\0\0\xff\xff\xff\xff"), "a block of 5 bytes where 4 are left");
        check_error(&bzimage(b"BZh9"), "bzip2");
        check_error(&bzimage(b"\x89LZO"), "LZO");
        check_error(&bzimage(b"what"), "unknown");
        check_error(&bzimage(&packed(b"no kernel", "gzip", &["-c"])), "no table");
        let bomb = vec![0; 1 << 20];
        let bomb: Vec<u8> = std::iter::repeat_n(zstd::bulk::compress(&bomb, 1).unwrap(), 300).flatten().collect();
        check_error(&bzimage(&bomb), "no table"); // only the first of several frames is read
        let mut cut = bzimage(b"\x7fELF, and then");
        cut.truncate(2050);
        check_error(&cut, "neither");
    }
}
