//! Pages that the host can find: memory of this process, kept in place, and where it lies in physical memory.

use guest_init::round::{ANSWER_OFFSET, Answer, PAGE_BYTES};
use rustix::mm::{MapFlags, ProtFlags, mlock, mmap_anonymous};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// One page for the header, and pages for the rest. Lives as long as the program.
pub struct Area {
    /// First page: the header. The host writes into it, so no Rust reference ever covers it.
    base: NonNull<u8>,
    pages: usize,
}

impl Area {
    /// Takes a header page and `bytes` (rounded up to pages) of memory that is really there.
    pub fn new(bytes: usize) -> io::Result<Area> {
        let pages = 1 + bytes.div_ceil(PAGE_BYTES);
        let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping wherever the kernel likes; it covers nothing that exists.
        let base = unsafe { mmap_anonymous(std::ptr::null_mut(), pages * PAGE_BYTES, access, flags) }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Area { base, pages })
    }

    /// Keeps the pages from being taken away. They may still be moved: ask [`Area::frames`] each time.
    pub fn lock(&self) -> io::Result<()> {
        // SAFETY: exactly the mapping made in `new`, which is never unmapped; locking changes no contents.
        Ok(unsafe { mlock(self.base.as_ptr().cast(), self.pages * PAGE_BYTES) }?)
    }

    /// All pages but the header.
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: within the mapping made in `new`, initialised (zero) and never unmapped; `&mut self` makes it unique,
        // and the host only reads there.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().add(PAGE_BYTES), (self.pages - 1) * PAGE_BYTES) }
    }

    /// Writes the header, with no answer in it. Everything written before is there when the host sees it.
    pub fn put_header(&mut self, page: &[u8; PAGE_BYTES]) {
        // SAFETY: the header page is the first of the mapping; the host writes to it only after it was told of it.
        unsafe { self.base.as_ptr().copy_from_nonoverlapping(page.as_ptr(), PAGE_BYTES) };
        std::sync::atomic::fence(Ordering::SeqCst);
    }

    /// The host's answer, if it has written one.
    pub fn answer(&self) -> Option<Answer> {
        // SAFETY: four aligned bytes within the header page, to which no other reference exists; the host writes them
        // at once.
        let word = unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(ANSWER_OFFSET as usize).cast()) };
        Answer::from_word(word.load(Ordering::Acquire))
    }

    /// Physical addresses of the first `pages` pages, the header's first, as `pagemap` in the given procfs says.
    pub fn frames(&self, procfs: &Path, pages: usize) -> io::Result<Vec<u64>> {
        const PRESENT: u64 = 1 << 63;
        const FRAME: u64 = (1 << 55) - 1;
        let mut entries = vec![0; pages.min(self.pages) * 8];
        let from = self.base.as_ptr() as usize / PAGE_BYTES * 8;
        File::open(procfs.join("self/pagemap"))?.read_exact_at(&mut entries, from as u64)?;
        let frames = entries.chunks_exact(8).map(|entry| u64::from_le_bytes(entry.try_into().expect("eight bytes")));
        let address = |entry: u64| match (entry & PRESENT, entry & FRAME) {
            (0, _) => Err(io::Error::other("a page is not in memory")),
            // Without the right to see them the kernel shows zeros.
            (_, 0) => Err(io::Error::other("the kernel hides physical addresses")),
            (_, frame) => Ok(frame * PAGE_BYTES as u64),
        };
        frames.map(address).collect()
    }
}
