//! The lines that firmware and boot loaders print on the console before the kernel. They have no stamps: each line is
//! placed by its arrival, and the stretch to the next line is a span of the firmware's. A board gives no other evidence
//! of them.
//!
//! U-Boot, barebox, coreboot and others print their names when they begin; that line begins the phase `loader`.
//!
//! A kernel that prints nothing begins where a loader says that it hands over.
//!
//! U-Boot can print when it passed its own stages ([`bootstage`]), just before it starts the kernel. Its clock and the host's
//! are joined there: the report's first line came when the last stage, the hand-over, was passed. The stages stand between the lines.

use crate::boot::Placing;
use crate::boot::regions::Stage;
use crate::formats::bootstage;
use crate::formats::firmware::{self, Said};
use crate::formats::kernel_log::{KernelLog, Line};
use crate::formats::linux_words;
use crate::formats::linux_words::user_space;
use crate::formats::steps::Step;
use crate::input::File;
use crate::input::index::Index;
use crate::input::text::shorten;
use timeline::{Diagnostics, Ns, Phase, TrackKind};

/// Words in the first line of boot loaders that load a kernel. Programs before these are firmware (U-Boot's SPL is).
const LOADERS: [&str; 7] =
    ["[TegraBoot]", "welcome to lk", "U-Boot 2", "barebox 2", "GNU GRUB", "Welcome to GRUB", "=== systemd-boot"];
/// Words that a kernel's own first code prints before the kernel can print.
const UNPACKS: [&str; 2] = ["Uncompressing Linux", "Decompressing Linux"];

/// The last words of U-Boot and barebox, in lower case (`bootm`, `go`, and two of `bootefi`'s). Another program runs
/// after them, even if it prints nothing.
const HANDS_OVER: [&str; 4] =
    ["starting kernel", "## starting application at", "## starting efi application at", "booting /efi\\"];
/// The line on which U-Boot waits for commands.
const PROMPTS: [&str; 2] = ["=>", "U-Boot>"];

/// The number of the kernel's first line, or of the first one that may be its. If a loader waits for commands, all
/// lines are before it. `None` if the log shows no kernel, no hand-over and no waiting loader.
pub(super) fn kernel_line(log: &KernelLog) -> Option<u32> {
    let is_kernels = |line: &&Line| {
        let text = log.text(line);
        line.stamp.is_some()
            || line.before_clock
            || linux_words::says(text)
            || UNPACKS.iter().any(|words| text.contains(words))
    };
    let is_later = |line: &&Line| log.earlier.is_none_or(|earlier| line.number > earlier);
    let kernel = log.lines.iter().filter(is_later).find(is_kernels).map(|line| line.number);
    kernel.or_else(|| handed_over(log, u32::MAX).map(|line| line.number + 1)).or_else(|| {
        let last = log.lines.iter().rfind(|line| !log.text(line).trim().is_empty());
        let waits = last.is_some_and(|line| PROMPTS.contains(&log.text(line).trim()));
        (waits && log.lines.iter().any(|line| begins_loader(log.text(line)))).then_some(u32::MAX)
    })
}

/// The last line before that number on which a loader hands over, unless to another loader.
fn handed_over(log: &KernelLog, before: u32) -> Option<&Line> {
    let says = |line: &&Line| hands_over(log.text(line));
    let lines = || log.lines.iter().filter(|line| line.number < before);
    let last = lines().rfind(says)?;
    let goes_on = lines().any(|line| line.number > last.number && begins_loader(log.text(line)));
    (!goes_on).then_some(last)
}

/// True if a loader says with this line that it starts the kernel.
pub(super) fn hands_over(text: &str) -> bool {
    HANDS_OVER.iter().any(|words| text.get(..words.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(words)))
}

/// True if a boot loader begins with this line. Noise of the power supply may stand before it.
pub(super) fn begins_loader(text: &str) -> bool {
    LOADERS.iter().any(|words| text.contains(words))
}

