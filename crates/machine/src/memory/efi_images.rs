//! Finds the programs of UEFI firmware in a guest's memory by their headers: PE images, and TE images, whose header is shortened.
//!
//! Format: Microsoft's PE specification; Platform Initialization Specification 1.8, volume 1, section 15 (TE). Firmware relocates an image
//! when it loads it, and changes of its header only the base. So the header tells which module of a [volume](super::firmware_volume) an
//! image is, and the volume has its name. Programs from disk are in no volume. They are named by their section `.sbat`, or by the file
//! that their linker wrote debug information to.
//!
//! A header is no proof: a file that was read but not started looks alike. Nothing runs there, so such an entry names nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::ops::Range;

use arch::FirmwarePlace;

use super::sweep::sweep;
use super::{Extent, PhysicalMemory, firmware_volume, host_size};

/// Upper bounds for the entries that are kept. EDK2 loads about 150 images.
const MAX_IMAGES: usize = 4096;
const MAX_VOLUMES: usize = 256;
/// Upper bound for an image: a kernel with its initrd in one file is the largest.
const MAX_IMAGE_BYTES: u64 = 4 << 30;
/// No header is longer.
const HEAD_BYTES: usize = 4096;
const PAGE_BYTES: usize = 4096;

const MACHINES: [u16; 5] = [0x014c, 0x8664, 0xaa64, 0x01c2, 0x5064];
/// Magic numbers of a Linux kernel, which is a stage of the boot and not a program of firmware: x86's setup header, `Image` of arm64 and
/// of riscv64 (Documentation/arch/…/boot.rst).
const LINUX: [(usize, &[u8; 4]); 3] = [(0x202, b"HdrS"), (0x38, b"ARM\x64"), (0x38, b"RSC\x05")];
/// The subsystem of an application, such as a loader.
const APPLICATION: u16 = 10;
/// Subsystems of UEFI programs: application, boot driver, runtime driver, driver in ROM.
const SUBSYSTEMS: std::ops::RangeInclusive<u16> = 10..=13;

/// An image in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Image {
    range: Range<u64>,
    /// Its header as it was before it was loaded: without base and checksum.
    header: Vec<u8>,
    /// True if its header says that it was loaded where it lies. A file that was only read has another base.
    is_at_its_base: bool,
    /// True for an application, which is not a driver.
    is_application: bool,
    /// The name that the image itself has.
    own_name: Option<String>,
}

/// The images that were seen so far.
#[derive(Debug)]
pub(crate) struct EfiImages {
    images: Disjoint,
    /// Names by header.
    names: HashMap<Vec<u8>, String>,
    /// The volumes that were read.
    volumes: BTreeSet<u64>,
    reads_left: usize,
}

impl Default for EfiImages {
    fn default() -> EfiImages {
        let (images, names, volumes) = (Disjoint::default(), HashMap::new(), BTreeSet::new());
        EfiImages { images, names, volumes, reads_left: firmware_volume::MAX_READS }
    }
}

impl EfiImages {
    /// Looks through all touched memory. Linear in its size.
    pub(crate) fn look(&mut self, memory: &dyn PhysicalMemory) {
        let mut volumes = Vec::new();
        let mut images = Vec::new();
        sweep(memory, HEAD_BYTES as u64, |phys, bytes| {
            let signatures = memchr::memmem::find_iter(bytes, firmware_volume::SIGNATURE);
            volumes.extend(signatures.filter_map(|at| (phys + at as u64).checked_sub(firmware_volume::SIGNATURE_AT)));
            let skip = host_size(phys.wrapping_neg()) % PAGE_BYTES;
            images.extend(
                (skip..bytes.len()).step_by(PAGE_BYTES).filter_map(|at| pe(memory, phys + at as u64, &bytes[at..])),
            );
            images.extend(memchr::memmem::find_iter(bytes, b"VZ").filter_map(|at| te(phys + at as u64, &bytes[at..])));
            volumes.len() < MAX_VOLUMES && images.len() < MAX_IMAGES
        });
        for volume in volumes {
            self.take_volume(memory, volume);
        }
        // Where two claim the same place, the one that was loaded there has it. An image inside another is its data.
        images.sort_by_key(|image| (!image.is_at_its_base, image.range.start));
        let mut seen = Disjoint::default();
        images.into_iter().for_each(|image| seen.add(image));
        for image in seen.0.into_values() {
            self.take(image);
        }
    }

