//! Finds the programs of UEFI firmware in a guest's memory, while they run, by their headers: PE images, and TE images, whose header is
//! shortened.
//!
//! Format: Microsoft's PE specification; Platform Initialization Specification 1.8, volume 1, section 15 (TE). Code that ran for the first
//! time belongs to the program whose header is nearest before it. Firmware relocates an image when it loads it, and changes of its header
//! only the base. So the header tells which module of a [volume](super::firmware_volume) an image is, and the volume has its name. Programs
//! from disk are in no volume. They are named by their sections `.sdmagic` and `.sbat`, or by the file that their linker wrote debug
//! information to.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use arch::FirmwarePlace;

use super::{Extent, PhysicalMemory, firmware_volume, host_size};

/// Upper bound for the images that are kept. EDK2 loads about 150.
const MAX_IMAGES: usize = 4096;
/// Upper bound for an image: a kernel with its initrd in one file is the largest.
const MAX_IMAGE_BYTES: u64 = 4 << 30;
/// No header is longer.
const HEAD_BYTES: usize = 4096;
const PAGE_BYTES: u64 = 4096;
/// The distance from code to its image's header: the largest modules of EDK2 have 640 KiB, and a loader's code is at its start.
const MAX_DISTANCE_BYTES: u64 = 1 << 20;
/// Upper bound for searches that find nothing sure. Each reads [`MAX_DISTANCE_BYTES`].
const MAX_UNSURE: usize = 4096;

const MACHINES: [u16; 5] = [0x014c, 0x8664, 0xaa64, 0x01c2, 0x5064];
/// Magic numbers of a Linux kernel, which is a stage of the boot and not a program of firmware: x86's setup header, `Image` of arm64 and
/// of riscv64 (Documentation/arch/…/boot.rst).
const LINUX: [(usize, &[u8; 4]); 3] = [(0x202, b"HdrS"), (0x38, b"ARM\x64"), (0x38, b"RSC\x05")];
/// The subsystem of an application, such as a loader.
const APPLICATION: u16 = 10;
/// Subsystems of UEFI programs: application, boot driver, runtime driver, driver in ROM.
const SUBSYSTEMS: std::ops::RangeInclusive<u16> = APPLICATION..=13;

/// An image in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Image {
    range: Range<u64>,
    /// Its header as it was before it was loaded: without base and checksum.
    header: Vec<u8>,
    /// True if its header says that it was loaded where it lies. A file that was only read has another base, and so has a program that
    /// another loader than the firmware's loaded.
    is_at_its_base: bool,
    /// True for an application, which is not a driver.
    is_application: bool,
    /// The name that the image itself has.
    own_name: Option<String>,
}

/// The images that ran so far.
#[derive(Debug, Default)]
pub(crate) struct EfiImages {
    /// Images that do not overlap, by first address.
    images: BTreeMap<u64, Image>,
    /// Names by header.
    names: HashMap<Vec<u8>, String>,
    /// Pages of code that is in no image, or in one that may be a file that was only read.
    unsure: HashSet<u64>,
}

impl EfiImages {
    /// Begins with the modules of the firmware's file: names of all, and those that run in the file's place itself. `None` if the file
    /// has no modules, or does not fit into its place.
    pub(crate) fn of(place: FirmwarePlace, file: &[u8]) -> Option<EfiImages> {
        let length = file.len() as u64;
        let start = match place {
            FirmwarePlace::EndsAt(end) => end.checked_sub(length)?,
            FirmwarePlace::StartsAt(start) => start,
        };
        let mut images = EfiImages::default();
        for module in firmware_volume::modules(file) {
            let at = start + module.at.unwrap_or_default();
            let Some(mut image) = te(at, &module.image).or_else(|| pe(None, at, &module.image)) else { continue };
            images.names.entry(image.header.clone()).or_insert(module.name);
            if module.at.is_some() {
                image.range.end = image.range.end.min(at + module.image.len() as u64);
                image.is_at_its_base = true;
                images.add(image);
            }
        }
        (!images.names.is_empty()).then_some(images)
    }

