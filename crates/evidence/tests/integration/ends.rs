//! The end of a boot in a pasted log, and the parts of a paste that are no boot.

use super::imports::{imported_texts, phase_rows};
use evidence::recognise;
use timeline::{DiagnosticKind as K, EndEvidence, Initcalls, MilestoneKind, Ns, Phase, Timeline, Warning};

fn log(text: &str) -> Timeline {
    imported_texts(&[("a.log", text)])
}

/// The end in ms, and its evidence.
fn end(text: &str) -> (i64, EndEvidence) {
    let end = log(text).end.unwrap();
    (end.at.0 / 1_000_000, end.evidence)
}

const KERNEL: &str = "[    0.000000] Linux version 6.1.0 (a@b) #1 SMP\n[    0.060286] Run /sbin/init as init process\n";

#[test]
fn process_1_that_takes_longer_than_the_kernel_ends_with_its_first_line() {
    // Debian bug report of a cloud image: systemd pages itself in for 3 s (public thread of the systemd project).
    let slow =
        "[    1.059489] clocksource: Switched to clocksource tsc\n[    3.068643] systemd[1]: systemd 246 running\n";
    assert_eq!(end(&format!("{KERNEL}{slow}")), (3068, EndEvidence::Process1Printed));
    let quick = "[    0.100000] systemd[1]: systemd 246 running\n";
    assert_eq!(end(&format!("{KERNEL}{quick}")), (60, EndEvidence::Process1Started));
}

#[test]
fn a_wait_that_ends_later_is_in_the_boot() {
    let text =
        format!("{KERNEL}[    2.000000] a\n[   86.500000] 8021q: x\n[   87.000000] y\n[ 9000.000000] usb 1-1: z\n");
    let timeline = log(&text);
    let EndEvidence::WaitEnded(line) = timeline.end.unwrap().evidence else { panic!("{:?}", timeline.end) };
    assert_eq!((timeline.end.unwrap().at, timeline.names.get(line)), (Ns::from_ms(86_500), "8021q: x"));
}

const NO_RUN: &str = "[    0.000000] Linux version 4.4.38 (a@b)\n[    6.488742] Freeing unused kernel memory: 1144K\n\
    [    6.566839] systemd[1]: System time before build time\n[   13.066000] tegradc: up\n";

#[test]
fn what_a_running_system_logs_is_no_boot() {
    let later = format!("{NO_RUN}[   89.255000] xhci: a cable\n[   89.279000] usb 1-2: new\n");
    let timeline = log(&later);
    assert_eq!(
        (timeline.end.unwrap().at, timeline.end.unwrap().evidence),
        (Ns::from_ms(13_066), EndEvidence::LastSign)
    );
    assert_eq!(timeline.diagnostics.count(K::LogLater), 2);
    // A line that comes again and again says nothing new.
    let again: String = (0..40).map(|n| format!("[{:12.6}] temp={}C\n", 14.0 + 5.0 * f64::from(n), n)).collect();
    assert_eq!(end(&format!("{NO_RUN}{again}")).0, 24_000);
    // Random numbers, though, are waited for.
    assert_eq!(end(&format!("{NO_RUN}[  152.000000] random: crng init done\n")).0, 152_000);
}

#[test]
fn a_login_prompt_without_a_stamp_is_between_those_around_it() {
    let text = format!("{NO_RUN}\ndebian login: \n[   20.000000] wlan0: up\n");
    let timeline = log(&text);
    let found = timeline.end.unwrap();
    assert_eq!((found.at.0, found.error.0), (13_066_000_000, 6_934_000_000));
    assert_eq!(found.evidence, EndEvidence::LoginPrompt);
    assert!(timeline.milestones().iter().any(|milestone| milestone.kind == MilestoneKind::LoginPrompt));
    assert_eq!(end(&format!("{NO_RUN}\ndebian login: \n")), (13_066, EndEvidence::LoginPromptLater));
}

