//! Boots in cloud-hypervisor: the recorded evidence, the outcomes, and the refused options.
//!
//! The guest is small and runs even if KVM interprets a kernel's instructions. `BOOTSCOPE_TEST_CLOUD_HYPERVISOR` names the program; without
//! it, `$PATH` is searched.

#![allow(unsafe_code, reason = "a log is written, and its memory is read")]

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::common::small::{Boot, guest, guest_with, program};
use machine::{Observer, Silent, Until, VmmKind};
use recording::OutcomeKind;
use tslog::layout::TicksSource;
use tslog::{Entry, Kind, Log, Name, Region};

const VMM: VmmKind = VmmKind::CloudHypervisor;
/// `mov al, 0xfe; out 0x64, al`: a reset by the keyboard controller.
const RESET: [u8; 4] = [0xb0, 0xfe, 0xe6, 0x64];
/// `mov dx, 0x600; mov al, 0x34; out dx, al`: the state S5 of its ACPI.
const OFF: [u8; 7] = [0x66, 0xba, 0x00, 0x06, 0xb0, 0x34, 0xee];
/// `ud2` without an interrupt table.
const FAULT: [u8; 2] = [0x0f, 0x0b];
/// `mov al, 0x41; out 0x80, al`: a code from the range for kernels.
const REPORT: [u8; 4] = [0xb0, 0x41, 0xe6, 0x80];
/// `xorps xmm0, xmm0`: a KVM that interprets does not know it. A real CPU runs it if SSE is enabled; here it is not, so it faults.
const UNKNOWN: [u8; 3] = [0x0f, 0x57, 0xc0];

/// The cloud-hypervisor to test with; `None` if it or KVM is missing.
fn cloud_hypervisor() -> Option<PathBuf> {
    program("cloud-hypervisor", "BOOTSCOPE_TEST_CLOUD_HYPERVISOR")
}

#[test]
fn a_guest_is_recorded_to_its_end_mark() {
    let Some(program) = cloud_hypervisor() else { return };
    let boot = Boot::of(VMM, program, &guest("first\nthe guest is up\n", &[]), "the guest is up");
    let recorded = boot.recorded();
    assert_eq!(recorded.outcome.kind, OutcomeKind::Reached, "{:?}", recorded.outcome);
    assert_eq!(boot.text("console.log"), "first\nthe guest is up\n");
    let manifest = &recorded.manifest;
    assert_eq!((&*manifest.subject.machine, &*manifest.subject.accelerator), ("cloud-hypervisor", "kvm"));
    for request in ["PUT /api/v1/vm.create", "PUT /api/v1/vm.boot"] {
        assert!(
            manifest.vmm.command.iter().any(|word| word.starts_with(request)),
            "{request}: {:?}",
            manifest.vmm.command
        );
    }
    assert!(!manifest.notes.iter().any(|note| note.contains("shows no guest memory")), "{:?}", manifest.notes);
    assert!(manifest.vmm.max_rss_bytes > Some(0) && !manifest.vmm.version.is_empty());
    let marks: serde_json::Value = serde_json::from_str(&boot.text("vmm.json")).unwrap();
    let marks = marks.as_array().unwrap();
    let names: Vec<&str> = marks.iter().map(|mark| mark["name"].as_str().unwrap()).collect();
    // The VMM reports that the machine is complete when its vCPUs run, and the boot may have ended by then.
    let received: Vec<&str> = names.iter().copied().filter(|name| *name != "machine complete").collect();
    assert_eq!(received, ["executed", "monitor ready", "first instruction"]);
    let times: Vec<i64> = marks.iter().map(|mark| mark["at_ns"].as_i64().unwrap()).collect();
    assert!(times.is_sorted() && times[0] > 0, "{times:?}");
    let end_ns = recorded.end.as_ref().unwrap().at_ns;
    // The guest may print before the start is answered, but not before the machine is made.
    assert!(end_ns > times[1], "{end_ns}: {times:?}");
    println!("{names:?} and end mark, in ns: {times:?} {end_ns}");
}

