//! The overhead of a bench beside its boots, its estimate of a known change, and the error rates of its statistics.

use crate::BOOTSCOPE;
use crate::table::{PERCENT, Promise, RATIO, Table, Unit, last_line};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

const COST: &str = "bench ÷ its boots";
const BOOTS: u32 = 10;
const TOTAL: &str = "0.5 % more, found in the total by 5 + 5";
const ROW: &str = "0.05 % more, found in its row by 5 + 5";
const STOCK_TOTAL: &str = "0.5 % more in a stock kernel, found in the total by 5 + 5";
const STOCK_ROW: &str = "0.05 % more in a stock kernel, found in its row by 5 + 5";
const SIMULATED: &str = "statistics, simulated in full";
const SEARCHED: &str = "first slow commit of 1 000, 3 % under 2 % noise";
const SEARCHES: u32 = 1000;
const VERDICTS: Unit = Unit { name: "of 1", digits: 0 };

/// Adds all figures of this part.
pub fn measure(kernel: Result<&Path, &String>, work: &Path, table: &mut Table) {
    match kernel {
        Ok(kernel) => {
            cost(kernel, work, table);
            if let Err(why) = unpacked(kernel, work, table) {
                table.fail(STOCK_TOTAL, &why);
            }
        }
        Err(why) => [COST, STOCK_TOTAL, STOCK_ROW].iter().for_each(|figure| table.skip(figure, why)),
    }
    match lab() {
        Some(lab) => injected(&lab, work, table),
        None => [TOTAL, ROW].iter().for_each(|figure| table.skip(figure, "no lab kernel: make build")),
    }
}

/// Runs the full simulations, which take ten minutes.
pub fn simulate(table: &mut Table) {
    simulations(table);
    searches(table);
}

/// The wall-clock time of a whole bench, from its start to its exit, divided by that of its recordings.
fn cost(kernel: &Path, work: &Path, table: &mut Table) {
    let began = Instant::now();
    let runs = BOOTS.to_string();
    let flags = ["--append", "quiet no_timer_check", "--accel", "tcg", "--runs", &runs, "--warm-ups", "0"];
    match bench(kernel, &work.join("bench-cost"), &flags) {
        Ok(document) => {
            let whole = began.elapsed().as_secs_f64();
            let boots = document["boots"].as_array().map(Vec::as_slice).unwrap_or_default();
            let recorded: f64 = boots.iter().filter_map(|b| b["recorded_ns"].as_f64()).sum::<f64>() / 1e9;
            table.add(
                COST,
                whole / recorded,
                RATIO,
                Promise::AtMost(1.03),
                &format!("{} boots, {whole:.1} s", boots.len()),
            );
        }
        Err(why) => table.fail(COST, &why),
    }
}

/// The lab's boot with a delay that is a known share of it: five boots of each, in instructions.
fn injected(lab: &Path, work: &Path, table: &mut Table) {
    let flags = ["--init", "keep", "--until", "^init: done", "--accel", "tcg", "--deterministic"];
    let plain = match bench(lab, &work.join("bench-plain"), &[&flags[..], &["--runs", "1"]].concat()) {
        Ok(document) => document["boots"][0]["total_ns"].as_f64().unwrap_or(f64::NAN),
        Err(why) => return [TOTAL, ROW].iter().for_each(|figure| table.fail(figure, &why)),
    };
    for (figure, share) in [(TOTAL, 0.005), (ROW, 0.0005)] {
        let delay = format!("append=delay.vm_mem={}us", (share * plain / 1000.0).round());
        match bench(lab, &work.join("bench-injected"), &[&flags[..], &["--vary", &delay]].concat()) {
            Ok(document) => {
                let against = &document["results"]["comparisons"][0];
                let rows = against["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
                let row = rows.iter().find(|row| row["name"] == "SYSINIT vm_mem · DELAY");
                let found = if figure == TOTAL { Some(&against["total"]) } else { row.map(|row| &row["by"]) };
                let by = |key: &str| found.map_or(f64::NAN, |f| f["difference"][key].as_f64().unwrap_or(f64::NAN));
                let slower = found.is_some_and(|f| f["change"] == "more");
                let aside = format!("+{:.4} %: {} ns", 100.0 * by("estimate") / plain, by("estimate"));
                table.add(figure, f64::from(u8::from(slower)), VERDICTS, Promise::AtLeast(1.0), &aside);
                if figure == ROW {
                    let noise = 100.0 * (by("high") - by("low")) / plain;
                    table.add("width of that row's interval", noise, PERCENT, Promise::None, "of the boot");
                }
            }
            Err(why) => table.fail(figure, &why),
        }
    }
}

/// A known change of a stock kernel: before process 1 it unpacks a file from its initial RAM file system, in a time
/// proportional to the file's size. The time per byte is measured first.
fn unpacked(kernel: &Path, work: &Path, table: &mut Table) -> Result<(), String> {
    const TRIED: usize = 4_000_000;
    let flags = ["--append", "quiet", "--accel", "tcg", "--deterministic"];
    let initrd = |bytes: usize| -> Result<String, String> {
        let path = work.join(format!("initrd-{bytes}.cpio"));
        std::fs::create_dir_all(work)
            .and_then(|()| std::fs::write(&path, archive(bytes)))
            .map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(path.display().to_string())
    };
    let against = |bytes: usize, more: &[&str]| {
        let (base, other) = (initrd(0)?, initrd(bytes)?);
        let vary = format!("initrd={other}");
        bench(kernel, &work.join("bench-stock"), &[&flags[..], &["--initrd", &base, "--vary", &vary], more].concat())
    };
    let comparison = |document: &Value| document["results"]["comparisons"][0].clone();
    let estimate = |by: &Value| by["difference"]["estimate"].as_f64().unwrap_or(f64::NAN);
    let first = against(TRIED, &["--no-dither", "--runs", "1"])?;
    let plain = first["results"]["variants"][0]["total"]["mean"].as_f64().unwrap_or(f64::NAN);
    let byte_ns = estimate(&comparison(&first)["total"]) / TRIED as f64;
    for (figure, share) in [(STOCK_TOTAL, 0.005), (STOCK_ROW, 0.0005)] {
        let found = comparison(&against((share * plain / byte_ns) as usize, &[])?);
        // The row of the unpacking changed most.
        let by = if figure == STOCK_TOTAL { &found["total"] } else { &found["rows"][0]["by"] };
        let close = (estimate(by) / (share * plain) - 1.0).abs() < 0.25;
        let slower = by["change"] == "more" && close;
        let aside = format!("+{:.4} %: {:.0} µs", 100.0 * estimate(by) / plain, estimate(by) / 1e3);
        table.add(figure, f64::from(u8::from(slower)), VERDICTS, Promise::AtLeast(1.0), &aside);
    }
    Ok(())
}

/// An archive (cpio, "newc": Linux, Documentation/driver-api/early-userspace/buffer-format.rst) of one file of this
/// size.
fn archive(bytes: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, mode, size) in [("filler", 0o100_644, bytes), ("TRAILER!!!", 0, 0)] {
        let fields = [0, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name.len() + 1, 0];
        out.extend_from_slice(b"070701");
        fields.iter().for_each(|field| out.extend_from_slice(format!("{field:08x}").as_bytes()));
        out.extend_from_slice(name.as_bytes());
        out.push(0);
        out.resize(out.len().next_multiple_of(4), 0);
        out.extend((0..size).map(|i| (i % 251) as u8));
        out.resize(out.len().next_multiple_of(4), 0);
    }
    out
}

