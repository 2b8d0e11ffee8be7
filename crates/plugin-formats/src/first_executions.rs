//! `first-run.bin`, version 2: when each block of guest code ran for the first time, and when the guest waited for a
//! clock.
//!
//! All fixed numbers little-endian. Header, 40 bytes:
//! ```text
//!  0  8  "BSFIRST\n"
//!  8  2  version of the format
//! 10  1  clock of the records: 0 host CLOCK_MONOTONIC, 1 the guest's virtual clock
//! 11  1  version of the plugin interface that QEMU implements
//! 12  4  vCPUs
//! 16  8  host CLOCK_MONOTONIC, ns, at time zero; 0: unknown
//! 24  8  host CLOCK_MONOTONIC, ns, when QEMU loaded the plugin
//! 32  8  guest architecture, NUL padded
//! ```
//! Each record is a tag byte and numbers as LEB128. The tag's low three bits give the kind of record. Numbers marked ±
//! are zigzag. Those marked Δ are nanoseconds since the last record that had a time. The first is since the plugin was
//! loaded, or since 0 of the virtual clock.
//! ```text
//! 0 wait     tag bits 4-7: kind of wait (WaitKind); ± its end minus the last time, ns, which stays the last; its length, ns
//! 1 block    tag bits 4-7: its last instruction (Ending); bit 3: has a target
//!            Δ time, ± address minus the end of the block before, bytes, instructions, [± target minus this block's end]
//! 2 thread   thread: the blocks that follow ran in this thread of QEMU
//! 3 runs     thread, vCPU: this thread runs that vCPU
//! 4 vCPU     Δ time, vCPU: it was created
//! 5 counts   blocks translated; of these, translated again; of these, not recorded because the table was full
//! 6 exit     Δ time: QEMU ended normally
//! 7 stop     Δ time: user space had run the requested number of blocks; later blocks are not recorded
//! ```
//! A file with [`Record::WaitsAreKept`] (tag 0, all other bits 0) has all timed waits of the guest's virtual clock.
//! Version 1 has no waits.
//!
//! The file has no index and no end marker: if QEMU is killed, everything written until then can be read.

use crate::header::{Clock, NotThisHeader, Start};
use crate::number::{signed, unsigned};
use crate::{Broken, Bytes, Sink};

/// First bytes of the file.
pub const MAGIC: &[u8; 8] = b"BSFIRST\n";
/// Version of the format.
pub const VERSION: u16 = 2;
/// The earliest version that can be read.
const FIRST_VERSION: u16 = 1;
pub const HEADER_BYTES: usize = 40;
/// Offset of the guest's architecture in the header.
const TARGET_AT: usize = 32;
/// The largest length of a record: a tag and at most five numbers of at most ten bytes.
pub const RECORD_BYTES_MOST: usize = 64;

/// The last instruction of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Ending {
    /// Any other: the block was cut at a page's end or at its largest length, or its code is unknown.
    Other = 0,
    /// Call of a fixed address.
    Call = 1,
    /// Call through a register or memory, or to another segment.
    CallIndirect = 2,
    /// Near or has_target return.
    Return = 3,
    /// Jump to a fixed address.
    Jump = 4,
    /// Conditional jump.
    Branch = 5,
    /// Jump through a register or memory, or to another segment.
    JumpIndirect = 6,
    /// Return from an interrupt or a system call.
    InterruptReturn = 7,
    /// Stops until an interrupt.
    Halt = 8,
    /// System call, software interrupt, breakpoint, or an intentionally invalid instruction.
    Trap = 9,
}

impl Ending {
    fn of(bits: u8) -> Option<Ending> {
        use Ending::*;
        const ALL: [Ending; 10] =
            [Other, Call, CallIndirect, Return, Jump, Branch, JumpIndirect, InterruptReturn, Halt, Trap];
        ALL.get(usize::from(bits)).copied()
    }
}

/// The bytes of a file's header.
pub fn header_bytes(start: &Start) -> [u8; HEADER_BYTES] {
    let mut to = [0; HEADER_BYTES];
    start.write(MAGIC, VERSION, TARGET_AT, &mut to);
    to
}

