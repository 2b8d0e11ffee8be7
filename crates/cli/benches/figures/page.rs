//! The time to write the page of a million spans, and its times in headless Chromium, which draws by software here.

use crate::BOOTSCOPE;
use crate::table::{MB, MS, Promise, Table, Unit, last_line};
use crate::tslog;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// The number of records; two make a span.
const RECORDS: usize = 2_000_000;
const BYTES: Unit = Unit { name: "bytes", digits: 1 };
/// The bytes of a page beside its spans: the application and the tables.
const APPLICATION: f64 = 400_000.0;

/// Adds all figures of this part.
pub fn measure(work: &Path, table: &mut Table) {
    let folder = work.join("page");
    let measured = fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()));
    if let Err(why) = measured.and_then(|()| all(&folder, table)) {
        table.fail("page, a million spans", &why);
    }
    let _ = fs::remove_dir_all(&folder);
}

fn all(folder: &Path, table: &mut Table) -> Result<(), String> {
    let recording = tslog::imported(folder, RECORDS)?;
    let page = folder.join("million.html");
    let begun = Instant::now();
    let report = Command::new(BOOTSCOPE).arg("report").arg(&recording).arg("-o").arg(&page).output();
    let report = report.map_err(|e| e.to_string())?;
    if !report.status.success() {
        return Err(last_line(&report.stderr));
    }
    let written_ms = begun.elapsed().as_secs_f64() * 1e3;
    table.add("page, a million spans, written", written_ms, MS, Promise::AtMost(2000.0), "");
    let bytes = fs::metadata(&page).map_err(|e| e.to_string())?.len() as f64;
    let per_span = (bytes - APPLICATION) / (RECORDS as f64 / 2.0);
    table.add("page, bytes a span beside the application", per_span, BYTES, Promise::AtMost(12.0), "");
    in_chromium(&page, table);
    in_speedscope(&recording, folder, table);
    Ok(())
}

/// Adds the figures that `page/bench/figures.mjs` prints.
fn in_chromium(page: &Path, table: &mut Table) {
    const FIGURE: &str = "page, a million spans, in Chromium";
    let Some(found) = measured(&["bench/figures.mjs".as_ref(), page], FIGURE, table) else { return };
    let mut add = |what: &str, field: &str, unit: Unit, scale: f64, limit: f64| {
        let figure = format!("page, a million spans, {what}");
        match found[field].as_f64() {
            Some(value) => table.add(&figure, value * scale, unit, Promise::AtMost(limit), "software drawing"),
            None => table.fail(&figure, &format!("no {field}")),
        }
    };
    add("first picture", "first_picture_ms", MS, 1.0, 1500.0);
    add("all decoded", "whole_ms", MS, 1.0, 4000.0);
    add("zoom, frame p95", "zoom_p95_ms", MS, 1.0, 33.0);
    add("pan, frame p95", "pan_p95_ms", MS, 1.0, 33.0);
    add("search", "search_ms", MS, 1.0, 100.0);
    add("memory", "memory_bytes", MB, 1e-6, 400.0);
}

/// Opens the same boot in speedscope, the usual viewer for such profiles.
fn in_speedscope(recording: &Path, folder: &Path, table: &mut Table) {
    const FIGURE: &str = "speedscope, the same boot";
    let release = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/node_modules/speedscope/dist/release");
    if !release.is_dir() {
        return table.skip(FIGURE, "no speedscope in target/tools: scripts/setup test-all installs it");
    }
    let file = folder.join("million.speedscope.json");
    let export =
        Command::new(BOOTSCOPE).args(["export", "--to", "speedscope", "-o"]).arg(&file).arg(recording).output();
    match export {
        Ok(output) if output.status.success() => {}
        Ok(output) => return table.fail(FIGURE, &last_line(&output.stderr)),
        Err(e) => return table.fail(FIGURE, &e.to_string()),
    }
    let Some(found) = measured(&["bench/speedscope.mjs".as_ref(), &release, &file], FIGURE, table) else { return };
    let mut add = |what: &str, field: &str, unit: Unit, scale: f64| match found[field].as_f64() {
        Some(value) => {
            table.add(&format!("{FIGURE}, {what}"), value * scale, unit, Promise::None, "software drawing");
        }
        None => table.fail(&format!("{FIGURE}, {what}"), &format!("no {field}")),
    };
    add("first picture", "opened_ms", MS, 1.0);
    add("zoom, frame p95", "zoom_p95_ms", MS, 1.0);
    add("memory", "memory_bytes", MB, 1e-6);
    add("its file", "bytes", MB, 1e-6);
}

/// The document that a script of `page/` prints.
fn measured(script: &[&Path], figure: &str, table: &mut Table) -> Option<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../page");
    if !folder.join("node_modules").is_dir() || !Path::new("/usr/bin/chromium").exists() {
        table.skip(figure, "no page/node_modules or no chromium: scripts/setup test-all installs them");
        return None;
    }
    let output_text = match Command::new("node").args(script).current_dir(folder).output() {
        Ok(output) if output.status.success() => output.stdout,
        Ok(output) => {
            table.fail(figure, &last_line(&output.stderr));
            return None;
        }
        Err(e) => {
            table.fail(figure, &format!("node: {e}"));
            return None;
        }
    };
    let found = serde_json::from_slice(&output_text).ok();
    if found.is_none() {
        table.fail(figure, &last_line(&output_text));
    }
    found
}
