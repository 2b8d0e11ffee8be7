//! Page frames: who has which.
//!
//! Until `vm_page.rs` has set up what stands for each frame, memory is taken from the start of the first free range with
//! room and never given back. Then the frame allocator gets the rest: one of three, for everything there is (`frames=`). The
//! log calls what is spent inside it `frame_allocator`.

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
    /// Not yet given to anybody.
    early: [Range<u64>; REGIONS_MAX],
    ranges: usize,
    frames: Option<Frames<'static>>,
    /// Where `p2buddy`'s records lie, and of which frames they were not cleared yet. It begins at a largest block's border.
    records: u64,
    uncleared_frames: Range<u64>,
}

static MEMORY: SpinLock<Memory> = SpinLock::new(Memory {
    early: [const { 0..0 }; REGIONS_MAX],
    ranges: 0,
    frames: None,
    records: 0,
    uncleared_frames: 0..0,
});

/// Frames that each thread has taken, less those that it gave back; last, what was taken where no thread ran.
static HELD: [AtomicI64; THREADS_MAX + 1] = [const { AtomicI64::new(0) }; THREADS_MAX + 1];

/// The frames of `p2buddy`'s largest block: its neighbours' records are looked at when one is added.
const LARGEST_BLOCK_FRAMES: u64 = 1 << 10;

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

/// From now on there is a frame allocator: the one that the command line chooses, with no frame yet.
pub fn start_frames() {
    let which = boot::switches().frames;
    let count = end() / FRAME_BYTES;
    let kept_bytes = frames::bytes_for(which, count);
    let kept = take_early(kept_bytes);
    let mut memory = MEMORY.lock();
    // SAFETY: what is kept was just taken, for ever, is mapped onto itself, and large enough; `Piece` and `Record` are
    // words, of which any value will do, and `Usage` is cleared first.
    memory.frames = Some(unsafe {
        match which {
            switches::Frames::Recycle => {
                Frames::Recycle(Recycle::new(core::slice::from_raw_parts_mut(kept as *mut _, count as usize / 2)))
            }
            switches::Frames::Scan => {
                clear(kept, kept_bytes);
                Frames::Scan(Scan::new(core::slice::from_raw_parts_mut(kept as *mut _, count as usize)))
            }
            switches::Frames::P2buddy => {
                let records = core::slice::from_raw_parts(kept as *const Record, count as usize);
                Frames::P2buddy(Buddy::new(records, 0).expect("memory::start_frames: frame 0 is aligned"))
            }
        }
    });
    if which == switches::Frames::P2buddy {
        (memory.records, memory.uncleared_frames) = (kept, 0..count);
    }
}

/// Gives frames to the allocator, by number.
pub fn add_frames(first: u64, count: u64) {
    let mut memory = MEMORY.lock();
    clear_records(&mut memory, first + count);
    if let Some(frames) = &mut memory.frames {
        frames.add(first, count);
    }
}

/// Clears what `p2buddy` keeps, up to the end of the largest block that a frame below `end` can lie in: not all of it at
/// once, so that a lazy boot puts that off too, and nothing for blocks without memory.
fn clear_records(memory: &mut Memory, end: u64) {
    let bytes = |frames: u64| frames * size_of::<Record>() as u64;
    let Range { start, end: count } = memory.uncleared_frames;
    let until = end.next_multiple_of(LARGEST_BLOCK_FRAMES);
    for block in (start..until.min(count)).step_by(LARGEST_BLOCK_FRAMES as usize) {
        let frames = block..(block + LARGEST_BLOCK_FRAMES).min(count);
        if boot::ram().place_of(frames.start) < boot::ram().place_of(frames.end) {
            // SAFETY: records of frames that were not added yet: the allocator has not looked at them.
            unsafe { clear(memory.records + bytes(frames.start), bytes(frames.end - frames.start)) };
        }
    }
    memory.uncleared_frames.start = start.max(until);
}

/// Clears memory by eight bytes at a time.
///
/// # Safety
/// It is mapped, nobody's, and begins at a multiple of eight.
unsafe fn clear(phys: u64, bytes: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("rep stosq", inout("rdi") phys => _, inout("rcx") bytes.div_ceil(8) => _, in("rax") 0, options(nostack))
    };
}

/// Who is to give frames back.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holder {
    RunningThread,
    Nobody,
}

/// A frame, cleared.
pub fn allocate_frame() -> u64 {
    take_cleared(Holder::RunningThread)
}

/// A frame, cleared, that nobody gives back: no thread holds it.
pub fn allocate_frame_for_ever() -> u64 {
    take_cleared(Holder::Nobody)
}

fn take_cleared(holder: Holder) -> u64 {
    let phys = take_frames(1, holder).expect("memory::allocate_frame: no frame is free");
    // SAFETY: the frame is the caller's alone, and memory is mapped onto itself.
    unsafe { core::ptr::write_bytes(phys as *mut u8, 0, FRAME_BYTES as usize) };
    phys
}

/// So many frames in one piece. Their contents are whatever was there.
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

/// Gives frames back, as they were allocated.
pub fn free_frames(phys: u64, count: u64) {
    let mut memory = MEMORY.lock();
    let frames = memory.frames.as_mut().expect("memory::free_frames: there is a frame allocator");
    let freed = logged(|| frames.free(phys / FRAME_BYTES, count));
    freed.unwrap_or_else(|error| panic!("memory::free_frames: {phys:#x}: {error:?}"));
    count_held(&memory, -(count as i64));
}

/// The running thread has so many frames more. Who holds the lock is not interrupted, and so stays on its CPU.
fn count_held(_locked: &Memory, frames: i64) {
    HELD[(cpu::this().current.get() as usize).min(THREADS_MAX)].fetch_add(frames, Ordering::Relaxed);
}

/// How many frames a thread has taken and not given back. What other threads do meanwhile, on whichever CPU, is not in it.
pub fn held_by(slot: u16) -> i64 {
    HELD[slot as usize].load(Ordering::Relaxed)
}

/// What is spent in the allocator, whichever it is.
#[inline(never)]
fn logged<T>(operation: impl FnOnce() -> T) -> T {
    let _scope = tslog::scope!("frame_allocator");
    operation()
}

/// Whether there is a frame allocator.
pub fn has_frames() -> bool {
    MEMORY.lock().frames.is_some()
}

/// How it is used. What a lazy boot has not come to yet is available.
pub fn in_use() -> MemoryUse {
    let usable = boot::map().iter().filter(|region| region.kind == USABLE);
    let total_bytes = usable.fold(0u64, |sum, region| sum.saturating_add(region.bytes));
    MemoryUse {
        total_kib: total_bytes / 1024,
        available_kib: (count_free() + vm_page::frames_of_rest()) * FRAME_BYTES / 1024,
        cached_kib: cache::cached_bytes() / 1024,
    }
}

/// How many frames are free.
pub fn count_free() -> u64 {
    let memory = MEMORY.lock();
    let early = || memory.early.iter().map(|range| (range.end - range.start) / FRAME_BYTES).sum();
    memory.frames.as_ref().map_or_else(early, Frames::count)
}
