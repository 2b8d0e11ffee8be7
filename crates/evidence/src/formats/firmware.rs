//! Lines that firmware prints on its debug port (SeaBIOS on 0x402; OVMF and qboot print lines there too).
//!
//! The lines have no stamps; the host stamped each line when it arrived. Each line becomes a span that lasts until the
//! next line. The last line has a span only if the code that ran shows when the firmware ended. All lines are treated
//! alike: code that knows the machine has to decide which line ends the firmware.

use crate::input::index::Index;
use crate::input::records_max;
use crate::input::text::{Lines, lossy, shorten};
use timeline::{DiagnosticKind, Diagnostics, Mark, NameId, Ns, SpanKind, SpanRow, Timeline, TrackKind};

/// A line that firmware printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// The line, without control characters, shortened.
    pub text: String,
    /// The arrival of its first byte, if the index has it.
    pub at: Option<Ns>,
    /// Its number, from 1.
    pub line: u32,
}

/// The part of a line that is read; a span's name is still shorter.
const LINE_BYTES_MAX: usize = 4096;

/// The name of the track of firmware and loaders.
pub(crate) const TRACK: &str = "firmware";
/// The name of this evidence in diagnostics.
const NAME: &str = "firmware.log";
/// Memory of a line, in bytes, here and on the timeline.
const LINE_COST: usize = 500;

/// Reads the firmware's lines. Blank lines are left out.
pub fn read(bytes: &[u8], index: &Index, diagnostics: &mut Diagnostics) -> Vec<Said> {
    let (mut lines, most) = (Vec::new(), records_max(bytes.len(), LINE_COST));
    for line in Lines::new(bytes) {
        if lines.len() == most {
            let place = || format!("{NAME}:{}", line.number);
            diagnostics.note_about(DiagnosticKind::EntriesBeyondBound, NAME, place);
            continue;
        }
        let text = shorten(&lossy(&line.bytes[..line.bytes.len().min(LINE_BYTES_MAX)]));
        let at = index.arrival(line.offset as u64);
        if !text.is_empty() {
            lines.push(Said { text, at, line: line.number });
        }
    }
    lines
}

/// Adds a span from each line to the next on the firmware track. The last span ends at `until`, when another stage
/// begins. Lines after that become marks: a loader or the kernel's setup code called the firmware.
pub fn build(lines: &[Said], until: Ns, timeline: &mut Timeline) {
    build_on(TRACK, lines, until, timeline);
}

/// The same on the track of that name.
pub(crate) fn build_on(track: &str, lines: &[Said], until: Ns, timeline: &mut Timeline) {
    let name = timeline.names.intern(track);
    let track = timeline.tracks.named(name, TrackKind::Firmware);
    let placed: Vec<(Ns, &Said)> = lines.iter().filter_map(|s| Some((s.at?, s))).collect();
    let unplaced = lines.len() - placed.len();
    timeline.diagnostics.note_many(DiagnosticKind::FirmwareLineWithoutTime, unplaced as u64, String::new);
    for (i, &(start, line)) in placed.iter().enumerate() {
        if start >= until {
            let name = timeline.names.intern(&line.text);
            timeline.marks.push(Mark { at: start, name, track });
            continue;
        }
        let end = placed.get(i + 1).map_or(until, |&(next, _)| next.min(until));
        let name = timeline.names.intern(&line.text);
        let detail = NameId::EMPTY;
        timeline.spans.push(SpanRow { name, detail, start, end, track, kind: SpanKind::Message }, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use timeline::TimeBase;

    #[test]
    fn spans_last_from_line_to_line() {
        let mut diagnostics = Diagnostics::default();
        let text = format!("SeaBIOS (version 1.16.2)\n\n\x1b{}\r\nBooting from ROM...\nlate\n", "x".repeat(80));
        let index = Index::read("firmware.idx", b"0 100\n26 150\n109 400\n129 900\n", &mut diagnostics);
        let lines = read(text.as_bytes(), &index, &mut diagnostics);
        let mut timeline = Timeline::new(TimeBase::Host);
        build(&lines, Ns(700), &mut timeline);
        let spans: Vec<_> =
            timeline.spans.iter().map(|(_, s)| (timeline.names.get(s.name), s.start.0, s.end.0)).collect();
        let long = format!("{}…", "x".repeat(60));
        let expected = [("SeaBIOS (version 1.16.2)", 100, 150), (&*long, 150, 400), ("Booting from ROM...", 400, 700)];
        assert_eq!(spans, expected);
        assert_eq!(timeline.marks.iter().map(|m| timeline.names.get(m.name)).collect::<Vec<_>>(), ["late"]);
    }

    #[test]
    fn lines_without_arrival_are_counted() {
        let mut timeline = Timeline::new(TimeBase::Evidence);
        let lines = read(b"a\nb\n", &Index::default(), &mut timeline.diagnostics);
        build(&lines, Ns(1), &mut timeline);
        assert!(timeline.spans.is_empty());
        assert_eq!(timeline.diagnostics.count(timeline::DiagnosticKind::FirmwareLineWithoutTime), 2);
    }
}
