//! Writes the records of `first-run.bin` into a fixed buffer.
//!
//! The format is documented beside its reader, `crates/evidence/src/first_run.rs` of bootscope; what is written here
//! and read there meets in the bytes of the test at the end, which both have. Nothing is allocated and no time is
//! taken here.

use crate::ending::Ending;

/// First bytes of the file.
pub const MAGIC: [u8; 8] = *b"BSFIRST\n";
/// Version of the format.
pub const FORMAT: u16 = 1;
/// Bytes of the header.
pub const HEADER: usize = 40;
/// No record is longer: a tag and at most five varints of at most ten bytes.
pub const LONGEST: usize = 64;
/// What is gathered before it is written out.
const BUFFER: usize = 1 << 16;

/// The clock that the records' times are read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Clock {
    /// `CLOCK_MONOTONIC` of the host, ns.
    Host = 0,
    /// The guest's virtual clock, ns since it was started.
    Virtual = 1,
}

/// What the file begins with.
pub struct Header<'a> {
    /// Clock of the records.
    pub clock: Clock,
    /// Version of the plugin interface that QEMU implements.
    pub api: u8,
    /// vCPUs that the machine starts with.
    pub vcpus: u32,
    /// Host `CLOCK_MONOTONIC`, ns, at the recording's time zero; 0 if the plugin was not told.
    pub zero_host_ns: u64,
    /// Host `CLOCK_MONOTONIC`, ns, when QEMU loaded the plugin.
    pub install_host_ns: u64,
    /// The guest's architecture; at most 8 bytes are kept.
    pub target: &'a [u8],
}

/// A block that ran for the first time.
pub struct Block {
    /// Its first byte's address.
    pub vaddr: u64,
    /// Bytes.
    pub size: u64,
    /// Instructions.
    pub insns: u64,
    /// What its last instruction does.
    pub ending: Ending,
    /// Where that leads, from the block's end, if that is fixed.
    pub displacement: Option<i64>,
}

/// Totals since the start.
#[derive(Clone, Copy, Default)]
pub struct Counts {
    /// Blocks translated.
    pub translated: u64,
    /// Of these: translated before, not noted again.
    pub again: u64,
    /// Of these: first of their address, but the set was full.
    pub full: u64,
}

mod tag {
    pub const BLOCK: u8 = 1;
    pub const THREAD: u8 = 2;
    pub const RUNS: u8 = 3;
    pub const VCPU: u8 = 4;
    pub const COUNTS: u8 = 5;
    pub const EXIT: u8 = 6;
}

/// The buffer and what the next record is told relative to.
pub struct Encoder {
    buffer: Box<[u8]>,
    len: usize,
    last_ns: u64,
    last_end: u64,
}

impl Encoder {
    /// Starts with the header in the buffer.
    pub fn new(header: &Header) -> Encoder {
        let last_ns = match header.clock {
            Clock::Host => header.install_host_ns,
            Clock::Virtual => 0,
        };
        let mut e = Encoder { buffer: vec![0; BUFFER].into_boxed_slice(), len: 0, last_ns, last_end: 0 };
        e.bytes(&MAGIC);
        e.bytes(&FORMAT.to_le_bytes());
        e.bytes(&[header.clock as u8, header.api]);
        e.bytes(&header.vcpus.to_le_bytes());
        e.bytes(&header.zero_host_ns.to_le_bytes());
        e.bytes(&header.install_host_ns.to_le_bytes());
        let mut target = [0; 8];
        let n = header.target.len().min(8);
        target[..n].copy_from_slice(&header.target[..n]);
        e.bytes(&target);
        debug_assert_eq!(e.len, HEADER);
        e
    }

    /// What is to be written out.
    pub fn pending(&self) -> &[u8] {
        &self.buffer[..self.len]
    }

    /// What was pending has been written out.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Whether one more record may not fit.
    pub fn is_full(&self) -> bool {
        self.len + LONGEST > self.buffer.len()
    }

    /// A block began to run at `now_ns`.
    pub fn block(&mut self, now_ns: u64, block: &Block) {
        let end = block.vaddr.wrapping_add(block.size);
        let far = u8::from(block.displacement.is_some());
        self.bytes(&[tag::BLOCK | far << 3 | (block.ending as u8) << 4]);
        self.time(now_ns);
        self.signed(block.vaddr.wrapping_sub(self.last_end) as i64);
        self.varint(block.size);
        self.varint(block.insns);
        if let Some(displacement) = block.displacement {
            self.signed(displacement);
        }
        self.last_end = end;
    }

