//! Call traces of guests that are not Linux, and of one that UEFI firmware boots: the profile is plausible, and nearly
//! all of it is in known calls. `make test-calls` fetches the guests; `BOOTSCOPE_TEST_GUESTS` names their folder.

use crate::support::boots::{QUIET, Scratch, kernel, record};
use crate::support::{list, run, shown, skip, text};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The least share of the instructions outside user space that must be in calls.
const MIN_OWNED: f64 = 0.95;
/// The least share of returns that must lead to the caller.
const MIN_MATCHED: f64 = 0.99;

fn guests() -> Option<PathBuf> {
    let folder = std::env::var("BOOTSCOPE_TEST_GUESTS").ok().filter(|folder| !folder.is_empty());
    if folder.is_none() {
        skip("BOOTSCOPE_TEST_GUESTS names no folder of guests; make test-calls fetches them");
    }
    folder.map(PathBuf::from)
}

/// The guest's calls, with the figures printed. Some guests never end, so the calls up to then count.
fn followed(what: &str, arguments: &[&str], after: &[&str]) -> Value {
    let scratch = Scratch::new();
    let into = scratch.path("boot");
    let mut command = crate::support::bootscope("record");
    command.args(["--accel", "tcg", "--trace", "calls"]).args(arguments).arg("-o").arg(&into).arg("--").args(after);
    let stderr = run(&mut command).stderr;
    assert!(into.join("calls.bin").is_file(), "{what}: {stderr}");
    assert_plausible(what, &into)
}

fn assert_plausible(what: &str, recording: &Path) -> Value {
    let calls = shown(recording)["calls"].clone();
    let figure = |name: &str| calls[name].as_f64().unwrap_or_else(|| panic!("{what}: no {name}: {calls}"));
    let (owned, matched, instructions) = (figure("owned"), figure("matched"), figure("instructions"));
    println!(
        "{what}: {} instructions, {} calls, {:.3} % matched, {:.3} % owned",
        instructions,
        calls["count"],
        matched * 100.0,
        owned * 100.0
    );
    assert!(owned >= MIN_OWNED && matched >= MIN_MATCHED && instructions > 1e7, "{what}");
    calls
}

#[test]
fn xen_is_followed_by_name() {
    let Some(guests) = guests() else { return };
    let Some(kernel) = kernel() else { return };
    let [xen, symbols] = ["xen", "xen-syms"].map(|name| guests.join(name).display().to_string());
    let dom0 = format!("{} console=hvc0", kernel.display());
    // Two files of names: the hypervisor's, and those in the image of the kernel that it starts.
    let linux = kernel.display().to_string();
    let options = ["--deterministic", "--memory", "1G", "--symbols", &symbols, "--symbols", &linux];
    // The kernel's log is found in memory, because its console output goes to the hypervisor.
    let until = ["--until", "Linux version", "--timeout", "5m"];
    let after = ["-kernel", &xen, "-append", "console=com1 loglvl=all noreboot", "-initrd", &dom0];
    let calls = followed("Xen", &[&options[..], &until[..]].concat(), &after);
    let called: Vec<&str> = list(&calls["functions"]).iter().map(|row| text(&row["name"])).collect();
    for function in ["__start_xen", "map_pages_to_xen", "__serial_putc", "setup_arch"] {
        assert!(called.contains(&function), "{function} was not called");
    }
}

#[test]
fn memtest_is_followed_without_names() {
    let Some(guests) = guests() else { return };
    let memtest = guests.join("memtest.bin").display().to_string();
    let options = ["--deterministic", "--until", "never said", "--timeout", "20s"];
    followed("memtest86+", &options, &["-kernel", &memtest, "-append", "console=ttyS0"]);
}

#[test]
fn a_linux_booted_by_ovmf_is_followed() {
    let Some(guests) = guests() else { return };
    let Some(kernel) = kernel() else { return };
    let scratch = Scratch::new();
    let into = scratch.path("boot");
    let mut command = record(&kernel, &into);
    command.args(["--trace", "calls", "--append", QUIET, "--", "-bios"]).arg(guests.join("OVMF.fd"));
    run(&mut command).exits(0);
    let calls = assert_plausible("Linux from OVMF", &into);
    let named = list(&calls["functions"]).iter().filter(|row| text(&row["name"]) == "setup_arch").count();
    assert_eq!(named, 1, "the kernel tells its names under UEFI too");
    let document = shown(&into);
    let phases: Vec<&str> = list(&document["phases"]).iter().map(|phase| text(&phase["name"])).collect();
    let from = phases.iter().position(|name| *name == "firmware").unwrap_or_else(|| panic!("{phases:?}"));
    assert_eq!(phases[from..from + 4], ["firmware", "decompressor", "early kernel", "initcalls: early"]);
}
