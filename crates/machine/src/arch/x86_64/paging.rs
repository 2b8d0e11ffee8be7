//! Translates kernel addresses of an x86-64 guest into guest-physical addresses, in one of two ways.
//!
//! With the VMCOREINFO note, the kernel image is mapped at [`IMAGE_START`] and moved as a whole by `phys_base`. All other addresses are
//! looked up in the kernel's own page tables (4 or 5 levels, pages of 4 KB, 2 MB and 1 GB). Without the note, the image and the
//! direct map each have a fixed shift between virtual and physical addresses, which a search has found.
//!
//! Every address comes from the guest, and must not be trusted. A walk takes at most five reads and ends in an address or an error.

use std::cell::Cell;
use std::io;

use crate::physical_memory::PhysicalMemory;

/// The lowest linked address of the kernel image (`__START_KERNEL_map`).
pub const IMAGE_START: u64 = 0xffff_ffff_8000_0000;
/// The largest size of the image's mapping (`KERNEL_IMAGE_SIZE`).
const IMAGE_BYTES: u64 = 1 << 30;

const PRESENT: u64 = 1;
const HUGE: u64 = 1 << 7;
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// The translation of kernel addresses into physical ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Space {
    /// Addresses in the image are translated by `phys_base` (modulo 2^64), all others by the page tables whose top is at `root`.
    Tables { phys_base: u64, root: u64, levels: u8, encryption_bit: u64 },
    /// The physical address is the virtual address minus the shift (modulo 2^64).
    Shifted { image: Option<u64>, other: Option<u64> },
}

/// True for an address in the kernel's half.
pub fn is_kernel(virt: u64) -> bool {
    // The upper half of the addresses that five levels can map: 57 bits, sign extended.
    virt >= 0xff00_0000_0000_0000
}

/// True for an address in the mapping of the kernel image.
pub fn in_image(virt: u64) -> bool {
    (IMAGE_START..IMAGE_START + IMAGE_BYTES).contains(&virt)
}

#[derive(Clone, Copy, Default)]
struct Mapping {
    virt: u64,
    bytes: u64,
    phys: u64,
}

/// Kernel memory, read through a [`Space`].
pub struct View<'a> {
    memory: &'a dyn PhysicalMemory,
    space: &'a Space,
    /// The last four translations. A log's descriptors, stamps and texts are three places that are read in turn.
    recent: Cell<([Mapping; 4], usize)>,
}

impl<'a> View<'a> {
    pub fn new(memory: &'a dyn PhysicalMemory, space: &'a Space) -> View<'a> {
        View { memory, space, recent: Cell::default() }
    }

    /// Fills `buf` from the kernel address `virt`.
    pub fn read(&self, virt: u64, buf: &mut [u8]) -> io::Result<()> {
        let mut done = 0;
        while done < buf.len() {
            let at = virt.checked_add(done as u64).ok_or_else(|| unmapped(virt))?;
            let (phys, left) = self.resolve(at)?;
            let here = usize::try_from(left).map_or(buf.len(), |left| left.min(buf.len() - done));
            self.memory.read_at(phys, &mut buf[done..done + here])?;
            done += here;
        }
        Ok(())
    }

    pub fn read_u64(&self, virt: u64) -> io::Result<u64> {
        let mut word = [0; 8];
        self.read(virt, &mut word)?;
        Ok(u64::from_le_bytes(word))
    }

    pub fn read_u32(&self, virt: u64) -> io::Result<u32> {
        let mut word = [0; 4];
        self.read(virt, &mut word)?;
        Ok(u32::from_le_bytes(word))
    }

    /// The physical address, and the number of bytes from there on that are mapped contiguously (at least one).
    pub fn resolve(&self, virt: u64) -> io::Result<(u64, u64)> {
        let image_left = || IMAGE_START + IMAGE_BYTES - virt;
        match *self.space {
            Space::Tables { phys_base, .. } if in_image(virt) => {
                Ok((virt.wrapping_sub(IMAGE_START).wrapping_add(phys_base), image_left()))
            }
            Space::Tables { root, levels, encryption_bit, .. } => {
                self.resolve_by_tables(virt, root, levels, encryption_bit)
            }
            Space::Shifted { image: Some(shift), .. } if in_image(virt) => Ok((virt.wrapping_sub(shift), image_left())),
            Space::Shifted { other: Some(shift), .. } if !in_image(virt) => {
                Ok((virt.wrapping_sub(shift), (u64::MAX - virt).max(1)))
            }
            Space::Shifted { .. } => Err(unmapped(virt)),
        }
    }

    fn resolve_by_tables(&self, virt: u64, root: u64, levels: u8, encryption_bit: u64) -> io::Result<(u64, u64)> {
        let (mut recent, next) = self.recent.get();
        let cached = recent.iter().find(|m| virt.wrapping_sub(m.virt) < m.bytes);
        let mapping = match cached {
            Some(mapping) => *mapping,
            None => {
                let mapping = walk(self.memory, virt, root, levels, encryption_bit)?;
                recent[next % recent.len()] = mapping;
                self.recent.set((recent, next + 1));
                mapping
            }
        };
        let within = virt - mapping.virt;
        Ok((mapping.phys + within, mapping.bytes - within))
    }
}

