//! The sentences of warnings: facts that a reader needs before any figure.
//!
//! Programs must not parse them: they compare the codes of [`Warning`].

use crate::diagnostics::figures;
use crate::sources::rate_source;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use timeline::{FileLoss, LastSign, LogEnd, ManifestFault, ProcessNamed, Timeline, Unit, Warning};

/// The part without a price, in words; empty if all is priced.
fn unpriced(has_accesses: bool, not_placed: u64) -> String {
    match (has_accesses, not_placed) {
        (false, _) => {
            "; accesses are not counted in this recording, so the prices are lower bounds: --trace exits counts them"
                .to_owned()
        }
        (true, 0) => String::new(),
        (true, accesses) => {
            format!(
                "; {accesses} accesses have no price, because their time is not known, so the total is a lower bound"
            )
        }
    }
}

/// A warning, with its name for programs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct WarningLine {
    /// The name for programs: it never changes.
    pub code: String,
    /// The affected figures; empty if no figure is affected.
    pub affects: String,
    /// The whole warning, in a sentence.
    pub text: String,
}

impl WarningLine {
    /// The warnings of a timeline, in its order.
    pub fn all(timeline: &Timeline) -> Vec<WarningLine> {
        timeline.warnings.iter().map(|warning| WarningLine::new(warning, timeline.unit)).collect()
    }

    /// The line of a warning, for a timeline that counts in `unit`.
    pub fn new(warning: &Warning, unit: Unit) -> WarningLine {
        WarningLine {
            code: warning.code().to_owned(),
            affects: warning.affects().map_or("", figures).to_owned(),
            text: sentence(warning, unit),
        }
    }
}

fn sentence(warning: &Warning, unit: Unit) -> String {
    let show = |time| unit.show_at(time);
    match warning {
        Warning::RecordingAtWork { last } => format!(
            "this recording is still being made: the boot is shown as far as it has come; {}",
            nothing_since(last.as_ref())
        ),
        Warning::RecordingInterrupted { last } => format!(
            "this recording was interrupted: its recorder was killed before the end; {}",
            nothing_since(last.as_ref())
        ),
        Warning::RecordingUnknown { why } => format!(
            "state unknown: {}, so nothing tells how this boot was run, whether it was finished, and where its time \
             zero is; what the other files say is shown",
            manifest_fault(why)
        ),
        Warning::Priced { model, has_accesses, not_placed } => {
            format!("all times are prices of the machine model {model}{}", unpriced(*has_accesses, *not_placed))
        }
        Warning::FileMissing { file, recorded_bytes, loss } => format!(
            "{file} is missing ({recorded_bytes} bytes were recorded): {}; restore it from a copy, or record again",
            lost(*loss)
        ),
        Warning::FileCut { file, recorded_bytes, found_bytes, loss } => format!(
            "{file} is cut: {found_bytes} bytes of {recorded_bytes} are there: {}; restore it from a copy, or record again",
            lost(*loss)
        ),
        Warning::FileTooLarge { file, bytes, limit_bytes, loss } => format!(
            "{file} has {bytes} bytes and is not read, because the limit is {limit_bytes}: {}; record again, or put the \
             part of it that is of interest in its place",
            lost(*loss)
        ),
        Warning::TraceInTicks => "nothing says how fast the counter runs that the trace is stamped with, so times are in \
             ticks: import it again with --tsc-frequency (the kernel's log says `tsc: Refined TSC clocksource calibration: \
             2445.406 MHz` or so), or with that log, if the trace has `printk:console` events"
            .to_owned(),
        Warning::LogInTicks => "nothing says how fast the log's counter runs, so times are in ticks: import it again with \
             --tsc-frequency, which on the machine is `sysctl machdep.tsc_freq`, on arm64 the frequency of its timecounter"
            .to_owned(),
        Warning::LogRateContradicted { given_hz, found_hz, found_in } => format!(
            "the log's counter runs at {:.6} MHz as the user says, and at {:.6} MHz by {}: times are by the first; \
             import it again without --tsc-frequency to have them by the second",
            given_hz / 1e6,
            found_hz / 1e6,
            rate_source(found_in)
        ),
        Warning::EndMarkWithoutTime => {
            "the end mark that was asked for has no time of the guest's: the boot is shown up to another one".to_owned()
        }
        Warning::ThreadSilent { thread, from, to, outer, inner } => {
            let (from, to) = (show(*from), show(*to));
            format!(
                "{thread} logs nothing from {from} to {to}, so what ran in {outer} then is not known: bootscope charges this \
                 time to {outer}; {inner}, which was entered and never left, is shown only up to {from}"
            )
        }
        Warning::LogAfterBoot { forked, before } => format!(
            "the log begins after the end of the kernel's part: process 1 forked {} {} before its first record; the boot is \
             not in it, and what came before it has times below zero",
            process(forked),
            show(*before)
        ),
        Warning::LogOfLoaderAlone(end) => format!(
            "this is a part of a boot, the loader's: the log {}, before the kernel's first record{}",
            ends(end, unit),
            was_in("the loader", end)
        ),
        Warning::LogWithoutEnd(end) => format!(
            "this is a part of a boot: the log does not have the end of the kernel's part (EXIT start_init); it {}{}",
            ends(end, unit),
            was_in("the boot path's thread", end)
        ),
        Warning::ProcessTableAlone { zero } => {
            let zero = zero.as_ref().map(|first| format!("when process 1 forked {}", process(first)));
            format!(
                "this is a part of a boot, the user's: there is a process table and no record of the kernel; time zero is {}",
                zero.as_deref().unwrap_or("the first fork in it")
            )
        }
        Warning::LogRecordsDropped { records } => format!(
            "the kernel's log buffer was full: {records} later records found no room in it; a larger one keeps them"
        ),
        Warning::LogBufferFull { records, last } => format!(
            "the kernel's log buffer was full: it has {records} records, and what came later{}, is not in it; a kernel with a \
             larger TSLOGSIZE keeps more",
            last.map_or(String::new(), |last| format!(", {} after the first record", show(last)))
        ),
        Warning::JobWithoutTime { job, at_least } => format!(
            "user space waited for at least {} for this job: {job}. Its lines have no times, so the total lacks that; stamp the \
             lines as they arrive, or paste the journal (`journalctl -b -o short-monotonic`)",
            show(*at_least)
        ),
        Warning::LogWithoutBoot { from } => format!(
            "no line of this log shows that the kernel boots: its first line comes {} after the kernel's start, and the messages of \
             the boot are gone. The rows are of a running system. Take the log of the boot from the journal (`journalctl -k -b`) \
             or from /var/log/dmesg, or give the kernel a larger buffer (log_buf_len=16M)",
            show(*from)
        ),
        Warning::LogPartMissing { from, to } => format!(
            "a part of the log is missing, from {}{}: what ran then is not known",
            show(*from),
            to.map_or(String::new(), |to| format!(" to {}", show(to)))
        ),
    }
}

