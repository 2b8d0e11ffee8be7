//! Tests process 1 in a real guest: every file is transferred whole, by either way, and everything the kernel lacks is
//! reported.
//!
//! The tests need QEMU and a kernel, named by BOOTSCOPE_TEST_KERNEL. Each test boots once, for about three seconds.
//! With `--nocapture`, the speed of the transfer is printed.

mod support;

use guest_init::config::{Carry, Config, Then};
use guest_init::messages::{Message, SyncPlace};
use guest_init::round::Answer;
use std::path::Path;
use std::process::Command;
use support::{Boot, Outcome, boot, is_payload, kernel};

const MIB: usize = 1 << 20;

/// Checks that hold for every kernel log.
fn check_kmsg(outcome: &Outcome) {
    let kmsg = outcome.text("kmsg.log");
    let first = kmsg.lines().next().unwrap_or("");
    assert!(first.contains(",0,0,-;Linux version "), "the first record is {first:?}\n{outcome}");
    let seqs: Vec<u64> = kmsg
        .lines()
        .filter(|line| !line.starts_with(' '))
        .map(|line| line.split(',').nth(1).and_then(|seq| seq.parse().ok()).expect("prio,seq,usec,flags;text"))
        .collect();
    assert!(seqs.windows(2).all(|pair| pair[1] == pair[0] + 1), "records are missing");
    for seq in 1..=4 {
        assert!(kmsg.contains(&format!(";bootscope-sync {seq}\n")), "sync line {seq} is missing");
    }
}

fn check_whole(outcome: &Outcome) {
    assert_eq!(outcome.unfinished, [""; 0], "{outcome}");
    assert_eq!(outcome.malformed, [""; 0], "{outcome}");
    assert_eq!(outcome.ends(), ["poweroff"], "{outcome}");
    for name in ["meminfo.txt", "vmstat.txt", "self-stat.txt", "iomem.txt", "interrupts.txt", "cmdline.txt"] {
        assert!(!outcome.text(name).is_empty(), "{name}");
    }
    assert!(outcome.text("meminfo.txt").starts_with("MemTotal:"));
    assert!(outcome.text("self-stat.txt").starts_with("1 (init) "));
}

/// The ticks of the sync lines in the trace, which has `trace_clock=x86-tsc`.
fn trace_sync_ticks(trace: &str) -> Vec<u64> {
    let lines = trace.lines().filter(|line| line.contains("bootscope-sync "));
    lines
        .map(|line| line.split_whitespace().find_map(|word| word.strip_suffix(':')?.parse().ok()).expect("ticks"))
        .collect()
}

#[test]
fn everything_comes_home_through_memory() {
    let Some(kernel) = kernel() else { return };
    let outcome = boot(
        &kernel,
        &Boot {
            append: "quiet trace_event=initcall:*,sched:sched_process_exec trace_clock=x86-tsc trace_buf_size=4M",
            config: Config { payload_bytes: 64 * MIB as u64 + 12345, ..Config::default() },
            ..Boot::default()
        },
    );
    check_whole(&outcome);
    check_kmsg(&outcome);
    assert_eq!(outcome.errors, [""; 0]);
    assert!(is_payload(&outcome.files["payload.bin"]) && outcome.files["payload.bin"].len() == 64 * MIB + 12345);
    assert!(outcome.rounds.len() > 8 && outcome.chunks.is_empty());

    let trace = outcome.text("trace.txt");
    let initcalls = trace.lines().filter(|line| line.contains(" initcall_finish: ")).count();
    assert!(initcalls > 100, "{initcalls} initcalls in the trace");
    assert!(outcome.text("trace-clock.txt").contains("[x86-tsc]"));
    let symbols = outcome.text("kallsyms");
    assert!(symbols.lines().any(|line| line.ends_with(" start_kernel") && !line.starts_with("0000000000000000")));
    check_sync(&outcome, &trace_sync_ticks(&trace));
    print_speed(&outcome, &trace);
}

/// Ticks rise from message to message, and enclose those in the trace.
fn check_sync(outcome: &Outcome, in_trace: &[u64]) {
    let mut around = Vec::new();
    let mut last = 0;
    for (_, message) in &outcome.messages {
        let (from, to) = match *message {
            Message::Init { tsc } | Message::Tick { tsc } => (tsc, tsc),
            Message::Clock { before, after, monotonic_ns, boottime_ns } => {
                assert!(boottime_ns >= monotonic_ns && monotonic_ns > 0);
                (before, after)
            }
            Message::Sync { place, before, after, .. } => {
                around.extend((place == SyncPlace::Trace).then_some((before, after)));
                (before, after)
            }
            _ => continue,
        };
        assert!(last < from && from <= to, "{message:?} after {last}");
        last = to;
    }
    assert!(matches!(outcome.messages[0].1, Message::Init { .. }), "{:?}", outcome.messages[0]);
    assert_eq!((around.len(), in_trace.len()), (4, 4));
    for (&(before, after), tick) in around.iter().zip(in_trace) {
        assert!((before..=after).contains(tick), "{before} <= {tick} <= {after}");
    }
}

