//! Boots in Firecracker: what is recorded of them, how they end, and what is refused.
//!
//! The guest is a small one that is made here: it prints, writes to Firecracker's boot timer and resets. So it runs also where KVM
//! interprets a kernel's instructions. `BOOTSCOPE_TEST_FIRECRACKER` names the program; without it, `$PATH` does.

use std::fs::{self, OpenOptions};
use std::path::PathBuf;

use machine::{Error, GuestSpec, Init, ObserveSpec, RecordOptions, Recorded, Silent, Until, VmmKind, record};
use recording::OutcomeKind;
use tempfile::TempDir;

/// Where the guest's file lies in memory.
const BASE: u32 = 0x10_0000;
/// `mov byte [0xc0000000], 123`: what Firecracker's boot timer is told by.
const BOOTED: [u8; 7] = [0xc6, 0x05, 0x00, 0x00, 0x00, 0xc0, 123];
/// `mov al, 0xfe; out 0x64, al`: a reset by the keyboard controller.
const RESET: [u8; 4] = [0xb0, 0xfe, 0xe6, 0x64];
/// `ud2`, where there is no interrupt table.
const FAULT: [u8; 2] = [0x0f, 0x0b];

/// An ELF image with a PVH note, whose code prints `said` on the serial port, runs `then` and halts.
fn guest(said: &str, then: &[u8]) -> Vec<u8> {
    const HEADERS: usize = 64 + 2 * 56;
    const NOTE: usize = 20;
    let code_at = BASE + (HEADERS + NOTE) as u32;
    // mov esi, TEXT; mov ecx, LENGTH; mov edx, 0x3f8; cld; top: lodsb; out dx, al; loop top
    let print = |text_at: u32| {
        let (at, length) = (text_at.to_le_bytes(), (said.len() as u32).to_le_bytes());
        [&[0xbe][..], &at, &[0xb9], &length, &[0xba, 0xf8, 0x03, 0, 0, 0xfc, 0xac, 0xee, 0xe2, 0xfc]].concat()
    };
    // hlt; jmp back
    let after = [then, &[0xf4, 0xeb, 0xfd]].concat();
    let code_length = print(0).len() + after.len();
    let code = [print(code_at + code_length as u32), after].concat();
    let length = (HEADERS + NOTE + code.len() + said.len()) as u64;
    let phdr = |kind: u32, flags: u32, offset: u64, bytes: u64, align: u64| {
        let at = u64::from(BASE) + offset;
        let words: Vec<u8> = [offset, at, at, bytes, bytes, align].iter().flat_map(|word| word.to_le_bytes()).collect();
        [&kind.to_le_bytes()[..], &flags.to_le_bytes(), &words].concat()
    };
    let mut elf = b"\x7fELF\x02\x01\x01".to_vec();
    elf.resize(16, 0);
    // ET_EXEC, EM_X86_64, version 1, entry, program headers behind this one, no sections.
    elf.extend([2, 0, 62, 0, 1, 0, 0, 0]);
    elf.extend(u64::from(code_at).to_le_bytes());
    elf.extend(64_u64.to_le_bytes());
    elf.extend([0; 12]);
    elf.extend([64, 0, 56, 0, 2, 0, 64, 0, 0, 0, 0, 0]);
    elf.extend(phdr(1, 7, 0, length, 0x1000));
    elf.extend(phdr(4, 4, HEADERS as u64, NOTE as u64, 4));
    // Name "Xen", type 18: the 32-bit entry.
    elf.extend([4, 0, 0, 0, 4, 0, 0, 0, 18, 0, 0, 0]);
    elf.extend(b"Xen\0");
    elf.extend(code_at.to_le_bytes());
    elf.extend(code);
    elf.extend(said.as_bytes());
    elf
}

/// The Firecracker to test with; none if there is none, or no KVM.
fn firecracker() -> Option<PathBuf> {
    let named = std::env::var_os("BOOTSCOPE_TEST_FIRECRACKER").filter(|path| !path.is_empty()).map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = || std::env::split_paths(&path).map(|folder| folder.join("firecracker")).find(|path| path.is_file());
    let Some(program) = named.or_else(found) else {
        println!("SKIPPED: there is no firecracker in $PATH, and BOOTSCOPE_TEST_FIRECRACKER names none");
        return None;
    };
    if let Err(why) = OpenOptions::new().read(true).write(true).open("/dev/kvm") {
        println!("SKIPPED: /dev/kvm cannot be opened: {why}");
        return None;
    }
    Some(program)
}

