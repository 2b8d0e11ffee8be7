//! What firmware says on its debug port (SeaBIOS on 0x402; OVMF and qboot print lines there too).
//!
//! The lines have no stamps of their own; the host stamped each on arrival. All that is known is
//! what was said last, so from one line to the next is a span called by the line. The last line has a span only
//! where the code that ran says how long the firmware went on. Which line means
//! that firmware is over is for whoever knows the machine to say: here all lines are alike.

use crate::boot::Boot;
use crate::boot::regions::Stage;
use crate::input::index::Index;
use crate::input::text;
use crate::input::text::{Lines, lossy};
use crate::input::{Input, records_max};
use crate::readers::reader::{Evidence, Own, Reader};
use timeline::{
    DiagnosticKind, Diagnostics, FileLoss, Mark, NameId, Ns, Phase, SpanKind, SpanRow, Timeline, TrackKind,
};

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
/// A span's name is not longer than this.
const NAME_CHARS_MAX: usize = 60;

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

/// A line as a name: without control characters, not too long.
pub(crate) fn shorten(text: &str) -> String {
    // Nearly all lines are plain already.
    if text.len() <= NAME_CHARS_MAX && text.bytes().all(|b| (b' '..=b'~').contains(&b)) {
        return text.trim().to_owned();
    }
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    let text = text.trim();
    match text.char_indices().nth(NAME_CHARS_MAX) {
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
        None => text.to_owned(),
    }
}

/// Adds a span from each line to the next on the firmware track; the last one ends at `until`, when
/// something else is known to have begun. Lines after that (a loader or the kernel's setup code calls
/// firmware) are marks.
pub fn build(said: &[Said], until: Ns, timeline: &mut Timeline) {
    let name = timeline.names.intern("firmware");
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

/// What a recorded machine's firmware printed.
#[derive(Default)]
pub(crate) struct Files {
    stream: Option<Input>,
}

impl Reader for Files {
    fn kinds(&self) -> &'static [&'static str] {
        &["SeaBIOS debug lines"]
    }

    fn own(&self) -> &'static [Own] {
        &[Own::Stream("firmware")]
    }

    fn loss(&self, _own: usize, _is_index: bool) -> FileLoss {
        FileLoss::FirmwareSteps
    }

    /// Nothing says when an imported line was printed.
    fn wants_files(&self) -> bool {
        false
    }

    fn is_line(&self, line: text::Line<'_>) -> Option<usize> {
        line.bytes.starts_with(b"SeaBIOS (version ").then_some(0)
    }

    fn add(&mut self, _own: Option<usize>, input: Input, _diagnostics: &mut Diagnostics) {
        self.stream.get_or_insert(input);
    }

    fn read<'f>(&'f mut self, boot: &mut Boot<'f>) -> Option<Box<dyn Evidence + 'f>> {
        let stream = self.stream.as_ref()?;
        (boot.firmware_spoke, boot.firmware_has_port) = (true, true);
        Some(Box::new(DebugLines(stream)))
    }
}

struct DebugLines<'f>(&'f Input);

impl Evidence for DebugLines<'_> {
    /// Spans from line to line, or only marks where calls say what ran.
    fn around(&mut self, boot: &mut Boot<'_>) {
        if boot.machine.is_none() || !boot.is_hosted() {
            return;
        }
        let until = boot.stages.iter().find(|r| r.stage > Stage::OptionRom).map(|r| r.at);
        // On a busy host a line can be read when the kernel has long begun.
        let until = until.or_else(|| boot.start_of(Phase::EarlyKernel)).or(boot.logged_from);
        let said = read(&self.0.file.bytes, &self.0.index, &mut boot.timeline.diagnostics);
        let last = last_before(&said, until.unwrap_or(Ns::MAX));
        // Nothing says when the firmware was done but that it said nothing more. What its last line begins is then unexplained.
        if let Some((at, line)) = last.filter(|_| boot.stages.is_empty()) {
            let evidence = format!("last line of the firmware: “{}”", line.text);
            boot.timeline.boundary(Phase::Unexplained, at, Ns::from_ms(1), &evidence);
        }
        let begun = last.map_or(Ns::MIN, |(at, _)| at);
        let spans_end = if boot.stages.is_empty() { begun } else { until.unwrap_or(begun) };
        let only_marks = boot.timeline.cpus_followed_until.is_some();
        build(&said, if only_marks { Ns::MIN } else { spans_end }, &mut boot.timeline);
    }
}

/// The last line that arrived before `until`, and when.
fn last_before(said: &[Said], until: Ns) -> Option<(Ns, &Said)> {
    said.iter().filter_map(|line| Some((line.at?, line))).rfind(|(at, _)| *at < until)
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
