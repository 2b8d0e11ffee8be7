//! The kernel boots on every supported machine, with each value of each switch. After any end of the boot, the log is in its
//! memory.

use crate::support::{DONE, Machine, PANICKED, kernel};
use lab::places::{is_place, names};
use lab::switches::{Kind, SWITCHES};
use std::collections::BTreeSet;

#[test]
fn every_machine_boots_to_user_space() {
    let Some(kernel) = kernel() else { return };
    for name in ["pc", "q35", "microvm"] {
        let boot = Machine::new(name).boot(&kernel, "");
        assert_eq!(boot.status, DONE, "{name}: {}", boot.console);
        assert!(boot.console.contains("init: hello from user space"), "{name}: {}", boot.console);
        assert!(boot.log.lines().any(|line| line.ends_with("EXIT start_init")), "{name}: {}", boot.log);
    }
}

#[test]
fn from_one_cpu_to_sixteen_and_from_32_mib_to_8_gib() {
    let Some(kernel) = kernel() else { return };
    for (cpus, memory_mib) in [(1, 32), (1, 64), (2, 128), (16, 128), (1, 8192)] {
        for name in ["pc", "q35"] {
            let mut machine = Machine::new(name);
            (machine.cpus, machine.memory_mib) = (cpus, memory_mib);
            let boot = machine.boot(&kernel, "");
            assert_eq!(boot.status, DONE, "{name}: {cpus} CPUs, {memory_mib} MiB: {}", boot.console);
            assert!(boot.console.contains(&format!("SMP: {cpus} CPUs")), "{name}: {}", boot.console);
        }
    }
}

#[test]
fn two_boots_have_the_same_log_to_the_byte() {
    let Some(kernel) = kernel() else { return };
    let boot = || Machine::deterministic().boot(&kernel, "usb=yes root_wait=all delay.thread.usbus0=20 log=text");
    let (one, other) = (boot(), boot());
    assert!(one.log == other.log, "the logs differ:\n{}\n{}", one.log, other.log);
    assert!(one.console == other.console, "the consoles differ:\n{}\n{}", one.console, other.console);
    // The log that the kernel prints equals the log that the host reads from memory.
    let printed = one.console.split_once("tslog: begin\n").unwrap().1.split_once("tslog: end\n").unwrap().0;
    assert!(one.log.starts_with(printed), "printed:\n{printed}\nin memory:\n{}", one.log);
}

#[test]
fn a_plain_boot_is_quick_and_the_kernel_small() {
    let Some(kernel) = kernel() else { return };
    let boot = Machine::deterministic().boot(&kernel, "");
    // A tick is a nanosecond of guest time, and zero is power-on.
    let to_user_space_ns = boot.ticks_at("EXIT start_init");
    let bytes = std::fs::metadata(&kernel).unwrap().len();
    println!("power-on to user space {to_user_space_ns} ns, kernel {bytes} bytes");
    assert!(to_user_space_ns < 100_000_000, "{to_user_space_ns} ns");
    assert!(bytes < 2 << 20, "{bytes} bytes");
}

#[test]
#[ignore = "144 s: in make test-all"]
fn every_value_of_every_switch_boots() {
    let Some(kernel) = kernel() else { return };
    let all: Vec<String> = SWITCHES
        .iter()
        .flat_map(|switch| switch.values.iter().map(|value| format!("{}={value}", switch.name)))
        .collect();
    for word in all.iter().chain(&["hz=1000".to_owned(), "bind=tick preempt=voluntary".to_owned()]) {
        let boot = Machine::deterministic().with(&["-vga", "std"]).boot(&kernel, word);
        assert_eq!(boot.status, DONE, "{word}: {}", boot.console);
        assert!(!boot.console.contains("not understood"), "{word}: {}", boot.console);
    }
}

/// The beginning of each kind of place in the log. Stages are not in the log; bootscope's tests reach each of them by `panic=`.
const LOGGED: [(Kind, &str); 5] = [
    (Kind::Sysinit, "ENTER SYSINIT "),
    (Kind::Probe, "ENTER DEVICE_PROBE "),
    (Kind::Attach, "ENTER DEVICE_ATTACH "),
    (Kind::Mount, "ENTER VFS_MOUNT "),
    (Kind::Thread, "THREAD "),
];

