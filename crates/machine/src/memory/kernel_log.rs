//! A Linux kernel's log, read out of the guest's memory from outside.
//!
//! The guest needs no console and no module, and need not run any more. [`LogProbe::find`] searches for the log once, by the kernel's
//! VMCOREINFO note ([`vmcoreinfo`]). Before that note is written (in a subsys initcall), or if it is not configured, it searches by the
//! shape of the log's structures ([`scan`]). The log that was found can be read any number of times, either all of it or only its newest
//! number. That number tells a quiet boot from a hang.
//!
//! There are two generations: the ring buffer of kernels from 5.10 on ([`ring`]) and the log buffer before it ([`log_buf`]). Only addresses
//! of x86-64 are read.
//!
//! A probe becomes invalid when the guest is reset. A probe by shape also becomes invalid when the kernel moves its log to a larger buffer
//! (`log_buf_len=`, early in the boot). Call `find` again if a hang is suspected.

mod log_buf;
mod record;
mod ring;
mod scan;
#[cfg(test)]
mod tests;
mod vmcoreinfo;

use std::io;

use super::PhysicalMemory;
use crate::arch::paging::{Space, View};
pub use record::{Caller, Record};
use ring::{Header, Ring};
use vmcoreinfo::Note;

/// A ring that is written during a copy may be caught between two states, but not many times in a row.
const MAX_TRIES: usize = 4;

/// The reason why no kernel log could be read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// Nothing in memory looks like a kernel log.
    #[error(
        "no kernel log in {searched_mb} MB of guest memory: the kernel may not be unpacked yet, may not be a \
         Linux of 3.5 or later, or its memory may be encrypted{}", reasons(.unusable)
    )]
    NotFound {
        /// Touched guest memory that was searched, in MB.
        searched_mb: u64,
        /// Notes that were found, each with the reason why it cannot be used.
        unusable: Vec<String>,
    },
    /// The log is no longer where it was found.
    #[error("the kernel log is no longer where it was found ({0}): was the guest reset? Look for it again")]
    Gone(String),
}

fn reasons(unusable: &[String]) -> String {
    unusable.iter().map(|reason| format!("; {reason}")).collect()
}

/// The method by which the log was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// By the kernel's VMCOREINFO note, which gives offsets and addresses.
    Vmcoreinfo,
    /// By shape, with the usual offsets of such kernels.
    Scan,
}

/// Counts of records that are missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Older than the oldest record, and overwritten by the guest before this was read.
    pub before: u64,
    /// Begun, but not finished when the guest stopped or was read.
    pub unfinished: u64,
    /// Overwritten during the read.
    pub overwritten: u64,
    /// Logged without text, because that did not fit.
    pub without_text: u64,
    /// Descriptors that contradict their data.
    pub damaged: u64,
    /// Above bootscope's limit. For kernels before 5.10 only the first such record is counted.
    pub over_limit: u64,
}

/// A kernel log that was read from memory.
#[derive(Clone, Debug)]
pub struct KernelLog {
    pub method: Method,
    /// Place and method, as text for the user.
    pub detail: String,
    /// Ordered from the oldest to the newest.
    pub records: Vec<Record>,
    /// Counts of missing records.
    pub left_out: LeftOut,
}

/// The last messages of a kernel.
#[derive(Clone, Copy, Debug)]
pub struct LastWords<'a> {
    /// The panic's first line, if the kernel panicked.
    pub panic: Option<&'a Record>,
    pub newest: Option<&'a Record>,
}

impl KernelLog {
    /// Finds the panic, and the newest record.
    pub fn last_words(&self) -> LastWords<'_> {
        let panic = self.records.iter().find(|record| record.text.starts_with(b"Kernel panic - not syncing"));
        LastWords { panic, newest: self.records.last() }
    }

    /// The log in `/dev/kmsg`'s form with nanoseconds ([`Record::write_kmsg`]), after lines that begin with `# how:`.
    pub fn to_kmsg(&self) -> Vec<u8> {
        let method = if self.method == Method::Vmcoreinfo { "vmcoreinfo" } else { "scan" };
        let mut out = format!("# how: {method}: {}; {} records\n", self.detail, self.records.len()).into_bytes();
        let left_out = [
            (self.left_out.before, "overwritten before this was read"),
            (self.left_out.unfinished, "being written, left out"),
            (self.left_out.overwritten, "overwritten while this was read"),
            (self.left_out.without_text, "without their text, which did not fit"),
            (self.left_out.damaged, "damaged, left out"),
            (self.left_out.over_limit, "over bootscope's limit, left out"),
        ];
        for (count, what) in left_out.into_iter().filter(|(count, _)| *count > 0) {
            out.extend_from_slice(format!("# how: {count} more {what}\n").as_bytes());
        }
        for record in &self.records {
            record.write_kmsg(&mut out);
        }
        out
    }
}

