//! The steps that programs before the kernel stamped in its log.

use crate::formats::kernel_log::{KernelLog, Line, LoaderStamp};
use crate::formats::steps::{Step, Steps};
use crate::readers::kernel_log::loader;
use timeline::{Diagnostics, Ns, Phase};

/// The stamped steps in a log before the kernel's first line, which has the number `kernel`; `None` if there is no such step.
///
/// A stamp that is lower than the one before it begins another program's count, which goes on where that one ended.
pub(super) fn steps(file: &str, log: &KernelLog, kernel: u32, diagnostics: &mut Diagnostics) -> Option<Steps> {
    let before = || log.lines.iter().filter(|line| line.number < kernel);
    let first = before().find_map(|line| line.loader_stamp)?;
    let mut steps = Steps::new(first.program(), error(before()));
    let (mut began, mut last, mut phase) = (Ns::ZERO, Ns::ZERO, None);
    // The count begins with its program, before the first line.
    if first.at > Ns::ZERO {
        phase = before().find(|line| line.loader_stamp.is_some()).and_then(|line| phase_of(log, line));
        steps.add(Step { at: Ns::ZERO, name: "reset".to_owned(), begins: phase }, diagnostics, || file.to_owned());
    }
    for line in before() {
        let text = log.text(line);
        if let Some(stamp) = line.loader_stamp {
            if began + stamp.at < last {
                began = last;
            }
            last = began + stamp.at;
        }
        if text.trim().is_empty() {
            continue;
        }
        let begins = phase_of(log, line);
        // A line without a stamp is placed at the stamp before it only where it begins or ends something.
        if line.loader_stamp.is_none() && begins.is_none() && !loader::hands_over(text) {
            continue;
        }
        let begins = begins.filter(|begins| follows(phase, *begins));
        phase = begins.or(phase);
        steps.add(Step { at: last, name: text.to_owned(), begins }, diagnostics, || format!("{file}:{}", line.number));
    }
    Some(steps)
}

/// The phase of a line's speaker, if the line shows it.
fn phase_of(log: &KernelLog, line: &Line) -> Option<Phase> {
    let by_form = || line.loader_stamp.map(LoaderStamp::phase);
    if loader::begins_loader(log.text(line)) { Some(Phase::Loader) } else { by_form() }
}

/// The coarsest resolution of these lines' stamps.
fn error<'l>(lines: impl Iterator<Item = &'l Line>) -> Ns {
    let forms = lines.filter_map(|line| line.loader_stamp).map(LoaderStamp::error);
    forms.max().unwrap_or_default()
}

