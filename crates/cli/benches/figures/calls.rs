//! A boot with a call trace: its overhead, quality and size, and the time to show and analyse it.
//!
//! Boots with and without the call trace alternate. The overhead is the ratio of the host's wall-clock times from
//! QEMU's start to the end mark. The table has the median of the pairs. The boots without calls record nothing about
//! the guest.

use crate::table::{PERCENT, Promise, RATIO, SECONDS, Table, Unit};
use crate::{BOOTSCOPE, json_document, manifest};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

const MACHINE: [&str; 8] = ["--append", "quiet", "--memory", "512M", "--cpus", "1", "--accel", "tcg"];

const COST_COUNTED: &str = "calls: with ÷ without, deterministic";
const COST: &str = "calls: with ÷ without, by the host's clock";
const MATCHED: &str = "calls: returns matched";
const OWNED: &str = "calls: instructions owned";
const APART: &str = "calls: instructions of two boots apart";
const PACKED: &str = "calls: the recording, packed";
const MEMORY: &str = "calls: memory of the VMM, with less without";
const SHOW: &str = "calls: show";
const FINDINGS: &str = "calls: findings, less the tables";
const FINDINGS_LAB: &str = "calls, lab: findings, less the tables";

const MIB: Unit = Unit { name: "MiB", digits: 1 };
const PARTS_PER_MILLION: Unit = Unit { name: "ppm", digits: 2 };

/// Adds all figures of this part.
pub fn measure(kernel: Result<&Path, &String>, work: &Path, pairs: u32, table: &mut Table) {
    of_the_lab(&work.join("calls-lab"), table);
    let all = [COST_COUNTED, COST, MATCHED, OWNED, APART, PACKED, MEMORY, SHOW, FINDINGS];
    let kernel = match kernel {
        Ok(kernel) => kernel,
        Err(why) => return all.iter().for_each(|figure| table.skip(figure, why)),
    };
    let boots = Boots { kernel, folder: work.join("calls") };
    for (figure, further, most) in [(COST_COUNTED, &["--deterministic"][..], 1.4), (COST, &[], 2.0)] {
        match boots.costs(further, pairs) {
            Ok(costs) => table.add_all(figure, costs, RATIO, Promise::AtMost(most), &format!("{pairs} pairs")),
            Err(why) => table.fail(figure, &why),
        }
    }
    if let Err(why) = boots.looked_at(table) {
        table.fail(MATCHED, &why);
    }
    // A call trace alone does not show waits between threads, and without waits no finding has a price.
    match boots.boot("both", &["--deterministic", "--trace", "events,calls"]) {
        Ok(both) => looked_through(FINDINGS, &both, table),
        Err(why) => table.fail(FINDINGS, &why),
    }
    let _ = std::fs::remove_dir_all(&boots.folder);
}

struct Boots<'a> {
    kernel: &'a Path,
    folder: PathBuf,
}

