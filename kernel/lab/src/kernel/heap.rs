//! The kernel heap: what `alloc` allocates from. What is as large as a page comes in whole frames, once there is an
//! allocator of them; the rest, and what is asked for before, from a piece of early memory.

use crate::lock::SpinLock;
use crate::memory;
use core::alloc::{GlobalAlloc, Layout};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};
use lab::memory_map::FRAME_BYTES;
use linked_list_allocator::Heap;

/// Enough for what a boot keeps in small pieces: devices, threads, names.
const HEAP_BYTES: u64 = 4 << 20;

struct Locked(SpinLock<Heap>);

#[global_allocator]
static HEAP: Locked = Locked(SpinLock::new(Heap::empty()));

/// Where the early piece begins.
static START: AtomicU64 = AtomicU64::new(0);

/// A frame is aligned enough for anything.
fn is_large(layout: &Layout) -> bool {
    layout.size() as u64 >= FRAME_BYTES && layout.align() as u64 <= FRAME_BYTES
}

pub fn start() {
    let phys = memory::take_early(HEAP_BYTES);
    START.store(phys, Ordering::Relaxed);
    // SAFETY: the memory is the heap's alone, for ever, and mapped onto itself.
    unsafe { HEAP.0.lock().init(phys as *mut u8, HEAP_BYTES as usize) };
}

// SAFETY: `Heap` and the frame allocator keep the contract; the lock makes it one at a time, interrupts included.
unsafe impl GlobalAlloc for Locked {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_large(&layout) && memory::has_frames() {
            let phys = memory::allocate_frames((layout.size() as u64).div_ceil(FRAME_BYTES));
            return phys.map_or(core::ptr::null_mut(), |phys| phys as *mut u8);
        }
        self.0.lock().allocate_first_fit(layout).map_or(core::ptr::null_mut(), NonNull::as_ptr)
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        let of_heap = START.load(Ordering::Relaxed);
        if !(of_heap..of_heap + HEAP_BYTES).contains(&(pointer.addr() as u64)) {
            return memory::free_frames(pointer.addr() as u64, (layout.size() as u64).div_ceil(FRAME_BYTES));
        }
        if let Some(pointer) = NonNull::new(pointer) {
            // SAFETY: the caller got it from `alloc` with this layout.
            unsafe { self.0.lock().deallocate(pointer, layout) };
        }
    }
}
