//! Writes the chunks of `calls.bin`.
//!
//! The format is documented beside its reader, `crates/evidence/src/calls.rs` of bootscope; what is written here and
//! read there meets in the bytes of the test at the end, which both have. Each vCPU fills a chunk of its own, so
//! nothing is locked; a chunk is written by one `write`, so that chunks of several vCPUs never mix and a QEMU that is
//! killed leaves whole ones. Only where a disk is nearly full does the system write less than it was asked to; what then
//! is mixed the reader leaves. Nothing is allocated after the start.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;

use super::tree::{Kind, Path, Totals};

/// First bytes of the file.
pub const MAGIC: [u8; 8] = *b"BSCALLS\n";
/// Version of the format.
pub const FORMAT: u16 = 1;
/// Bytes of the header.
pub const HEADER: usize = 80;
/// First bytes of a chunk.
pub const CHUNK: [u8; 4] = *b"CHNK";
/// Bytes of a chunk's header.
pub const CHUNK_HEADER: usize = 12;
/// A chunk is written out when it is this long.
const FULL: usize = 1 << 20;
/// No record is longer: a tag and at most 32 varints of at most ten bytes.
const LONGEST: usize = 321;

/// What the ticks of the file are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Unit {
    /// The host's time stamp counter, or its nanoseconds where it has none that can be used.
    HostTicks = 0,
    /// Guest instructions, and the virtual nanoseconds in which it slept.
    Virtual = 1,
}

/// What the file begins with.
#[derive(Clone, Debug)]
pub struct Header<'a> {
    /// The clock.
    pub unit: Unit,
    /// Version of the plugin interface that QEMU implements.
    pub api: u8,
    /// vCPUs that the machine starts with.
    pub vcpus: u32,
    /// Host `CLOCK_MONOTONIC`, ns, at the recording's time zero; 0 if the plugin was not told.
    pub zero_host_ns: u64,
    /// Host `CLOCK_MONOTONIC`, ns, when the plugin's clock read 0.
    pub install_host_ns: u64,
    /// Ticks per second, as far as it is known at the start.
    pub ticks_per_second: u64,
    /// Calls at least this long, in ticks, are in the timeline.
    pub min_call_ticks: u64,
    /// What a call and its return cost the recorder itself, in picoseconds of the host.
    pub call_cost_ps: u64,
    /// Ticks between two tables of totals.
    pub interval_ticks: u64,
    /// The guest's architecture; at most 8 bytes are kept.
    pub target: &'a [u8],
}

impl Header<'_> {
    /// Its bytes.
    pub fn bytes(&self) -> [u8; HEADER] {
        let mut to = [0; HEADER];
        to[..8].copy_from_slice(&MAGIC);
        to[8..10].copy_from_slice(&FORMAT.to_le_bytes());
        (to[10], to[11]) = (self.unit as u8, self.api);
        to[12..16].copy_from_slice(&self.vcpus.to_le_bytes());
        let numbers = [
            self.zero_host_ns,
            self.install_host_ns,
            self.ticks_per_second,
            self.min_call_ticks,
            self.call_cost_ps,
            self.interval_ticks,
        ];
        for (i, n) in numbers.into_iter().enumerate() {
            to[16 + 8 * i..24 + 8 * i].copy_from_slice(&n.to_le_bytes());
        }
        let n = self.target.len().min(8);
        to[64..64 + n].copy_from_slice(&self.target[..n]);
        to
    }
}

mod tag {
    pub const NODE: u8 = 1;
    pub const TOTALS: u8 = 2;
    pub const SPAN: u8 = 3;
    pub const OPEN: u8 = 4;
    pub const SWITCH: u8 = 5;
    pub const IDLE: u8 = 6;
    pub const SYNC: u8 = 7;
    pub const MARK: u8 = 8;
    pub const INTERVAL: u8 = 9;
    pub const COUNTS: u8 = 10;
    pub const EXIT: u8 = 11;
}

/// A vCPU's output: the chunk that is being filled, and where it goes.
pub struct Out {
    buffer: Vec<u8>,
    /// None once a write has failed.
    file: Option<Arc<File>>,
    vcpu: u16,
    node: u32,
    defined: u32,
    time: u64,
    function: u64,
}

