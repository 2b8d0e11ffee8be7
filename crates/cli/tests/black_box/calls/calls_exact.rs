//! Compares call traces with the truth: a guest that counts its own calls (`guests/counting.s`), and a kernel's own
//! function tracer.
//!
//! The guest makes every kind of call that a stack must be followed through, in 32-bit and 64-bit code. There are
//! nested calls (100 000 deep), tail calls, `longjmp`, retpolines, calls to another segment, returns that clean up, and
//! coroutines. There are interrupts at any moment, system calls, and exceptions in the middle of a block. All counts
//! must be exact.
//!
//! The tracer counts from its start, and the program's tables are for whole boots. So that test reads `calls.bin` with
//! the program's own reader, for the totals at two moments.

use crate::support::boots::{QUIET, Scratch, evidence, kernel, recorded};
use crate::support::{bootscope, list, run, shown, skip, text};
use evidence::calls::{Calls, MarkKind};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds a guest from `guests/`.
pub(super) fn built(guest: &str, folder: &Path) -> PathBuf {
    built_with(guest, &[], folder)
}

/// As [`built`], with options for the compiler.
fn built_with(guest: &str, options: &[&str], folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guests").join(guest).with_extension("s");
    let image = folder.join(guest);
    let mut compiler = Command::new("cc");
    compiler.args(options);
    compiler.args(["-nostdlib", "-static", "-no-pie", "-Wl,-Ttext-segment=0x100000", "-Wl,-z,noseparate-code"]);
    compiler.args(["-Wl,--build-id=none", "-Wl,-z,noexecstack", "-o"]).arg(&image).arg(&source);
    assert!(compiler.status().expect("cc, which Rust links with, is there").success());
    image
}

pub(super) fn place_to_build() -> Option<Scratch> {
    if cfg!(not(target_arch = "x86_64")) {
        skip("the guests are for x86-64, and built with this machine's compiler");
        return None;
    }
    Some(Scratch::new())
}

/// `bootscope record` of a guest that is not Linux.
fn record(into: &Path) -> Command {
    let mut command = bootscope("record");
    command.args(["--trace", "calls", "--memory", "64M", "--until", "power-off", "--timeout", "5m", "-o"]).arg(into);
    command
}

/// The calls and own instructions, by function.
fn functions(recording: &Path) -> BTreeMap<String, (i64, i64)> {
    let document = shown(recording);
    let rows = list(&document["calls"]["functions"]).iter();
    let number = |value: &Value| value.as_i64().unwrap();
    // The plugin always lists it, even if it never ran.
    let rows = rows.filter(|row| row["name"] != "user space");
    rows.map(|row| (text(&row["name"]).to_owned(), (number(&row["calls"]), number(&row["self_instructions"]))))
        .collect()
}

#[test]
fn a_guest_that_counts_its_own_calls_is_followed_exactly() {
    let Some(scratch) = place_to_build() else { return };
    let image = built("counting", scratch.folder());
    for how in [&["--deterministic"][..], &[], &["--machine", "q35", "--cpus", "2"]] {
        let into = scratch.path(&format!("boot{}", how.len()));
        let mut command = record(&into);
        command.args(how).arg("--symbols").arg(&image).arg("--").arg("-kernel").arg(&image);
        recorded(&mut command, &into, "reached");
        let found = functions(&into);
        let console = evidence(&into, "console.log");
        let mut checked = 0;
        for line in console.lines() {
            let (name, count) = line.split_once(' ').unwrap_or_else(|| panic!("{line:?} in {console}"));
            let calls = found.get(name).map_or(0, |row| row.0);
            assert_eq!(calls, count.trim().parse::<i64>().unwrap(), "calls of {name} with {how:?}");
            checked += 1;
        }
        assert_eq!(checked, 30, "counts in {console}");
        assert_instructions(&found, how == ["--deterministic"]);
    }
}

