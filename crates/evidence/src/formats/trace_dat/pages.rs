//! Reads all records of all CPUs, in order of time.

use super::parts::{PageHead, Parts};
use crate::input::records_max;
use trace_records::page;

/// The bits for the number of used bytes in a page; the bits above are flags.
const USED: u64 = 0x000f_ffff;
/// Records were lost before this page.
const LOST: u64 = 1 << 31;
/// The number of lost records stands behind the page's last record.
const LOST_COUNTED: u64 = 1 << 30;

/// The bytes of memory for a record, and for its line beyond the bound of all text.
const ITEM_COST: usize = 80;

/// A record of a page.
#[derive(Clone, Copy)]
pub(super) struct Item {
    pub stamp: u64,
    pub cpu: u32,
    /// The number of records lost before it; `u64::MAX` if that is unknown.
    pub lost: u64,
    /// The index of its CPU in the file, and its start and end in that CPU's pages.
    of: usize,
    from: usize,
    to: usize,
}

/// All records of a file.
pub(super) struct Items<'a> {
    pub all: Vec<Item>,
    /// Pages that contradict themselves.
    pub damaged: u64,
    /// Records that are not kept.
    pub beyond: u64,
    most: usize,
    parts: &'a Parts<'a>,
}

impl<'a> Items<'a> {
    /// Reads the records of a file.
    pub(super) fn of(parts: &'a Parts<'a>) -> Items<'a> {
        let bytes = parts.cpus.iter().map(|cpu| cpu.pages.len()).sum();
        let mut items = Items { all: Vec::new(), damaged: 0, beyond: 0, most: records_max(bytes, ITEM_COST), parts };
        for (of, cpu) in parts.cpus.iter().enumerate() {
            for (place, page) in cpu.pages.chunks(parts.page_bytes).enumerate() {
                items.add(of, place * parts.page_bytes, page);
            }
        }
        items.all.sort_by_key(|item| item.stamp);
        items
    }

    /// A record's bytes.
    pub(super) fn record(&self, item: &Item) -> &'a [u8] {
        &self.parts.cpus[item.of].pages[item.from..item.to]
    }

    fn add(&mut self, of: usize, at: usize, page: &[u8]) {
        let PageHead { used_at, used_bytes, data_at } = self.parts.head;
        let (Some(stamp), Some(used)) = (number(page, 0, 8), number(page, used_at, used_bytes)) else {
            self.damaged += 1;
            return;
        };
        let length = usize::try_from(used & USED).unwrap_or(usize::MAX);
        let Some(data) = data_at.checked_add(length).and_then(|end| page.get(data_at..end)) else {
            self.damaged += 1;
            return;
        };
        let (records, whole) = page::records(data, stamp);
        self.damaged += u64::from(!whole);
        let mut lost = match used {
            used if used & LOST == 0 => 0,
            used if used & LOST_COUNTED == 0 => u64::MAX,
            _ => number(page, data_at + length, used_bytes).filter(|lost| *lost > 0).unwrap_or(u64::MAX),
        };
        let (cpu, from) = (self.parts.cpus[of].number, at + data_at);
        let room = records.len().min(self.most - self.all.len());
        self.beyond += (records.len() - room) as u64;
        self.all.extend(records.into_iter().take(room).map(|record| Item {
            stamp: record.stamp,
            cpu,
            lost: std::mem::take(&mut lost),
            of,
            from: from + record.from,
            to: from + record.to,
        }));
    }
}

/// A little-endian number.
fn number(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(length)?)?;
    Some(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}