impl Boots<'_> {
    fn boot(&self, name: &str, further: &[&str]) -> Result<PathBuf, String> {
        let into = self.folder.join(name);
        let mut command = Command::new(BOOTSCOPE);
        command.args(["record", "--json", "--quiet", "--force", "--kernel"]).arg(self.kernel).args(MACHINE);
        json_document(command.args(further).arg("-o").arg(&into)).map(|_| into)
    }

    fn costs(&self, further: &[&str], pairs: u32) -> Result<Vec<f64>, String> {
        let took = |trace: &str| -> Result<f64, String> {
            let into = self.boot("cost", &[&["--trace", trace], further].concat())?;
            manifest(&into)?["end"]["at_ns"].as_f64().ok_or_else(|| "the end mark has no time".to_owned())
        };
        (0..pairs).map(|_| Ok(took("calls")? / took("none")?)).collect()
    }

    /// Two deterministic boots with a call trace, and one without.
    fn looked_at(&self, table: &mut Table) -> Result<(), String> {
        let with = ["--deterministic", "--trace", "calls"];
        let (first, second) = (self.boot("first", &with)?, self.boot("second", &with)?);
        let without = self.boot("without", &["--deterministic", "--trace", "none"])?;
        let start = Instant::now();
        let [one, other] = [calls(&first), calls(&second)];
        let show_s = start.elapsed().as_secs_f64() / 2.0;
        let (one, other) = (one?, other?);
        let share = |key: &str| 100.0 * one[key].as_f64().unwrap_or(f64::NAN);
        table.add(MATCHED, share("matched"), PERCENT, Promise::AtLeast(99.9), &format!("{} calls", one["count"]));
        table.add(OWNED, share("owned"), PERCENT, Promise::AtLeast(99.0), "");
        let [one, other] = [&one, &other].map(|calls| calls["instructions"].as_f64().unwrap_or(f64::NAN));
        let apart = 1e6 * (one / other - 1.0).abs();
        table.add(APART, apart, PARTS_PER_MILLION, Promise::AtMost(10.0), &format!("of {:.3} G", one / 1e9));
        json_document(Command::new(BOOTSCOPE).args(["pack", "--json", "--force"]).arg(&first))?;
        let packed = self.folder.join("first.tar.zst").metadata().map_err(|e| format!("first.tar.zst: {e}"))?.len();
        table.add(PACKED, mib(packed as f64), MIB, Promise::AtMost(40e6 / f64::from(1 << 20)), "");
        let resident = |of: &Path| manifest(of).map(|m| m["vmm"]["max_rss_bytes"].as_f64().unwrap_or(f64::NAN));
        let more = mib(resident(&first)? - resident(&without)?);
        table.add(MEMORY, more, MIB, Promise::AtMost(200e6 / f64::from(1 << 20)), "");
        table.add(SHOW, show_s, SECONDS, Promise::AtMost(2.0), "of all functions, as JSON");
        Ok(())
    }
}

/// A boot of the reference kernel with a call trace and known causes of slowness.
fn of_the_lab(folder: &Path, table: &mut Table) {
    let slow = "messages=200 calibrate=delay tsc_sync=check aps=serial";
    let mut command = Command::new(BOOTSCOPE);
    command.args(["record", "--json", "--quiet", "--force", "--lab", "--deterministic", "--trace", "calls"]);
    match json_document(command.args(["--cpus", "4", "--append", slow, "-o"]).arg(folder)) {
        Ok(_) => looked_through(FINDINGS_LAB, folder, table),
        Err(why) => table.fail(FINDINGS_LAB, &why),
    }
    let _ = std::fs::remove_dir_all(folder);
}

/// The extra time of `findings` over the tables of `show` alone, in alternating runs.
fn looked_through(figure: &str, recording: &Path, table: &mut Table) {
    const ROUNDS: usize = 5;
    let took = |command: &[&str]| -> Result<(f64, Value), String> {
        let start = Instant::now();
        let document = json_document(Command::new(BOOTSCOPE).args(command).arg("--json").arg(recording))?;
        Ok((start.elapsed().as_secs_f64(), document))
    };
    let round = |_| {
        let (found_s, document) = took(&["findings"])?;
        let count = document["findings"].as_array().map_or(0, Vec::len);
        if count == 0 {
            return Err("nothing was found, so that nothing had a price".to_owned());
        }
        Ok((found_s - took(&["show", "--no-findings"])?.0, found_s, count))
    };
    match (0..ROUNDS).map(round).collect::<Result<Vec<(f64, f64, usize)>, String>>() {
        Ok(rounds) => {
            let (_, shortest_s, count) = rounds.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1)).expect("rounds");
            let aside = format!("{count} findings, in {shortest_s:.2} s");
            let more = rounds.iter().map(|round| round.0).collect();
            table.add_all(figure, more, SECONDS, Promise::AtMost(0.3), &aside);
        }
        Err(why) => table.fail(figure, &why),
    }
}

fn mib(bytes: f64) -> f64 {
    bytes / f64::from(1 << 20)
}

/// The figures of `show` about a recording's calls.
fn calls(recording: &Path) -> Result<Value, String> {
    json_document(Command::new(BOOTSCOPE).args(["show", "--json"]).arg(recording))
        .map(|document| document["calls"].clone())
}
