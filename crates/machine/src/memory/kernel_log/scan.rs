//! Finds the log of a kernel that has no VMCOREINFO note, either yet or by configuration.
//!
//! The search is for the shape of `struct printk_ringbuffer` (see [`super::ring`]): two small numbers, three pointers into the kernel's
//! half, ids and positions whose distances fit the sizes. The pointers are virtual, and the page tables are unknown. But the image is
//! shifted by a multiple of 2 MB and the direct map by one of 1 GB. So a few tries per gigabyte find the place where the descriptor of the
//! newest id carries that id. The first copy of the image may be a stale one, left from unpacking: the ring with the most ids is used.
//!
//! For kernels before 5.10 the search is for the record of the banner, `Linux version …`, from which the others follow.
//!
//! The search costs one pass over touched memory, and a bounded number of tries for each of at most [`MAX_CANDIDATES`] shapes.

use memchr::memmem;

use super::log_buf;
use super::ring::{Header, Layout, Ring};
use crate::arch::paging::{Space, View, in_image, is_kernel};
use crate::memory::sweep::sweep;
use crate::memory::{PhysicalMemory, host_size};

/// Offsets of the text ring's fields, in 5.10 and in 6.1.
const DATA_RINGS: [usize; 2] = [40, 48];
const MAX_RING_BYTES: usize = 88;
/// Size of `printk_info` in every kernel so far; a later one may add to it.
const INFO_BYTES: usize = 88;
const MAX_INFO_BYTES: usize = 144;
/// Upper bound for candidates, because a guest can fill its memory with such shapes.
const MAX_CANDIDATES: usize = 64;
/// The banner is printed first, before the log has anything else.
const BANNER: &[u8] = b"Linux version ";
/// Upper bound for the part of a log buffer in an unknown place that is read; a stock kernel's is 128 KB to 1 MB.
const LOG_BUF_BYTES: u64 = 4 << 20;

/// A ring that was found, and the translation of its pointers.
pub struct FoundRing {
    pub phys: u64,
    pub layout: Layout,
    pub space: Space,
}

/// A log buffer of the older kind, from its first record to at most `bytes` bytes further.
#[derive(Clone, Debug)]
pub struct FoundBuffer {
    pub phys: u64,
    pub bytes: u64,
    pub layout: log_buf::Layout,
}

/// The ring with the most ids in use.
pub fn find_ring(memory: &dyn PhysicalMemory) -> Option<FoundRing> {
    let mut candidates = Vec::new();
    sweep(memory, MAX_RING_BYTES as u64, |phys, bytes| {
        candidates.extend(shapes(bytes).map(|(at, layout)| (phys + at as u64, layout)));
        candidates.len() < MAX_CANDIDATES
    });
    candidates.truncate(MAX_CANDIDATES);
    let found = candidates.into_iter().filter_map(|(phys, layout)| {
        let mut bytes = vec![0; layout.ring_bytes];
        memory.read_at(phys, &mut bytes).ok()?;
        let header = Header::parse(&bytes, &layout).ok()?;
        let (layout, space) = follow(memory, &header, layout)?;
        Some((header.ids(), FoundRing { phys, layout, space }))
    });
    found.max_by_key(|(ids, _)| *ids).map(|(_, ring)| ring)
}

/// Places in these bytes at which a structure of a ring's shape begins.
fn shapes(bytes: &[u8]) -> impl Iterator<Item = (usize, Layout)> {
    // This runs for every word of the guest's memory: few are as small as count_bits.
    let small = |word: &[u8]| u64::from_le_bytes(word.try_into().expect("eight bytes")).wrapping_sub(1) < 26;
    let places = bytes.chunks_exact(8).enumerate().filter(move |(_, word)| small(word)).map(|(n, _)| n * 8);
    places.filter_map(|at| ring_shaped(&bytes[at..]).map(|layout| (at, layout)))
}

/// The layout in which these bytes begin with a ring's structure.
fn ring_shaped(bytes: &[u8]) -> Option<Layout> {
    let word = |at: usize| bytes.get(at..at + 8).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
    if !is_kernel(word(8)?) || !is_kernel(word(16)?) {
        return None;
    }
    DATA_RINGS.into_iter().find_map(|data_ring| {
        let layout = Layout::usual(data_ring, INFO_BYTES);
        let header = Header::parse(bytes.get(..layout.ring_bytes)?, &layout).ok()?;
        let in_use = word(data_ring + 16)?.wrapping_sub(word(data_ring + 24)?);
        (in_use <= 1 << header.size_bits).then_some(layout)
    })
}

