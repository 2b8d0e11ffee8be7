//! Page frames: who has which.
//!
//! Until `vm_page.rs` has set up what stands for each frame, memory is taken from the start of the first free range with
//! room and never given back. Then the frame allocator gets the rest.

use crate::lock::SpinLock;
use crate::{boot, cache, vm_page};
use core::ops::Range;
use lab::frames::Frames;
use lab::memory_map::{FRAME_BYTES, REGIONS_MAX, USABLE, end_of_memory, free_ranges};
use lab::memory_use::MemoryUse;

struct Memory {
    /// Not yet given to anybody.
    early: [Range<u64>; REGIONS_MAX],
    ranges: usize,
    frames: Option<Frames<'static>>,
}

static MEMORY: SpinLock<Memory> =
    SpinLock::new(Memory { early: [const { 0..0 }; REGIONS_MAX], ranges: 0, frames: None });

unsafe extern "C" {
    static kernel_start: u8;
    static kernel_end: u8;
}

/// Where the kernel lies, its .bss included.
pub fn kernel_image() -> Range<u64> {
    (&raw const kernel_start).addr() as u64..(&raw const kernel_end).addr() as u64
}

/// Finds what is free: usable, and neither the kernel nor the initrd.
pub fn find() {
    let mut memory = MEMORY.lock();
    free_ranges(boot::map(), &[kernel_image(), boot::initrd()], |range| {
        let at = memory.ranges;
        assert!(at < REGIONS_MAX, "memory::find: more than {REGIONS_MAX} free ranges");
        memory.early[at] = range;
        memory.ranges += 1;
    });
    assert!(memory.ranges > 0, "memory::find: nothing free in {} regions", boot::map().len());
}

/// One past the highest usable byte. There are holes below it.
pub fn end() -> u64 {
    end_of_memory(boot::map())
}

/// Memory for ever, before there is a frame allocator. Its contents are whatever was there.
pub fn take_early(bytes: u64) -> u64 {
    let bytes = bytes.next_multiple_of(FRAME_BYTES);
    let mut memory = MEMORY.lock();
    assert!(memory.frames.is_none(), "memory::take_early: {bytes} bytes, but there is a frame allocator");
    let range = memory.early.iter_mut().find(|range| range.end - range.start >= bytes);
    let range = range.unwrap_or_else(|| panic!("memory::take_early: no {bytes} bytes in one piece"));
    range.start += bytes;
    range.start - bytes
}

/// Calls `each` with every range that is still free.
pub fn for_each_free(mut each: impl FnMut(Range<u64>)) {
    let memory = MEMORY.lock();
    memory.early[..memory.ranges].iter().filter(|range| !range.is_empty()).cloned().for_each(&mut each);
}

/// From now on there is a frame allocator.
pub fn use_frames(frames: Frames<'static>) {
    MEMORY.lock().frames = Some(frames);
}

/// Gives frames to the allocator, by number.
pub fn add_frames(first: u64, count: u64) {
    if let Some(frames) = &mut MEMORY.lock().frames {
        frames.add(first, count);
    }
}

/// A frame, cleared.
pub fn allocate_frame() -> u64 {
    let phys = loop {
        let mut memory = MEMORY.lock();
        let Some(frames) = &mut memory.frames else {
            drop(memory);
            break take_early(FRAME_BYTES);
        };
        if let Some(frame) = frames.allocate() {
            break frame * FRAME_BYTES;
        }
        drop(memory);
        assert!(vm_page::initialise_some(), "memory::allocate_frame: no frame is free");
    };
    // SAFETY: the frame is the caller's alone, and memory is mapped onto itself.
    unsafe { core::ptr::write_bytes(phys as *mut u8, 0, FRAME_BYTES as usize) };
    phys
}

/// How it is used. What a lazy boot has not come to yet is available.
pub fn in_use() -> MemoryUse {
    let usable = boot::map().iter().filter(|region| region.kind == USABLE);
    let total_bytes = usable.fold(0u64, |sum, region| sum.saturating_add(region.bytes));
    MemoryUse {
        total_kib: total_bytes / 1024,
        available_kib: (free_frames() + vm_page::frames_of_rest()) * FRAME_BYTES / 1024,
        cached_kib: cache::cached_bytes() / 1024,
    }
}

/// How many frames are free.
pub fn free_frames() -> u64 {
    let memory = MEMORY.lock();
    let early = || memory.early.iter().map(|range| (range.end - range.start) / FRAME_BYTES).sum();
    memory.frames.as_ref().map_or_else(early, Frames::count)
}