#[test]
fn every_place_is_in_the_list_and_every_place_of_the_list_is_passed() {
    let Some(kernel) = kernel() else { return };
    // A boot has its root on one kind of device.
    let logs = ["memory", "ufs", "zfs"].map(|on| {
        let words = "usb=yes nic=yes chain=yes messages=1 vm_page=lazy bind=hrtimer sched_cost=yes pci=parallel";
        Machine::deterministic()
            .with(&["-vga", "std", "-device", "nvme,serial=lab", "-device", "e1000,romfile="])
            .boot(&kernel, &format!("{words} root_on={on}"))
            .log
    });
    let passed = |kind: &str| -> BTreeSet<&str> {
        let lines = logs.iter().flat_map(|log| log.lines());
        lines.filter_map(|line| line.splitn(3, ' ').nth(2)?.strip_prefix(kind)).collect()
    };
    for (kind, logged) in LOGGED {
        let passed = passed(logged);
        // The boot's thread and the schedulers have no entry function, so they are not places.
        let places = passed.iter().filter(|name| **name != "thread0" && !name.starts_with("idle:"));
        for name in places {
            assert!(is_place(&format!("{}.{name}", kind.as_str())), "{} {name} is in no list", kind.as_str());
        }
        // These boots have no initrd, and not every driver finds its device.
        let is_missed = |name: &&&str| kind != Kind::Attach && **name != "initrd" && !passed.contains(**name);
        assert_eq!(names(kind).iter().find(is_missed), None, "a boot passes no such {}", kind.as_str());
    }
}

#[test]
fn what_is_not_understood_is_printed_and_the_boot_goes_on() {
    let Some(kernel) = kernel() else { return };
    let boot = Machine::deterministic().boot(&kernel, "aps=fast foo");
    assert_eq!(boot.status, DONE);
    assert!(boot.console.starts_with("command line: not understood: aps=fast\ncommand line: not understood: foo\n"));
}

#[test]
#[ignore = "18 s: in make test-all"]
fn a_full_log_counts_what_it_drops_and_the_boot_goes_on() {
    let Some(kernel) = kernel() else { return };
    let boot = Machine::new("q35").boot(&kernel, "messages=140000");
    assert_eq!(boot.status, DONE);
    // Two events per message, and 262 144 slots.
    assert!((17_856..19_000).contains(&boot.dropped), "{} dropped", boot.dropped);
    assert!(boot.last_line().ends_with(&format!("TSLOG dropped {}", boot.dropped)));
}

#[test]
fn without_acpi_there_is_one_cpu() {
    let Some(kernel) = kernel() else { return };
    let mut machine = Machine::new("pc,acpi=off");
    machine.cpus = 2;
    let boot = machine.boot(&kernel, "");
    assert_eq!(boot.status, DONE, "{}", boot.console);
    assert!(boot.console.contains("SMP: 1 CPUs"), "{}", boot.console);
}

/// True if a time agrees with the script to 10 µs, or to a thousandth. Timer interrupts and thread switches lengthen a long
/// delay.
fn is_near(took_ns: u64, scripted_ns: u64) -> bool {
    took_ns.abs_diff(scripted_ns) <= 10_000.max(scripted_ns / 1000)
}

#[test]
fn a_scripted_delay_is_in_its_place() {
    let Some(kernel) = kernel() else { return };
    let plain = Machine::deterministic().boot(&kernel, "");
    let script = "delay.clocks=7 delay.probe.uart=3 delay.attach.uart0=250us delay.mount.ramfs=4 delay.stage.paging=2";
    let slow = Machine::deterministic().boot(&kernel, script);
    let check = |from: &str, to: &str, added_ns: u64| {
        let added = slow.ticks_between(from, to) - plain.ticks_between(from, to);
        assert!(is_near(added, added_ns), "{from}: {added} ns, not {added_ns}");
    };
    check("ENTER DEVICE_PROBE uart", "EXIT DEVICE_PROBE uart", 3_000_000);
    check("ENTER DEVICE_ATTACH uart0", "EXIT DEVICE_ATTACH uart0", 250_000);
    check("ENTER VFS_MOUNT ramfs", "EXIT VFS_MOUNT ramfs", 4_000_000);
    check("ENTER hammer_time", "EXIT hammer_time", 2_000_000);
}