/// Reads a file's header.
///
/// # Errors
/// If the file does not begin with a header of this version.
pub fn read_header(file: &[u8]) -> Result<Start, NotThisHeader> {
    Start::read::<HEADER_BYTES>(MAGIC, FIRST_VERSION..=VERSION, TARGET_AT, file).map(|(start, _)| start)
}

/// A block that ran for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The address of its first byte.
    pub vaddr: u64,
    /// Its length in bytes.
    pub size: u64,
    /// Its number of instructions.
    pub insns: u64,
    /// Its last instruction.
    pub ending: Ending,
    /// The target of that instruction relative to the block's end, if it is fixed.
    pub displacement: Option<i64>,
}

/// The way in which a guest waits for a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum WaitKind {
    /// All CPUs were halted.
    Halted = 1,
    /// A loop read a clock until it showed a time.
    Polled = 2,
}

/// A stretch of the guest's virtual clock in which the guest waited for that clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedWait {
    pub kind: WaitKind,
    pub until_ns: u64,
    pub length_ns: u64,
}

/// Totals since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub translated: u64,
    /// Blocks translated again, because the code cache was flushed or the code was patched.
    pub again: u64,
    /// Blocks translated for the first time when the plugin's table was full.
    pub full: u64,
}

/// One record, with absolute times and addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// All timed waits are recorded.
    WaitsAreKept,
    Wait(TimedWait),
    /// A block began to run.
    Block(u64, Block),
    /// The blocks that follow ran in this thread of QEMU.
    Thread(u64),
    /// This thread of QEMU runs this vCPU.
    Runs(u64, u64),
    /// A vCPU was created.
    Vcpu(u64, u64),
    /// The current totals.
    Counts(Counts),
    /// QEMU ended normally.
    Exit(u64),
    /// User space has run the requested number of blocks. Later blocks are not recorded.
    Stop(u64),
}

/// The values that the next record is relative to.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    last_ns: u64,
    last_end: u64,
}

impl Stream {
    /// The state at the start of the records that follow a header.
    pub fn new(start: &Start) -> Stream {
        let last_ns = match start.clock {
            Clock::Host => start.install_host_ns,
            Clock::Virtual => 0,
        };
        Stream { last_ns, last_end: 0 }
    }

    /// Writes a record. If the clock steps back, the record gets the last time.
    #[inline]
    pub fn write(&mut self, record: &Record, to: &mut impl Sink) {
        match *record {
            Record::WaitsAreKept => to.byte(0),
            Record::Wait(wait) => {
                to.byte((wait.kind as u8) << 4);
                to.signed(signed(wait.until_ns.wrapping_sub(self.last_ns)));
                to.number(wait.length_ns);
            }
            Record::Block(now_ns, block) => {
                let has_target = u8::from(block.displacement.is_some());
                to.byte(1 | has_target << 3 | (block.ending as u8) << 4);
                self.write_time(now_ns, to);
                to.signed(signed(block.vaddr.wrapping_sub(self.last_end)));
                to.number(block.size);
                to.number(block.insns);
                if let Some(displacement) = block.displacement {
                    to.signed(displacement);
                }
                self.last_end = block.vaddr.wrapping_add(block.size);
            }
            Record::Thread(thread) => {
                to.byte(2);
                to.number(thread);
            }
            Record::Runs(thread, vcpu) => {
                to.byte(3);
                to.number(thread);
                to.number(vcpu);
            }
            Record::Vcpu(now_ns, vcpu) => {
                to.byte(4);
                self.write_time(now_ns, to);
                to.number(vcpu);
            }
            Record::Counts(counts) => {
                to.byte(5);
                to.number(counts.translated);
                to.number(counts.again);
                to.number(counts.full);
            }
            Record::Exit(now_ns) => {
                to.byte(6);
                self.write_time(now_ns, to);
            }
            Record::Stop(now_ns) => {
                to.byte(7);
                self.write_time(now_ns, to);
            }
        }
    }

