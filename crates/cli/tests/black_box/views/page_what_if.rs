//! A page replays its boots itself: its answers equal those of `bootscope what-if`, to the nanosecond, for all kept
//! recordings. The same code runs in the page as WebAssembly; `page/test/browser/recordings.test.mjs` tests that.

use crate::support::{bootscope, run};
use page_data::{Less, Parts, answer};
use serde_json::Value;
use std::path::{Path, PathBuf};

fn kept() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kept");
    let inside = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> = inside.filter(|path| path.extension().is_some_and(|e| e == "zst")).collect();
    found.sort();
    assert!(found.len() >= 10, "recordings are missing: {found:?}");
    found
}

/// The tables of a page's only boot.
fn parts(page: &Path) -> Parts {
    let mut parts = Parts::default();
    let page = std::fs::read_to_string(page).unwrap();
    report::page::read(&page).unwrap().into_iter().for_each(|table| parts.add(table));
    parts
}

#[test]
fn a_page_answers_as_the_command_does() {
    let folder = tempfile::tempdir().unwrap();
    let (mut asked, mut refused, mut ranges) = (0, 0, 0);
    for recording in kept() {
        let page = folder.path().join("page.html");
        run(bootscope("report").arg(&recording).arg("--force").arg("-o").arg(&page)).exits(0);
        let shown = run(bootscope("show").arg("--json").arg(&recording)).exits(0).json();
        let rows: Vec<&str> =
            shown["where"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
        let row = |i: usize, percent: u32| rows.get(i).map(|name| (*name, percent));
        let questions = [
            vec![row(0, 100)],
            vec![row(1, 35), row(0, 5)],
            vec![row(2, 100), row(1, 100), row(3, 50), row(0, 95)],
            (4..12).map(|i| row(i, 60)).collect(),
        ];
        for question in questions {
            let question: Vec<(&str, u32)> = question.into_iter().flatten().collect();
            if question.is_empty() {
                continue;
            }
            let mut command = bootscope("what-if");
            command.arg(&recording).arg("--json");
            for (name, percent) in &question {
                command.arg("--save").arg(format!("{name}=-{percent}%"));
            }
            let savings: Vec<Less> = question
                .iter()
                .map(|(name, percent)| Less {
                    row: report::harmless(name).into_owned(),
                    by: f64::from(*percent) / 100.0,
                })
                .collect();
            let timeline = parts(&page).timeline();
            let output = run(&mut command);
            if output.status != 0 {
                // Without a path or without waits, the page gives the same reason.
                let answered: Value = serde_json::from_str(&answer(&timeline.unwrap(), &savings)).unwrap();
                let wrong = answered["wrong"].as_str().unwrap();
                assert!(output.stderr.contains(wrong), "{}: {wrong:?}, {}", recording.display(), output.stderr);
                refused += 1;
                continue;
            }
            let output = output.json();
            let answered: Value = serde_json::from_str(&answer(&timeline.unwrap(), &savings)).unwrap();
            // Names are escaped in the page, and the escaped names order rows of equal length.
            let wheres = |of: &Value| -> Vec<(i64, String)> {
                let row = |r: &Value| {
                    (r["self_ns"].as_i64().unwrap(), report::harmless(r["name"].as_str().unwrap()).into_owned())
                };
                let mut rows: Vec<_> = of["where"].as_array().unwrap().iter().map(row).collect();
                rows.sort();
                rows
            };
            assert_eq!(answered["wrong"], Value::Null, "{}", recording.display());
            let (left, wanted) = (wheres(&answered), wheres(&output));
            let other = left.iter().zip(&wanted).find(|(a, b)| a != b);
            assert!(other.is_none() && left.len() == wanted.len(), "{} {question:?} {other:?}", recording.display());
            let steps = answered["steps"].as_array().unwrap();
            assert_eq!(steps.len(), question.len());
            for (step, wanted) in steps.iter().zip(output["steps"].as_array().unwrap()) {
                for field in ["before_ns", "saved_ns", "saved_at_worst_ns", "saved_at_best_ns", "total_ns"] {
                    assert_eq!(step[field], wanted[field], "{} {question:?} {field}", recording.display());
                }
                ranges += usize::from(step["saved_at_worst_ns"].is_i64());
                asked += 1;
            }
        }
    }
    assert!(asked > 40 && ranges > 0, "{asked} steps, {ranges} of them with a range, {refused} questions refused");
    println!("{asked} steps, {ranges} of them with a range, {refused} questions refused");
}
