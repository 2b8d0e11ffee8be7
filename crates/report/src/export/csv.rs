//! Comma-separated values (RFC 4180): `csv` has a row per span, `csv-where` a row per row of `where`.
//!
//! The first line names the columns. Times are integers, in nanoseconds (`_ns`) or in the counter's ticks (`_ticks`). A
//! deterministic boot has instants on the guest's clock (`_guest_ns`), and with a machine model on that of its machine
//! (`_priced_ns`); a row's instructions and timed waits are apart.
//! Text passes `harmless`, so a row is one line. A cell that a spreadsheet would compute (`=`, `+`, `-`, `@` at its
//! start) gets an apostrophe in front.

use super::Export;
use crate::{Boot, harmless};
use ::csv::{Terminator, Writer, WriterBuilder};
use std::borrow::Cow;
use std::io::{self, Write};
use timeline::{SpanKind, Unit};

/// The `csv` format: spans.
pub struct Spans;

impl Export for Spans {
    fn name(&self) -> &'static str {
        "csv"
    }

    fn extension(&self) -> &'static str {
        "csv"
    }

    fn about(&self) -> &'static str {
        "spans: track, start, end, depth, kind, name, detail"
    }

    fn write(&self, boot: &Boot, out: &mut dyn Write) -> io::Result<()> {
        let (unit, mut out) = (unit(boot), writer(out));
        let (start, end) = (format!("start_{unit}"), format!("end_{unit}"));
        out.write_record(["track", "track_name", &start, &end, "depth", "kind", "name", "detail"])?;
        let (timeline, mut of, mut track_name) = (boot.timeline, None, String::new());
        let mut numbers = [itoa::Buffer::new(), itoa::Buffer::new(), itoa::Buffer::new(), itoa::Buffer::new()];
        for (id, row) in timeline.spans.iter() {
            if of != Some(row.track) {
                of = Some(row.track);
                track_name = cell(boot.track_name(row.track)).into_owned();
            }
            let [track, start, end, depth] = &mut numbers;
            out.write_field(track.format(row.track.0))?;
            out.write_field(&track_name)?;
            out.write_field(start.format(row.start.0))?;
            out.write_field(end.format(row.end.0))?;
            out.write_field(depth.format(timeline.spans.depth(id)))?;
            out.write_field(kind(row.kind))?;
            out.write_field(cell(timeline.names.get(row.name)).as_bytes())?;
            out.write_field(cell(timeline.names.get(row.detail)).as_bytes())?;
            out.write_record(None::<&[u8]>)?;
        }
        out.flush()
    }
}

/// The `csv-where` format: the boot path in the rows that a reader can act on.
pub struct Where;

impl Export for Where {
    fn name(&self) -> &'static str {
        "csv-where"
    }

    fn extension(&self) -> &'static str {
        "csv"
    }

    fn about(&self) -> &'static str {
        "rows of the boot path, as show prints them"
    }

    fn write(&self, boot: &Boot, out: &mut dyn Write) -> io::Result<()> {
        let (unit, mut out) = (unit(boot), writer(out));
        let counts = boot.timeline.unit == Unit::Instructions;
        let lengths = match counts {
            true => ["self_instructions", "self_waited_ns", "total_instructions", "total_waited_ns"].map(str::to_owned),
            false => [format!("self_{unit}"), String::new(), format!("total_{unit}"), String::new()],
        };
        let lengths = lengths.iter().map(String::as_str).filter(|title| !title.is_empty());
        out.write_record(std::iter::once("name").chain(lengths).chain(["count", "share", "tracks"]))?;
        for row in &boot.tables().wheres {
            let (own, total) = (row.self_cost(), row.total_cost());
            let lengths = match counts {
                true => vec![own.instructions(), own.waited, total.instructions(), total.waited],
                false => vec![own.length, total.length],
            };
            let numbers: Vec<String> =
                lengths.iter().map(|ns| ns.0.to_string()).chain([row.count.to_string()]).collect();
            let tracks = row.tracks.join(" | ");
            out.write_field(cell(&row.name).as_bytes())?;
            numbers.iter().try_for_each(|number| out.write_field(number))?;
            out.write_field(format!("{:.6}", row.share))?;
            out.write_field(cell(&tracks).as_bytes())?;
            out.write_record(None::<&[u8]>)?;
        }
        out.flush()
    }
}

/// The unit of the times, as a suffix of the column names.
fn unit(boot: &Boot) -> &'static str {
    match boot.timeline.unit {
        Unit::GuestTime | Unit::Instructions => "guest_ns",
        Unit::Priced => "priced_ns",
        unit => unit.name(),
    }
}

/// The word for a kind of span in exports.
pub fn kind(kind: SpanKind) -> &'static str {
    match kind {
        SpanKind::Stage => "stage",
        SpanKind::Level => "level",
        SpanKind::Initcall => "initcall",
        SpanKind::Module => "module",
        SpanKind::Probe => "probe",
        SpanKind::Attach => "attach",
        SpanKind::Mount => "mount",
        SpanKind::Work => "work",
        SpanKind::Call => "call",
        SpanKind::Interrupt => "interrupt",
        SpanKind::Process => "process",
        SpanKind::Message => "message",
    }
}

/// A writer that ends each record with a line feed.
pub(crate) fn writer<W: Write>(out: W) -> Writer<W> {
    WriterBuilder::new().terminator(Terminator::Any(b'\n')).from_writer(out)
}

/// Text for a cell, harmless to a terminal and to a spreadsheet. The writer adds quotes.
pub(crate) fn cell(text: &str) -> Cow<'_, str> {
    let text = harmless(text);
    if text.starts_with(['=', '+', '-', '@']) { Cow::Owned(format!("'{text}")) } else { text }
}

#[cfg(test)]
mod tests {
    use super::{cell, writer};

    #[test]
    fn a_spreadsheet_computes_no_cell() {
        for computed in ["=1+1", "+1", "-1", "@SUM(A1)"] {
            assert_eq!(cell(computed), format!("'{computed}"));
        }
        assert_eq!(cell("acpi_init=1"), "acpi_init=1");
    }

    #[test]
    fn cells_are_quoted_where_they_must_be_and_read_as_they_were() {
        let texts = ["acpi_init", "a,b", "say \"x\"", "=1+1", "two\nlines", "", "#"];
        let mut out = Vec::new();
        {
            let mut out = writer(&mut out);
            out.write_record(texts.map(|text| cell(text).into_owned())).unwrap();
        }
        assert_eq!(
            String::from_utf8(out.clone()).unwrap(),
            "acpi_init,\"a,b\",\"say \"\"x\"\"\",'=1+1,two\\nlines,,#\n"
        );
        let mut records = ::csv::ReaderBuilder::new().has_headers(false).from_reader(out.as_slice()).into_records();
        let read = records.next().unwrap().unwrap();
        assert_eq!(read, texts.map(|text| cell(text).into_owned()).to_vec());
        assert!(records.next().is_none());
    }
}
