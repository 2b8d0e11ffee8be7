//! Comma-separated values (RFC 4180): `csv` has a row per span, `csv-where` a row per row of `where`.
//!
//! Columns are named in the first line; times are integers of nanoseconds (`_ns`), or of
//! the counter's ticks (`_ticks`). Text passes `harmless`, so a row is a line; a cell
//! that a spreadsheet would compute (`=`, `+`, `-`, `@` at its start) gets an apostrophe before it.

use super::Export;
use crate::{Boot, harmless};
use std::borrow::Cow;
use std::io::{self, Write};
use timeline::SpanKind;

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
        let unit = unit(boot);
        writeln!(out, "track,track_name,start_{unit},end_{unit},depth,kind,name,detail")?;
        let (timeline, mut of, mut track_name) = (boot.timeline, None, String::new());
        for (id, row) in timeline.spans.iter() {
            if of != Some(row.track) {
                of = Some(row.track);
                track_name = cell(boot.track_name(row.track)).into_owned();
            }
            writeln!(
                out,
                "{},{track_name},{},{},{},{},{},{}",
                row.track.0,
                row.start.0,
                row.end.0,
                timeline.spans.depth(id),
                kind(row.kind),
                cell(timeline.names.get(row.name)),
                cell(timeline.names.get(row.detail))
            )?;
        }
        Ok(())
    }
}

/// The `csv-where` format: the boot path by what one can fix.
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
        let unit = unit(boot);
        writeln!(out, "name,self_{unit},total_{unit},count,share,tracks")?;
        for row in &boot.tables().wheres {
            let (name, tracks) = (cell(&row.name), row.tracks.join(" | "));
            let (own, total) = (row.self_time.0, row.total_time.0);
            writeln!(out, "{name},{own},{total},{},{:.6},{}", row.count, row.share, cell(&tracks))?;
        }
        Ok(())
    }
}

/// What the columns of times count, at the end of their names.
fn unit(boot: &Boot) -> &'static str {
    boot.timeline.unit.name()
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

pub(crate) fn cell(text: &str) -> Cow<'_, str> {
    let text = harmless(text);
    let computed = text.starts_with(['=', '+', '-', '@']);
    if !computed && !text.contains([',', '"']) {
        return text;
    }
    let apostrophe = if computed { "'" } else { "" };
    Cow::Owned(format!("\"{apostrophe}{}\"", text.replace('"', "\"\"")))
}

#[cfg(test)]
mod tests {
    use super::cell;

    #[test]
    fn cells_are_quoted_where_they_must_be() {
        assert_eq!(cell("acpi_init"), "acpi_init");
        assert_eq!(cell("a,b"), "\"a,b\"");
        assert_eq!(cell("say \"x\""), "\"say \"\"x\"\"\"");
        assert_eq!(cell("=1+1"), "\"'=1+1\"");
        assert_eq!(cell("two\nlines"), "two\\nlines");
    }
}
