//! `bootscope history`: past benches are listed and drawn, and changes of level are reported.

use crate::support::journals::Bench;
use crate::support::{bootscope, list, ns, run};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

fn history(db: &Path) -> Command {
    let mut command = bootscope("history");
    command.arg("--db").arg(db);
    command
}

/// Benches of `count` days, one each: 1 s, and from a given day on 1.2 s.
fn days(folder: &Path, count: u32, slower_from: u32) -> Vec<PathBuf> {
    let one = |day: u32| {
        let (ms, kernel) = if day < slower_from { (1000.0, "aaaaaaaaaa") } else { (1200.0, "bbbbbbbbbb") };
        // Noise of a few per mille in no regular order.
        let rounds: Vec<Vec<Option<f64>>> =
            (0..7).map(|r| vec![Some(ms + f64::from((day * 7 + r) * 37 % 11))]).collect();
        let created = format!("2026-{:02}-{:02}T08:30:00Z", 1 + day / 28, 1 + day % 28);
        let bench = Bench { created: &created, kernels: &[kernel], rounds: &rounds };
        bench.write(&folder.join(format!("bench-{day}")))
    };
    (0..count).map(one).collect()
}

#[test]
fn a_change_is_reported_with_its_first_bench() {
    let folder = TempDir::new().unwrap();
    let db = folder.path().join("history.db");
    let mut benches = days(folder.path(), 30, 17);
    // They are added in any order and listed by their times.
    benches.reverse();
    let added = run(history(&db).arg("--json").arg("--add").args(&benches)).exits(0).json();
    assert!(list(&added["added"]).iter().all(|bench| bench["new"] == true));

    let document = run(history(&db).arg("--json")).exits(0).json();
    assert_eq!(document["schema"], "bootscope.history/1");
    assert_eq!((list(&document["entries"]).len(), ns(&document["entries_in_all"])), (30, 30));
    let [change] = list(&document["changes"]) else { panic!("{}", document["changes"]) };
    assert_eq!(change["created"], "2026-01-18T08:30:00Z", "{change}");
    let ratio = change["after_ns"].as_f64().unwrap() / change["before_ns"].as_f64().unwrap();
    assert!((ratio - 1.2).abs() < 0.01, "{change}");

    let output = run(&mut history(&db)).exits(0);
    let text = output.text();
    assert!(text.contains("from bench") && text.contains("2026-01-18 08:30") && text.contains("+19."), "{text}");
    assert!(text.contains("10 older") && text.contains('▲') && text.contains('•'), "{text}");

    let again = run(history(&db).arg("--json").arg("--add").args(&benches)).exits(0).json();
    assert!(list(&again["added"]).iter().all(|bench| bench["new"] == false), "{again}");
    let kernel = run(history(&db).args(["--json", "--kernel", "bbbb"])).exits(0).json();
    assert_eq!(kernel["entries_in_all"], 13);
    let bench = kernel["entries"][0]["bench"].to_string();
    let whole = run(history(&db).args(["--bench", &bench])).exits(0).json();
    assert_eq!(
        (&whole["schema"], list(&whole["boots"]).len()),
        (&"bootscope.bench/1".into(), 7),
        "raw samples are kept"
    );
}

#[test]
fn programs_that_add_at_once_lose_nothing() {
    let folder = TempDir::new().unwrap();
    let db = folder.path().join("new/history.db");
    let benches = days(folder.path(), 12, 99);
    let start = |bench: &PathBuf| history(&db).arg("--quiet").arg("--add").arg(bench).spawn().unwrap();
    let running: Vec<_> = benches.iter().map(start).collect();
    for mut one in running {
        assert!(one.wait().unwrap().success());
    }
    assert_eq!(run(history(&db).arg("--json")).exits(0).json()["entries_in_all"], 12);
}

#[test]
fn other_files_are_refused_as_history_or_bench() {
    let folder = TempDir::new().unwrap();
    let db = folder.path().join("history.db");
    run(&mut history(&db)).refuses(&["no history", "bootscope bench", "--db"]);
    assert!(!db.exists(), "looking makes none");
    std::fs::write(&db, "x".repeat(200)).unwrap();
    run(&mut history(&db)).refuses(&["history.db", "no database"]);
    std::fs::remove_file(&db).unwrap();
    let good = &days(folder.path(), 1, 99)[0];
    let bad = folder.path().join("bad.json");
    std::fs::write(&bad, "{\"schema\":\"bootscope.show/1\"}").unwrap();
    run(history(&db).arg("--add").arg(good).arg(&bad)).refuses(&["bad.json"]);
    assert!(!db.exists(), "one that is no bench changes nothing");
    run(history(&db).arg("--add").arg(good)).exits(0);
    run(history(&db).args(["--kernel", "zzz"])).refuses(&["no such bench", "--kernel"]);
    run(history(&db).args(["--bench", "77"])).refuses(&["no bench 77"]);
    let home = folder.path().join("home");
    let mut by_default = bootscope("history");
    run(by_default.env("XDG_DATA_HOME", &home).arg("--add").arg(good)).exits(0);
    assert!(home.join("bootscope/history.db").is_file());
}
