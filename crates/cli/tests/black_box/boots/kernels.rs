//! Kernels of several years, plain, traced and with calls: no impossible figures, the early kernel by function, and
//! hardly any time without an owner.
//!
//! `BOOTSCOPE_TEST_MATRIX` names the kernels as `BOOTSCOPE_TEST_KERNELS` does. `make test` boots another one at each
//! commit, `make test-kernels` all of them. `BOOTSCOPE_TEST_MATRIX_CPUS` is the number of CPUs (default: 1). With one
//! CPU the boots are deterministic. With more they run in host time, and a busy host's clocks agree less well.

use crate::support::boots::{QUIET, Scratch, found, manifest, record, recorded};
use crate::support::{bootscope, list, ns, run, shown, skip, text};
use serde_json::Value;
use std::path::Path;

/// The largest share of a boot that may have no owner.
const MAX_UNOWNED: f64 = 0.02;

/// Functions of the early kernel that every kernel since 5.10 has, and that take long.
const EARLY: [&str; 3] = ["setup_arch", "ftrace_init", "trace_init"];

#[test]
#[ignore = "36 s: in make test-all"]
fn every_kernel_in_every_way() {
    let kernels = std::env::var("BOOTSCOPE_TEST_MATRIX").unwrap_or_default();
    if kernels.is_empty() {
        return skip("BOOTSCOPE_TEST_MATRIX names no kernel");
    }
    let cpus = std::env::var("BOOTSCOPE_TEST_MATRIX_CPUS").unwrap_or_else(|_| "1".to_owned());
    let scratch = Scratch::new();
    let mut failed: Vec<String> = Vec::new();
    for cpus in cpus.split_whitespace() {
        for kernel in kernels.split(':').filter(|name| !name.is_empty()).map(found) {
            for trace in ["none", "events", "calls"] {
                let into = scratch.path("boot");
                let mut command = record(&kernel, &into);
                command.args(["--cpus", cpus, "--trace", trace, "--append", QUIET, "--force"]);
                if cpus == "1" {
                    command.arg("--deterministic");
                }
                recorded(&mut command, &into, "reached");
                failed.extend(look(&kernel, cpus, trace, &into));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Prints the figures of a recording, and returns their faults.
fn look(kernel: &Path, cpus: &str, trace: &str, recording: &Path) -> Vec<String> {
    let document = shown(recording);
    let total = ns(&document["total_ns"]);
    let rows = list(&document["where"]);
    let of = |begins: &str| -> i64 {
        rows.iter().filter(|row| text(&row["name"]).starts_with(begins)).map(|row| ns(&row["self_ns"])).sum()
    };
    let unowned = 1.0 - document["explained"].as_f64().unwrap();
    let name = kernel.file_name().unwrap().to_string_lossy().into_owned();
    println!(
        "{name}, {cpus} CPUs, {trace}: {:.0} ms, {} rows, without an owner {:.2} %",
        total as f64 / 1e6,
        rows.len(),
        unowned * 100.0
    );
    let mut wrong = Vec::new();
    let mut expect = |holds: bool, what: String| {
        if !holds {
            wrong.push(format!("{name}, {cpus} CPUs, {trace}: {what}"));
        }
    };
    expect(unowned <= MAX_UNOWNED, format!("{:.2} % has no owner", unowned * 100.0));
    for function in EARLY {
        expect(of(function) > 0, format!("{function} of the early kernel is no row"));
    }
    let longest = rows.iter().find(|row| text(&row["name"]).starts_with("x86_64_start_kernel"));
    expect(longest.is_none_or(|row| ns(&row["self_ns"]) * 100 < total), format!("all is in {longest:?}"));
    let compression = text(&manifest(recording)["inputs"][0]["compression"]).to_owned();
    expect(!compression.is_empty(), "its compressor is not known".to_owned());
    let decompress = format!("decompress the kernel ({compression})");
    // Initcalls and functions of the kernel's own decompress modules.
    let is_of_the_decompressor = |name: &str| name.starts_with("decompress the kernel") || name == "(decompressor)";
    let unpacking = rows.iter().filter(|row| is_of_the_decompressor(text(&row["name"]))).count();
    expect(of(&decompress) > 0, format!("no row {decompress:?}"));
    expect(unpacking <= 2, format!("{unpacking} rows of the decompressor"));
    // With a call trace, a thunk is charged with its own few instructions, not with those of its target. By the host's
    // clock a thunk also has the time of its translation.
    let max_share = if cpus == "1" { 0.000_1 } else { 0.01 };
    let is_a_thunk =
        |name: &str| name.contains("__x86_indirect") || name.contains("_return_thunk") || name.contains("__pi_");
    let thunks: Vec<(&str, i64)> =
        rows.iter().map(|row| (text(&row["name"]), ns(&row["self_ns"]))).filter(|row| is_a_thunk(row.0)).collect();
    let within: i64 = thunks.iter().map(|row| row.1).sum();
    expect(
        (trace == "calls" || thunks.is_empty()) && (within as f64) < total as f64 * max_share,
        format!("thunks and aliases are rows: {thunks:?}"),
    );
    let unread = list(&document["diagnostics"]).iter().find(|d| text(&d["code"]).contains("unreadable"));
    expect(unread.is_none(), format!("{unread:?}"));
    wrong
}

/// Two kernels differ in nearly everything, but suffixes of their builds must not make names differ.
#[test]
#[ignore = "36 s: in make test-all"]
fn a_diff_of_two_kernels_matches_functions() {
    let kernels = std::env::var("BOOTSCOPE_TEST_KERNELS").unwrap_or_default();
    let kernels: Vec<_> = kernels.split(':').filter(|name| !name.is_empty()).map(found).collect();
    let [old, .., new] = &kernels[..] else { return skip("BOOTSCOPE_TEST_KERNELS names no two kernels") };
    let scratch = Scratch::new();
    let boot = |name: &str, kernel: &Path| {
        let into = scratch.path(name);
        let mut command = record(kernel, &into);
        recorded(command.args(["--deterministic", "--trace", "calls", "--append", QUIET]), &into, "reached");
        into
    };
    let (before, after) = (boot("before", old), boot("after", new));
    let document = run(bootscope("diff").args([&before, &after]).arg("--json")).exits(0).json();
    let functions = list(&document["functions"]);
    let plain = |name: &str| name.split('.').next().unwrap_or_default().trim_start_matches("__pi_").to_owned();
    let names = |what: &str| -> Vec<String> {
        let of = functions.iter().filter(|f| text(&f["what"]) == what).map(|f| text(&f["name"]));
        of.filter(|name| [".isra", ".constprop", ".part", ".cold"].iter().any(|s| name.contains(s)))
            .map(plain)
            .collect()
    };
    let (gone, came) = (names("vanished"), names("appeared"));
    let both: Vec<&String> = gone.iter().filter(|name| came.contains(name)).collect();
    assert!(both.is_empty(), "the same function under two names: {both:?}");
    let count_with = |field: &str| functions.iter().filter(|f| f[field].is_string()).count();
    println!("{} renamed, {} inlined, of {}", count_with("renamed_from"), count_with("inlined_in"), functions.len());
    assert!(count_with("inlined_in") > 0, "a compiler inlines otherwise in each version");
    let decompress: Vec<&Value> = functions.iter().filter(|f| text(&f["name"]).contains("decompress the")).collect();
    assert!(decompress.iter().all(|f| text(&f["what"]) == "changed"), "{decompress:?}");
}
