//! A Linux kernel's log, read out of the guest's memory from outside.
//!
//! It needs nothing of the guest: not a console, not a module, not that it still runs. [`LogProbe::find`] looks for
//! the log once: by the kernel's VMCOREINFO note ([`vmcoreinfo`]), or, before that is written (in a subsys initcall)
//! and where it is not configured, by the shape of the log's own structures ([`scan`]). What was found is read as
//! often as one likes, whole or only its newest number, which distinguishes a quiet boot from a hang.
//!
//! Two generations: the ring buffer of kernels from 5.10 on ([`ring`]) and the log buffer before it ([`log_buf`]).
//! Addresses are those of x86-64 only.
//!
//! A probe goes stale when the guest is reset, and a scanned one when the kernel moves its log to a larger buffer
//! (`log_buf_len=`, early in the boot): find again when a hang is suspected.

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

/// A ring that is written to while it is copied may be caught between two states; not many times in a row.
const TRIES: usize = 4;

/// Why no kernel log could be read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// Nothing in memory looks like one.
    #[error(
        "no kernel log in {searched_mb} MB of guest memory: the kernel may not be unpacked yet, may not be a \
         Linux of 3.5 or later, or its memory may be encrypted{}", reasons(.unusable)
    )]
    NotFound {
        /// How much of the guest's memory had been touched, and was searched.
        searched_mb: u64,
        /// Notes that were found and what was wrong with each.
        unusable: Vec<String>,
    },
    /// What was found is no longer there.
    #[error("the kernel log is no longer where it was found ({0}): was the guest reset? Look for it again")]
    Gone(String),
}

fn reasons(unusable: &[String]) -> String {
    unusable.iter().map(|reason| format!("; {reason}")).collect()
}

/// How the log was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// By the kernel's own VMCOREINFO note: offsets and addresses are what it says.
    Vmcoreinfo,
    /// By shape, with the offsets that such kernels usually have.
    Scan,
}

/// What is not among the records, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Older than the oldest, overwritten by the guest before this was read.
    pub before: u64,
    /// Begun and not finished when the guest stopped or was looked at.
    pub unfinished: u64,
    /// Overwritten while this was being read.
    pub overwritten: u64,
    /// Logged without its text, because that did not fit.
    pub without_text: u64,
    /// Descriptors that contradict their data.
    pub damaged: u64,
    /// More than bootscope reads; of a log of kernels before 5.10 only the first of them is counted.
    pub over_limit: u64,
}

/// A kernel log, as it was in memory.
#[derive(Clone, Debug)]
pub struct KernelLog {
    /// How it was found.
    pub method: Method,
    /// Where and by what, for people.
    pub detail: String,
    /// Oldest first.
    pub records: Vec<Record>,
    /// What is missing of it.
    pub left_out: LeftOut,
}

/// What a kernel said last.
#[derive(Clone, Copy, Debug)]
pub struct LastWords<'a> {
    /// The line with which it gave up, if it did.
    pub panic: Option<&'a Record>,
    /// The newest record.
    pub newest: Option<&'a Record>,
}

impl KernelLog {
    /// Did it panic, and what came last?
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

/// Where a kernel's log is.
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
    /// The kernel's variable `prb`, at this kernel address, points to it: it moves once.
    Pointer(u64),
    Phys(u64),
}

/// Finds and reads the log in one go.
///
/// # Errors
/// [`LogError::NotFound`].
pub fn kernel_log(memory: &dyn PhysicalMemory) -> Result<KernelLog, LogError> {
    LogProbe::find(memory)?.read(memory)
}

/// A kernel in memory, by its own note.
#[derive(Debug)]
pub(super) struct Located {
    /// How its addresses are translated.
    pub(super) space: Space,
    /// How far it runs from where it was linked to.
    pub(super) moved_by: u64,
}

/// The kernel that runs; none before it has written its note, or where it writes none.
pub(super) fn located(memory: &dyn PhysicalMemory) -> Option<Located> {
    let (notes, _) = vmcoreinfo::find_notes(memory);
    let holds = |note: &Note| LogProbe::of_note(memory, note).and_then(|probe| probe.holds(memory));
    let best = notes.iter().filter_map(|note| Some((holds(note).ok()?, note))).max_by_key(|&(holds, _)| holds)?.1;
    Some(Located { space: best.space(memory).ok()?, moved_by: best.kernel_offset().unwrap_or(0) })
}

impl LogProbe {
    /// Looks for the log in all of the guest's touched memory.
    ///
    /// Of several notes (RAM outlives a reset) the one whose log holds most is taken.
    ///
    /// # Errors
    /// [`LogError::NotFound`].
    pub fn find(memory: &dyn PhysicalMemory) -> Result<LogProbe, LogError> {
        let (notes, searched) = vmcoreinfo::find_notes(memory);
        let mut unusable = Vec::new();
        let mut best: Option<(u64, LogProbe)> = None;
        for note in &notes {
            match LogProbe::of_note(memory, note).and_then(|probe| Ok((probe.holds(memory)?, probe))) {
                Ok((holds, probe)) if best.as_ref().is_none_or(|(most, _)| holds > *most) => {
                    best = Some((holds, probe));
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

    /// Reads all of it.
    ///
    /// # Errors
    /// [`LogError::Gone`] when it is not where it was found.
    pub fn read(&self, memory: &dyn PhysicalMemory) -> Result<KernelLog, LogError> {
        let (records, left_out) = self.records(memory).map_err(LogError::Gone)?;
        Ok(KernelLog { method: self.method, detail: self.detail.clone(), records, left_out })
    }

    /// A number that changes with every record, in a few reads: the sequence number of the newest one (begun, not
    /// necessarily finished); `None` before there is one. Kernels before 5.10 do not publish theirs: for them it is
    /// the place of the next record, or, if found by scan, how many records there are, which takes a whole reading.
    ///
    /// # Errors
    /// [`LogError::Gone`] when it is not where it was found.
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

    /// Roughly how many records there are; an error if what was found cannot be a log.
    fn holds(&self, memory: &dyn PhysicalMemory) -> Result<u64, String> {
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

/// The ring's structure, from wherever it is now.
fn header(memory: &dyn PhysicalMemory, view: &View, at: RingAt, layout: &ring::Layout) -> Result<Header, String> {
    let mut bytes = vec![0; layout.ring_bytes];
    let mut outcome = Err(String::new());
    for _ in 0..TRIES {
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
