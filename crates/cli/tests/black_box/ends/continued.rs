//! `bench --continue`: a killed bench is resumed as it was begun, and refused if its inputs changed. The reference
//! kernel is booted deterministically, so the results can be compared with an uninterrupted bench.

use crate::support::boots::Scratch;
use crate::support::kills::{assert_no_qemu, wait_for};
use crate::support::schemas::Schemas;
use crate::support::{bootscope, list, ns, run, skip};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn lab() -> Option<PathBuf> {
    let lab = std::env::var_os("BOOTSCOPE_LIB").map(|lib| Path::new(&lib).join("lab")).filter(|lab| lab.is_file());
    if lab.is_none() {
        skip("BOOTSCOPE_LIB has no lab");
    }
    lab
}

/// Four rounds of two variants. Their QEMUs have a unique name.
fn bench(kernel: &Path, initrd: &Path, into: &Path, name: &str) -> Command {
    let mut command = bootscope("bench");
    command.args(["--accel", "tcg", "--init", "keep", "--until", "^init: done", "--memory", "128M", "--deterministic"]);
    command.args(["--runs", "4", "--warm-ups", "1", "--seed", "5", "--vary", "append=delay.vm_mem=1", "--no-history"]);
    command.arg("--kernel").arg(kernel).arg("--initrd").arg(initrd).arg("-o").arg(into).args(["--", "-name", name]);
    command
}

fn resume(folder: &Path) -> Command {
    let mut command = bootscope("bench");
    command.args(["--json", "--no-history", "--continue"]).arg(folder);
    command
}

fn boots_in(folder: &Path) -> usize {
    let text = fs::read_to_string(folder.join("bench.jsonl")).unwrap_or_default();
    text.lines().filter(|line| line.starts_with("{\"number\"")).count()
}

/// Begins a bench, and kills it (-9) after this number of finished boots.
fn killed(mut command: Command, into: &Path, name: &str, after: usize) {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for(|| boots_in(into) >= after);
    run(&mut resume(into)).refuses(&["still running"]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_no_qemu(name);
}

/// Each boot with its variant and its length.
fn order(document: &Value) -> Vec<(i64, Value, i64, i64)> {
    let one = |boot: &Value| (ns(&boot["number"]), boot["round"].clone(), ns(&boot["variant"]), ns(&boot["total_ns"]));
    list(&document["boots"]).iter().map(one).collect()
}

#[test]
fn a_resumed_bench_equals_an_uninterrupted_one() {
    let Some(lab) = lab() else { return };
    let scratch = Scratch::new();
    let (kernel, initrd) = (scratch.path("kernel"), scratch.path("initrd"));
    fs::copy(&lab, &kernel).unwrap();
    fs::write(&initrd, "an initrd").unwrap();
    let name = format!("bootscope-test-{}-continued", std::process::id());

    let (whole, cut) = (scratch.path("whole"), scratch.path("cut"));
    run(&mut bench(&kernel, &initrd, &whole, &name)).exits(0);
    let whole = run(bootscope("show").arg("--json").arg(&whole)).exits(0).json();
    assert_eq!(order(&whole).len(), 10);

    killed(bench(&kernel, &initrd, &cut, &name), &cut, &name, 3);
    let over = boots_in(&cut);
    assert!(over < 10, "it was killed too late");
    let before = fs::read_to_string(cut.join("bench.jsonl")).unwrap();

    // A changed input is named in the refusal, and no file changes.
    let was = fs::read(&kernel).unwrap();
    fs::write(&kernel, [&was[..], b"x"].concat()).unwrap();
    run(&mut resume(&cut)).refuses(&["the kernel", kernel.to_str().unwrap(), "another content", "SHA-256"]);
    fs::write(&kernel, &was).unwrap();
    fs::write(&initrd, "another initrd").unwrap();
    run(&mut resume(&cut)).refuses(&["the initrd", initrd.to_str().unwrap(), "another content"]);
    fs::remove_file(&initrd).unwrap();
    run(&mut resume(&cut)).refuses(&["initrd"]);
    fs::write(&initrd, "an initrd").unwrap();
    run(resume(&cut).args(["--append", "quiet"])).refuses(&["--append"]);
    run(resume(&cut).args(["--runs", "9"])).refuses(&["--runs"]);
    fs::write(cut.join("bench.jsonl"), before.replacen("\"cores\":", "\"cores\":1", 1)).unwrap();
    run(&mut resume(&cut)).refuses(&["the host's number of CPUs was"]);
    fs::write(cut.join("bench.jsonl"), before.replacen("\"seed\":5", "\"seed\":6", 1)).unwrap();
    run(&mut resume(&cut)).refuses(&["plan"]);
    fs::write(cut.join("bench.jsonl"), &before).unwrap();

    let document = run(&mut resume(&cut)).exits(0).json();
    Schemas::read().check(&document);
    assert_eq!(order(&document), order(&whole), "the same order, and in virtual time the same boots");
    assert_eq!((&document["plan"], &document["ended"]), (&whole["plan"], &whole["ended"]));
    assert_eq!(list(&document["continued"]).iter().map(ns).collect::<Vec<i64>>(), [over as i64]);
    let lines = fs::read_to_string(cut.join("bench.jsonl")).unwrap();
    assert!(lines.starts_with(before.rsplit_once('\n').unwrap().0), "what was kept is as it was");
    assert!(!cut.join("boots").exists(), "the half recording of the boot that was killed is gone");
    let again = run(bootscope("show").arg(&cut)).exits(0);
    assert!(again.text().contains(&format!("cut off after {over} boots")), "{}", again.text());
    run(&mut resume(&cut)).refuses(&["finished"]);
    run(&mut resume(scratch.folder())).refuses(&["no bench"]);
}
