//! The records in ftrace's ring buffers: one buffer for each CPU, a circle of pages in which the oldest are overwritten.
//!
//! Follows Linux, kernel/trace/ring_buffer.c (5.6 to 6.12). A CPU's pages form a list; the lowest bits of a link mark the page behind it as
//! the oldest (1 or 2). One more page, the reader's, is outside of the circle and older than all others. [`page`] reads the records in a
//! page.

use std::collections::HashSet;
use std::io;

use super::Layout;
use crate::arch::paging::View;
use trace_records::page;

/// Upper bound for the bytes read of all CPUs together.
const MAX_BYTES: usize = 64 << 20;
/// Upper bound for the pages read, even if they are empty.
const MAX_PAGES: usize = MAX_BYTES / PAGE_BYTES;
/// Upper bound for the records: each is kept, and becomes a line of a hundred bytes. Those that kernels write have at least 16 bytes.
const MAX_RECORDS: usize = MAX_BYTES / 16;
/// Upper bound for the number of CPUs.
const MAX_CPUS: u32 = 8192;
/// Size of a page of records, unless the kernel gives another one (since 6.8).
const PAGE_BYTES: usize = 4096;
const MAX_PAGE_ORDER: u32 = 8;
/// The lowest bits of a link, which are no part of an address.
const FLAGS: u64 = 3;
/// Mask of the number of used bytes in a page; the bits above are flags.
const USED: u64 = 0x000f_ffff;

/// Reads eight bytes of a structure, at any address that a guest gives.
fn word(view: &View, structure: u64, field: u64) -> io::Result<u64> {
    view.read_u64(structure.wrapping_add(field))
}

/// Reads four bytes of a structure.
fn half(view: &View, structure: u64, field: u64) -> io::Result<u32> {
    view.read_u32(structure.wrapping_add(field))
}

/// A record of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Raw {
    pub(super) stamp: u64,
    pub(super) cpu: u32,
    /// Range in [`Records::bytes`].
    pub(super) from: usize,
    pub(super) to: usize,
}

/// All records of all CPUs.
#[derive(Default)]
pub(super) struct Records {
    pub(super) bytes: Vec<u8>,
    /// Ordered by time; the records of a CPU keep their order.
    pub(super) raw: Vec<Raw>,
    /// The number of records that were overwritten before the read, by CPU.
    pub(super) overwritten: Vec<u64>,
    pub(super) damaged_pages: u64,
    /// The number of pages that were read.
    pages: usize,
}

/// Reads the buffers of a `struct trace_buffer` with this number of CPUs.
///
/// # Errors
/// If there is no memory at its address, or no valid buffer.
pub(super) fn records(view: &View, layout: &Layout, buffer: u64, cpus: u32) -> io::Result<Records> {
    let buffers = word(view, buffer, layout.buffer_buffers)?;
    if cpus == 0 || cpus > MAX_CPUS {
        return Err(invalid(format!("a trace of {cpus} CPUs")));
    }
    let order = layout.buffer_page_order.map_or(Ok(0), |at| half(view, buffer, at))?;
    if order > MAX_PAGE_ORDER {
        return Err(invalid(format!("pages of records of order {order}")));
    }
    let page_bytes = PAGE_BYTES << order;
    let mut records = Records::default();
    for cpu in 0..cpus {
        // A CPU that was never present has no buffer.
        let cpu_buffer = word(view, buffers, 8 * u64::from(cpu))?;
        records.overwritten.push(if cpu_buffer == 0 { 0 } else { word(view, cpu_buffer, layout.cpu_overrun)? });
        if cpu_buffer != 0 {
            records.add_cpu(view, layout, (cpu_buffer, cpu), page_bytes)?;
        }
    }
    records.raw.sort_by_key(|raw| raw.stamp);
    Ok(records)
}

impl Records {
    fn add_cpu(
        &mut self,
        view: &View,
        layout: &Layout,
        (cpu_buffer, cpu): (u64, u32),
        page_bytes: usize,
    ) -> io::Result<()> {
        let reader = word(view, cpu_buffer, layout.cpu_reader_page)?;
        let commit = word(view, cpu_buffer, layout.cpu_commit_page)?;
        if reader != 0 {
            let read = u64::from(half(view, reader, layout.page_read)?);
            self.add_page(view, layout, (reader, cpu), page_bytes, read)?;
        }
        if reader == commit {
            return Ok(());
        }
        for page in circle(view, layout, cpu_buffer)? {
            self.add_page(view, layout, (page, cpu), page_bytes, 0)?;
            if page == commit {
                break;
            }
        }
        Ok(())
    }

    /// Adds a page whose first `read` bytes are no longer part of the trace. A page that cannot be read is counted, and the others are
    /// still read.
    fn add_page(
        &mut self,
        view: &View,
        layout: &Layout,
        (page, cpu): (u64, u32),
        page_bytes: usize,
        read: u64,
    ) -> io::Result<()> {
        self.pages += 1;
        if self.pages > MAX_PAGES || self.bytes.len() + page_bytes > MAX_BYTES {
            return Err(invalid(format!("more than {} MB of trace: make trace_buf_size= smaller", MAX_BYTES >> 20)));
        }
        let from = self.bytes.len();
        let Some(stamp) = self.take(view, layout, page, page_bytes) else {
            self.bytes.truncate(from);
            self.damaged_pages += 1;
            return Ok(());
        };
        let (raw, whole) = page::records(&self.bytes[from..], stamp);
        if self.raw.len() + raw.len() > MAX_RECORDS {
            return Err(invalid(format!("more than {MAX_RECORDS} records of trace: make trace_buf_size= smaller")));
        }
        self.damaged_pages += u64::from(!whole);
        let unread = raw.into_iter().filter(|record| record.from as u64 >= read);
        self.raw.extend(unread.map(|r| Raw { stamp: r.stamp, cpu, from: from + r.from, to: from + r.to }));
        Ok(())
    }

