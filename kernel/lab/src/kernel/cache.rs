//! A cache of a disk. It reads each page of the disk into a frame, and maps the frames one behind the other.
//!
//! If the disk is memory (a RAM disk, a persistent DIMM) the cache is a second copy (`root=copy`). Mapping the disk in place
//! costs nothing (`root=direct`, as DAX does).

use crate::console::verbose;
use crate::{memory, paging, vm_page, vmem};
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
use lab::memory_map::FRAME_BYTES;

/// Number of frames in the cache.
static CACHED_FRAMES: AtomicU64 = AtomicU64::new(0);
/// Number of free frames left for everything else.
const FRAMES_LEFT: u64 = 1024;

/// Reads a disk that lies in memory. Returns `None` if there is no room for all of it. Called once, because the cache never
/// drops a page.
#[inline(never)]
pub fn read_through(disk: Range<u64>) -> Option<&'static [u8]> {
    let _scope = tslog::scope!("cache_read");
    let bytes = disk.end - disk.start;
    let frames = bytes.div_ceil(FRAME_BYTES);
    while memory::count_free() < frames + FRAMES_LEFT {
        // A lazy boot may have more frames that are not initialised yet.
        if !vm_page::initialise_some() {
            return None;
        }
    }
    let cache = vmem::allocate(frames * FRAME_BYTES);
    for page in 0..frames {
        let from = disk.start + page * FRAME_BYTES;
        let frame = memory::allocate_frame();
        let here = FRAME_BYTES.min(disk.end - from) as usize;
        // SAFETY: the frame is new, and nothing else uses the disk's memory. Both are identity mapped.
        unsafe { core::ptr::copy_nonoverlapping(from as *const u8, frame as *mut u8, here) };
        paging::map(cache + page * FRAME_BYTES, frame, paging::DATA);
    }
    CACHED_FRAMES.fetch_add(frames, Ordering::Relaxed);
    verbose!("cache: {} KiB", cached_bytes() / 1024);
    // SAFETY: these pages were just mapped, and no code writes them from now on.
    Some(unsafe { core::slice::from_raw_parts(cache as *const u8, bytes as usize) })
}

/// Size of the cache.
pub fn cached_bytes() -> u64 {
    CACHED_FRAMES.load(Ordering::Relaxed) * FRAME_BYTES
}
