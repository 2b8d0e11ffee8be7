//! `exits.bin`, version 1: the accesses that leave the guest, and first touches of pages of RAM.
//!
//! All fixed numbers little-endian. The header has 40 bytes, with the fields of `first-run.bin`; the first 8 bytes are
//! "BSEXITS\n". Each record is a tag byte and numbers as LEB128. The tag's low four bits give the kind of record.
//! Numbers marked ± are zigzag.
//! ```text
//! 1 row     tag bits 4-7: kind of access (Kind); ± address of the instruction minus that of the row before,
//!           node of calls.bin that ran it (0: unknown), place (0: unknown; a port or a page of addresses, plus 1)
//! 2 run     tag bit 4: has waits; ± row minus that of the run before, ± time minus that of the run before,
//!           number of accesses, [those of them in a loop that waits for a clock]
//! 3 late    tag bit 4: has waits; ± row minus that of the run before, number of accesses whose time is unknown,
//!           because the file was full, [those of them in such a loop]
//! 4 rest    tag bits 4-7: kind of access; number of accesses that have no row, because the table of rows was full
//! 5 exit    ± time minus that of the run before: QEMU ended normally
//! ```
//! Rows are numbered from 0 in the order of their records. Times are ns on the header's clock. An access has the time
//! of the last translation of code before it: code that runs for the first time ends all runs. So runs are not in the
//! order of their times. If QEMU is killed, the file lacks the last run of each row.

use crate::header::{NotThisHeader, Start};
use crate::number::{signed, unsigned};
use crate::{Broken, Bytes, Sink};

/// First bytes of the file.
pub const MAGIC: &[u8; 8] = b"BSEXITS\n";
/// Version of the format.
pub const VERSION: u16 = 1;
pub const HEADER_BYTES: usize = 40;
/// Offset of the guest's architecture in the header.
const TARGET_AT: usize = 32;
/// The largest length of a record: a tag and at most four numbers of at most ten bytes.
pub const RECORD_BYTES_MOST: usize = 48;
/// Pages of addresses have 4 KiB, on every architecture.
pub const PAGE_BITS: u32 = 12;

/// The kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// A read of a port (x86).
    PortRead = 0,
    PortWrite = 1,
    /// A read of a device's registers in the address space of memory.
    MmioRead = 2,
    MmioWrite = 3,
    /// A read of a model-specific register (x86).
    MsrRead = 4,
    MsrWrite = 5,
    /// The instruction CPUID (x86).
    Cpuid = 6,
    /// An instruction that waits for an interrupt: HLT, WFI.
    Halt = 7,
    /// A call of the hypervisor or of firmware: VMCALL, HVC, SMC, ECALL.
    Hypercall = 8,
    /// A read of a clock's register, which leaves no guest: RDTSC, CNTVCT, RDTIME.
    ClockRead = 9,
    /// The first access to a page of RAM or ROM. Its execution and devices' own accesses are not seen.
    FirstTouch = 10,
}

impl Kind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Kind; 11] = [
        Kind::PortRead,
        Kind::PortWrite,
        Kind::MmioRead,
        Kind::MmioWrite,
        Kind::MsrRead,
        Kind::MsrWrite,
        Kind::Cpuid,
        Kind::Halt,
        Kind::Hypercall,
        Kind::ClockRead,
        Kind::FirstTouch,
    ];

    /// The kind with this number.
    pub fn of(bits: u8) -> Option<Kind> {
        Kind::ALL.get(usize::from(bits)).copied()
    }
}

/// The header's bytes.
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
    Start::read::<HEADER_BYTES>(MAGIC, VERSION..=VERSION, TARGET_AT, file).map(|(start, _)| start)
}

/// The accesses that share a row: of one instruction, in one call path, to one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    pub kind: Kind,
    /// Address of the instruction.
    pub insn: u64,
    /// The node of `calls.bin` that ran it; 0 if it is unknown.
    pub node: u32,
    /// The port, or the number of the page of physical addresses; `None` if it is unknown or makes no sense.
    pub place: Option<u64>,
}

/// A number of accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub all: u64,
    /// Those of them in a loop that waits for a clock.
    pub in_waits: u64,
}