/// Place of a kernel's log.
#[derive(Clone, Debug)]
pub struct LogProbe {
    method: Method,
    detail: String,
    place: Place,
}

#[derive(Clone, Debug)]
enum Place {
    Ring { at: RingAt, layout: ring::Layout, space: Space },
    LogBuf { symbols: log_buf::Symbols, layout: log_buf::Layout, space: Space },
    BufferAt(scan::FoundBuffer),
}

#[derive(Clone, Copy, Debug)]
enum RingAt {
    /// The kernel's variable `prb`, at this kernel address, points to the ring. It changes once.
    Pointer(u64),
    Phys(u64),
}

/// Finds and reads the log.
///
/// # Errors
/// [`LogError::NotFound`].
pub fn kernel_log(memory: &dyn PhysicalMemory) -> Result<KernelLog, LogError> {
    LogProbe::find(memory)?.read(memory)
}

/// A kernel in memory, found by its note.
#[derive(Debug)]
pub(super) struct Located {
    /// Translation of its addresses.
    pub(super) space: Space,
    /// Distance from its linked address.
    pub(super) moved_by: u64,
}

/// The running kernel; `None` before it has written its note, or if it writes no note.
pub(super) fn located(memory: &dyn PhysicalMemory) -> Option<Located> {
    let (notes, _) = vmcoreinfo::find_notes(memory);
    let record_count = |note: &Note| LogProbe::of_note(memory, note).and_then(|probe| probe.record_count(memory));
    let best = notes
        .iter()
        .filter_map(|note| Some((record_count(note).ok()?, note)))
        .max_by_key(|&(record_count, _)| record_count)?
        .1;
    Some(Located { space: best.space(memory).ok()?, moved_by: best.kernel_offset().unwrap_or(0) })
}

impl LogProbe {
    /// Searches for the log in all touched memory of the guest.
    ///
    /// RAM outlives a reset, so there may be several notes. The one whose log has the most records is used.
    ///
    /// # Errors
    /// [`LogError::NotFound`].
    pub fn find(memory: &dyn PhysicalMemory) -> Result<LogProbe, LogError> {
        let (notes, searched) = vmcoreinfo::find_notes(memory);
        let mut unusable = Vec::new();
        let mut best: Option<(u64, LogProbe)> = None;
        for note in &notes {
            match LogProbe::of_note(memory, note).and_then(|probe| Ok((probe.record_count(memory)?, probe))) {
                Ok((count, probe)) if best.as_ref().is_none_or(|(most, _)| count > *most) => {
                    best = Some((count, probe));
                }
                Ok(_) => {}
                Err(why) => unusable.push(format!("the VMCOREINFO note at {:#x} is of no use: {why}", note.phys)),
            }
        }
        if let Some((_, probe)) = best {
            return Ok(probe);
        }
        let found = scan::find_ring(memory).map(LogProbe::of_ring);
        let found = found.or_else(|| scan::find_buffer(memory).map(LogProbe::of_buffer));
        let Some(mut probe) = found else {
            return Err(LogError::NotFound { searched_mb: searched.div_ceil(1 << 20), unusable });
        };
        probe.detail += &reasons(&unusable);
        Ok(probe)
    }

    /// Reads the whole log.
    ///
    /// # Errors
    /// [`LogError::Gone`] if it is not where it was found.
    pub fn read(&self, memory: &dyn PhysicalMemory) -> Result<KernelLog, LogError> {
        let (records, left_out) = self.records(memory).map_err(LogError::Gone)?;
        Ok(KernelLog { method: self.method, detail: self.detail.clone(), records, left_out })
    }

