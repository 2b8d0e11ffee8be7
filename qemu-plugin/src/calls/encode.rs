//! Collects the records of `calls.bin` in chunks, and writes the chunks. The format is `plugin_formats::calls`.
//!
//! Each vCPU fills its own chunk, so nothing is locked. One `write` writes a chunk, so chunks of several vCPUs never
//! mix, and a killed QEMU leaves whole ones. On a nearly full disk a `write` can be cut short; the reader skips chunks
//! damaged in this way. This module allocates nothing after the start.
//!
//! The file has a limit for any guest ([`Limits`]). Records that are not written are counted.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::tree::{Path, Totals};
use plugin_formats::Sink;
use plugin_formats::calls::{CHUNK_HEADER_BYTES, Record, Stream, Stretch, chunk_header};

/// The length at which a chunk is written out.
const CHUNK_BYTES: usize = 1 << 20;
/// The largest length of a record: a tag and at most 32 numbers of at most ten bytes.
const MAX_RECORD_BYTES: usize = 321;

/// The largest lengths of the file.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// From this length on, single calls, changes of stacks and sleeps are no longer written, and tables of totals
    /// become rarer and rarer.
    pub details: u64,
    /// From this length on, only the last table of totals is written.
    pub tables: u64,
    /// The file is never longer than this, except for the last figures of each vCPU.
    pub all: u64,
}

/// The limits for the reader, which refuses files of more than 1 GiB. A Linux boot needs 8 MiB. New nodes and one table
/// of totals of a full tree take less than the difference of the last two.
pub const LIMITS: Limits = Limits { details: 256 << 20, tables: 512 << 20, all: 768 << 20 };

/// The file that all vCPUs write to.
pub struct CallsFile {
    file: File,
    limits: Limits,
    written: AtomicU64,
}

impl CallsFile {
    /// Takes a file that already has its header.
    pub fn new(file: File, limits: Limits) -> CallsFile {
        CallsFile { file, limits, written: AtomicU64::new(0) }
    }

    /// Writes a chunk, unless the file would then be longer than `limit`. Returns true if it was written.
    fn write(&self, chunk: &[u8], limit: u64) -> std::io::Result<bool> {
        let length = chunk.len() as u64;
        let longer = |written: u64| written.checked_add(length).filter(|&longer| longer <= limit);
        if self.written.fetch_update(Relaxed, Relaxed, longer).is_err() {
            return Ok(false);
        }
        (&self.file).write_all(chunk)?;
        Ok(true)
    }
}

/// A vCPU's output: the current chunk, and the file for it.
pub struct Out {
    buffer: Vec<u8>,
    /// `None` after a failed write.
    file: Option<Arc<CallsFile>>,
    vcpu: u16,
    stream: Stream,
    /// The number of records in the chunk.
    records: u64,
    /// The number of records not written because the file would be too long.
    left_out: u64,
    /// The file's length when this vCPU last wrote to it.
    written: u64,
    limits: Limits,
}

impl Out {
    /// The output of a vCPU to a file that others also write to. Without a file, records are discarded.
    pub fn new(file: Option<Arc<CallsFile>>, vcpu: u16) -> Out {
        let mut out = Out {
            buffer: Vec::with_capacity(CHUNK_BYTES + MAX_RECORD_BYTES),
            limits: file.as_ref().map_or(LIMITS, |file| file.limits),
            file,
            vcpu,
            stream: Stream::default(),
            records: 0,
            left_out: 0,
            written: 0,
        };
        out.begin();
        out
    }

    /// The number of records not written because the file would be too long.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// True if single calls are no longer written.
    #[inline(always)]
    pub fn leaves_details_out(&self) -> bool {
        self.written >= self.limits.details
    }

    /// True if there is room for a table of totals that is not the last one.
    pub fn has_room_for_table(&self) -> bool {
        self.written < self.limits.tables
    }

    /// The vCPU of this output.
    pub fn vcpu(&self) -> u16 {
        self.vcpu
    }

