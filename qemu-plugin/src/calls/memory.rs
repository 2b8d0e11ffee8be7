//! Memory that is reserved at once, but used only where it is touched.

#![allow(unsafe_code, reason = "memory of its own")]

use std::ops::Deref;

use zerocopy::FromZeros;

/// A fixed number of `T`, all bytes zero. Untouched pages of it use no memory yet.
pub struct Zeroed<T: 'static>(&'static [T]);

impl<T: FromZeros> Zeroed<T> {
    /// Reserves `len` of them until the program ends.
    pub fn new(len: usize) -> Zeroed<T> {
        assert!(len > 0 && size_of::<T>() > 0);
        let bytes = len.checked_mul(size_of::<T>()).expect("fewer bytes than there are addresses");
        // Not the allocator: for an alignment beyond its own it writes the zeros itself, which touches the pages.
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: new anonymous memory; no existing mapping is affected.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind | libc::MAP_NORESERVE, -1, 0) };
        assert!(at != libc::MAP_FAILED, "no room for {bytes} bytes: {}", std::io::Error::last_os_error());
        assert!(align_of::<T>() <= 4096, "pages are aligned enough");
        // SAFETY: there is room for `len` of T, zeros are a valid T by `FromZeros`' contract, and the memory is never
        // unmapped.
        Zeroed(unsafe { std::slice::from_raw_parts(at.cast::<T>(), len) })
    }
}

impl<T> Deref for Zeroed<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        self.0
    }
}
