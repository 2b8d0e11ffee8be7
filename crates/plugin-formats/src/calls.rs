//! `calls.bin`, version 1: every call of a boot.
//!
//! All fixed numbers little-endian. Header, 80 bytes:
//! ```text
//!  0  8  "BSCALLS\n"
//!  8  2  version of the format
//! 10  1  clock of the ticks: 0 the host's, 1 the guest's virtual time (instructions, and ns of sleep)
//! 11  1  version of the plugin interface that QEMU implements
//! 12  4  vCPUs
//! 16  8  host CLOCK_MONOTONIC, ns, at time zero; 0: unknown
//! 24  8  host CLOCK_MONOTONIC, ns, when the ticks were 0
//! 32  8  ticks per second, as measured at the start
//! 40  8  ticks of the shortest call in the timeline
//! 48  8  the plugin's cost for following a call and its return, ps of the host, measured at the start
//! 56  8  ticks between two tables of totals
//! 64  8  guest architecture, NUL padded
//! 72  8  0
//! ```
//! Then chunks, each of one vCPU and readable alone: `"CHNK"`, length of the records (4), vCPU (2), 0 (2). Each record
//! of a chunk is a tag byte and numbers as LEB128. The tag's low four bits give the kind of record. Numbers marked ±
//! are zigzag. **node** is a node's number, ± relative to the last such number in the chunk. **time** is in ticks since
//! the last time in the chunk; the first is since 0.
//! ```text
//!  1 node      tag bits 4-6: kind; ± number minus that of the last new node, parent's number (0: no parent),
//!              ± function's address minus that of the last new node, [kind 0: an address on the stack]
//!  2 totals    tag bit 4: has ticks; node, calls, self instructions, [self ticks]; all since the start
//!  3 span      node, time of return, ticks since the call
//!  4 open      node, time, ticks since the call, which has not returned yet
//!  5 switch    node, time: the vCPU goes on in this node, on another stack
//!  6 idle      node, time of waking, ticks since it fell asleep
//!  7 sync      time, ns of the other clock: the host's CLOCK_MONOTONIC (clock 0), the guest's virtual clock (1)
//!  8 mark      time, kind (1 first instruction of user space, 2 its first that writes to a port), instructions
//!  9 interval  time, instructions: the totals before this are complete up to here
//! 10 counts    number of figures, then the figures in the order of Counts; all since the start
//! 11 exit      time: QEMU ended normally
//! ```
//! Kinds of nodes: 0 the bottom of a stack, 1 called, 2 jumped to instead of a call, 3 entered by an interrupt, an
//! exception or a system call, 4 user space. A parent's number is lower than its children's. A record may mention a
//! node before the chunk of the vCPU that defined the node is written. Each vCPU has its own user space node.

mod counts;
pub mod example;

pub use counts::Counts;

#[cfg(doc)]
use crate::header::Clock;
use crate::header::{NotThisHeader, Start, u64_at};
use crate::number::{signed, unsigned};
use crate::{Broken, Bytes, Sink};

/// First bytes of the file.
pub const MAGIC: &[u8; 8] = b"BSCALLS\n";
/// Version of the format.
pub const VERSION: u16 = 1;
pub const HEADER_BYTES: usize = 80;
/// Offset of the guest's architecture in the header.
const TARGET_AT: usize = 64;
/// First bytes of a chunk.
pub const CHUNK: &[u8; 4] = b"CHNK";
/// Bytes of a chunk's header.
pub const CHUNK_HEADER_BYTES: usize = 12;
/// The largest number of figures in a table of counts.
pub const COUNTS_MOST: u64 = 64;
/// The smallest length of a node's definition. It bounds the number of nodes that a file of a given length can define.
pub const NODE_BYTES_LEAST: usize = 4;