/// The kernel began before its first line came, where its clock does not say that it began earlier: a console that comes up late
/// says all lines late, and a kernel's first lines have the stamp 0.
pub(super) fn kernel_heard(log: &KernelLog, index: &Index, kernel: u32, boot: &mut Placing<'_>) {
    let is_known = |line: &&Line| line.stamp.is_some() || linux_words::says(log.text(line));
    let first = log.lines.iter().find(|line| line.number >= kernel);
    // What follows a hand-over in other words than the kernel's may be a program's, long after.
    let Some(line) = first.filter(is_known).or_else(|| handed_over(log, kernel)).or(first) else { return };
    let came = index.arrival(line.offset);
    let Some(at) = came.filter(|came| boot.start_of(Phase::EarlyKernel).is_none_or(|told| *came < told)) else {
        return;
    };
    let evidence = format!("console: “{}”", shorten(log.text(line)));
    let error = boot.arrival_error();
    boot.timeline.boundaries.retain(|boundary| boundary.phase != Phase::EarlyKernel);
    boot.timeline.boundary(Phase::EarlyKernel, at, error, &evidence);
}

/// True if a log has a loader's lines, and ends before it hands over and before any program speaks.
pub(super) fn is_all_there_is(log: &KernelLog) -> bool {
    let begins = log.lines.iter().any(|line| begins_loader(log.text(line)));
    begins && !log.lines.iter().any(|line| user_space::is_of_a_program(log.text(line)))
}

/// The stages that U-Boot printed before the kernel, which begins at the line `kernel`.
pub(super) fn stages_of(
    log: &KernelLog,
    (file, index): (&File, &Index),
    kernel: u32,
    boot: &mut Placing<'_>,
) -> Vec<Said> {
    let kernel_at = log.lines.iter().find(|line| line.number >= kernel).map_or(u64::MAX, |line| line.offset);
    stages(file, index, kernel_at, &mut boot.timeline.diagnostics)
}

/// The track of a kernel that started the measured one by kexec.
const FIRST_KERNEL: &str = "first kernel";
/// Phases of a kexec before the second kernel, by the words that begin them.
const KEXEC_PHASES: [(&str, &str); 3] = [
    ("Linux version ", FIRST_KERNEL),
    (" as init process", "first kernel: process 1"),
    ("Starting new kernel", "shut-down and purgatory"),
];

/// Adds the phases of a kernel that started the measured one by kexec.
fn first_kernel(log: &KernelLog, kernel: u32, boot: &mut Placing<'_>) {
    let error = boot.arrival_error();
    for (words, name) in KEXEC_PHASES {
        let mut lines = log.lines.iter().take_while(|line| line.number < kernel);
        let Some(line) = lines.find(|line| log.text(line).contains(words)) else { continue };
        if let Some(at) = line.host_stamp {
            let phase = Phase::Other(boot.timeline.names.intern(name));
            boot.timeline.boundary(phase, at, error, &format!("console: “{}”", shorten(log.text(line))));
        }
    }
}

/// Places the lines before the kernel of an imported log, by the stamps of its logger.
pub(super) fn place_imported(log: &KernelLog, kernel: u32, boot: &mut Placing<'_>) {
    let mut before = log.lines.iter().filter(|line| line.number < kernel && line.host_stamp.is_some());
    let Some(first) = before.next() else { return };
    let begins = first.host_stamp.unwrap_or_default();
    let evidence = format!("console: “{}”", shorten(log.text(first)));
    let track = if log.earlier.is_some() { FIRST_KERNEL } else { firmware::TRACK };
    if log.earlier.is_some() {
        first_kernel(log, kernel, boot);
    } else if !begins_loader(log.text(first)) {
        boot.timeline.boundary(Phase::Firmware, begins, boot.arrival_error(), &evidence);
    }
    place(log, (track, &|line| line.host_stamp), Vec::new(), kernel, boot);
    let name = boot.timeline.names.intern(track);
    boot.before = boot.before.or(Some(boot.timeline.tracks.named(name, TrackKind::Firmware)));
}

/// The arrival of a line.
type Arrival<'a> = dyn Fn(&Line) -> Option<Ns> + 'a;

