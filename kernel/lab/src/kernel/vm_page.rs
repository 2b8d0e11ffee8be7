//! The page structures: an array with a structure for every 4 KiB of memory, initialised at boot. Holes have no structures
//! (`lab::memory_map::Ram`). Only the frame allocator has an entry for each frame below the end of memory.
//!
//! Because of the array, a machine with more memory boots more slowly. There are three ways (`vm_page=`). `three-pass` walks
//! over the array three times: to clear it, to fill it in, and to free frame by frame. `one-pass` does each structure once and
//! frees whole ranges. `lazy` does that for the first part only, and leaves the rest to a thread.
//!
//! That thread runs only while no other can, like FreeBSD's since 2024, so that the boot does not wait for it. A thread that
//! needs more frames earlier initialises them itself. `eager-thread` is the same without the priority. With one CPU, its thread
//! takes the CPU from the thread that the boot waits for, and nothing is saved. The machine is not switched off before the rest
//! is done.

use crate::console::verbose;
use crate::sysinit::{Subsystem, sysinit};
use crate::thread::{self, Priority};
use crate::wait::Shared;
use crate::{boot, memory};
use core::ops::Range;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use lab::memory_map::{FRAME_BYTES, REGIONS_MAX, Ram};
use lab::switches::VmPage;

sysinit!(vm_mem, Subsystem::Vm, 0, vm_mem);
sysinit!(vm_rest, Subsystem::Kthreads, 9, vm_rest);

/// Amount of free memory that a lazy boot begins with.
const FIRST_PART_BYTES: u64 = 64 << 20;
/// Number of frames that the thread initialises before it checks whether another thread can run. It is about thirty
/// microseconds of work, and two of the allocator's largest blocks.
const CHUNK_FRAMES: u64 = 2048;

/// The structure of a page frame.
#[repr(C)]
struct Page {
    next: u64,
    previous: u64,
    object: u64,
    index: u64,
    phys: u64,
    references: u32,
    flags: u16,
    order: u8,
    queue: u8,
    /// Number of the free range that the frame lies in.
    segment: u32,
    wired: u32,
    dirty: u64,
}

const _: () = assert!(size_of::<Page>() == 64, "one page structure is one cache line");
const FREE: u16 = 1;
const CLEAR: Page = Page {
    next: 0,
    previous: 0,
    object: 0,
    index: 0,
    phys: 0,
    references: 0,
    flags: 0,
    order: 0,
    queue: 0,
    segment: 0,
    wired: 0,
    dirty: 0,
};

/// Address of the array.
static PAGES: AtomicU64 = AtomicU64::new(0);
/// First place of the array that a lazy boot has not initialised yet.
static REST: AtomicU64 = AtomicU64::new(u64::MAX);
/// True from the creation of the thread until it has done the rest.
static REST_IS_DUE: Shared<bool> = Shared::new(false);

/// SYSINIT vm_mem: initialises the array, and with it the frame allocator.
fn vm_mem() {
    let ram = boot::ram();
    let pages = memory::take_early(ram.frames() * size_of::<Page>() as u64);
    PAGES.store(pages, Ordering::Relaxed);
    memory::start_frames();
    let (ranges, count) = free_ranges();
    match boot::switches().vm_page {
        VmPage::ThreePass => three_passes(ram, &ranges[..count]),
        VmPage::OnePass => one_pass(ram, 0..ram.frames(), &ranges[..count]),
        VmPage::Lazy | VmPage::EagerThread => {
            let first = ram.place_of(end_of_first_part(&ranges[..count]));
            REST.store(first, Ordering::Relaxed);
            one_pass(ram, 0..first, &ranges[..count]);
        }
    }
    verbose!("vm_mem: {} of {} frames are free", memory::count_free(), ram.frames());
}

/// The frame below which lies the free memory that a lazy boot begins with.
fn end_of_first_part(ranges: &[Range<u64>]) -> u64 {
    let mut wanted = FIRST_PART_BYTES / FRAME_BYTES;
    for range in ranges {
        let here = range.end - range.start;
        if here >= wanted {
            return range.start + wanted;
        }
        wanted -= here;
    }
    u64::MAX
}

/// SYSINIT vm_rest: starts the thread for the rest, in a lazy boot.
fn vm_rest() {
    let priority = match boot::switches().vm_page {
        VmPage::ThreePass | VmPage::OnePass => return,
        VmPage::Lazy => Priority::Idle,
        VmPage::EagerThread => Priority::Normal,
    };
    REST_IS_DUE.change_unawaited(|due| *due = true);
    thread::create_with(priority, "vm_rest", the_rest, 0);
}

/// The thread that initialises the rest.
fn the_rest(_: usize) {
    let (ranges, count) = free_ranges();
    while !is_all_there() {
        initialise_until_others_can_run(&ranges[..count]);
        thread::yield_now();
    }
    REST_IS_DUE.change(|due| *due = false);
}

/// Initialises frames until another thread can run. Each call is in the log, so that the log shows when the thread had the CPU.
#[inline(never)]
fn initialise_until_others_can_run(ranges: &[Range<u64>]) {
    let _scope = tslog::scope!("vm_rest");
    let gives_way = boot::switches().vm_page == VmPage::Lazy;
    while initialise_more(ranges) && !(gives_way && thread::others_can_run()) {}
}

