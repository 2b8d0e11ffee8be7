//! Gathers the records of `calls.bin` in chunks and writes these. The format is `plugin_formats::calls`.
//!
//! Each vCPU fills a chunk of its own, so nothing is locked; a chunk is written by one `write`, so that chunks of several
//! vCPUs never mix and a QEMU that is killed leaves whole ones. On a nearly full
//! disk a `write` can be cut short; the reader skips chunks that are damaged so. Nothing is allocated after the start.
//!
//! The file has a limit, whatever the guest does ([`Limits`]). What is not written is counted.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::tree::{Path, Totals};
use plugin_formats::Sink;
use plugin_formats::calls::{CHUNK_HEADER_BYTES, Record, Stream, Stretch, chunk_header};

/// A chunk is written out when it is this long.
const FULL: usize = 1 << 20;
/// No record is longer: a tag and at most 32 numbers of at most ten bytes.
const LONGEST: usize = 321;

/// How long the file may become.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// From this length on calls are not written one by one any more, nor changes of stacks nor sleeps, and tables of totals come
    /// more and more seldom.
    pub details: u64,
    /// From this length on there is no table of totals but the last one.
    pub tables: u64,
    /// The file is no longer than this, but for the last figures of each vCPU.
    pub all: u64,
}

/// The limits of a file that the reader takes, which refuses more than 1 GiB. A Linux boot has 8 MiB. New nodes and
/// one table of totals of a tree that is full take less than what is between the last two.
pub const LIMITS: Limits = Limits { details: 256 << 20, tables: 512 << 20, all: 768 << 20 };

/// The file that all vCPUs write to.
pub struct CallsFile {
    file: File,
    limits: Limits,
    written: AtomicU64,
}

impl CallsFile {
    /// A file that has its header.
    pub fn new(file: File, limits: Limits) -> CallsFile {
        CallsFile { file, limits, written: AtomicU64::new(0) }
    }

    /// Writes a chunk if the file is then no longer than `limit`. Returns whether it was written.
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

/// A vCPU's output: the chunk that is being filled, and where it goes.
pub struct Out {
    buffer: Vec<u8>,
    /// None once a write has failed.
    file: Option<Arc<CallsFile>>,
    vcpu: u16,
    stream: Stream,
    /// Records in the chunk.
    records: u64,
    /// Records that were not written because the file would be too long.
    left_out: u64,
    /// The file's length when this vCPU last wrote to it.
    written: u64,
    limits: Limits,
}

impl Out {
    /// Output of a vCPU to a file that others write to as well; without a file it is thrown away.
    pub fn new(file: Option<Arc<CallsFile>>, vcpu: u16) -> Out {
        let mut out = Out {
            buffer: Vec::with_capacity(FULL + LONGEST),
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

    /// Records that were not written because the file would be too long.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Whether calls are not written one by one any more.
    #[inline(always)]
    pub fn leaves_details_out(&self) -> bool {
        self.written >= self.limits.details
    }

    /// Whether there is room for a table of totals that is not the last one.
    pub fn has_room_for_table(&self) -> bool {
        self.written < self.limits.tables
    }

    /// Whose output it is.
    pub fn vcpu(&self) -> u16 {
        self.vcpu
    }

    /// A new node.
    pub fn node(&mut self, id: u32, path: &Path) {
        let (parent, kind, function, stack) = (path.parent.into(), path.kind, path.function, path.place);
        self.record(&Record::Node { number: id, parent, kind, function, stack });
    }

    /// What a node has counted so far; ticks only where they are not instructions.
    pub fn totals(&mut self, node: u32, totals: &Totals, ticks: bool) {
        let (calls, insns, ticks) = (totals.calls, totals.insns, ticks.then_some(totals.ticks));
        self.record(&Record::Totals { node, calls, insns, ticks });
    }

    /// A call returned.
    #[inline(always)]
    pub fn span(&mut self, node: u32, from: u64, to: u64) {
        self.detail(&Record::Span(stretch(node, from, to)));
    }

    /// A call is under way.
    pub fn open(&mut self, node: u32, from: u64, now: u64) {
        self.detail(&Record::Open(stretch(node, from, now)));
    }

    /// The vCPU goes on in this node, on another stack.
    pub fn switch(&mut self, node: u32, now: u64) {
        self.detail(&Record::Switch { node, at: now });
    }

    /// The vCPU slept in this node until now.
    pub fn idle(&mut self, node: u32, from: u64, now: u64) {
        self.detail(&Record::Idle(stretch(node, from, now)));
    }

    /// What another clock showed: the host's `CLOCK_MONOTONIC` or the guest's virtual clock, ns.
    pub fn sync(&mut self, now: u64, other_ns: u64) {
        self.record(&Record::Sync { at: now, other_ns });
    }

    /// Something of note happened, after so many instructions of this vCPU.
    pub fn mark(&mut self, kind: u8, now: u64, insns: u64) {
        self.record(&Record::Mark { at: now, kind: kind.into(), insns });
    }

    /// All totals up to here are written.
    pub fn interval(&mut self, now: u64, insns: u64) {
        self.record(&Record::Interval { at: now, insns });
    }

    /// Figures of this vCPU so far.
    pub fn counts(&mut self, counts: &[u64]) {
        self.record(&Record::Counts(counts.len() as u64));
        counts.iter().for_each(|&n| self.buffer.number(n));
    }

    /// QEMU ends in order.
    pub fn exit(&mut self, now: u64) {
        self.record(&Record::Exit { at: now });
    }

    /// Writes out what there is. False: the file would be too long, and it is thrown away.
    pub fn flush(&mut self) -> bool {
        self.write_out(self.limits.all)
    }

    /// The same of the vCPU's last chunk, which is short and always written.
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

    /// Adds a record that says when something was: it is left out, and counted, where the file is long.
    #[inline(always)]
    fn detail(&mut self, record: &Record) {
        if self.leaves_details_out() {
            self.left_out += 1;
        } else {
            self.record(record);
        }
    }

    /// Adds a record; to a new chunk if it may not fit into this one.
    #[inline(always)]
    fn record(&mut self, record: &Record) {
        if self.buffer.len() > FULL {
            self.flush();
        }
        self.records += 1;
        self.stream.write(record, &mut self.buffer);
    }

    /// What is in the chunk, for tests.
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
        assert!(bytes.starts_with(CHUNK) && bytes[8..12] == [3, 0, 0, 0] && length > FULL - 100);
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
        // New nodes are written on, up to the limit of all.
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
        assert!(((5 << 20) - FULL as u64 - 400..(5 << 20) + 100).contains(&(bytes.len() as u64)), "{}", bytes.len());
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