    /// Takes the image of code that ran for the first time, if it is not known yet. Reads at most [`MAX_DISTANCE_BYTES`].
    pub(crate) fn ran(&mut self, memory: &dyn PhysicalMemory, address: u64) {
        let page = address / PAGE_BYTES;
        let known = self.images.range(..=address).next_back().filter(|(_, image)| image.range.end > address);
        let is_sure = known.is_some_and(|(_, image)| image.is_at_its_base);
        if is_sure || self.unsure.len() >= MAX_UNSURE || self.unsure.contains(&page) {
            return;
        }
        let found = around(memory, address);
        if !found.as_ref().is_some_and(|image| image.is_at_its_base) {
            self.unsure.insert(page);
        }
        if let Some(image) = found.filter(|found| known.is_none_or(|(_, image)| image != found)) {
            self.add(image);
        }
    }

    /// Adds an image. It replaces earlier ones whose place it took.
    fn add(&mut self, image: Image) {
        let before_its_end = self.images.range(..image.range.end).rev();
        let others = before_its_end.take_while(|(_, other)| other.range.end > image.range.start).map(|(at, _)| *at);
        others.collect::<Vec<u64>>().iter().for_each(|at| drop(self.images.remove(at)));
        if self.images.len() < MAX_IMAGES {
            self.images.insert(image.range.start, image);
        }
    }

    /// The list for a recording, in the form that `evidence` reads: in each line first address and number of bytes, hexadecimal, the name
    /// if it is known, and `application` for one that is in no volume. `None` if nothing was found.
    pub(crate) fn list(&self) -> Option<String> {
        let line = |image: &Image| {
            let (place, bytes) = (image.range.start, image.range.end - image.range.start);
            let line = format!("{place:016x} {bytes:x}");
            match (self.names.get(&image.header), &image.own_name) {
                (Some(name), _) => format!("{line} {name}\n"),
                (None, Some(name)) if image.is_application => format!("{line} {name} application\n"),
                (None, Some(name)) => format!("{line} {name}\n"),
                (None, None) => format!("{line}\n"),
            }
        };
        (!self.images.is_empty()).then(|| self.images.values().map(line).collect())
    }
}

/// The image whose header is nearest before an address, and which has that address.
fn around(memory: &dyn PhysicalMemory, address: u64) -> Option<Image> {
    let extent = memory.extents().iter().map(Extent::range).find(|range| range.contains(&address))?;
    let page = address - address % PAGE_BYTES;
    let from = page.saturating_sub(MAX_DISTANCE_BYTES).max(extent.start);
    let to = page.saturating_add(HEAD_BYTES as u64).min(extent.end);
    let mut bytes = vec![0; host_size(to - from)];
    memory.read_at(from, &mut bytes).ok()?;
    let until = host_size(address - from) + 1;
    let has_it = |image: &Image| image.range.contains(&address);
    let before = &bytes[..until];
    let nearest = |signature, image: &dyn Fn(usize) -> Option<Image>| {
        memchr::memmem::rfind_iter(before, signature).find_map(|at| image(at).filter(has_it))
    };
    let te_at = nearest(b"VZ", &|at| te(from + at as u64, &bytes[at..]));
    let is_page = |at: usize| (from + at as u64) % PAGE_BYTES == 0;
    let pe_at = nearest(b"MZ", &|at| {
        pe(Some(memory), from + at as u64, &bytes[at..]).filter(|image| image.is_at_its_base || is_page(at))
    });
    te_at.into_iter().chain(pe_at).max_by_key(|image| image.range.start)
}

