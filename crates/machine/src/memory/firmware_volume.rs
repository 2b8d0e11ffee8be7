//! Firmware volumes: the modules that UEFI firmware carries, by name, and where each one's image lies.
//!
//! Format: Platform Initialization Specification 1.8, volume 3, chapters 2 and 3. A volume has a header with the signature `_FVH`, then
//! files; a file has sections; one section is the image, another the name. Compressed sections are not unpacked: firmware unpacks them
//! into a volume in RAM, which is found there.

use std::ops::Range;

use super::PhysicalMemory;

/// Signature in a volume's header, and its distance from the volume's start.
pub(super) const SIGNATURE: &[u8; 4] = b"_FVH";
pub(super) const SIGNATURE_AT: u64 = 40;

/// Upper bound for the files and sections that are read of all volumes: EDK2's have about 150 files of at most eight sections.
pub(super) const MAX_READS: usize = 1 << 16;
const MAX_NAME_BYTES: u64 = 256;

const FILE_HEADER_BYTES: u64 = 24;
const LARGE_FILE_HEADER_BYTES: usize = 32;
const LARGE_FILE: u8 = 1;
const PADDING_FILE: u8 = 0xf0;
/// Types of sections.
const PE32: u8 = 0x10;
const TE: u8 = 0x12;
const USER_INTERFACE: u8 = 0x15;

/// A file of a volume that has an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Module {
    pub(super) name: String,
    /// The place of the image's bytes in memory.
    pub(super) image: Range<u64>,
}

/// The modules of the volume at `start`; none if there is no volume. Takes what it reads from `reads_left`.
pub(super) fn modules(memory: &dyn PhysicalMemory, start: u64, reads_left: &mut usize) -> Vec<Module> {
    let Some(header) = read::<56>(memory, start) else { return Vec::new() };
    let length = u64::from_le_bytes(field(&header, 32));
    let header_bytes = u64::from(u16::from_le_bytes(field(&header, 48)));
    let extended_at = u64::from(u16::from_le_bytes(field(&header, 52)));
    let Some(end) = start.checked_add(length) else { return Vec::new() };
    if header[40..44] != *SIGNATURE || header_bytes < 56 || header_bytes > length {
        return Vec::new();
    }
    let mut at = start + header_bytes;
    if extended_at > 0 {
        let size = read::<4>(memory, start + extended_at + 16).map_or(0, u32::from_le_bytes);
        at = start + extended_at + u64::from(size);
    }
    let mut found = Vec::new();
    while *reads_left > 0 {
        *reads_left -= 1;
        at = start + (at - start).next_multiple_of(8);
        let Some(file) = file(memory, at, end) else { break };
        found.extend(module(memory, &file, reads_left));
        at = file.end;
    }
    found
}

/// The content of the file at `at`, behind its header. An erased place, which ends the volume, is no file.
fn file(memory: &dyn PhysicalMemory, at: u64, end: u64) -> Option<Range<u64>> {
    let header = read::<LARGE_FILE_HEADER_BYTES>(memory, at)?;
    let is_large = header[19] & LARGE_FILE != 0;
    let (header_bytes, size) = match is_large {
        true => (LARGE_FILE_HEADER_BYTES as u64, u64::from_le_bytes(field(&header, 24))),
        false => (FILE_HEADER_BYTES, size24(&header[20..23])),
    };
    let file_end = at.checked_add(size).filter(|file_end| *file_end <= end && size >= header_bytes)?;
    let is_padding = header[18] == PADDING_FILE;
    Some(if is_padding { file_end..file_end } else { at + header_bytes..file_end })
}

/// The image and the name among a file's sections.
fn module(memory: &dyn PhysicalMemory, file: &Range<u64>, reads_left: &mut usize) -> Option<Module> {
    let (mut image, mut name) = (None, None);
    let mut at = file.start;
    while *reads_left > 0 {
        *reads_left -= 1;
        let Some(header) = read::<8>(memory, at).filter(|_| file.end.saturating_sub(at) >= 8) else { break };
        let (size, header_bytes) = match size24(&header[0..3]) {
            0xff_ffff => (u64::from(u32::from_le_bytes(field(&header, 4))), 8),
            size => (size, 4),
        };
        let Some(end) = at.checked_add(size).filter(|end| *end <= file.end && size >= header_bytes) else { break };
        match header[3] {
            PE32 | TE => image = image.or(Some(at + header_bytes..end)),
            USER_INTERFACE => name = name.or_else(|| text(memory, at + header_bytes..end)),
            _ => {}
        }
        at = file.start + (end - file.start).next_multiple_of(4);
    }
    Some(Module { name: name?, image: image? })
}

/// Text in UCS-2 that can stand in a list.
fn text(memory: &dyn PhysicalMemory, range: Range<u64>) -> Option<String> {
    let bytes = (range.end - range.start).min(MAX_NAME_BYTES);
    let mut text = vec![0; super::host_size(bytes)];
    memory.read_at(range.start, &mut text).ok()?;
    let letters = text.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]])).take_while(|unit| *unit != 0);
    let name: String = char::decode_utf16(letters).map(|letter| letter.unwrap_or('?')).collect();
    is_name(&name).then_some(name)
}

/// True for a name that can stand in a list: printable, without spaces.
pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= 80 && name.bytes().all(|byte| byte.is_ascii_graphic())
}

fn read<const N: usize>(memory: &dyn PhysicalMemory, at: u64) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    memory.read_at(at, &mut bytes).ok().map(|()| bytes)
}

/// The bytes of a number inside a header that is long enough.
fn field<const N: usize>(header: &[u8], at: usize) -> [u8; N] {
    header[at..at + N].try_into().expect("the range has N bytes")
}

fn size24(bytes: &[u8]) -> u64 {
    u64::from(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]))
}