#[test]
fn each_end_has_its_outcome_and_a_guest_that_resets_is_not_started_anew() {
    let Some(program) = cloud_hypervisor() else { return };
    for (then, kind, why) in [
        (&RESET[..], OutcomeKind::Reset, "the guest reset the machine"),
        (&OFF[..], OutcomeKind::PowerOff, "powered the machine off"),
        (&FAULT[..], OutcomeKind::Reset, "faulted thrice"),
    ] {
        let boot = Boot::of(VMM, program.clone(), &guest("starting\n", then), "never");
        let outcome = &boot.recorded().outcome;
        println!("{}: {}", outcome.kind.as_str(), outcome.detail);
        assert_eq!(outcome.kind, kind, "{}", outcome.detail);
        assert!(outcome.detail.contains(why), "{}", outcome.detail);
        assert_eq!(boot.text("console.log"), "starting\n", "the guest was started once");
    }
}

#[test]
fn a_power_off_is_an_end_mark() {
    let Some(program) = cloud_hypervisor() else { return };
    let until = |options: &mut machine::RecordOptions| options.guest.until = Until::PowerOff;
    let boot = Boot::watched(VMM, program, &guest("starting\n", &OFF), &mut Silent, until);
    let recorded = boot.recorded();
    assert_eq!(recorded.outcome.kind, OutcomeKind::Reached, "{:?}", recorded.outcome);
    assert_eq!(recorded.end.as_ref().unwrap().what, "power-off");
}

#[test]
fn a_vcpu_that_cannot_go_on_is_no_power_off() {
    let Some(program) = cloud_hypervisor() else { return };
    let outcome = Boot::of(VMM, program, &guest("starting\n", &UNKNOWN), "never").recorded().outcome.clone();
    println!("{}: {}", outcome.kind.as_str(), outcome.detail);
    if outcome.kind == OutcomeKind::Reset {
        println!("SKIPPED: this host's KVM does not interpret, so a vCPU that faults can go on");
        return;
    }
    assert_eq!(outcome.kind, OutcomeKind::VmmFailed, "{}", outcome.detail);
    assert!(
        outcome.detail.contains("a vCPU could not go on: Unexpected exit reason on vcpu run"),
        "{}",
        outcome.detail
    );
    assert!(outcome.detail.contains("exit status: 0"), "it ended by itself: {}", outcome.detail);
}

#[test]
fn what_a_guest_reports_on_port_0x80_is_an_end_mark() {
    let Some(program) = cloud_hypervisor() else { return };
    let boot = Boot::of(VMM, program, &guest("starting\n", &REPORT), "Debug I/O port: Kernel code 0x41");
    let recorded = boot.recorded();
    assert_eq!(recorded.outcome.kind, OutcomeKind::Reached, "{:?}", recorded.outcome);
    let what = &recorded.end.as_ref().unwrap().what;
    assert!(what.starts_with("[Debug I/O port: Kernel code 0x41] ") && what.ends_with(" seconds"), "{what}");
}

/// A log of three events, whose name is the first word of the text at this address.
fn logged(text_at: u64) -> Vec<u8> {
    static REGION: Region<8, 0> = Region::new();
    let log = Log::start(&REGION, TicksSource::Tsc);
    let name = "configure";
    assert!(log.add_range(Name::from(name).address(), text_at, name.len() as u64));
    for n in 0..3 {
        let entry =
            Entry { ticks: 1000 + n, thread: 16, kind: Kind::Enter, name: Name::from(name), detail: Name::NONE };
        // SAFETY: the name is a literal.
        unsafe { log.write(entry.to_words()) };
    }
    // SAFETY: the log has this length and is initialised, and no other code writes to it any more.
    unsafe { std::slice::from_raw_parts(log.base().cast().as_ptr(), log.bytes()) }.to_vec()
}