/// Reads the PE image whose header begins `head`, and which lies at `start`. Its own name is looked for in `memory`.
fn pe(memory: Option<&dyn PhysicalMemory>, start: u64, head: &[u8]) -> Option<Image> {
    let head = Bytes(head.get(..head.len().min(HEAD_BYTES))?);
    let is_linux = LINUX.iter().any(|(at, magic)| head.u32(*at) == Some(u32::from_le_bytes(**magic)));
    if head.u16(0)? != u16::from_le_bytes(*b"MZ") || is_linux {
        return None;
    }
    let coff = host_size(u64::from(head.u32(0x3c)?));
    if head.u32(coff)? != u32::from_le_bytes(*b"PE\0\0") || !MACHINES.contains(&head.u16(coff + 4)?) {
        return None;
    }
    let (sections, optional_bytes) = (usize::from(head.u16(coff + 6)?), usize::from(head.u16(coff + 20)?));
    let optional = coff + 24;
    let is_long = match head.u16(optional)? {
        0x20b => true,
        0x10b => false,
        _ => return None,
    };
    let bytes = u64::from(head.u32(optional + 56)?);
    if !SUBSYSTEMS.contains(&head.u16(optional + 68)?) || bytes == 0 || bytes > MAX_IMAGE_BYTES {
        return None;
    }
    let table = optional + optional_bytes;
    let mut header = head.0.get(coff..table + sections * 40)?.to_vec();
    let base = if is_long { 24..32 } else { 28..32 };
    let base = header.get_mut(24..)?.get_mut(base)?;
    let is_at_its_base = base.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)) == start;
    base.fill(0);
    header.get_mut(24 + 64..24 + 68)?.fill(0);
    let range = start..start.checked_add(bytes)?;
    let section = |name: &[u8]| {
        let at = (0..sections).map(|i| table + i * 40).find(|&at| head.0[at..].starts_with(name))?;
        let mut content = [0; 512];
        memory?.read_at(start.checked_add(u64::from(head.u32(at + 12)?))?, &mut content).ok().map(|()| content)
    };
    let own_name = section(b".sdmagic")
        .and_then(|content| systemds_name(&content))
        .or_else(|| section(b".sbat\0").and_then(|content| sbat_name(&content)))
        .or_else(|| {
            let debug = optional + if is_long { 112 } else { 96 } + 6 * 8;
            let has_debug = debug + 8 <= table;
            debug_name(memory?, start, head.u32(debug).filter(|_| has_debug)?)
        });
    let is_application = head.u16(optional + 68)? == APPLICATION;
    Some(Image { range, header, is_at_its_base, is_application, own_name })
}

/// Reads the TE image whose header begins `head`, and lies at `start`.
fn te(start: u64, head: &[u8]) -> Option<Image> {
    let head = Bytes(head.get(..head.len().min(HEAD_BYTES))?);
    if head.u16(0)? != u16::from_le_bytes(*b"VZ") || !MACHINES.contains(&head.u16(2)?) {
        return None;
    }
    let (sections, subsystem) = (usize::from(*head.0.get(4)?), u16::from(*head.0.get(5)?));
    // The base counts from the header that the image had before it was shortened.
    let stripped = u64::from(head.u16(6)?).checked_sub(40)?;
    if !SUBSYSTEMS.contains(&subsystem) || sections == 0 {
        return None;
    }
    let mut header = head.0.get(..40 + sections * 40)?.to_vec();
    let mut end = 0;
    for section in header[40..].chunks_exact(40).map(Bytes) {
        let bytes = section.u32(8)?.max(section.u32(16)?);
        end = end.max(u64::from(section.u32(12)?) + u64::from(bytes));
    }
    header[16..24].fill(0);
    let bytes = end.checked_sub(stripped).filter(|bytes| *bytes > 0)?;
    let range = start..start.checked_add(bytes)?;
    // The signature and the machine together do not occur by chance.
    Some(Image { range, header, is_at_its_base: true, is_application: false, own_name: None })
}

/// The program's name in its `.sbat`: lines of comma-separated values, of which the first names the format
/// (SBAT.md of the project shim).
fn sbat_name(content: &[u8]) -> Option<String> {
    let name = content.split(|byte| *byte == b'\n').nth(1)?.split(|byte| *byte == b',').next()?;
    String::from_utf8(name.to_vec()).ok().filter(|name| firmware_volume::is_name(name))
}