/// One record, with absolute numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    Row(Row),
    /// Accesses of a row at one time.
    Run {
        row: u32,
        at_ns: u64,
        counts: Counts,
    },
    /// Accesses of a row at unknown times.
    Late {
        row: u32,
        counts: Counts,
    },
    /// Accesses without a row.
    Rest {
        kind: Kind,
        count: u64,
    },
    /// QEMU ended normally.
    Exit {
        at_ns: u64,
    },
}

/// The values that the next record is relative to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stream {
    insn: u64,
    row: u32,
    at_ns: u64,
}

impl Stream {
    /// Writes a record.
    pub fn write(&mut self, record: &Record, to: &mut impl Sink) {
        match *record {
            Record::Row(row) => {
                to.byte(1 | (row.kind as u8) << 4);
                to.signed(signed(row.insn.wrapping_sub(self.insn)));
                to.number(row.node.into());
                to.number(row.place.map_or(0, |place| place.saturating_add(1)));
                self.insn = row.insn;
            }
            Record::Run { row, at_ns, counts } => {
                to.byte(2 | u8::from(counts.in_waits > 0) << 4);
                self.write_row(row, to);
                self.write_time(at_ns, to);
                write_counts(counts, to);
            }
            Record::Late { row, counts } => {
                to.byte(3 | u8::from(counts.in_waits > 0) << 4);
                self.write_row(row, to);
                write_counts(counts, to);
            }
            Record::Rest { kind, count } => {
                to.byte(4 | (kind as u8) << 4);
                to.number(count);
            }
            Record::Exit { at_ns } => {
                to.byte(5);
                self.write_time(at_ns, to);
            }
        }
    }

    /// Reads the next record.
    ///
    /// # Errors
    /// If the record is cut off or malformed. The rest of the file cannot be read then, because all of it is relative.
    pub fn read(&mut self, from: &mut Bytes) -> Result<Record, Broken> {
        let tag = from.byte()?;
        match tag & 15 {
            1 => {
                let kind = Kind::of(tag >> 4).ok_or(Broken::Malformed)?;
                self.insn = self.insn.wrapping_add(unsigned(from.signed()?));
                let node = u32::try_from(from.number()?).map_err(|_| Broken::Malformed)?;
                let place = from.number()?.checked_sub(1);
                Ok(Record::Row(Row { kind, insn: self.insn, node, place }))
            }
            2 => {
                let (row, at_ns) = (self.read_row(from)?, self.read_time(from)?);
                Ok(Record::Run { row, at_ns, counts: read_counts(tag, from)? })
            }
            3 => Ok(Record::Late { row: self.read_row(from)?, counts: read_counts(tag, from)? }),
            4 => Ok(Record::Rest { kind: Kind::of(tag >> 4).ok_or(Broken::Malformed)?, count: from.number()? }),
            5 => Ok(Record::Exit { at_ns: self.read_time(from)? }),
            _ => Err(Broken::Malformed),
        }
    }

    fn write_row(&mut self, row: u32, to: &mut impl Sink) {
        to.signed(i64::from(row) - i64::from(self.row));
        self.row = row;
    }

    fn read_row(&mut self, from: &mut Bytes) -> Result<u32, Broken> {
        let row = i64::from(self.row).checked_add(from.signed()?).ok_or(Broken::Malformed)?;
        self.row = u32::try_from(row).map_err(|_| Broken::Malformed)?;
        Ok(self.row)
    }

    fn write_time(&mut self, at_ns: u64, to: &mut impl Sink) {
        to.signed(signed(at_ns.wrapping_sub(self.at_ns)));
        self.at_ns = at_ns;
    }

    fn read_time(&mut self, from: &mut Bytes) -> Result<u64, Broken> {
        self.at_ns = self.at_ns.wrapping_add(unsigned(from.signed()?));
        Ok(self.at_ns)
    }
}

fn write_counts(counts: Counts, to: &mut impl Sink) {
    to.number(counts.all);
    if counts.in_waits > 0 {
        to.number(counts.in_waits);
    }
}

