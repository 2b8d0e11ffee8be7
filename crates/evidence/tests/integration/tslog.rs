//! TSLOG dumps: the public ones, with all that a console adds to them, and malformed ones.

mod parts;

use crate::cpu;
use evidence::tslog::{Counter, Log, build};
use proptest::prelude::*;
use std::path::Path;
use timeline::{
    Clock, DiagnosticKind, EndEvidence, Ns, Os, Phase, ProcessNamed, ProcessOf, RateLine, RateSource, SpanKind, Ticks,
    TimeBase, Timeline, TrackKind, Unit, WaitedOn, Warning,
};

const HEAD: &str = include_str!("../data/tslog/freebsd15-firecracker-console-and-tslog-head.log");
const TAIL: &str = include_str!("../data/tslog/freebsd15-firecracker-tslog-tail.log");

fn built(files: &[&[u8]], counter: Counter) -> Timeline {
    let mut timeline = Timeline::new(TimeBase::Evidence);
    let mut log = Log::default();
    for (i, bytes) in files.iter().enumerate() {
        log.read(&format!("{i}.log"), bytes, &mut timeline.diagnostics);
    }
    build(log, counter, &mut timeline);
    timeline.finalize(Ns::ZERO);
    timeline
}

/// Builds a log in which a tick is a nanosecond.
fn made(text: &str) -> Timeline {
    built(&[text.as_bytes()], Counter::Rate(1e9, timeline::RateSource::User))
}

/// The diagnostics: kind, count, and the line of the first.
fn diagnostics(t: &Timeline) -> Vec<(&str, u64, &str)> {
    t.diagnostics.iter().map(|d| (d.kind.code(), d.count, d.first.strip_prefix("0.log:").unwrap_or(&d.first))).collect()
}

#[track_caller]
fn check(text: &str, expected: &[(&str, u64, &str)]) -> Timeline {
    let timeline = made(text);
    assert_eq!(diagnostics(&timeline), expected, "\n{text}");
    timeline
}

/// The spans as `thread: name detail from..to`, by track and time.
fn spans(t: &Timeline) -> Vec<String> {
    let name = |id| t.names.get(id);
    let line = |(_, s): (_, timeline::SpanRow)| {
        let track = name(t.tracks.get(s.track).name);
        let what = format!("{} {}", name(s.name), name(s.detail));
        format!("{track}: {} {}..{}", what.trim_end(), s.start.0, s.end.0)
    };
    t.spans.iter().map(line).collect()
}

fn length(t: &Timeline, detail: &str) -> Ns {
    let has_detail = |s: &timeline::SpanRow| t.names.get(s.detail) == detail;
    t.spans.iter().map(|(_, s)| s).filter(has_detail).map(|s| s.length()).sum()
}

/// The host knows to 100 µs when the log's counter was 0. Each phase and the end have this error; the log's own times
/// stay exact.
#[test]
fn phases_have_the_error_of_the_logs_place_on_the_hosts_clock() {
    let text = "0x10 1000 ENTER hammer_time\n0x10 1500 EXIT hammer_time\n0x10 2000 ENTER mi_startup\n\
                0x10 7000 ENTER start_init\n0x10 9000 EXIT start_init\n";
    let place = |counter: Counter| {
        let t = built(&[text.as_bytes()], counter);
        let end = t.end.unwrap();
        let errors: Vec<i64> = t.boundaries.iter().map(|b| b.error.0).chain([end.error.0]).collect();
        (errors, end.at, spans(&t))
    };
    let mut clock = Clock::linear("guest TSC", 1e9, Ticks(0), Ns(5_000), RateSource::HostFromStart);
    clock.residual = Ns::from_us(100);
    let (errors, end, on_the_host) = place(Counter::Clock(clock));
    assert_eq!((errors, end), (vec![100_000; 5], Ns(14_000)));
    let (errors, end, alone) = place(Counter::Rate(1e9, RateSource::User));
    assert_eq!((errors, end), (vec![0; 5], Ns(8_000)), "its first record is time zero");
    assert_eq!((on_the_host.len(), on_the_host[0].as_str()), (alone.len(), "thread0: hammer_time 6000..6500"));
}

/// With several CPUs, the thread that logged last need not be the one that creates a thread.
#[test]
fn the_boot_thread_creates_threads_unless_it_waits() {
    let log = |between: &str| {
        format!(
            "0x10 0 ENTER mi_startup\n0x20 0 THREAD usb\n{between}0x20 5 ENTER explore\n0x30 6 THREAD disk\n\
             0x30 7 ENTER spinup\n0x30 8 EXIT spinup\n0x20 9 EXIT explore\n0x10 10 EVENT UNWAIT hooks\n0x10 11 EXIT mi_startup\n"
        )
    };
    let creator = |text: &str| {
        let t = made(text);
        let disk = t.tracks.iter().find(|(_, track)| t.names.get(track.name) == "disk").unwrap().1;
        t.names.get(t.tracks.get(disk.created.unwrap().1).name).to_owned()
    };
    assert_eq!(creator(&log("")), "thread0");
    assert_eq!(creator(&log("0x10 2 EVENT WAIT hooks\n")), "usb");
    assert_eq!(creator(&log("0x10 2 EVENT WAIT hooks\n0x10 3 EVENT UNWAIT hooks\n")), "thread0");
}