/// The name of a program of systemd: `#### LoaderInfo: systemd-stub 252 ####`.
fn systemds_name(content: &[u8]) -> Option<String> {
    let name = std::str::from_utf8(content.split(|byte| *byte == 0).next()?).ok()?.split(' ').nth(2)?;
    firmware_volume::is_name(name).then(|| name.to_owned())
}

/// The name of the file that has the image's debug information (CodeView, `NB10` or `RSDS`).
fn debug_name(memory: &dyn PhysicalMemory, base: u64, directory: u32) -> Option<String> {
    const CODE_VIEW: u32 = 2;
    if directory == 0 {
        return None;
    }
    let mut entry = [0; 28];
    memory.read_at(base.checked_add(u64::from(directory))?, &mut entry).ok()?;
    let entry = Bytes(&entry);
    if entry.u32(12)? != CODE_VIEW {
        return None;
    }
    let mut bytes = [0; 512];
    memory.read_at(base.checked_add(u64::from(entry.u32(20)?))?, &mut bytes).ok()?;
    let path = match &bytes[..4] {
        b"NB10" => &bytes[16..],
        b"RSDS" => &bytes[24..],
        _ => return None,
    };
    let path = path.split(|byte| *byte == 0).next()?;
    let file = path.rsplit(|byte| matches!(byte, b'/' | b'\\')).next()?;
    let stem = file.split(|byte| *byte == b'.').next()?;
    String::from_utf8(stem.to_vec()).ok().filter(|name| firmware_volume::is_name(name))
}

/// Numbers inside bytes of any length.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn u16(&self, at: usize) -> Option<u16> {
        Some(u16::from_le_bytes(*self.0.get(at..)?.first_chunk()?))
    }

    fn u32(&self, at: usize) -> Option<u32> {
        Some(u32::from_le_bytes(*self.0.get(at..)?.first_chunk()?))
    }
}

#[cfg(test)]
mod tests {
    use super::super::image::Image as Memory;
    use super::*;
    use proptest::prelude::*;

    /// The header of a PE32+ image for x86-64 with one section, whose linker gave it this checksum.
    fn pe_header(base: u64, bytes: u32, section: &[u8], checksum: u32) -> Vec<u8> {
        let mut head = vec![0; 0x400];
        let mut put = |at: usize, bytes: &[u8]| head[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, b"MZ");
        put(0x3c, &0x80u32.to_le_bytes());
        put(0x80, b"PE\0\0");
        put(0x84, &0x8664u16.to_le_bytes());
        put(0x86, &1u16.to_le_bytes());
        put(0x94, &240u16.to_le_bytes());
        put(0x98, &0x20bu16.to_le_bytes());
        put(0x98 + 24, &base.to_le_bytes());
        put(0x98 + 56, &bytes.to_le_bytes());
        put(0x98 + 64, &checksum.to_le_bytes());
        put(0x98 + 68, &11u16.to_le_bytes());
        put(0x98 + 240, section);
        put(0x98 + 240 + 12, &0x300u32.to_le_bytes());
        head
    }

    fn te_header(stripped: u16) -> Vec<u8> {
        let mut head = vec![0; 80];
        head[..8].copy_from_slice(&[
            b'V',
            b'Z',
            0x64,
            0x86,
            1,
            11,
            stripped.to_le_bytes()[0],
            stripped.to_le_bytes()[1],
        ]);
        head[40..46].copy_from_slice(b".text\0");
        head[48..52].copy_from_slice(&0x500u32.to_le_bytes());
        head[52..56].copy_from_slice(&0x240u32.to_le_bytes());
        head
    }

    fn section(kind: u8, content: &[u8]) -> Vec<u8> {
        let size = u32::try_from(content.len() + 4).unwrap().to_le_bytes();
        let mut section = [&size[..3], &[kind], content].concat();
        section.resize(section.len().next_multiple_of(4), 0);
        section
    }

    fn file(kind: u8, content: &[u8]) -> Vec<u8> {
        let size = u32::try_from(content.len() + 24).unwrap().to_le_bytes();
        let mut file = [&[7; 18][..], &[kind, 0], &size[..3], &[0xf8], content].concat();
        file.resize(file.len().next_multiple_of(8), 0xff);
        file
    }

