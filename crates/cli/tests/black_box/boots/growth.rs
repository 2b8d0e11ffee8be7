//! The growth of a boot with its machine, from logs that grow by published figures (Percival 2018, Profiling the
//! FreeBSD kernel boot): 2680 + 35 ms per CPU of printing, 41 and 10.4 ms per AP, 15 and then 3.5 ms per GB.

use crate::support::percival::{self, HZ};
use crate::support::{bootscope, run};
use serde_json::Value;
use std::path::PathBuf;
use tempfile::TempDir;

/// Recordings of machines with these numbers of CPUs and GB, each with this number of microseconds per GB.
fn boots(folder: &TempDir, sizes: &[(u64, u64)], us_per_gb: u64) -> Vec<PathBuf> {
    let boot = |&(cpus, gb): &(u64, u64)| {
        let name = format!("{cpus}-{gb}-{us_per_gb}");
        let log = percival::write(&percival::ec2_of(cpus, gb, us_per_gb), folder.path(), &format!("{name}.txt"));
        let recording = folder.path().join(name);
        let size = [format!("--cpus={cpus}"), format!("--memory={gb}G")];
        run(bootscope("import").arg(log).args(["--tsc-frequency", HZ, "-o"]).arg(&recording).args(size)).exits(0);
        recording
    };
    sizes.iter().map(boot).collect()
}

fn fit(recordings: &[PathBuf], flags: &[&str]) -> Value {
    let document = run(bootscope("show").arg("--json").args(flags).args(recordings)).exits(0).json();
    assert_eq!(document["schema"], "bootscope.fit/1");
    document
}

#[track_caller]
fn row<'a>(document: &'a Value, name: &str) -> &'a Value {
    let rows = document["rows"].as_array().unwrap();
    rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no row {name}"))
}

/// The unit of growth, and the slope and constant in microseconds.
fn line(row: &Value) -> (&str, i64, i64) {
    let us = |ns: f64| (ns / 1e3).round() as i64;
    (row["per"].as_str().unwrap(), us(row["slope_ns"].as_f64().unwrap()), us(row["constant_ns"].as_f64().unwrap()))
}

fn predicted_ms(row: &Value) -> i64 {
    (row["predicted"][0]["ns"].as_f64().unwrap() / 1e6).round() as i64
}

#[test]
fn per_ap_and_per_cpu() {
    let folder = TempDir::new().unwrap();
    let all = boots(&folder, &[(16, 32), (2, 32), (8, 32), (4, 32)], 15_000);
    let document = fit(&all, &["--fit", "cpus", "--at", "128"]);
    assert_eq!(line(row(&document, "SYSINIT start_aps")), ("AP", 41_000, 0));
    assert_eq!(line(row(&document, "SYSINIT cpu_mp · DELAY")), ("AP", 10_400, 0));
    assert_eq!(line(row(&document, "_vprintf")), ("CPU", 35_000, 2_680_000));
    assert_eq!(line(row(&document, "total")).1, 41_000 + 10_400 + 35_000);
    assert_eq!(predicted_ms(row(&document, "SYSINIT cpu_mp · DELAY")), 1_321);
    for still in ["SYSINIT vm_mem", "DEVICE_PROBE psm", "SYSINIT clocks · DELAY"] {
        assert_eq!(row(&document, still)["grows"], false, "{still}");
    }
    assert!(row(&document, "_vprintf")["slope_error_ns"].as_i64().unwrap() < 1_000, "all lie on the line");
    let sum: i64 =
        document["rows"].as_array().unwrap()[1..].iter().map(|r| r["predicted"][0]["ns"].as_i64().unwrap()).sum();
    assert_eq!(row(&document, "total")["predicted"][0]["ns"], sum);
    let text = run(bootscope("show").args(["--fit", "cpus", "--at", "128"]).args(&all)).exits(0);
    for words in ["2.68 s + 35.0 ms per CPU", "41.0 ms per AP", "10.4 ms per AP", "at 128"] {
        assert!(text.text().contains(words), "no {words:?} in\n{}", text.text());
    }
}

#[test]
fn per_gigabyte() {
    let folder = TempDir::new().unwrap();
    let before = fit(&boots(&folder, &[(16, 8), (16, 16), (16, 32)], 15_000), &["--fit", "memory"]);
    assert_eq!(line(row(&before, "SYSINIT vm_mem")), ("GB", 15_000, 0));
    let after = fit(&boots(&folder, &[(16, 8), (16, 16), (16, 32)], 3_500), &["--fit", "memory", "--at", "4T"]);
    assert_eq!(line(row(&after, "SYSINIT vm_mem")), ("GB", 3_500, 0));
    assert_eq!(predicted_ms(row(&after, "SYSINIT vm_mem")), 14_336);
}

#[test]
fn two_sizes_say_nothing_of_the_error() {
    let folder = TempDir::new().unwrap();
    let two = boots(&folder, &[(2, 8), (4, 8)], 15_000);
    assert_eq!(row(&fit(&two, &["--fit", "cpus"]), "total")["slope_error_ns"], Value::Null);
    let text = run(bootscope("show").args(["--fit", "cpus"]).args(&two)).exits(0);
    assert!(text.text().contains("a third one would"), "{}", text.text());
}

#[test]
fn recordings_without_a_line_are_refused() {
    let folder = TempDir::new().unwrap();
    let two = boots(&folder, &[(4, 8), (4, 16)], 15_000);
    run(bootscope("show").args(["--fit", "cpus"]).args(&two)).refuses(&["two sizes", "only one"]);
    run(bootscope("show").args(&two)).refuses(&["one recording", "--fit"]);
    run(bootscope("show").args(["--fit", "cpus", "--at", "many"]).args(&two)).refuses(&["--at many", "such as 128"]);
    let log = percival::write(&percival::ec2(), folder.path(), "unknown.txt");
    let unknown = folder.path().join("unknown");
    run(bootscope("import").arg(log).args(["--tsc-frequency", HZ, "-o"]).arg(&unknown)).exits(0);
    let fit = |size| run(bootscope("show").args(["--fit", size]).arg(&unknown).args(&two));
    fit("cpus").refuses(&["unknown", "--cpus N"]);
    fit("memory").refuses(&["unknown", "--memory SIZE"]);
}
