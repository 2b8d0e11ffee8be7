//! Budgets as a report for KCIDB, the database of kernel CI systems (kcidb-io, schema 5.3): a test for each budget, and one
//! for each set of boots. The tests are of a build that the CI system has reported.

use super::{Check, failed, sentence};
use benchmark::budgets::{Checked, Kind, Status, Undecided};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use timeline::Unit;

/// Length of an excerpt that the schema allows.
const MAX_EXCERPT: usize = 16_384;

impl Check {
    /// The report for a build, `ORIGIN:ID`. `now` is the time of the check, in RFC 3339.
    pub fn kcidb(&self, build: &str, now: &str) -> Value {
        let origin = build.split(':').next().unwrap_or_default();
        let test = |path: &[&str], of: &str, status: &str, comment: String| {
            let path: Vec<String> = path.iter().map(|part| word(part)).collect();
            let path = format!("boot.{}", path.join("."));
            // The same check of the same build at the same time is one test.
            let id = Sha256::digest(format!("{build}\0{now}\0{path}\0{of}\0{comment}"));
            let id: String = id[..16].iter().map(|byte| format!("{byte:02x}")).collect();
            let comment: String = comment.replace('\0', " ").chars().take(MAX_EXCERPT).collect();
            json!({
                "id": format!("{origin}:bootscope-{id}"),
                "origin": origin,
                "build_id": build,
                "path": path,
                "status": status,
                "start_time": now,
                "comment": comment,
                "misc": { "of": of },
            })
        };
        let boots = self.boots.iter().map(|boots| match (boots.failed, boots.reached) {
            (0, 0) => test(&["reaches-end"], &boots.of, "MISS", "there is no boot".to_owned()),
            (0, n) => test(&["reaches-end"], &boots.of, "PASS", format!("{n} boots reached the end mark")),
            _ => test(&["reaches-end"], &boots.of, "FAIL", failed(boots)),
        });
        let budgets = self.budgets.iter().map(|c| {
            let kind = serde_json::to_value(c.what.kind).ok();
            let kind = kind.as_ref().and_then(Value::as_str).unwrap_or_default();
            let mut test = test(&[kind, &c.what.name, &c.limit], &c.of, status(c), sentence(c));
            if let Some(median) = c.median {
                test["number"] = number(c, median.estimate);
            }
            test
        });
        let tests: Vec<Value> = boots.chain(budgets).collect();
        json!({ "version": { "major": 5, "minor": 3 }, "tests": tests })
    }
}

fn status(c: &Checked) -> &'static str {
    match (c.status, c.undecided) {
        (Status::Within, _) => "PASS",
        (Status::Over, _) => "FAIL",
        (Status::CannotTell, Some(why)) if !Undecided::is_measured(why) => "MISS",
        (Status::CannotTell, _) => "DONE",
    }
}

fn number(c: &Checked, value: f64) -> Value {
    match (c.what.kind, Unit::named(&c.unit)) {
        (Kind::Memory, _) => json!({ "value": value, "unit": "B", "prefix": "binary" }),
        (Kind::Instructions, _) | (_, Unit::Instructions) => {
            json!({ "value": value, "unit": "instructions", "prefix": "metric" })
        }
        _ => json!({ "value": value / 1e9, "unit": "s", "prefix": "metric" }),
    }
}

/// A part of a path: letters, digits, `_` and `-`.
fn word(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let word: String = text.chars().map(plain).collect();
    if word.is_empty() { "_".to_owned() } else { word }
}
