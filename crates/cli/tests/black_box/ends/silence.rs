//! `record --silence`: locates a silent guest by stops of its vCPUs, on the reference kernel and on Linux, and the
//! messages if that fails.

use crate::support::boots::{QUIET, Scratch, evidence, kernel, kernels, manifest, record, recorded};
use crate::support::kills::{kill_qemu, wait_for};
use crate::support::lab::{built, record_lab};
use crate::support::{bootscope, list, ns, run, shown, text};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// The longest silence of a recording.
fn longest(recording: &Path) -> Value {
    longest_of(recording, |_| true)
}

/// The longest of the matching silences. On a busy host any other silence can be longer.
fn longest_of(recording: &Path, is_asked_for: impl Fn(&Value) -> bool) -> Value {
    let document = shown(recording);
    let silences = list(&document["silences"]["silences"]).iter().filter(|silence| is_asked_for(silence));
    let length = |silence: &&Value| ns(&silence["end_ns"]) - ns(&silence["start_ns"]);
    silences.max_by_key(length).unwrap_or_else(|| panic!("no silence: {}", document["silences"])).clone()
}

/// The functions that most stops of a silence found on the first CPU, innermost first.
fn stack(silence: &Value) -> Vec<&str> {
    list(&silence["where"][0]["stack"]).iter().map(|entry| text(&entry["name"])).collect()
}

/// The sources of the functions' names.
fn names(recording: &Path) -> String {
    list(&shown(recording)["silences"]["names"]).iter().map(text).collect::<Vec<_>>().join("\n")
}