#[test]
fn the_public_dump_in_two_files() {
    for files in [[HEAD, TAIL], [TAIL, HEAD]] {
        let t = built(&files.map(str::as_bytes), Counter::Unknown);
        assert_eq!(t.clocks[0].hz, 2_445_431_964.0);
        // The log has 18617672, 6043097 and 27033569 ticks.
        assert_eq!(length(&t, "announce"), Ns(7_613_245));
        assert_eq!(length(&t, "trademark"), Ns(2_471_178));
        assert_eq!(length(&t, "version"), Ns(11_054_721));
        assert_eq!((&t.os, t.unit), (&Os::FreeBsd, Unit::Nanoseconds));
        assert_eq!(t.warnings.len(), 2, "{:?}", t.warnings);
        let [Warning::LogPartMissing { from, to: Some(to) }, Warning::LogWithoutEnd(end)] = &t.warnings[..] else {
            panic!("{:?}", t.warnings)
        };
        assert_eq!([*from, *to, end.at].map(|at| t.unit.show(at)), ["28.2 ms", "488 ms", "496 ms"]);
        assert_eq!((end.record.as_str(), end.open.len()), ("ENTER _sleep", 0), "its end is known by the fork");
        let end = t.end.unwrap();
        let name = t.names.find("/etc/rc").unwrap();
        assert_eq!(end.evidence, EndEvidence::Forked(ProcessOf { pid: 15, name }));
        assert_eq!((end.at, end.error), (Ns(465_399_609), Ns::ZERO), "a fork is stamped exactly");
        assert_eq!(t.diagnostics.count(DiagnosticKind::TslogGap), 1);
        assert_eq!(t.diagnostics.count(DiagnosticKind::TslogLinesBetween), 0);
    }
}

#[test]
fn the_public_dumps_processes_are_a_tree() {
    let t = built(&[HEAD.as_bytes(), TAIL.as_bytes()], Counter::Unknown);
    let lines: Vec<String> = t
        .processes
        .iter()
        .map(|p| {
            let length = p.end.map_or("alive".to_owned(), |end| (end - p.start).to_string());
            format!("{}{} {} {length}", "  ".repeat(p.depth as usize), p.pid, t.names.get(p.name))
        })
        .collect();
    assert_eq!(lines.len(), 31);
    assert_eq!(
        lines[..4],
        ["1 /sbin/init alive", "  15 /etc/rc alive", "    16 hostname 1.15 ms", "    17 ifconfig 2.34 ms"]
    );
    assert_eq!(lines[17..20], ["    31 sed alive", "2 (kernel) alive", "3 (kernel) alive"]);
    let (_, sysctl) = t.spans.iter().find(|(_, s)| t.tracks.get(s.track).id == 29).unwrap();
    assert_eq!((sysctl.kind, sysctl.length()), (SpanKind::Process, Ns(14_261_652_437)));
}

#[test]
fn additions_of_a_console_are_removed() {
    let plain = built(&[HEAD.as_bytes()], Counter::Unknown);
    type Change = fn(&str) -> String;
    let variants: [(&str, Change); 5] = [
        ("\\r\\n", |l| format!("{l}\r\n")),
        ("\\r\\r\\n", |l| format!("{l}\r\r\n")),
        ("NULs around", |l| format!("\0\0{l}\0\n")),
        ("a logger's stamps", |l| format!("[2026-09-23 07:38:44.255] {l}\n")),
        ("a blank line after each", |l| format!("{l}\n\r\n")),
    ];
    for (name, change) in variants {
        let text: String = HEAD.lines().map(change).collect();
        let changed = built(&[text.as_bytes()], Counter::Unknown);
        assert_eq!(spans(&changed), spans(&plain), "{name}");
        assert_eq!(
            diagnostics(&changed).iter().map(|d| (d.0, d.1)).collect::<Vec<_>>(),
            diagnostics(&plain).iter().map(|d| (d.0, d.1)).collect::<Vec<_>>(),
            "{name}"
        );
    }
}

#[test]
fn control_characters_are_removed_from_lines() {
    let plain = built(&[HEAD.as_bytes(), TAIL.as_bytes()], Counter::Unknown);
    type Change = fn(&str) -> String;
    let variants: [(&str, Change); 3] = [
        ("a NUL in the middle of each", |l| format!("{}\0{}\n", &l[..l.len() / 2], &l[l.len() / 2..])),
        ("colours", |l| format!("\x1b[1;32m{l}\x1b[0m\r\n")),
        ("a block of NULs before each", |l| format!("{}{l}\n", "\0".repeat(100))),
    ];
    for (name, change) in variants {
        let files = [HEAD, TAIL].map(|text| text.lines().map(change).collect::<String>());
        for file in &files {
            assert!(evidence::recognise(file.as_bytes()).kinds[0].starts_with("TSLOG dump"), "{name}");
        }
        let changed = built(&[files[0].as_bytes(), files[1].as_bytes()], Counter::Unknown);
        assert_eq!(spans(&changed), spans(&plain), "{name}");
        assert_eq!((changed.processes.len(), changed.clocks[0].hz), (31, 2_445_431_964.0), "{name}");
        assert_eq!(changed.diagnostics.count(DiagnosticKind::TslogTypeUnknown), 0, "{name}");
    }
}

#[test]
fn lines_in_between_are_counted_and_change_nothing_else() {
    let plain = built(&[HEAD.as_bytes()], Counter::Unknown);
    let text: String = HEAD
        .lines()
        .map(|l| match l.contains("EXIT _vprintf") {
            true => format!("KDB: debugger backends: ddb\nlogin: {l}\n"),
            false => format!("{l}\n"),
        })
        .collect();
    let mixed = built(&[text.as_bytes()], Counter::Unknown);
    assert_eq!(spans(&mixed), spans(&plain));
    assert_eq!(mixed.diagnostics.count(DiagnosticKind::TslogLinesBetween), 9);
    assert_eq!(mixed.diagnostics.count(DiagnosticKind::TslogBehindText), 9);
}