fn read_counts(tag: u8, from: &mut Bytes) -> Result<Counts, Broken> {
    let counts = Counts { all: from.number()?, in_waits: if tag & 16 == 0 { 0 } else { from.number()? } };
    if counts.in_waits <= counts.all { Ok(counts) } else { Err(Broken::Malformed) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Clock;
    use proptest::prelude::*;

    fn counts(all: u64, in_waits: u64) -> Counts {
        Counts { all, in_waits }
    }

    /// Records with their bytes, as in older files.
    #[test]
    fn the_bytes_of_the_format() {
        let start = Start {
            clock: Clock::Virtual,
            api: 1,
            vcpus: 1,
            zero_host_ns: 600,
            install_host_ns: 1000,
            target: *b"riscv64\0",
        };
        let head = header_bytes(&start);
        assert_eq!(&head[..12], b"BSEXITS\n\x01\0\x01\x01");
        assert_eq!(read_header(&head), Ok(start));
        assert_eq!(read_header(&head[..39]), Err(NotThisHeader::Other));
        let row = |kind, insn, node, place| Record::Row(Row { kind, insn, node, place });
        let records = [
            (row(Kind::PortRead, 0x10, 0, Some(0x61)), &[0x01, 0x20, 0, 0x62][..]),
            (row(Kind::FirstTouch, 0x0f, 300, None), &[0xa1, 1, 0xac, 2, 0]),
            (Record::Run { row: 1, at_ns: 5, counts: counts(2, 0) }, &[2, 2, 10, 2]),
            (Record::Run { row: 0, at_ns: 4, counts: counts(9, 7) }, &[0x12, 1, 1, 9, 7]),
            (Record::Late { row: 1, counts: counts(7, 0) }, &[3, 2, 7]),
            (Record::Rest { kind: Kind::MmioWrite, count: 9 }, &[0x34, 9]),
            (Record::Exit { at_ns: 6 }, &[5, 4]),
        ];
        let (mut writer, mut reader) = (Stream::default(), Stream::default());
        for (record, bytes) in records {
            let mut written = Vec::new();
            writer.write(&record, &mut written);
            assert_eq!(written, bytes, "{record:?}");
            assert_eq!(reader.read(&mut Bytes::new(bytes)), Ok(record));
        }
        assert_eq!(Stream::default().read(&mut Bytes::new(&[0xb1, 0, 0, 0])), Err(Broken::Malformed), "no such kind");
        assert_eq!(Stream::default().read(&mut Bytes::new(&[3, 1, 0])), Err(Broken::Malformed), "row -1");
        let more_waits = Stream::default().read(&mut Bytes::new(&[0x13, 0, 1, 2]));
        assert_eq!(more_waits, Err(Broken::Malformed), "more waits than accesses");
    }

    fn record() -> impl Strategy<Value = Record> {
        let kind = || (0..11_u8).prop_map(|bits| Kind::of(bits).unwrap());
        let place = proptest::option::of(0..u64::MAX);
        let counts = || any::<(u64, u64)>().prop_map(|(a, b)| Counts { all: a.max(b), in_waits: a.min(b) });
        let row = (kind(), any::<u64>(), any::<u32>(), place);
        prop_oneof![
            row.prop_map(|(kind, insn, node, place)| Record::Row(Row { kind, insn, node, place })),
            (any::<(u32, u64)>(), counts()).prop_map(|((row, at_ns), counts)| Record::Run { row, at_ns, counts }),
            (any::<u32>(), counts()).prop_map(|(row, counts)| Record::Late { row, counts }),
            (kind(), any::<u64>()).prop_map(|(kind, count)| Record::Rest { kind, count }),
            any::<u64>().prop_map(|at_ns| Record::Exit { at_ns }),
        ]
    }

    proptest! {
        #[test]
        fn written_records_are_read_back_and_fit(records in proptest::collection::vec(record(), 0..20)) {
            let (mut writer, mut reader) = (Stream::default(), Stream::default());
            for record in records {
                let mut bytes = Vec::new();
                writer.write(&record, &mut bytes);
                prop_assert!(bytes.len() <= RECORD_BYTES_MOST);
                let mut from = Bytes::new(&bytes);
                prop_assert_eq!(reader.read(&mut from), Ok(record));
                prop_assert!(from.is_at_end());
            }
        }

        #[test]
        fn any_bytes_are_read_or_broken(bytes: Vec<u8>) {
            let (mut stream, mut from) = (Stream::default(), Bytes::new(&bytes));
            while !from.is_at_end() && stream.read(&mut from).is_ok() {}
        }
    }
}