impl Out {
    /// Output of a vCPU to a file that others write to as well; without a file it is thrown away.
    pub fn new(file: Option<Arc<File>>, vcpu: u16) -> Out {
        let mut out =
            Out { buffer: Vec::with_capacity(FULL + LONGEST), file, vcpu, node: 0, defined: 0, time: 0, function: 0 };
        out.begin();
        out
    }

    /// Whose output it is.
    pub fn vcpu(&self) -> u16 {
        self.vcpu
    }

    /// A new node.
    pub fn node(&mut self, id: u32, path: &Path) {
        self.tag(tag::NODE | (path.kind as u8) << 4);
        self.signed(i64::from(id) - i64::from(self.defined));
        self.varint(u64::from(path.parent));
        self.signed(path.function.wrapping_sub(self.function) as i64);
        if path.kind == Kind::Stack {
            self.varint(path.place);
        }
        (self.defined, self.function) = (id, path.function);
    }

    /// What a node has counted so far; ticks only where they are not instructions.
    pub fn totals(&mut self, node: u32, totals: &Totals, ticks: bool) {
        self.tag(tag::TOTALS | u8::from(ticks) << 4);
        self.relative_node(node);
        self.varint(totals.calls);
        self.varint(totals.insns);
        if ticks {
            self.varint(totals.ticks);
        }
    }

    /// A call returned.
    pub fn span(&mut self, node: u32, from: u64, to: u64) {
        self.tag(tag::SPAN);
        self.relative_node(node);
        self.time(to);
        self.varint(to.saturating_sub(from));
    }

    /// A call is under way.
    pub fn open(&mut self, node: u32, from: u64, now: u64) {
        self.tag(tag::OPEN);
        self.relative_node(node);
        self.time(now);
        self.varint(now.saturating_sub(from));
    }

    /// The vCPU goes on in this node, on another stack.
    pub fn switch(&mut self, node: u32, now: u64) {
        self.tag(tag::SWITCH);
        self.relative_node(node);
        self.time(now);
    }

    /// The vCPU slept in this node until now.
    pub fn idle(&mut self, node: u32, from: u64, now: u64) {
        self.tag(tag::IDLE);
        self.relative_node(node);
        self.time(now);
        self.varint(now.saturating_sub(from));
    }

    /// What another clock showed: the host's `CLOCK_MONOTONIC` or the guest's virtual clock, ns.
    pub fn sync(&mut self, now: u64, other_ns: u64) {
        self.tag(tag::SYNC);
        self.time(now);
        self.varint(other_ns);
    }

    /// Something of note happened, after so many instructions of this vCPU.
    pub fn mark(&mut self, kind: u8, now: u64, insns: u64) {
        self.tag(tag::MARK);
        self.time(now);
        self.varint(kind.into());
        self.varint(insns);
    }

    /// All totals up to here are written.
    pub fn interval(&mut self, now: u64, insns: u64) {
        self.tag(tag::INTERVAL);
        self.time(now);
        self.varint(insns);
    }

    /// Figures of this vCPU so far.
    pub fn counts(&mut self, counts: &[u64]) {
        self.tag(tag::COUNTS);
        self.varint(counts.len() as u64);
        for &n in counts {
            self.varint(n);
        }
    }

    /// QEMU ends in order.
    pub fn exit(&mut self, now: u64) {
        self.tag(tag::EXIT);
        self.time(now);
    }

    /// Writes out what there is.
    pub fn flush(&mut self) {
        let length = self.buffer.len() - CHUNK_HEADER;
        if length == 0 {
            return;
        }
        self.buffer[4..8].copy_from_slice(&(length as u32).to_le_bytes());
        if let Some(Err(error)) = self.file.as_deref().map(|mut file| file.write_all(&self.buffer)) {
            eprintln!("bootscope plugin: cannot write calls, noting no more of them: {error}");
            self.file = None;
        }
        self.begin();
    }

    fn begin(&mut self) {
        self.buffer.clear();
        self.buffer.extend_from_slice(&CHUNK);
        self.buffer.extend_from_slice(&[0; 4]);
        self.buffer.extend_from_slice(&self.vcpu.to_le_bytes());
        self.buffer.extend_from_slice(&[0; 2]);
        (self.node, self.defined, self.time, self.function) = (0, 0, 0, 0);
    }

