//! Logs that people pasted, with the answer that is known of each: the longest gap, and where process 1 began.

use super::imports::{imported, imported_texts, phase_rows};
use analysis::{Groups, boot_path, phases, tables, total};
use timeline::{EndEvidence, Ns, Timeline};

/// The longest row of the boot path, and its time in µs. Stretches that no evidence covers are left out.
fn longest_row(timeline: &Timeline) -> (String, i64) {
    let all = tables(timeline, &boot_path(timeline), &phases(timeline), &Groups::linux());
    let mut rows: Vec<(String, Ns)> = all.wheres.iter().map(|row| (row.name.clone(), row.self_time)).collect();
    rows.retain(|row| row.0 != "(unexplained)");
    let (name, time) = rows.into_iter().max_by_key(|row| row.1).unwrap();
    (name, time.0 / 1000)
}

#[test]
fn the_longest_gap_is_the_first_row() {
    for (file, begins, us) in [
        ("i8042-probe", "after “     bootserver=255.255.255.255, rootserver=255.255.255.255", 512_930),
        ("disk-spin-up", "after “clocksource: tsc: mask: 0xffffffffffffffff max_cycles", 11_129_428),
        ("usb-input-timeouts", "after “hid-generic 0003:1B1C:1B20.0002: input,hidraw2", 9_999_892),
        ("swap-then-90-s", "after “Adding 102396k swap on /var/swap.", 84_774_873),
        ("random-numbers", "after “systemd[1]: Set hostname to <localhost>.", 2_107_579),
        ("linux-3.1-console-replay", "after “serial8250.0: ttyS0 at MMIO 0x70006300 (irq = 122)", 592_529),
        // The stamps of its two lines, where the kernel says 0 usecs.
        ("initcalls-of-0-usecs", "initcall univ8250_console_init", 1_302_454),
    ] {
        let timeline = imported(&[&format!("log/pasted-{file}.log")]);
        let (name, found_us) = longest_row(&timeline);
        assert!(name.starts_with(begins), "{file}: {name}");
        assert!((found_us - us).abs() <= 1, "{file}: {found_us}");
    }
}

/// The start of process 1 and its error, in µs.
fn process_1(file: &str) -> (i64, i64) {
    let timeline = imported(&[&format!("log/pasted-{file}.log")]);
    let phase = phases(&timeline).into_iter().find(|phase| phase.name == "process 1");
    let phase = phase.unwrap_or_else(|| panic!("{file}: {:?}", phase_rows(&timeline)));
    (phase.start.0 / 1000, phase.error.0 / 1000)
}

#[test]
fn programs_prove_that_process_1_runs() {
    // The first message after the kernel freed its beginning, and the time since then, or until a program speaks.
    assert_eq!(process_1("linux-4.9-no-run-line"), (5_253_877, 270_438));
    assert_eq!(process_1("linux-3.10-rockchip-prefix"), (5_915_252, 226_933));
    assert_eq!(process_1("android-two-stamps"), (2_382_140, 560_169));
    assert_eq!(process_1("swap-then-90-s"), (8_545_604, 8_545_604), "it may have begun before the excerpt");
    assert_eq!(process_1("random-numbers"), (277_681, 500));
    // No program speaks: what follows the last words of the kernel's beginning is user space.
    let (at, error) = process_1("linux-3.8-freeing-init-memory");
    assert!(at - error <= 908_365 && at > 908_365, "{at} ± {error}");
}

#[test]
fn lines_of_process_1_are_not_the_first_thread_s() {
    let timeline = imported(&["log/pasted-swap-then-90-s.log"]);
    let gap = timeline.spans.iter().map(|(_, span)| span).max_by_key(|span| span.length()).unwrap();
    assert_eq!(timeline.names.get(timeline.tracks.get(gap.track).name), "init");
}

#[test]
fn one_stamp_ahead_does_not_make_the_boot_longer() {
    let timeline = imported(&["log/pasted-linux-4.4-one-stamp-ahead.log"]);
    assert_eq!(total(&timeline).0 / 1_000_000, 39_289);
    assert_eq!(timeline.diagnostics.count(timeline::DiagnosticKind::LogClockBack), 2, "one line is out of order, too");
}

