//! Recordings, packs and benches of bootscope 0.1 are read with the figures that 0.1 printed, and its histories are
//! continued.
//!
//! `tests/upgraded/` has files from two versions of 0.1, and the output of those versions for them. Its README
//! describes how they were made.

use crate::support::{bootscope, imported, lab, list, ns, rows, run, shown};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The unpacked files from a version of 0.1, and its output for them.
struct Old {
    folder: TempDir,
    expected: Value,
    layout: usize,
}

/// One version for each earlier layout of the history.
fn all() -> Vec<Old> {
    [1, 2].map(Old::unpacked).into()
}

impl Old {
    fn unpacked(layout: usize) -> Old {
        let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/upgraded/layout-{layout}"));
        let read = |kind: &str| fs::read(kept.with_extension(kind)).unwrap_or_else(|e| panic!("{layout}.{kind}: {e}"));
        let folder = TempDir::new().unwrap();
        let archive = zstd::decode_all(&read("tar.zst")[..]).unwrap();
        tar::Archive::new(&archive[..]).unpack(folder.path()).unwrap();
        Old { folder, expected: serde_json::from_slice(&read("json")).unwrap(), layout }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn history(&self) -> Command {
        let mut command = bootscope("history");
        command.arg("--db").arg(self.path("history.db"));
        command
    }
}

/// Checks two figures, with a tolerance for another order of summation.
fn assert_close(actual: &Value, expected: &Value, what: &str) {
    let (Some(actual), Some(expected)) = (actual.as_f64(), expected.as_f64()) else {
        assert_eq!(actual, expected, "{what}");
        return;
    };
    assert!((actual - expected).abs() <= 1e-9 * expected.abs(), "{what}: {actual}, 0.1 said {expected}");
}

#[test]
fn recordings_are_shown_with_the_figures_that_0_1_printed() {
    for old in all() {
        for (recording, expected) in [("lab.tar.zst", "lab"), ("lab-lazy", "lab-lazy"), ("linux", "linux")] {
            let (document, expected) = (shown(&old.path(recording)), &old.expected[expected]);
            let what = format!("layout {}, {recording}", old.layout);
            assert_eq!(document["outcome"], "reached", "{what}");
            assert_eq!(document["total_ns"], expected["total_ns"], "{what}");
            let length = |phase: &Value| json!([phase["name"], ns(&phase["end_ns"]) - ns(&phase["start_ns"])]);
            let phases: Vec<Value> = list(&document["phases"]).iter().map(length).collect();
            assert_eq!(&Value::from(phases), &expected["phases"], "{what}");
            for (name, self_ns) in expected["rows"].as_object().into_iter().flatten() {
                let actual = rows(&document["where"], "name", name);
                assert!(actual.iter().any(|row| &row["self_ns"] == self_ns), "{what}: {name} {self_ns}: {actual:?}");
            }
        }
    }
}

#[test]
fn other_commands_take_old_recordings() {
    for old in all() {
        let (lab, lazy, linux) = (old.path("lab.tar.zst"), old.path("lab-lazy"), old.path("linux"));
        let diff = run(bootscope("diff").arg("--json").arg(&lab).arg(&lazy)).exits(0).json();
        let expected = &old.expected["diff"];
        assert_eq!(
            (&diff["before"]["total_ns"], &diff["after"]["total_ns"]),
            (&expected["before_ns"], &expected["after_ns"])
        );
        assert_eq!(list(&diff["how_differs"]).len(), 1, "the command line: {}", diff["how_differs"]);

        // The self-tests of Linux' algorithms run in a thread of their own, and the boot waits for it.
        let actual = run(bootscope("findings").arg("--json").arg(&linux)).exits(0).json();
        let tests = rows(&actual["findings"], "id", "self-tests");
        let [tests] = &tests[..] else { panic!("layout {}: {}", old.layout, actual["findings"]) };
        let thread = ns(&old.expected["linux"]["rows"]["thread cryptomgr_test"]);
        let cost = ns(&tests["cost_ns"]);
        assert!((cost - thread).abs() <= thread / 20, "{cost} ns, and the thread took {thread} ns");

        let packed = old.path("again.tar.zst");
        run(bootscope("pack").arg(&lazy).arg("-o").arg(&packed)).exits(0);
        assert_eq!(shown(&packed)["total_ns"], old.expected["lab-lazy"]["total_ns"]);
        let page = old.path("page.html");
        run(bootscope("report").arg(&lab).arg(&linux).arg("-o").arg(&page)).exits(0);
        assert!(fs::metadata(&page).unwrap().len() > 10_000);
        let saved = run(bootscope("what-if").arg("--json").arg(&linux).args(["--save", "thread cryptomgr_test"]));
        let saved = saved.exits(0).json();
        assert_eq!(saved["total_ns"], old.expected["linux"]["total_ns"], "{saved}");
    }
}

#[test]
fn a_bench_is_shown_with_the_figures_that_0_1_printed() {
    for old in all() {
        let document = run(bootscope("show").arg("--json").arg(old.path("bench"))).exits(0).json();
        let (results, expected) = (&document["results"], &old.expected["bench"]);
        for (variant, median) in list(&results["variants"]).iter().zip(list(&expected["medians_ns"])) {
            for of in ["estimate", "low", "high", "confidence"] {
                assert_close(&variant["total"]["median"][of], &median[of], of);
            }
        }
        let total = &results["comparisons"][0]["total"];
        for (figure, of) in [("ratio", "estimate"), ("ratio", "low"), ("ratio", "high"), ("difference", "estimate")] {
            assert_close(&total[figure][of], &expected[figure][of], figure);
        }
        assert_close(&total["p"], &expected["p"], "p");
        assert_eq!(total["change"], "less");
    }
}

/// The old bench's journal as a bench of another day, with all times multiplied by `factor`.
fn bench_of_day(old: &Old, day: u32, factor: f64) -> PathBuf {
    let journal = fs::read_to_string(old.path("bench/bench.jsonl")).unwrap();
    let line = |line: &str| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        if line["created"].is_string() {
            line["created"] = format!("2026-12-{day:02}T08:00:00Z").into();
        }
        if let Some(total) = line["total_ns"].as_i64() {
            // Noise of a few ns: days that grow in order would be a trend, and not a change of level.
            line["total_ns"] = ((total as f64 * factor) as i64 + i64::from(day * 37 % 11)).into();
        }
        format!("{line}\n")
    };
    let folder = old.path(&format!("day-{day}"));
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("bench.jsonl"), journal.lines().map(line).collect::<String>()).unwrap();
    folder
}

