//! The kernel heap, from which `alloc` allocates. Allocations of a page or more get whole frames, once there is a frame
//! allocator. Smaller and earlier allocations come from a piece of early memory.

use crate::lock::SpinLock;
use crate::memory;
use core::alloc::{GlobalAlloc, Layout};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};
use lab::memory_map::FRAME_BYTES;
use linked_list_allocator::Heap;

/// Enough for the small allocations of a boot: devices, threads, names.
const HEAP_BYTES: u64 = 4 << 20;

struct Locked(SpinLock<Heap>);

#[global_allocator]
static HEAP: Locked = Locked(SpinLock::new(Heap::empty()));

/// Address of the early piece.
static START: AtomicU64 = AtomicU64::new(0);

/// True for an allocation that gets whole frames. A frame's alignment is enough for it.
fn is_large(layout: &Layout) -> bool {
    layout.size() as u64 >= FRAME_BYTES && layout.align() as u64 <= FRAME_BYTES
}

pub fn start() {
    let phys = memory::take_early(HEAP_BYTES);
    START.store(phys, Ordering::Relaxed);
    // SAFETY: only the heap uses the memory, for ever, and it is identity mapped.
    unsafe { HEAP.0.lock().init(phys as *mut u8, HEAP_BYTES as usize) };
}

// SAFETY: `Heap` and the frame allocator keep the contract. The lock allows one caller at a time and keeps interrupts off.
unsafe impl GlobalAlloc for Locked {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_large(&layout) && memory::has_frames() {
            let phys = memory::allocate_frames((layout.size() as u64).div_ceil(FRAME_BYTES));
            return phys.map_or(core::ptr::null_mut(), |phys| phys as *mut u8);
        }
        self.0.lock().allocate_first_fit(layout).map_or(core::ptr::null_mut(), NonNull::as_ptr)
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        let heap_start = START.load(Ordering::Relaxed);
        if !(heap_start..heap_start + HEAP_BYTES).contains(&(pointer.addr() as u64)) {
            return memory::free_frames(pointer.addr() as u64, (layout.size() as u64).div_ceil(FRAME_BYTES));
        }
        if let Some(pointer) = NonNull::new(pointer) {
            // SAFETY: the caller got it from `alloc` with this layout.
            unsafe { self.0.lock().deallocate(pointer, layout) };
        }
    }
}