/// Asserts that the stack contains these functions, in this order.
#[track_caller]
fn in_order(stack: &[&str], functions: &[&str]) {
    let places: Vec<Option<usize>> = functions.iter().map(|f| stack.iter().position(|entry| entry == f)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{functions:?} in {stack:?}");
}

#[test]
#[ignore = "a busy host changes what it sees: in make test-all"]
fn a_scripted_delay_of_the_lab_is_named_with_its_callers() {
    if !built() {
        return;
    }
    let scratch = Scratch::new();
    // In a SYSINIT, in a driver's attach, and in a mount, which is in another thread.
    for (word, functions) in [
        ("calibrate=delay", &["lab::clock::delay_us", "lab::sysinit::mi_startup", "kmain"][..]),
        ("delay.attach.uart0=900", &["lab::clock::delay_us", "lab::device::device_attach", "kmain"]),
        ("delay.mount.ramfs=900", &["lab::clock::delay_us", "lab::vfs::vfs_mount", "lab::thread::thread_entry"]),
    ] {
        let into = scratch.path(word);
        let mut command = record_lab(&into);
        command.args(["--memory", "128M", "--no-first-run", "--silence", "100ms", "--append", word]);
        recorded(&mut command, &into, "reached");
        let silence = longest(&into);
        // On a busy host a stop takes long, and the next one comes after ten times as long.
        assert!(ns(&silence["stops"]) >= 1, "{word}: {silence}");
        assert_eq!(silence["where"][0]["guessed"], false, "{word}");
        in_order(&stack(&silence), functions);
        assert!(!names(&into).contains("is not used"), "{}", names(&into));
        let printed = run(bootscope("show").arg(&into)).exits(0);
        assert!(printed.text().contains("the CPUs stood still for"), "{}", printed.text());
    }
}

#[test]
fn the_hash_that_is_resized_too_late_is_found_without_its_source() {
    if !built() {
        return;
    }
    let scratch = Scratch::new();
    let into = scratch.path("boot");
    let mut command = record_lab(&into);
    command.args(["--memory", "128M", "--no-first-run", "--silence", "40ms", "--append"]);
    command.args(["netboot=yes dma_buffers=many vmem_rescale=late", "--", "-device", "e1000,romfile="]);
    recorded(&mut command, &into, "reached");
    // The first function walks the chains, the second closes the card: illumos' vmem_hash_delete and i40e_m_stop.
    let (chains, closes) = ("vmem::hash::Hash::delete", "lab::em::stop");
    let silence = longest_of(&into, |silence| {
        list(&silence["where"]).first().is_some_and(|place| list(&place["stack"]).iter().any(|at| at["name"] == chains))
    });
    in_order(&stack(&silence), &[chains, closes, "kmain"]);
}

#[test]
#[ignore = "13 s: in make test-all"]
fn stops_take_a_deterministic_guest_no_time() {
    if !built() {
        return;
    }
    let scratch = Scratch::new();
    let total = |name: &str, flags: &[&str]| {
        let into = scratch.path(name);
        let mut command = record_lab(&into);
        command.args(["--memory", "128M", "--deterministic", "--append", "calibrate=delay"]).args(flags);
        recorded(&mut command, &into, "reached");
        (ns(&shown(&into)["total_ns"]), into)
    };
    let (plain, _) = total("plain", &[]);
    let (stopped, into) = total("stopped", &["--silence", "20ms"]);
    assert_eq!(plain, stopped);
    assert!(ns(&longest(&into)["stops"]) > 0);
}

#[test]
#[ignore = "15 s: in make test-all"]
fn a_stock_kernel_is_named_and_unwound_by_its_image_wherever_it_moved_itself() {
    // The tables of 6.1 and of 6.12 have different forms. A larger kernel unpacks itself for such a time that few stops
    // find it running.
    for kernel in kernels().into_iter().filter(|kernel| kernel.to_string_lossy().contains("cloud")) {
        let scratch = Scratch::new();
        let boot = |turn: u32| {
            let into = scratch.path(&format!("boot-{turn}"));
            recorded(record(&kernel, &into).args(["--silence", "100ms", "--append", QUIET]), &into, "reached");
            let names = names(&into);
            (into, names)
        };
        // The kernel is at one of some 480 places, and one of them is its link address.
        let is_moved = |names: &str| names.contains("moved by 0x");
        let (into, names) = (1..=2).map(boot).find(|(_, names)| is_moved(names)).unwrap_or_else(|| boot(3));
        assert!(is_moved(&names) && names.contains("calls seen on the stacks"), "{names}");
        assert!(names.contains("unwind tables (ORC)"), "{names}");
        let kept = evidence(&into, "silence.txt");
        let stacks = kept.split("\ncpu ").filter(|stack| stack.starts_with("0 in-kernel unwind-tables"));
        let outermost = |stack: &str| {
            let last = stack.lines().rfind(|line| line.starts_with("  "))?;
            last.split_whitespace().nth(1)?.split('+').next().map(str::to_owned)
        };
        let outermost: Vec<String> = stacks.filter_map(outermost).collect();
        // The start of the first CPU, of each thread, and of user space. 6.1 jumps to start_kernel, so it has no
        // caller. Linux gives an interrupt its own stack, whose outermost function switches to it. A truncated stack
        // ends earlier.
        let roots = ["start_kernel", "common_startup_64", "ret_from_fork", "ret_from_fork_asm"];
        let is_entry = |name: &str| ["asm_", "entry_", "sysvec_"].iter().any(|entry| name.starts_with(entry));
        let whole = outermost.iter().filter(|name| roots.contains(&name.as_str()) || is_entry(name)).count();
        assert!(whole >= 1 && whole * 2 > outermost.len(), "{}: {kept}", kernel.display());
    }
}

#[test]
fn names_of_another_kernel_are_refused_and_reported() {
    let Some(other) = kernels().into_iter().find(|other| Some(other) != kernel().as_ref()) else { return };
    let Some(kernel) = kernel() else { return };
    let scratch = Scratch::new();
    let into = scratch.path("boot");
    let mut command = record(&kernel, &into);
    command.args(["--silence", "100ms", "--append", &format!("{QUIET} nokaslr"), "--symbols"]).arg(&other);
    recorded(&mut command, &into, "reached");
    let document = shown(&into);
    let names: Vec<&str> = list(&document["silences"]["names"]).iter().map(text).collect();
    assert!(names[0].contains("is not used") && names[0].contains("of another build"), "{names:?}");
    assert!(!names[1].contains("is not used"), "the kernel's own image is: {names:?}");
}

#[test]
fn without_a_gdbstub_there_are_no_stops_but_a_boot() {
    if !built() {
        return;
    }
    let scratch = Scratch::new();
    let into = scratch.path("boot");
    let mut command = record_lab(&into);
    command.args(["--memory", "128M", "--no-first-run", "--silence", "100ms", "--append", "delay.mount.ramfs=900"]);
    recorded(command.args(["--", "-gdb", "none"]), &into, "reached");
    let silences = &shown(&into)["silences"];
    assert_eq!(longest(&into)["stops"], 0);
    assert!(ns(&longest(&into)["end_ns"]) - ns(&longest(&into)["start_ns"]) >= 800_000_000, "{silences}");
    let printed = run(bootscope("show").arg(&into)).exits(0);
    assert!(
        printed.text().contains("no stop was made") && !printed.text().contains("never silent"),
        "{}",
        printed.text()
    );
    assert!(text(&silences["notes"][0]).contains("the gdbstub "), "{silences}");
}

#[test]
fn stops_before_a_kill_of_qemu_are_kept() {
    if !built() {
        return;
    }
    let scratch = Scratch::new();
    let into = scratch.path("boot");
    let mut command = record_lab(&into);
    let name = scratch.folder().file_name().unwrap().to_str().unwrap();
    command.args(["--memory", "128M", "--no-first-run", "--silence", "100ms", "--hang-after", "60s", "--append"]);
    let mut recorder = command.args(["hang=mount.ramfs", "--", "-name", name]).spawn().unwrap();
    let hangs = || fs::read_to_string(into.join("console.log")).is_ok_and(|console| console.contains("hang: at"));
    wait_for(hangs);
    // The first stop is after 100 ms, and later on a busy host.
    std::thread::sleep(Duration::from_secs(3));
    kill_qemu(name);
    assert_eq!(recorder.wait().unwrap().code(), Some(1));
    assert_eq!(manifest(&into)["outcome"]["kind"], "vmm-failed");
    in_order(&stack(&longest(&into)), &["lab::vfs::vfs_mount", "lab::thread::thread_entry"]);
}

#[test]
fn too_short_a_silence_is_refused() {
    if !built() {
        return;
    }
    let scratch = Scratch::new();
    let mut command = record_lab(&scratch.path("boot"));
    run(command.args(["--silence", "1ms"])).refuses(&["--silence is 1 ms", "at least 10ms"]);
}
