//! A cache of a disk: every page of it is read into a frame of its own, and the frames are mapped one behind the other.
//!
//! Where the disk is memory already (a RAM disk, a persistent DIMM) all of that is a second copy (`root=copy`); mapped in
//! place it costs nothing (`root=direct`, what DAX does).

use crate::console::verbose;
use crate::{memory, paging, vm_page, vmem};
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
use lab::memory_map::FRAME_BYTES;

/// How many frames the cache has.
static CACHED_FRAMES: AtomicU64 = AtomicU64::new(0);
/// Left over for everything else.
const FRAMES_LEFT: u64 = 1024;

/// Reads a disk that lies in memory. None if there is no room for all of it. Called once: nothing is ever thrown out.
#[inline(never)]
pub fn read_through(disk: Range<u64>) -> Option<&'static [u8]> {
    let _scope = tslog::scope!("cache_read");
    let bytes = disk.end - disk.start;
    let frames = bytes.div_ceil(FRAME_BYTES);
    while memory::count_free() < frames + FRAMES_LEFT {
        // What a lazy boot has not come to yet.
        if !vm_page::initialise_some() {
            return None;
        }
    }
    let cache = vmem::allocate(frames * FRAME_BYTES);
    for page in 0..frames {
        let from = disk.start + page * FRAME_BYTES;
        let frame = memory::allocate_frame();
        let here = FRAME_BYTES.min(disk.end - from) as usize;
        // SAFETY: the frame is new, and the disk's memory is nobody else's; both are mapped onto themselves.
        unsafe { core::ptr::copy_nonoverlapping(from as *const u8, frame as *mut u8, here) };
        paging::map(cache + page * FRAME_BYTES, frame, paging::DATA);
    }
    CACHED_FRAMES.fetch_add(frames, Ordering::Relaxed);
    verbose!("cache: {} KiB", cached_bytes() / 1024);
    // SAFETY: so many pages were just mapped there, and nobody writes them any more.
    Some(unsafe { core::slice::from_raw_parts(cache as *const u8, bytes as usize) })
}

/// How much memory it has.
pub fn cached_bytes() -> u64 {
    CACHED_FRAMES.load(Ordering::Relaxed) * FRAME_BYTES
}