/// The way in which a node was entered from its parent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// The bottom of a stack.
    #[default]
    Stack = 0,
    Call = 1,
    /// Jumped to, instead of a call and a return.
    Tail = 2,
    /// Entered by an interrupt, an exception or a system call.
    Interrupt = 3,
    /// User space.
    User = 4,
}

impl Kind {
    /// The kind with this number.
    pub fn of(bits: u8) -> Option<Kind> {
        [Kind::Stack, Kind::Call, Kind::Tail, Kind::Interrupt, Kind::User].get(usize::from(bits)).copied()
    }
}

/// The file's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The fields that both files of the plugin share. The ticks of [`Clock::Host`] are those of the host's time stamp
    /// counter, or its nanoseconds if that counter cannot be used. The ticks of [`Clock::Virtual`] are guest
    /// instructions, plus the virtual nanoseconds in which the guest slept.
    pub start: Start,
    /// Ticks per second, as far as it is known at the start.
    pub ticks_per_second: u64,
    /// The shortest call in the timeline, in ticks.
    pub min_call_ticks: u64,
    /// The recorder's cost for a call and its return, in picoseconds of the host.
    pub call_cost_ps: u64,
    /// Ticks between two tables of totals.
    pub interval_ticks: u64,
}

impl Header {
    pub fn bytes(&self) -> [u8; HEADER_BYTES] {
        let mut to = [0; HEADER_BYTES];
        self.start.write(MAGIC, VERSION, TARGET_AT, &mut to);
        let numbers = [self.ticks_per_second, self.min_call_ticks, self.call_cost_ps, self.interval_ticks];
        for (i, n) in numbers.into_iter().enumerate() {
            to[32 + 8 * i..40 + 8 * i].copy_from_slice(&n.to_le_bytes());
        }
        to
    }

    /// Reads a file's header.
    ///
    /// # Errors
    /// If the file does not begin with a header of this version.
    pub fn read(file: &[u8]) -> Result<Header, NotThisHeader> {
        let (start, head) = Start::read::<HEADER_BYTES>(MAGIC, VERSION..=VERSION, TARGET_AT, file)?;
        Ok(Header {
            start,
            ticks_per_second: u64_at(head, 32),
            min_call_ticks: u64_at(head, 40),
            call_cost_ps: u64_at(head, 48),
            interval_ticks: u64_at(head, 56),
        })
    }
}

/// The header of a chunk with `length` bytes of records.
pub fn chunk_header(vcpu: u16, length: u32) -> [u8; CHUNK_HEADER_BYTES] {
    let mut to = [0; CHUNK_HEADER_BYTES];
    to[..4].copy_from_slice(CHUNK);
    to[4..8].copy_from_slice(&length.to_le_bytes());
    to[8..10].copy_from_slice(&vcpu.to_le_bytes());
    to
}

/// The vCPU and the records of the chunk at the start of these bytes. The last chunk of a file may be cut.
pub fn chunk(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<CHUNK_HEADER_BYTES>()?;
    let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
    head.starts_with(CHUNK).then(|| (u16::from_le_bytes([head[8], head[9]]), &rest[..length.min(rest.len())]))
}

/// One record, with absolute times, numbers and addresses. Times and lengths are ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    Node {
        number: u32,
        /// The number of its parent; 0 if it has no parent.
        parent: u64,
        kind: Kind,
        /// Address of the function.
        function: u64,
        /// At the bottom of a stack, an address on that stack; else 0.
        stack: u64,
    },
    /// The totals of a node until now.
    Totals {
        /// The node's number.
        node: u32,
        /// The number of times it was entered.
        calls: u64,
        /// Self instructions.
        insns: u64,
        /// Self ticks, where they differ from its instructions.
        ticks: Option<u64>,
    },
    /// A call returned.
    Span(Stretch),
    /// A call has not returned yet.
    Open(Stretch),
    /// The vCPU slept in this node. The stretch ends when it woke.
    Idle(Stretch),
    /// The vCPU goes on in this node, on another stack.
    Switch {
        /// The node's number.
        node: u32,
        at: u64,
    },
    /// The reading of another clock.
    Sync {
        at: u64,
        /// The host's `CLOCK_MONOTONIC` or the guest's virtual clock, ns.
        other_ns: u64,
    },
    /// A notable event.
    Mark {
        at: u64,
        /// 1: first instruction of user space; 2: its first one that writes to a port.
        kind: u64,
        /// Instructions of this vCPU until then.
        insns: u64,
    },
    /// All totals before this time are in the file.
    Interval {
        at: u64,
        /// Instructions of this vCPU until then.
        insns: u64,
    },
    /// This number of figures of the vCPU follows.
    Counts(u64),
    /// QEMU ended normally.
    Exit { at: u64 },
}