    pub fn node(&mut self, id: u32, path: &Path) {
        let (parent, kind, function, stack) = (path.parent.into(), path.kind, path.function, path.place);
        self.record(&Record::Node { number: id, parent, kind, function, stack });
    }

    /// Records the totals of a node until now; ticks only if they differ from instructions.
    pub fn totals(&mut self, node: u32, totals: &Totals, ticks: bool) {
        let (calls, insns, ticks) = (totals.calls, totals.insns, ticks.then_some(totals.ticks));
        self.record(&Record::Totals { node, calls, insns, ticks });
    }

    /// Records a call that returned.
    #[inline(always)]
    pub fn span(&mut self, node: u32, from: u64, to: u64) {
        self.detail(&Record::Span(stretch(node, from, to)));
    }

    /// Records a call that has not returned yet.
    pub fn open(&mut self, node: u32, from: u64, now: u64) {
        self.detail(&Record::Open(stretch(node, from, now)));
    }

    /// Records that the vCPU goes on in this node, on another stack.
    pub fn switch(&mut self, node: u32, now: u64) {
        self.detail(&Record::Switch { node, at: now });
    }

    /// Records that the vCPU slept in this node until now.
    pub fn idle(&mut self, node: u32, from: u64, now: u64) {
        self.detail(&Record::Idle(stretch(node, from, now)));
    }

    /// Records the reading of another clock: the host's `CLOCK_MONOTONIC` or the guest's virtual clock, ns.
    pub fn sync(&mut self, now: u64, other_ns: u64) {
        self.record(&Record::Sync { at: now, other_ns });
    }

    /// Records a notable event, after `insns` instructions of this vCPU.
    pub fn mark(&mut self, kind: u8, now: u64, insns: u64) {
        self.record(&Record::Mark { at: now, kind: kind.into(), insns });
    }

    /// Records that all totals up to here are written.
    pub fn interval(&mut self, now: u64, insns: u64) {
        self.record(&Record::Interval { at: now, insns });
    }

    /// Records the figures of this vCPU until now.
    pub fn counts(&mut self, counts: &[u64]) {
        self.record(&Record::Counts(counts.len() as u64));
        counts.iter().for_each(|&n| self.buffer.number(n));
    }

    /// Records that QEMU ended normally.
    pub fn exit(&mut self, now: u64) {
        self.record(&Record::Exit { at: now });
    }

    /// Writes out the current chunk. Returns false if the file would be too long; the chunk is then discarded.
    pub fn flush(&mut self) -> bool {
        self.write_out(self.limits.all)
    }

    /// Writes the vCPU's last chunk, which is short and always written.
    pub fn flush_last(&mut self) {
        self.write_out(u64::MAX);
    }

    fn write_out(&mut self, limit: u64) -> bool {
        let length = self.buffer.len() - CHUNK_HEADER_BYTES;
        if length == 0 {
            return true;
        }
        self.buffer[..CHUNK_HEADER_BYTES].copy_from_slice(&chunk_header(self.vcpu, length as u32));
        let fits = match self.file.as_deref().map(|file| file.write(&self.buffer, limit)) {
            Some(Err(error)) => {
                eprintln!("bootscope plugin: cannot write calls, noting no more of them: {error}");
                self.file = None;
                true
            }
            Some(Ok(fits)) => fits,
            None => true,
        };
        self.left_out += if fits { 0 } else { self.records };
        self.written = self.file.as_ref().map_or(0, |file| file.written.load(Relaxed));
        self.begin();
        fits
    }

    fn begin(&mut self) {
        self.buffer.clear();
        self.buffer.extend_from_slice(&[0; CHUNK_HEADER_BYTES]);
        (self.stream, self.records) = (Stream::default(), 0);
    }

    /// Adds a record of a single event. If the file is long, the record is left out and counted.
    #[inline(always)]
    fn detail(&mut self, record: &Record) {
        if self.leaves_details_out() {
            self.left_out += 1;
        } else {
            self.record(record);
        }
    }