#[test]
fn a_loader_a_kernel_and_process_1() {
    let t = check(
        "0x0 5000 ENTER loader\n0x0 9000 EXIT loader\n0xff 100 ENTER hammer_time\n0xff 200 EXIT hammer_time\n\
         0xff 300 ENTER mi_startup\n0xee 310 THREAD g_event\n0xff 400 ENTER SYSINIT cpu\n0xff 500 EXIT SYSINIT cpu\n\
         0xff 600 EXIT mi_startup\n0xdd 700 ENTER start_init\n0xdd 720 ENTER VFS_MOUNT zfs\n0xdd 800 EXIT VFS_MOUNT zfs\n\
         0xdd 900 EXIT start_init\n1 0 650 0 \"/sbin/init\" \"\"\n15 1 950 990 \"sh\" \"\"\n",
        &[("kernel-counter-early", 1, "3")],
    );
    assert_eq!(
        spans(&t),
        [
            "loader: loader 0..4000",
            "thread0: hammer_time 4001..4101",
            "thread0: mi_startup 4201..4501",
            "thread0: SYSINIT cpu 4301..4401",
            "init: start_init 4601..4801",
            "init: VFS_MOUNT zfs 4621..4701",
            "init: /sbin/init 4801..4891",
            "/etc/rc: /etc/rc 4851..4891",
        ]
    );
    let track = |name: &str| t.tracks.iter().find(|(_, track)| t.names.get(track.name) == name).unwrap();
    let ((loader, l), (main, m), (_, init), (_, g_event)) =
        (track("loader"), track("thread0"), track("init"), track("g_event"));
    assert_eq!((l.kind, l.created), (TrackKind::Firmware, None));
    assert_eq!((m.kind, m.created), (TrackKind::Thread, Some((Ns(4001), loader))));
    assert_eq!((init.created, g_event.created), (Some((Ns(4601), main)), Some((Ns(4211), main))));
    let phases: Vec<(Phase, i64)> = t.boundaries.iter().map(|b| (b.phase, b.at.0)).collect();
    assert_eq!(
        phases,
        [
            (Phase::Loader, 0),
            (Phase::MachineDependentInit, 4001),
            (Phase::Sysinits, 4201),
            (Phase::MountRoot, 4601),
            (Phase::UserProcesses, 4801)
        ]
    );
    assert_eq!((t.end.unwrap().at, t.warnings.len()), (Ns(4801), 0));
}

#[test]
fn netbsd_counts_threads_from_0_and_process_1_waits_for_main() {
    let other_kernel =
        check("0x0 100 ENTER main\n0x1 200 ENTER start_init\n0x0 500 EXIT main\n0x1 600 EXIT start_init\n", &[]);
    assert_eq!((&other_kernel.os, other_kernel.waits.len()), (&Os::Unknown, 0), "many a kernel has a `main`");
    assert_eq!(spans(&other_kernel), ["thread0: main 0..400", "init: start_init 100..500"]);
    let t = check(
        "0x0 100 ENTER main\n0x1 200 ENTER start_init\n0x0 500 EXIT main\n0x1 600 EXIT start_init\n\
         1  0  150  0  \"/sbin/init\"  \"/\"\n",
        &[],
    );
    assert_eq!(t.os, Os::NetBsd);
    assert_eq!(spans(&t), ["lwp0: main 0..400", "init: start_init 100..500", "init: /sbin/init 500..500"]);
    assert_eq!(t.waits.len(), 1);
    assert_eq!((t.waits[0].from, t.waits[0].until), (Ns(100), Ns(400)));
    assert!(matches!(t.waits[0].by, WaitedOn::Thread(_)));
}

#[test]
fn waits_holds_and_other_events() {
    let t = check(
        "0x1 0 ENTER mi_startup\n0x2 1 THREAD a\n0x1 2 EVENT WAIT root mount\n0x2 3 EVENT HOLD root mount\n\
         0x2 4 EVENT HOLD root mount\n0x2 5 EVENT RELEASE root mount\n0x2 6 EVENT RELEASE root mount\n\
         0x1 7 EVENT UNWAIT root mount\n0x1 8 EVENT kern_x.c 42\n0x2 9 EVENT RELEASE GEOM events\n\
         0x2 10 EVENT HOLD config hooks\n0x1 11 EVENT UNWAIT x\n0x2 12 EVENT WAIT y\n0x1 13 EXIT mi_startup\n0x1 14 ENTER start_init\n0x1 15 EXIT start_init\n",
        &[
            ("wait-without-beginning", 1, "12"),
            ("wait-lasts-until-log-end", 1, "13"),
            ("release-without-hold", 1, "10"),
            ("hold-never-released", 1, "11"),
        ],
    );
    let name = |id| t.names.get(id);
    let waits: Vec<_> = t.waits.iter().map(|w| (w.from.0, w.until, w.by)).collect();
    let topic = |topic: &str| WaitedOn::Holders(t.names.find(topic).unwrap());
    assert_eq!(waits, [(2, Ns(7), topic("root mount")), (12, Ns::MAX, topic("y"))]);
    let mut holds: Vec<_> = t.holds.iter().map(|h| (name(h.topic), h.from, h.to)).collect();
    holds.sort();
    let expected = [
        ("GEOM events", Ns::MIN, Ns(9)),
        ("config hooks", Ns(10), Ns::MAX),
        ("root mount", Ns(3), Ns(6)),
        ("root mount", Ns(4), Ns(5)),
    ];
    assert_eq!(holds, expected);
    assert_eq!(t.marks.iter().map(|m| (m.at.0, name(m.name))).collect::<Vec<_>>(), [(8, "kern_x.c 42")]);
}

#[test]
fn a_hold_that_another_thread_releases_is_passed_on() {
    let t = check(
        "0x1 0 ENTER mi_startup\n0x2 1 THREAD g_event\n0x1 2 EVENT HOLD GEOM events\n0x2 3 EVENT RELEASE GEOM events\n0x1 5 EXIT mi_startup\n0x1 6 EXIT start_init\n",
        &[("exit-without-entry", 1, "6"), ("hold-passed-on", 1, "3")],
    );
    assert_eq!(t.holds.len(), 2);
}