    /// Appends the used part of a page to the bytes. Returns the stamp from which the page's first record counts.
    fn take(&mut self, view: &View, layout: &Layout, page: u64, page_bytes: usize) -> Option<u64> {
        let data = word(view, page, layout.page_data).ok()?;
        let used = usize::try_from(word(view, data, layout.data_used).ok()? & USED).ok()?;
        let head = usize::try_from(layout.data_records).ok()?;
        if used > page_bytes.saturating_sub(head) {
            return None;
        }
        let from = self.bytes.len();
        self.bytes.resize(from + used, 0);
        view.read(data.wrapping_add(layout.data_records), &mut self.bytes[from..]).ok()?;
        word(view, data, layout.data_stamp).ok()
    }
}

/// A CPU's pages, from the oldest to the newest.
fn circle(view: &View, layout: &Layout, cpu_buffer: u64) -> io::Result<Vec<u64>> {
    let first = word(view, cpu_buffer, layout.cpu_pages)? & !FLAGS;
    let mut pages = Vec::new();
    let mut seen = HashSet::new();
    let (mut link, mut oldest) = (first, None);
    // The reader's page is never in the circle, so this returns to its start.
    while seen.insert(link) {
        pages.push(link.wrapping_sub(layout.page_list));
        if pages.len() > MAX_PAGES {
            return Err(invalid("a circle of pages without an end".to_owned()));
        }
        let next = view.read_u64(link)?;
        if next & FLAGS != 0 {
            oldest = Some(next & !FLAGS);
        }
        link = next & !FLAGS;
    }
    let oldest = oldest.map(|link| link.wrapping_sub(layout.page_list));
    let at = pages.iter().position(|&page| Some(page) == oldest).unwrap_or(0);
    pages.rotate_left(at);
    Ok(pages)
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::super::MADE as LAYOUT;
    use super::*;
    use crate::arch::paging::Space;
    use crate::memory::image::Image;

    const SPACE: Space = Space::Shifted { image: None, other: Some(0) };

    /// Two CPUs. The first has three pages, the second of which is the oldest, and a reader's page, one record of which was read already.
    /// The other CPU was never present.
    fn memory() -> Image {
        let mut image = Image::new(0, 0x10000);
        let (buffer, buffers, cpu) = (0x100, 0x200, 0x300);
        image.put_u64(buffer + 8, buffers);
        image.put_u64(buffers, cpu);
        let pages: [u64; 4] = [0x400, 0x500, 0x600, 0x700];
        let [first, second, third, reader] = pages;
        for (field, value) in [(0, first), (8, reader), (16, third), (24, 42)] {
            image.put_u64(cpu + field, value);
        }
        for (page, next) in [(first, second | 1), (second, third), (third, first)] {
            image.put_u64(page, next);
        }
        for (i, (page, texts)) in pages.into_iter().zip(["cccc", "aaaabbbb", "dddd", "0000____"]).enumerate() {
            let data = 0x1000 * (i as u64 + 1);
            image.put_u64(page + 24, data);
            let records: Vec<u8> =
                texts.as_bytes().chunks(4).flat_map(|text| [&head(1, 1)[..], text].concat()).collect();
            let order = [30, 20, 40, 10][i];
            image.put_u64(data, order);
            image.put_u64(data + 8, records.len() as u64);
            image.put(data + 16, &records);
        }
        // The reader took the first of its records.
        image.put(reader + 16, &8u32.to_le_bytes());
        image
    }

    fn read(image: &Image) -> io::Result<Records> {
        records(&View::new(image, &SPACE), &LAYOUT, 0x100, 2)
    }

    #[test]
    fn pages_are_read_from_the_oldest_to_the_one_in_use() {
        let found = read(&memory()).unwrap();
        let texts: Vec<&[u8]> = found.raw.iter().map(|raw| &found.bytes[raw.from..raw.to]).collect();
        let expected: [&[u8]; 4] = [b"____", b"aaaa", b"bbbb", b"dddd"];
        assert_eq!(texts, expected, "the page behind the one in use has nothing yet");
        assert_eq!((found.overwritten, found.damaged_pages), (vec![42, 0], 0));
    }

    proptest::proptest! {
        /// Damaged memory is either read or refused, without a panic.
        #[test]
        fn damaged_memory_is_read_or_refused(changes in proptest::collection::vec((0u64..0x6000, proptest::prelude::any::<u64>()), 1..12)) {
            let mut image = memory();
            changes.into_iter().for_each(|(at, value)| image.put_u64(at, value));
            if let Ok(found) = read(&image) {
                proptest::prop_assert!(found.raw.iter().all(|raw| raw.from <= raw.to && raw.to <= found.bytes.len()));
            }
        }
    }

    fn head(kind: u32, delta: u32) -> [u8; 4] {
        (delta << 5 | kind).to_le_bytes()
    }
}
