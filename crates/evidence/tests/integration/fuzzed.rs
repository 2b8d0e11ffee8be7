//! Every reader has a fuzz target. A format without one would be open to hostile files.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Each format as `src/assemble/reader_table.rs` names it, and the target that reaches its reader.
const TARGETS: [(&str, &str); 33] = [
    ("Tslog", "tslog"),
    ("GuestMessages", "stamped_lines"),
    ("Guestfs", "guestfs"),
    ("Symbols", "first_executions"),
    ("Samples", "perf_script"),
    ("Silence", "silence"),
    ("Watched", "watched"),
    ("Trace", "ftrace"),
    ("FunctionGraph", "function_graph"),
    ("PerfData", "perf_data"),
    ("Stacks", "imported"),
    ("PerfettoTracks", "perfetto"),
    ("Uftrace", "uftrace"),
    ("FirstExecutions", "first_executions"),
    ("Exits", "exits"),
    ("Calls", "calls"),
    ("Journal", "captured"),
    ("KernelLog", "kernel_log"),
    ("Bootchart", "bootchart"),
    ("Bootstat", "imported"),
    ("Boottimes", "imported"),
    ("Boottrace", "imported"),
    ("AndroidEvents", "imported"),
    ("Cbmem", "before_kernel"),
    ("Bootstage", "before_kernel"),
    ("Fpdt", "before_kernel"),
    ("EfiLoader", "before_kernel"),
    ("ProcessTable", "captured"),
    ("DevicesDeferred", "imported"),
    ("SystemdAnalyze", "systemd_analyze"),
    ("Vmm", "imported"),
    ("VmmLog", "imported"),
    ("Firmware", "stamped_lines"),
];

/// Formats that are read without a reader of their own, and the target that has the format's name among its words.
const OTHERS: [(&str, &str); 10] = [
    ("android_words", "imported"),
    ("archive", "imported"),
    ("how", "imported"),
    ("meminfo", "imported"),
    ("ports", "imported"),
    ("perfetto", "perfetto"),
    ("trace_dat", "trace_dat"),
    ("budgets", "kept"),
    ("history", "kept"),
    ("lake", "kept"),
];

fn file(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The table of readers: each format and its module.
fn readers() -> Vec<(String, String)> {
    let source = file("src/assemble/reader_table.rs");
    let table = source.split("\nreaders! {\n").nth(1).and_then(|rest| rest.split("\n}\n").next()).expect("the table");
    let row = |line: &str| {
        let (format, reader) = line.trim().strip_suffix(';')?.split_once(": ")?;
        Some((format.to_owned(), reader.split("::").next()?.to_owned()))
    };
    table.lines().filter(|line| !line.trim().starts_with("///")).map(|line| row(line).expect("a row")).collect()
}

fn assert_reaches(target: &str, word: &str) {
    let source = file(&format!("../../fuzz/fuzz_targets/{target}.rs"));
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    assert!(source.split(|c| !is_word(c)).any(|found| found == word), "the fuzz target {target} has no word of {word}");
}

#[test]
fn every_reader_has_a_fuzz_target() {
    let readers = readers();
    let listed: BTreeSet<&str> = TARGETS.iter().map(|(format, _)| *format).collect();
    let there: BTreeSet<&str> = readers.iter().map(|(format, _)| format.as_str()).collect();
    assert_eq!(listed, there, "this test's list of targets, and the table of readers");
    let module = |format: &str| readers.iter().find(|reader| reader.0 == format).expect("it is there").1.clone();
    TARGETS.iter().for_each(|(format, target)| assert_reaches(target, &module(format)));
    OTHERS.iter().for_each(|(word, target)| assert_reaches(target, word));
}

#[test]
fn every_target_is_one_of_make_fuzz() {
    let manifest = file("../../fuzz/Cargo.toml");
    let named: BTreeSet<&str> =
        manifest.lines().filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"')).collect();
    for (_, target) in TARGETS.iter().chain(&OTHERS) {
        assert!(named.contains(target), "fuzz/Cargo.toml has no target {target}");
    }
}
