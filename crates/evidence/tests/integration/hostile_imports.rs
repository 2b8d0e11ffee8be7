//! Hostile input: a boot that forks without end, an archive whose paths lead out of it, names with escapes.

use evidence::ftrace::Trace;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use timeline::{Clock, Diagnostics, Ns, RateSource, TimeBase, Timeline};

const INIT: &str = "init-1 [000] ..... 0.000000: sched_process_exec: filename=/sbin/init pid=1 old_pid=1\n";

/// The peak memory of this process so far.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// A fork bomb: each process forks two, in the order of their numbers, and none of them ends.
#[test]
fn a_hundred_thousand_forks_end_within_bounded_memory() {
    const PROCESSES: u64 = 100_000;
    let mut text =
        String::from("init-1 [000] ..... 0.000000: sched_process_exec: filename=/sbin/init pid=1 old_pid=1\n");
    for pid in 2..=PROCESSES {
        let (parent, at) = (pid / 2, pid * 10);
        let stamp = format!("{}.{:06}", at / 1_000_000, at % 1_000_000);
        writeln!(
            text,
            "b-{parent} [000] ..... {stamp}: task_newtask: pid={pid} comm=b clone_flags=1200000 oom_score_adj=0"
        )
        .unwrap();
        writeln!(
            text,
            "b-{parent} [000] ..... {stamp}: sched_process_fork: comm=b pid={parent} child_comm=b child_pid={pid}"
        )
        .unwrap();
    }
    let before = peak_bytes();
    let mut diagnostics = Diagnostics::default();
    let trace = Trace::read("t", text.as_bytes(), &mut diagnostics).unwrap();
    let clock = Clock::linear("trace", 1e9, trace.first, Ns::ZERO, RateSource::User);
    let mut timeline = Timeline::new(TimeBase::Evidence);
    trace.build(&clock, &mut timeline);
    timeline.finalize(Ns::ZERO);
    assert_eq!(timeline.processes.len() as u64, PROCESSES);
    // A tree: 17 generations, each process after its parent.
    assert_eq!(timeline.processes.iter().map(|process| process.depth).max(), Some(16));
    let path = analysis::boot_path(&timeline);
    let length = path.stretches.iter().map(|stretch| stretch.length()).sum::<Ns>();
    assert_eq!(length, if path.stretches.is_empty() { Ns::ZERO } else { analysis::total(&timeline) });
    // When this test was written, it was 57 MiB for 14 MB of text.
    let used = peak_bytes() - before;
    assert!(used < 200 << 20, "{} MiB", used >> 20);
}

/// Each process forks one: the chain of processes is as deep as their number.
#[test]
fn a_chain_of_a_hundred_thousand_parents_ends() {
    let mut text = String::from(INIT);
    for pid in 2..=100_000u64 {
        let (parent, at) = (pid - 1, pid * 10);
        let stamp = format!("{}.{:06}", at / 1_000_000, at % 1_000_000);
        writeln!(
            text,
            "b-{parent} [000] ..... {stamp}: sched_process_fork: comm=b pid={parent} child_comm=b child_pid={pid}"
        )
        .unwrap();
    }
    let trace = Trace::read("t", text.as_bytes(), &mut Diagnostics::default()).unwrap();
    let clock = Clock::linear("trace", 1e9, trace.first, Ns::ZERO, RateSource::User);
    let mut timeline = Timeline::new(TimeBase::Evidence);
    trace.build(&clock, &mut timeline);
    timeline.finalize(Ns::ZERO);
    assert_eq!(timeline.processes.len(), 100_000);
}

fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, content) in files {
        let mut header = tar::Header::new_gnu();
        // `set_path` refuses paths that lead out of the archive; hostile archives can have them.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_size(content.len() as u64);
        header.set_cksum();
        builder.append(&header, *content).unwrap();
    }
    builder.into_inner().unwrap()
}

/// Every file below a folder.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let below = |path: PathBuf| if path.is_dir() { files_below(&path) } else { vec![path] };
    let mut all: Vec<PathBuf> = entries.flat_map(below).collect();
    all.sort();
    all
}

/// No part of an archive is unpacked to disk, for any paths; its evidence is used.
#[test]
fn an_archive_whose_paths_climb_out_writes_nothing_outside() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("climbing-{}", std::process::id()));
    let inner = folder.join("a/b");
    std::fs::create_dir_all(&inner).unwrap();
    let absolute = folder.join("absolute").to_str().unwrap().to_owned();
    // An absolute name is cut to the length that the archive's format has room for.
    let absolute = &absolute[..absolute.len().min(99)];
    let events = b"3.41 2.27\n";
    let bytes = archive(&[
        ("../../uptime-climbed", events),
        ("x/../../../uptime-deeper", events),
        (absolute, b"[    0.000000] Linux version 6.1\n"),
        ("../\x1b[31muptime-red\n", b"hello"),
    ]);
    let file = inner.join("evil.tar");
    std::fs::write(&file, bytes).unwrap();
    let before = files_below(&folder);
    let into = inner.join("recording");
    recording::import(&[file], &into, false).unwrap();
    let timeline = evidence::load(&recording::Recording::open(&into).unwrap()).unwrap();
    let after: Vec<PathBuf> = files_below(&folder).into_iter().filter(|path| !path.starts_with(&into)).collect();
    assert_eq!(after, before);
    let names: Vec<&str> = timeline.marks.iter().map(|mark| timeline.names.get(mark.name)).collect();
    assert!(names.contains(&"climbed") && names.contains(&"deeper"), "{names:?}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// The wall clock is set by a year in the middle of the boot. Times are those of the monotonic clock; a message that
/// has only the time of day is counted.
#[test]
fn a_clock_that_is_set_in_mid_boot_moves_nothing() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("clock-set-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut text = String::new();
    for second in 1..=6u64 {
        let wall = if second > 3 { 31_536_000 } else { 0 } + second;
        let stamp = if second == 5 { String::new() } else { format!("__MONOTONIC_TIMESTAMP={second}000000\n") };
        writeln!(
            text,
            "__REALTIME_TIMESTAMP={wall}000000\n{stamp}_BOOT_ID=b\nSYSLOG_IDENTIFIER=a\nMESSAGE=m{second}\n"
        )
        .unwrap();
    }
    std::fs::write(folder.join("j"), &text).unwrap();
    recording::import(&[folder.join("j")], &folder.join("r"), false).unwrap();
    let timeline = evidence::load(&recording::Recording::open(&folder.join("r")).unwrap()).unwrap();
    let marks = timeline.marks.iter().map(|mark| (timeline.names.get(mark.name), mark.at.0 / 1_000_000_000));
    assert_eq!(marks.collect::<Vec<_>>(), [("a: m1", 1), ("a: m2", 2), ("a: m3", 3), ("a: m4", 4), ("a: m6", 6)]);
    assert_eq!(timeline.diagnostics.count(timeline::DiagnosticKind::MessagesWithoutStamp), 1);
    std::fs::remove_dir_all(&folder).unwrap();
}