fn manifest_fault(why: &ManifestFault) -> Cow<'static, str> {
    match why {
        ManifestFault::Missing => "there is no recording.json".into(),
        ManifestFault::Damaged { found } => format!("recording.json cannot be read ({found})").into(),
        ManifestFault::NoState => "recording.json does not say whether the recording was finished".into(),
    }
}

/// The time since which a recorder received no line.
fn nothing_since(last: Option<&LastSign>) -> Cow<'static, str> {
    last.map_or("nothing had come yet".into(), |LastSign { at, file }| {
        format!("nothing came after {at} on the host's clock (the last line began then, on {file})").into()
    })
}

/// The effect of a missing file on figures.
fn lost(loss: FileLoss) -> &'static str {
    match loss {
        FileLoss::WhatItSaid => "what it said is not used",
        FileLoss::NoFigure => "no figure rests on it",
        FileLoss::ImportedEvidence => "what it said is in no table, so the boot may begin and end elsewhere",
        FileLoss::LogEvents => "events of it are not shown, so the boot may end elsewhere",
        FileLoss::GuestMessages => {
            "it has the end mark and the sync points of the clocks, so the boot may end elsewhere and times may be off"
        }
        FileLoss::KernelMessages => {
            "kernel messages of it are not shown, and initcalls or phases that only it tells are not there"
        }
        FileLoss::ArrivalTimes => "it has when each line of the console arrived, so clocks may be off",
        FileLoss::TraceEvents => {
            "initcalls, waits and wake-ups of it are not shown, so their time is charged to others"
        }
        FileLoss::Calls => "calls of it are not shown, so their time is charged to others",
        FileLoss::Exits => "accesses that leave the guest are not shown",
        FileLoss::FirstExecutions => {
            "functions of the early kernel are not shown, and phases before the kernel may be off"
        }
        FileLoss::FunctionNames => "functions may have no names",
        FileLoss::FirmwareSteps => "the steps of the firmware are not shown",
        FileLoss::VmmSteps => "the steps before the virtual CPUs were started are not shown",
        FileLoss::GuestMemory => "the guest's memory is not known",
    }
}

fn process(process: &ProcessNamed) -> String {
    let name = process.name.as_ref().map_or(String::new(), |name| format!(" ({name})"));
    format!("process {}{name}", process.pid)
}

