//! A log in all its forms.

use super::*;

fn read(text: &[u8]) -> (KernelLog, Diagnostics) {
    let mut diagnostics = Diagnostics::default();
    let log = KernelLog::read("a.log", text, &mut diagnostics).unwrap();
    let c = log.counts;
    assert_eq!(c.lines, c.records - c.glued + c.continuations + c.comments + c.blank + c.unreadable);
    (log, diagnostics)
}

#[track_caller]
fn check(text: &[u8], expected: &[(Option<i64>, &str)]) -> (KernelLog, Diagnostics) {
    let (log, diagnostics) = read(text);
    let found: Vec<_> = log.lines.iter().map(|l| (l.stamp.map(|s| s.0), log.text(l))).collect();
    assert_eq!(found, expected);
    (log, diagnostics)
}

#[test]
fn console_lines() {
    let text = b"\x1bc\x1b[?7l\x1b[2J\r\n[    0.000000] Linux version 6.1.0\r\n<6>[   12.345678][   T17] a [b] 1.5\r\r\nSeaBIOS\n[    1.5";
    let (log, diagnostics) = check(
        text,
        &[(None, "Linux version 6.1.0"), (Some(12_345_678_000), "a [b] 1.5"), (None, "SeaBIOS"), (None, "[    1.5")],
    );
    assert_eq!((log.lines[1].level, log.lines[1].caller), (Some(6), Some(Caller::Thread(17))));
    assert_eq!((log.lines[1].number, log.lines[1].offset), (3, 49));
    assert_eq!(diagnostics.count(timeline::DiagnosticKind::LogCut), 1);
    assert_eq!(diagnostics.count(timeline::DiagnosticKind::LogControlCharacters), 0);
}

/// A mail quotes a log, and wraps its lines.
#[test]
fn lines_that_a_mail_wrapped() {
    let wide = "[    0.270363] initcall init_workqueues+0x0/0x39c returned 0 after 9765";
    let expected: &[(Option<i64>, &str)] = &[
        (Some(255_927_000), "hw perfevents: enabled with ARMv7 Cortex-A9 PMU driver, 7 counters available"),
        (Some(270_363_000), "initcall init_workqueues+0x0/0x39c returned 0 after 9765 usecs"),
        (Some(300_000_000), "a"),
        (None, "not the kernel's"),
    ];
    let first = "[    0.255927] hw perfevents: enabled with ARMv7 Cortex-A9 PMU driver, 7";
    for space in ["", " "] {
        let wrapped =
            format!("{first} \ncounters available\n{wide}{space}\nusecs\n[    0.300000] a\nnot the kernel's\n");
        let (_, diagnostics) = check(wrapped.as_bytes(), expected);
        assert_eq!(diagnostics.count(timeline::DiagnosticKind::LogLineWrapped), 2);
        let quoted: String = wrapped.lines().map(|line| format!("> {line}\n")).collect();
        check(quoted.as_bytes(), expected);
    }
    // A console's line ends in a return, one that had room was not wrapped, and what has a stamp stands alone.
    let alone = [
        format!("{wide} \r\nusecs\r\n"),
        "[    0.270363] a short line \nusecs\n".to_owned(),
        format!("{wide} \n[    0.000000] usecs\n"),
    ];
    for text in alone {
        assert_eq!(read(text.as_bytes()).0.lines.len(), 2, "{text}");
    }
}

#[test]
fn messages_printed_into_one_another() {
    let text =
        b"[    1.234500] foo[    1.234600] bar<4>[    1.234700][    C0] baz\nlogin: [    9.000000] x [1] [2.5] y\n";
    let (log, diagnostics) = check(
        text,
        &[
            (Some(1_234_500_000), "foo"),
            (Some(1_234_600_000), "bar"),
            (Some(1_234_700_000), "baz"),
            (None, "login: "),
            (Some(9_000_000_000), "x [1] [2.5] y"),
        ],
    );
    assert_eq!((log.lines[2].level, log.lines[2].caller), (Some(4), Some(Caller::Cpu(0))));
    assert_eq!(diagnostics.count(DiagnosticKind::LogClockBack), 0);
    assert_eq!((log.counts.glued, diagnostics.count(timeline::DiagnosticKind::MessagesGlued)), (3, 3));
}