/// Since 6.15 a kernel without a tracer names its levels in the log.
#[test]
fn levels_of_a_log_are_the_log_s_evidence() {
    let timeline = log("[    0.000000] Linux version 6.16.0 (a@b) #1 SMP\n\
         [    0.010000] entering initcall level: early\n[    0.010100] calling  a+0x0/0x9 @ 1\n\
         [    0.012000] initcall a+0x0/0x9 returned 0 after 1800 usecs\n\
         [    0.020000] entering initcall level: late\n[    0.020100] calling  b+0x0/0x9 @ 1\n\
         [    0.025000] initcall b+0x0/0x9 returned 0 after 4800 usecs\n[    0.030000] Run /init as init process\n");
    let rows: Vec<_> = timeline.boundaries.iter().map(|b| (b.phase, b.error, timeline.names.get(b.evidence))).collect();
    let of = |wanted: Phase| rows.iter().find(|row| row.0 == wanted).map(|row| (row.1, row.2));
    let error = Ns::from_us(500);
    let entered = Some((error, "kernel log: “entering initcall level”"));
    assert_eq!(of(Phase::Initcalls(Initcalls::Early)), entered, "{rows:?}");
    assert_eq!(of(Phase::HandOver), Some((error, "kernel log: last initcall of level late returned")), "{rows:?}");
}

#[test]
fn a_suspend_is_no_part_of_a_boot() {
    let text = format!("{KERNEL}[  100.000000] PM: suspend entry (deep)\n[  101.900000] PM: suspend exit\n");
    let timeline = log(&text);
    assert_eq!(timeline.end.unwrap().evidence, EndEvidence::Process1Started);
    assert_eq!(timeline.diagnostics.count(K::LogSuspended), 2);
}

#[test]
fn a_log_without_its_beginning_is_not_the_kernel_s_start() {
    let timeline = log("[   44.553000] Send signal 11\n[   45.659000] init: Untracked pid\n[   46.000000] x\n");
    let rows: Vec<String> = phase_rows(&timeline).into_iter().map(|row| row.0).collect();
    assert_eq!(rows, ["unexplained", "process 1"]);
}

#[test]
fn lines_without_stamps_are_of_the_last_speaker() {
    let text = "NOTICE:  BL2: v2.4\nboard rev 3\n[    1.010185] cpufreq: Failed\nStarting initramfs ...\nVerified OK\n\
        [*     ] A start job is running for wlan0 (9s / 1min 30s)\nMounted x\n";
    let timeline = log(text);
    assert_eq!(timeline.diagnostics.count(K::MessagesWithoutStamp), 0);
    assert_eq!(timeline.diagnostics.count(K::LinesOfOthers), 6);
    let job = "A start job is running for wlan0".to_owned();
    assert_eq!(timeline.warnings, [Warning::JobWithoutTime { job, at_least: Ns::from_ms(9_000) }]);
}

#[test]
fn a_log_without_any_time_is_refused_by_its_system_s_name() {
    for (text, begins) in [
        ("Linux version 6.1.0 (a@b)\nCommand line: x\n", "messages of a kernel"),
        ("OpenBSD 7.2 (RAMDISK_CD) #725: Tue Sep 27\nreal mem = 8415944704\n", "OpenBSD's messages"),
        ("Copyright (c) 1992-2021 The FreeBSD Project.\n[11] GEOM_ELI: x\n", "FreeBSD's messages"),
    ] {
        let found = recognise(text.as_bytes());
        assert!(!found.of_a_boot && found.instead.is_some_and(|instead| instead.starts_with(begins)), "{text}");
    }
}

#[test]
fn freebsd_s_clock_begins_with_1() {
    let text = "[1.000000] Copyright (c) 1992-2023 The FreeBSD Project.\n[1.000000] FreeBSD 14.0-RELEASE-p5 #0 x\n\
        [3.250000] usbus0: up\n[5.600000] Trying to mount root from ufs:/dev/gpt/rootfs [rw]...\n\
        [6.700000] start_init: trying /sbin/init\n[19.000000] em0: link state changed to UP\n";
    let timeline = log(text);
    assert_eq!(timeline.end.unwrap().at, Ns::from_ms(5700));
    assert_eq!(phase_rows(&timeline)[0].0, "kernel");
    let twice = log(&format!("{text}{text}"));
    assert_eq!((twice.end.unwrap().at, twice.diagnostics.count(K::LogOtherBoot)), (Ns::from_ms(5700), 6));
}

