//! Allocation of page frames.
//!
//! Until `vm_page.rs` has set up the page structures, memory comes from the start of the first free range with room, and is
//! never freed. Then the frame allocator gets the rest. The whole kernel uses one of three allocators (`frames=`). The log
//! calls the time inside it `frame_allocator`.

use crate::lock::SpinLock;
use crate::thread::THREADS_MAX;
use crate::{boot, cache, cpu, vm_page};
use core::arch::asm;
use core::ops::Range;
use core::sync::atomic::{AtomicI64, Ordering};
use lab::frames::{self, Frames, Recycle, Scan};
use lab::memory_map::{FRAME_BYTES, REGIONS_MAX, USABLE, end_of_memory, free_ranges};
use lab::memory_use::MemoryUse;
use lab::switches;
use p2buddy::{Buddy, Record};

struct Memory {
    /// Ranges that are not allocated yet.
    early: [Range<u64>; REGIONS_MAX],
    ranges: usize,
    frames: Option<Frames<'static>>,
    /// Address of `p2buddy`'s records.
    records: u64,
    /// Frames whose records are not cleared yet. The range begins at the border of a largest block.
    uncleared_frames: Range<u64>,
}

static MEMORY: SpinLock<Memory> = SpinLock::new(Memory {
    early: [const { 0..0 }; REGIONS_MAX],
    ranges: 0,
    frames: None,
    records: 0,
    uncleared_frames: 0..0,
});

/// Number of frames that each thread has taken and not freed. The last entry counts frames taken while no thread ran.
static HELD: [AtomicI64; THREADS_MAX + 1] = [const { AtomicI64::new(0) }; THREADS_MAX + 1];

/// Number of frames in `p2buddy`'s largest block. Adding a frame reads records of neighbours within that block.
const LARGEST_BLOCK_FRAMES: u64 = 1 << 10;

unsafe extern "C" {
    static kernel_start: u8;
    static kernel_end: u8;
}

/// Addresses of the kernel, including its .bss.
pub fn kernel_image() -> Range<u64> {
    (&raw const kernel_start).addr() as u64..(&raw const kernel_end).addr() as u64
}

/// Finds the free memory: usable memory without the kernel and the initrd.
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

/// End of the highest usable memory. There are holes below it.
pub fn end() -> u64 {
    end_of_memory(boot::map())
}

/// Takes memory for ever, before there is a frame allocator. The memory is not cleared.
pub fn take_early(bytes: u64) -> u64 {
    take_first(&mut MEMORY.lock(), bytes)
}

fn take_first(memory: &mut Memory, bytes: u64) -> u64 {
    let bytes = bytes.next_multiple_of(FRAME_BYTES);
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

/// Starts the frame allocator that the command line chooses, without a frame yet.
pub fn start_frames() {
    let which = boot::switches().frames;
    let count = end() / FRAME_BYTES;
    let table_bytes = frames::bytes_for(which, count);
    let table = take_early(table_bytes);
    let mut memory = MEMORY.lock();
    // SAFETY: the table's memory was just taken, for ever, is identity mapped, and large enough. `Piece` and `Record` are words,
    // for which any value is valid, and `Usage` is cleared first.
    memory.frames = Some(unsafe {
        match which {
            switches::Frames::Recycle => {
                Frames::Recycle(Recycle::new(core::slice::from_raw_parts_mut(table as *mut _, count as usize / 2)))
            }
            switches::Frames::Scan => {
                clear(table, table_bytes);
                Frames::Scan(Scan::new(core::slice::from_raw_parts_mut(table as *mut _, count as usize)))
            }
            switches::Frames::P2buddy => {
                let records = core::slice::from_raw_parts(table as *const Record, count as usize);
                Frames::P2buddy(Buddy::new(records, 0).expect("memory::start_frames: frame 0 is aligned"))
            }
        }
    });
    if which == switches::Frames::P2buddy {
        (memory.records, memory.uncleared_frames) = (table, 0..count);
    }
}

/// Adds frames to the allocator, by number.
pub fn add_frames(first: u64, count: u64) {
    let mut memory = MEMORY.lock();
    clear_records(&mut memory, first + count);
    if let Some(frames) = &mut memory.frames {
        frames.add(first, count);
    }
}

/// Clears `p2buddy`'s records up to the end of the largest block that a frame below `end` can lie in. It does not clear all of
/// them at once, so that a lazy boot defers that too. It skips blocks without memory.
fn clear_records(memory: &mut Memory, end: u64) {
    let bytes = |frames: u64| frames * size_of::<Record>() as u64;
    let Range { start, end: count } = memory.uncleared_frames;
    let until = end.next_multiple_of(LARGEST_BLOCK_FRAMES);
    for block in (start..until.min(count)).step_by(LARGEST_BLOCK_FRAMES as usize) {
        let frames = block..(block + LARGEST_BLOCK_FRAMES).min(count);
        if boot::ram().place_of(frames.start) < boot::ram().place_of(frames.end) {
            // SAFETY: the frames were not added yet, so the allocator has not read their records.
            unsafe { clear(memory.records + bytes(frames.start), bytes(frames.end - frames.start)) };
        }
    }
    memory.uncleared_frames.start = start.max(until);
}

/// Clears memory, eight bytes at a time.
///
/// # Safety
/// The memory is mapped, unused, and begins at a multiple of eight.
unsafe fn clear(phys: u64, bytes: u64) {
    // SAFETY: the caller promises it.
    unsafe {
        asm!("rep stosq", inout("rdi") phys => _, inout("rcx") bytes.div_ceil(8) => _, in("rax") 0, options(nostack))
    };
}

/// The holder of new frames, for `HELD`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holder {
    RunningThread,
    Nobody,
}