#[test]
fn stamps_that_step_back() {
    let stamps = [Some(2_000_000_000), Some(1_000_000_000), None, Some(1_500_000_000), Some(1_000_000_000)];
    let expected: Vec<_> = stamps.into_iter().map(|stamp| (stamp, "x")).collect();
    let text = b"[    2.000000] x\n[    1.000000] x\n[    0.000000] x\n[    1.500000] x\n[    1.000000] x\n";
    let (_, diagnostics) = check(text, &expected);
    assert_eq!(diagnostics.count(DiagnosticKind::LogClockBack), 2);
}

#[test]
fn a_stray_stamp_is_that_line_s_fault() {
    let imported = |text: &str| {
        let mut diagnostics = Diagnostics::default();
        let log = KernelLog::read_imported("a.log", text.as_bytes(), &mut diagnostics).unwrap();
        let stamps: Vec<Option<i64>> =
            log.lines.iter().map(|line| line.stamp.map(|stamp| stamp.0 / 1_000_000)).collect();
        (stamps, diagnostics.count(DiagnosticKind::LogClockBack))
    };
    let log = |stamps: &[&str]| stamps.iter().map(|stamp| format!("[{stamp:>12}] x\n")).collect::<String>();
    let found = imported(&log(&["0.100000", "14.451213", "114.461360", "114.461361", "14.466921", "39.300000"]));
    assert_eq!(found, (vec![Some(100), Some(14_451), None, None, Some(14_466), Some(39_300)], 2));
    // Two CPUs' clocks differ by less, and one step back for good is no stray.
    assert_eq!(imported(&log(&["0.100000", "0.150000", "0.110000", "0.160000"])).0[1], Some(150));
    let again = imported(&log(&["5.000000", "9.000000", "1.000000", "2.000000"]));
    assert_eq!((again.0[1], again.1), (Some(9000), 1));
}

#[test]
fn a_vendor_s_prefix_is_no_text() {
    let (log, _) = check(
        b"[    0.100000]  [0:        swapper:    0] Linux version 3.10.0\n[    6.090000]  [0:           init:    1] init: x\n",
        &[(Some(100_000_000), "Linux version 3.10.0"), (Some(6_090_000_000), "init: x")],
    );
    assert_eq!(log.lines[1].caller, Some(Caller::Thread(1)));
    check(
        b"[    0.479428] [    0.479414]@0 audit: a\n[    0.479608] [    0.479605]@0 b\n",
        &[(Some(479_428_000), "audit: a"), (Some(479_608_000), "b")],
    );
}

/// As Debian's 6.1 printed it. It happens once in a boot, and before anything else.
#[test]
fn a_kernel_that_finds_its_counter_is_no_step_back() {
    let steps = |text: &str| read(text.as_bytes()).1.count(DiagnosticKind::LogClockBack);
    let found = "[    0.000000] Linux version 6.1\n[    0.028000] tsc: Detected 2594.206 MHz processor\n\
                 [    0.000565] tsc: Marking TSC unstable\n[    0.011000] x\n";
    assert_eq!(steps(found), 0);
    assert_eq!(steps(&found.replace("0.028000", "0.036666")), 0, "300 ticks a second");
    assert_eq!(steps(&found.replace("0.028000", "0.028123")), 1, "no whole tick");
    assert_eq!(steps(&format!("{found}[    0.004100] a second one\n")), 1);
    assert_eq!(steps(&format!("{found}{found}")), 1, "two boots in one log");
}

#[track_caller]
fn check_imported(text: &str, expected: &[&str], others: u64, cut: u64) {
    let mut diagnostics = Diagnostics::default();
    let log = KernelLog::read_imported("a.log", text.as_bytes(), &mut diagnostics).unwrap();
    let found: Vec<_> = log.lines.iter().map(|line| log.text(line)).collect();
    assert_eq!(found, expected);
    assert_eq!(log.all_text(), expected.concat());
    let counted = [DiagnosticKind::LogOtherBoot, DiagnosticKind::LogBeginningMissing, DiagnosticKind::LogClockBack];
    assert_eq!(counted.map(|kind| diagnostics.count(kind)), [others, cut, 0]);
}

