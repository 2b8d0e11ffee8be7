//! How the program's heap treats its pages.
//!
//! A third of a short run was page faults. Each stage frees its large arrays, glibc hands their pages back, and the next
//! stage asks for as many: so they are kept. And those that are asked for come 2 MiB at a time. 262 144 records become
//! a chart with 950 page faults in place of 11 200.

#![allow(unsafe_code, reason = "glibc's own settings of its heap")]

/// Larger arrays than this have mappings of their own, which grow without being copied. glibc takes no larger limit.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const OWN_MAPPING_BYTES: i32 = 32 << 20;
/// So much that is free at the heap's end is kept: all of it, and what is reserved and was never used.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const KEPT_BYTES: i32 = i32::MAX;
/// So much address space the heap takes at first: what nearly all runs need. Memory it takes only as it is used. Where that
/// much is not to be had, and later, it grows by [`STEP_BYTES`].
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const RESERVED_BYTES: i32 = 1 << 30;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const STEP_BYTES: i32 = 1 << 20;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// The program has one heap. glibc would give the thread that all of it runs in another one, of which none of this is true.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const HEAPS: i32 = 1;

/// Keeps freed memory for the next stage, in large pages where the host has them. To be called first.
pub fn prepare() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: mallopt takes two numbers, and there is no other thread yet. What it refuses stays as it was. madvise is
    // given what lies between an allocation and the heap's end, the heap's own pages, of which it changes no byte.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, HEAPS);
        libc::mallopt(libc::M_MMAP_THRESHOLD, OWN_MAPPING_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_BYTES);
        libc::mallopt(libc::M_TOP_PAD, RESERVED_BYTES);
        // More than a new heap has, so that it grows.
        let within = libc::malloc(2 * HUGE_PAGE_BYTES);
        let from = (within as usize).next_multiple_of(HUGE_PAGE_BYTES);
        let until = libc::sbrk(0) as usize;
        if !within.is_null() && from < until {
            libc::madvise(from as *mut libc::c_void, until - from, libc::MADV_HUGEPAGE);
        }
        libc::free(within);
        libc::mallopt(libc::M_TOP_PAD, STEP_BYTES);
    }
}