#[test]
fn guest_memory_is_read_also_after_the_guest_has_reset() {
    let Some(program) = cloud_hypervisor() else { return };
    let image = guest_with("configure\n", &RESET, logged);
    let boot = Boot::of(VMM, program, &image, "never");
    assert_eq!(boot.recorded().outcome.kind, OutcomeKind::Reset);
    let log = boot.text("tslog.txt");
    assert_eq!(log.matches("ENTER configure").count(), 3, "{log}");
}

/// Output of the guest that is stopped.
const OUTPUT: &str = "starting\n";

/// Stops a boot as soon as its guest has printed [`OUTPUT`].
struct StopsOncePrinted(bool);

impl Observer for StopsOncePrinted {
    fn stop(&mut self) -> bool {
        self.0
    }

    fn progress(&mut self, progress: &machine::Progress<'_>) {
        self.0 |= progress.console_bytes >= OUTPUT.len() as u64;
    }
}

#[test]
fn a_boot_that_is_stopped_or_late_is_kept_and_ended_at_once() {
    let Some(program) = cloud_hypervisor() else { return };
    let image = guest(OUTPUT, &[]);
    let began = Instant::now();
    let stopped = Boot::watched(VMM, program.clone(), &image, &mut StopsOncePrinted(false), |_| {});
    assert_eq!(stopped.recorded().outcome.kind, OutcomeKind::Interrupted);
    assert_eq!(stopped.text("console.log"), OUTPUT);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    let soon = |options: &mut machine::RecordOptions| options.observe.timeout_ms = Some(700);
    let late = Boot::watched(VMM, program, &image, &mut Silent, soon);
    let outcome = &late.recorded().outcome;
    assert_eq!(outcome.kind, OutcomeKind::Timeout, "{}", outcome.detail);
    assert!(outcome.detail.contains("the last line was: starting"), "{}", outcome.detail);
}

#[test]
fn a_disk_is_never_written() {
    let Some(program) = cloud_hypervisor() else { return };
    let folder = tempfile::TempDir::new().unwrap();
    let raw = folder.path().join("data.img");
    fs::write(&raw, vec![7; 1 << 20]).unwrap();
    let disk = |options: &mut machine::RecordOptions| {
        (options.guest.disks, options.guest.until) = (vec![raw.clone()], Until::Regex("starting".to_owned()));
    };
    let boot = Boot::watched(VMM, program, &guest("starting\n", &[]), &mut Silent, disk);
    assert_eq!(boot.recorded().outcome.kind, OutcomeKind::Reached);
    assert!(fs::read(&raw).unwrap() == vec![7; 1 << 20]);
    // The guest writes to no disk, so the VMM's configuration shows it.
    let created =
        boot.recorded().manifest.vmm.command.iter().find(|word| word.starts_with("PUT /api/v1/vm.create")).unwrap();
    assert!(created.contains("data.img") && created.contains("\"readonly\":true"), "{created}");
}

#[test]
fn what_it_refuses_leaves_no_recording() {
    let Some(program) = cloud_hypervisor() else { return };
    let mut broken = guest("x", &[]);
    // Program headers of another size.
    broken[54] = 1;
    let boot = Boot::of(VMM, program, &broken, "never");
    let error = boot.came.as_ref().unwrap_err().to_string();
    println!("{error}");
    assert!(error.contains("cloud-hypervisor did not start") && error.contains("PUT /api/v1/vm.boot"), "{error}");
    assert!(!boot.path().exists());
}

#[test]
fn one_that_is_not_there_or_another_program_is_named() {
    let came = |program: &str| Boot::of(VMM, program.into(), &guest("x", &[]), "never").came.unwrap_err().to_string();
    let error = came("/nonexistent/cloud-hypervisor");
    assert!(error.contains("/nonexistent/cloud-hypervisor is not there") && error.contains("vmm=/path/to/"), "{error}");
    let error = came("/bin/true");
    assert!(error.contains("/bin/true does not work") && error.contains("--version"), "{error}");
}