#[test]
fn of_several_boots_the_last_counts() {
    let first = "[    0.000000] Linux version 5.10\n[    1.000000] a\n[    2.000000] reboot: Restarting\n";
    let second = "SeaBIOS\n[    0.000000] Booting\n[    0.000000] Linux version 6.1\n[    0.500000] b\n";
    let kept = ["SeaBIOS", "Booting", "Linux version 6.1", "b"];
    check_imported(&format!("{first}{second}"), &kept, 3, 0);
    check_imported(&format!("{first}{first}{second}"), &kept, 6, 0);
    check_imported(&format!("[    7.000000] the end of one\n{second}"), &kept, 1, 0);
    check_imported(second, &kept, 0, 0);
    // A boot that stopped before its clock ran.
    let early = "[    0.000000] Linux version 5.10\n";
    check_imported(&format!("{early}{early}[    0.500000] b\n"), &["Linux version 5.10", "b"], 1, 0);
    check_imported(&format!("{first}{early}{early}"), &["Linux version 5.10"], 4, 0);
    // A program's line about the kernel has no stamp. sparc64 stamps the messages before its banner.
    check_imported("[    1.000000] a\nLinux version 6.1\n[    2.000000] b\n", &["a", "Linux version 6.1", "b"], 0, 1);
    check_imported("[    0.000011] P\n[    0.000066] Linux version 5\n", &["P", "Linux version 5"], 0, 0);
    // A program that writes to /dev/kmsg, and a log with its newest line first.
    for at in ["0.900000", "6.000000"] {
        let text =
            format!("[    0.000000] Linux version 6.1\n[    0.500000] b\n[    {at}] Linux version 5.4 reported\n");
        check_imported(&text, &["Linux version 6.1", "b", "Linux version 5.4 reported"], 0, 0);
    }
    let mut diagnostics = Diagnostics::default();
    let newest_first = b"[    2.000000] b\n[    1.000000] a\n[    0.000000] Linux version 6.1\n";
    let log = KernelLog::read_imported("a.log", newest_first, &mut diagnostics).unwrap();
    assert_eq!((log.lines.len(), diagnostics.count(DiagnosticKind::LogOtherBoot)), (3, 0));
}

#[test]
fn a_boot_of_several_can_be_chosen() {
    let whole = |name: &str| {
        format!(
            "[    0.000000] Linux version {name}\n[    1.000000] Freeing unused kernel memory: 1K\n[    2.000000] {name}\n"
        )
    };
    let text = whole("one") + &whole("two") + "[    0.000000] Linux version three\n[    0.500000] cut\n";
    let chosen = |boot: Option<i32>| {
        let mut diagnostics = Diagnostics::default();
        let log = KernelLog::read_boot("a.log", text.as_bytes(), boot, &mut diagnostics).unwrap();
        let others: Vec<String> = diagnostics.iter().map(|diagnostic| diagnostic.about.clone()).collect();
        (log.lines.last().map(|line| log.text(line).to_owned()).unwrap(), log.lines.len(), others)
    };
    let (one, two, cut) = ("boot -2, lines 1 to 3", "boot -1, lines 4 to 6", "boot 0, lines 7 to 8");
    // The last one did not reach process 1.
    assert_eq!(chosen(None), ("two".to_owned(), 3, vec![one.to_owned(), cut.to_owned()]));
    assert_eq!(chosen(Some(0)), ("cut".to_owned(), 2, vec![one.to_owned(), two.to_owned()]));
    assert_eq!(chosen(Some(-2)), ("one".to_owned(), 3, vec![two.to_owned(), cut.to_owned()]));
    assert_eq!(chosen(Some(-3)).2[0], "-3", "there is no such boot");
}

#[test]
fn a_log_without_its_beginning() {
    check_imported("[    1.000000] a\n", &["a"], 0, 1);
    check_imported("[    0.999999] a\n[    9.000000] b\n", &["a", "b"], 0, 0);
    check_imported("[    0.000000] a\n[    9.000000] b\n", &["a", "b"], 0, 0);
    check_imported("a\nb\n", &["a", "b"], 0, 0);
}

#[test]
fn bytes_that_are_no_text() {
    let (_, diagnostics) = check(b"[    1.000000] a\0\0b\xff\x07\n", &[(Some(1_000_000_000), "ab\u{fffd}")]);
    assert_eq!(diagnostics.count(timeline::DiagnosticKind::LogControlCharacters), 3);
}