#[test]
fn a_later_thread_reuses_an_address() {
    let t = check(
        "0x1 0 ENTER mi_startup\n0x2 1 THREAD a\n0x2 2 ENTER f\n0x2 5 THREAD b\n0x2 6 ENTER f\n0x2 7 EXIT f\n0x1 8 EXIT start_init\n",
        &[("exit-without-entry", 1, "7"), ("entry-without-exit", 2, "1")],
    );
    assert_eq!(spans(&t), ["thread0: mi_startup 0..8", "a: f 2..8", "b: f 6..7"]);
}

#[test]
fn a_thread_is_named_while_it_runs() {
    let t = check(
        "0x0 0 ENTER start_kernel\n0x0 1 THREAD main\n0x0 2 ENTER delay\n0x0 52 EXIT delay\n0x7 53 THREAD a\n0x7 54 ENTER f\n\
         0x7 55 THREAD b\n0x7 56 EXIT f\n0x0 60 EXIT start_kernel\n",
        &[("thread-renamed", 1, "7")],
    );
    assert_eq!(spans(&t), ["main: start_kernel 0..60", "main: delay 2..52", "a: f 54..56"]);
    assert_eq!((t.tracks.len(), &t.os), (2, &Os::Unknown));
    // Nothing is open, but the kernel's first thread does not end, so the name is a late one.
    let t = check("0x0 0 ENTER f\n0x0 1 EXIT f\n0x0 2 THREAD main\n0x0 3 ENTER main\n0x0 9 EXIT main\n", &[]);
    assert_eq!(spans(&t), ["main: f 0..1", "main: main 3..9"]);
    // A thread's name is not a function.
    let t = check("0x0 0 THREAD main\n0x0 1 ENTER f\n0x0 9 EXIT f\n0x1 9 ENTER main\n0x1 12 EXIT main\n", &[]);
    let phases: Vec<(Phase, i64)> = t.boundaries.iter().map(|b| (b.phase, b.at.0)).collect();
    assert_eq!((phases, t.os), (vec![(Phase::Kernel, 0)], Os::Unknown));
}

#[test]
fn a_hole_in_the_middle_of_a_file() {
    let two = built(&[HEAD.as_bytes(), TAIL.as_bytes()], Counter::Unknown);
    let joined = format!("{HEAD}{TAIL}");
    let phases = |t: &Timeline| -> Vec<_> { t.boundaries.iter().map(|b| (b.phase, b.at)).collect() };
    let one = built(&[joined.as_bytes()], Counter::Unknown);
    assert_eq!((spans(&one), phases(&one), &one.warnings), (spans(&two), phases(&two), &two.warnings));
    assert_eq!(one.diagnostics.count(DiagnosticKind::TslogGap), 1);
    assert!(phases(&one).contains(&(Phase::Unexplained, Ns(28_203_305))), "{:?}", phases(&one));

    // The log is written and read again, with and without the note that marks the gap.
    let mut log = Log::default();
    for text in [HEAD, TAIL] {
        log.read("a", text.as_bytes(), &mut Default::default());
    }
    let mut written = Vec::new();
    log.write(&mut written).unwrap();
    let text = String::from_utf8(written).unwrap();
    assert_eq!(text.lines().filter(|l| l.contains(" TSLOG ")).count(), 2, "a gap and a rate");
    let unmarked = text.replace("0x0 83088266 EVENT TSLOG gap\n", "");
    for text in [&text, &unmarked] {
        let again = built(&[text.as_bytes()], Counter::Unknown);
        assert_eq!((length(&again, "vm_mem"), again.clocks[0].hz), (length(&two, "vm_mem"), 2_445_431_964.0));
        assert_eq!(again.warnings[0].code(), "log-part-missing", "{:?}", again.warnings);
    }
}

/// A function that the path's thread never leaves lasts as long as the path is on that thread, or until the thread's
/// last known activity.
#[test]
fn functions_that_are_never_left() {
    let end = "0x9 90 ENTER start_init\n0x9 99 EXIT start_init\n";
    let begin = "0x1 0 ENTER mi_startup\n0x1 5 ENTER SYSINIT a\n0x2 20 THREAD x\n";
    let unexplained = |t: &Timeline| -> Vec<i64> {
        let boundaries = t.boundaries.iter().filter(|b| b.phase == Phase::Unexplained);
        boundaries.map(|b| b.at.0).collect()
    };
    // Process 1 runs, so the SYSINIT is over. The outermost function does not return, and covers the unknown time.
    let t = check(&format!("{begin}0x1 25 ENTER f\n0x1 30 EXIT f\n{end}"), &[("entry-without-exit", 2, "2")]);
    assert_eq!(spans(&t)[..2], ["thread0: mi_startup 0..90", "thread0: SYSINIT a 5..30"]);
    assert!(unexplained(&t).is_empty());
    assert_eq!(t.names.get(t.marks[0].name), "SYSINIT a: not left in the log, may have ended here");
    assert_eq!(
        t.warnings,
        [Warning::ThreadSilent {
            thread: "thread0".to_owned(),
            from: Ns(30),
            to: Ns(90),
            outer: "mi_startup".to_owned(),
            inner: "SYSINIT a".to_owned(),
        }]
    );
    // An outermost function that never returns lasts to the end mark.
    let t = check(&format!("0x1 0 ENTER kmain\n{end}0x2 120 THREAD x\n"), &[("entry-without-exit", 1, "1")]);
    assert_eq!(spans(&t)[0], "thread0: kmain 0..99");
    assert!(unexplained(&t).is_empty());
    // A machine that hangs is still in its functions.
    let t = check(&format!("{begin}0x2 80 ENTER g\n"), &[("entry-without-exit", 3, "2")]);
    assert_eq!(spans(&t)[1], "thread0: SYSINIT a 5..80");
    assert!(unexplained(&t).is_empty());
    let Warning::LogWithoutEnd(end) = &t.warnings[0] else { panic!("{:?}", t.warnings) };
    assert_eq!(end.open, ["mi_startup", "SYSINIT a"]);
    // The first process was forked before the log ends, and then after it.
    let table = |forked: u32| format!("1 0 7 0 \"/sbin/init\" \"\"\n15 1 {forked} 0 \"sh\" \"\"\n");
    let t = made(&format!("{begin}0x2 80 ENTER g\n{}", table(60)));
    assert_eq!((spans(&t)[1].as_str(), unexplained(&t)), ("thread0: SYSINIT a 5..5", vec![5]));
    let t = made(&format!("{begin}0x2 80 ENTER g\n{}", table(160)));
    assert_eq!((spans(&t)[1].as_str(), unexplained(&t)), ("thread0: SYSINIT a 5..80", vec![80]));
}