#[test]
fn boottrace_has_phases_and_an_end() {
    let text = " CPU      msecs      delta process                  event                                      PID CPUtime IBlks OBlks\n\
        \x20  0   27560015          0 kernel                   sysinit 0x2100001                            0    0.00     0     0\n\
        \x20  1   27561204       1189 kernel                   mountroot                                    0    0.50     0     0\n\
        \x20  1   27561333        129 init                     init(8) starting...                          1    0.00     4     0\n\
        \x20  1   27561470        137 init                     /etc/rc starting...                         22    0.00     5     0\n\
        \x20  0   27565100       3630 init                     multi-user start                             1    0.20    14     2\n";
    let timeline = log(text);
    assert_eq!(
        (timeline.end.unwrap().at, timeline.end.unwrap().evidence),
        (Ns::from_ms(5085), EndEvidence::MultiUserStarted)
    );
    let rows: Vec<(String, i64)> = phase_rows(&timeline).into_iter().map(|(name, from, _)| (name, from)).collect();
    let expected = [("kernel", 0), ("process 1", 1_318_000), ("user space", 1_455_000)];
    assert_eq!(rows, expected.map(|(name, from)| (name.to_owned(), from)));
}

/// The stamps of nine lines in other forms: the end is the same.
#[test]
fn stamps_of_loggers_and_of_dmesg() {
    let lines = [
        (0, "Linux version 6.1.0 (a@b) #1 SMP"),
        (500, "smp: Brought up 1 node, 4 CPUs"),
        (1250, "usb 1-1: new high-speed USB device number 2"),
        (3600, "Freeing unused kernel image (initmem) memory: 2048K"),
        (3700, "Run /sbin/init as init process"),
    ];
    type Form = fn(i64, i64, &str) -> String;
    let forms: [(&str, Form); 5] = [
        ("dmesg -H", |ms, since, text| match ms {
            0 => format!("[Nov21 10:11] {text}\n"),
            _ => format!("[  +{}.{:03}000] {text}\n", since / 1000, since % 1000),
        }),
        ("dmesg --time-format iso", |ms, _, text| {
            format!("2026-11-21T10:11:{:02},{:03}000+00:00 {text}\n", ms / 1000, ms % 1000)
        }),
        ("tio", |ms, _, text| format!("[10:11:{:02}.{:03}] {text}\n", ms / 1000, ms % 1000)),
        ("Tera Term", |ms, _, text| format!("[Sat Nov 21 10:11:{:02}.{:03} 2026] {text}\n", ms / 1000, ms % 1000)),
        ("docker", |ms, _, text| format!("2026-11-21T10:11:{:02}.{:03}000123Z {text}\n", ms / 1000, ms % 1000)),
    ];
    for (name, form) in forms {
        let mut last = 0;
        let text: String =
            lines.iter().map(|&(ms, text)| form(ms, ms - std::mem::replace(&mut last, ms), text)).collect();
        let timeline = log(&text);
        let rows = phase_rows(&timeline);
        assert_eq!(timeline.end.unwrap().at, Ns::from_ms(3700), "{name}");
        assert_eq!((rows[0].0.as_str(), rows[0].1), ("kernel, initcalls not told apart", 0), "{name}");
    }
}

#[test]
fn systems_that_stamp_their_own_lines() {
    let esp = "ESP-ROM:esp32c3-api1-20210207\n\x1b[0;32mI (31) boot: ESP-IDF v5.3 2nd stage bootloader\x1b[0m\n\
        I (84) boot: Loaded app\nI (250) cpu_start: Starting scheduler on CPU0\nI (1257) main_task: Calling app_main()\n";
    let timeline = log(esp);
    assert_eq!(timeline.end.unwrap().at, Ns::from_ms(1257));
    let track = timeline.tracks.iter().find(|(_, track)| track.id == 0).unwrap().1;
    assert_eq!(timeline.names.get(track.name), "kernel");
    let zephyr = "*** Booting Zephyr OS build v4.4.0 ***\n[00:00:00.010,000] <inf> demo: up\n[00:00:01.110,000] <inf> demo: run\n";
    assert_eq!(end(zephyr).0, 1110);
}

#[test]
fn a_log_whose_boot_is_gone_says_so() {
    let later = |from: u32| {
        let lines: String = (from..from + 9).map(|at| format!("[{at:5}.000000] usb 1-{at}: new device\n")).collect();
        log(&lines).warnings
    };
    assert_eq!(later(26_742), [Warning::LogWithoutBoot { from: Ns::from_ms(26_742_000) }]);
    assert_eq!(later(12), [], "a boot whose first messages are gone");
    assert_eq!(log("[   75.000000] usb 1-1: new\n[   76.000000] Run /init as init process\n").warnings, []);
}
