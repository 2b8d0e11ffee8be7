//! A boot of a riscv64 kernel: the image says what it is, and what is recorded is what a boot of x86-64 has.

mod support;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use support::boots::{Scratch, evidence, found, manifest, messages, record, recorded};
use support::{assert_adds_up, list, ns, run, shown, skip, text};

/// The kernel to boot; without one, or without what it takes to boot it, the tests skip, and print why.
fn kernel() -> Option<PathBuf> {
    let without = |why: &str| {
        skip(why);
        None
    };
    let Some(kernel) = std::env::var("BOOTSCOPE_TEST_KERNEL_RISCV64").ok().filter(|name| !name.is_empty()) else {
        return without("BOOTSCOPE_TEST_KERNEL_RISCV64 names no Image: scripts/fetch-kernel 6.12-riscv64 fetches one");
    };
    let qemu = Command::new("qemu-system-riscv64").arg("--version").stdout(Stdio::null()).status();
    if !qemu.is_ok_and(|status| status.success()) {
        return without("there is no qemu-system-riscv64: scripts/setup installs Debian's package of it");
    }
    let built =
        std::env::var_os("BOOTSCOPE_LIB").is_some_and(|lib| PathBuf::from(lib).join("guest-init-riscv64").is_file());
    if !built {
        return without("there is no guest-init-riscv64: scripts/build-guest-init says why it could not be built");
    }
    Some(found(&kernel))
}

#[test]
fn a_riscv64_kernel_is_recorded_as_any_other() {
    let Some(kernel) = kernel() else { return };
    let scratch = Scratch::new();
    let boot = scratch.path("boot");
    recorded(record(&kernel, &boot).args(["--cpus", "2"]), &boot, "reached");
    let how = &manifest(&boot)["how"];
    assert_eq!((text(&how["arch"]), text(&how["qemu"])), ("riscv64", "qemu-system-riscv64"));

    let document = shown(&boot);
    assert_adds_up(&document);
    let phases: Vec<&str> = list(&document["phases"]).iter().map(|phase| text(&phase["name"])).collect();
    for phase in ["firmware", "early kernel", "initcalls: early", "initcalls: late", "hand-over", "process 1"] {
        assert!(phases.contains(&phase), "{phase} in {phases:?}");
    }
    let unexplained = list(&document["phases"]).iter().filter(|phase| phase["name"] == "unexplained");
    let unexplained: i64 = unexplained.map(|phase| ns(&phase["end_ns"]) - ns(&phase["start_ns"])).sum();
    assert!(unexplained * 50 <= ns(&document["total_ns"]), "{unexplained} ns are unexplained");
    let counter = &list(&document["clocks"])[0];
    assert_eq!(counter["name"], "guest counter");
    assert!((counter["hz"].as_f64().unwrap() - 10e6).abs() < 1.0, "{counter}");

    // The kernel's own word on its end: in its log, and so on its clock, which process 1 joined with the host's.
    let log = messages(&evidence(&boot, "kmsg.log"));
    let run_init = log.iter().find(|(_, message)| message.starts_with("Run /bootscope/init")).expect("it says so");
    let handed_over = list(&document["phases"]).iter().find(|phase| phase["name"] == "hand-over").unwrap();
    let first = list(&document["phases"]).iter().find(|phase| phase["name"] == "initcalls: early").unwrap();
    let by_log = run_init.0 as f64 * 1e3;
    let by_host = (ns(&handed_over["start_ns"]) - ns(&first["start_ns"])) as f64;
    println!(
        "{:.1} ms by the kernel's clock until process 1, of which {:.1} by ours from the first initcall on",
        by_log / 1e6,
        by_host / 1e6
    );
    assert!(by_host < by_log && by_log < ns(&document["total_ns"]) as f64);
}

#[test]
fn two_deterministic_boots_of_a_riscv64_kernel_are_equal() {
    let Some(kernel) = kernel() else { return };
    let scratch = Scratch::new();
    let [first, second] = ["first", "second"].map(|name| {
        let boot = scratch.path(name);
        recorded(record(&kernel, &boot).arg("--deterministic"), &boot, "reached");
        let mut document = shown(&boot);
        // What QEMU itself used of the host.
        for field in ["vmm_max_rss_bytes", "vmm_cpu_ns"] {
            document["memory"][field].take();
            document["metrics"][field].take();
        }
        document
    });
    assert!(ns(&first["total_ns"]) > 100_000_000);
    // After the end mark the guest waits for the host, and what it runs meanwhile is counted in its diagnostics.
    for (field, value) in first.as_object().unwrap().iter().filter(|(field, _)| *field != "diagnostics") {
        assert_eq!(value, &second[field], "{field}");
    }
    // OpenSBI runs until it enters the kernel, which is not before it has printed its banner.
    let firmware = list(&first["phases"]).iter().find(|phase| phase["name"] == "firmware").unwrap();
    assert!(ns(&firmware["end_ns"]) - ns(&firmware["start_ns"]) > 1_000_000, "{firmware}");
    // Code has names from the kernel's entry on, before there is any message or trace.
    let functions = list(&first["functions"]);
    for name in ["start_kernel", "setup_arch", "time_init"] {
        assert!(functions.iter().any(|row| row["name"] == name), "{name} was not seen to run");
    }
}

#[test]
fn what_is_not_there_yet_is_refused_by_name() {
    let Some(kernel) = kernel() else { return };
    let scratch = Scratch::new();
    let mut command = record(&kernel, &scratch.path("boot"));
    run(command.args(["--trace", "calls"])).refuses(&["--trace calls", "riscv64"]);
    let mut command = record(&kernel, &scratch.path("boot"));
    run(command.args(["--arch", "aarch64"])).refuses(&["is not a kernel"]);
}