    /// Begins a record; a new chunk if it may not fit into this one.
    #[inline(always)]
    fn tag(&mut self, tag: u8) {
        if self.buffer.len() > FULL {
            self.flush();
        }
        self.buffer.push(tag);
    }

    fn relative_node(&mut self, node: u32) {
        self.signed(i64::from(node) - i64::from(self.node));
        self.node = node;
    }

    /// A clock that steps back stands still here.
    fn time(&mut self, now: u64) {
        self.varint(now.saturating_sub(self.time));
        self.time = self.time.max(now);
    }

    fn signed(&mut self, v: i64) {
        self.varint((v << 1 ^ v >> 63) as u64);
    }

    #[inline(always)]
    fn varint(&mut self, mut v: u64) {
        while v >= 0x80 {
            self.buffer.push(v as u8 | 0x80);
            v >>= 7;
        }
        self.buffer.push(v as u8);
    }

    /// What is in the chunk, for tests.
    #[cfg(test)]
    pub fn pending(&self) -> &[u8] {
        &self.buffer[CHUNK_HEADER..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reader's test has the same bytes and the same meaning.
    #[test]
    fn the_bytes_that_the_reader_is_tested_with() {
        let header = Header {
            unit: Unit::HostTicks,
            api: 1,
            vcpus: 2,
            zero_host_ns: 600,
            install_host_ns: 1000,
            ticks_per_second: 2_000_000_000,
            min_call_ticks: 300,
            call_cost_ps: 40_000,
            interval_ticks: 20_000_000,
            target: b"x86_64",
        };
        let expected = [
            &b"BSCALLS\n"[..],
            &[1, 0, 0, 1, 2, 0, 0, 0],
            &[0x58, 2, 0, 0, 0, 0, 0, 0],
            &[0xe8, 3, 0, 0, 0, 0, 0, 0],
            &[0, 0x94, 0x35, 0x77, 0, 0, 0, 0],
            &[0x2c, 1, 0, 0, 0, 0, 0, 0],
            &[0x40, 0x9c, 0, 0, 0, 0, 0, 0],
            &[0, 0x2d, 0x31, 1, 0, 0, 0, 0],
            b"x86_64\0\0",
            &[0; 8],
        ]
        .concat();
        assert_eq!(header.bytes()[..], expected);

        let mut out = Out::new(None, 1);
        out.node(1, &Path { parent: 0, function: 0xfff0, place: 0x8000, kind: Kind::Stack });
        out.node(2, &Path { parent: 1, function: 0x1_0000, place: 0, kind: Kind::Call });
        out.switch(1, 100);
        out.open(2, 130, 150);
        out.idle(2, 200, 300);
        out.span(2, 130, 500);
        out.totals(2, &Totals { calls: 1, insns: 70, ticks: 270 }, true);
        out.totals(1, &Totals { calls: 0, insns: 9, ticks: 0 }, false);
        out.sync(510, 2000);
        out.mark(1, 510, 79);
        out.interval(520, 80);
        out.counts(&[3, 2, 300]);
        out.exit(519);
        let records = [
            &[0x01, 2, 0, 0xe0, 0xff, 7, 0x80, 0x80, 2][..],
            &[0x11, 2, 1, 0x20],
            &[5, 2, 100],
            &[4, 2, 50, 20],
            &[6, 0, 0x96, 1, 100],
            &[3, 0, 0xc8, 1, 0xf2, 2],
            &[0x12, 0, 1, 70, 0x8e, 2],
            &[2, 1, 0, 9],
            &[7, 10, 0xd0, 0x0f],
            &[8, 0, 1, 79],
            &[9, 10, 80],
            &[10, 3, 3, 2, 0xac, 2],
            &[11, 0],
        ]
        .concat();
        assert_eq!(out.pending(), records);
    }

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
        assert!(bytes.starts_with(&CHUNK) && bytes[8..12] == [3, 0, 0, 0] && length > FULL - 100);
        let second = &bytes[CHUNK_HEADER + length..];
        assert!(second.starts_with(&CHUNK));
        assert_eq!(second[CHUNK_HEADER..][..2], [3, 10], "the node is told relative to 0 again");
    }
}