/// Checks the instructions where the source has their number: each is counted once, and for its own function.
///
/// With the host's clock there is one exception. The first timer interrupt can arrive exactly when another one returns,
/// and then its handler is not recognised. Its instructions count for the interrupted function. Its callee, the
/// kernel's part, has one call more than the handler.
#[track_caller]
fn assert_instructions(found: &BTreeMap<String, (i64, i64)>, deterministic: bool) {
    const HANDLER: i64 = 8;
    let (timer, handled) = (found["enter_timer"].0, found["on_timer"].0);
    let lost = if deterministic { 0 } else { handled - timer };
    println!("{lost} of {handled} interrupts were not recognised");
    assert!((0..=1).contains(&lost), "{lost} of {handled} interrupts were not recognised");
    let each =
        [("leaf", 2), ("inner", 2), ("middle", 4), ("outer", 5), ("tail_caller", 2), ("busy", 2), ("far_target", 2)];
    for (name, instructions) in each.into_iter().chain([("enter_timer", 8), ("on_timer", 2), ("cleans_up", 2)]) {
        let (calls, own) = found[name];
        let more = own - calls * instructions;
        assert!((0..=lost * HANDLER).contains(&more), "{own} instructions of {name} in {calls} calls, {lost} lost");
    }
    assert_eq!(found["recurse"], (100_000, 6 * 100_000 - 2));
}

#[test]
fn unfit_names_are_reported_and_names_are_optional() {
    let Some(scratch) = place_to_build() else { return };
    let image = built("counting", scratch.folder());
    let boot = |name: &str, symbols: &[String]| {
        let into = scratch.path(name);
        let mut command = record(&into);
        symbols.iter().for_each(|file| {
            command.args(["--symbols", file]);
        });
        recorded(command.args(["--deterministic", "--"]).arg("-kernel").arg(&image), &into, "reached");
        let document = shown(&into);
        let codes = list(&document["diagnostics"]).iter().map(|row| text(&row["code"]).to_owned());
        let codes: Vec<String> = codes.filter(|code| code.starts_with("symbol")).collect();
        (functions(&into), codes)
    };
    let path = image.display();
    let (unnamed, codes) = boot("none", &[]);
    assert!(codes.is_empty() && unnamed.values().any(|row| row.0 == 300_000), "{codes:?}");
    // An address, or a placeholder for code that nothing called.
    assert!(unnamed.keys().all(|name| name.contains("0x") || name.starts_with('(')), "{unnamed:?}");

    // The lowest segment is at 1 MiB. Names for another address are useless, and a small offset makes all names wrong.
    let (named, codes) = boot("right", &[format!("{path}@0x100000"), format!("{path}@0x40000000")]);
    assert_eq!(named["busy"].0, 300_000);
    assert_eq!(codes, ["symbols-unused"]);
    let (_, codes) = boot("off", &[format!("{path}@0x100001")]);
    assert_eq!(codes, ["symbols-of-another-build"]);
}

#[test]
fn a_file_without_names_is_refused() {
    let Some(scratch) = place_to_build() else { return };
    let image = built("counting", scratch.folder());
    let (stripped, notes) = (scratch.path("stripped"), scratch.path("notes.txt"));
    assert!(Command::new("strip").arg("-o").arg(&stripped).arg(&image).status().unwrap().success());
    std::fs::write(&notes, "no list\n").unwrap();
    let cases = [("/nonexistent/xen-syms", "No such file"), (stripped.to_str().unwrap(), "is stripped")];
    for (file, why) in cases.into_iter().chain([(notes.to_str().unwrap(), "neither"), ("x@0xyz", "no address")]) {
        let mut command = record(&scratch.path("boot"));
        run(command.args(["--symbols", file, "--", "-kernel"]).arg(&image)).refuses(&[file, why]);
    }
    assert!(!scratch.path("boot").exists());
}

