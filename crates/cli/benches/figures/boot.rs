//! A stock kernel under TCG: the overhead of recording, the unexplained part of its boot, and the time to show it.

use crate::BOOTSCOPE;
use crate::json_document;
use crate::show;
use crate::table::{PERCENT, Promise, RATIO, Table, last_line};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

const MACHINE: [&str; 8] = ["--append", "quiet", "--memory", "512M", "--cpus", "1", "--accel", "tcg"];

const COST: &str = "recorded ÷ plain boot, to process 1";
const UNEXPLAINED: &str = "unexplained share of the boot";
const SHOW: &str = "show, a real recording";

/// Boots in pairs, and then once more for the other figures.
pub fn measure(kernel: Result<&Path, &String>, work: &Path, pairs: u32, table: &mut Table) {
    let kernel = match kernel {
        Ok(kernel) => kernel,
        Err(why) => return [COST, UNEXPLAINED, SHOW].iter().for_each(|figure| table.skip(figure, why)),
    };
    match json_document(
        Command::new(BOOTSCOPE)
            .args(["record", "--json", "--quiet", "--overhead", &pairs.to_string()])
            .arg("--kernel")
            .arg(kernel)
            .args(MACHINE),
    ) {
        Ok(cost) => {
            let of = |key: &str| cost[key].as_f64().unwrap_or(f64::NAN);
            let aside = format!("{:.3}–{:.3}, {pairs} pairs", of("low"), of("high"));
            table.add(COST, of("ratio"), RATIO, Promise::AtMost(1.15), &aside);
        }
        Err(why) => table.fail(COST, &why),
    }
    let folder = work.join("real");
    let record = Command::new(BOOTSCOPE)
        .args(["record", "--quiet", "--force", "--kernel"])
        .arg(kernel)
        .args(MACHINE)
        .arg("-o")
        .arg(&folder)
        .output();
    let recorded = match record {
        Ok(output) if output.status.success() => {
            json_document(Command::new(BOOTSCOPE).args(["show", "--json"]).arg(&folder))
        }
        Ok(output) => Err(last_line(&output.stderr)),
        Err(e) => Err(e.to_string()),
    };
    match recorded {
        Ok(summary) => {
            unexplained(&summary, table);
            show::time(SHOW, &folder, 50.0, table);
        }
        Err(why) => [UNEXPLAINED, SHOW].iter().for_each(|figure| table.fail(figure, &why)),
    }
}

fn unexplained(summary: &Value, table: &mut Table) {
    let ns = |value: &Value, key: &str| value[key].as_f64().unwrap_or(f64::NAN);
    let phases = summary["phases"].as_array().map(Vec::as_slice).unwrap_or_default();
    let nameless = phases.iter().filter(|phase| phase["name"] == "unexplained");
    let lengths = nameless.map(|phase| ns(phase, "end_ns") - ns(phase, "start_ns"));
    // An empty sum of floating-point numbers is -0.
    let unexplained_ns = lengths.fold(0.0, |sum, length| sum + length);
    let total_ns = ns(summary, "total_ns");
    let aside = format!("of {:.2} s", total_ns / 1e9);
    table.add(UNEXPLAINED, 100.0 * unexplained_ns / total_ns, PERCENT, Promise::AtMost(2.0), &aside);
    let explained = 100.0 * ns(summary, "explained");
    table.add("explained: its row says more than a phase", explained, PERCENT, Promise::None, "");
}
