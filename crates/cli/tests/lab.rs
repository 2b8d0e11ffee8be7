//! The reference kernel, recorded as any other that has the recorder inside: its event log comes out of its memory, on the
//! clock of what was seen from outside, and says what its command line scripted.

mod support;

use serde_json::Value;
use std::path::{Path, PathBuf};
use support::boots::{Scratch, evidence, record, recorded};
use support::{ns, rows, shown, skip};

/// The kernel, built by `make build`; none, with the reason said, if there is none.
fn lab() -> Option<PathBuf> {
    let lab = std::env::var_os("BOOTSCOPE_LIB").map(|lib| Path::new(&lib).join("lab")).filter(|lab| lab.is_file());
    if lab.is_none() {
        skip("BOOTSCOPE_LIB has no lab");
    }
    lab
}

/// Boots it with one instruction a nanosecond.
fn counted(lab: &Path, append: &str) -> Value {
    let scratch = Scratch::new();
    let into = scratch.path("lab");
    let mut command = record(lab, &into);
    command.args(["--init", "keep", "--until", "poweroff", "--deterministic", "--append", append]);
    recorded(&mut command, &into, "reached");
    shown(&into)
}

fn own_ns(document: &Value, name: &str) -> i64 {
    rows(&document["where"], "name", name).iter().map(|row| ns(&row["self_ns"])).sum()
}

#[test]
fn a_scripted_delay_is_found_where_it_was_put() {
    let Some(lab) = lab() else { return };
    let plain = counted(&lab, "");
    let slow = counted(&lab, "delay.vm_mem=50 delay.psm=7ms ps2=probe");
    let probed = counted(&lab, "ps2=probe");
    assert_eq!((&plain["time_base"], &plain["unit"]), (&"guest-virtual".into(), &"ns".into()));
    for (name, scripted_ms) in [("SYSINIT vm_mem · DELAY", 50), ("DEVICE_PROBE psm", 7)] {
        let added = own_ns(&slow, name) - own_ns(&probed, name);
        let off = added - scripted_ms * 1_000_000;
        println!("{name}: {added} ns for {scripted_ms} ms, {off} ns off");
        assert!(off.abs() < 60_000, "{name}: {added} ns for {scripted_ms} ms");
    }
    let added = ns(&slow["total_ns"]) - ns(&probed["total_ns"]);
    println!("the whole boot: {added} ns for 57 ms");
    assert!((added - 57_000_000).abs() < 100_000, "the whole boot: {added} ns for 57 ms");
}

#[test]
fn a_boot_in_the_hosts_time_begins_with_the_vmm() {
    let Some(lab) = lab() else { return };
    let scratch = Scratch::new();
    let into = scratch.path("lab");
    recorded(record(&lab, &into).args(["--init", "keep", "--until", "poweroff"]), &into, "reached");
    let document = shown(&into);
    let phases: Vec<&str> =
        document["phases"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
    assert!(phases[0].starts_with("VMM: ") && phases.contains(&"firmware"), "{phases:?}");
    assert_eq!(phases[phases.len() - 2..], ["SYSINITs", "mount root, process 1"]);
    // Its first record comes after the firmware's last line and before the first line on the console: two clocks.
    let index = evidence(&into, "console.idx");
    let first_line: i64 = index.lines().next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let machine_dependent = ns(&rows(&document["phases"], "name", "machine-dependent init")[0]["start_ns"]);
    assert!(machine_dependent < first_line, "{machine_dependent} ns, and its first line {first_line} ns");
    assert!(document["total_ns"].as_i64() > Some(machine_dependent));
}

#[test]
fn a_kernel_that_hangs_gives_its_event_log_out_of_its_memory() {
    let Some(lab) = lab() else { return };
    let scratch = Scratch::new();
    let into = scratch.path("hung");
    let mut command = record(&lab, &into);
    command.args(["--init", "keep", "--hang-after", "3s", "--append", "hang=configure delay.vm_mem=50 quiet"]);
    recorded(&mut command, &into, "hang");
    let log = evidence(&into, "tslog.txt");
    assert!(log.contains("ENTER SYSINIT configure") && !log.contains("EXIT SYSINIT configure"), "{log}");
    let document = shown(&into);
    assert_eq!(document["outcome"], "hang");
    let vm_mem = own_ns(&document, "SYSINIT vm_mem · DELAY");
    assert!(vm_mem >= 50_000_000, "{vm_mem} ns");
}