fn lab() -> Option<PathBuf> {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/lib/bootscope/lab");
    built.is_file().then_some(built)
}

/// The document of a bench.
fn bench(kernel: &Path, into: &Path, flags: &[&str]) -> Result<Value, String> {
    // Remove the result of an earlier run.
    let _ = std::fs::remove_dir_all(into);
    let output = Command::new(BOOTSCOPE)
        .args(["bench", "--json", "--quiet", "--no-history", "--kernel"])
        .arg(kernel)
        .arg("-o")
        .arg(into)
        .args(flags)
        .output()
        .map_err(|e| e.to_string())?;
    if !output.status.success() {
        return Err(last_line(&output.stderr));
    }
    serde_json::from_slice(&output.stdout).map_err(|e| e.to_string())
}

/// False alarms, coverage, power and forecasts over 10 000 simulated benches with every kind of noise. Each is a test
/// that fails if a rate differs from the stated one.
fn simulations(table: &mut Table) {
    let tests = ["test", "--release", "--locked", "-p", "benchmark", "--test", "simulation", "--", "--ignored"];
    let output = match Command::new(env!("CARGO")).args(tests).output() {
        Ok(output) => output,
        Err(e) => return table.fail(SIMULATED, &format!("cargo: {e}")),
    };
    let output_text = String::from_utf8_lossy(&output.stdout);
    let result = output_text.lines().find(|line| line.starts_with("test result:")).unwrap_or("it said no result");
    let count = |word: &str| -> f64 {
        let part = result.split([';', '.']).find(|part| part.trim_end().ends_with(word));
        part.and_then(|part| part.split_whitespace().next()?.parse().ok()).unwrap_or(f64::NAN)
    };
    let (passed, failed) = (count(" passed"), count(" failed"));
    match output.status.success() && passed > 0.0 {
        true => table.add(
            SIMULATED,
            failed,
            Unit { name: "wrong", digits: 0 },
            Promise::AtMost(0.0),
            &format!("{passed} promises"),
        ),
        false => table.fail(SIMULATED, result),
    }
}

/// Simulated searches among commits. The test behind it also checks the number of builds.
fn searches(table: &mut Table) {
    let test = [
        "test",
        "--release",
        "--locked",
        "-p",
        "benchmark",
        "--lib",
        "--",
        "one_slow_commit_of_a_thousand",
        "--nocapture",
    ];
    let command = &mut Command::new(env!("CARGO"));
    let output = match command.args(test).env("BOOTSCOPE_SIMULATIONS", SEARCHES.to_string()).output() {
        Ok(output) => output,
        Err(e) => return table.fail(SEARCHED, &format!("cargo: {e}")),
    };
    let output_text = String::from_utf8_lossy(&output.stdout);
    let line = output_text.lines().find(|line| line.contains(" right, ")).unwrap_or("it said nothing");
    let right: Option<f64> = line.split(" of ").next().and_then(|count| count.split_whitespace().last()?.parse().ok());
    match right.filter(|_| output.status.success()) {
        Some(right) => table.add(SEARCHED, 100.0 * right / f64::from(SEARCHES), PERCENT, Promise::AtLeast(95.0), line),
        None => table.fail(SEARCHED, line),
    }
}