    fn named(kind: u8, image: &[u8], name: &str) -> Vec<u8> {
        let name: Vec<u8> = name.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect();
        file(7, &[section(kind, image), section(0x15, &name)].concat())
    }

    fn volume(files: &[Vec<u8>]) -> Vec<u8> {
        let content = files.concat();
        let mut volume = vec![0; 72];
        volume[32..40].copy_from_slice(&(content.len() as u64 + 72 + 64).to_le_bytes());
        volume[40..44].copy_from_slice(b"_FVH");
        volume[48..50].copy_from_slice(&72u16.to_le_bytes());
        [volume, content, vec![0xff; 64]].concat()
    }

    /// The list after code at these addresses ran.
    fn list(mut images: EfiImages, memory: &Memory, addresses: &[u64]) -> String {
        addresses.iter().for_each(|&address| images.ran(memory, address));
        images.list().unwrap_or_default()
    }

    fn rom(files: &[Vec<u8>]) -> EfiImages {
        EfiImages::of(FirmwarePlace::StartsAt(0x10_0000), &volume(files)).unwrap()
    }

    #[test]
    fn an_image_has_the_name_that_its_volume_gives() {
        let fat = pe_header(0, 0x1000, b".text\0", 1);
        let images =
            rom(&[file(0xf0, &[0; 100]), named(0x10, &fat, "Fat"), named(0x12, &te_header(0x1b8), "PlatformPei")]);
        let in_rom = images.list().unwrap();
        assert!(in_rom.contains(" 400 Fat\n") && in_rom.contains(" 50 PlatformPei\n"), "{in_rom}");
        let mut memory = Memory::new(0x20_0000, 4 << 20);
        // Loaded: the base is another one.
        memory.put(0x30_0000, &pe_header(0x30_0000, 0x1000, b".text\0", 0));
        // The header of a TE image lies behind the place of the bytes that were stripped.
        memory.put(0x31_0000 + 0x1b8 - 40, &te_header(0x1b8));
        memory.put(0x32_0000, &pe_header(0, 0x2000, b".text\0", 0));
        let text = list(images, &memory, &[0x30_0fff, 0x30_1000, 0x31_0300, 0x32_1800, 0x38_0000]);
        let expected = "0000000000300000 1000 Fat\n0000000000310190 5b0 PlatformPei\n0000000000320000 2000\n";
        assert_eq!(text, in_rom + expected);
    }

    #[test]
    fn compressed_volumes_are_read() {
        let inner = volume(&[named(0x10, &pe_header(0, 0x1000, b".text\0", 1), "Fat")]);
        let packed = crate::packed::testing::packed(&inner, "xz", &["--format=lzma", "-c"]);
        let guided = section(2, &[&[9; 16][..], &[24, 0, 1, 0], &packed].concat());
        let mut memory = Memory::new(0x20_0000, 1 << 20);
        memory.put(0x28_0000, &pe_header(0x28_0000, 0x1000, b".text\0", 0));
        let text = list(rom(&[file(11, &guided)]), &memory, &[0x28_0800]);
        assert_eq!(text, "0000000000280000 1000 Fat\n");
    }

    #[test]
    fn a_program_from_disk_names_itself() {
        let mut memory = Memory::new(0, 1 << 20);
        memory.put(0x1_0000, &pe_header(0, 0x1000, b".sbat\0", 0));
        memory.put(0x1_0000 + 0x98 + 68, &[10, 0]);
        memory.put(0x1_0300, b"sbat,1,SBAT Version,sbat,1,https://\nshim,4,UEFI shim,shim,1,https://\n");
        memory.put(0x2_0000, &pe_header(0, 0x1000, b".sdmagic", 0));
        memory.put(0x2_0300, b"#### LoaderInfo: systemd-stub 252.39-1 ####\0");
        let text = list(EfiImages::default(), &memory, &[0x1_0400, 0x2_0400]);
        assert_eq!(text, "0000000000010000 1000 shim application\n0000000000020000 1000 systemd-stub\n");
    }