/// Allocates a cleared frame.
pub fn allocate_frame() -> u64 {
    take_cleared(Holder::RunningThread)
}

/// Allocates a cleared frame that is never freed, so that no thread counts as its holder.
pub fn allocate_frame_for_ever() -> u64 {
    take_cleared(Holder::Nobody)
}

fn take_cleared(holder: Holder) -> u64 {
    let phys = take_frames(1, holder).expect("memory::allocate_frame: no frame is free");
    // SAFETY: the frame is new, and memory is identity mapped.
    unsafe { core::ptr::write_bytes(phys as *mut u8, 0, FRAME_BYTES as usize) };
    phys
}

/// Allocates contiguous frames, which are not cleared.
pub fn allocate_frames(count: u64) -> Option<u64> {
    take_frames(count, Holder::RunningThread)
}

fn take_frames(count: u64, holder: Holder) -> Option<u64> {
    loop {
        let mut memory = MEMORY.lock();
        let phys = match &mut memory.frames {
            Some(frames) => logged(|| frames.allocate(count)).map(|first| first * FRAME_BYTES),
            None => Some(take_first(&mut memory, count * FRAME_BYTES)),
        };
        if phys.is_some() {
            if holder == Holder::RunningThread {
                count_held(&memory, count as i64);
            }
            return phys;
        }
        drop(memory);
        if !vm_page::initialise_some() {
            return None;
        }
    }
}

/// Frees frames, in the same pieces as they were allocated.
pub fn free_frames(phys: u64, count: u64) {
    let mut memory = MEMORY.lock();
    let frames = memory.frames.as_mut().expect("memory::free_frames: there is a frame allocator");
    let freed = logged(|| frames.free(phys / FRAME_BYTES, count));
    freed.unwrap_or_else(|error| panic!("memory::free_frames: {phys:#x}: {error:?}"));
    count_held(&memory, -(count as i64));
}

/// Adds to the number of frames that the running thread holds. The caller holds the lock, so it is not interrupted and stays on
/// its CPU.
fn count_held(_locked: &Memory, frames: i64) {
    HELD[(cpu::this().current.get() as usize).min(THREADS_MAX)].fetch_add(frames, Ordering::Relaxed);
}

/// Number of frames that a thread has taken and not freed. Frames of other threads do not count, on any CPU.
pub fn held_by(slot: u16) -> i64 {
    HELD[slot as usize].load(Ordering::Relaxed)
}

/// Logs the time inside the allocator.
#[inline(never)]
fn logged<T>(operation: impl FnOnce() -> T) -> T {
    let _scope = tslog::scope!("frame_allocator");
    operation()
}

/// True if there is a frame allocator.
pub fn has_frames() -> bool {
    MEMORY.lock().frames.is_some()
}

/// The use of memory. Frames that a lazy boot has not initialised yet are available.
pub fn in_use() -> MemoryUse {
    let usable = boot::map().iter().filter(|region| region.kind == USABLE);
    let total_bytes = usable.fold(0u64, |sum, region| sum.saturating_add(region.bytes));
    MemoryUse {
        total_kib: total_bytes / 1024,
        available_kib: (count_free() + vm_page::frames_of_rest()) * FRAME_BYTES / 1024,
        cached_kib: cache::cached_bytes() / 1024,
    }
}

/// Number of free frames.
pub fn count_free() -> u64 {
    let memory = MEMORY.lock();
    let early = || memory.early.iter().map(|range| (range.end - range.start) / FRAME_BYTES).sum();
    memory.frames.as_ref().map_or_else(early, Frames::count)
}