    /// Takes the modules of the volume at this address, if it is new.
    fn take_volume(&mut self, memory: &dyn PhysicalMemory, start: u64) {
        if self.volumes.len() >= MAX_VOLUMES || !self.volumes.insert(start) {
            return;
        }
        for module in firmware_volume::modules(memory, start, &mut self.reads_left) {
            let mut head = vec![0; HEAD_BYTES.min(host_size(module.image.end - module.image.start))];
            if memory.read_at(module.image.start, &mut head).is_err() {
                continue;
            }
            let image = te(module.image.start, &head).or_else(|| pe(memory, module.image.start, &head));
            if let Some(mut image) = image {
                image.range.end = image.range.end.min(module.image.end);
                image.is_at_its_base = false;
                self.names.entry(image.header.clone()).or_insert(module.name);
                self.take(image);
            }
        }
    }

    /// Keeps an image. It replaces earlier ones that it overlaps, except those that were loaded there if it was not.
    fn take(&mut self, image: Image) {
        let others = self.images.overlapping(&image.range);
        if !image.is_at_its_base && others.iter().any(|at| self.images.0[at].is_at_its_base) {
            return;
        }
        others.iter().for_each(|at| drop(self.images.0.remove(at)));
        if self.images.0.len() < MAX_IMAGES {
            self.images.add(image);
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
        (!self.images.0.is_empty()).then(|| self.images.0.values().map(line).collect())
    }
}

/// Images that do not overlap, by first address.
#[derive(Debug, Default)]
struct Disjoint(BTreeMap<u64, Image>);

impl Disjoint {
    /// The first addresses of those that overlap a range.
    fn overlapping(&self, range: &Range<u64>) -> Vec<u64> {
        let before_its_end = self.0.range(..range.end).rev();
        before_its_end.take_while(|(_, other)| other.range.end > range.start).map(|(at, _)| *at).collect()
    }

    /// Adds an image if it overlaps no other.
    fn add(&mut self, image: Image) {
        if self.overlapping(&image.range).is_empty() {
            self.0.insert(image.range.start, image);
        }
    }
}

/// The ROM that holds the firmware's file.
#[derive(Debug)]
pub(crate) struct Rom {
    extent: [Extent; 1],
    bytes: Vec<u8>,
}

impl Rom {
    /// `None` if the file is empty or too long for its place.
    pub(crate) fn new(place: FirmwarePlace, bytes: Vec<u8>) -> Option<Rom> {
        let length = bytes.len() as u64;
        let phys = match place {
            FirmwarePlace::EndsAt(end) => end.checked_sub(length)?,
            FirmwarePlace::StartsAt(start) => start,
        };
        (length > 0).then_some(Rom { extent: [Extent { phys, file_offset: 0, bytes: length }], bytes })
    }
}

impl PhysicalMemory for Rom {
    fn read_at(&self, phys: u64, buf: &mut [u8]) -> io::Result<()> {
        let at = phys.checked_sub(self.extent[0].phys).map(host_size);
        let from = at.and_then(|at| self.bytes.get(at..at.checked_add(buf.len())?));
        buf.copy_from_slice(from.ok_or_else(|| super::not_ram(phys))?);
        Ok(())
    }

