//! The VMCOREINFO note: a kernel's description of itself, as text in its memory.
//!
//! It is an ELF note (name size 11, text size, type 0, then `VMCOREINFO` padded to 12 bytes). Its text has one `KEY=value` per line, the
//! first of which is `OSRELEASE=`. Linux writes it in a subsys initcall if CONFIG_CRASH_CORE (later CONFIG_VMCORE_INFO) is on. crash and
//! makedumpfile depend on it, so its keys are as stable as an interface (Documentation/admin-guide/kdump/vmcoreinfo.rst). `SYMBOL`s and
//! `KERNELOFFSET` are hexadecimal, the rest decimal.
//!
//! A note proves nothing: RAM keeps the notes of kernels that ran before a reset. Callers must check that the log of a note is there.

use std::collections::HashMap;

use memchr::memmem;

use crate::arch::paging::{IMAGE_START, Space, View, is_kernel};
use crate::memory::PhysicalMemory;
use crate::memory::sweep::sweep;

/// Header and padded name, up to the start of the text.
const HEADER_BYTES: u64 = 24;
const NEEDLE: &[u8] = b"VMCOREINFO\0\0OSRELEASE=";
/// Upper bound for the text: Linux's buffer is one page, and later kernels may use up to four.
const MAX_TEXT_BYTES: u32 = 16 << 10;
/// Upper bound for the number of notes, because a guest can fill its memory with them.
const MAX_NOTES: usize = 64;
/// Upper bound for an offset or size in a structure that is read here.
const MAX_FIELD: usize = 4096;

/// A note that was found in memory.
#[derive(Debug)]
pub struct Note {
    /// Guest-physical address of its text.
    pub phys: u64,
    values: HashMap<String, String>,
}

/// The notes in memory, and the number of bytes searched.
pub fn find_notes(memory: &dyn PhysicalMemory) -> (Vec<Note>, u64) {
    let finder = memmem::Finder::new(NEEDLE);
    let mut places = Vec::new();
    let searched = sweep(memory, NEEDLE.len() as u64, |phys, bytes| {
        places.extend(finder.find_iter(bytes).map(|at| phys + at as u64));
        places.dedup();
        places.len() < MAX_NOTES
    });
    places.truncate(MAX_NOTES);
    (places.into_iter().filter_map(|name| read_note(memory, name)).collect(), searched)
}

/// Reads the note whose name begins at `name`.
fn read_note(memory: &dyn PhysicalMemory, name: u64) -> Option<Note> {
    let mut header = [0; 12];
    memory.read_at(name.checked_sub(header.len() as u64)?, &mut header).ok()?;
    let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
    let (name_bytes, text_bytes, kind) = (word(0), word(4), word(8));
    if name_bytes != 11 || kind != 0 || text_bytes > MAX_TEXT_BYTES {
        return None;
    }
    let phys = name + HEADER_BYTES - header.len() as u64;
    let mut text = vec![0; text_bytes as usize];
    memory.read_at(phys, &mut text).ok()?;
    Some(Note { phys, values: parse(&text) })
}