    /// A number that changes with every record, in a few reads: the sequence number of the newest one (begun, not necessarily finished);
    /// `None` before there is one. Kernels before 5.10 do not publish it. For them it is the place of the next record; if the log was found
    /// by scan, it is the number of records, which takes a complete read.
    ///
    /// # Errors
    /// [`LogError::Gone`] if it is not where it was found.
    pub fn newest_seq(&self, memory: &dyn PhysicalMemory) -> Result<Option<u64>, LogError> {
        let gone = |error: io::Error| LogError::Gone(error.to_string());
        match &self.place {
            Place::LogBuf { symbols, space, .. } => View::new(memory, space)
                .read_u32(symbols.log_next_idx)
                .map(|index| Some(u64::from(index)))
                .map_err(gone),
            Place::BufferAt(_) => Ok((self.records(memory).map_err(LogError::Gone)?.0.len() as u64).checked_sub(1)),
            Place::Ring { at, layout, space } => {
                let view = View::new(memory, space);
                let header = header(memory, &view, *at, layout).map_err(LogError::Gone)?;
                Ring { view: &view, layout, header }.newest_seq().map_err(gone)
            }
        }
    }

    fn of_note(memory: &dyn PhysicalMemory, note: &Note) -> Result<LogProbe, String> {
        let space = note.space(memory)?;
        let place = if note.has("SYMBOL(prb)") {
            Place::Ring { at: RingAt::Pointer(note.symbol("prb")?), layout: ring::Layout::of_note(note)?, space }
        } else {
            Place::LogBuf { symbols: log_buf::Symbols::of_note(note)?, layout: log_buf::Layout::of_note(note)?, space }
        };
        let moved = note.kernel_offset().map_or(String::new(), |offset| format!(", moved by {offset:#x}"));
        let detail = format!("note at {:#x} of Linux {}{moved}", note.phys, note.release());
        Ok(LogProbe { method: Method::Vmcoreinfo, detail, place })
    }

    fn of_ring(found: scan::FoundRing) -> LogProbe {
        let detail = format!("what looks like printk's ring buffer, at {:#x}", found.phys);
        let place = Place::Ring { at: RingAt::Phys(found.phys), layout: found.layout, space: found.space };
        LogProbe { method: Method::Scan, detail, place }
    }

    fn of_buffer(found: scan::FoundBuffer) -> LogProbe {
        let detail = format!("what looks like printk's log buffer, at {:#x}, up to where it first wraps", found.phys);
        LogProbe { method: Method::Scan, detail, place: Place::BufferAt(found) }
    }

    /// The approximate number of records; an error if the place cannot be a log.
    fn record_count(&self, memory: &dyn PhysicalMemory) -> Result<u64, String> {
        let Place::Ring { at, layout, space } = &self.place else {
            return Ok(self.records(memory)?.0.len() as u64);
        };
        let view = View::new(memory, space);
        let ring = Ring { view: &view, layout, header: header(memory, &view, *at, layout)? };
        if ring.newest_fit() {
            Ok(ring.header.ids())
        } else {
            Err("its ring buffer's descriptors do not fit".to_owned())
        }
    }

    fn records(&self, memory: &dyn PhysicalMemory) -> Result<(Vec<Record>, LeftOut), String> {
        match &self.place {
            Place::LogBuf { symbols, layout, space } => symbols.records(&View::new(memory, space), layout),
            Place::BufferAt(found) => found.records(memory).ok_or_else(|| "no banner there".to_owned()),
            Place::Ring { at, layout, space } => {
                let view = View::new(memory, space);
                let header = header(memory, &view, *at, layout)?;
                Ok(Ring { view: &view, layout, header }.records())
            }
        }
    }
}

/// Reads the ring's structure from its current place.
fn header(memory: &dyn PhysicalMemory, view: &View, at: RingAt, layout: &ring::Layout) -> Result<Header, String> {
    let mut bytes = vec![0; layout.ring_bytes];
    let mut outcome = Err(String::new());
    for _ in 0..MAX_TRIES {
        let read = match at {
            RingAt::Pointer(variable) => view.read_u64(variable).and_then(|virt| view.read(virt, &mut bytes)),
            RingAt::Phys(phys) => memory.read_at(phys, &mut bytes),
        };
        read.map_err(|error| error.to_string())?;
        outcome = Header::parse(&bytes, layout);
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}
