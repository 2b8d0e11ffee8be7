//! `record --patch` and `try --patch`: changes to the code of a running guest, on the reference kernel and on Linux,
//! and the errors for patches that do not fit. The tests find the offsets of calls in the program's own error messages.

use crate::support::boots::{QUIET, Scratch, evidence, kernel, kernels, manifest, record, recorded};
use crate::support::lab::{built, record_lab};
use crate::support::{bootscope, list, ns, run, shown, text};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The published slow boot of illumos: a driver frees its buffers before the hash is resized.
const SLOW: &str = "netboot=yes dma_buffers=many vmem_rescale=late pci_wait=sleep";

fn slow(into: &Path, flags: &[&str]) -> Command {
    let mut command = record_lab(into);
    command.args(["--memory", "128M", "--no-first-run", "--append", SLOW]).args(flags);
    command.args(["--", "-device", "e1000,romfile="]);
    command
}

/// The offset of a function's call to another, from the error for an offset without a call.
fn call(refused: &mut Command, function: &str, callee: &str) -> String {
    let output = run(refused.arg(format!("--patch=call@{function}+0x1=nop"))).exits(2).stderr;
    let calls = output.split_once("calls are at ").unwrap_or_else(|| panic!("no calls in {output}")).1;
    let mut calls = calls.split(", ").filter_map(|one| one.trim().split_once(" ("));
    let offset = calls.find(|(_, name)| name.trim_end_matches([')', '\n']) == callee);
    format!("call@{function}{}", offset.unwrap_or_else(|| panic!("no {callee} in {output}")).0)
}

/// The number of segments passed in the hash's chains, as the driver printed it.
fn chain_steps(recording: &Path) -> u64 {
    let console = evidence(recording, "console.log");
    let line = console.lines().find(|line| line.contains("chain steps")).unwrap_or_else(|| panic!("{console}"));
    line.split(' ').rev().nth(2).and_then(|steps| steps.parse().ok()).unwrap_or_else(|| panic!("{line}"))
}

#[test]
fn an_earlier_call_removes_the_half_hour() {
    if !built() {
        return;
    }
    let scratch = Scratch::new();
    let place = call(&mut record_lab(&scratch.path("none")), "lab::em::attach", "lab::em::reset");
    let patch = format!("{place}=lab::vmem::late");
    let (before, after) = (scratch.path("before"), scratch.path("after"));
    recorded(&mut slow(&before, &["--deterministic"]), &before, "reached");
    recorded(&mut slow(&after, &["--deterministic", "--patch", &patch]), &after, "reached");
    let (slow_steps, fast_steps) = (chain_steps(&before), chain_steps(&after));
    assert!(slow_steps > 10_000_000 && fast_steps * 100 < slow_steps, "{slow_steps} and {fast_steps}");
    let notes = manifest(&after)["notes"].to_string();
    assert!(notes.contains(&patch) && notes.contains("became e8"), "{notes}");
    assert_eq!(manifest(&after)["how"]["patches"][0], patch.as_str());
    let total = |recording| ns(&shown(recording)["total_ns"]);
    let saved = total(&before) - total(&after);
    assert!(saved * 2 > total(&before), "{saved} ns of {}", total(&before));

    let tried = scratch.path("try");
    let mut command = bootscope("try");
    command.arg(&before).args(["--patch", &patch, "--runs", "1", "--no-history", "--json", "-o"]).arg(&tried);
    let tried = run(&mut command).exits(0);
    let remedy = &tried.json()["remedies"][0];
    assert_eq!(remedy["verdict"], "confirmed", "{remedy}");
    assert_eq!((text(&remedy["changes"][0]["kind"]), text(&remedy["changes"][0]["to"][0])), ("patch", patch.as_str()));
    assert!(tried.stderr.contains("became e8"), "{}", tried.stderr);
}

#[test]
fn unfit_patches_are_refused_before_any_boot() {
    if !built() {
        return;
    }
    let scratch = Scratch::new();
    let into = scratch.path("none");
    for (patch, words) in [
        ("call@lab::em::attach+0x0=nop", &["no call", "the function's calls are at"][..]),
        ("call@lab::em::attach+0xffff=nop", &["bytes long"]),
        ("call@lab::em::attash+0x1=nop", &["no function is called", "lab::em::attach"]),
        ("bytes@lab::em::attach+0x0=00:90", &["the kernel's image has ", ", not 00"]),
        ("call@lab::em::attach=nop", &["how far", "write call@FUNC+0x41=nop"]),
    ] {
        run(record_lab(&into).args(["--patch", patch])).refuses(words);
        assert!(!into.exists());
    }
    let kept = scratch.path("kept");
    let mut command = record_lab(&kept);
    recorded(command.args(["--memory", "128M", "--no-first-run", "--deterministic"]), &kept, "reached");
    let mut command = bootscope("try");
    command.arg(&kept).args(["--patch", "call@lab::em::attach+0x0=nop", "--no-history", "-o"]).arg(&into);
    run(&mut command).refuses(&["no call"]);
    let mut command = bootscope("try");
    run(command.arg(&kept).args(["--claim", "1ms"])).refuses(&["--append, --patch or --config"]);
}

