//! Kernel files that no VMM starts as they are: opens them, so that the kernel in them is booted.
//!
//! - An **EFI zboot image** is a UEFI program that unpacks a kernel (drivers/firmware/efi/libstub/zboot-header.S).
//! - A **packed Image** is one of the targets `Image.lz4`, `Image.zst` and so on of the kernel's build. VMMs unpack gzip alone.
//! - A **unified kernel image** is a UEFI program with a kernel, an initrd and a command line in its sections (UAPI Group's UKI
//!   specification).
//! - A **vmlinux** of arm64 or riscv64 is the Image in ELF segments.
//!
//! The parts are files in memory. The recording names and hashes the file that the user gave. Nothing in such a file is trusted: its sizes
//! are bounded, and what is in it is checked like a kernel that the user gave.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use object::Endianness;
use object::elf::{FileHeader64, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};
use object::read::pe::PeFile64;
use object::read::{Object, ObjectSection};
use recording::{BYTES_MAX, GuestSpec, read_regular};

use crate::arch;
use crate::file_head::HEAD_BYTES;
use crate::host::memory_file;
use crate::options::RecordOptions;
use crate::packed::{self, Compression};
use crate::{Error, file_head};

/// Upper bound for a kernel that is unpacked or put together.
const MAX_KERNEL_BYTES: u64 = 256 << 20;
/// A kernel lies at most this deep: a zboot image in a unified kernel image.
const MAX_DEPTH: u32 = 3;
/// The places of a zboot image's payload, of its length, and of the name of its compression.
const ZBOOT: [usize; 3] = [8, 12, 24];

/// The options of a boot whose kernel file is open, and the files in memory that they name.
pub(crate) struct Opened {
    pub(crate) options: Rc<RecordOptions>,
    /// A remark on the parts that are booted; `None` if the file is booted as it is.
    pub(crate) note: Option<String>,
    _files: Vec<File>,
}

/// The parts of a file that are booted.
#[derive(Debug, Default, PartialEq, Eq)]
struct Parts {
    kernel: Vec<u8>,
    initrd: Vec<u8>,
    command_line: String,
    /// The kind of file, and what of it is left out.
    what: String,
}

/// Opens the kernel file of these options, if no VMM starts it as it is.
pub(crate) fn open(options: &RecordOptions) -> Result<Opened, Error> {
    let as_it_is = || Opened { options: Rc::new(options.clone()), note: None, _files: Vec::new() };
    let Some(path) = options.guest.kernel.as_deref().filter(|path| path.exists()) else { return Ok(as_it_is()) };
    if is_started_by_firmware(&options.guest, &file_head::head(path)?) {
        return Ok(as_it_is());
    }
    let Some(parts) = parts_of(path)? else { return Ok(as_it_is()) };
    let mut opened = options.clone();
    let mut files = Vec::new();
    let mut keep = |bytes: &[&[u8]]| -> Result<PathBuf, Error> {
        let mut file = memory_file("bootscope-kernel")?;
        bytes
            .iter()
            .try_for_each(|part| file.write_all(part))
            .map_err(Error::host("copy a kernel's parts to memory"))?;
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        files.push(file);
        Ok(path.into())
    };
    opened.guest.kernel = Some(keep(&[&parts.kernel])?);
    if !parts.initrd.is_empty() && opened.guest.initrd.is_none() {
        opened.guest.initrd = Some(keep(&[&parts.initrd])?);
    }
    // The kernel takes the last value of a parameter: the user's.
    opened.guest.append = [&*parts.command_line, &*options.guest.append].join(" ").trim().to_owned();
    let note = Some(format!("{} is {}", path.display(), parts.what));
    Ok(Opened { options: Rc::new(opened), note, _files: files })
}

/// The first bytes of the kernel in a file, by which it is recognized.
pub(crate) fn head(path: &Path) -> Result<Vec<u8>, Error> {
    let mut head = file_head::head(path)?;
    if may_hold_kernel(&head) {
        if let Some(parts) = parts_of(path)? {
            head = parts.kernel;
            head.truncate(HEAD_BYTES);
        }
    }
    Ok(head)
}

/// True if a guest's UEFI firmware starts the program that begins like this.
fn is_started_by_firmware(guest: &GuestSpec, head: &[u8]) -> bool {
    guest.bios.is_some() && head.starts_with(b"MZ")
}

