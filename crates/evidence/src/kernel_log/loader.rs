//! What firmware and boot loaders print on the console before the kernel. None of it has a stamp: each line is placed by its
//! arrival, and from one line to the next is a span of the firmware's. Of a board it is all that is known of them.
//!
//! U-Boot, barebox, coreboot and others say who they are when they begin; that line begins the phase `loader`.
//!
//! U-Boot can print when it passed its own stages ([`crate::bootstage`]), just before it starts the kernel. Its clock and the host's
//! are joined there: the report's first line came when the last stage was passed. The stages then stand between the lines.

use super::{KernelLog, Line};
use crate::before_kernel::Step;
use crate::boot::Boot;
use crate::bootstage;
use crate::firmware::{self, Said, shorten};
use crate::first_executions::regions::Stage;
use crate::index::Index;
use crate::input::File;
use crate::linux;
use timeline::{Diagnostics, Ns, Phase};

/// How boot loaders begin that load a kernel; what runs before them is firmware (U-Boot's SPL is).
const LOADERS: [&str; 5] = ["U-Boot 2", "barebox 2", "GNU GRUB", "Welcome to GRUB", "=== systemd-boot"];
/// What a kernel's own first code prints before the kernel can.
const UNPACKS: [&str; 2] = ["Uncompressing Linux", "Decompressing Linux"];

/// The number of the kernel's first line. Where a loader found no kernel, all lines are before it; none where there is neither.
pub(super) fn kernel_line(log: &KernelLog) -> Option<u32> {
    let is_kernels = |line: &&Line| {
        let text = log.text(line);
        line.stamp.is_some() || linux::says(text) || UNPACKS.iter().any(|words| text.contains(words))
    };
    let kernel = log.lines.iter().find(is_kernels).map(|line| line.number);
    kernel.or_else(|| log.lines.iter().any(|line| begins_loader(log.text(line))).then_some(u32::MAX))
}

/// Whether a boot loader begins with this line. Noise of the supply may stand before it.
fn begins_loader(text: &str) -> bool {
    LOADERS.iter().any(|words| text.contains(words))
}

/// The kernel began before its first line came, where its clock does not say that it began earlier: a console that comes up late
/// says all lines late, and a kernel's first lines have the stamp 0.
pub(super) fn kernel_heard(log: &KernelLog, index: &Index, kernel: u32, boot: &mut Boot<'_>) {
    let Some(line) = log.lines.iter().find(|line| line.number >= kernel) else { return };
    let came = index.arrival(line.offset);
    let Some(at) = came.filter(|came| boot.start_of(Phase::EarlyKernel).is_none_or(|told| *came < told)) else {
        return;
    };
    let evidence = format!("console: “{}”", shorten(log.text(line)));
    let error = boot.arrival_error();
    boot.timeline.boundaries.retain(|boundary| boundary.phase != Phase::EarlyKernel);
    boot.timeline.boundary(Phase::EarlyKernel, at, error, &evidence);
}

/// Places what was printed before the kernel's first line, which has the number `kernel`.
pub(super) fn place(log: &KernelLog, (file, index): (&File, &Index), kernel: u32, boot: &mut Boot<'_>) {
    let before = || log.lines.iter().filter(|line| line.number < kernel);
    let error = boot.arrival_error();
    // Of a loader that loads itself anew, the first time counts.
    let loader = before().find(|line| begins_loader(log.text(line)) && boot.start_of(Phase::Loader).is_none());
    if let Some((line, at)) = loader.and_then(|line| Some((line, index.arrival(line.offset)?))) {
        let evidence = format!("console: “{}”", shorten(log.text(line)));
        boot.timeline.boundary(Phase::Loader, at, error, &evidence);
    }
    let said =
        before().map(|line| Said { text: shorten(log.text(line)), at: index.arrival(line.offset), line: line.number });
    let mut said: Vec<Said> = said.filter(|said| !said.text.is_empty()).collect();
    let kernel_at = log.lines.iter().find(|line| line.number >= kernel).map_or(u64::MAX, |line| line.offset);
    said.extend(stages(file, index, kernel_at, &mut boot.timeline.diagnostics));
    said.sort_by_key(|said| said.at);
    let by_code = boot.stages.iter().find(|region| region.stage > Stage::Loader).map(|region| region.at);
    let until = by_code.or_else(|| boot.start_of(Phase::EarlyKernel));
    let first = log.lines.iter().find(|line| line.number >= kernel).and_then(|line| index.arrival(line.offset));
    let last = log.lines.last().and_then(|line| index.arrival(line.offset));
    // Where every call is known, what ran is: lines only mark it.
    let spans_end =
        if boot.timeline.cpus_followed_until.is_some() { Ns::MIN } else { until.or(first).or(last).unwrap_or(Ns::MAX) };
    firmware::build(&said, spans_end, &mut boot.timeline);
}