#[test]
fn a_guest_that_runs_away_leaves_calls_that_can_be_read() {
    let Some(scratch) = place_to_build() else { return };
    let (image, into) = (built("garbage", scratch.folder()), scratch.path("boot"));
    let mut command = record(&into);
    command.args(["--deterministic", "--symbols"]).arg(&image).arg("--").arg("-kernel").arg(&image);
    recorded(&mut command, &into, "reset");
    let found = functions(&into);
    assert_eq!(found["works"].0, 100);
    assert!(found.values().map(|row| row.1).sum::<i64>() > 500_000, "all of its instructions are somewhere");
}

/// Two CPUs with their stacks side by side in one window of addresses, by which the plugin identifies stacks. xv6,
/// 32-bit kernels and small ones have such stacks.
#[test]
#[ignore = "a busy host changes how two CPUs race: in make test-all"]
fn two_cpus_with_their_stacks_in_one_window_are_followed_exactly() {
    const ROUNDS: i64 = 2_000_000;
    const CALLS_BYTES_MAX: u64 = 2_000_000;
    let Some(scratch) = place_to_build() else { return };
    for stack in ["0x1ff0", "0xfff0"] {
        let into = scratch.path(&format!("boot-{stack}"));
        recorded(&mut record_two_cpus(stack, &into, &scratch), &into, "reached");
        let bytes = std::fs::metadata(into.join("calls.bin")).unwrap().len();
        println!("second stack at {stack}: {bytes} bytes of calls");
        assert!(bytes <= CALLS_BYTES_MAX, "{bytes} bytes of calls with the second stack at {stack}");
        let found = functions(&into);
        for (function, each) in [("f1", 1), ("f2", 1), ("f3", 2), ("g1", 1), ("g2", 2), ("g3", 2)] {
            assert_eq!(found[function].0, 2 * ROUNDS * each, "calls of {function} with the second stack at {stack}");
        }
        assert_eq!(found["works"].0, 2);
        let matched = shown(&into)["calls"]["matched"].as_f64().unwrap();
        assert!(matched > 0.9999, "{matched} of the returns with the second stack at {stack}");
    }
}

/// A guest that cannot work: two CPUs overwrite each other's return addresses. Its recording can still be shown.
#[test]
#[ignore = "a busy host changes how two CPUs race: in make test-all"]
fn two_cpus_on_one_stack_leave_calls_that_can_be_read() {
    let Some(scratch) = place_to_build() else { return };
    let into = scratch.path("boot");
    let mut command = record_two_cpus("0x3ff0", &into, &scratch);
    let ran = run(command.args(["-no-reboot"]));
    println!(
        "it ended with status {} and {} bytes of calls",
        ran.status,
        std::fs::metadata(into.join("calls.bin")).unwrap().len()
    );
    assert!(ran.status <= 1, "{}", ran.stderr);
    assert!(functions(&into)["f3"].0 > 0);
}

/// Records the guest with two CPUs. The second one's stack is at this distance from the window of the first one's.
fn record_two_cpus(stack: &str, into: &Path, scratch: &Scratch) -> Command {
    let image = built_with("one_window", &[&format!("-Wa,--defsym,AP_STACK={stack}")], scratch.folder());
    let mut command = bootscope("record");
    command.args(["--trace", "calls", "--memory", "64M", "--cpus", "2", "--until", "DONE", "--timeout", "60s"]);
    command.arg("--symbols").arg(&image).arg("-o").arg(into).arg("--").arg("-kernel").arg(&image);
    command
}

/// Functions that a boot calls often or seldom, directly, through tables and by jumps.
const TRACED: [&str; 13] = [
    "__alloc_pages",
    "__kmalloc",
    "do_one_initcall",
    "get_page_from_freelist",
    "irq_enter_rcu",
    "kernfs_add_one",
    "kfree",
    "kmem_cache_alloc",
    "kstrdup",
    "mutex_lock",
    "schedule",
    "vprintk_emit",
    "wake_up_process",
];
/// The largest relative difference between the two counts of a function.
const MAX_DIFFERENCE: f64 = 0.001;