/// True if a file that begins like this may hold a kernel in another form. A file that a VMM starts does not.
fn may_hold_kernel(head: &[u8]) -> bool {
    let is_packed = !matches!(Compression::of(head), Compression::No | Compression::Gzip | Compression::Unknown);
    let is_other = is_packed || head.starts_with(b"MZ") || head.starts_with(b"\x7fELF");
    is_other && arch::of_kernel(head).is_none()
}

/// The parts of a file; `None` if it holds no kernel in a form that is opened here.
fn parts_of(path: &Path) -> Result<Option<Parts>, Error> {
    if !may_hold_kernel(&file_head::head(path)?) {
        return Ok(None);
    }
    let bytes = read_regular(path, BYTES_MAX).map_err(Error::unreadable(path))?;
    parts(&bytes).map_err(|found| Error::NotAKernel { path: path.to_owned(), found })
}

/// The parts of a file with this content. The error says why its kernel cannot be had.
fn parts(bytes: &[u8]) -> Result<Option<Parts>, String> {
    let Some(mut parts) = opened_once(bytes)? else { return Ok(None) };
    for _ in 1..MAX_DEPTH {
        let head = &parts.kernel[..parts.kernel.len().min(HEAD_BYTES)];
        let inner = if may_hold_kernel(head) { opened_once(&parts.kernel)? } else { None };
        let Some(inner) = inner else { break };
        parts.kernel = inner.kernel;
        parts.what = format!("{}. The kernel in it is {}", parts.what, inner.what);
    }
    if arch::of_kernel(&parts.kernel[..parts.kernel.len().min(HEAD_BYTES)]).is_none() {
        return Err(format!("it is {}, and what is in it is no kernel that bootscope knows", parts.what));
    }
    Ok(Some(parts))
}

fn opened_once(bytes: &[u8]) -> Result<Option<Parts>, String> {
    if bytes.starts_with(b"MZ") && bytes.get(4..8) == Some(b"zimg") {
        return zboot(bytes).map(Some);
    }
    if bytes.starts_with(b"MZ") {
        return unified(bytes);
    }
    if bytes.starts_with(b"\x7fELF") {
        return Ok(image_of_elf(bytes).map(|kernel| Parts {
            kernel,
            what: "a vmlinux: its segments are booted as the Image that they are".to_owned(),
            ..Parts::default()
        }));
    }
    let packing = Compression::of(bytes);
    let kernel = unpacked(bytes)?;
    Ok(Some(Parts {
        kernel,
        what: format!("packed ({}): it was unpacked before the boot", packing.name()),
        ..Parts::default()
    }))
}

fn unpacked(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let content = packed::content(bytes, MAX_KERNEL_BYTES);
    content.map(|(content, _)| content).map_err(|why| format!("its payload {why}"))
}

fn zboot(bytes: &[u8]) -> Result<Parts, String> {
    let [at, length] = [ZBOOT[0], ZBOOT[1]].map(|at| number(bytes, at));
    let payload = at.zip(length).and_then(|(at, length)| bytes.get(at..at.checked_add(length)?));
    let payload = payload.ok_or("it is an EFI zboot image, and its payload is cut off")?;
    let kernel = unpacked(payload)?;
    let name = bytes.get(ZBOOT[2]..).and_then(|name| name.split(|byte| *byte == 0).next()).unwrap_or_default();
    let name = crate::lines::shown(name, 16);
    let what = format!("an EFI zboot image ({name}): the kernel in it is booted, without its decompressor");
    Ok(Parts { kernel, what, ..Parts::default() })
}

fn number(bytes: &[u8], at: usize) -> Option<usize> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?) as usize)
}

/// The parts of a unified kernel image: those of its first profile, if it has several.
fn unified(bytes: &[u8]) -> Result<Option<Parts>, String> {
    let Ok(program) = PeFile64::parse(bytes) else { return Ok(None) };
    let mut sections: Vec<(String, &[u8])> = Vec::new();
    let mut profiles = 0;
    for section in program.sections() {
        let name = section.name().unwrap_or_default().to_owned();
        profiles += u32::from(name == ".profile");
        if profiles > 1 {
            break;
        }
        let data = section
            .data()
            .map_err(|_| format!("its section {} is cut off", crate::lines::shown(name.as_bytes(), 16)))?;
        sections.push((name, data));
    }
    // A section of a profile stands in place of the common one.
    let part = |name: &str| sections.iter().rev().find(|section| section.0 == name).map(|section| section.1);
    let Some(kernel) = part(".linux") else { return Ok(None) };
    let initrd = [".ucode", ".initrd"].iter().filter_map(|name| part(name)).collect::<Vec<&[u8]>>().concat();
    let words = String::from_utf8_lossy(part(".cmdline").unwrap_or_default()).into_owned();
    let words = words.trim_matches(|c: char| c == '\0' || c.is_whitespace()).replace(['\n', '\0'], " ");
    let what = "a unified kernel image: its kernel, initrd and command line are booted, without its loader";
    Ok(Some(Parts { kernel: kernel.to_vec(), initrd, command_line: words, what: what.to_owned() }))
}

