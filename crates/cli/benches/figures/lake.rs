//! A lake of a million synthetic boots: its size, the time of queries, and how many planted regressions they find. Also
//! the recordings per second that `lake add` adds.
//!
//! Queries need `bootscope-lake` (`make lake`). The comparisons with DuckDB and with executors of Ballista need the
//! programs of its tests.

use crate::BOOTSCOPE;
use crate::table::{PERCENT, Promise, RATIO, SECONDS, Table, Unit, last_line};
use serde_json::Value;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const GB: Unit = Unit { name: "GB", digits: 2 };
const PER_SECOND: Unit = Unit { name: "a second", digits: 0 };
/// The boots of the large lake. Another lake has a tenth of that.
const BOOTS: u64 = 1_000_000;
/// The number of copies of a recording that are added.
const COPIES: usize = 400;
/// The number of times that a query is timed.
const TIMES: usize = 3;
const P95: &str = "select kernel, approx_percentile_cont(total_ns, 0.95) from boots group by 1";

/// Adds all figures.
pub fn measure(kernel: Result<&Path, &String>, work: &Path, table: &mut Table) {
    let work = work.join("lake");
    let _ = std::fs::remove_dir_all(&work);
    if let Err(why) = std::fs::create_dir_all(&work) {
        return table.fail("lake", &why.to_string());
    }
    added(kernel, &work, table);
    let queries = queries(&work, table);
    if let Err(why) = queries {
        table.fail("questions to a lake of 10⁶ boots", &why);
    }
    let _ = std::fs::remove_dir_all(&work);
}

/// Adds the recordings per second for boots of a stock kernel as `record` keeps them, with and without their trace.
fn added(kernel: Result<&Path, &String>, work: &Path, table: &mut Table) {
    for (name, more, promise) in [
        ("lake add, boots without a trace", &["--trace", "none"], Promise::AtLeast(200.0)),
        ("lake add, traced boots", &["--trace", "events"], Promise::AtLeast(200.0)),
    ] {
        let kernel = match kernel {
            Ok(kernel) => kernel,
            Err(why) => {
                table.skip(name, why);
                continue;
            }
        };
        match rate(kernel, more, &work.join(name)) {
            Ok(rate) => table.add(name, rate, PER_SECOND, promise, ""),
            Err(why) => table.fail(name, &why),
        }
    }
}

fn rate(kernel: &Path, more: &[&str], work: &Path) -> Result<f64, String> {
    let one = work.join("one");
    let record = Command::new(BOOTSCOPE)
        .args(["record", "--quiet", "--append", "quiet", "--kernel"])
        .arg(kernel)
        .args(more)
        .arg("-o")
        .arg(&one)
        .output();
    let record = record.map_err(|e| e.to_string())?;
    if !record.status.success() {
        return Err(last_line(&record.stderr));
    }
    // Copies with other times count as other boots.
    let manifest = std::fs::read_to_string(one.join("recording.json")).map_err(|e| e.to_string())?;
    let created = serde_json::from_str::<Value>(&manifest).ok().and_then(|v| Some(v["created"].as_str()?.to_owned()));
    let created = created.ok_or("the recording has no time")?;
    for i in 0..COPIES {
        let copy = work.join(format!("copies/{i}"));
        std::fs::create_dir_all(&copy).map_err(|e| e.to_string())?;
        for file in std::fs::read_dir(&one).map_err(|e| e.to_string())?.flatten() {
            std::fs::copy(file.path(), copy.join(file.file_name())).map_err(|e| e.to_string())?;
        }
        let other = format!("2026-01-{:02}T00:{:02}:{:02}Z", 1 + i / 3600, i / 60 % 60, i % 60);
        std::fs::write(copy.join("recording.json"), manifest.replace(&created, &other)).map_err(|e| e.to_string())?;
    }
    let copies: Vec<PathBuf> = (0..COPIES).map(|i| work.join(format!("copies/{i}"))).collect();
    let began = Instant::now();
    let add =
        Command::new(BOOTSCOPE).args(["lake", "add", "--json", "--to"]).arg(work.join("lake")).args(&copies).output();
    let took = began.elapsed().as_secs_f64();
    let document: Value = serde_json::from_slice(&add.map_err(|e| e.to_string())?.stdout).map_err(|e| e.to_string())?;
    match document["new"].as_u64() {
        Some(new) if new == COPIES as u64 => Ok(COPIES as f64 / took),
        new => Err(format!("{new:?} of {COPIES} were added")),
    }
}

fn queries(work: &Path, table: &mut Table) -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let lake = work.join("synthetic");
    make(&root, &lake, BOOTS)?;
    table.add("lake of 10⁶ boots, 300 rows each", gigabytes(&lake)?, GB, Promise::AtMost(3.0), "");
    let engine = root.join("target/lake-engine/release/bootscope-lake");
    if !engine.is_file() {
        table.skip("questions to a lake of 10⁶ boots", "no bootscope-lake: run `make lake`");
        return Ok(());
    }
    let ask = |lake: &Path, args: &[&str]| timed(Command::new(&engine).arg(args[0]).arg(lake).args(&args[1..]));
    let (p95, _) = repeated(|| ask(&lake, &["sql", P95]))?;
    table.add("p95 by kernel over 10⁶ boots", p95, SECONDS, Promise::AtMost(1.0), "");
    let (regressions, rss) = repeated(|| ask(&lake, &["ask", "regressions", "--json"]))?;
    table.add("regressions over 10⁶ boots", regressions, SECONDS, Promise::AtMost(60.0), "");
    table.add("its memory", rss, GB, Promise::AtMost(4.0), "");
    let (right, wrong) = judged(&engine, &lake)?;
    table.add("regressions of 5 % that were found", right, PERCENT, Promise::AtLeast(95.0), "40 planted");
    table.add("found that were not planted", wrong, PERCENT, Promise::AtMost(5.0), "");
    let small = work.join("tenth");
    make(&root, &small, BOOTS / 10)?;
    let (of_small, _) = repeated(|| ask(&small, &["ask", "regressions", "--json"]))?;
    table.add("regressions, 10⁶ ÷ 10⁵ boots", regressions / of_small, RATIO, Promise::AtMost(10.0), "linear is 10");
    others(&root, &lake, p95, table);
    Ok(())
}