/// True if a phase can begin while another lasts: firmware never follows a loader.
fn follows(lasts: Option<Phase>, begins: Phase) -> bool {
    match lasts {
        None => true,
        Some(Phase::Firmware) => begins != Phase::Firmware,
        Some(Phase::Loader) => begins == Phase::Hypervisor,
        Some(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In milliseconds, with the name and the phase that begins.
    type Row = (i64, String, Option<Phase>);

    fn found(text: &str) -> Option<(String, Vec<Row>)> {
        let mut diagnostics = Diagnostics::default();
        let log = KernelLog::read_imported("a.log", text.as_bytes(), &mut diagnostics).unwrap();
        let kernel = loader::kernel_line(&log).unwrap_or(u32::MAX);
        let steps = steps("a.log", &log, kernel, &mut diagnostics)?;
        let rows = steps.steps.into_iter().map(|step| (step.at.0 / 1_000_000, step.name, step.begins));
        Some((steps.program.to_owned(), rows.collect()))
    }

    #[track_caller]
    fn check(text: &str, program: &str, expected: &[(i64, &str, Option<Phase>)]) {
        let (of, rows) = found(text).unwrap();
        let rows: Vec<_> = rows.iter().map(|(ms, name, begins)| (*ms, name.as_str(), *begins)).collect();
        assert_eq!((of.as_str(), rows.as_slice()), (program, expected));
    }

    const FIRMWARE: Option<Phase> = Some(Phase::Firmware);
    const LOADER: Option<Phase> = Some(Phase::Loader);

    #[test]
    fn each_program_s_stamps_are_steps() {
        check(
            "[0000.126] [TegraBoot] (version 1)\n[0012.350] Found secure-pmc\nU-Boot 2016.07\n[    0.000000] Booting Linux on\n",
            "boot loader",
            &[
                (0, "reset", LOADER),
                (126, "[TegraBoot] (version 1)", None),
                (12_350, "Found secure-pmc", None),
                (12_350, "U-Boot 2016.07", None),
            ],
        );
        check(
            "--== Welcome to Hostboot ==--\n  3.07333|secure|x\n 53.37376|ISTEP 21. 3\n[   75.323720711,3] LPC: y\n\
             [   75.400000000,6] z\n[    4.074167] kAFS: failed\n",
            "Hostboot",
            &[
                (0, "reset", FIRMWARE),
                (3073, "secure|x", None),
                (53_373, "ISTEP 21. 3", None),
                (75_323, "LPC: y", LOADER),
                (75_400, "z", None),
            ],
        );
        check(
            "(XEN) [    0.013864] Xen version 4.20\n(XEN) [    0.928173] d0: extended\n[    0.000000] Linux version 6.1\n",
            "Xen",
            &[(0, "reset", Some(Phase::Hypervisor)), (13, "Xen version 4.20", None), (928, "d0: extended", None)],
        );
        check(
            "libguestfs: launch: program=guestfish\nlibguestfs: [00000ms] run supermin\nsupermin: version: 5.1.14\n\
             libguestfs: [02850ms] begin testing qemu features\n[03285ms] /usr/bin/qemu \\\n[    0.000000] Linux version 4.4\n",
            "libguestfs",
            &[
                (0, "run supermin", Some(Phase::LibguestfsLaunch)),
                (2_850, "begin testing qemu features", None),
                (3_285, "/usr/bin/qemu \\", None),
            ],
        );
    }

    #[test]
    fn a_count_that_begins_anew_goes_on_where_the_last_one_ended() {
        check(
            "B -         0 - PBL, Start\nS - Core 0 Frequency, 1228 MHz\nB -    762713 - SBL1, End\n[0] welcome to lk\n\
             [230] booting linux @ 0x80008000\n[    0.000000] Linux version 4.9\n",
            "XBL",
            &[
                (0, "PBL, Start", FIRMWARE),
                (762, "SBL1, End", None),
                (762, "welcome to lk", LOADER),
                (992, "booting linux @ 0x80008000", None),
            ],
        );
    }

    #[test]
    fn one_line_is_no_proof_and_a_kernel_s_stamps_are_its_own() {
        assert_eq!(found("[0000.126] x\n[    0.000000] Linux version 6.1\n[    0.500000] y\n"), None);
        assert_eq!(found("[    0.123] Linux version 2.6\n[    0.500] y\n[    0.600] z\n"), None);
        assert_eq!(
            found("[10] x\n[20] y\n[    0.000000] Linux version 6.1\n"),
            None,
            "FreeBSD stamps whole seconds so"
        );
    }

    #[test]
    fn a_loader_s_lines_are_no_boot_of_their_own() {
        let mut diagnostics = Diagnostics::default();
        let text = "[   0.114] DDR\n[   9.616] Loading\n[    0.000000] Linux version 6.6\n[    0.200000] a\n";
        let log = KernelLog::read_imported("a.log", text.as_bytes(), &mut diagnostics).unwrap();
        assert_eq!(log.lines.len(), 4);
        assert_eq!(log.lines.iter().filter_map(|line| line.stamp).collect::<Vec<_>>(), [Ns::from_ms(200)]);
        assert_eq!(diagnostics.count(timeline::DiagnosticKind::LogOtherBoot), 0);
    }
}
