//! Reads the records of a file, unpacked and in order of time.

use super::attributes::{Attributes, bit, id_of_sample, time_of_sample};
use crate::input::bytes::Bytes;
use crate::input::{UNPACKED_BYTES_MAX, records_max};
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

/// The bytes of memory that a record takes, here and as a sample on the timeline.
const RECORD_COST: usize = 300;

/// The numbers of records, as Linux and perf give them.
mod number {
    pub(super) const MMAP: u32 = 1;
    pub(super) const LOST: u32 = 2;
    pub(super) const COMM: u32 = 3;
    pub(super) const FORK: u32 = 7;
    pub(super) const SAMPLE: u32 = 9;
    pub(super) const MMAP2: u32 = 10;
    pub(super) const LOST_SAMPLES: u32 = 13;
    pub(super) const HEADER_ATTR: u32 = 64;
    pub(super) const HEADER_EVENT_TYPE: u32 = 65;
    pub(super) const TRACING_DATA: u32 = 66;
    pub(super) const AUXTRACE: u32 = 71;
    pub(super) const EVENT_UPDATE: u32 = 78;
    pub(super) const COMPRESSED: u32 = 81;
    pub(super) const COMPRESSED2: u32 = 83;
}

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Sample,
    /// A thread gets a new name.
    Thread,
    Fork,
    /// A file was mapped.
    Mapped {
        second_form: bool,
    },
    Lost,
}

/// A record of a file.
pub(super) struct Record<'a> {
    pub kind: Kind,
    number: u32,
    /// The CPU's mode, and other bits.
    pub mode: u16,
    pub body: &'a [u8],
    /// The end of the record: an offset in the file's records or in the unpacked bytes.
    pub at: usize,
}

impl Record<'_> {
    /// Returns the number of lost records. `LOST_SAMPLES` has only this number; `LOST` has an event's id before it.
    pub(super) fn lost(&self) -> Option<u64> {
        let mut bytes = Bytes(self.body);
        if self.number == number::LOST {
            bytes.u64()?;
        }
        bytes.u64()
    }
}

/// The records of a file.
pub(super) struct Found<'a> {
    plain: &'a [u8],
    unpacked: Vec<u8>,
    pub is_cut: bool,
}

/// Unpacks packed records, and reads the records that describe events.
pub(super) fn read<'a>(records: &'a [u8], attributes: &mut Attributes) -> Found<'a> {
    let mut found = Found { plain: records, unpacked: Vec::new(), is_cut: false };
    let mut decoder = None;
    let mut bytes = Bytes(records);
    while let Some((number, _, body)) = next(&mut bytes) {
        let whole = match number {
            number::HEADER_ATTR => attributes.add_record(body),
            number::HEADER_EVENT_TYPE => attributes.name_type(body),
            number::EVENT_UPDATE => attributes.rename(body),
            number::COMPRESSED => unpack(body, &mut decoder, &mut found.unpacked),
            number::COMPRESSED2 => {
                Bytes(body).sized(8).and_then(|body| unpack(body, &mut decoder, &mut found.unpacked))
            }
            _ => Some(()),
        };
        found.is_cut |= whole.is_none();
    }
    found.is_cut |= !bytes.0.is_empty();
    found
}

/// Returns the next record's number, mode and body. Skips the data that follow some records and belong to them.
fn next<'a>(bytes: &mut Bytes<'a>) -> Option<(u32, u16, &'a [u8])> {
    const HEAD_BYTES: u64 = 8;
    let before = *bytes;
    let mut read_one = || {
        let (number, mode, length) = (bytes.u32()?, bytes.u16()?, bytes.u16()?);
        let body = bytes.take(u64::from(length).checked_sub(HEAD_BYTES)?)?;
        let behind = match number {
            number::AUXTRACE => Bytes(body).u64()?,
            number::TRACING_DATA => u64::from(Bytes(body).u32()?).next_multiple_of(8),
            _ => 0,
        };
        bytes.take(behind)?;
        Some((number, mode, body))
    };
    let record = read_one();
    if record.is_none() {
        *bytes = before;
    }
    record
}

/// Unpacks a record. Successive packed records form one stream.
fn unpack(packed: &[u8], decoder: &mut Option<Decoder<'static>>, out: &mut Vec<u8>) -> Option<()> {
    const STEP: usize = 1 << 16;
    if decoder.is_none() {
        *decoder = Decoder::new().ok();
    }
    let decoder = decoder.as_mut()?;
    let mut input = InBuffer::around(packed);
    let mut step = vec![0; STEP];
    loop {
        let before = input.pos();
        let mut output = OutBuffer::around(&mut step[..]);
        decoder.run(&mut input, &mut output).ok()?;
        let length = output.pos();
        if (out.len() + length) as u64 > UNPACKED_BYTES_MAX {
            return None;
        }
        out.extend_from_slice(&step[..length]);
        if length < STEP && input.pos() == packed.len() {
            return Some(());
        }
        if length == 0 && input.pos() == before {
            return None;
        }
    }
}

impl Found<'_> {
    /// Returns all records that are used, in order of time, and the number of records that are not kept. A record
    /// without a time stays behind the one before it.
    pub(super) fn in_order(&self, attributes: &Attributes) -> (Vec<Record<'_>>, u64) {
        // A sample without a stack has at least 48 bytes, so this bound keeps all of them in files of up to 13 MB.
        let most = records_max(5 * (self.plain.len() + self.unpacked.len()) / 4, RECORD_COST);
        let (mut records, mut last, mut beyond) = (Vec::new(), 0, 0);
        for part in [self.plain, &self.unpacked] {
            let mut bytes = Bytes(part);
            while let Some((number, mode, body)) = next(&mut bytes) {
                let Some(kind) = kind(number) else { continue };
                if records.len() == most {
                    beyond += 1;
                    continue;
                }
                let at = part.len() - bytes.0.len();
                let record = Record { kind, number, mode, body, at };
                let time = time(&record, attributes);
                last = time.unwrap_or(last);
                records.push((last, record));
            }
        }
        records.sort_by_key(|(time, _)| *time);
        (records.into_iter().map(|(_, record)| record).collect(), beyond)
    }
}

fn kind(number: u32) -> Option<Kind> {
    Some(match number {
        number::SAMPLE => Kind::Sample,
        number::COMM => Kind::Thread,
        number::FORK => Kind::Fork,
        number::MMAP => Kind::Mapped { second_form: false },
        number::MMAP2 => Kind::Mapped { second_form: true },
        number::LOST | number::LOST_SAMPLES => Kind::Lost,
        _ => return None,
    })
}

/// Returns the time of a record.
fn time(record: &Record, attributes: &Attributes) -> Option<u64> {
    let first = attributes.all.first()?;
    if record.kind == Kind::Sample {
        let attribute = &attributes.all[attributes.of(id_of_sample(record.body, first))];
        return time_of_sample(record.body, attribute);
    }
    // Other records end with: thread, time, id, stream, CPU, identifier.
    if !first.sample_id_all || first.sample_type & bit::TIME == 0 {
        return None;
    }
    let from_end = [bit::TIME, bit::ID, bit::STREAM_ID, bit::CPU, bit::IDENTIFIER];
    let from_end = 8 * from_end.iter().filter(|bit| first.sample_type & **bit != 0).count();
    Bytes(record.body.get(record.body.len().checked_sub(from_end)?..)?).u64()
}