#[test]
fn linux_is_patched_where_its_function_is_entered() {
    let Some(kernel) = kernel() else { return };
    let scratch = Scratch::new();
    let into = scratch.path("boot");
    let place = call(&mut record(&kernel, &scratch.path("none")), "start_kernel", "_printk");
    let mut command = record(&kernel, &into);
    recorded(command.args(["--append", QUIET, "--patch", &format!("{place}=nop")]), &into, "reached");
    let output = evidence(&into, "kmsg.log");
    assert!(
        !output.contains("Linux version") && output.contains("Command line"),
        "the banner is not printed: {output}"
    );
    let notes = manifest(&into)["notes"].to_string();
    assert!(notes.contains("became 90 90 90 90 90, when start_kernel was entered"), "{notes}");
}

/// The outcome's detail of a boot whose patch was not written.
fn unpatched(command: &mut Command, into: &Path) -> String {
    recorded(command, into, "unpatched");
    text(&manifest(into)["outcome"]["detail"]).to_owned()
}

#[test]
fn a_changed_place_is_refused_and_an_unreached_one_is_reported() {
    let Some(kernel) = kernel() else { return };
    let scratch = Scratch::new();
    let into = scratch.path("changed");
    let mut command = record(&kernel, &into);
    // The call of the tracer, which the kernel replaces early.
    let detail = unpatched(command.args(["--append", QUIET, "--patch", "call@kernel_init_freeable+0x0=nop"]), &into);
    assert!(detail.contains("changed it since it was loaded") && detail.contains("bytes@kernel_init"), "{detail}");
    let into = scratch.path("never");
    let place = call(&mut record(&kernel, &scratch.path("none")), "panic", "__fentry__");
    let detail = unpatched(record(&kernel, &into).args(["--append", QUIET, "--patch", &format!("{place}=nop")]), &into);
    assert!(detail.contains("never came to panic at 0x"), "{detail}");
}

#[test]
fn symbols_of_another_kernel_are_refused() {
    let Some(other) = kernels().into_iter().find(|other| Some(other) != kernel().as_ref()) else { return };
    let Some(kernel) = kernel() else { return };
    let scratch = Scratch::new();
    let mut command = record(&kernel, &scratch.path("none"));
    command.args(["--patch", "call@start_kernel+0x0=nop", "--symbols"]).arg(&other);
    run(&mut command).refuses(&["start_kernel is at", "another kernel"]);
}

#[test]
fn without_a_gdbstub_the_boot_is_unpatched() {
    if !built() {
        return;
    }
    let scratch = Scratch::new();
    let into = scratch.path("boot");
    let place = call(&mut record_lab(&scratch.path("none")), "lab::em::attach", "lab::em::reset");
    let mut command = record_lab(&into);
    command.args(["--memory", "128M", "--no-first-run", "--patch", &format!("{place}=nop")]);
    let detail = unpatched(command.args(["--", "-gdb", "none"]), &into);
    assert!(detail.contains("the gdbstub "), "{detail}");
    let manifest = manifest(&into);
    assert!(!list(&manifest["notes"]).iter().any(|note| text(note).contains("became")), "{manifest}");
}

#[test]
#[ignore = "measures by the host's clock: in make test-all"]
fn a_variable_of_linux_is_read_where_functions_are_entered() {
    let Some(kernel) = kernel() else { return };
    let scratch = Scratch::new();
    let into = scratch.path("boot");
    let mut command = record(&kernel, &into);
    // SYSTEM_SCHEDULING, then SYSTEM_FREEING_INITMEM: include/linux/kernel.h.
    let watch = "system_state:4@kernel_init_freeable,free_initmem";
    recorded(command.args(["--append", QUIET, "--watch", watch]), &into, "reached");
    let file = evidence(&into, "watch.txt");
    let stops: Vec<Vec<&str>> =
        file.lines().filter(|line| !line.starts_with('#')).map(|line| line.split(' ').skip(2).collect()).collect();
    assert_eq!(stops, [["1", "kernel_init_freeable"], ["2", "free_initmem"]], "{file}");
    let watched = &shown(&into)["watched"];
    assert_eq!(watched["variable"], "system_state:4");
    let output: Vec<(i64, &str)> =
        list(&watched["readings"]).iter().map(|one| (ns(&one["value"]), text(&one["function"]))).collect();
    assert_eq!(output, [(1, "kernel_init_freeable"), (2, "free_initmem")], "{watched}");
    let times: Vec<i64> = list(&watched["readings"]).iter().map(|one| ns(&one["at_ns"])).collect();
    assert!(times[0] < times[1] && times[1] < ns(&shown(&into)["total_ns"]), "{watched}");
    assert!(ns(&watched["stood_ns"]) > 0 && watched["stood_in_total"] == true, "{watched}");
    let printed = run(bootscope("show").arg(&into)).exits(0);
    let output = printed.text().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(output.contains("where functions were entered system_state:4"), "{output}");
    assert!(output.contains(" 1 kernel_init_freeable") && output.contains(" 2 free_initmem"), "{output}");
    let export = scratch.path("boot.pftrace");
    run(bootscope("export").args(["--to", "perfetto", "-o"]).arg(&export).arg(&into)).exits(0);
    let has_counter = fs::read(&export).unwrap().windows(14).any(|bytes| bytes == b"system_state:4");
    assert!(has_counter, "the variable is a track");
}