/// A stretch of a call or a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The node's number.
    pub node: u32,
    /// Its end, or its last observation.
    pub to: u64,
    /// Its length until then.
    pub length: u64,
}

/// The values that the next record of a chunk is relative to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stream {
    node: u32,
    defined: u32,
    time: u64,
    function: u64,
}

impl Stream {
    /// Writes a record. If the clock steps back, the record gets the last time.
    #[inline(always)]
    pub fn write(&mut self, record: &Record, to: &mut impl Sink) {
        match *record {
            Record::Node { number, parent, kind, function, stack } => {
                to.byte(1 | (kind as u8) << 4);
                to.signed(i64::from(number) - i64::from(self.defined));
                to.number(parent);
                to.signed(signed(function.wrapping_sub(self.function)));
                if kind == Kind::Stack {
                    to.number(stack);
                }
                (self.defined, self.function) = (number, function);
            }
            Record::Totals { node, calls, insns, ticks } => {
                to.byte(2 | u8::from(ticks.is_some()) << 4);
                self.write_node(node, to);
                to.number(calls);
                to.number(insns);
                if let Some(ticks) = ticks {
                    to.number(ticks);
                }
            }
            Record::Span(stretch) => self.write_stretch(3, stretch, to),
            Record::Open(stretch) => self.write_stretch(4, stretch, to),
            Record::Idle(stretch) => self.write_stretch(6, stretch, to),
            Record::Switch { node, at } => {
                to.byte(5);
                self.write_node(node, to);
                self.write_time(at, to);
            }
            Record::Sync { at, other_ns } => {
                to.byte(7);
                self.write_time(at, to);
                to.number(other_ns);
            }
            Record::Mark { at, kind, insns } => {
                to.byte(8);
                self.write_time(at, to);
                to.number(kind);
                to.number(insns);
            }
            Record::Interval { at, insns } => {
                to.byte(9);
                self.write_time(at, to);
                to.number(insns);
            }
            Record::Counts(count) => {
                to.byte(10);
                to.number(count);
            }
            Record::Exit { at } => {
                to.byte(11);
                self.write_time(at, to);
            }
        }
    }

    /// Reads the next record.
    ///
    /// # Errors
    /// If the record is cut off or malformed. The rest of the chunk cannot be read then.
    #[inline(always)]
    pub fn read(&mut self, from: &mut Bytes) -> Result<Record, Broken> {
        let tag = from.byte()?;
        match tag & 15 {
            1 => self.read_definition(tag, from),
            2 => {
                let (node, calls, insns) = (self.read_node(from)?, from.number()?, from.number()?);
                let ticks = if tag & 16 != 0 { Some(from.number()?) } else { None };
                Ok(Record::Totals { node, calls, insns, ticks })
            }
            3 => Ok(Record::Span(self.read_stretch(from)?)),
            4 => Ok(Record::Open(self.read_stretch(from)?)),
            5 => Ok(Record::Switch { node: self.read_node(from)?, at: self.read_time(from)? }),
            6 => Ok(Record::Idle(self.read_stretch(from)?)),
            7 => Ok(Record::Sync { at: self.read_time(from)?, other_ns: from.number()? }),
            8 => Ok(Record::Mark { at: self.read_time(from)?, kind: from.number()?, insns: from.number()? }),
            9 => Ok(Record::Interval { at: self.read_time(from)?, insns: from.number()? }),
            10 => Ok(Record::Counts(from.number()?)),
            11 => Ok(Record::Exit { at: self.read_time(from)? }),
            _ => Err(Broken::Malformed),
        }
    }