#[test]
fn a_history_has_the_entries_that_0_1_listed_and_grows() {
    for old in all() {
        let before = run(old.history().arg("--json")).exits(0).json();
        let (actual, expected) = (list(&before["entries"]), list(&old.expected["history"]));
        assert_eq!(actual.len(), expected.len());
        for (actual, expected) in actual.iter().zip(expected) {
            for (name, value) in expected.as_object().unwrap().iter().filter(|(name, _)| *name != "metrics") {
                assert_close(&actual[name], value, name);
            }
            for (name, metric) in expected["metrics"].as_object().into_iter().flatten() {
                assert_close(&actual["metrics"][name]["median"], &metric["median"], name);
            }
            // A layout without metrics gets them: those of its boots, and those computed from them.
            let metrics = &actual["metrics"];
            assert!(["vmm_max_rss", "guest_used"].iter().all(|name| metrics[*name]["median"].is_number()), "{actual}");
        }
        let whole = run(old.history().args(["--json", "--bench", "1"])).exits(0).json();
        assert_eq!(list(&whole["boots"]).len(), 10, "raw samples are kept");

        // Existing benches are not added twice, and new ones continue the old series.
        let again = run(old.history().arg("--json").arg("--add").arg(old.path("bench"))).exits(0).json();
        assert_eq!(again["added"][0]["new"], false, "{again}");
        let days: Vec<PathBuf> = (1..=12).map(|day| bench_of_day(&old, day, if day < 7 { 1.0 } else { 1.2 })).collect();
        run(old.history().arg("--add").args(&days)).exits(0);
        let after = run(old.history().args(["--json", "--setup", "1"])).exits(0).json();
        assert!(list(&after["entries"]).len() >= 2 + 12, "{after}");
        let changes = list(&after["changes"]);
        assert!(changes.iter().any(|change| change["created"] == "2026-12-07T08:00:00Z"), "{changes:?}");
    }
}

#[test]
fn a_history_that_may_not_be_written_is_read() {
    for old in all() {
        let folder = old.path("locked");
        fs::create_dir(&folder).unwrap();
        fs::copy(old.path("history.db"), folder.join("history.db")).unwrap();
        let bytes = fs::read(folder.join("history.db")).unwrap();
        let mut mode = fs::metadata(folder.join("history.db")).unwrap().permissions();
        mode.set_readonly(true);
        fs::set_permissions(folder.join("history.db"), mode.clone()).unwrap();
        fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o555)).unwrap();
        let read = run(bootscope("history").arg("--json").arg("--db").arg(folder.join("history.db"))).exits(0).json();
        fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let medians = |of: &Value| list(of).iter().map(|entry| entry["median_ns"].clone()).collect::<Vec<Value>>();
        assert_eq!(medians(&read["entries"]), medians(&old.expected["history"]));
        if fs::metadata("/proc/self").unwrap().uid() == 0 {
            crate::support::skip("root may write a history that nobody else may: that its bytes stay is not looked at");
        } else {
            assert_eq!(fs::read(folder.join("history.db")).unwrap(), bytes, "reading changes nothing");
        }
    }
}