#[test]
fn the_stamps_of_serial_loggers() {
    let kernel = |at: &str, second: &str| {
        format!("{at}[    0.000000] Linux version 3.5.7\r\n{second}[    0.250000] Brought up 1 CPUs\r\n")
    };
    let cases = [
        ("grabserial", "[0.000002 0.000002] ", "[0.300002 0.300000] "),
        ("syslog or ts", "Nov 21 23:59:59.9 ", "Nov 22 00:00:00.2 "),
        ("syslog or ts", "Dec 31 23:59:59.9 box kernel: ", "Jan  1 00:00:00.2 box kernel: "),
        ("ts with a time of day", "23:59:59.900000 ", "00:00:00.200000 "),
        ("ts with seconds", "1700000000.100000 ", "1700000000.400000 "),
        ("minicom or tio", "[2026-02-28 23:59:59.900] ", "[2026-03-01 00:00:00.200] "),
        ("minicom or tio", "[23:59:59.900] ", "[00:00:00.200] "),
        (
            "date and time",
            "2026-11-21T10:11:12.500000+00:00 box kernel: ",
            "2026-11-21T10:11:12.800000+00:00 box kernel: ",
        ),
        ("date and time", "2026-11-21 10:11:12,500 ", "2026-11-21 10:11:12,800 "),
        ("a second stamp in brackets", "[   10.100000] ", "[   10.400000] "),
    ];
    for (name, first, second) in cases {
        let (log, diagnostics) = check(
            kernel(first, second).as_bytes(),
            &[(None, "Linux version 3.5.7"), (Some(250_000_000), "Brought up 1 CPUs")],
        );
        assert_eq!(log.logger, Some(name));
        let host: Vec<_> = log.lines.iter().map(|l| l.host_stamp.unwrap().0).collect();
        assert_eq!(host, [0, 300_000_000], "{first}");
        assert!(diagnostics.is_empty(), "{diagnostics:?}");
    }
    // grabserial -m began again at the second line; a line that is missing is no such thing.
    let (log, _) = check(
        b"[5.000000 0.000000] a\n[5.300000 0.300000] b\n[0.250000 0.250000] c\n[9.000000 0.010000] d\n",
        &[(None, "a"), (None, "b"), (None, "c"), (None, "d")],
    );
    let host: Vec<_> = log.lines.iter().map(|l| l.host_stamp.unwrap().0 / 1_000_000).collect();
    assert_eq!(host, [0, 300, 550, 9_300]);
    let (log, _) = check(
        b"[Sat Nov 21 07:17:05 2026] Linux version 6.1\n[Sat Nov 21 07:17:06 2026] smp: up\n",
        &[(Some(0), "Linux version 6.1"), (Some(1_000_000_000), "smp: up")],
    );
    assert_eq!((log.logger, log.lines[1].host_stamp), (Some(host_stamp::DMESG_T), None), "they are the kernel's own");
    check(
        b"kern  :info  : [    1.500000] a\nkern  :err   : [    2.000000] b\n",
        &[(Some(1_500_000_000), "a"), (Some(2_000_000_000), "b")],
    );
}

#[test]
fn records_of_kmsg() {
    let text = b"# how: ring buffer\n6,3,0,-;Linux version 6.1\n7,4,1500001,-;a\\x5cb\\x0ac\n SUBSYSTEM=acpi\n DEVICE=+acpi:X\n30,5,1500002.750,-,caller=T12;systemd\n4,9,1500003,c,caller=C1;late\n7,9,1,-;again\nrubbish\n7,10,15";
    let (log, diagnostics) = check(
        text,
        &[
            (None, "Linux version 6.1"),
            (Some(1_500_001_000), "a\\b\nc"),
            (Some(1_500_002_750), "systemd"),
            (Some(1_500_003_000), "late"),
            (Some(1_000), "again"),
        ],
    );
    let callers: Vec<_> = log.lines.iter().map(|l| (l.level, l.caller, l.seq)).collect();
    assert_eq!(callers[2], (Some(6), Some(Caller::Thread(12)), Some(5)));
    assert_eq!(callers[3], (Some(4), Some(Caller::Cpu(1)), Some(9)));
    assert_eq!(log.comments, ["how: ring buffer"]);
    assert_eq!((log.lost, log.counts.continuations, log.counts.unreadable), (6, 2, 2));
    assert_eq!(diagnostics.count(timeline::DiagnosticKind::KmsgOverwritten), 3);
    assert_eq!(diagnostics.count(timeline::DiagnosticKind::KmsgMissing), 3);
    assert_eq!(diagnostics.count(timeline::DiagnosticKind::KmsgOutOfOrder), 1);
    assert_eq!(diagnostics.count(timeline::DiagnosticKind::KmsgRecordUnreadable), 2);
}

#[test]
fn an_empty_file_is_no_log() {
    let error = KernelLog::read("a.log", b"", &mut Diagnostics::default()).unwrap_err();
    assert_eq!(error.to_string(), "a.log: this is not a kernel log: the file is empty");
}