/// U-Boot's stages, where it printed them before the kernel began at that byte.
fn stages(file: &File, index: &Index, kernel_at: u64, diagnostics: &mut Diagnostics) -> Vec<Said> {
    let report = bootstage::report_at(&file.bytes).filter(|at| (*at as u64) < kernel_at);
    let Some((printed, report)) = report.and_then(|at| Some((index.arrival(at as u64)?, at))) else {
        return Vec::new();
    };
    let kernel_at = usize::try_from(kernel_at).map_or(file.bytes.len(), |at| at.min(file.bytes.len()));
    let steps = bootstage::read(&file.name, &file.bytes[report..kernel_at], diagnostics).steps;
    let Some(last) = steps.last().map(|step| step.at) else { return Vec::new() };
    let stage = |step: Step| Said {
        text: shorten(&format!("U-Boot stage {}", step.name)),
        at: Some(printed - (last - step.at)),
        line: 0,
    };
    steps.into_iter().map(stage).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use timeline::{TimeBase, Timeline};

    /// A board's console, each line a millisecond after the one before; the spans of what ran before the kernel, in µs.
    fn placed(console: &str) -> Vec<(String, i64, i64)> {
        let mut diagnostics = Diagnostics::default();
        let (mut index, mut offset) = (String::new(), 0);
        for (ms, line) in (0..).zip(console.split_inclusive('\n')) {
            index += &format!("{offset} {}\n", ms * 1_000_000);
            offset += line.len();
        }
        let index = Index::read("console.idx", index.as_bytes(), &mut diagnostics);
        let log = KernelLog::read("console.log", console.as_bytes(), &mut diagnostics).unwrap();
        let file = File { name: "console.log".to_owned(), bytes: console.as_bytes().into() };
        let manifest = recording::Manifest::default();
        let mut boot = Boot::new(&manifest, Timeline::new(TimeBase::Host));
        let kernel = kernel_line(&log).unwrap();
        place(&log, (&file, &index), kernel, &mut boot);
        let timeline = &boot.timeline;
        let us = |ns: Ns| ns.0 / 1000;
        timeline.spans.iter().map(|(_, s)| (timeline.names.get(s.name).to_owned(), us(s.start), us(s.end))).collect()
    }

    #[test]
    fn stages_of_u_boot_stand_between_its_lines() {
        let console = "U-Boot 2023.01\nloading\nTimer summary in microseconds (3 records):\n       Mark    Elapsed  Stage\n          \
                       0          0  reset\n      1,200      1,200  board_init_f\n      1,700        500  start_kernel\n\n\
                       Starting kernel ...\n[    0.000000] Linux version 6.1.0\n";
        let found = placed(console);
        // The report came at 2 ms, when start_kernel was passed: reset was 1.7 ms before.
        let firsts: Vec<(&str, i64, i64)> = found.iter().take(5).map(|(name, a, b)| (&**name, *a, *b)).collect();
        let expected = [
            ("U-Boot 2023.01", 0, 300),
            ("U-Boot stage reset", 300, 1000),
            ("loading", 1000, 1500),
            ("U-Boot stage board_init_f", 1500, 2000),
            ("Timer summary in microseconds (3 records):", 2000, 2000),
        ];
        assert_eq!(firsts, expected);
        assert_eq!(found.last().map(|(name, a, b)| (&**name, *a, *b)), Some(("Starting kernel ...", 8000, 9000)));
    }

    #[test]
    fn a_loader_that_finds_no_kernel_is_all_there_is() {
        let expected = [("U-Boot SPL 2024.01", 0, 1000), ("U-Boot 2024.01", 1000, 2000)];
        let found = placed("U-Boot SPL 2024.01\nU-Boot 2024.01\n=> ");
        assert_eq!(found.iter().map(|(name, a, b)| (&**name, *a, *b)).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_report_behind_the_kernel_s_first_line_is_none_of_the_loader_s() {
        let console = "U-Boot 2023.01\n[    0.000000] Linux version 6.1.0\nTimer summary in microseconds (1 records):\n          \
                       0          0  reset\n";
        assert_eq!(placed(console), [("U-Boot 2023.01".to_owned(), 0, 1000)]);
    }
}
