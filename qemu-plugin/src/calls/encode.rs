//! Gathers the records of `calls.bin` in chunks and writes these. The format is `plugin_formats::calls`.
//!
//! Each vCPU fills a chunk of its own, so nothing is locked; a chunk is written by one `write`, so that chunks of several
//! vCPUs never mix and a QEMU that is killed leaves whole ones. On a nearly full
//! disk a `write` can be cut short; the reader skips chunks that are damaged so. Nothing is allocated after the start.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;

use super::tree::{Path, Totals};
use plugin_formats::Sink;
use plugin_formats::calls::{CHUNK_HEADER_BYTES, Record, Stream, Stretch, chunk_header};

/// A chunk is written out when it is this long.
const FULL: usize = 1 << 20;
/// No record is longer: a tag and at most 32 numbers of at most ten bytes.
const LONGEST: usize = 321;

/// A vCPU's output: the chunk that is being filled, and where it goes.
pub struct Out {
    buffer: Vec<u8>,
    /// None once a write has failed.
    file: Option<Arc<File>>,
    vcpu: u16,
    stream: Stream,
}

impl Out {
    /// Output of a vCPU to a file that others write to as well; without a file it is thrown away.
    pub fn new(file: Option<Arc<File>>, vcpu: u16) -> Out {
        let mut out = Out { buffer: Vec::with_capacity(FULL + LONGEST), file, vcpu, stream: Stream::default() };
        out.begin();
        out
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
        self.record(&Record::Span(stretch(node, from, to)));
    }

    /// A call is under way.
    pub fn open(&mut self, node: u32, from: u64, now: u64) {
        self.record(&Record::Open(stretch(node, from, now)));
    }

    /// The vCPU goes on in this node, on another stack.
    pub fn switch(&mut self, node: u32, now: u64) {
        self.record(&Record::Switch { node, at: now });
    }

    /// The vCPU slept in this node until now.
    pub fn idle(&mut self, node: u32, from: u64, now: u64) {
        self.record(&Record::Idle(stretch(node, from, now)));
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

    /// Writes out what there is.
    pub fn flush(&mut self) {
        let length = self.buffer.len() - CHUNK_HEADER_BYTES;
        if length == 0 {
            return;
        }
        self.buffer[..CHUNK_HEADER_BYTES].copy_from_slice(&chunk_header(self.vcpu, length as u32));
        if let Some(Err(error)) = self.file.as_deref().map(|mut file| file.write_all(&self.buffer)) {
            eprintln!("bootscope plugin: cannot write calls, noting no more of them: {error}");
            self.file = None;
        }
        self.begin();
    }

    fn begin(&mut self) {
        self.buffer.clear();
        self.buffer.extend_from_slice(&[0; CHUNK_HEADER_BYTES]);
        self.stream = Stream::default();
    }

    /// Adds a record; to a new chunk if it may not fit into this one.
    #[inline(always)]
    fn record(&mut self, record: &Record) {
        if self.buffer.len() > FULL {
            self.flush();
        }
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
        let file = Arc::new(File::create(&path).expect("a file in the temporary folder"));
        let mut out = Out::new(Some(file), 3);
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
}