#[test]
fn whole_seconds_of_dmesg_have_phases_within_a_second() {
    let timeline = imported(&["log/pasted-linux-6.12-dmesg-T.log"]);
    assert_eq!(total(&timeline), Ns::from_ms(7000));
    let end = timeline.end.unwrap();
    assert_eq!((end.evidence, end.error), (EndEvidence::Process1Started, Ns::from_ms(1000)));
    assert!(phases(&timeline).iter().all(|phase| phase.error >= Ns::from_ms(1000)));
}

/// A logger's whole seconds are the error of all that is placed by them.
#[test]
fn whole_seconds_of_a_logger_are_an_error_of_a_second() {
    let text = "\
00:00:01 U-Boot 2024.01 (Jan 01 2024)\n\
00:00:03 Starting kernel ...\n\
00:00:05 Booting Linux on physical CPU 0x0\n\
00:00:05 Linux version 6.1.0 (x@y) #1\n\
00:00:09 Run /sbin/init as init process\n\
00:00:15 box login: \n";
    for (text, error) in
        [(text.to_owned(), Ns::from_ms(1000)), (text.replace("05 Linux", "05.250 Linux"), Ns::from_ms(1))]
    {
        let timeline = imported_texts(&[("ts.log", &text)]);
        let end = timeline.end.unwrap();
        assert_eq!((end.evidence, end.error), (EndEvidence::LoginPrompt, error));
        let errors: Vec<Ns> = phases(&timeline).iter().map(|phase| phase.error).collect();
        assert!(errors.iter().all(|found| *found == error), "{errors:?}");
        assert!(timeline.passed.iter().all(|passed| passed.error >= error), "{:?}", timeline.passed);
    }
}

#[test]
fn time_behind_several_messages_from_before_the_clock_is_no_row_of_the_last() {
    let timeline = imported(&["log/linux-6.1-kmsg.log"]);
    let gaps = timeline.spans.iter().map(|(_, span)| span).filter(|span| span.kind == timeline::SpanKind::Message);
    let first = gaps.min_by_key(|span| span.start).unwrap();
    // Its first stamp other than 0.000000 is 0.413013, behind four messages with that one.
    assert_eq!(first.start.0 / 1000, 413_013);
    assert_eq!(phases(&timeline)[0].start, Ns::ZERO, "the early kernel begins with them");
}