#[test]
fn a_growing_counter_of_the_reference_kernel_is_watched() {
    if !built() {
        return;
    }
    let scratch = Scratch::new();
    let into = scratch.path("boot");
    let watch = "lab::vmem::CHAIN_STEPS@lab::em::stop,lab::vmem::late";
    recorded(&mut slow(&into, &["--deterministic", "--watch", watch]), &into, "reached");
    let watched = &shown(&into)["watched"];
    let values: Vec<i64> = list(&watched["readings"]).iter().map(|one| ns(&one["value"])).collect();
    // It is read before the card is closed, and after all drivers have attached. The driver prints it too.
    let steps = i64::try_from(chain_steps(&into)).unwrap();
    assert!(steps > 10_000_000, "{steps}");
    assert_eq!(values, [0, steps], "{watched}");
    assert_eq!(watched["stood_in_total"], false, "the guest's clock stands with it");
    // A boot can watch a variable or stop in silences, not both.
    let silent = scratch.path("silent");
    let mut command = bootscope("record");
    recorded(command.arg("--like").arg(&into).args(["--silence", "100ms", "-o"]).arg(&silent), &silent, "reached");
    assert!(shown(&silent)["watched"].is_null() && !shown(&silent)["silences"].is_null());
    let printed = run(bootscope("show").arg(&into)).exits(0);
    assert!(printed.text().contains("by the host's clock"), "{}", printed.text());
}

#[test]
fn without_a_gdbstub_a_variable_is_not_read_and_the_boot_goes_on() {
    if !built() {
        return;
    }
    let scratch = Scratch::new();
    let into = scratch.path("boot");
    let mut command = record_lab(&into);
    command.args([
        "--memory",
        "128M",
        "--no-first-run",
        "--watch",
        "lab::vmem::CHAIN_STEPS@lab::device::device_attach",
    ]);
    recorded(command.args(["--", "-gdb", "none"]), &into, "reached");
    let notes = manifest(&into)["notes"].to_string();
    assert!(notes.contains("--watch ended early: ") && notes.contains("record once more"), "{notes}");
    let printed = run(bootscope("show").arg(&into)).exits(0);
    assert!(printed.text().contains("--watch ended early: "), "{}", printed.text());
}

#[test]
fn overhead_is_not_measured_with_a_patch() {
    if !built() {
        return;
    }
    let scratch = Scratch::new();
    let place = call(&mut record_lab(&scratch.path("none")), "lab::em::attach", "lab::em::reset");
    let mut command = bootscope("record");
    command.args(["--lab", "--accel", "tcg", "--overhead", "2", "--patch", &format!("{place}=nop")]);
    run(&mut command).refuses(&["a plain boot has no gdbstub", "leave out --patch"]);
}

#[test]
fn unfit_variables_are_refused() {
    let Some(kernel) = kernel() else { return };
    let scratch = Scratch::new();
    let into = scratch.path("none");
    for (watch, words) in [
        ("system_stat:4@start_kernel", &["no variable is called", "system_state"][..]),
        ("system_state@start_kernel", &["how many bytes", "system_state:8"]),
        ("system_state:4@start_kernal", &["no function is called", "start_kernel"]),
        ("system_state:3@start_kernel", &["1, 2, 4 or 8"]),
        ("no_such_counter:8@start_kernel", &["no variable is called no_such_counter", "kernel's image"]),
        ("0xffffffff82000000@start_kernel", &["how many bytes"]),
        ("runqueues:8@start_kernel", &["each CPU has its own runqueues", "'__per_cpu_offset:8@FUNC'"]),
        ("init_task.pid@start_kernel", &["no file has debug information", "--symbols vmlinux"]),
        ("system_state:4@schedule,panic,start_kernel,kernel_init_freeable,free_initmem", &["5 functions", "stop at 4"]),
    ] {
        run(record(&kernel, &into).args(["--watch", watch])).refuses(words);
        assert!(!into.exists());
    }
    let Some(other) = kernels().into_iter().find(|other| *other != kernel) else { return };
    let mut command = record(&kernel, &into);
    command.args(["--watch", "system_state:4@start_kernel", "--symbols"]).arg(&other);
    run(&mut command).refuses(&["start_kernel is at", "another kernel"]);
}