/// Places what was printed before the kernel's first line, which has the number `kernel`, and the stages among it.
pub(super) fn place(
    log: &KernelLog,
    (track, arrival): (&str, &Arrival<'_>),
    stages: Vec<Said>,
    kernel: u32,
    boot: &mut Placing<'_>,
) {
    let before = || log.lines.iter().filter(|line| line.number < kernel);
    let error = boot.arrival_error();
    // If a loader loads itself anew, its first start counts.
    let loader = before().find(|line| begins_loader(log.text(line)) && boot.start_of(Phase::Loader).is_none());
    if let Some((line, at)) = loader.and_then(|line| Some((line, arrival(line)?))) {
        let evidence = format!("console: “{}”", shorten(log.text(line)));
        boot.timeline.boundary(Phase::Loader, at, error, &evidence);
    }
    let said = before().map(|line| Said { text: shorten(log.text(line)), at: arrival(line), line: line.number });
    let mut said: Vec<Said> = said.filter(|said| !said.text.is_empty()).collect();
    // A stage that may as well have been passed with a line would cut that line's time off.
    let mut came: Vec<Ns> = said.iter().filter_map(|line| line.at).collect();
    came.sort_unstable();
    let is_apart = |stage: &Said| {
        let at = stage.at.unwrap_or(Ns::ZERO);
        came.get(came.partition_point(|line| *line < at - error)).is_none_or(|line| *line > at + error)
    };
    let (apart, with_lines): (Vec<Said>, Vec<Said>) = stages.into_iter().partition(is_apart);
    said.extend(apart);
    said.sort_by_key(|said| said.at);
    let by_code = boot.stages.iter().find(|region| region.stage > Stage::Loader).map(|region| region.at);
    let until = by_code.or_else(|| boot.start_of(Phase::EarlyKernel));
    let first = log.lines.iter().find(|line| line.number >= kernel).and_then(arrival);
    let last = log.lines.last().and_then(arrival);
    // Where every call is known, what ran is: lines only mark it.
    let spans_end =
        if boot.timeline.cpus_followed_until.is_some() { Ns::MIN } else { until.or(first).or(last).unwrap_or(Ns::MAX) };
    firmware::build_on(track, &said, spans_end, &mut boot.timeline);
    firmware::build_on(track, &with_lines, Ns::MIN, &mut boot.timeline);
}

/// U-Boot's stages, where it printed them before the kernel began at that byte.
fn stages(file: &File, index: &Index, kernel_at: u64, diagnostics: &mut Diagnostics) -> Vec<Said> {
    let report = bootstage::report_at(&file.bytes).filter(|at| (*at as u64) < kernel_at);
    let Some(printed) = report.and_then(|at| index.arrival(at as u64)) else { return Vec::new() };
    let kernel_at = usize::try_from(kernel_at).map_or(file.bytes.len(), |at| at.min(file.bytes.len()));
    let bootstage = bootstage::read(&file.name, &file.bytes[..kernel_at], diagnostics);
    // If the report is printed at another time, the time since its last stage is not known.
    let Some(last) = bootstage.steps.last().filter(|_| bootstage.hands_over).map(|step| step.at) else {
        return Vec::new();
    };
    let stage = |step: Step| Said {
        text: shorten(&format!("U-Boot stage {}", step.name)),
        at: Some(printed - (last - step.at)),
        line: 0,
    };
    bootstage.steps.into_iter().map(stage).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::Found;
    use timeline::{TimeBase, Timeline};

    /// A board's console, each line 10 ms after the one before; the spans of what ran before the kernel, in µs.
    fn placed(console: &str) -> Vec<(String, i64, i64)> {
        let mut diagnostics = Diagnostics::default();
        let (mut index, mut offset) = (String::new(), 0);
        for (tens, line) in (0..).zip(console.split_inclusive('\n')) {
            index += &format!("{offset} {}\n", tens * 10_000_000);
            offset += line.len();
        }
        let index = Index::read("console.idx", index.as_bytes(), &mut diagnostics);
        let log = KernelLog::read("console.log", console.as_bytes(), &mut diagnostics).unwrap();
        let file = File { name: "console.log".to_owned(), bytes: console.as_bytes().to_vec().into() };
        let manifest = recording::Manifest::default();
        let found = Found::new(&manifest);
        let mut boot = Placing::new(&found, Timeline::new(TimeBase::Host));
        let kernel = kernel_line(&log).unwrap();
        let stages = stages_of(&log, (&file, &index), kernel, &mut boot);
        place(&log, (firmware::TRACK, &|line| index.arrival(line.offset)), stages, kernel, &mut boot);
        let timeline = &boot.timeline;
        let us = |ns: Ns| ns.0 / 1000;
        timeline.spans.iter().map(|(_, s)| (timeline.names.get(s.name).to_owned(), us(s.start), us(s.end))).collect()
    }

    fn check(found: &[(String, i64, i64)], expected: &[(&str, i64, i64)]) {
        let found: Vec<_> = found.iter().map(|(name, from, to)| (&**name, *from, *to)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn stages_of_u_boot_stand_between_its_lines() {
        let console = "U-Boot 2023.01\nloading\nTimer summary in microseconds (3 records):\n       Mark    Elapsed  Stage\n          \
                       0          0  reset\n     12,000     12,000  board_init_f\n     17,000      5,000  start_kernel\n\n\
                       Starting kernel ...\n[    0.000000] Linux version 6.1.0\n";
        let found = placed(console);
        // The report came at 20 ms, when start_kernel was passed: reset was 17 ms before. The last stage came with a line.
        let expected = [
            ("U-Boot 2023.01", 0, 3000),
            ("U-Boot stage reset", 3000, 10_000),
            ("loading", 10_000, 15_000),
            ("U-Boot stage board_init_f", 15_000, 20_000),
            ("Timer summary in microseconds (3 records):", 20_000, 30_000),
        ];
        check(&found[..5], &expected);
        check(&found[found.len() - 1..], &[("Starting kernel ...", 80_000, 90_000)]);
    }

    #[test]
    fn a_loader_that_finds_no_kernel_is_all_there_is() {
        let found = placed("U-Boot SPL 2024.01\nU-Boot 2024.01\n=> ");
        check(&found, &[("U-Boot SPL 2024.01", 0, 10_000), ("U-Boot 2024.01", 10_000, 20_000)]);
    }

    #[test]
    fn a_kernel_that_prints_nothing_begins_where_the_loader_hands_over() {
        let found = placed("U-Boot 2024.01\nStarting kernel ...\nWelcome to Poky\npoky login: ");
        check(&found, &[("U-Boot 2024.01", 0, 10_000), ("Starting kernel ...", 10_000, 20_000)]);
        let found = placed("U-Boot 2024.01\nBooting /EFI\\BOOT\\BOOTAA64.EFI\n>> OpenBSD/arm64 BOOTAA64 0.12\n");
        check(&found, &[("U-Boot 2024.01", 0, 10_000), ("Booting /EFI\\BOOT\\BOOTAA64.EFI", 10_000, 20_000)]);
        let mut diagnostics = Diagnostics::default();
        let grub = b"U-Boot 2024.01\nBooting /efi\\boot\\bootaa64.efi\nWelcome to GRUB!\nlogin: ";
        let log = KernelLog::read("console.log", grub, &mut diagnostics).unwrap();
        assert_eq!(kernel_line(&log), None, "that is another loader");
        let other = "U-Boot 2024.01\n---<<BOOT>>---\nCopyright (c) 1992-2025 The FreeBSD Project.\nlogin: ";
        let log = KernelLog::read("console.log", other.as_bytes(), &mut diagnostics).unwrap();
        assert_eq!(kernel_line(&log), None, "nobody says where it began");
    }

    #[test]
    fn a_report_that_is_printed_at_another_time_is_not_joined() {
        let console = "U-Boot 2023.01\nTimer summary in microseconds (2 records):\n          \
                       0          0  reset\n      3,000      3,000  main_loop\nloading\nStarting kernel ...\n\
                       [    0.000000] Linux version 6.1.0\n";
        assert!(placed(console).iter().all(|(name, ..)| !name.starts_with("U-Boot stage")));
    }

    #[test]
    fn a_stage_that_was_passed_with_a_line_does_not_cut_it_off() {
        let console = "U-Boot 2023.01\nHit any key to stop autoboot:  2\nloading\n\
                       Timer summary in microseconds (3 records):\n          \
                       0          0  reset\n     10,500     10,500  main_loop\n     30,000     19,500  start_kernel\n\
                       Starting kernel ...\n[    0.000000] Linux version 6.1.0\n";
        check(&placed(console)[1..2], &[("Hit any key to stop autoboot:  2", 10_000, 20_000)]);
    }

    #[test]
    fn a_report_behind_the_kernel_s_first_line_is_none_of_the_loader_s() {
        let console = "U-Boot 2023.01\n[    0.000000] Linux version 6.1.0\nTimer summary in microseconds (1 records):\n          \
                       0          0  reset\n";
        check(&placed(console), &[("U-Boot 2023.01", 0, 10_000)]);
    }
}