    fn read_definition(&mut self, tag: u8, from: &mut Bytes) -> Result<Record, Broken> {
        let number = moved(self.defined, from.signed()?)?;
        let parent = from.number()?;
        let function = self.function.wrapping_add(unsigned(from.signed()?));
        let kind = Kind::of(tag >> 4 & 7).ok_or(Broken::Malformed)?;
        let stack = if kind == Kind::Stack { from.number()? } else { 0 };
        (self.defined, self.function) = (number, function);
        Ok(Record::Node { number, parent, kind, function, stack })
    }

    #[inline(always)]
    fn write_stretch(&mut self, tag: u8, stretch: Stretch, to: &mut impl Sink) {
        to.byte(tag);
        self.write_node(stretch.node, to);
        self.write_time(stretch.to, to);
        to.number(stretch.length);
    }

    #[inline(always)]
    fn read_stretch(&mut self, from: &mut Bytes) -> Result<Stretch, Broken> {
        Ok(Stretch { node: self.read_node(from)?, to: self.read_time(from)?, length: from.number()? })
    }

    #[inline(always)]
    fn write_node(&mut self, node: u32, to: &mut impl Sink) {
        to.signed(i64::from(node) - i64::from(self.node));
        self.node = node;
    }

    #[inline(always)]
    fn read_node(&mut self, from: &mut Bytes) -> Result<u32, Broken> {
        self.node = moved(self.node, from.signed()?)?;
        Ok(self.node)
    }

    #[inline(always)]
    fn write_time(&mut self, now: u64, to: &mut impl Sink) {
        to.number(now.saturating_sub(self.time));
        self.time = self.time.max(now);
    }

    #[inline(always)]
    fn read_time(&mut self, from: &mut Bytes) -> Result<u64, Broken> {
        self.time = self.time.saturating_add(from.number()?);
        Ok(self.time)
    }
}

fn moved(number: u32, by: i64) -> Result<u32, Broken> {
    i64::from(number).checked_add(by).and_then(|n| u32::try_from(n).ok()).ok_or(Broken::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Records with their bytes, as in older files.
    #[test]
    fn the_bytes_of_the_format() {
        let head = [
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
        assert_eq!(example::HEADER.bytes()[..], head);
        assert_eq!(Header::read(&head), Ok(example::HEADER));
        assert_eq!(chunk_header(3, 258), *b"CHNK\x02\x01\0\0\x03\0\0\0");
        assert_eq!(chunk(b"CHNK\x02\0\0\0\x03\0\0\0abc"), Some((3, &b"ab"[..])));
        assert_eq!((chunk(b"CHNK\x09\0\0\0\x03\0\0\0abc"), chunk(b"CHNK")), (Some((3, &b"abc"[..])), None));
        let (mut writer, mut reader) = (Stream::default(), Stream::default());
        for (record, bytes) in example::RECORDS {
            let mut written = Vec::new();
            writer.write(&record, &mut written);
            assert_eq!(written, bytes, "{record:?}");
            assert_eq!(reader.read(&mut Bytes::new(bytes)), Ok(record));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_broken_and_records_round_trip(bytes: Vec<u8>) {
            let (mut reader, mut writer, mut again) = <(Stream, Stream, Stream)>::default();
            let mut from = Bytes::new(&bytes);
            while let Ok(record) = reader.read(&mut from) {
                let mut written = Vec::new();
                writer.write(&record, &mut written);
                prop_assert_eq!(again.read(&mut Bytes::new(&written)), Ok(record));
            }
        }
    }
}