/// Figures for a reader of the test's output. The project's benchmark checks the limits.
fn print_speed(outcome: &Outcome, trace: &str) {
    let bytes: u64 = outcome.rounds.iter().map(|round| round.0).sum();
    let host: f64 = outcome.rounds.iter().map(|round| round.1.as_secs_f64()).sum();
    println!("host: {bytes} bytes in {} rounds, {:.0} MB/s", outcome.rounds.len(), bytes as f64 / 1e6 / host);
    let offers: Vec<_> = outcome
        .messages
        .iter()
        .filter(|(_, message)| matches!(message, Message::Round { .. }))
        .map(|offer| offer.0)
        .collect();
    let (full, _) = outcome.rounds[offers.len() - 2];
    let pair = offers[offers.len() - 2].as_secs_f64() - offers[offers.len() - 3].as_secs_f64();
    println!("guest and host: a round of {full} bytes in {:.1} ms, {:.0} MB/s", pair * 1e3, full as f64 / 1e6 / pair);
    let tick = |message: &Message| match *message {
        Message::Init { tsc } | Message::Tick { tsc } => Some(tsc),
        _ => None,
    };
    let ticks: Vec<(f64, u64)> =
        outcome.messages.iter().filter_map(|(at, message)| Some((at.as_secs_f64(), tick(message)?))).collect();
    let (first, last) = (ticks[0], ticks[ticks.len() - 1]);
    let hz = (last.1 - first.1) as f64 / (last.0 - first.0);
    let exec = trace.lines().find(|line| line.contains("sched_process_exec: filename=/bootscope/init"));
    let exec: u64 = exec
        .and_then(|line| line.split_whitespace().find_map(|word| word.strip_suffix(':')?.parse().ok()))
        .expect("the exec in the trace");
    let us = |ticks: u64| ticks as f64 / hz * 1e6;
    println!("exec to mark {:.0} us, mark to main {:.0} us", us(ticks[0].1 - exec), us(ticks[1].1 - ticks[0].1));
}

#[test]
fn the_port_brings_it_home_where_memory_cannot() {
    let Some(kernel) = kernel() else { return };
    let outcome = boot(
        &kernel,
        &Boot {
            config: Config { payload_bytes: 3 * MIB as u64, file_bytes_max: MIB as u64, ..Config::default() },
            append: "trace_event=initcall:* trace_clock=global",
            answer: |_| Some(Answer::GiveUp),
            ..Boot::default()
        },
    );
    check_whole(&outcome);
    check_kmsg(&outcome);
    assert_eq!(outcome.lacks("memory"), ["the host cannot take it"]);
    assert_eq!(outcome.lacks("kallsyms"), ["cut at 1048576 bytes (file_max)"]);
    assert!(is_payload(&outcome.files["payload.bin"]) && outcome.files["payload.bin"].len() == MIB);
    assert!(outcome.repeats > 0, "the round that was taken comes again by the port");
    assert!(outcome.port_output.len() < 100_000, "files are not kept among the lines");

    let [.., before, (_, bytes, at)] = &outcome.chunks[..] else { panic!("{outcome}") };
    println!("port: {bytes} bytes, {:.2} MB/s", *bytes as f64 / 1e6 / (at.as_secs_f64() - before.2.as_secs_f64()));
}

#[test]
fn a_round_that_is_damaged_is_offered_again_and_silence_is_waited_out() {
    let Some(kernel) = kernel() else { return };
    let small = Config { file_bytes_max: MIB as u64 / 4, wait_ms: 300, ..Config::default() };
    let damaged = Boot { config: small.clone(), damaged_rounds: 2, machine: &["-smp", "2"], ..Boot::default() };
    let outcome = boot(&kernel, &damaged);
    check_whole(&outcome);
    check_kmsg(&outcome);
    assert!(outcome.errors.len() == 2 && outcome.errors[0].contains("damaged"), "{outcome}");
    assert!(outcome.rounds.len() == 1 && outcome.chunks.is_empty(), "{outcome}");

    let outcome = boot(&kernel, &Boot { config: small, answer: |_| None, ..Boot::default() });
    check_whole(&outcome);
    assert_eq!(outcome.lacks("memory"), ["no answer in 300 ms"]);
}

