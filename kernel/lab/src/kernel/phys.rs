//! Mappings of physical memory for drivers. Drivers must get device memory, and memory outside of the frame allocator, only here.
//!
//! [`contiguous`] maps new contiguous frames with the requested memory type. Each mapping of them is a reference, and with the
//! last one they are free again. [`borrow`] maps the memory at an address, and refuses frames that the allocator owns
//! (`lab::ownership`). With `ownership=none` it refuses nothing, and no frame is ever freed, as in kernels that hand out frames
//! by number.

use crate::{boot, memory, paging, vm_page, vmem};
use core::arch::asm;
use core::sync::atomic::Ordering;
use lab::memory_map::FRAME_BYTES;
use lab::ownership::{self, Refused};
use lab::switches::Ownership;
use x86_64::structures::paging::PageTableFlags as Flags;

/// The memory type: the way in which CPUs access memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryType {
    /// Through the caches, which are coherent with devices.
    WriteBack,
    /// Each access goes to the bus.
    Uncacheable,
}

/// A driver's mapping of memory. Dropping it unmaps the memory.
#[derive(Debug)]
pub struct Mapping {
    /// Address of the first page.
    virt: u64,
    /// Address of the first frame.
    phys: u64,
    frames: u64,
    /// Offset of the memory in the first page.
    offset: u64,
    memory_type: MemoryType,
    /// True if the mapping is a reference to frames of the allocator.
    is_counted: bool,
}

/// Allocates and maps cleared memory in contiguous frames.
pub fn contiguous(bytes: u64, memory_type: MemoryType) -> Option<Mapping> {
    let frames = bytes.div_ceil(FRAME_BYTES);
    let phys = memory::allocate_frames(frames)?;
    let is_counted = boot::switches().ownership == Ownership::Counted;
    let mapping = Mapping::new(phys, frames, 0, memory_type, is_counted);
    // SAFETY: the frames are new, and all of them were just mapped at this address.
    unsafe { core::ptr::write_bytes(mapping.virt as *mut u8, 0, (frames * FRAME_BYTES) as usize) };
    Some(mapping)
}

/// Maps the memory at an address, if the allocator does not own it.
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
            // This CPU's caches may still hold dirty lines of these frames. Written back later, they would overwrite the driver's
            // data. Other CPUs' private caches are not flushed: a driver attaches on the CPU that writes to its memory.
            // SAFETY: it writes caches back, which changes no memory that a program can observe.
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

    /// Address for the driver.
    pub fn virt(&self) -> u64 {
        self.virt + self.offset
    }

    /// Address for the device.
    pub fn phys(&self) -> u64 {
        self.phys + self.offset
    }

    /// True if the mapping contains this physical address.
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
