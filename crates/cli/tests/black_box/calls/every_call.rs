//! Every call of a stock kernel's boot: as complete as promised, the same in each deterministic boot, small on disk,
//! and readable whenever QEMU dies. Unsupported boots are refused with the reason.

use super::followed_boots::deterministic;
use crate::support::boots::{QUIET, Scratch, kernel, kernels, manifest, record, recorded};
use crate::support::kills::{Random, alive, assert_no_qemu, kill_qemu, kills};
use crate::support::{bootscope, list, ran, run, shown, skip, text};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;
use tempfile::TempDir;

/// The promised shares: of returns with a known call, and of instructions within a known call.
const MIN_MATCHED: f64 = 0.999;
const OWNED_MIN: f64 = 0.99;
/// The largest size of a packed recording.
const MAX_PACKED_BYTES: u64 = 40_000_000;
/// The largest relative difference between the instructions of two deterministic boots.
const MAX_DIFFERENCE: f64 = 1e-5;

fn figure(calls: &Value, name: &str) -> f64 {
    calls[name].as_f64().unwrap_or_else(|| panic!("no {name}: {calls}"))
}

/// The functions that ran before the end mark. Functions that ran only later, during the power-off, depend on the
/// host's timing.
fn functions(calls: &Value) -> Vec<&Value> {
    let ran = |row: &&Value| row["total_instructions"] != 0 || row["calls"] != 0;
    list(&calls["functions"]).iter().filter(ran).collect()
}

/// Checks the promises for any recording of a stock kernel's calls.
#[track_caller]
fn assert_followed(what: &str, calls: &Value) {
    let [matched, owned, count] = ["matched", "owned", "count"].map(|name| figure(calls, name));
    println!("{what}: {count} calls, {:.4} % matched, {:.3} % owned", matched * 100.0, owned * 100.0);
    assert!(matched >= MIN_MATCHED && owned >= OWNED_MIN && count > 1e6, "{what}: {matched} {owned} {count}");
    let named = list(&calls["functions"]).iter().filter(|row| !text(&row["name"]).starts_with("0x")).count();
    assert!(named > 5000, "{what}: {named} functions have names");
}

#[test]
fn two_deterministic_boots_make_the_same_calls() {
    let Some(kernel) = kernel() else { return };
    let scratch = Scratch::new();
    let boots = ["first", "second"].map(|name| deterministic(&scratch, &kernel, name));
    let [first, second] = boots.each_ref().map(|boot| shown(boot)["calls"].clone());
    assert_followed("deterministic", &first);
    let instructions = [&first, &second].map(|calls| figure(calls, "instructions"));
    let difference = (instructions[0] / instructions[1] - 1.0).abs();
    println!("{instructions:?} instructions, {difference:.1e} apart");
    assert!(difference <= MAX_DIFFERENCE, "{instructions:?}");
    let [first_functions, second_functions] = [&first, &second].map(functions);
    assert_eq!(first_functions.len(), second_functions.len());
    for (one, other) in first_functions.iter().zip(second_functions) {
        assert_eq!(*one, other);
    }

    let packed = scratch.path("first.tar.zst");
    run(bootscope("pack").arg(&boots[0]).arg("-o").arg(&packed)).exits(0);
    let bytes = packed.metadata().unwrap().len();
    println!("{bytes} bytes packed");
    assert!(bytes < MAX_PACKED_BYTES, "{bytes} bytes packed");
    assert_eq!(shown(&packed)["calls"], first, "the packed recording is the same");
}

/// QEMU 7.2 hangs with several vCPUs under icount, so there it is refused. From QEMU 10 on it works as with one.
#[test]
fn several_vcpus_are_deterministic_or_refused() {
    let Some(kernel) = kernel() else { return };
    for cpus in ["2", "4"] {
        let scratch = Scratch::new();
        let boot = |name: &str| {
            let mut command = record(&kernel, &scratch.path(name));
            command.args(["--trace", "calls", "--deterministic", "--cpus", cpus, "--append", QUIET]);
            run(&mut command)
        };
        let first = boot("first");
        if first.status == 2 {
            first.refuses(&[&format!("--deterministic with --cpus {cpus} hangs in QEMU 7"), "QEMU 10"]);
            skip("this QEMU cannot boot several vCPUs deterministically; it was refused with the reason");
            continue;
        }
        first.exits(0);
        boot("second").exits(0);
        let [first, second] = ["first", "second"].map(|name| shown(&scratch.path(name))["calls"].clone());
        assert_followed(&format!("deterministic, {cpus} vCPUs"), &first);
        assert_eq!(first["instructions"], second["instructions"]);
        assert_eq!(functions(&first), functions(&second));
    }
}

#[test]
#[ignore = "54 s: in make test-all"]
fn every_stock_kernel_is_followed_in_host_time() {
    for kernel in kernels() {
        for cpus in ["1", "4"] {
            let scratch = Scratch::new();
            let into = scratch.path("boot");
            let mut command = record(&kernel, &into);
            recorded(command.args(["--trace", "calls", "--cpus", cpus, "--append", QUIET]), &into, "reached");
            let what =
                format!("{}, {cpus} vCPUs, with KASLR", kernel.file_name().unwrap_or_default().to_string_lossy());
            assert_followed(&what, &shown(&into)["calls"]);
        }
    }
}