#[test]
fn a_log_that_begins_after_the_end_mark() {
    let t = built(&[TAIL.as_bytes()], Counter::Rate(2_445_431_964.0, timeline::RateSource::User));
    let Warning::LogAfterBoot { forked, before } = &t.warnings[0] else { panic!("{:?}", t.warnings) };
    let rc = ProcessNamed { pid: 15, name: Some("/etc/rc".to_owned()) };
    assert_eq!((forked, t.unit.show(*before).as_str()), (&rc, "22.6 ms"));
    assert_eq!(t.end.unwrap().at, Ns(8_234_543), "its last record");
}

#[test]
fn a_wait_whose_end_is_missing() {
    let t = check(
        "0x1 0 ENTER mi_startup\n0x1 1 ENTER f\n0x1 2 EVENT WAIT x\n0x1 3 ENTER _sleep\n0x1 8 EXIT _sleep\n0x1 9 EXIT f\n\
         0x1 10 ENTER g\n0x1 11 EVENT WAIT x\n0x1 12 EXIT g\n0x1 13 EVENT UNWAIT x\n0x1 14 EXIT mi_startup\n0x1 15 EVENT WAIT x\n",
        &[("wait-lasts-until-return", 1, "3"), ("wait-lasts-until-log-end", 1, "12")],
    );
    let waits: Vec<_> = t.waits.iter().map(|w| (w.from.0, w.until.0)).collect();
    assert_eq!(waits, [(2, 9), (11, 13), (15, i64::MAX)]);
}

/// A wait without an end is over when its thread does something other than sleep.
#[test]
fn a_thread_that_goes_on_does_not_wait() {
    let t = check(
        "0x1 0 ENTER mi_startup\n0x1 1 ENTER f\n0x1 2 EVENT WAIT x\n0x1 3 ENTER _sleep\n0x1 8 EXIT _sleep\n\
         0x1 9 ENTER _sleep\n0x1 10 EXIT _sleep\n0x1 12 ENTER g\n0x1 13 ENTER h\n0x1 14 EXIT h\n0x1 15 EXIT g\n\
         0x1 20 EXIT f\n0x1 30 EVENT WAIT y\n0x1 31 ENTER g\n0x1 40 EXIT mi_startup\n",
        &[("entry-without-exit", 1, "14"), ("wait-lasts-until-call", 1, "3"), ("wait-lasts-until-return", 1, "13")],
    );
    let waits: Vec<_> = t.waits.iter().map(|w| (w.from.0, w.until.0)).collect();
    // The thread may wait inside a function that it entered and did not leave.
    assert_eq!(waits, [(2, 12), (30, 40)]);
}

/// FreeBSD's loader logs a detail only when it enters a function (`stand.h` has `TSENTER2` and no `TSEXIT2`).
#[test]
fn an_exit_without_a_detail_closes_the_innermost_entry_of_its_name() {
    let t = check(
        "0x0 0 ENTER loader\n0x0 1 ENTER open /boot/kernel\n0x0 2 ENTER open /boot\n0x0 3 EXIT open\n0x0 4 EXIT open\n\
         0x0 5 ENTER read\n0x0 6 EXIT read /boot\n0x0 7 EXIT read\n0x0 9 EXIT loader\n",
        &[("exit-without-entry", 1, "7")],
    );
    assert_eq!(
        spans(&t),
        ["loader: loader 0..9", "loader: open /boot/kernel 1..4", "loader: open /boot 2..3", "loader: read 5..7"]
    );
}

#[test]
fn the_log_has_its_rate_and_a_given_rate_may_contradict_it() {
    let log =
        "0x1 0 ENTER mi_startup\n0x1 1000 EXIT mi_startup\n0x1 2000 EXIT start_init\n0x0 2000 EVENT TSLOG hz 2000000\n";
    let found_in = RateSource::Line { line: RateLine::LogItself, place: "0.log:4".to_owned() };
    let t = built(&[log.as_bytes()], Counter::Unknown);
    assert_eq!((t.clocks[0].hz, &t.clocks[0].rate_from), (2e6, &found_in));
    assert_eq!((t.end.unwrap().at, t.warnings.len(), t.tracks.len()), (Ns(1_000_000), 0, 1));
    let t = built(&[log.as_bytes()], Counter::Rate(3e6, RateSource::User));
    assert_eq!(t.warnings, [Warning::LogRateContradicted { given_hz: 3e6, found_hz: 2e6, found_in }]);
    assert!(built(&[log.as_bytes()], Counter::Rate(2_000_900.0, RateSource::User)).warnings.is_empty());
}