#[test]
fn a_bench_that_is_booted_today_is_added_to_a_history_of_0_1() {
    if !lab::built() {
        return;
    }
    for old in all() {
        let mut bench = bootscope("bench");
        bench.args(["--quiet", "--lab", "--accel", "tcg", "--runs", "1", "-o"]).arg(old.path("new"));
        run(bench.arg("--db").arg(old.path("history.db"))).exits(0);
        let after = run(old.history().arg("--json")).exits(0).json();
        assert_eq!(list(&after["entries"]).len(), list(&old.expected["history"]).len() + 1);
        let newest = list(&after["entries"]).last().unwrap().clone();
        assert!(newest["median_ns"].as_f64().unwrap() > 0.0, "{newest}");
        // The recorder still accepts the old options and can repeat that boot.
        let mut like = bootscope("record");
        let kernel = PathBuf::from(std::env::var_os("BOOTSCOPE_LIB").unwrap()).join("lab");
        like.arg("--like").arg(old.path("lab-lazy")).arg("--kernel").arg(kernel).arg("-o").arg(old.path("like"));
        run(&mut like).exits(0);
        let how = |recording: &str| -> Value {
            let manifest = fs::read(old.path(recording).join("recording.json")).unwrap();
            serde_json::from_slice::<Value>(&manifest).unwrap()["how"].clone()
        };
        for option in ["append", "cpus", "memory_bytes", "deterministic"] {
            assert_eq!(how("like")[option], how("lab-lazy")[option], "{option}");
        }
    }
}

#[test]
fn files_of_a_later_bootscope_are_refused_with_advice() {
    let folder = TempDir::new().unwrap();
    let old = Old::unpacked(2);
    let replace = |file: &Path, one: &str, other: &str| {
        let text = fs::read_to_string(file).unwrap();
        assert!(text.contains(one), "{}", file.display());
        fs::write(file, text.replacen(one, other, 1)).unwrap();
    };
    let recording = imported(&crate::support::fixture("log/linux-6.1-serial.log"), &folder.path().join("later"));
    replace(&recording.join("recording.json"), "bootscope.recording/1", "bootscope.recording/2");
    for command in ["show", "findings", "pack", "report", "try"] {
        run(bootscope(command).arg(&recording)).refuses(&["bootscope.recording/2", "use a newer bootscope"]);
    }
    run(bootscope("diff").arg(&recording).arg(old.path("linux"))).refuses(&["use a newer bootscope"]);
    run(bootscope("record").arg("--like").arg(&recording).arg("-o").arg(folder.path().join("b")))
        .refuses(&["use a newer bootscope"]);

    let (bench, document) = (old.path("bench"), folder.path().join("bench.json"));
    run(bootscope("export").arg(&bench).args(["--to", "json", "-o"]).arg(&document)).exits(0);
    replace(&bench.join("bench.jsonl"), "bootscope.bench/1", "bootscope.bench/2");
    replace(&document, "bootscope.bench/1", "bootscope.bench/2");
    // No other field of a later document need be known.
    let unknown = folder.path().join("unknown.json");
    fs::write(&unknown, r#"{"schema":"bootscope.bench/10","runs":[]}"#).unwrap();
    let words = ["bootscope.bench/", "reads up to bootscope.bench/1", "use a newer bootscope"];
    for command in ["show", "report"] {
        run(bootscope(command).arg(&bench)).refuses(&words);
    }
    run(bootscope("bench").arg("--continue").arg(&bench)).refuses(&words);
    for file in [&bench, &document, &unknown] {
        run(old.history().arg("--add").arg(file)).refuses(&words);
    }

    // SQLite keeps `user_version` at byte 60 of the file, big-endian (<https://www.sqlite.org/fileformat.html>).
    let mut history = fs::read(old.path("history.db")).unwrap();
    history[60..64].copy_from_slice(&99_u32.to_be_bytes());
    fs::write(old.path("history.db"), &history).unwrap();
    let words = ["later bootscope (layout 99", "use that one"];
    run(&mut old.history()).refuses(&words);
    run(old.history().arg("--add").arg(bench_of_day(&Old::unpacked(1), 1, 1.0))).refuses(&words);
    assert_eq!(fs::read(old.path("history.db")).unwrap(), history, "nothing was changed");
}
