//! Stock kernels recorded as by a user: every boot reaches process 1, its times add up to the nanosecond, it is
//! explained, and all of its evidence is transferred completely.
//!
//! Each kernel is booted small (1 CPU, 256 MiB) and large (4 CPUs, 2 GiB); `BOOTSCOPE_TEST_MATRIX=full` boots every
//! combination of the two.

use crate::support::boots::{QUIET, Scratch, evidence, kernels, manifest, messages, record, recorded};
use crate::support::{bootscope, list, ns, run, shown, text};
use serde_json::Value;
use std::path::Path;

const MIB: i64 = 1 << 20;
/// The unexplained share that the issue allows, of a boot from the VMM's start to process 1.
const MAX_UNEXPLAINED: f64 = 0.02;
/// The files that guest-init transfers from every stock kernel.
const EVIDENCE: [&str; 11] = [
    "kmsg.log",
    "trace.txt",
    "kallsyms.gz",
    "meminfo.txt",
    "vmstat.txt",
    "iomem.txt",
    "interrupts.txt",
    "modules.txt",
    "cmdline.txt",
    "self-stat.txt",
    "first-run.bin",
];

#[test]
fn stock_kernels_reach_process_one_and_every_nanosecond_is_accounted_for() {
    let full = std::env::var("BOOTSCOPE_TEST_MATRIX").is_ok_and(|matrix| matrix == "full");
    let sizes: &[(i64, i64)] = if full { &[(1, 256), (1, 2048), (4, 256), (4, 2048)] } else { &[(1, 256), (4, 2048)] };
    let mut failed = Vec::new();
    for kernel in kernels() {
        for &(cpus, mib) in sizes {
            // A failed boot must not hide the results of the others.
            if std::panic::catch_unwind(|| boot(&kernel, cpus, mib)).is_err() {
                failed.push(format!("{}, {cpus} CPUs, {mib} MiB", kernel.display()));
            }
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

fn boot(kernel: &Path, cpus: i64, mib: i64) {
    let scratch = Scratch::new();
    let into = scratch.path("boot");
    let (cpus_text, memory) = (cpus.to_string(), format!("{mib}M"));
    let mut command = record(kernel, &into);
    command.args(["--append", QUIET, "--cpus", &cpus_text, "--memory", &memory]);
    recorded(&mut command, &into, "reached");
    let document = shown(&into);
    println!("{}", figures(kernel, &document));

    assert_eq!(document["outcome"], "reached");
    assert_eq!(document["time_base"], "host");
    assert_eq!(document["scheduler_evidence"], true);
    assert_subject(kernel, &document["subject"], cpus, mib);
    assert_end(&document, &manifest(&into));
    assert!(unexplained(&document) <= MAX_UNEXPLAINED, "unexplained: {:#}", document["phases"]);
    assert_memory(&document["memory"], mib);
    assert_phases(&document);
    assert_evidence(&into);
}

/// Prints a line of figures into the log of the tests.
fn figures(kernel: &Path, document: &Value) -> String {
    let name = kernel.file_name().unwrap_or_default().to_string_lossy();
    let subject = &document["subject"];
    format!(
        "{name}, {} CPUs, {} MiB: {:.3} s, unexplained {:.2} %, explained {:.1} %",
        subject["cpus"],
        ns(&subject["memory_bytes"]) / MIB,
        ns(&document["total_ns"]) as f64 / 1e9,
        unexplained(document) * 100.0,
        document["explained"].as_f64().unwrap() * 100.0
    )
}

/// The share of the boot in phases called `unexplained`.
fn unexplained(document: &Value) -> f64 {
    let phases = list(&document["phases"]).iter().filter(|phase| phase["name"] == "unexplained");
    let sum: i64 = phases.map(|phase| ns(&phase["end_ns"]) - ns(&phase["start_ns"])).sum();
    sum as f64 / ns(&document["total_ns"]) as f64
}

fn assert_subject(kernel: &Path, subject: &Value, cpus: i64, mib: i64) {
    assert_eq!(subject["os"], "Linux");
    assert_eq!(subject["accelerator"], "tcg");
    assert_eq!((ns(&subject["cpus"]), ns(&subject["memory_bytes"])), (cpus, mib * MIB));
    let release = text(&subject["kernel"]);
    let file = kernel.file_name().unwrap_or_default().to_string_lossy();
    if let Some(expected) = file.strip_prefix("vmlinuz-") {
        assert_eq!(release, expected);
    }
}

/// Checks that the end mark is process 1's first sign of life, by the host's own stamp.
fn assert_end(document: &Value, manifest: &Value) {
    let end = &document["end"];
    let (at, total) = (ns(&end["at_ns"]), ns(&document["total_ns"]));
    assert_eq!(at, total, "the boot ends at its end mark");
    assert_eq!(end["track"], "init");
    let stamped = ns(&manifest["end"]["at_ns"]);
    let error = ns(&end["error_ns"]);
    assert!(at <= stamped + error, "the mark at {at} is later than the byte that arrived at {stamped}");
    assert!(stamped - at < max_error(total, 50), "the mark at {at} is far before the byte that arrived at {stamped}");
    for clock in list(&document["clocks"]) {
        assert!(ns(&clock["residual_ns"]) < max_error(total, 20), "a clock that does not fit: {clock}");
    }
}

/// The allowed error of a time: `ms` milliseconds, or as many parts in 5000 of the boot on a host so busy that the boot
/// takes longer.
fn max_error(total_ns: i64, ms: i64) -> i64 {
    (ms * 1_000_000).max(total_ns / 5000 * ms)
}

fn assert_memory(memory: &Value, mib: i64) {
    let total = ns(&memory["guest_total_bytes"]);
    // The kernel keeps some memory before it counts: a smaller share on larger machines.
    assert!(total > mib * MIB * 7 / 10 && total < mib * MIB, "{memory}");
    let available = ns(&memory["guest_available_bytes"]);
    assert!(available > 0 && available <= total, "{memory}");
    assert!(ns(&memory["vmm_max_rss_bytes"]) > 50 * MIB, "{memory}");
}

/// Checks that all phases of a boot are there, in order.
fn assert_phases(document: &Value) {
    let names: Vec<&str> = list(&document["phases"]).iter().map(|phase| text(&phase["name"])).collect();
    let stages = ["VMM", "firmware", "decompressor", "early kernel", "initcalls", "process 1"];
    let places: Vec<_> = stages.iter().map(|stage| names.iter().position(|name| name.starts_with(stage))).collect();
    assert!(places.iter().all(Option::is_some), "{stages:?} are at {places:?} of {names:?}");
    assert!(places.is_sorted(), "{stages:?} are at {places:?} of {names:?}");
    for phase in list(&document["phases"]) {
        assert!(!text(&phase["evidence"]).is_empty(), "{phase}");
        assert!(ns(&phase["error_ns"]) < max_error(ns(&document["total_ns"]), 20), "{phase}");
    }
}

fn assert_evidence(into: &Path) {
    let listed = manifest(into)["evidence"].clone();
    for file in list(&listed) {
        let name = text(&file["file"]);
        assert!(!name.ends_with(".partial"), "{name} is not whole");
        let bytes = std::fs::metadata(into.join(name)).unwrap().len();
        assert_eq!(file["bytes"].as_u64(), Some(bytes), "{name}");
    }
    let names: Vec<&str> = list(&listed).iter().map(|file| text(&file["file"])).collect();
    for expected in EVIDENCE {
        assert!(names.contains(&expected), "{expected} is not among {names:?}");
    }
    let log = messages(&evidence(into, "kmsg.log"));
    assert!(log[0].1.starts_with("Linux version "), "{:?}", log[0]);
    assert!(log.iter().any(|(_, text)| text.starts_with("Run /bootscope/init as init process")));
    assert_trace_is_whole(&evidence(into, "trace.txt"));
    assert!(std::fs::read(into.join("kallsyms.gz")).unwrap().starts_with(b"\x1f\x8b"));
    let clean = run(bootscope("show").arg(into)).exits(0);
    assert!(clean.text().contains("reached"), "{}", clean.text());
}

/// Checks that nothing was overwritten in the trace's ring buffer: `# entries-in-buffer/entries-written: 5123/5123  
/// #P:1`.
fn assert_trace_is_whole(trace: &str) {
    let header = trace.lines().take(20).find_map(|line| line.split_once("entries-written:")).expect("a trace's header");
    let (kept, written) = header.1.split_whitespace().next().unwrap().split_once('/').unwrap();
    assert_eq!(kept, written, "the trace's buffer overflowed");
    assert!(kept.parse::<u64>().unwrap() > 1000, "{kept} events only");
}