/// The plugin writes totals every 10 ms, so the test compares between two of its tables: the first after the tracer's
/// first line, and the last before process 1 prints. A call that is in progress at such a moment may count on either
/// side.
#[test]
#[ignore = "12 s: in make test-all"]
fn a_kernels_own_function_tracer_counts_the_same() {
    let Some(kernel) = kernel() else { return };
    let (scratch, functions) = (Scratch::new(), TRACED.join(","));
    let into = scratch.path("boot");
    let tracer = format!("ftrace=function ftrace_filter={functions} trace_clock=x86-tsc trace_buf_size=32M");
    let mut command = crate::support::boots::record(&kernel, &into);
    command
        .args(["--trace", "calls", "--deterministic", "--memory", "1G", "--append"])
        .arg(format!("{QUIET} {tracer}"));
    recorded(&mut command, &into, "reached");

    let lines = traced(&evidence(&into, "trace.txt"));
    let calls = calls(&into);
    let first_ns = lines.iter().map(|line| line.0).min().expect("the tracer ran");
    let out = calls.marks.iter().find(|mark| mark.kind == MarkKind::FirstUserOut).expect("process 1 spoke").at;
    let from = calls.intervals.iter().map(|interval| interval.to).find(|&to| calls.at(to).0 > first_ns).unwrap();
    let names = kallsyms(&into);
    let counted = [from, out].map(|until| counted(&calls, until, &names));
    let between = calls.at(from).0..calls.at(out).0;
    let mut different = Vec::new();
    for name in TRACED {
        let by_kernel = lines.iter().filter(|(ns, function)| function == name && between.contains(ns)).count() as f64;
        let [before, after] = [0, 1].map(|i| counted[i].get(name).copied().unwrap_or(0));
        let by_plugin = (after - before) as f64;
        println!("{name}: {by_kernel} lines, {by_plugin} calls");
        if by_kernel == 0.0 || (by_plugin - by_kernel).abs() > (by_kernel * MAX_DIFFERENCE).max(1.0) {
            different.push(format!("{name}: {by_kernel} lines, {by_plugin} calls"));
        }
    }
    assert!(different.is_empty(), "{different:#?}");
}

/// The time and function of each line. In a deterministic boot a tick of the TSC is a nanosecond.
fn traced(trace: &str) -> Vec<(i64, String)> {
    let all = trace.lines().find_map(|line| line.strip_prefix("# entries-in-buffer/entries-written: ")).unwrap();
    let (kept, written) = all.split_whitespace().next().unwrap().split_once('/').unwrap();
    assert_eq!(kept, written, "the tracer's buffer was large enough");
    let line = |line: &str| {
        let (head, function) = line.split_once(": ")?;
        let (function, _) = function.split_once(" <-")?;
        Some((head.split_whitespace().next_back()?.parse().ok()?, function.to_owned()))
    };
    trace.lines().filter(|line| !line.starts_with('#')).filter_map(line).collect()
}

fn calls(recording: &Path) -> Calls {
    let mut diagnostics = timeline::Diagnostics::default();
    let bytes = std::fs::read(recording.join("calls.bin")).unwrap();
    let calls = evidence::calls::read("calls.bin", &bytes, &mut diagnostics);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    calls
}

/// The functions by address, as reported by the guest.
fn kallsyms(recording: &Path) -> HashMap<u64, String> {
    let packed = std::fs::File::open(recording.join("kallsyms.gz")).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(packed).read_to_string(&mut text).unwrap();
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        let kind = words.next()?;
        kind.eq_ignore_ascii_case("t").then(|| Some((address, words.next()?.to_owned())))?
    };
    text.lines().filter_map(line).collect()
}

/// The calls by function up to a moment.
fn counted(calls: &Calls, until: u64, names: &HashMap<u64, String>) -> HashMap<String, u64> {
    let mut counted = HashMap::new();
    for totals in calls.totals_until(until) {
        if let Some(name) = names.get(&calls.nodes[totals.node as usize].function) {
            *counted.entry(name.clone()).or_default() += totals.calls;
        }
    }
    counted
}