#[test]
fn one_step_of_a_coarse_clock_is_no_gap() {
    let kernel = |stamps: &[&str]| {
        let lines: String = stamps.iter().enumerate().map(|(n, at)| format!("{at} a{n}: line\n")).collect();
        imported_texts(&[("a.log", &format!("{} Linux version 6.12.1 (a@b)\n{lines}", stamps[0]))])
    };
    let gaps = |timeline: &Timeline| {
        let spans = timeline.spans.iter().map(|(_, span)| span);
        let gaps = spans.filter(|span| span.kind == timeline::SpanKind::Message && span.length() >= Ns::from_ms(500));
        gaps.map(|span| (timeline.names.get(span.name).to_owned(), span.length().0 / 1_000_000)).collect::<Vec<_>>()
    };
    let at = |second: u32| format!("[Tue Jan 20 10:17:{second:02} 2026]");
    let texts = [at(44), at(44), at(45), at(45), at(48), at(48)];
    let seconds = kernel(&texts.each_ref().map(String::as_str));
    assert_eq!(gaps(&seconds), [("a3: line".to_owned(), 3000)], "the step from 44 to 45 may be no wait");
    // FreeBSD's form of whole seconds, and the ticks of an old kernel, by the stamps alone.
    let ticks: Vec<String> = (0..30).map(|n| format!("[{:12.6}]", f64::from(n / 3) * 0.01)).collect();
    let ticks = kernel(&ticks.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(phases(&ticks).iter().all(|phase| phase.error >= Ns::from_ms(10)), "{:?}", phase_rows(&ticks));
}

#[test]
fn a_kernel_that_measures_a_clock_before_its_own_runs_takes_the_time() {
    let log = |last: &str| {
        let text = format!(
            "[    0.000000] Info: [libkvmplat] <setup.c @  468> Entering from KVM (x86).\n\
             [    0.000000] Info: [libkvmplat] <setup.c @  470> more\n[    0.000000] {last}\n\
             [    0.100002] Info: [libkvmplat] <tscclock.c @  275> Clock source: TSC\n\
             [    0.110000] Info: [libukboot] <boot.c @  236> Calling main(1, ['a'])\n"
        );
        longest_row(&imported_texts(&[("a.log", &text)]))
    };
    let calibrates = "Info: [libkvmplat] <tscclock.c @  254> Calibrating TSC clock against i8254 timer";
    assert_eq!(log(calibrates), (format!("after “{calibrates}”"), 100_002));
    assert_eq!(log("Info: [libkvmplat] <setup.c @  471> other").0, "(kernel)");
}

/// The rows of the boot path that tables show, longest first, each with its length in ms.
fn rows(timeline: &Timeline) -> Vec<(String, i64)> {
    let all = tables(timeline, &boot_path(timeline), &phases(timeline), &Groups::linux());
    let mut rows: Vec<(String, i64)> =
        all.wheres.iter().map(|row| (row.name.clone(), row.self_time.0 / 1_000_000)).collect();
    rows.sort_by_key(|row| -row.1);
    rows
}

/// The line that took the time before the clock ran is unknown, but the place is not.
#[test]
fn a_counter_that_jumps_from_zero_has_a_row() {
    let text = "\
[    0.000000] Linux version 3.4.0 (x@y) #1\n\
[    0.000000] Kernel command line: console=ttyS0\n\
[    0.000000] NR_IRQS:64 nr_irqs:64 0\n\
[    2.600000] pid_max: default: 32768\n\
[    2.650000] Freeing init memory: 200K\n";
    let found = rows(&imported_texts(&[("dmesg", text)]));
    assert_eq!(found[0], ("after “NR_IRQS:64 nr_irqs:64 0 (or an earlier line at 0)”".to_owned(), 2_600));
    let calibrates = text.replace("NR_IRQS:64 nr_irqs:64 0", "Calibrating delay loop...");
    let found = rows(&imported_texts(&[("dmesg", &calibrates)]));
    assert_eq!(found[0], ("after “Calibrating delay loop...”".to_owned(), 2_600));
}

/// After a login, the machine waits for its user: the rest of the log is no boot.
#[test]
fn a_boot_is_over_when_a_user_logs_in() {
    let text = "\
[    0.000000] Linux version 3.13.6 (x@y) #1\n\
[    0.474514] Freeing unused kernel memory: 1128K\n\
[    0.481957] random: systemd-tmpfile urandom read with 3 bits of entropy available\n\
[    6.200000] input: TPPS/2 IBM TrackPoint as /devices/input15\n\
[   17.934359] type=1006 audit(1397127782.936:2): pid=294 uid=0 old auid=4294967295 new auid=1000 old ses=4294967295 new ses=1 res=1\n\
[   39.436314] type=1006 audit(1397127804.413:4): pid=434 uid=0 old auid=4294967295 new auid=0 old ses=4294967295 new ses=3 res=1\n\
[   60.900000] iwlwifi 0000:03:00.0: L1 Enabled; Disabling L0S\n";
    let timeline = imported_texts(&[("dmesg", text)]);
    assert_eq!(timeline.end.unwrap().at.0 / 1_000_000, 6_200);
}

#[test]
fn two_gaps_behind_lines_with_one_text_are_two_rows() {
    let text = "\
[    0.000000] Linux version 5.4.0 (x@y) #1\n\
[    0.100000] usb 1-1: device descriptor read/64, error -110\n\
[    5.300000] usb 1-1: device descriptor read/64, error -110\n\
[   11.500000] usb 1-1: new full-speed USB device\n\
[   11.600000] Run /sbin/init as init process\n";
    let found = rows(&imported_texts(&[("dmesg", text)]));
    let error = "after “usb 1-1: device descriptor read/64, error -110";
    assert_eq!(found[..2], [(format!("{error} (time 2)”"), 6_200), (format!("{error}”"), 5_200)]);
}

/// Process 1 may have begun before a log that lacks its beginning.
#[test]
fn the_start_of_process_1_is_unknown_in_a_log_without_its_beginning() {
    let text = "\
[    5.123456] usb 1-1: new high-speed USB device number 2 using xhci_hcd\n\
[    6.000000] systemd[1]: Detected architecture x86-64.\n\
[    9.000000] systemd[1]: Reached target Basic System.\n";
    let error = |text: &str| {
        let timeline = imported_texts(&[("dmesg", text)]);
        let phases = analysis::phases(&timeline);
        phases.iter().find(|phase| phase.what == timeline::Phase::Process1).unwrap().error
    };
    assert_eq!(error(text), Ns::from_ms(6000));
    let whole = format!("[    0.000000] Linux version 6.1.0 (x@y) #1\n{text}");
    assert!(error(&whole) < Ns::from_ms(2), "its beginning is there");
}