#[test]
fn a_guest_whose_clock_skips_idle_time_still_waits_for_the_host() {
    let Some(kernel) = kernel() else { return };
    let outcome = boot(
        &kernel,
        &Boot {
            append: "quiet nokaslr",
            machine: &["-icount", "shift=0,sleep=off", "-rtc", "base=2020-01-01T00:00:00,clock=vm", "-seed", "1"],
            ..Boot::default()
        },
    );
    check_whole(&outcome);
    check_kmsg(&outcome);
    assert_eq!(outcome.lacks("memory"), [""; 0], "{outcome}");
}

#[test]
fn everything_a_kernel_lacks_is_reported_and_the_rest_is_transferred() {
    let Some(kernel) = kernel() else { return };
    let outcome = boot(
        &kernel,
        &Boot {
            append: "quiet initcall_blacklist=tracefs_init,debugfs_init,kallsyms_init,proc_modules_init",
            config: Config { carry: Carry::Port, ..Config::default() },
            memory: "128M",
            ..Boot::default()
        },
    );
    check_whole(&outcome);
    check_kmsg(&outcome);
    for (what, why) in [
        ("tracefs", "No such device (os error 19)"),
        ("debugfs", "No such device (os error 19)"),
        ("trace.txt", "no tracefs"),
        ("kallsyms", "No such file or directory (os error 2)"),
        ("config.gz", "No such file or directory (os error 2)"),
    ] {
        assert_eq!(outcome.lacks(what), [why], "{what}\n{outcome}");
    }
    assert_eq!(outcome.rounds.len(), 0);
}

#[test]
fn a_guest_without_the_port_says_so_on_its_console_and_ends() {
    let Some(kernel) = kernel() else { return };
    let outcome = boot(&kernel, &Boot { without_port: true, ..Boot::default() });
    assert!(outcome.console.contains("bootscope: process 1 runs; nobody listens on port 0xe9"), "{outcome}");
    assert!(outcome.console.contains("Power down"), "{outcome}");
    assert!(outcome.port_output.is_empty());

    let outcome = boot(&kernel, &Boot { append: "quiet lockdown=confidentiality", ..Boot::default() });
    let text = "bootscope: process 1 runs; the kernel forbids ports: Operation not permitted (os error 1)";
    assert!(outcome.console.contains(text), "{outcome}");
    assert!(outcome.console.contains("Power down"), "{outcome}");
}

/// The user's initrd: the test's own init, as `/sbin/second`, compressed.
fn second_initrd() -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let sbin = folder.path().join("sbin");
    std::fs::create_dir(&sbin).expect("a folder");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/second_init.rs");
    let status = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .args(["--edition=2024", "-Cpanic=abort", "-Ctarget-feature=+crt-static", "-Cstrip=symbols", "-o"])
        .arg(sbin.join("second"))
        .arg(source)
        .status();
    assert!(status.expect("rustc runs").success());
    let archive = Command::new("sh")
        .args(["-c", "find sbin | cpio -o -H newc --quiet | gzip -1"])
        .current_dir(folder.path())
        .output()
        .expect("sh runs");
    assert!(archive.status.success() && archive.stdout.len() > 10_000, "cpio and gzip are needed");
    archive.stdout
}

#[test]
fn the_users_own_init_finds_a_clean_place() {
    let Some(kernel) = kernel() else { return };
    let outcome = boot(
        &kernel,
        &Boot {
            append: "quiet mine=yes -- single 5",
            config: Config { then: Then::Exec, init: Some("/sbin/second".into()), ..Config::default() },
            initrd: second_initrd(),
            ..Boot::default()
        },
    );
    check_kmsg(&outcome);
    assert_eq!(outcome.ends(), ["exec /sbin/second"], "{outcome}");
    assert_eq!(outcome.lacks("unmount"), [""; 0]);
    for line in [
        r#"second init: pid 1 args ["/sbin/second", "single", "5"]"#,
        r#"second init: HOME Ok("/") mine Ok("yes")"#,
        "second init: proc [] ours []",
        r#"second init: mounted 0; mounts "rootfs / rootfs rw"#,
        r#"second init: files ["0", "1", "2", "3"]"#,
        // The port kills it, because it may no longer use ports.
        "Attempted to kill init! exitcode=0x0000000b",
    ] {
        assert!(outcome.console.contains(line), "{line}\n{outcome}");
    }
    assert!(!outcome.console.contains("may use ports"));
}

#[test]
fn an_init_that_cannot_be_started_is_reported() {
    let Some(kernel) = kernel() else { return };
    let config = Config { then: Then::Exec, init: Some("/sbin/none".into()), ..Config::default() };
    let outcome = boot(&kernel, &Boot { config, ..Boot::default() });
    assert_eq!(outcome.ends(), ["exec /sbin/none", "poweroff"], "{outcome}");
    assert_eq!(outcome.lacks("init"), ["/sbin/none: No such file or directory (os error 2)"]);
}