    #[test]
    fn the_nearest_header_before_the_code_is_its_own_but_a_kernels_is_none() {
        let mut memory = Memory::new(0, 1 << 20);
        memory.put(0x1_0000, &pe_header(0, 0x9000, b".text\0", 0));
        memory.put(0x1_2000, &pe_header(0, 0x800, b".text\0", 0));
        memory.put(0x8_0000, &pe_header(0, 0x1000, b".text\0", 0));
        memory.put(0x8_0202, b"HdrS");
        assert_eq!(list(EfiImages::default(), &memory, &[0x1_2100, 0x8_0400]), "0000000000012000 800\n");
        assert_eq!(list(EfiImages::default(), &memory, &[0x1_2900]), "0000000000010000 9000\n");
    }

    #[test]
    fn a_file_that_was_only_read_gives_way() {
        let mut memory = Memory::new(0, 1 << 20);
        memory.put(0x1_0000, &pe_header(0, 0x9000, b".text\0", 0));
        memory.put(0x1_0818, &pe_header(0, 0x9000, b".text\0", 0));
        memory.put(0x1_4000, &pe_header(0x1_4000, 0x1000, b".text\0", 0));
        assert_eq!(list(EfiImages::default(), &memory, &[0x1_2800, 0x1_4800]), "0000000000014000 1000\n");
    }

    #[test]
    fn what_ran_there_last_counts() {
        let mut memory = Memory::new(0, 1 << 20);
        let mut images = EfiImages::default();
        memory.put(0x1_0000, &pe_header(0, 0x3000, b".text\0", 0));
        images.ran(&memory, 0x1_0800);
        memory.put(0x1_0000, &[0; 0x400]);
        memory.put(0x1_2000, &pe_header(0, 0x1800, b".text\0", 0));
        images.ran(&memory, 0x1_3100);
        assert_eq!(images.list().unwrap(), "0000000000012000 1800\n");
    }

    #[test]
    fn a_rom_ends_where_the_architecture_says() {
        let file = volume(&[named(0x12, &te_header(0x1b8), "SecMain")]);
        let start = (1 << 32) - file.len() as u64;
        let of = |place, file: &[u8]| EfiImages::of(place, file).and_then(|images| images.list());
        let place = start + 72 + 24 + 4;
        assert_eq!(of(FirmwarePlace::EndsAt(1 << 32), &file), Some(format!("{place:016x} 50 SecMain\n")));
        assert_eq!(of(FirmwarePlace::EndsAt(4), &file), None, "it does not fit");
        assert_eq!(of(FirmwarePlace::StartsAt(0), b"U-Boot 2023.01"), None, "it has no modules");
    }

    proptest! {
        /// Signatures with anything around them are no harm, and names are harmless.
        #[test]
        fn no_memory_panics(bytes in proptest::collection::vec(any::<u8>(), 0..600), at in 0u64..0x2000, kind in 0..4) {
            let start = [&b"MZ"[..], b"VZ\x64\x86", b"", b""][kind as usize];
            let mut memory = Memory::new(0, 0x4000);
            memory.put(0x1000 + at / 64 * 64, &[start, &bytes].concat());
            let text = list(EfiImages::default(), &memory, &[0x1000, 0x1080, 0x2400, 0x3fff, 0x4000, u64::MAX]);
            for line in text.lines() {
                prop_assert!(matches!(line.split(' ').count(), 2..=4) && line.is_ascii());
            }
        }

        #[test]
        fn no_firmware_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200), cut in 0usize..700, at in 0usize..600) {
            let mut file = volume(&[named(0x10, &pe_header(0, 0x1000, b".text\0", 1), "Fat"), file(11, &section(2, &bytes))]);
            let at = at.min(file.len() - 1);
            let end = (at + bytes.len()).min(file.len());
            file[at..end].copy_from_slice(&bytes[..end - at]);
            file.truncate(cut.max(1));
            let _ = EfiImages::of(FirmwarePlace::StartsAt(0), &file).and_then(|images| images.list());
        }
    }
}
