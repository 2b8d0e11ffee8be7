//! Checks that this crate computes the same statistics as hyperfine for runs that hyperfine timed. `data/README.md` describes
//! the files.

use serde::Deserialize;
use statistics::describe::{Description, describe};

#[derive(Deserialize)]
struct Export {
    results: Vec<Exported>,
}

#[derive(Deserialize)]
struct Exported {
    mean: f64,
    stddev: f64,
    median: f64,
    min: f64,
    max: f64,
    times: Vec<f64>,
}

#[track_caller]
fn check(name: &str, runs: usize, outliers: &[usize]) -> Description {
    let path = format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
    let export: Export = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let theirs = &export.results[0];
    let ours = describe(&theirs.times).unwrap();
    assert_eq!(ours.count, runs);
    // hyperfine computes from times with more digits than it exports.
    let same = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;
    assert!(same(ours.mean, theirs.mean), "{} {}", ours.mean, theirs.mean);
    assert!(same(ours.sd.unwrap(), theirs.stddev), "{:?} {}", ours.sd, theirs.stddev);
    assert!(same(ours.median.estimate, theirs.median), "{:?} {}", ours.median, theirs.median);
    assert_eq!((ours.min, ours.max), (theirs.min, theirs.max));
    assert_eq!(ours.outliers, outliers);
    ours
}

#[test]
fn steady_runs_without_a_warning() {
    check("hyperfine-steady.json", 21, &[]);
    check("hyperfine-two-runs.json", 2, &[]);
}

#[test]
fn outliers_of_a_hyperfine_warning() {
    let ours = check("hyperfine-outliers.json", 24, &[10, 21]);
    assert!(ours.modes.is_none(), "two runs are no mode");
    assert!(ours.median.high < 0.035, "and the median does not follow them");
}

#[test]
fn a_slow_first_run_of_a_hyperfine_warning() {
    // If the first run is an outlier, hyperfine warns of that alone.
    check("hyperfine-slow-first.json", 9, &[0, 3, 4]);
}