/// Looks `virt` up in the page tables.
fn walk(memory: &dyn PhysicalMemory, virt: u64, root: u64, levels: u8, encryption_bit: u64) -> io::Result<Mapping> {
    let mut table = root;
    for level in (0..levels).rev() {
        let shift = 12 + 9 * u32::from(level);
        let mut word = [0; 8];
        memory.read_at(table.wrapping_add(((virt >> shift) & 511) * 8), &mut word)?;
        let entry = u64::from_le_bytes(word);
        if entry & PRESENT == 0 {
            return Err(unmapped(virt));
        }
        let address = entry & ADDRESS & !encryption_bit;
        let is_page = level == 0 || (level <= 2 && entry & HUGE != 0);
        if is_page {
            let bytes = 1u64 << shift;
            return Ok(Mapping { virt: virt & !(bytes - 1), bytes, phys: address & !(bytes - 1) });
        }
        table = address;
    }
    Err(unmapped(virt))
}

fn unmapped(virt: u64) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the kernel address {virt:#x} is not mapped"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::image::Image;

    /// Tables with `levels` levels at 0x1000.. that map one page of each size.
    fn tables(levels: u8) -> (Image, Space) {
        let mut image = Image::new(0, 8 << 20);
        let (l5, l4, l3, l2, l1) = (0x1000, 0x2000, 0x3000, 0x4000, 0x5000);
        image.put_u64(l5 + 511 * 8, l4 | PRESENT);
        image.put_u64(l4 + 273 * 8, l3 | PRESENT);
        image.put_u64(l3, l2 | PRESENT);
        image.put_u64(l3 + 8, (1 << 30) | PRESENT | HUGE | 1 << 63);
        image.put_u64(l2, l1 | PRESENT);
        image.put_u64(l2 + 8, 0x60_0000 | PRESENT | HUGE | 1 << 12);
        image.put_u64(l1 + 3 * 8, 0x7000 | PRESENT | 1 << 47);
        let root = if levels == 5 { l5 } else { l4 };
        (image, Space::Tables { phys_base: 0x40_0000, root, levels, encryption_bit: 1 << 47 })
    }

    #[test]
    fn pages_of_every_size_with_four_and_five_levels() {
        const DIRECT: u64 = 0xffff_8880_0000_0000;
        for levels in [4, 5] {
            let (image, space) = tables(levels);
            let view = View::new(&image, &space);
            assert_eq!(view.resolve(DIRECT + 0x3010).unwrap(), (0x7010, 0xff0), "4 KB, encryption bit dropped");
            assert_eq!(view.resolve(DIRECT + 0x20_0010).unwrap(), (0x60_0010, 0x1f_fff0), "2 MB, PAT bit dropped");
            assert_eq!(view.resolve(DIRECT + 0x4000_0010).unwrap().0, 0x4000_0010, "1 GB");
            assert_eq!(view.resolve(DIRECT + 0x20_0020).unwrap().0, 0x60_0020, "from memory");
            assert!(view.resolve(DIRECT + 0x4000).is_err(), "absent page");
            assert!(view.resolve(0xffff_0000_0000_0000).is_err(), "absent top entry");
        }
    }

    #[test]
    fn the_image_moves_as_a_whole_even_downwards() {
        let (image, mut space) = tables(4);
        assert_eq!(View::new(&image, &space).resolve(IMAGE_START + 0x123).unwrap().0, 0x40_0123);
        if let Space::Tables { phys_base, .. } = &mut space {
            *phys_base = (-0x20_0000i64) as u64;
        }
        assert_eq!(View::new(&image, &space).resolve(IMAGE_START + 0x100_0000).unwrap().0, 0xe0_0000);
    }

    #[test]
    fn tables_that_point_at_themselves_or_nowhere_end_in_an_error() {
        let mut image = Image::new(0, 0x2000);
        for entry in 0..512 {
            image.put_u64(0x1000 + entry * 8, 0x1000 | PRESENT);
        }
        let space = Space::Tables { phys_base: 0, root: 0x1000, levels: 5, encryption_bit: 0 };
        // Four steps go in a circle, and the fifth treats the table as a page.
        assert_eq!(View::new(&image, &space).resolve(0xffff_8000_0000_0000).unwrap().0, 0x1000);
        let space = Space::Tables { phys_base: 0, root: ADDRESS, levels: 5, encryption_bit: 0 };
        assert!(View::new(&image, &space).resolve(0xffff_8000_0000_0000).is_err());
        let mut buf = [0; 16];
        assert!(View::new(&image, &space).read(u64::MAX - 3, &mut buf).is_err());
    }
}
