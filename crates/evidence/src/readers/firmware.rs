//! The reader of [`firmware`](crate::formats::firmware).

use crate::boot::regions::Stage;
use crate::boot::{Found, Placing};
use crate::formats::firmware::{Said, build, read};
use crate::input::{Input, text};
use crate::readers::reader::{Evidence, Own, Reader};
use timeline::{Diagnostics, FileLoss, Ns, Phase, Timeline};

/// The debug lines of a recorded machine's firmware.
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

    /// An imported file does not have the times of its lines.
    fn wants_files(&self) -> bool {
        false
    }

    fn is_line(&self, line: text::Line<'_>) -> Option<usize> {
        line.bytes.starts_with(b"SeaBIOS (version ").then_some(0)
    }

    fn add(&mut self, _own: Option<usize>, input: Input, _diagnostics: &mut Diagnostics) {
        self.stream.get_or_insert(input);
    }

    fn read<'f>(&'f mut self, found: &mut Found<'f>, _timeline: &mut Timeline) -> Option<Box<dyn Evidence + 'f>> {
        let stream = self.stream.as_ref()?;
        (*found.firmware_spoke, *found.firmware_has_port) = (true, true);
        Some(Box::new(DebugLines(stream)))
    }
}

struct DebugLines<'f>(&'f Input);

impl Evidence for DebugLines<'_> {
    /// Adds spans from line to line, or only marks if a call trace shows the code that ran.
    fn around(&mut self, boot: &mut Placing<'_>) {
        if boot.machine.is_none() || !boot.is_hosted() {
            return;
        }
        let until = boot.stages.iter().find(|r| r.stage > Stage::OptionRom).map(|r| r.at);
        // On a busy host, a line can be read after the kernel has begun.
        let until = until.or_else(|| boot.start_of(Phase::EarlyKernel)).or(boot.logged_from);
        let lines = read(&self.0.file.bytes, &self.0.index, &mut boot.timeline.diagnostics);
        let last = last_before(&lines, until.unwrap_or(Ns::MAX));
        // Without the code that ran, the last line is the only sign of the firmware's end. The time after it is
        // unexplained.
        if let Some((at, line)) = last.filter(|_| boot.stages.is_empty()) {
            let evidence = format!("last line of the firmware: “{}”", line.text);
            boot.timeline.boundary(Phase::Unexplained, at, Ns::from_ms(1), &evidence);
        }
        let begun = last.map_or(Ns::MIN, |(at, _)| at);
        let spans_end = if boot.stages.is_empty() { begun } else { until.unwrap_or(begun) };
        let only_marks = boot.timeline.cpus_followed_until.is_some();
        build(&lines, if only_marks { Ns::MIN } else { spans_end }, &mut boot.timeline);
    }
}

/// The last line that arrived before `until`, with its time.
fn last_before(lines: &[Said], until: Ns) -> Option<(Ns, &Said)> {
    lines.iter().filter_map(|line| Some((line.at?, line))).rfind(|(at, _)| *at < until)
}