    /// Adds a record, to a new chunk if it might not fit into this one.
    #[inline(always)]
    fn record(&mut self, record: &Record) {
        if self.buffer.len() > CHUNK_BYTES {
            self.flush();
        }
        self.records += 1;
        self.stream.write(record, &mut self.buffer);
    }

    /// The bytes in the chunk, for tests.
    #[cfg(test)]
    pub fn pending(&self) -> &[u8] {
        &self.buffer[CHUNK_HEADER_BYTES..]
    }
}

fn stretch(node: u32, from: u64, to: u64) -> Stretch {
    Stretch { node, to, length: to.saturating_sub(from) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin_formats::calls::CHUNK;

    #[test]
    fn a_full_chunk_is_written_and_the_next_stands_for_itself() {
        let path = std::env::temp_dir().join(format!("bootscope-calls-{}", std::process::id()));
        let file = CallsFile::new(File::create(&path).expect("a file in the temporary folder"), LIMITS);
        let mut out = Out::new(Some(Arc::new(file)), 3);
        for i in 0..300_000 {
            out.span(5, i * 10, i * 10 + 1000);
        }
        out.flush();
        let bytes = std::fs::read(&path).expect("the file");
        std::fs::remove_file(path).expect("removed");
        let length = u32::from_le_bytes(bytes[4..8].try_into().unwrap()) as usize;
        assert!(bytes.starts_with(CHUNK) && bytes[8..12] == [3, 0, 0, 0] && length > CHUNK_BYTES - 100);
        let second = &bytes[CHUNK_HEADER_BYTES + length..];
        assert!(second.starts_with(CHUNK));
        assert_eq!(second[CHUNK_HEADER_BYTES..][..2], [3, 10], "the node is told relative to 0 again");
    }

    #[test]
    fn a_file_has_a_limit_and_what_is_left_out_is_counted() {
        let path = std::env::temp_dir().join(format!("bootscope-calls-limit-{}", std::process::id()));
        let limits = Limits { details: 2 << 20, tables: 4 << 20, all: 5 << 20 };
        let file = Arc::new(CallsFile::new(File::create(&path).expect("a file in the temporary folder"), limits));
        let mut outs = [0, 1].map(|vcpu| Out::new(Some(file.clone()), vcpu));
        const EACH: u64 = 2_000_000;
        for i in 0..EACH {
            outs.iter_mut().for_each(|out| out.span(5, i * 10, i * 10 + 1000));
        }
        assert!(outs.iter().all(Out::leaves_details_out) && outs.iter().all(Out::has_room_for_table));
        // New nodes are still written, up to the limit `all`.
        let path_of = |id| Path { parent: 0, function: id << 32, place: id, kind: super::super::tree::Kind::Stack };
        for i in 1..EACH as u32 {
            outs[0].node(i, &path_of(u64::from(i)));
        }
        for out in &mut outs {
            out.flush();
        }
        assert!(!outs[0].has_room_for_table());
        outs.iter_mut().for_each(|out| {
            out.exit(7);
            out.flush_last();
        });
        let bytes = std::fs::read(&path).expect("the file");
        std::fs::remove_file(path).expect("removed");
        assert!(
            ((5 << 20) - CHUNK_BYTES as u64 - 400..(5 << 20) + 100).contains(&(bytes.len() as u64)),
            "{}",
            bytes.len()
        );
        let (mut at, mut records) = (&bytes[..], 0);
        while let Some((_, chunk)) = plugin_formats::calls::chunk(at) {
            let (mut from, mut stream) = (plugin_formats::Bytes::new(chunk), Stream::default());
            while !from.is_at_end() {
                stream.read(&mut from).expect("whole records");
                records += 1;
            }
            at = &at[CHUNK_HEADER_BYTES + chunk.len()..];
        }
        let left_out: u64 = outs.iter().map(Out::left_out).sum();
        assert_eq!(records + left_out, 2 * EACH + EACH - 1 + 2, "each record is written or counted");
    }
}
