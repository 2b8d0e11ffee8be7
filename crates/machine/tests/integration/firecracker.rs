//! Boots in Firecracker: the recorded evidence, the outcomes, and the refused options.
//!
//! The guest is small and runs even if KVM interprets a kernel's instructions: it prints, writes to Firecracker's boot timer and resets.
//! `BOOTSCOPE_TEST_FIRECRACKER` names the program; without it, `$PATH` is searched.

use std::path::PathBuf;

use crate::common::small::{Boot, guest, program};
use machine::VmmKind;
use recording::OutcomeKind;

/// `mov byte [0xc0000000], 123`: the write that triggers Firecracker's boot timer.
const BOOTED: [u8; 7] = [0xc6, 0x05, 0x00, 0x00, 0x00, 0xc0, 123];
/// `mov al, 0xfe; out 0x64, al`: a reset by the keyboard controller.
const RESET: [u8; 4] = [0xb0, 0xfe, 0xe6, 0x64];
/// `ud2` without an interrupt table.
const FAULT: [u8; 2] = [0x0f, 0x0b];

/// The Firecracker to test with; `None` if it or KVM is missing.
fn firecracker() -> Option<PathBuf> {
    program("firecracker", "BOOTSCOPE_TEST_FIRECRACKER")
}

#[test]
fn a_guest_is_recorded_to_its_end_mark() {
    let Some(program) = firecracker() else { return };
    let boot = Boot::of(VmmKind::Firecracker, program, &guest("first\nthe guest is up\n", &[]), "the guest is up");
    let recorded = boot.recorded();
    assert_eq!(recorded.outcome.kind, OutcomeKind::Reached, "{:?}", recorded.outcome);
    assert_eq!(boot.text("console.log"), "first\nthe guest is up\n");
    let log = boot.text("vmm.log");
    assert!(log.contains("API server started") && log.contains("event_end: boot microvm"), "{log}");
    let manifest = &recorded.manifest;
    assert_eq!((&*manifest.subject.machine, &*manifest.subject.accelerator), ("firecracker", "kvm"));
    for request in ["PUT /boot-source", "PUT /actions"] {
        assert!(
            manifest.vmm.command.iter().any(|word| word.starts_with(request)),
            "{request}: {:?}",
            manifest.vmm.command
        );
    }
    assert!(manifest.notes.iter().any(|note| note.contains("shows no guest memory")), "{:?}", manifest.notes);
    let marks: serde_json::Value = serde_json::from_str(&boot.text("vmm.json")).unwrap();
    let marks = marks.as_array().unwrap();
    let names: Vec<&str> = marks.iter().map(|mark| mark["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["executed", "monitor ready", "machine complete", "first instruction"]);
    let times: Vec<i64> = marks.iter().map(|mark| mark["at_ns"].as_i64().unwrap()).collect();
    assert!(times.is_sorted() && times[0] > 0, "{times:?}");
    let end_ns = recorded.end.as_ref().unwrap().at_ns;
    // The guest may print before the start is answered, but not before the machine is complete. Both may be received at once.
    assert!(end_ns >= times[2], "{end_ns}: {times:?}");
    println!("executed, ready, complete, started, end mark, in ns: {times:?} {end_ns}");
}

#[test]
fn the_boot_timer_is_an_end_mark() {
    let Some(program) = firecracker() else { return };
    let boot = Boot::of(VmmKind::Firecracker, program, &guest("starting\n", &BOOTED), "Guest-boot-time");
    let recorded = boot.recorded();
    assert_eq!(recorded.outcome.kind, OutcomeKind::Reached, "{:?}", recorded.outcome);
    let what = &recorded.end.as_ref().unwrap().what;
    assert!(what.starts_with("Guest-boot-time =") && what.contains(" us "), "{what}");
}

#[test]
fn a_reset_and_a_fault_are_told_apart() {
    let Some(program) = firecracker() else { return };
    for (then, kind, why) in [
        (&RESET[..], OutcomeKind::Reset, "the guest reset the machine"),
        (&FAULT[..], OutcomeKind::VmmFailed, "a vCPU could not go on"),
    ] {
        let boot = Boot::of(VmmKind::Firecracker, program.clone(), &guest("starting\n", then), "never");
        let outcome = &boot.recorded().outcome;
        println!("{}: {}", outcome.kind.as_str(), outcome.detail);
        assert_eq!(outcome.kind, kind, "{}", outcome.detail);
        assert!(outcome.detail.contains(why), "{}", outcome.detail);
    }
}

#[test]
fn what_firecracker_refuses_leaves_no_recording() {
    let Some(program) = firecracker() else { return };
    let mut broken = guest("x", &[]);
    // Program headers of another size.
    broken[54] = 1;
    let boot = Boot::of(VmmKind::Firecracker, program, &broken, "never");
    let error = boot.came.as_ref().unwrap_err().to_string();
    println!("{error}");
    assert!(error.contains("Firecracker did not start") && error.contains("PUT /actions"), "{error}");
    assert!(!boot.path().exists());
}

#[test]
fn a_firecracker_that_is_not_there_is_named() {
    let boot = Boot::of(VmmKind::Firecracker, "/nonexistent/firecracker".into(), &guest("x", &[]), "never");
    let error = boot.came.as_ref().unwrap_err().to_string();
    assert!(error.contains("/nonexistent/firecracker is not there") && error.contains("vmm=/path/to/"), "{error}");
}