/// Waits until all frames are initialised.
pub fn wait_for_rest() {
    REST_IS_DUE.wait_for(|due| (!*due).then_some(()));
}

/// Initialises a part of the rest for a caller that needs frames now. Returns false if there is no rest.
pub fn initialise_some() -> bool {
    let (ranges, count) = free_ranges();
    initialise_more(&ranges[..count])
}

/// Number of frames in the rest that will be free.
pub fn frames_of_rest() -> u64 {
    let (ranges, count) = free_ranges();
    let (ram, rest) = (boot::ram(), REST.load(Ordering::Relaxed));
    let in_rest = |range: &Range<u64>| ram.place_of(range.end).saturating_sub(ram.place_of(range.start).max(rest));
    ranges[..count].iter().map(in_rest).sum()
}

fn is_all_there() -> bool {
    REST.load(Ordering::Relaxed) >= boot::ram().frames()
}

/// Takes the next chunk off the rest and initialises it. Returns false if there is no rest.
fn initialise_more(ranges: &[Range<u64>]) -> bool {
    let ram = boot::ram();
    let end = ram.frames();
    let take = |first: u64| (first < end).then(|| (first + CHUNK_FRAMES).min(end));
    match REST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
        Ok(first) => one_pass(ram, first..(first + CHUNK_FRAMES).min(end), ranges),
        Err(_) => return false,
    }
    true
}

/// Number of mappings of the piece of memory that begins with this frame. Only for a frame in use.
pub fn references(phys: u64) -> &'static AtomicU32 {
    let frame = phys / FRAME_BYTES;
    let page = pages_from(0, boot::ram().place_of(frame));
    // SAFETY: the frame was allocated, so its structure was written and is not written again. From then on all accesses to the
    // count go through this function.
    unsafe { AtomicU32::from_ptr(&raw mut (*page).references) }
}

/// The ranges of free memory, in frames, and their number.
fn free_ranges() -> ([Range<u64>; REGIONS_MAX], usize) {
    let mut ranges = [const { 0..0 }; REGIONS_MAX];
    let mut count = 0;
    memory::for_each_free(|range| {
        ranges[count] = range.start / FRAME_BYTES..range.end / FRAME_BYTES;
        count += 1;
    });
    (ranges, count)
}

/// Start of the array as if frame numbers were its indices, for a stretch in which `frame` has this place.
fn pages_from(frame: u64, place: u64) -> *mut Page {
    (PAGES.load(Ordering::Relaxed) as *mut Page).wrapping_add(place as usize).wrapping_sub(frame as usize)
}

/// Number of the range that a frame lies in, found by a search; `u32::MAX` if it lies in none.
fn segment_of(frame: u64, ranges: &[Range<u64>]) -> u32 {
    ranges.iter().position(|range| range.contains(&frame)).map_or(u32::MAX, |place| place as u32)
}

#[inline(never)]
fn three_passes(ram: &Ram, ranges: &[Range<u64>]) {
    let all = 0..ram.frames();
    for place in all.clone() {
        // SAFETY: the array has `ram.frames()` structures, and no other code uses it yet.
        unsafe { pages_from(0, place).write(CLEAR) };
    }
    ram.for_each_stretch(all.clone(), |frames, first| {
        for (frame, place) in frames.zip(first..) {
            // SAFETY: as above.
            let page = unsafe { &mut *pages_from(0, place) };
            page.phys = frame * FRAME_BYTES;
            page.segment = segment_of(frame, ranges);
            page.order = u8::MAX;
            page.queue = u8::MAX;
        }
    });
    ram.for_each_stretch(all, |frames, first| {
        for (frame, place) in frames.zip(first..) {
            if segment_of(frame, ranges) != u32::MAX {
                // SAFETY: as above.
                unsafe { (*pages_from(0, place)).flags |= FREE };
                memory::add_frames(frame, 1);
            }
        }
    });
}

#[inline(never)]
fn one_pass(ram: &Ram, places: Range<u64>, ranges: &[Range<u64>]) {
    ram.for_each_stretch(places, |frames, first| one_stretch(frames, first, ranges));
}

fn one_stretch(frames: Range<u64>, first: u64, ranges: &[Range<u64>]) {
    let pages = pages_from(frames.start, first);
    let mut at = frames.start;
    while at < frames.end {
        // A stretch of free frames, or a stretch up to the next free frame.
        let inside = segment_of(at, ranges);
        let until = match inside {
            u32::MAX => ranges.iter().map(|range| range.start).filter(|&start| start > at).min().unwrap_or(u64::MAX),
            segment => ranges[segment as usize].end,
        };
        let until = until.min(frames.end);
        let flags = if inside == u32::MAX { 0 } else { FREE };
        for frame in at..until {
            let new =
                Page { phys: frame * FRAME_BYTES, flags, order: u8::MAX, queue: u8::MAX, segment: inside, ..CLEAR };
            // SAFETY: the array has this structure, and only one thread fills a range.
            unsafe { pages.wrapping_add(frame as usize).write(new) };
        }
        if inside != u32::MAX {
            memory::add_frames(at, until - at);
        }
        at = until;
    }
}
