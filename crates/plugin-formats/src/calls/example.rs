//! A header and one record of each kind, with its bytes, for tests of the writer and of the readers.

use super::{Header, Kind, Record, Stretch};
use crate::header::{Clock, Start};

pub const HEADER: Header = Header {
    start: Start {
        clock: Clock::Host,
        api: 1,
        vcpus: 2,
        zero_host_ns: 600,
        install_host_ns: 1000,
        target: *b"x86_64\0\0",
    },
    ticks_per_second: 2_000_000_000,
    min_call_ticks: 300,
    call_cost_ps: 40_000,
    interval_ticks: 20_000_000,
};

/// The records of a chunk, in order. Three figures follow [`Record::Counts`]; they are not in this list.
pub const RECORDS: [(Record, &[u8]); 13] = [
    (
        Record::Node { number: 1, parent: 0, kind: Kind::Stack, function: 0xfff0, stack: 0x8000 },
        &[0x01, 2, 0, 0xe0, 0xff, 7, 0x80, 0x80, 2],
    ),
    (Record::Node { number: 2, parent: 1, kind: Kind::Call, function: 0x1_0000, stack: 0 }, &[0x11, 2, 1, 0x20]),
    (Record::Switch { node: 1, at: 100 }, &[5, 2, 100]),
    (Record::Open(stretch(2, 150, 20)), &[4, 2, 50, 20]),
    (Record::Idle(stretch(2, 300, 100)), &[6, 0, 0x96, 1, 100]),
    (Record::Span(stretch(2, 500, 370)), &[3, 0, 0xc8, 1, 0xf2, 2]),
    (Record::Totals { node: 2, calls: 1, insns: 70, ticks: Some(270) }, &[0x12, 0, 1, 70, 0x8e, 2]),
    (Record::Totals { node: 1, calls: 0, insns: 9, ticks: None }, &[2, 1, 0, 9]),
    (Record::Sync { at: 510, other_ns: 2000 }, &[7, 10, 0xd0, 0x0f]),
    (Record::Mark { at: 510, kind: 1, insns: 79 }, &[8, 0, 1, 79]),
    (Record::Interval { at: 520, insns: 80 }, &[9, 10, 80]),
    (Record::Counts(3), &[10, 3]),
    (Record::Exit { at: 520 }, &[11, 0]),
];

const fn stretch(node: u32, to: u64, length: u64) -> Stretch {
    Stretch { node, to, length }
}