#[test]
fn malformed_lines_are_counted() {
    let begin = "0x1 0 ENTER mi_startup\n";
    let end = "0x1 90 EXIT mi_startup\n0x3 91 ENTER start_init\n0x3 99 EXIT start_init\n";
    let around = |middle: &str| format!("{begin}{middle}{end}");
    check(&around("0x1 5 FROB x\n0x1 6 y\n"), &[("tslog-type-unknown", 2, "2")]);
    check(&around("0x1 5 ENTER f\n0x1 4 EXIT f\n"), &[("clock-back", 1, "3")]);
    check(&around("0x1 5 ENTER f\n0x1 5 EXIT f\n0x1 5 ENTER g\n0x1 5 EXIT g\n"), &[]);
    check(&around("0x1 5 ENT\n0xff\n0x1 5\n0x1 99999999999999999999 EXIT f\n"), &[("tslog-line-unreadable", 4, "2")]);
    check(&around("0x1 5 ENTER \u{fffd}\u{1f600}\n0x1 6 EXIT \u{fffd}\u{1f600}\n"), &[]);
    check(&around("0x1 5 ENTER f\n0x1 6 ENTER g\n0x1 7 EXIT f\n"), &[("entry-without-exit", 1, "3")]);
    check(&format!("{}0x1 99 ENTER ne", around("")), &[("tslog-cut", 1, "5")]);
    check(&format!("{}0x1 99 EN", around("")), &[("tslog-cut", 1, "5")]);
    // A name that was seen before is complete, even if the last newline is missing.
    check(around("").trim_end(), &[]);

    let invalid = b"0x1 0 ENTER mi_startup\n0x1 1 ENTER \xff\xfe\n0x1 2 EXIT \xff\xfe\n0x1 3 EXIT mi_startup\n0x1 4 EXIT start_init\n";
    let t = built(&[invalid], Counter::Unknown);
    assert_eq!(t.diagnostics.count(DiagnosticKind::TslogNameNotUtf8), 1);
    assert_eq!(t.spans.len(), 2);
}

#[test]
fn ticks_go_on_after_a_counter_restarts() {
    let first: String =
        (0..20).map(|i| format!("0x1 {} ENTER f{i}\n0x1 {} EXIT f{i}\n", 1000 + i * 10, 1005 + i * 10)).collect();
    let again: String = (0..20).map(|i| format!("0x1 {} ENTER g{i}\n0x1 {} EXIT g{i}\n", i * 10, 5 + i * 10)).collect();
    let t = check(
        &format!("0x1 990 ENTER mi_startup\n{first}{again}0x1 300 EXIT mi_startup\n0x1 301 EXIT start_init\n"),
        &[("counter-restarted", 1, "42"), ("exit-without-entry", 1, "83")],
    );
    let last = spans(&t).pop().unwrap();
    // The last tick was 1195, so the restarted counter's 0 is 1196, which is 206 after the first tick 990.
    assert_eq!(last, "thread0: g19 396..401");
}

#[test]
fn the_better_of_two_dumps_is_used() {
    let boot = |last: &str| {
        format!(
            "0x1 0 ENTER hammer_time\n0x1 1 EXIT hammer_time\n0x1 2 ENTER mi_startup\n0x1 5 EXIT mi_startup\n{last}"
        )
    };
    let end = "0x1 6 ENTER start_init\n0x1 9 EXIT start_init\n";
    let second = "tslog-second-dump";
    check(&format!("{}BEGIN AGAIN\n{}", boot(""), boot(end)), &[(second, 4, "1")]);
    check(&format!("{}{}", boot(end), boot("0x1 6 ENTER f\n0x1 7 ENTER f\n0x1 8 ENTER f\n")), &[(second, 7, "7")]);
    let unlike = format!("{}# sysctl\n0x1 3 ENTER f\n0x1 4 EXIT f\n", boot(end));
    check(&unlike, &[(second, 2, "8")]);
}

/// Functions of other kernels may be called `main` or `loader` too, and may be entered again.
#[test]
fn a_function_named_loader_need_not_be_the_boot_loader() {
    let log = "0x1 0 ENTER kmain\n0x1 1 ENTER loader\n0x1 2 EXIT loader\n0x1 3 ENTER loader\n0x1 4 EXIT loader\n\
               0x1 10 ENTER vfs_mount\n0x1 50 EXIT vfs_mount\n0x1 60 EXIT kmain\n";
    let t = check(log, &[]);
    assert_eq!(spans(&t)[..2], ["thread0: kmain 0..60", "thread0: loader 1..2"]);
    assert_eq!(t.boundaries.iter().map(|b| b.phase).collect::<Vec<_>>(), [Phase::Kernel]);
    let each_cpu = "0x1 0 ENTER main\n0x1 1 ENTER smp_start\n0x2 2 THREAD ap1\n0x2 2 ENTER main\n0x1 9 EXIT smp_start\n\
                    0x2 55 EXIT main\n0x1 60 EXIT main\n";
    let t = check(each_cpu, &[]);
    assert_eq!(spans(&t), ["thread0: main 0..60", "thread0: smp_start 1..9", "ap1: main 2..55"]);
    // Without other text in between, a second entry is just that function; a dump that begins again is a second dump.
    let twice = "0x1 0 ENTER mi_startup\n0x1 5 EXIT mi_startup\n0x1 6 ENTER mi_startup\n0x1 9 EXIT mi_startup\n";
    assert_eq!(spans(&check(twice, &[])).len(), 2);
    let dump = "0x0 7 ENTER loader\n0x0 8 EXIT loader\n0x1 11 ENTER mi_startup\n0x1 15 EXIT mi_startup\n";
    check(&format!("{dump}{dump}"), &[("tslog-second-dump", 4, "5")]);
}

