//! Settings for the pages of the program's heap.
//!
//! A third of a short run was page faults. Each stage frees its large arrays, glibc returns their pages, and the next
//! stage asks for as many. So freed pages are kept, and new ones come 2 MiB at a time. A chart of 262 144 records then
//! takes 950 page faults in place of 11 200.

#![allow(unsafe_code, reason = "glibc's own settings of its heap")]

/// Larger arrays get mappings of their own, which grow without being copied. glibc takes no larger limit.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const OWN_MAPPING_BYTES: i32 = 32 << 20;
/// The free memory that is kept at the heap's end: all of it, also the reserved part that was never used.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MAX_KEPT_BYTES: i32 = i32::MAX;
/// The address space that the heap reserves first: enough for nearly all runs. It uses memory only as needed. If the
/// reservation fails, and later, the heap grows by [`STEP_BYTES`].
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const RESERVED_BYTES: i32 = 1 << 30;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const STEP_BYTES: i32 = 1 << 20;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// The number of heaps. Otherwise glibc would give the program's main thread another heap without these settings.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const HEAPS: i32 = 1;

/// Keeps freed memory for the next stage, in huge pages if the host has them. Must be called first.
pub fn prepare() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: mallopt takes two numbers, and there is no other thread yet. A refused setting stays unchanged. madvise
    // gets the range between an allocation and the heap's end. That range is the heap's own pages, and madvise changes
    // no byte of it.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, HEAPS);
        libc::mallopt(libc::M_MMAP_THRESHOLD, OWN_MAPPING_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, MAX_KEPT_BYTES);
        libc::mallopt(libc::M_TOP_PAD, RESERVED_BYTES);
        // More than a new heap has, so that it grows.
        let allocation = libc::malloc(2 * HUGE_PAGE_BYTES);
        let from = (allocation as usize).next_multiple_of(HUGE_PAGE_BYTES);
        let until = libc::sbrk(0) as usize;
        if !allocation.is_null() && from < until {
            libc::madvise(from as *mut libc::c_void, until - from, libc::MADV_HUGEPAGE);
        }
        libc::free(allocation);
        libc::mallopt(libc::M_TOP_PAD, STEP_BYTES);
    }
}
