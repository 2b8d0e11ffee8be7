//! What firmware says on its debug port (SeaBIOS on 0x402; OVMF and qboot print lines there too).
//!
//! The lines have no stamps of their own; the host stamped each on arrival. All that is known is
//! what was said last, so from one line to the next is a span called by the line. The last line has a span only
//! where the code that ran says how long the firmware went on. Which line means
//! that firmware is over is for whoever knows the machine to say: here all lines are alike.

use crate::input::index::Index;
use crate::input::records_max;
use crate::input::text::shorten;
use crate::input::text::{Lines, lossy};
use timeline::{DiagnosticKind, Diagnostics, Mark, NameId, Ns, SpanKind, SpanRow, Timeline, TrackKind};

/// A line that firmware printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// The line, without control characters, shortened.
    pub text: String,
    /// When its first byte arrived, if the index says.
    pub at: Option<Ns>,
    /// Its number, from 1.
    pub line: u32,
}

/// A line is looked at up to here; its name is shorter still.
const LINE_BYTES_MAX: usize = 4096;

/// The name of the track of firmware and loaders.
pub(crate) const TRACK: &str = "firmware";
/// What diagnostics call it.
const NAME: &str = "firmware.log";
/// What a line takes in memory, here and on the timeline.
const LINE_COST: usize = 500;

/// Reads firmware's lines; blank ones say nothing.
pub fn read(bytes: &[u8], index: &Index, diagnostics: &mut Diagnostics) -> Vec<Said> {
    let (mut said, most) = (Vec::new(), records_max(bytes.len(), LINE_COST));
    for line in Lines::new(bytes) {
        if said.len() == most {
            let place = || format!("{NAME}:{}", line.number);
            diagnostics.note_about(DiagnosticKind::EntriesBeyondBound, NAME, place);
            continue;
        }
        let text = shorten(&lossy(&line.bytes[..line.bytes.len().min(LINE_BYTES_MAX)]));
        let at = index.arrival(line.offset as u64);
        if !text.is_empty() {
            said.push(Said { text, at, line: line.number });
        }
    }
    said
}

/// Adds a span from each line to the next on the firmware track; the last one ends at `until`, when
/// something else is known to have begun. Lines after that (a loader or the kernel's setup code calls
/// firmware) are marks.
pub fn build(said: &[Said], until: Ns, timeline: &mut Timeline) {
    build_on(TRACK, said, until, timeline);
}

/// The same on the track of that name.
pub(crate) fn build_on(track: &str, said: &[Said], until: Ns, timeline: &mut Timeline) {
    let name = timeline.names.intern(track);
    let track = timeline.tracks.named(name, TrackKind::Firmware);
    let placed: Vec<(Ns, &Said)> = said.iter().filter_map(|s| Some((s.at?, s))).collect();
    let unplaced = said.len() - placed.len();
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
    fn from_one_line_to_the_next() {
        let mut diagnostics = Diagnostics::default();
        let text = format!("SeaBIOS (version 1.16.2)\n\n\x1b{}\r\nBooting from ROM...\nlate\n", "x".repeat(80));
        let index = Index::read("firmware.idx", b"0 100\n26 150\n109 400\n129 900\n", &mut diagnostics);
        let said = read(text.as_bytes(), &index, &mut diagnostics);
        let mut timeline = Timeline::new(TimeBase::Host);
        build(&said, Ns(700), &mut timeline);
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
        let said = read(b"a\nb\n", &Index::default(), &mut timeline.diagnostics);
        build(&said, Ns(1), &mut timeline);
        assert!(timeline.spans.is_empty());
        assert_eq!(timeline.diagnostics.count(timeline::DiagnosticKind::FirmwareLineWithoutTime), 2);
    }
}
