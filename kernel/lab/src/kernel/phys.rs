//! Physical memory that drivers map: the only way to some for a device, and to what is not the frame allocator's.
//!
//! [`contiguous`] maps new frames that lie in one piece, as memory of the wanted type. Each mapping of them is a reference,
//! and with the last one they are free again. [`borrow`] maps what is at an address, and refuses whatever the
//! allocator owns (`lab::ownership`). With `ownership=none` it refuses nothing, and no frame comes back: so it was where frames were
//! handed out by number.

use crate::{boot, memory, paging, vm_page, vmem};
use core::arch::asm;
use core::sync::atomic::Ordering;
use lab::memory_map::FRAME_BYTES;
use lab::ownership::{self, Refused};
use lab::switches::Ownership;
use x86_64::structures::paging::PageTableFlags as Flags;

/// How a CPU treats memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryType {
    /// Through its caches, which see what devices write.
    WriteBack,
    /// Each access is one on the bus.
    Uncacheable,
}

/// Addresses at which a driver has memory. They are gone when it is dropped.
#[derive(Debug)]
pub struct Mapping {
    /// Of the first page.
    virt: u64,
    /// Of the first frame.
    phys: u64,
    frames: u64,
    /// Where in the first page it begins.
    offset: u64,
    memory_type: MemoryType,
    /// Whether it holds a reference to frames of the allocator's.
    is_counted: bool,
}

/// So many bytes of new memory, cleared, in frames that lie in one piece.
pub fn contiguous(bytes: u64, memory_type: MemoryType) -> Option<Mapping> {
    let frames = bytes.div_ceil(FRAME_BYTES);
    let phys = memory::allocate_frames(frames)?;
    let is_counted = boot::switches().ownership == Ownership::Counted;
    let mapping = Mapping::new(phys, frames, 0, memory_type, is_counted);
    // SAFETY: the frames are new, and all of them were just mapped there.
    unsafe { core::ptr::write_bytes(mapping.virt as *mut u8, 0, (frames * FRAME_BYTES) as usize) };
    Some(mapping)
}

/// What is at an address and not the allocator's.
pub fn borrow(phys: u64, bytes: u64, memory_type: MemoryType) -> Result<Mapping, Refused> {
    let frames = match boot::switches().ownership {
        Ownership::Counted => ownership::borrow(boot::map(), phys, bytes)?,
        Ownership::None => ownership::frames_of(phys, bytes)?,
    };
    let (first, count) = (frames.start * FRAME_BYTES, frames.end - frames.start);
    Ok(Mapping::new(first, count, phys % FRAME_BYTES, memory_type, false))
}

impl Mapping {
    fn new(phys: u64, frames: u64, offset: u64, memory_type: MemoryType, is_counted: bool) -> Mapping {
        let flags = match memory_type {
            MemoryType::WriteBack => paging::DATA,
            MemoryType::Uncacheable => paging::DATA | Flags::NO_CACHE | Flags::WRITE_THROUGH,
        };
        if is_counted {
            vm_page::references(phys).fetch_add(1, Ordering::Relaxed);
        }
        if memory_type == MemoryType::Uncacheable {
            // What this CPU's caches still hold of these frames would be written over what the driver writes. Another CPU's private
            // caches are not reached: drivers attach on the CPU that writes to their memory.
            // SAFETY: writes caches back, and changes no memory that anybody sees.
            unsafe { asm!("wbinvd", options(nostack)) };
        }
        let virt = vmem::allocate(frames * FRAME_BYTES);
        for offset in (0..frames * FRAME_BYTES).step_by(FRAME_BYTES as usize) {
            paging::map(virt + offset, phys + offset, flags);
        }
        Mapping { virt, phys, frames, offset, memory_type, is_counted }
    }

    /// The same memory at other addresses.
    pub fn share(&self) -> Mapping {
        Mapping::new(self.phys, self.frames, self.offset, self.memory_type, self.is_counted)
    }

    /// Where the driver has it.
    pub fn virt(&self) -> u64 {
        self.virt + self.offset
    }

    /// What the driver tells its device.
    pub fn phys(&self) -> u64 {
        self.phys + self.offset
    }

    /// Whether a frame is in it.
    pub fn has(&self, phys: u64) -> bool {
        (self.phys..self.phys + self.frames * FRAME_BYTES).contains(&phys)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let bytes = self.frames * FRAME_BYTES;
        for page in (self.virt..self.virt + bytes).step_by(FRAME_BYTES as usize) {
            paging::unmap(page);
        }
        vmem::free(self.virt, bytes);
        if self.is_counted && vm_page::references(self.phys).fetch_sub(1, Ordering::AcqRel) == 1 {
            memory::free_frames(self.phys, self.frames);
        }
    }
}