    /// Reads the next record.
    ///
    /// # Errors
    /// If the record is cut off or malformed. The rest of the file cannot be read then, because all of it is relative.
    #[inline]
    pub fn read(&mut self, from: &mut Bytes) -> Result<Record, Broken> {
        let tag = from.byte()?;
        match tag & 7 {
            0 if tag == 0 => Ok(Record::WaitsAreKept),
            0 => {
                let kind = match tag {
                    0x10 => WaitKind::Halted,
                    0x20 => WaitKind::Polled,
                    _ => return Err(Broken::Malformed),
                };
                let until_ns = self.last_ns.wrapping_add(unsigned(from.signed()?));
                Ok(Record::Wait(TimedWait { kind, until_ns, length_ns: from.number()? }))
            }
            1 => {
                let ending = Ending::of(tag >> 4).ok_or(Broken::Malformed)?;
                let now_ns = self.read_time(from)?;
                let vaddr = self.last_end.wrapping_add(unsigned(from.signed()?));
                let (size, insns) = (from.number()?, from.number()?);
                let displacement = if tag & 8 != 0 { Some(from.signed()?) } else { None };
                self.last_end = vaddr.wrapping_add(size);
                Ok(Record::Block(now_ns, Block { vaddr, size, insns, ending, displacement }))
            }
            2 => Ok(Record::Thread(from.number()?)),
            3 => Ok(Record::Runs(from.number()?, from.number()?)),
            4 => Ok(Record::Vcpu(self.read_time(from)?, from.number()?)),
            5 => Ok(Record::Counts(Counts { translated: from.number()?, again: from.number()?, full: from.number()? })),
            6 => Ok(Record::Exit(self.read_time(from)?)),
            7 => Ok(Record::Stop(self.read_time(from)?)),
            _ => Err(Broken::Malformed),
        }
    }

    fn write_time(&mut self, now_ns: u64, to: &mut impl Sink) {
        to.number(now_ns.saturating_sub(self.last_ns));
        self.last_ns = self.last_ns.max(now_ns);
    }

