//! Memory that the host can find: locked pages of this process, and their physical addresses.

use guest_init::round::{ANSWER_OFFSET, Answer, PAGE_BYTES};
use rustix::mm::{MapFlags, ProtFlags, mlock, mmap_anonymous};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// One page for the header, and pages for the rest. It lives as long as the program.
pub struct Area {
    /// The first page is the header. The host writes to it, so no Rust reference ever covers it.
    base: NonNull<u8>,
    pages: usize,
}

impl Area {
    /// Allocates a header page and `bytes` (rounded up to pages) of populated memory.
    pub fn new(bytes: usize) -> io::Result<Area> {
        let pages = 1 + bytes.div_ceil(PAGE_BYTES);
        let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses; it covers no existing mapping.
        let base = unsafe { mmap_anonymous(std::ptr::null_mut(), pages * PAGE_BYTES, access, flags) }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Area { base, pages })
    }

    /// Keeps the kernel from reclaiming the pages. It may still move them: call [`Area::frames`] each time.
    pub fn lock(&self) -> io::Result<()> {
        // SAFETY: exactly the mapping made in `new`, which is never unmapped; locking changes no contents.
        Ok(unsafe { mlock(self.base.as_ptr().cast(), self.pages * PAGE_BYTES) }?)
    }

    /// All pages except the header.
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: within the mapping made in `new`, which is initialised (zero) and never unmapped. `&mut self` makes
        // the slice unique, and the host only reads there.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().add(PAGE_BYTES), (self.pages - 1) * PAGE_BYTES) }
    }

    /// Writes the header, without an answer. Everything written before it is visible when the host sees it.
    pub fn put_header(&mut self, page: &[u8; PAGE_BYTES]) {
        // SAFETY: the header page is the first of the mapping; the host writes to it only after it has received its
        // address.
        unsafe { self.base.as_ptr().copy_from_nonoverlapping(page.as_ptr(), PAGE_BYTES) };
        std::sync::atomic::fence(Ordering::SeqCst);
    }

    /// The host's answer, if it has written one.
    pub fn answer(&self) -> Option<Answer> {
        // SAFETY: four aligned bytes within the header page, to which there is no other reference; the host writes them
        // in one store.
        let word = unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(ANSWER_OFFSET as usize).cast()) };
        Answer::from_word(word.load(Ordering::Acquire))
    }

    /// Physical addresses of the first `pages` pages, the header's first, from `pagemap` in this procfs.
    pub fn frames(&self, procfs: &Path, pages: usize) -> io::Result<Vec<u64>> {
        const PRESENT: u64 = 1 << 63;
        const FRAME: u64 = (1 << 55) - 1;
        let mut entries = vec![0; pages.min(self.pages) * 8];
        let from = self.base.as_ptr() as usize / PAGE_BYTES * 8;
        File::open(procfs.join("self/pagemap"))?.read_exact_at(&mut entries, from as u64)?;
        let frames = entries.chunks_exact(8).map(|entry| u64::from_le_bytes(entry.try_into().expect("eight bytes")));
        let address = |entry: u64| match (entry & PRESENT, entry & FRAME) {
            (0, _) => Err(io::Error::other("a page is not in memory")),
            // Without the privilege to see addresses, the kernel shows zeros.
            (_, 0) => Err(io::Error::other("the kernel hides physical addresses")),
            (_, frame) => Ok(frame * PAGE_BYTES as u64),
        };
        frames.map(address).collect()
    }
}
