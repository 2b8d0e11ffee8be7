//! The reference kernel, recorded as any other kernel that contains the recorder. Its event log is read from guest
//! memory and placed on the clock of the outside evidence. It shows the delays that its command line scripted.

use crate::support::boots::{Scratch, evidence, recorded};
use crate::support::lab::{built, record_lab};
use crate::support::{bootscope, ns, rows, run, shown};
use serde_json::Value;
use std::path::Path;

/// Boots it with one instruction a nanosecond.
fn counted(append: &str) -> Value {
    let scratch = Scratch::new();
    let into = scratch.path("lab");
    recorded(record_lab(&into).args(["--deterministic", "--append", append]), &into, "reached");
    shown(&into)
}

fn own_ns(document: &Value, name: &str) -> i64 {
    rows(&document["where"], "name", name).iter().map(|row| ns(&row["self_ns"])).sum()
}

#[test]
fn a_scripted_delay_is_found_where_it_was_put() {
    if !built() {
        return;
    }
    let plain = counted("");
    let slow = counted("delay.vm_mem=50 delay.probe.psm=7ms");
    assert_eq!((&plain["time_base"], &plain["unit"]), (&"guest-virtual".into(), &"instructions".into()));
    for (name, scripted_ms) in [("SYSINIT vm_mem · DELAY", 50), ("DEVICE_PROBE psm", 7)] {
        let added = own_ns(&slow, name) - own_ns(&plain, name);
        let off = added - scripted_ms * 1_000_000;
        println!("{name}: {added} ns for {scripted_ms} ms, {off} ns off");
        assert!(off.abs() < 60_000, "{name}: {added} ns for {scripted_ms} ms");
    }
    let added = ns(&slow["total_ns"]) - ns(&plain["total_ns"]);
    println!("the whole boot: {added} ns for 57 ms");
    assert!((added - 57_000_000).abs() < 100_000, "the whole boot: {added} ns for 57 ms");
}

#[test]
fn a_boot_in_the_hosts_time_begins_with_the_vmm() {
    if !built() {
        return;
    }
    let scratch = Scratch::new();
    let into = scratch.path("lab");
    recorded(&mut record_lab(&into), &into, "reached");
    let document = shown(&into);
    let phases: Vec<&str> =
        document["phases"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
    assert!(phases[0].starts_with("VMM: ") && phases.contains(&"firmware"), "{phases:?}");
    assert_eq!(phases[phases.len() - 2..], ["SYSINITs", "mount root, process 1"]);
    // Its functions are named as FreeBSD's, but it is not FreeBSD.
    assert_eq!((&document["subject"]["os"], &document["subject"]["kernel"]), (&"lab".into(), &"".into()));
    // The first record comes after the firmware's last line and before the console's first line. These are two clocks.
    // One begins when the host notes that the vCPUs were started, and a busy host notes that late.
    let index = evidence(&into, "console.idx");
    let first_line: i64 = index.lines().next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let machine_dependent = ns(&rows(&document["phases"], "name", "machine-dependent init")[0]["start_ns"]);
    assert!(machine_dependent < first_line + 5_000_000, "{machine_dependent} ns, and its first line {first_line} ns");
    assert!(document["total_ns"].as_i64() > Some(machine_dependent));
}

#[test]
fn the_event_log_of_a_hung_kernel_is_read_from_its_memory() {
    if !built() {
        return;
    }
    let scratch = Scratch::new();
    let into = scratch.path("hung");
    let mut command = record_lab(&into);
    command.args(["--hang-after", "3s", "--append", "hang=configure delay.vm_mem=50"]);
    recorded(&mut command, &into, "hang");
    let log = evidence(&into, "tslog.txt");
    assert!(log.contains("ENTER SYSINIT configure") && !log.contains("EXIT SYSINIT configure"), "{log}");
    let document = shown(&into);
    assert_eq!(document["outcome"], "hang");
    let vm_mem = own_ns(&document, "SYSINIT vm_mem · DELAY");
    assert!(vm_mem >= 50_000_000, "{vm_mem} ns");
}

#[test]
fn a_scripted_delay_is_no_hang_and_one_in_an_unreached_place_is_reported() {
    if !built() {
        return;
    }
    let scratch = Scratch::new();
    let into = scratch.path("long");
    let mut command = record_lab(&into);
    command.args(["--hang-after", "1s", "--append", "delay.vm_mem=3000 delay.thread.init=3000 delay.usbus0=5"]);
    let stderr = recorded(&mut command, &into, "reached").stderr;
    assert!(stderr.contains("`delay.usbus0=5` changes nothing") && stderr.contains("usb=yes"), "{stderr}");
    assert!(!stderr.contains("`delay.vm_mem"), "{stderr}");
}

#[test]
fn a_machine_without_acpi_is_recorded_to_its_end() {
    if !built() {
        return;
    }
    let scratch = Scratch::new();
    for (machine, cpus) in
        [("pc,acpi=off", "1"), ("pc,acpi=off", "4"), ("q35,acpi=off", "1"), ("microvm,acpi=off", "1")]
    {
        let into = scratch.path(&format!("{machine}-{cpus}"));
        recorded(record_lab(&into).args(["--machine", machine, "--cpus", cpus]), &into, "reached");
        let log = evidence(&into, "tslog.txt");
        assert!(log.lines().any(|line| line.ends_with("EXIT start_init")), "{machine}: {log}");
        assert!(ns(&shown(&into)["total_ns"]) > 0);
    }
}

#[test]
fn a_misspelled_option_is_refused_with_the_likely_one() {
    if !built() {
        return;
    }
    let scratch = Scratch::new();
    let into = scratch.path("slip");
    for (append, words) in [
        ("calibrat=delay", ["`calibrat`", "did you mean `calibrate`?", "bootscope lab list"]),
        ("ps2=prob", ["`ps2=prob`", "ps2 takes probe, skip", "did you mean `probe`?"]),
        ("hang=clock", ["`hang=clock`", "no place `clock`", "did you mean `clocks`?"]),
        ("delay.psm=1s", ["`delay.psm=1s`", "12ms", "600000 ms"]),
    ] {
        run(record_lab(&into).args(["--append", append])).refuses(&words);
    }
    run(record_lab(&into).args(["--memory", "16M"])).refuses(&["--memory 16M", "lab", "32M"]);
    assert!(!into.exists(), "nothing was recorded");
}

#[test]
fn the_options_of_a_repeated_recording_are_checked_too() {
    if !built() {
        return;
    }
    let scratch = Scratch::new();
    let (first, second) = (scratch.path("first"), scratch.path("second"));
    recorded(record_lab(&first).args(["--deterministic", "--append", "hz=1000"]), &first, "reached");
    let like = |append: &str| {
        let mut command = bootscope("record");
        command.arg("--like").arg(&first).args(["--append", append, "-o"]).arg(&second);
        command
    };
    run(&mut like("hz=0")).refuses(&["hz=", "1 to 10000"]);
    recorded(&mut like("hz=250"), &second, "reached");
    assert!(kernel_of(&first) == kernel_of(&second) && kernel_of(&first).ends_with("lab"));
}

fn kernel_of(recording: &Path) -> String {
    let manifest = crate::support::boots::manifest(recording);
    rows(&manifest["inputs"], "role", "kernel")[0]["path"].as_str().unwrap().to_owned()
}
