//! A history of a hundred thousand benches, listed and drawn, and simulated searches for a slow commit.

use crate::BOOTSCOPE;
use crate::table::{MS, PERCENT, Promise, RATIO, Table, last_line};
use benchmark::{Boot, Document, Ended, Head, History, Measured, Plan, Stop, Variant};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// The number of benches.
const BENCHES: u32 = 100_000;
/// The number of benches added in one transaction.
const TOGETHER: u32 = 2_000;
/// The number of times that the list is timed.
const TIMES: usize = 5;
/// The number of simulated searches.
const SEARCHES: u32 = 300;

/// Adds both figures.
pub fn measure(work: &Path, table: &mut Table) {
    let figure = "history of 100 000 benches, list and plot";
    match listed(work) {
        Ok(ms) => table.add(figure, ms, MS, Promise::AtMost(200.0), ""),
        Err(why) => table.fail(figure, &why),
    }
    match searched() {
        Ok((right, builds)) => {
            table.add("slow commit of 1000 found, 3 % in 2 % noise", right, PERCENT, Promise::AtLeast(95.0), "");
            table.add("builds for that, at most", builds, RATIO, Promise::AtMost(25.0), "");
        }
        Err(why) => table.fail("slow commit of 1000 found", &why),
    }
}

fn listed(work: &Path) -> Result<f64, String> {
    let folder = work.join("history");
    let _ = std::fs::remove_dir_all(&folder);
    let db = folder.join("history.db");
    let mut history = History::open(&db).map_err(|e| e.to_string())?;
    for from in (0..BENCHES).step_by(TOGETHER as usize) {
        let documents: Vec<Document> = (from..from + TOGETHER).map(document).collect();
        history.add_all(&documents).map_err(|e| e.to_string())?;
    }
    drop(history);
    let mut times = Vec::new();
    for _ in 0..TIMES {
        let began = Instant::now();
        let status = Command::new(BOOTSCOPE).args(["history", "--db"]).arg(&db).stdout(Stdio::null()).status();
        if !status.is_ok_and(|status| status.success()) {
            return Err("bootscope history failed".to_owned());
        }
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    let _ = std::fs::remove_dir_all(&folder);
    times.sort_by(f64::total_cmp);
    Ok(times[TIMES / 2])
}

/// A bench of five boots. The second half of the benches is a tenth slower.
fn document(number: u32) -> Document {
    let stop = Stop { rounds: 5, ..Stop::default() };
    let plan = Plan { variants: 1, warm_ups: 0, stop, seed: number.into(), ..Plan::default() };
    let how = serde_json::json!({"append": "quiet", "cpus": 1, "memory_bytes": 512 << 20, "machine": "pc"});
    let mut head = Head::of(plan, vec![Variant { how, ..Variant::named("quiet") }]);
    let (day, minute) = (number / 1440, number % 1440);
    head.created = format!(
        "20{:02}-{:02}-{:02}T{:02}:{:02}:00Z",
        day / 336,
        1 + day / 28 % 12,
        1 + day % 28,
        minute / 60,
        minute % 60
    );
    let level = if number < BENCHES / 2 { 1_000_000_000 } else { 1_100_000_000 };
    let boot = |i: u32| {
        let total_ns =
            Some(level + i64::from(number.wrapping_mul(2_654_435_761).wrapping_add(i * 40_503) % 20_000_000));
        let measured = Measured { outcome: "reached".to_owned(), total_ns, ..Measured::default() };
        Boot { number: i, round: Some(i), variant: 0, began_ns: 0, measured }
    };
    Document::new(head, (0..5).map(boot).collect(), Some(Ended::Rounds))
}

/// The number of correct searches in 100, and the most builds of one search.
fn searched() -> Result<(f64, f64), String> {
    let output = Command::new(env!("CARGO"))
        .args(["test", "--release", "--locked", "-p", "benchmark", "--lib", "--", "--nocapture"])
        .arg("range::search::tests::one_slow_commit_of_a_thousand")
        .env("BOOTSCOPE_SIMULATIONS", SEARCHES.to_string())
        .output()
        .map_err(|e| format!("cargo: {e}"))?;
    let output_text = String::from_utf8_lossy(&output.stdout);
    // `295 of 300 right, 0.985 expected; at most 16 builds, 372 boots`
    let line = output_text.lines().find(|line| line.contains(" right, ")).ok_or_else(|| last_line(&output.stderr))?;
    let number = |before: &str| line.split(before).next()?.rsplit(' ').next()?.parse::<f64>().ok();
    match (number(" of "), number(" builds")) {
        (Some(right), Some(builds)) => Ok((100.0 * right / f64::from(SEARCHES), builds)),
        _ => Err(format!("the simulation says no figures: {line}")),
    }
}