#[test]
fn contradictions_are_counted_with_their_place() {
    let t = built(
        &[
            b"0x1 0 ENTER mi_startup\n0x1 1 ENTER a\xff\n0x1 2 EXIT a\xff\n0x1 9 EXIT mi_startup\n",
            b"1 0 1 0 \"init\" \"\"\n2 1 3 4 \"sh\" \"\"\n2 1 5 6 \"sh\" \"\"\n",
        ],
        Counter::Rate(1e9, timeline::RateSource::User),
    );
    let expected = [("process-listed-twice", 1, "1.log:3"), ("tslog-name-not-utf-8", 1, "2")];
    assert_eq!(diagnostics(&t), expected);
}

#[test]
fn a_full_buffer_is_the_first_warning() {
    let mut text = "0x1 0 ENTER mi_startup\n".to_owned();
    for i in 1..131_072 {
        text.push_str(&format!("0x1 {i} ENTER f\n0x1 {i} EXIT f\n"));
    }
    text.push_str("0x1 131072 ENTER g\n");
    let t = made(&text);
    assert_eq!(text.lines().count(), 262_144);
    let [full, Warning::LogWithoutEnd(end)] = &t.warnings[..] else { panic!("{:?}", t.warnings) };
    assert_eq!(*full, Warning::LogBufferFull { records: 262_144, last: Some(Ns(131_072)) });
    assert_eq!((end.record.as_str(), end.thread), ("ENTER g", 1));
    assert_eq!(t.end.unwrap().evidence, EndEvidence::LogEnds(t.names.find("ENTER g").unwrap()));
    // With one record less, the log may be complete.
    assert_eq!(made(&text[23..]).warnings.len(), 1);
}

#[test]
fn without_a_rate_times_are_ticks() {
    let t =
        built(&[b"0x1 1000 ENTER mi_startup\n0x1 5000 EXIT mi_startup\n0x1 6000 EXIT start_init\n"], Counter::Unknown);
    assert_eq!((t.unit, t.clocks.len(), t.end.unwrap().at), (Unit::Ticks, 0, Ns(5000)));
    assert_eq!(t.warnings, [Warning::LogInTicks]);
}

#[test]
fn a_stamped_console_gives_the_rate() {
    // The counter runs at 2 GHz. Each line appears within half a millisecond of its SYSINIT's beginning.
    let text = "[2026-09-23 07:38:44.100000] KDB: debugger backends: ddb\n\
         [2026-09-23 07:38:44.200100] Copyright (c) 1992-2025 The FreeBSD Project.\n\
         [2026-09-23 07:38:44.700500] FreeBSD is a registered trademark of The FreeBSD Foundation.\n\
         [2026-09-23 07:38:45.200100] FreeBSD 15.0-RELEASE-p13 #0 releng/15.0\n\
         [2026-09-23 07:38:50.000000] 0x1 1000000000 ENTER mi_startup\n\
         [2026-09-23 07:38:50.000000] 0x1 1100000000 ENTER SYSINIT announce\n\
         [2026-09-23 07:38:50.000000] 0x1 1600000000 EXIT SYSINIT announce\n\
         [2026-09-23 07:38:50.000000] 0x1 2100000000 ENTER SYSINIT trademark\n\
         [2026-09-23 07:38:50.000000] 0x1 2600000000 EXIT SYSINIT trademark\n\
         [2026-09-23 07:38:50.000000] 0x1 3100000000 ENTER SYSINIT version\n\
         [2026-09-23 07:38:50.000000] 0x1 3200000000 EXIT SYSINIT version\n\
         [2026-09-23 07:38:50.000000] 0x1 3300000000 EXIT mi_startup\n\
         [2026-09-23 07:38:50.000000] 0x1 3400000000 EXIT start_init\n";
    let t = built(&[text.as_bytes()], Counter::Unknown);
    let clock = &t.clocks[0];
    let steps = ["SYSINIT announce", "SYSINIT trademark", "SYSINIT version"].map(str::to_owned).to_vec();
    assert_eq!(clock.rate_from, RateSource::ConsoleLines { steps });
    assert!((clock.hz - 2e9).abs() < 1.0, "{}", clock.hz);
    assert_eq!(clock.residual, Ns::ZERO, "the middle line is late by 400 µs, the median of the three is not");
    assert_eq!((t.unit, t.end.unwrap().at), (Unit::Nanoseconds, Ns(1_200_000_000)));
}

#[test]
fn a_written_log_equals_the_log_that_was_read() {
    let read = |bytes: &[u8]| {
        let mut log = Log::default();
        log.read("a", bytes, &mut Default::default());
        let mut text = Vec::new();
        log.write(&mut text).unwrap();
        String::from_utf8(text).unwrap()
    };
    let records: Vec<&str> = HEAD.lines().filter(|l| l.starts_with("0x")).collect();
    let written = read(HEAD.replace('\n', "\r\r\n").as_bytes());
    let (rate, lines) = written.trim_end().rsplit_once('\n').map(|(lines, rate)| (rate, lines)).unwrap();
    assert_eq!(lines.lines().collect::<Vec<_>>(), records);
    assert_eq!(rate, "0x0 83088266 EVENT TSLOG hz 2445431964", "machdep.tsc_freq of the console");
    assert_eq!(read(written.as_bytes()), written);
    // A gap is a note between two parts, not a record of either.
    let gap = "0x1 100 ENTER f\n0x0 100 EVENT TSLOG gap\n0x1 900 EXIT f\n";
    assert_eq!(read(gap.as_bytes()), gap);
}

