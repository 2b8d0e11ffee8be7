//! Synthetic benches in the form of `bootscope bench`: a journal with a head, boots and an end.

use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// A bench to write.
pub struct Bench<'a> {
    /// The start time, RFC 3339.
    pub created: &'a str,
    /// The hash of each variant's kernel.
    pub kernels: &'a [&'a str],
    /// The totals in ms, by round and variant; `None` for a failed boot.
    pub rounds: &'a [Vec<Option<f64>>],
}

/// The share of each phase, and of its one row.
pub const PHASES: [(&str, f64); 3] = [("firmware", 0.25), ("initcalls", 0.5), ("hand-over", 0.25)];
const ROW: (&str, f64) = ("initcall acpi_init", 0.2);
/// The time of each milestone, as a share of the boot.
const MILESTONES: [(&str, f64); 2] = [("process-1", 0.6), ("unit:ssh.service", 0.9)];

impl Bench<'_> {
    /// Writes the bench into a folder.
    pub fn write(&self, folder: &Path) -> PathBuf {
        let mut lines = vec![self.head()];
        let mut number = 0;
        for (round, totals) in self.rounds.iter().enumerate() {
            for (variant, total) in totals.iter().enumerate() {
                lines.push(boot(number, round, variant, *total));
                number += 1;
            }
        }
        lines.push(json!({"ended": "rounds"}));
        std::fs::create_dir_all(folder).unwrap();
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(folder.join("bench.jsonl"), text).unwrap();
        folder.to_path_buf()
    }

    fn head(&self) -> Value {
        let variant = |kernel: &&str| {
            json!({
                "name": format!("kernel={kernel}"),
                "how": {"kernel": format!("/boot/{kernel}"), "append": "quiet", "cpus": 1, "memory_bytes": 512 << 20, "machine": "pc"},
                "booted": {"kernel": "6.1.0", "accelerator": "tcg", "vmm": "QEMU 7.2",
                           "inputs": [{"role": "kernel", "path": format!("/boot/{kernel}"), "sha256": kernel}]},
            })
        };
        let variants: Vec<Value> = self.kernels.iter().map(variant).collect();
        let stop = json!({"rounds": self.rounds.len(), "width": null, "budget_ns": null});
        json!({
            "schema": "bootscope.bench/1", "tool_version": "0", "created": self.created,
            "plan": {"variants": variants.len(), "warm_ups": 0, "stop": stop, "seed": 1},
            "variants": variants, "deterministic": false, "ask": {"margin": 0.05, "power": 0.9},
            "host": {"cpu": "a CPU", "cores": 2, "kernel": "6.1"},
        })
    }
}

fn boot(number: usize, round: usize, variant: usize, total_ms: Option<f64>) -> Value {
    let part = |total: f64, (name, share): (&str, f64)| json!({"name": name, "ns": (total * share * 1e6) as i64});
    let mut boot = json!({"number": number, "round": round, "variant": variant, "began_ns": number * 1_000_000_000});
    match total_ms {
        Some(total) => {
            boot["outcome"] = "reached".into();
            boot["total_ns"] = ((total * 1e6) as i64).into();
            boot["phases"] = PHASES.map(|phase| part(total, phase)).to_vec().into();
            boot["rows"] = vec![part(total, ROW)].into();
            boot["milestones"] = MILESTONES.map(|milestone| part(total, milestone)).to_vec().into();
            boot["vmm_max_rss_bytes"] = (100_000_000 + number).into();
        }
        None => boot["outcome"] = "hang".into(),
    }
    boot
}
