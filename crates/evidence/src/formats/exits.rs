//! `exits.bin`: the accesses that leave the guest, from the QEMU plugin.
//!
//! `plugin_formats::exits` has the format. A row's function is the one that its instruction is in. Its call path is in
//! `calls.bin`, which a recording may have beside it. Its device follows from the address or port, which the machines
//! of QEMU fix for some devices.

use crate::formats::plugin_header::{self, since};
use crate::input::records_max;
use plugin_formats::exits::{HEADER_BYTES, Kind, MAGIC, Record, Row, Stream, read_header};
use plugin_formats::{Bytes, Clock};
use timeline::{DiagnosticKind, Diagnostics, ExitKind, ExitRun};

/// Memory for one record, with its place on the timeline.
const RECORD_COST: usize = 128;

/// The records of a file.
#[derive(Debug, Default)]
pub struct Counted {
    /// The guest's architecture.
    pub target: String,
    pub rows: Vec<Row>,
    pub runs: Vec<ExitRun>,
    pub rest: Vec<(ExitKind, u64)>,
    /// True if QEMU ended normally.
    pub has_end: bool,
}

/// True for a file of the plugin's.
pub fn recognise(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Reads the file. Malformed records are counted in `diagnostics`, and those before them are returned. `place` names
/// the file.
pub fn read(place: &str, bytes: &[u8], diagnostics: &mut Diagnostics) -> Counted {
    let mut counted = Counted::default();
    let kinds = [DiagnosticKind::ExitsWithoutHeader, DiagnosticKind::ExitsVersionUnknown];
    let Some(start) = plugin_header::known(read_header(bytes), (place, bytes), kinds, diagnostics) else {
        return counted;
    };
    counted.target = plugin_header::target(&start.target);
    let zero = if start.clock == Clock::Host { start.zero_ns() } else { 0 };
    let (mut records, mut stream) = (Bytes::new(&bytes[HEADER_BYTES..]), Stream::default());
    let mut left = records_max(bytes.len(), RECORD_COST);
    while !records.is_at_end() {
        let at = HEADER_BYTES + records.at();
        if left == 0 {
            let (about, beyond) = (format!("bytes of {place}"), (bytes.len() - at) as u64);
            diagnostics.add(DiagnosticKind::EntriesBeyondBound, &about, beyond, None, || place.to_owned());
            break;
        }
        left -= 1;
        let added = stream.read(&mut records).ok().and_then(|record| add(record, zero, &mut counted));
        if added.is_none() {
            diagnostics.note(DiagnosticKind::ExitMalformed, || format!("{place}: byte {at}"));
            break;
        }
    }
    let uncounted = counted.rest.iter().fold(0_u64, |sum, (_, count)| sum.saturating_add(*count));
    diagnostics.note_many(DiagnosticKind::ExitTableFull, uncounted, || place.to_owned());
    counted
}

/// Adds a record. Returns `None` if it mentions a row that is not defined.
fn add(record: Record, zero: u64, to: &mut Counted) -> Option<()> {
    match record {
        Record::Row(row) => to.rows.push(row),
        Record::Run { row, at_ns, counts } => {
            to.rows.get(row as usize)?;
            let at = Some(since(zero, at_ns));
            to.runs.push(ExitRun { row, at, count: counts.all, in_waits: counts.in_waits });
        }
        Record::Late { row, counts } => {
            to.rows.get(row as usize)?;
            to.runs.push(ExitRun { row, at: None, count: counts.all, in_waits: counts.in_waits });
        }
        Record::Rest { kind, count } => to.rest.push((exit_kind(kind), count)),
        Record::Exit { .. } => to.has_end = true,
    }
    Some(())
}

pub(crate) fn exit_kind(kind: Kind) -> ExitKind {
    match kind {
        Kind::PortRead => ExitKind::PortRead,
        Kind::PortWrite => ExitKind::PortWrite,
        Kind::MmioRead => ExitKind::MmioRead,
        Kind::MmioWrite => ExitKind::MmioWrite,
        Kind::MsrRead => ExitKind::MsrRead,
        Kind::MsrWrite => ExitKind::MsrWrite,
        Kind::Cpuid => ExitKind::Cpuid,
        Kind::Halt => ExitKind::Halt,
        Kind::Hypercall => ExitKind::Hypercall,
        Kind::ClockRead => ExitKind::ClockRead,
        Kind::FirstTouch => ExitKind::FirstTouch,
    }
}