/// Finds the shifts and the size of `printk_info` with which descriptors and infos carry the right numbers.
fn follow(memory: &dyn PhysicalMemory, header: &Header, layout: Layout) -> Option<(Layout, Space)> {
    let space = shifts(memory, header.descs).map(|shift| space_with(shift, header.descs)).find(|space| {
        let (view, header) = (&View::new(memory, space), header.clone());
        Ring { view, layout: &layout, header }.newest_fit()
    })?;
    // All three lie in the image, or all three were allocated; no kernel mixes them.
    let view = View::new(memory, &space);
    let layouts = (INFO_BYTES..MAX_INFO_BYTES + 8).step_by(8).map(|info_bytes| {
        let dict = Layout::usual(layout.size_bits, info_bytes).dict;
        Layout { info_bytes, dict, ..layout.clone() }
    });
    let fitting = layouts.map(|layout| (infos_fitting(&view, header, &layout), layout));
    // The smallest of equal ones is used: max_by_key returns the last.
    let (_, best) = fitting.filter(|(fitting, _)| *fitting > 0).rev().max_by_key(|(fitting, _)| *fitting)?;
    Some((best, space.clone()))
}

/// Virtual minus physical address, for every place in RAM where `virt` may be mapped.
fn shifts(memory: &dyn PhysicalMemory, virt: u64) -> impl Iterator<Item = u64> {
    let step: u64 = if in_image(virt) { 2 << 20 } else { 1 << 30 };
    let extents = memory.extents().to_vec();
    extents.into_iter().flat_map(move |extent| {
        let first = extent.phys.saturating_add(virt.wrapping_sub(extent.phys) & (step - 1));
        (first..extent.range().end).step_by(host_size(step)).map(move |phys| virt.wrapping_sub(phys))
    })
}

fn space_with(shift: u64, virt: u64) -> Space {
    if in_image(virt) {
        Space::Shifted { image: Some(shift), other: None }
    } else {
        Space::Shifted { image: None, other: Some(shift) }
    }
}

/// The number of the newest infos with consecutive sequence numbers.
fn infos_fitting(view: &View, header: &Header, layout: &Layout) -> usize {
    let ring = Ring { view, layout, header: header.clone() };
    let seq = |back: u64| ring.seq_at(header.head_id.wrapping_sub(back)).ok().flatten();
    // The newest may be incomplete, so the one before it is more reliable.
    let Some(newest) = seq(1).map(|seq| seq + 1).or_else(|| seq(0)) else { return 0 };
    (0..header.ids().min(8)).filter(|&back| seq(back).is_some_and(|seq| seq + back == newest)).count()
}

/// The log buffer that begins with the banner and has the most records.
pub fn find_buffer(memory: &dyn PhysicalMemory) -> Option<FoundBuffer> {
    let finder = memmem::Finder::new(BANNER);
    let mut banners = Vec::new();
    sweep(memory, BANNER.len() as u64, |phys, bytes| {
        banners.extend(finder.find_iter(bytes).map(|at| phys + at as u64));
        banners.dedup();
        banners.len() < MAX_CANDIDATES
    });
    banners.truncate(MAX_CANDIDATES);
    let layouts = [log_buf::Layout::usual(false), log_buf::Layout::usual(true)];
    let found = banners.into_iter().flat_map(|banner| layouts.iter().map(move |layout| (banner, layout)));
    let found = found.filter_map(|(banner, layout)| {
        let phys = banner.checked_sub(layout.header_bytes as u64)?;
        let extent = memory.extents().iter().find(|extent| extent.range().contains(&phys))?;
        let bytes = LOG_BUF_BYTES.min(extent.range().end - phys);
        let buffer = FoundBuffer { phys, bytes, layout: layout.clone() };
        let records = buffer.records(memory)?.0.len();
        // A single record may be any text that begins like Linux's banner.
        (records > 1).then_some((records, buffer))
    });
    found.max_by_key(|(records, _)| *records).map(|(_, buffer)| buffer)
}

impl FoundBuffer {
    /// The records up to the first invalid place.
    pub fn records(&self, memory: &dyn PhysicalMemory) -> Option<(Vec<super::Record>, super::LeftOut)> {
        let mut header = vec![0; self.layout.header_bytes];
        memory.read_at(self.phys, &mut header).ok()?;
        // Checked before the buffer is read: the banner has no stamp and no dictionary, and fits its record.
        let [len, text_len, dict_len] = [self.layout.len, self.layout.text_len, self.layout.dict_len]
            .map(|at| usize::from(u16::from_le_bytes([header[at], header[at + 1]])));
        let unstamped = header[self.layout.ts_nsec..self.layout.ts_nsec + 8] == [0; 8];
        let padding = len.checked_sub(self.layout.header_bytes + text_len);
        if !unstamped || dict_len != 0 || padding.is_none_or(|padding| padding >= 8) {
            return None;
        }
        let mut buffer = vec![0; host_size(self.bytes)];
        memory.read_at(self.phys, &mut buffer).ok()?;
        Some(log_buf::walk(&buffer, 0, None, &self.layout))
    }
}