/// With first executions alone, the plugin stops after user space has run for a while. With a call trace it stays.
#[test]
fn a_guest_with_its_own_init_is_followed_to_its_end() {
    let Some(kernel) = kernel() else { return };
    let scratch = Scratch::new();
    let into = scratch.path("boot");
    let mut command = record(&kernel, &into);
    command.args(["--trace", "events,calls", "--init", "keep", "--append", QUIET]);
    recorded(&mut command, &into, "panic");
    let document = shown(&into);
    assert_followed("its own init", &document["calls"]);
    let stopped = list(&document["diagnostics"]).iter().any(|row| row["code"] == "first-executions-stop");
    assert!(!stopped, "{}", document["diagnostics"]);
}

#[test]
#[ignore = "11 s: in make test-all"]
fn the_machine_may_be_any() {
    let Some(kernel) = kernel() else { return };
    // With ACPI this kernel gets no timer interrupt from microvm's translated CPU, with calls or without.
    for machine in ["q35", "microvm,acpi=off"] {
        let scratch = Scratch::new();
        let into = scratch.path("boot");
        let mut command = record(&kernel, &into);
        recorded(command.args(["--trace", "calls", "--machine", machine, "--append", QUIET]), &into, "reached");
        assert_followed(machine, &shown(&into)["calls"]);
    }
}

/// `BOOTSCOPE_TEST_KILLS` is the number of kills, by default 4.
#[test]
#[ignore = "20 s: in make test-all"]
fn a_qemu_killed_at_any_moment_leaves_calls_that_can_be_read() {
    let Some(kernel) = kernel() else { return };
    let scratch = Scratch::new();
    let boot = |name: &str, into: &Path| {
        let mut command = record(&kernel, into);
        command.args(["--trace", "calls", "--deterministic", "--append", QUIET, "--", "-name", name]);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let began = Instant::now();
    assert!(boot("bootscope-test-whole", &scratch.path("whole")).wait().unwrap().success());
    let (whole, kills) = (began.elapsed(), kills(4));
    let mut random = Random::new();
    println!("{kills} kills within {whole:?}, random numbers from {}", random.seed());
    let (mut killed, mut calls) = (0, 0.0);
    for number in 1..=kills {
        let (name, into) = (format!("bootscope-test-{}-{number}", std::process::id()), scratch.path("killed"));
        let at = whole.mul_f64(0.05 + 0.9 * random.share());
        let recorder = boot(&name, &into);
        std::thread::sleep(at);
        let in_time = !alive(&name).is_empty();
        if in_time {
            kill_qemu(&name);
        }
        let ended = ran(recorder.wait_with_output().unwrap(), format!("record, killed after {at:?}"));
        assert_no_qemu(&name);
        if in_time && into.exists() {
            let outcome = &manifest(&into)["outcome"]["kind"];
            // Process 1 may have run already.
            assert!(outcome == "vmm-failed" || outcome == "reached", "{}", ended.stderr);
            let document = shown(&into);
            killed += 1;
            calls += document["calls"]["count"].as_f64().unwrap_or(0.0);
        }
        let _ = fs::remove_dir_all(&into);
    }
    println!("{killed} of {kills} were in time, {calls} calls in what they left");
    assert!(killed * 2 >= kills && calls > 1e5, "{killed} of {kills} kills, {calls} calls");
}

#[test]
fn unsupported_call_traces_are_refused_with_the_reason() {
    let folder = TempDir::new().unwrap();
    let x86_64 = [0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 62, 0];
    let multiboot = [0x02, 0xb0, 0xad, 0x1b];
    let image = made(&folder, "kernel", &[&x86_64[..], &multiboot].concat());
    let disk = made(&folder, "disk.img", b"QFI\xfb");
    let (kernel, disk) = (image.to_str().unwrap(), disk.to_str().unwrap());
    let refused = |arguments: &[&str], words: &[&str]| {
        let into = folder.path().join("boot");
        run(bootscope("record").args(["--kernel", kernel, "-o"]).arg(&into).args(arguments)).refuses(words);
        assert!(!into.exists(), "nothing was begun");
    };
    refused(&["--trace", "calls", "--accel", "kvm"], &["--trace calls", "KVM", "--accel kvm"]);
    refused(&["--min-call", "1us"], &["--min-call", "--trace calls"]);
    refused(&["--deterministic", "--disk", disk], &["--deterministic", disk, "would not repeat"]);
    for (option, value) in [("-device", "e1000"), ("-nic", "user"), ("-device", "virtio-blk-pci,drive=x")] {
        let words = ["--deterministic", "block or network device", value, "would not repeat"];
        refused(&["--trace", "calls", "--deterministic", "--", option, value], &words);
    }
    let without_plugins = qemu_without_plugins(&folder);
    let qemu = without_plugins.to_str().unwrap();
    refused(&["--trace", "calls", "--qemu", qemu], &["--trace calls", "QEMU plugin", "plugin support is not enabled"]);
}

fn made(folder: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, bytes).unwrap();
    path
}

/// A program that answers like a QEMU built without plugins.
fn qemu_without_plugins(folder: &TempDir) -> PathBuf {
    let source = made(
        folder,
        "qemu.c",
        br#"#include <stdio.h>
#include <string.h>
int main(int n, char **a) {
    if (n > 1 && !strcmp(a[1], "--version")) return puts("QEMU emulator version 7.2.0") < 0;
    fputs("qemu: -plugin: plugin support is not enabled\n", stderr);
    return 1;
}"#,
    );
    let program = folder.path().join("qemu-without-plugins");
    assert!(Command::new("cc").arg("-o").arg(&program).arg(&source).status().unwrap().success());
    program
}