/// The same queries in DuckDB, and with executors of Ballista.
fn others(root: &Path, lake: &Path, p95: f64, table: &mut Table) {
    let figures = ["p95 by kernel ÷ DuckDB's", "sums of all rows ÷ DuckDB's", "one executor ÷ two"];
    let python = root.join("target/tools/python/bin/python");
    let programs = root.join("target/lake-engine/release");
    let script = root.join("lake-engine/tests/engines.py");
    if !python.is_file() {
        return figures.iter().for_each(|figure| table.skip(figure, "no DuckDB: run `scripts/setup lake`"));
    }
    let found = crate::json_document(Command::new(python).arg(script).arg(programs).arg("speed").arg(lake));
    let found = match found {
        Ok(found) => found,
        Err(why) => return figures.iter().for_each(|figure| table.fail(figure, &why)),
    };
    let ratio = |a: f64, b: &str| a / found[b].as_f64().unwrap_or(f64::NAN);
    let seconds = |name: &str| found[name].as_f64().unwrap_or(f64::NAN);
    table.add(figures[0], ratio(p95, "duckdb_p95_s"), RATIO, Promise::AtMost(2.0), "each with its program's start");
    table.add(figures[1], ratio(seconds("sums_s"), "duckdb_sums_s"), RATIO, Promise::AtMost(2.0), "");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let aside = format!("on {cores} CPUs");
    table.add(figures[2], ratio(seconds("one_executor_s"), "two_executors_s"), RATIO, Promise::AtLeast(1.6), &aside);
}

fn make(root: &Path, lake: &Path, boots: u64) -> Result<(), String> {
    let cargo = Command::new(env!("CARGO"))
        .current_dir(root)
        .args(["run", "--release", "--locked", "--quiet", "-p", "synthetic-fleet", "--", "--boots"])
        .arg(boots.to_string())
        .arg("--to")
        .arg(lake)
        .output()
        .map_err(|e| format!("cargo: {e}"))?;
    if cargo.status.success() { Ok(()) } else { Err(last_line(&cargo.stderr)) }
}

fn gigabytes(folder: &Path) -> Result<f64, String> {
    let mut bytes = 0;
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).map_err(|e| e.to_string())?.flatten() {
            let meta = entry.metadata().map_err(|e| e.to_string())?;
            if meta.is_dir() { open.push(entry.path()) } else { bytes += meta.len() }
        }
    }
    Ok(bytes as f64 / 1e9)
}

/// The time in seconds, and the peak memory in GB, polled from the kernel until the process ends.
fn timed(command: &mut Command) -> Result<(f64, f64), String> {
    let began = Instant::now();
    let mut child = command.stdout(Stdio::null()).spawn().map_err(|e| e.to_string())?;
    let status = format!("/proc/{}/status", child.id());
    let mut most_kb = 0.0;
    loop {
        let output_text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = output_text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kb = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<f64>().ok());
        most_kb = kb.unwrap_or(most_kb).max(most_kb);
        match child.try_wait().map_err(|e| e.to_string())? {
            // Exit status 1 means that regressions were found.
            Some(status) if status.code().is_some_and(|code| code < 2) => break,
            Some(status) => return Err(format!("{command:?} ended with {status}")),
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    }
    Ok((began.elapsed().as_secs_f64(), most_kb * 1024.0 / 1e9))
}

/// The median time of several runs, and the most memory.
fn repeated(mut run: impl FnMut() -> Result<(f64, f64), String>) -> Result<(f64, f64), String> {
    let mut all = (0..TIMES).map(|_| run()).collect::<Result<Vec<_>, _>>()?;
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let most = all.iter().map(|run| run.1).fold(0.0, f64::max);
    Ok((all[TIMES / 2].0, most))
}

/// The share of planted regressions that are found, and the share of found ones that were not planted, in percent.
fn judged(engine: &Path, lake: &Path) -> Result<(f64, f64), String> {
    let out = Command::new(engine).arg("ask").arg(lake).args(["regressions", "--json"]).output();
    let found: Value = serde_json::from_slice(&out.map_err(|e| e.to_string())?.stdout).map_err(|e| e.to_string())?;
    let mut truth = lake.as_os_str().to_owned();
    truth.push(".truth.json");
    let truth = std::fs::read(truth).map_err(|e| e.to_string())?;
    let truth: Value = serde_json::from_slice(&truth).map_err(|e| e.to_string())?;
    let set = |rows: &Value| -> HashSet<String> {
        let rows = rows.as_array().into_iter().flatten().filter(|row| !row["name"].is_null());
        rows.map(|row| format!("{} {} {}", row["hardware"], row["name"], row["kernel"])).collect()
    };
    let (found, planted) = (set(&found["rows"]), set(&truth["planted"]));
    let right = found.intersection(&planted).count() as f64;
    let share = |part: f64, of: usize| 100.0 * part / (of as f64).max(1.0);
    Ok((share(right, planted.len()), share(found.len() as f64 - right, found.len())))
}