/// The Image in the segments of an ELF file; `None` if they are no Image.
fn image_of_elf(bytes: &[u8]) -> Option<Vec<u8>> {
    let header = FileHeader64::<Endianness>::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let loads = header.program_headers(endian, bytes).ok()?.iter().filter(|load| load.p_type(endian) == PT_LOAD);
    let begin = loads.clone().map(|load| load.p_vaddr(endian)).min()?;
    let mut image = Vec::new();
    for load in loads {
        let data = load.data(endian, bytes).ok()?;
        let from = usize::try_from(load.p_vaddr(endian).checked_sub(begin)?).ok()?;
        let end = from.checked_add(data.len()).filter(|end| *end as u64 <= MAX_KERNEL_BYTES)?;
        image.resize(image.len().max(end), 0);
        image[from..end].copy_from_slice(data);
    }
    arch::is_plain_image(&image[..image.len().min(HEAD_BYTES)]).then_some(image)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packed::testing::packed;
    use recording::Init;

    /// An arm64 Image.
    fn arm64() -> Vec<u8> {
        let mut image = vec![7; 70_000];
        image[..2].copy_from_slice(b"MZ");
        image[0x38..0x3c].copy_from_slice(b"ARM\x64");
        image
    }

    fn zboot_of(payload: &[u8], name: &[u8]) -> Vec<u8> {
        let mut image = b"MZ\0\0zimg".to_vec();
        image.extend(512u32.to_le_bytes());
        image.extend((payload.len() as u32).to_le_bytes());
        image.resize(24, 0);
        image.extend(name);
        image.resize(512, 0);
        image.extend(payload);
        image
    }

    /// A UEFI program for 64 bits with these sections.
    fn program(sections: &[(&str, &[u8])]) -> Vec<u8> {
        let mut image = b"MZ".to_vec();
        image.resize(0x3c, 0);
        image.extend(64u32.to_le_bytes());
        image.extend(b"PE\0\0");
        image.extend(0x8664u16.to_le_bytes());
        image.extend((sections.len() as u16).to_le_bytes());
        image.resize(image.len() + 12, 0);
        image.extend(112u16.to_le_bytes());
        image.extend([0, 0]);
        image.extend(0x20bu16.to_le_bytes());
        image.resize(image.len() + 110, 0);
        let mut at = image.len() + 40 * sections.len();
        for (name, data) in sections {
            let mut header = name.as_bytes().to_vec();
            header.resize(8, 0);
            for number in [data.len(), 0x1000, data.len(), at] {
                header.extend((number as u32).to_le_bytes());
            }
            header.resize(40, 0);
            image.extend(header);
            at += data.len();
        }
        sections.iter().for_each(|(_, data)| image.extend(*data));
        image
    }

    fn bzimage() -> Vec<u8> {
        let mut image = vec![0; 4096];
        image[0x1fe..0x200].copy_from_slice(&[0x55, 0xaa]);
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image
    }

    #[test]
    fn a_kernel_is_found_in_each_form() {
        let image = arm64();
        let kernel = |bytes: &[u8]| parts(bytes).unwrap().unwrap().kernel;
        let gzip = packed(&image, "gzip", &["-c"]);
        assert!(kernel(&zboot_of(&gzip, b"gzip\0")) == image);
        let zstd = zstd::bulk::compress(&image, 3).unwrap();
        assert!(kernel(&zboot_of(&zstd, b"zstd22\0")) == image);
        assert!(kernel(&zstd) == image);
        assert!(kernel(&packed(&image, "xz", &["--check=crc32", "-c"])) == image);
        let unified = program(&[(".text", b"stub"), (".linux", &zboot_of(&zstd, b"zstd\0"))]);
        let parts = parts(&unified).unwrap().unwrap();
        assert!(parts.kernel == image);
        assert!(parts.what.contains("unified") && parts.what.contains("zboot image (zstd)"), "{}", parts.what);
        assert_eq!(super::parts(&program(&[(".text", b"no kernel")])), Ok(None));
    }

    #[test]
    fn a_unified_image_gives_its_parts_and_of_several_profiles_the_first() {
        let kernel = bzimage();
        let sections: [(&str, &[u8]); 8] = [
            (".ucode", b"070701ucode"),
            (".linux", &kernel),
            (".initrd", b"070701"),
            (".cmdline", b"common\n\0"),
            (".profile", b"ID=main"),
            (".cmdline", b"quiet root=/dev/vda\n\0"),
            (".profile", b"ID=other"),
            (".cmdline", b"other"),
        ];
        let found = parts(&program(&sections)).unwrap().unwrap();
        assert_eq!((&found.initrd[..], &*found.command_line), (&b"070701ucode070701"[..], "quiet root=/dev/vda"));
        assert!(found.kernel == kernel);
    }

    #[test]
    fn the_boot_has_the_parts_and_the_users_words_win() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.efi");
        let kernel = bzimage();
        let sections: [(&str, &[u8]); 3] = [(".linux", &kernel), (".initrd", b"070701"), (".cmdline", b"quiet")];
        std::fs::write(&path, program(&sections)).unwrap();
        let mut options = RecordOptions::default();
        (options.guest.kernel, options.guest.append, options.guest.init) =
            (Some(path.clone()), "loud".to_owned(), Init::Keep);
        let opened = open(&options).unwrap();
        let guest = &opened.options.guest;
        assert!(std::fs::read(guest.kernel.as_ref().unwrap()).unwrap() == kernel);
        assert_eq!(std::fs::read(guest.initrd.as_ref().unwrap()).unwrap(), b"070701");
        assert_eq!(guest.append, "quiet loud");
        assert!(opened.note.unwrap().contains("unified"));
        assert!(head(&path).unwrap() == kernel);
        options.guest.initrd = Some("/mine".into());
        assert_eq!(open(&options).unwrap().options.guest.initrd.as_deref(), Some(Path::new("/mine")));
        options.guest.bios = Some("/OVMF.fd".into());
        let by_firmware = open(&options).unwrap();
        assert_eq!((by_firmware.options.guest.kernel.as_ref(), by_firmware.note), (Some(&path), None));
    }

    #[test]
    fn hostile_files_are_refused_with_the_reason() {
        let why = |bytes: &[u8]| parts(bytes).unwrap_err();
        let cut = &zboot_of(b"\x1f\x8b\x08", b"gzip\0")[..400];
        assert!(why(cut).contains("cut off"));
        assert!(why(&zboot_of(b"\x89LZO", b"lzo\0")).contains("LZO"));
        assert!(why(&zboot_of(&packed(b"hello", "gzip", &["-c"]), b"\x1b[2J\0")).contains("no kernel"));
        assert!(!why(&zboot_of(&packed(b"hello", "gzip", &["-c"]), b"\x1b[2J\0")).contains('\x1b'));
        assert!(why(b"\xfd7zXZ\0\0\0").contains("cannot be unpacked"));
        assert!(why(b"BZh9").contains("bzip2"));
        let nested = (0..9).fold(arm64(), |inner, _| zstd::bulk::compress(&inner, 1).unwrap());
        assert!(why(&nested).contains("no kernel"));
        assert_eq!(parts(b"MZ"), Ok(None));
        assert_eq!(parts(b"\x7fELF\x02\x01\x01"), Ok(None));
        let mut huge = program(&[(".linux", &bzimage())]);
        for size in [8, 16] {
            let at = huge.len() - 4096 - 40 + size;
            huge[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        }
        assert_eq!(why(&huge), "its section .linux is cut off");
    }

    #[test]
    fn a_vmlinux_of_an_image_is_that_image() {
        let image = arm64();
        let mut elf = b"\x7fELF\x02\x01\x01".to_vec();
        elf.resize(16, 0);
        let words = |elf: &mut Vec<u8>, all: &[u64]| all.iter().for_each(|word| elf.extend(word.to_le_bytes()));
        elf.extend([2, 0, 183, 0, 1, 0, 0, 0]);
        words(&mut elf, &[0, 64, 0]);
        elf.extend([0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 64, 0, 0, 0, 0, 0]);
        elf.extend([1, 0, 0, 0, 7, 0, 0, 0]); // PT_LOAD
        let (at, bytes) = (120, image.len() as u64);
        words(&mut elf, &[at, 0xffff_8000_0800_0000, 0xffff_8000_0800_0000, bytes, bytes, 0x10000]);
        elf.extend(&image);
        assert!(parts(&elf).unwrap().unwrap().kernel == image);
    }
}
