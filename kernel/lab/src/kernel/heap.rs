//! The kernel heap: what `alloc` allocates from.

use crate::lock::SpinLock;
use crate::memory;
use core::alloc::{GlobalAlloc, Layout};
use core::ptr::NonNull;
use linked_list_allocator::Heap;

/// Enough for what a boot keeps: devices, threads, a screen's cells.
const HEAP_BYTES: u64 = 4 << 20;

struct Locked(SpinLock<Heap>);

#[global_allocator]
static HEAP: Locked = Locked(SpinLock::new(Heap::empty()));

pub fn start() {
    let phys = memory::take_early(HEAP_BYTES);
    // SAFETY: the memory is the heap's alone, for ever, and mapped onto itself.
    unsafe { HEAP.0.lock().init(phys as *mut u8, HEAP_BYTES as usize) };
}

// SAFETY: `Heap` keeps the contract; the lock makes it one at a time, interrupts included.
unsafe impl GlobalAlloc for Locked {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.0.lock().allocate_first_fit(layout).map_or(core::ptr::null_mut(), NonNull::as_ptr)
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if let Some(pointer) = NonNull::new(pointer) {
            // SAFETY: the caller got it from `alloc` with this layout.
            unsafe { self.0.lock().deallocate(pointer, layout) };
        }
    }
}