    /// The blocks that follow run in this thread of QEMU's.
    pub fn thread(&mut self, thread: u32) {
        self.bytes(&[tag::THREAD]);
        self.varint(thread.into());
    }

    /// A thread of QEMU's runs this vCPU.
    pub fn runs(&mut self, thread: u32, vcpu: u32) {
        self.bytes(&[tag::RUNS]);
        self.varint(thread.into());
        self.varint(vcpu.into());
    }

    /// A vCPU came into being.
    pub fn vcpu(&mut self, now_ns: u64, vcpu: u32) {
        self.bytes(&[tag::VCPU]);
        self.time(now_ns);
        self.varint(vcpu.into());
    }

    /// Where the totals stand.
    pub fn counts(&mut self, counts: &Counts) {
        self.bytes(&[tag::COUNTS]);
        self.varint(counts.translated);
        self.varint(counts.again);
        self.varint(counts.full);
    }

    /// QEMU ends in order.
    pub fn exit(&mut self, now_ns: u64) {
        self.bytes(&[tag::EXIT]);
        self.time(now_ns);
    }

    /// Time since the last record that had one. A clock that steps back stands still here.
    fn time(&mut self, now_ns: u64) {
        self.varint(now_ns.saturating_sub(self.last_ns));
        self.last_ns = self.last_ns.max(now_ns);
    }

    fn signed(&mut self, v: i64) {
        self.varint((v << 1 ^ v >> 63) as u64);
    }

    fn varint(&mut self, mut v: u64) {
        while v >= 0x80 {
            self.bytes(&[v as u8 | 0x80]);
            v >>= 7;
        }
        self.bytes(&[v as u8]);
    }

    /// The recorder empties the buffer before a record may not fit, so that none is ever cut here.
    fn bytes(&mut self, bytes: &[u8]) {
        let to = self.len + bytes.len();
        if let Some(place) = self.buffer.get_mut(self.len..to) {
            place.copy_from_slice(bytes);
            self.len = to;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reader's test has the same bytes and the same meaning.
    #[test]
    fn the_bytes_that_the_reader_is_tested_with() {
        let mut e = Encoder::new(&Header {
            clock: Clock::Host,
            api: 1,
            vcpus: 2,
            zero_host_ns: 600,
            install_host_ns: 1000,
            target: b"x86_64",
        });
        let header = [
            &b"BSFIRST\n"[..],
            &[1, 0, 0, 1, 2, 0, 0, 0],
            &[0x58, 2, 0, 0, 0, 0, 0, 0],
            &[0xe8, 3, 0, 0, 0, 0, 0, 0],
            b"x86_64\0\0",
        ]
        .concat();
        assert_eq!(e.pending(), header);
        e.clear();

        e.vcpu(1200, 0);
        e.thread(1);
        e.runs(1, 0);
        e.block(
            1500,
            &Block { vaddr: 0xffff_fff0, size: 5, insns: 1, ending: Ending::JumpIndirect, displacement: None },
        );
        e.block(1400, &Block { vaddr: 0xf_e05b, size: 5, insns: 2, ending: Ending::Call, displacement: Some(-3) });
        e.counts(&Counts { translated: 300, again: 298, full: 0 });
        e.exit(1501);
        let records = [
            &[4, 0xc8, 1, 0][..],
            &[2, 1],
            &[3, 1, 0],
            &[0x61, 0xac, 2, 0xe0, 0xff, 0xff, 0xff, 0x1f, 5, 1],
            &[0x19, 0, 0xb3, 0xfe, 0x80, 0xff, 0x1f, 5, 2, 5],
            &[5, 0xac, 2, 0xaa, 2, 0],
            &[6, 1],
        ]
        .concat();
        assert_eq!(e.pending(), records);
    }

    #[test]
    fn the_longest_record_fits() {
        let mut e = Encoder::new(&Header {
            clock: Clock::Virtual,
            api: 4,
            vcpus: 1,
            zero_host_ns: 0,
            install_host_ns: u64::MAX,
            target: b"a-long-target-name",
        });
        assert_eq!(e.pending().len(), HEADER);
        while !e.is_full() {
            let before = e.pending().len();
            let block = Block {
                vaddr: u64::MAX / 3,
                size: u64::MAX,
                insns: u64::MAX,
                ending: Ending::Call,
                displacement: Some(i64::MIN),
            };
            e.block(u64::MAX, &block);
            assert!((1..=LONGEST).contains(&(e.pending().len() - before)));
        }
    }
}