    fn extents(&self) -> &[Extent] {
        &self.extent
    }
}

/// Reads the PE image whose header is in `head`, and which lies at `start`.
fn pe(memory: &dyn PhysicalMemory, start: u64, head: &[u8]) -> Option<Image> {
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
        memory.read_at(start.checked_add(u64::from(head.u32(at + 12)?))?, &mut content).ok().map(|()| content)
    };
    let own_name = section(b".sdmagic")
        .and_then(|content| systemds_name(&content))
        .or_else(|| section(b".sbat\0").and_then(|content| sbat_name(&content)))
        .or_else(|| {
            let debug = optional + if is_long { 112 } else { 96 } + 6 * 8;
            let has_debug = debug + 8 <= table;
            debug_name(memory, start, head.u32(debug).filter(|_| has_debug)?)
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
    Some(Image {
        range: start..start.checked_add(bytes)?,
        header,
        is_at_its_base: true,
        is_application: false,
        own_name: None,
    })
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

    fn list(memory: &Memory) -> String {
        let mut images = EfiImages::default();
        images.look(memory);
        images.list().unwrap_or_default()
    }

    #[test]
    fn an_image_has_the_name_that_its_volume_gives() {
        let mut memory = Memory::new(0, 4 << 20);
        let fat = pe_header(0, 0x1000, b".text\0", 1);
        memory.put(
            0x20_0000,
            &volume(&[file(0xf0, &[0; 100]), named(0x10, &fat, "Fat"), named(0x12, &te_header(0x1b8), "PlatformPei")]),
        );
        // Loaded: the base is another one.
        memory.put(0x30_0000, &pe_header(0x30_0000, 0x1000, b".text\0", 0));
        // The header of a TE image lies behind the place of the bytes that were stripped.
        memory.put(0x31_0000 + 0x1b8 - 40, &te_header(0x1b8));
        memory.put(0x32_0000, &pe_header(0, 0x2000, b".text\0", 0));
        let text = list(&memory);
        let names: Vec<&str> = text.lines().filter_map(|line| line.split(' ').next_back()).collect();
        assert_eq!(names, ["Fat", "PlatformPei", "Fat", "PlatformPei", "2000"], "{text}");
        assert!(
            text.contains("0000000000300000 1000 Fat\n") && text.contains("0000000000310190 5b0 PlatformPei\n"),
            "{text}"
        );
    }

    #[test]
    fn a_program_from_disk_names_itself() {
        let mut memory = Memory::new(0, 1 << 20);
        memory.put(0x1_0000, &pe_header(0, 0x1000, b".sbat\0", 0));
        memory.put(0x1_0000 + 0x98 + 68, &[10, 0]);
        memory.put(0x1_0300, b"sbat,1,SBAT Version,sbat,1,https://\nshim,4,UEFI shim,shim,1,https://\n");
        memory.put(0x2_0000, &pe_header(0, 0x1000, b".sdmagic", 0));
        memory.put(0x2_0300, b"#### LoaderInfo: systemd-stub 252.39-1 ####\0");
        assert_eq!(list(&memory), "0000000000010000 1000 shim application\n0000000000020000 1000 systemd-stub\n");
    }

    #[test]
    fn an_image_inside_another_is_data_but_in_a_file_that_was_only_read() {
        let mut memory = Memory::new(0, 1 << 20);
        memory.put(0x1_0000, &pe_header(0x1_0000, 0x4000, b".text\0", 0));
        memory.put(0x1_1000, &pe_header(0, 0x1000, b".text\0", 0));
        memory.put(0x4_0000, &pe_header(0, 0x4000, b".text\0", 0));
        memory.put(0x4_2000, &pe_header(0x4_2000, 0x1000, b".text\0", 0));
        memory.put(0x8_0000, &pe_header(0x8_0000, 0x1000, b".text\0", 0));
        memory.put(0x8_0202, b"HdrS");
        assert_eq!(list(&memory), "0000000000010000 4000\n0000000000042000 1000\n");
    }

    #[test]
    fn what_lies_there_now_counts() {
        let mut memory = Memory::new(0, 1 << 20);
        let mut images = EfiImages::default();
        memory.put(0x1_0000, &pe_header(0, 0x3000, b".text\0", 0));
        images.look(&memory);
        memory.put(0x1_0000, &[0; 0x400]);
        memory.put(0x1_2000, &pe_header(0, 0x800, b".text\0", 0));
        images.look(&memory);
        assert_eq!(images.list().unwrap(), "0000000000012000 800\n");
    }

    #[test]
    fn a_rom_ends_where_the_architecture_says() {
        let rom = Rom::new(FirmwarePlace::EndsAt(1 << 32), te_header(0x1b8)).unwrap();
        let mut images = EfiImages::default();
        images.look(&rom);
        assert_eq!(images.list().unwrap(), "00000000ffffffb0 5b0\n");
        assert!(
            Rom::new(FirmwarePlace::EndsAt(4), vec![0; 5]).is_none()
                && Rom::new(FirmwarePlace::StartsAt(0), vec![]).is_none()
        );
    }

    proptest! {
        /// Signatures with anything around them are no harm, and names are harmless.
        #[test]
        fn no_memory_panics(bytes in proptest::collection::vec(any::<u8>(), 0..600), at in 0u64..0x2000, kind in 0..4) {
            let start = [&b"MZ"[..], b"VZ\x64\x86", b"_FVH", b""][kind as usize];
            let mut memory = Memory::new(0, 0x4000);
            memory.put(0x1000 + at / 64 * 64, &[start, &bytes].concat());
            for line in list(&memory).lines() {
                prop_assert!(matches!(line.split(' ').count(), 2..=4) && line.is_ascii());
            }
        }
    }
}
