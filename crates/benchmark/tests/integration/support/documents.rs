//! Made-up documents of benches.

use benchmark::{Boot, Booted, Document, Ended, Head, Host, InputFile, Measured, PhaseTime, Plan, Stop, Variant};

/// A bench of eight boots around a time, on a day of January 2026 counted from 0. The last boot failed.
pub fn document(day: u32, kernel_sha256: &str, around_ms: f64) -> Document {
    let boot = |number: u32| {
        let total_ns = (around_ms * 1e6) as i64 + i64::from(number) * 1_000_000;
        let phases = vec![
            PhaseTime { name: "firmware".to_owned(), ns: total_ns / 4, waited_ns: 0 },
            PhaseTime { name: "kernel".to_owned(), ns: total_ns - total_ns / 4, waited_ns: 0 },
        ];
        let reached =
            Measured { outcome: "reached".to_owned(), total_ns: Some(total_ns), phases, ..Measured::default() };
        let hang = Measured { outcome: "hang".to_owned(), ..Measured::default() };
        let measured = if number < 7 { reached } else { hang };
        Boot { number, round: Some(number), variant: 0, began_ns: u64::from(number) * 2_000_000_000, measured }
    };
    let kernel = InputFile { role: "kernel".to_owned(), sha256: kernel_sha256.to_owned(), ..InputFile::default() };
    let booted = Booted {
        kernel: format!("vmlinuz-{kernel_sha256}"),
        accelerator: "tcg".to_owned(),
        vmm: "QEMU emulator version 7.2".to_owned(),
        inputs: vec![kernel],
    };
    let how = serde_json::json!({
        "kernel": "/boot/vmlinuz", "append": "quiet", "machine": "pc", "cpus": 2, "memory_bytes": 512 << 20, "trace_events": true
    });
    let plan =
        Plan { variants: 1, warm_ups: 0, stop: Stop { rounds: 8, ..Stop::default() }, seed: 1, ..Plan::default() };
    let mut head = Head::of(plan, vec![Variant { how, booted, ..Variant::named("quiet") }]);
    head.created = format!("2026-01-{:02}T12:00:00Z", day + 1);
    head.host = Host { cpu: "a CPU".to_owned(), cores: 2, kernel: "6.1".to_owned() };
    Document::new(head, (0..8).map(boot).collect(), Some(Ended::Rounds))
}
