//! Firmware volumes: the modules that a file of UEFI firmware carries, by name, and their images.
//!
//! Format: Platform Initialization Specification 1.8, volume 3, chapters 2 and 3. A volume has a header with the signature `_FVH`, then
//! files; a file has sections; one section is the image, another the name. A section can have volumes in it, compressed or not. Of
//! compressions, LZMA is read, which EDK2 uses.

use std::ops::Range;

use crate::packed;

const SIGNATURE: &[u8; 4] = b"_FVH";
const SIGNATURE_AT: usize = 40;
const VOLUME_HEADER_BYTES: usize = 56;
/// Upper bound for the files and sections that are read: EDK2 has about 150 files of at most eight sections.
const MAX_READS: usize = 1 << 16;
/// Upper bound for what a section unpacks to. EDK2's has 15 MiB.
const MAX_UNPACKED_BYTES: u64 = 64 << 20;
/// Sections in sections: a volume in a compressed one in a volume.
const MAX_DEPTH: usize = 4;
const MAX_NAME_BYTES: usize = 256;

const FILE_HEADER_BYTES: usize = 24;
const LARGE_FILE_HEADER_BYTES: usize = 32;
const LARGE_FILE: u8 = 1;
const PADDING_FILE: u8 = 0xf0;
/// Types of sections.
const GUID_DEFINED: u8 = 0x02;
const PE32: u8 = 0x10;
const TE: u8 = 0x12;
const USER_INTERFACE: u8 = 0x15;

/// A file of a volume that has an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Module {
    pub(super) name: String,
    /// The offset of the image in the file; `None` if it is packed.
    pub(super) at: Option<u64>,
    pub(super) image: Vec<u8>,
}

/// The modules of all volumes in a firmware's file.
pub(super) fn modules(file: &[u8]) -> Vec<Module> {
    let mut found = Found { modules: Vec::new(), reads_left: MAX_READS };
    found.volumes(file, 0);
    found.modules
}

struct Found {
    modules: Vec<Module>,
    reads_left: usize,
}

impl Found {
    /// Reads the volumes in `bytes`. A volume inside another is found by itself.
    fn volumes(&mut self, bytes: &[u8], depth: usize) {
        for at in memchr::memmem::find_iter(bytes, SIGNATURE) {
            if let Some(at) = at.checked_sub(SIGNATURE_AT) {
                self.volume(at, &bytes[at..], depth);
            }
        }
    }

    /// Reads the volume that begins `bytes`, at offset `start` of the file or of what was unpacked.
    fn volume(&mut self, start: usize, bytes: &[u8], depth: usize) {
        let Some(header) = bytes.get(..VOLUME_HEADER_BYTES) else { return };
        let length = usize::try_from(u64::from_le_bytes(field(header, 32))).unwrap_or(usize::MAX).min(bytes.len());
        let mut at = usize::from(u16::from_le_bytes(field(header, 48)));
        let extended_at = usize::from(u16::from_le_bytes(field(header, 52)));
        if let Some(size) = bytes.get(extended_at + 16..extended_at + 20).filter(|_| extended_at > 0) {
            at = extended_at.saturating_add(u32::from_le_bytes(field(size, 0)) as usize);
        }
        while self.reads_left > 0 {
            self.reads_left -= 1;
            at = at.next_multiple_of(8);
            let Some(file) = file(&bytes[..length], at) else { break };
            at = file.end;
            self.file(start, bytes, file, depth);
        }
    }

    /// Takes the image and the name among a file's sections, and looks into compressed ones.
    fn file(&mut self, start: usize, bytes: &[u8], file: Range<usize>, depth: usize) {
        let (mut image, mut name) = (None, None);
        let mut at = file.start;
        while self.reads_left > 0 {
            self.reads_left -= 1;
            let Some(header) = bytes[..file.end].get(at..).and_then(|rest| rest.get(..8)) else { break };
            let (size, header_bytes) = match size24(&header[0..3]) {
                0xff_ffff => (u32::from_le_bytes(field(header, 4)) as usize, 8),
                size => (size, 4),
            };
            let Some(end) = at.checked_add(size).filter(|end| *end <= file.end && size >= header_bytes) else { break };
            match header[3] {
                PE32 | TE => image = image.or(Some(at + header_bytes..end)),
                USER_INTERFACE => name = name.or_else(|| text(&bytes[at + header_bytes..end])),
                GUID_DEFINED => self.guided(&bytes[at..end], header_bytes, depth),
                _ => {}
            }
            at = file.start + (end - file.start).next_multiple_of(4);
        }
        if let (Some(name), Some(image)) = (name, image) {
            let at = (depth == 0).then_some((start + image.start) as u64);
            self.modules.push(Module { name, at, image: bytes[image].to_vec() });
        }
    }

    /// Looks into a section that is compressed.
    fn guided(&mut self, section: &[u8], header_bytes: usize, depth: usize) {
        let Some(offset) = section.get(header_bytes + 16..header_bytes + 18) else { return };
        let content = section.get(usize::from(u16::from_le_bytes(field(offset, 0)))..).unwrap_or_default();
        let is_packed = packed::Compression::of(content) == packed::Compression::Lzma && depth < MAX_DEPTH;
        if let Some((bytes, _)) = is_packed.then(|| packed::content(content, MAX_UNPACKED_BYTES).ok()).flatten() {
            self.volumes(&bytes, depth + 1);
        }
    }
}

/// The content of the file at `at`, behind its header. An erased place, which ends the volume, is no file.
fn file(volume: &[u8], at: usize) -> Option<Range<usize>> {
    let header = volume.get(at..)?.get(..LARGE_FILE_HEADER_BYTES)?;
    let is_large = header[19] & LARGE_FILE != 0;
    let (header_bytes, size) = match is_large {
        true => (LARGE_FILE_HEADER_BYTES, usize::try_from(u64::from_le_bytes(field(header, 24))).ok()?),
        false => (FILE_HEADER_BYTES, size24(&header[20..23])),
    };
    let end = at.checked_add(size).filter(|end| *end <= volume.len() && size >= header_bytes)?;
    let is_padding = header[18] == PADDING_FILE;
    Some(if is_padding { end..end } else { at + header_bytes..end })
}

/// Text in UCS-2 that can stand in a list.
fn text(bytes: &[u8]) -> Option<String> {
    let letters = bytes.chunks_exact(2).take(MAX_NAME_BYTES / 2).map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
    let letters = char::decode_utf16(letters.take_while(|unit| *unit != 0));
    let name: String = letters.map(|letter| letter.unwrap_or('?')).collect();
    is_name(&name).then_some(name)
}

/// True for a name that can stand in a list: printable, without spaces.
pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= 80 && name.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The bytes of a number inside a header that is long enough.
fn field<const N: usize>(header: &[u8], at: usize) -> [u8; N] {
    header[at..at + N].try_into().expect("the range has N bytes")
}

fn size24(bytes: &[u8]) -> usize {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]) as usize
}