fn parse(text: &[u8]) -> HashMap<String, String> {
    let pairs = text.split(|&byte| byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok()?.split_once('='));
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

impl Note {
    /// The kernel's release, for instance `6.1.0-47-cloud-amd64`; empty if the note has no release.
    pub fn release(&self) -> &str {
        self.values.get("OSRELEASE").map_or("", String::as_str)
    }

    /// Distance by which KASLR moved the image, in bytes.
    pub fn kernel_offset(&self) -> Option<u64> {
        u64::from_str_radix(self.values.get("KERNELOFFSET")?, 16).ok()
    }

    pub fn has(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    /// The address of a symbol in the kernel's half.
    pub fn symbol(&self, name: &str) -> Result<u64, String> {
        let key = format!("SYMBOL({name})");
        let value = self.values.get(&key).ok_or_else(|| format!("it has no {key}"))?;
        let address = u64::from_str_radix(value, 16).ok().filter(|&address| is_kernel(address));
        address.ok_or_else(|| format!("{key}={value} is no address of a 64-bit kernel"))
    }

    /// An `OFFSET`, `SIZE` or `LENGTH` within a structure.
    pub fn field(&self, key: &str) -> Result<usize, String> {
        let value = self.values.get(key).ok_or_else(|| format!("it has no {key}"))?;
        let number = value.parse().ok().filter(|&number: &usize| number <= MAX_FIELD);
        number.ok_or_else(|| format!("{key}={value} is out of bounds"))
    }

    fn number(&self, name: &str) -> Option<i64> {
        self.values.get(&format!("NUMBER({name})"))?.parse().ok()
    }

    /// Translation of this kernel's addresses.
    pub fn space(&self, memory: &dyn PhysicalMemory) -> Result<Space, String> {
        let phys_base = match self.number("phys_base") {
            Some(number) => bits(number),
            None => self.search_phys_base(memory)?,
        };
        let top = self.symbol("init_top_pgt").or_else(|_| self.symbol("swapper_pg_dir"))?;
        Ok(Space::Tables {
            phys_base,
            root: top.wrapping_sub(IMAGE_START).wrapping_add(phys_base),
            levels: if self.number("pgtable_l5_enabled") == Some(1) { 5 } else { 4 },
            encryption_bit: bits(self.number("sme_mask").unwrap_or(0)),
        })
    }

    /// Kernels before 4.10 give only the variable's address: a base is right if the variable, read by that base, contains it.
    fn search_phys_base(&self, memory: &dyn PhysicalMemory) -> Result<u64, String> {
        let variable = self.symbol("phys_base")?;
        let end = memory.extents().iter().map(|extent| extent.range().end).max().unwrap_or(0);
        // The image is aligned to 2 MB at least, and lies above 0: 2^19 tries for a terabyte.
        let bases = (0..end).step_by(2 << 20);
        let right = |&base: &u64| {
            let space = Space::Shifted { image: Some(IMAGE_START.wrapping_sub(base)), other: None };
            View::new(memory, &space).read_u64(variable).is_ok_and(|value| value == base)
        };
        bases.into_iter().find(right).ok_or_else(|| "phys_base is not where it says".to_owned())
    }
}

/// An address, or a mask of an address, that a kernel prints as a signed number.
#[expect(clippy::cast_sign_loss, reason = "the bits are meant")]
const fn bits(number: i64) -> u64 {
    number as u64
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::memory::image::Image;

    /// Writes a note with this text at `phys`.
    pub fn put_note(image: &mut Image, phys: u64, text: &str) {
        let header = [11, text.len() as u32, 0].map(u32::to_le_bytes).concat();
        image.put(phys, &[&header, b"VMCOREINFO\0\0".as_slice(), text.as_bytes()].concat());
    }

    #[test]
    fn a_note_is_found_and_read() {
        let mut image = Image::new(0, 4 << 20);
        image.put(0x5000, b"VMCOREINFO\0\0OSRELEASE=of no note");
        let text = "OSRELEASE=6.1.0\nSYMBOL(prb)=ffffffff82e5c1c8\nOFFSET(printk_info.seq)=0\n\
                    NUMBER(phys_base)=-4194304\nKERNELOFFSET=1e400000\nNUMBER(pgtable_l5_enabled)=1\n\
                    SYMBOL(init_top_pgt)=ffffffff82610000\nSYMBOL(odd)=1000\nSIZE(huge)=99999999\n";
        put_note(&mut image, (1 << 20) - 30, text);
        let (notes, searched) = find_notes(&image);
        let [note] = notes.as_slice() else { panic!("{notes:?}") };
        assert_eq!(searched, 4 << 20);
        assert_eq!((note.release(), note.kernel_offset()), ("6.1.0", Some(0x1e40_0000)));
        assert_eq!(note.symbol("prb"), Ok(0xffff_ffff_82e5_c1c8));
        assert_eq!(note.field("OFFSET(printk_info.seq)"), Ok(0));
        assert!(note.symbol("odd").unwrap_err().contains("no address of a 64-bit kernel"));
        assert!(note.field("SIZE(huge)").unwrap_err().contains("out of bounds"));
        assert!(note.symbol("log_buf").unwrap_err().contains("no SYMBOL(log_buf)"));
        let phys_base = (-4_194_304i64) as u64;
        let space = Space::Tables { phys_base, root: 0x221_0000, levels: 5, encryption_bit: 0 };
        assert_eq!(note.space(&image), Ok(space));
    }

    #[test]
    fn an_old_kernel_s_base_is_found_where_it_points_to_itself() {
        let mut image = Image::new(0, 16 << 20);
        let text = "OSRELEASE=4.9.0\nSYMBOL(phys_base)=ffffffff81001010\nSYMBOL(init_level4_pgt)=ffffffff81002000\n\
                    SYMBOL(swapper_pg_dir)=ffffffff81002000\n";
        put_note(&mut image, 0x3000, text);
        let (notes, _) = find_notes(&image);
        // All memory is zeros: only the base 0 would match, and it lies outside.
        assert!(notes[0].space(&image).is_err());
        let mut image = Image::new(0, 32 << 20);
        put_note(&mut image, 0x3000, text);
        image.put_u64(0x100_1010, 1);
        image.put_u64(0x140_1010, 0x40_0000);
        let (notes, _) = find_notes(&image);
        let Ok(Space::Tables { phys_base, root, levels: 4, .. }) = notes[0].space(&image) else { panic!() };
        assert_eq!((phys_base, root), (0x40_0000, 0x140_2000));
    }
}