fn ends(end: &LogEnd, unit: Unit) -> String {
    format!("ends {} after its first record, with {} on thread {:#x}", unit.show_at(end.at), end.record, end.thread)
}

/// The functions that a thread had entered and not left, the innermost first.
fn was_in(who: &str, end: &LogEnd) -> String {
    const MAX_CALLERS: usize = 8;
    let Some((inner, callers)) = end.open.split_last() else { return String::new() };
    let mut shown: Vec<&str> = callers.iter().rev().take(MAX_CALLERS).map(String::as_str).collect();
    if callers.len() > MAX_CALLERS {
        shown.push("…");
    }
    let by = if shown.is_empty() { String::new() } else { format!(", called by {}", shown.join(", ")) };
    format!("; {who} was in {inner}{by}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use timeline::{Ns, RateLine, RateSource};

    fn end(record: &str, thread: u64, open: &[&str]) -> LogEnd {
        let open = open.iter().map(|name| (*name).to_owned()).collect();
        LogEnd { at: Ns(7_000), record: record.to_owned(), thread, open }
    }

    /// One warning of each kind, with its sentence.
    fn examples() -> Vec<(Warning, &'static str)> {
        let last = Some(LastSign { at: Ns::from_ms(12), file: "console.log".to_owned() });
        let rc = ProcessNamed { pid: 15, name: Some("/etc/rc".to_owned()) };
        let (file, recorded_bytes) = ("trace.txt".to_owned(), 900);
        vec![
            (
                Warning::RecordingAtWork { last: None },
                "this recording is still being made: the boot is shown as far as it has come; nothing had come yet",
            ),
            (
                Warning::RecordingInterrupted { last },
                "this recording was interrupted: its recorder was killed before the end; nothing came after 12.0 ms on the \
                 host's clock (the last line began then, on console.log)",
            ),
            (
                Warning::RecordingUnknown { why: ManifestFault::Missing },
                "state unknown: there is no recording.json, so nothing tells how this boot was run, whether it was finished, \
                 and where its time zero is; what the other files say is shown",
            ),
            (
                Warning::Priced { model: "m".to_owned(), has_accesses: false, not_placed: 0 },
                "all times are prices of the machine model m; accesses are not counted in this recording, so the prices are \
                 lower bounds: --trace exits counts them",
            ),
            (
                Warning::FileMissing { file: file.clone(), recorded_bytes, loss: FileLoss::NoFigure },
                "trace.txt is missing (900 bytes were recorded): no figure rests on it; restore it from a copy, or record again",
            ),
            (
                Warning::FileCut { file, recorded_bytes, found_bytes: 450, loss: FileLoss::TraceEvents },
                "trace.txt is cut: 450 bytes of 900 are there: initcalls, waits and wake-ups of it are not shown, so their \
                 time is charged to others; restore it from a copy, or record again",
            ),
            (
                Warning::FileTooLarge {
                    file: "calls.bin".to_owned(),
                    bytes: 3 << 30,
                    limit_bytes: 1 << 30,
                    loss: FileLoss::NoFigure,
                },
                "calls.bin has 3221225472 bytes and is not read, because the limit is 1073741824: no figure rests on it; \
                 record again, or put the part of it that is of interest in its place",
            ),
            (
                Warning::TraceInTicks,
                "nothing says how fast the counter runs that the trace is stamped with, so times are in ticks: import it again \
                 with --tsc-frequency (the kernel's log says `tsc: Refined TSC clocksource calibration: 2445.406 MHz` or so), or \
                 with that log, if the trace has `printk:console` events",
            ),
            (
                Warning::LogInTicks,
                "nothing says how fast the log's counter runs, so times are in ticks: import it again with --tsc-frequency, \
                 which on the machine is `sysctl machdep.tsc_freq`, on arm64 the frequency of its timecounter",
            ),
            (
                Warning::LogRateContradicted {
                    given_hz: 3e6,
                    found_hz: 2e6,
                    found_in: RateSource::Line { line: RateLine::LogItself, place: "0.log:4".to_owned() },
                },
                "the log's counter runs at 3.000000 MHz as the user says, and at 2.000000 MHz by the log itself, 0.log:4: times \
                 are by the first; import it again without --tsc-frequency to have them by the second",
            ),
            (
                Warning::JobWithoutTime {
                    job: "A start job is running for wlan0".to_owned(),
                    at_least: Ns::from_ms(13_000),
                },
                "user space waited for at least 13.0 s for this job: A start job is running for wlan0. Its lines have no times, \
                 so the total lacks that; stamp the lines as they arrive, or paste the journal (`journalctl -b -o \
                 short-monotonic`)",
            ),
            (
                Warning::LogWithoutBoot { from: Ns::from_ms(26_742_000) },
                "no line of this log shows that the kernel boots: its first line comes 26742 s after the kernel's start, and the \
                 messages of the boot are gone. The rows are of a running system. Take the log of the boot from the journal \
                 (`journalctl -k -b`) or from /var/log/dmesg, or give the kernel a larger buffer (log_buf_len=16M)",
            ),
            (
                Warning::EndMarkWithoutTime,
                "the end mark that was asked for has no time of the guest's: the boot is shown up to another one",
            ),
            (
                Warning::ThreadSilent {
                    thread: "thread0".to_owned(),
                    from: Ns(30),
                    to: Ns(90),
                    outer: "mi_startup".to_owned(),
                    inner: "SYSINIT a".to_owned(),
                },
                "thread0 logs nothing from 30 ns to 90 ns, so what ran in mi_startup then is not known: bootscope charges this \
                 time to mi_startup; SYSINIT a, which was entered and never left, is shown only up to 30 ns",
            ),
            (
                Warning::LogAfterBoot { forked: rc.clone(), before: Ns(22_600_000) },
                "the log begins after the end of the kernel's part: process 1 forked process 15 (/etc/rc) 22.6 ms before its \
                 first record; the boot is not in it, and what came before it has times below zero",
            ),
            (
                Warning::LogOfLoaderAlone(end("EXIT efipart_readwrite", 0, &["loader", "open /boot"])),
                "this is a part of a boot, the loader's: the log ends 7.00 µs after its first record, with EXIT \
                 efipart_readwrite on thread 0x0, before the kernel's first record; the loader was in open /boot, called by \
                 loader",
            ),
            (
                Warning::LogWithoutEnd(end("ENTER _sleep", 0xff, &["mi_startup"])),
                "this is a part of a boot: the log does not have the end of the kernel's part (EXIT start_init); it ends 7.00 \
                 µs after its first record, with ENTER _sleep on thread 0xff; the boot path's thread was in mi_startup",
            ),
            (
                Warning::ProcessTableAlone { zero: Some(rc) },
                "this is a part of a boot, the user's: there is a process table and no record of the kernel; time zero is when \
                 process 1 forked process 15 (/etc/rc)",
            ),
            (
                Warning::LogRecordsDropped { records: 2 },
                "the kernel's log buffer was full: 2 later records found no room in it; a larger one keeps them",
            ),
            (
                Warning::LogBufferFull { records: 262_144, last: Some(Ns::from_ms(131)) },
                "the kernel's log buffer was full: it has 262144 records, and what came later, 131 ms after the first record, is \
                 not in it; a kernel with a larger TSLOGSIZE keeps more",
            ),
            (
                Warning::LogPartMissing { from: Ns(28_200_000), to: Some(Ns::from_ms(488)) },
                "a part of the log is missing, from 28.2 ms to 488 ms: what ran then is not known",
            ),
        ]
    }

    #[test]
    fn each_warning_has_a_sentence_and_a_distinct_code() {
        let all = examples();
        for (warning, text) in &all {
            assert_eq!(WarningLine::new(warning, Unit::Nanoseconds).text, *text);
        }
        let codes: std::collections::BTreeSet<&str> = all.iter().map(|(warning, _)| warning.code()).collect();
        assert_eq!(codes.len(), all.len());
        assert!(codes.iter().all(|code| code.bytes().all(|c| c.is_ascii_lowercase() || c == b'-')), "{codes:?}");
    }

    #[test]
    fn times_are_in_the_timelines_unit() {
        let missing = Warning::LogPartMissing { from: Ns(2_000), to: None };
        let line = WarningLine::new(&missing, Unit::Ticks);
        assert_eq!(line.text, "a part of the log is missing, from 2.00 kticks: what ran then is not known");
        assert_eq!((line.code.as_str(), line.affects.as_str()), ("log-part-missing", "functions"));
    }

    #[test]
    fn the_inner_calls_of_a_deep_stack_are_named() {
        let names: Vec<String> = (0..20).map(|n| format!("f{n}")).collect();
        let open: Vec<&str> = names.iter().map(String::as_str).collect();
        let text = WarningLine::new(&Warning::LogWithoutEnd(end("ENTER g", 1, &open)), Unit::Nanoseconds).text;
        assert!(text.ends_with("was in f19, called by f18, f17, f16, f15, f14, f13, f12, f11, …"), "{text}");
        let text = WarningLine::new(&Warning::LogWithoutEnd(end("ENTER g", 1, &open[..9])), Unit::Nanoseconds).text;
        assert!(text.ends_with("was in f8, called by f7, f6, f5, f4, f3, f2, f1, f0"), "{text}");
    }
}