    fn read_time(&mut self, from: &mut Bytes) -> Result<u64, Broken> {
        self.last_ns = self.last_ns.saturating_add(from.number()?);
        Ok(self.last_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn start(clock: Clock) -> Start {
        Start { clock, api: 1, vcpus: 2, zero_host_ns: 600, install_host_ns: 1000, target: *b"x86_64\0\0" }
    }

    /// Records with their bytes, as in older files.
    #[test]
    fn the_bytes_of_the_format() {
        let head = [
            &b"BSFIRST\n"[..],
            &[2, 0, 0, 1, 2, 0, 0, 0],
            &[0x58, 2, 0, 0, 0, 0, 0, 0],
            &[0xe8, 3, 0, 0, 0, 0, 0, 0],
            b"x86_64\0\0",
        ]
        .concat();
        assert_eq!(header_bytes(&start(Clock::Host))[..], head);
        assert_eq!(read_header(&head), Ok(start(Clock::Host)));
        let mut wrong = head.clone();
        wrong[10] = 2;
        assert_eq!(read_header(&wrong), Err(NotThisHeader::Unknown { version: 2, clock: 2 }));
        (wrong[8], wrong[10]) = (1, 0);
        assert_eq!(read_header(&wrong), Ok(start(Clock::Host)), "version 1");
        wrong[8] = 3;
        assert_eq!(read_header(&wrong), Err(NotThisHeader::Unknown { version: 3, clock: 0 }));
        assert_eq!(read_header(&head[..39]), Err(NotThisHeader::Other));
        let reset = Block { vaddr: 0xffff_fff0, size: 5, insns: 1, ending: Ending::JumpIndirect, displacement: None };
        let call = Block { vaddr: 0xf_e05b, size: 5, insns: 2, ending: Ending::Call, displacement: Some(-3) };
        let records = [
            (Record::Vcpu(1200, 0), &[4, 0xc8, 1, 0][..]),
            (Record::Thread(1), &[2, 1]),
            (Record::Runs(1, 0), &[3, 1, 0]),
            (Record::Block(1500, reset), &[0x61, 0xac, 2, 0xe0, 0xff, 0xff, 0xff, 0x1f, 5, 1]),
            (Record::Block(1500, call), &[0x19, 0, 0xb3, 0xfe, 0x80, 0xff, 0x1f, 5, 2, 5]),
            (Record::WaitsAreKept, &[0]),
            (
                Record::Wait(TimedWait { kind: WaitKind::Halted, until_ns: 1490, length_ns: 200 }),
                &[0x10, 0x13, 0xc8, 1],
            ),
            (Record::Wait(TimedWait { kind: WaitKind::Polled, until_ns: 1500, length_ns: 3 }), &[0x20, 0, 3]),
            (Record::Counts(Counts { translated: 300, again: 298, full: 0 }), &[5, 0xac, 2, 0xaa, 2, 0]),
            (Record::Stop(1500), &[7, 0]),
            (Record::Exit(1501), &[6, 1]),
        ];
        let (mut writer, mut reader) = (Stream::new(&start(Clock::Host)), Stream::new(&start(Clock::Host)));
        for (record, bytes) in records {
            let mut written = Vec::new();
            writer.write(&record, &mut written);
            assert_eq!(written, bytes, "{record:?}");
            assert_eq!(reader.read(&mut Bytes::new(bytes)), Ok(record));
        }
        let mut back = Vec::new();
        writer.write(&Record::Exit(7), &mut back);
        assert_eq!(back, [6, 0], "a clock that steps back stands still");
    }

    fn record() -> impl Strategy<Value = Record> {
        let ending = (0..10_u8).prop_map(|bits| Ending::of(bits).unwrap());
        let block = (any::<u64>(), any::<u64>(), any::<u64>(), ending, any::<Option<i64>>());
        let block = block.prop_map(|(vaddr, size, insns, ending, displacement)| Block {
            vaddr,
            size,
            insns,
            ending,
            displacement,
        });
        let counts = any::<[u64; 3]>().prop_map(|[translated, again, full]| Counts { translated, again, full });
        let wait = (any::<bool>(), any::<[u64; 2]>()).prop_map(|(halted, [until_ns, length_ns])| {
            let kind = if halted { WaitKind::Halted } else { WaitKind::Polled };
            Record::Wait(TimedWait { kind, until_ns, length_ns })
        });
        prop_oneof![
            Just(Record::WaitsAreKept),
            wait,
            (any::<u64>(), block).prop_map(|(at, block)| Record::Block(at, block)),
            any::<u64>().prop_map(Record::Thread),
            any::<[u64; 2]>().prop_map(|[thread, vcpu]| Record::Runs(thread, vcpu)),
            any::<[u64; 2]>().prop_map(|[at, vcpu]| Record::Vcpu(at, vcpu)),
            counts.prop_map(Record::Counts),
            any::<u64>().prop_map(Record::Exit),
            any::<u64>().prop_map(Record::Stop),
        ]
    }

    proptest! {
        #[test]
        fn written_records_are_read_back_and_fit(records in proptest::collection::vec(record(), 0..20), host: bool) {
            let start = start(if host { Clock::Host } else { Clock::Virtual });
            let (mut writer, mut reader) = (Stream::new(&start), Stream::new(&start));
            let mut last = writer.last_ns;
            for record in records {
                let mut bytes = Vec::new();
                writer.write(&record, &mut bytes);
                prop_assert!(bytes.len() <= RECORD_BYTES_MOST);
                let mut from = Bytes::new(&bytes);
                // Times never go back.
                let expected = match record {
                    Record::Block(at, block) => Record::Block(at.max(last), block),
                    Record::Vcpu(at, vcpu) => Record::Vcpu(at.max(last), vcpu),
                    Record::Exit(at) => Record::Exit(at.max(last)),
                    Record::Stop(at) => Record::Stop(at.max(last)),
                    other => other,
                };
                prop_assert_eq!(reader.read(&mut from), Ok(expected));
                prop_assert!(from.is_at_end());
                last = writer.last_ns;
            }
        }

        #[test]
        fn any_bytes_are_read_or_broken(bytes: Vec<u8>) {
            let (mut stream, mut from) = (Stream::new(&start(Clock::Host)), Bytes::new(&bytes));
            while !from.is_at_end() && stream.read(&mut from).is_ok() {}
        }
    }
}