#[test]
fn waits_and_holds_are_in_the_log() {
    let Some(kernel) = kernel() else { return };
    let script = "usb=yes root_wait=all delay.thread.usbus0=200 delay.thread.xpt_thrd=30 delay.thread.g_event=90";
    let boot = Machine::deterministic().boot(&kernel, script);
    for topic in ["config hooks", "events", "root mount", "aps"] {
        let wait = boot.ticks_between(&format!("WAIT {topic}"), &format!("UNWAIT {topic}"));
        println!("{topic}: waited {wait} ns");
    }
    let waited = boot.ticks_between("THREAD xpt_thrd", "UNWAIT config hooks");
    assert!(is_near(waited, 30_000_000), "{waited}");
    let waited = boot.ticks_between("THREAD usbus0", "UNWAIT root mount");
    assert!(is_near(waited, 200_000_000), "{waited}");
}

/// Places of each kind, and the log's last event there.
const PLACES: [(&str, &str); 8] = [
    ("stage.pit", "ENTER hammer_time"),
    ("stage.paging", "ENTER hammer_time"),
    ("stage.keyboard", "ENTER hammer_time"),
    ("sysinit.vm_mem", "ENTER SYSINIT vm_mem"),
    ("probe.uart", "ENTER DEVICE_PROBE uart"),
    ("attach.uart0", "ENTER DEVICE_ATTACH uart0"),
    ("mount.ramfs", "ENTER VFS_MOUNT ramfs"),
    ("thread.init", "THREAD init"),
];

#[test]
#[ignore = "12 s: in make test-all"]
fn a_panic_anywhere_leaves_the_log() {
    let Some(kernel) = kernel() else { return };
    for (place, last) in PLACES {
        let boot = Machine::deterministic().boot(&kernel, &format!("panic={place}"));
        assert_eq!(boot.status, PANICKED, "{place}: {}", boot.console);
        assert!(boot.console.contains("panic: cpu 0"), "{place}: {}", boot.console);
        assert!(boot.log.lines().any(|line| line.ends_with(last)), "{place}: {}", boot.log);
        assert!(boot.last_line().ends_with("EVENT panic"), "{place}: {}", boot.log);
    }
}

#[test]
#[ignore = "12 s: in make test-all"]
fn a_fault_is_a_panic_or_before_that_a_triple_fault_and_leaves_the_log() {
    let Some(kernel) = kernel() else { return };
    for (place, last) in PLACES {
        let boot = Machine::deterministic().boot(&kernel, &format!("fault={place}"));
        if place == "stage.pit" {
            // There is no handler yet: the machine resets, which ends QEMU.
            assert_eq!(boot.status, Some(0), "{place}: {}", boot.console);
        } else {
            assert_eq!(boot.status, PANICKED, "{place}: {}", boot.console);
            assert!(boot.console.contains("trap: invalid opcode (vector 6"), "{place}: {}", boot.console);
        }
        assert!(boot.log.lines().any(|line| line.ends_with(last)), "{place}: {}", boot.log);
    }
}

#[test]
fn a_hang_with_interrupts_off_leaves_the_log() {
    let Some(kernel) = kernel() else { return };
    for (place, last) in PLACES {
        let kind = place.split_once('.').unwrap().0;
        let line = format!("hang: at {}", place.replacen('.', " ", 1));
        let boot = Machine::new("pc").boot_until(&kernel, &format!("hang={place}"), |console| console.contains(&line));
        assert_eq!(boot.status, None, "{kind}: {}", boot.console);
        assert!(boot.log.lines().any(|line| line.ends_with(last)), "{place}: {}", boot.log);
        assert!(!boot.log.contains("EXIT start_init"), "{place}: {}", boot.log);
    }
}