#[test]
fn a_recording_of_both_files() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tslog-recording");
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tslog");
    let files = ["console-and-tslog-head", "tslog-tail"].map(|n| data.join(format!("freebsd15-firecracker-{n}.log")));
    recording::import(&files, &folder, true).unwrap();
    let loaded = evidence::read(&recording::Recording::open(&folder).unwrap()).unwrap();
    let s = &loaded.subject;
    assert_eq!(
        (s.os.name(), s.kernel.as_str(), s.cpus, s.memory_bytes),
        ("FreeBSD", "15.0-RELEASE-p13", 1, 536_870_912)
    );
    assert_eq!(loaded.timeline.processes.len(), 31);
    assert_eq!(loaded.timeline.diagnostics.count(DiagnosticKind::FormatUnknown), 0);
}

/// Time and memory are in proportion to the input, whatever it contains.
#[test]
fn hostile_logs_are_read_in_linear_time() {
    let begun_s = cpu::cpu_s();
    let many = 100_000;
    let exits: String = (0..many).map(|i| format!("0x1 {i} EXIT f{i}\n")).collect();
    let t = made(&format!("0x1 0 ENTER mi_startup\n{exits}"));
    assert_eq!(t.diagnostics.count(DiagnosticKind::ExitWithoutEntry), many);

    let deep: String = (0..many).map(|i| format!("0x1 {i} ENTER f{}\n", i % 7)).collect();
    let missing: String = (0..many).map(|i| format!("0x1 {} EXIT g{i}\n", many + i)).collect();
    let t = made(&format!("{deep}{missing}"));
    assert_eq!(t.diagnostics.count(DiagnosticKind::ExitWithoutEntry), many);
    assert_eq!(t.diagnostics.count(DiagnosticKind::EntryWithoutExit), many);

    let long = "n".repeat(10_000);
    let names: String = (0..1000).map(|i| format!("0x1 {i} ENTER {long}{i}\n")).collect();
    assert_eq!(made(&names).spans.len(), 1000);

    let threads: String =
        (0..many).map(|i| format!("{i:#x} {i} EVENT HOLD {}\n{i:#x} {i} THREAD t{i}\n", i % 3)).collect();
    assert_eq!(made(&threads).tracks.len() as u64, 2 * many - 1, "the first thread does not end, it is named late");
    let some = many / 5;
    let named: String = (0..some).map(|i| format!("0x1 {i} ENTER f{i}\n0x1 {i} THREAD t{i}\n")).collect();
    let left: String = (0..some).rev().map(|i| format!("0x1 {many} EXIT f{i}\n")).collect();
    assert_eq!(made(&(named + &left)).tracks.len(), 1);
    let waits: String = (0..some).map(|i| format!("0x1 {i} EVENT WAIT w\n0x1 {i} ENTER g\n0x1 {i} EXIT g\n")).collect();
    assert_eq!(made(&format!("0x1 0 ENTER mi_startup\n{waits}")).waits.len() as u64, some);
    let boots = "0x1 0 ENTER mi_startup\n".repeat(many as usize);
    assert_eq!(made(&boots).diagnostics.count(DiagnosticKind::TslogSecondDump), many - 1);
    let back: String = (0..many).rev().map(|i| format!("0x1 {i} ENTER f\n")).collect();
    made(&back);
    let rates: String = (1..many).map(|i| format!("0x1 {i} EVENT TSLOG hz {i}\n")).collect();
    built(&[rates.as_bytes()], Counter::Unknown);
    let gaps: String = (1..some).map(|i| format!("0x{i:x} {i} EXIT f\n0x0 {i} EVENT TSLOG gap\n")).collect();
    built(&[gaps.as_bytes()], Counter::Unknown);
    let chain: String = (1..many).map(|i| format!("{i} {} {i} 0 \"\" \"\"\n", i - 1)).collect();
    assert_eq!(made(&chain).processes.len() as u64, many - 1);
    let took_s = cpu::cpu_s() - begun_s;
    assert!(took_s < 60.0, "took {took_s} s");
}

/// Words that the reader looks for, so that tests get further than with noise.
const PIECES: [&str; 34] = [
    "\n",
    "\r\n",
    " ",
    "\0",
    "0x",
    "0x1",
    "0xffffffff8251db00",
    " 12 ",
    " 18446744073709551615 ",
    "ENTER ",
    "EXIT ",
    "EVENT ",
    "THREAD ",
    "WAIT x",
    "UNWAIT x",
    "HOLD x",
    "RELEASE x",
    "start_init",
    "mi_startup",
    "TSLOG gap",
    "TSLOG hz 7",
    "0x3 9 EXIT g\n",
    "0x1 9 THREAD t\n",
    "loader",
    "main",
    "hammer_time",
    "0x1 5 ENTER f\n",
    "0x2 6 EXIT f\n",
    "1 0 5 0 \"a\" \"b\"\n",
    "2 1 7 9 \"\" \"\"\n",
    "machdep.tsc_freq: 1000\n",
    "Timecounter \"TSC-low\" frequency 7 Hz\n",
    "[2026-11-21 10:11:12.123] ",
    "\u{fffd}",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_read(pieces in proptest::collection::vec(0..PIECES.len() + 2, 0..150), noise in any::<[u8; 6]>()) {
        let piece = |i: &usize| PIECES.get(*i).map_or(&noise[..], |p| p.as_bytes()).to_vec();
        let bytes: Vec<u8> = pieces.iter().flat_map(piece).collect();
        let t = built(&[&bytes, HEAD.as_bytes()], Counter::Unknown);
        prop_assert!(t.spans.iter().all(|(_, s)| s.start <= s.end));
        prop_assert!(t.waits.iter().all(|w| w.from <= w.woken && w.woken <= w.until));
        prop_assert!(t.holds.iter().all(|h| h.from <= h.to));
        for (id, s) in t.spans.iter() {
            if let Some(parent) = t.spans.parent(id).map(|p| t.spans.get(p)) {
                prop_assert!(parent.track == s.track && parent.start <= s.start && s.end <= parent.end);
            }
        }
    }
}