/// A boot of one of these guests.
struct Boot {
    folder: TempDir,
    came: Result<Recorded, Error>,
}

impl Boot {
    fn of(program: PathBuf, guest: &[u8], until: &str) -> Boot {
        let folder = TempDir::new().unwrap();
        let kernel = folder.path().join("kernel");
        fs::write(&kernel, guest).unwrap();
        let guest = GuestSpec {
            vmm: VmmKind::Firecracker,
            qemu: program,
            kernel: Some(kernel),
            init: Init::Keep,
            memory_bytes: 64 << 20,
            until: Until::Regex(until.to_owned()),
            ..GuestSpec::default()
        };
        let observe = ObserveSpec { timeout_ms: Some(60_000), ..ObserveSpec::default() };
        let options = RecordOptions { observe, out: folder.path().join("boot"), ..RecordOptions::of(guest) };
        Boot { came: record(&options, &mut Silent), folder }
    }

    fn recorded(&self) -> &Recorded {
        self.came.as_ref().unwrap_or_else(|error| panic!("{error}"))
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join("boot").join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}

#[test]
fn a_guest_is_recorded_to_its_end_mark() {
    let Some(program) = firecracker() else { return };
    let boot = Boot::of(program, &guest("first\nthe guest is up\n", &[]), "the guest is up");
    let recorded = boot.recorded();
    assert_eq!(recorded.outcome.kind, OutcomeKind::Reached, "{:?}", recorded.outcome);
    assert_eq!(boot.text("console.log"), "first\nthe guest is up\n");
    let log = boot.text("vmm.log");
    assert!(log.contains("API server started") && log.contains("event_end: boot microvm"), "{log}");
    let manifest = &recorded.manifest;
    assert_eq!((&*manifest.subject.machine, &*manifest.subject.accelerator), ("firecracker", "kvm"));
    for said in ["PUT /boot-source", "PUT /actions"] {
        assert!(manifest.vmm.command.iter().any(|word| word.starts_with(said)), "{said}: {:?}", manifest.vmm.command);
    }
    assert!(manifest.notes.iter().any(|note| note.contains("shows no guest memory")), "{:?}", manifest.notes);
    let marks: serde_json::Value = serde_json::from_str(&boot.text("vmm.json")).unwrap();
    let marks = marks.as_array().unwrap();
    let names: Vec<&str> = marks.iter().map(|mark| mark["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["executed", "monitor ready", "machine complete", "first instruction"]);
    let times: Vec<i64> = marks.iter().map(|mark| mark["at_ns"].as_i64().unwrap()).collect();
    assert!(times.is_sorted() && times[0] > 0, "{times:?}");
    let end_ns = recorded.end.as_ref().unwrap().at_ns;
    // The guest may print before the start is answered, and not before the machine is complete.
    assert!(end_ns > times[2], "{end_ns}: {times:?}");
    println!("executed, ready, complete, started, end mark, in ns: {times:?} {end_ns}");
}

#[test]
fn the_boot_timer_is_an_end_mark() {
    let Some(program) = firecracker() else { return };
    let boot = Boot::of(program, &guest("starting\n", &BOOTED), "Guest-boot-time");
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
        let boot = Boot::of(program.clone(), &guest("starting\n", then), "never");
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
    let boot = Boot::of(program, &broken, "never");
    let error = boot.came.as_ref().unwrap_err().to_string();
    println!("{error}");
    assert!(error.contains("Firecracker did not start") && error.contains("PUT /actions"), "{error}");
    assert!(!boot.folder.path().join("boot").exists());
}

#[test]
fn a_firecracker_that_is_not_there_is_named() {
    let boot = Boot::of("/nonexistent/firecracker".into(), &guest("x", &[]), "never");
    let error = boot.came.as_ref().unwrap_err().to_string();
    assert!(error.contains("/nonexistent/firecracker is not there") && error.contains("--vmm"), "{error}");
}
