//! Ends of a boot, tested with boot sectors: guests of a few bytes whose every step is known. Needs QEMU, but no kernel.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::{Scratch, boot, boot_observed, kernel_that_says, kernel_that_says_then};
use machine::{
    Error, GuestSpec, Init, ObserveSpec, Observer, Progress, RecordOptions, Target, Until, record, stop_on_signals,
};
use recording::{OutcomeKind, Recording};

/// `cli; hlt; jmp $-1`
const HALT: &[u8] = &[0xfa, 0xf4, 0xeb, 0xfd];
/// `cli; jmp $`: it spins without interrupts.
const SPIN: &[u8] = &[0xfa, 0xeb, 0xfe];
/// `mov al, 0xfe; out 0x64, al; jmp $`: the keyboard controller resets the machine.
const RESET: &[u8] = &[0xb0, 0xfe, 0xe6, 0x64, 0xeb, 0xfe];
/// `mov dx, 0x3f8; mov al, 'x'; l: out dx, al; jmp l`
const PRINT: &[u8] = &[0xba, 0xf8, 0x03, 0xb0, b'x', 0xee, 0xeb, 0xfd];
/// Prints "login:", counts down from a million, prints "!" and halts.
/// `mov si, 0x7c1e; mov dx, 0x3f8; l: lodsb; test al, al; jz w; out dx, al; jmp l; w: mov ecx, 1000000; loop $;
/// mov al, '!'; out dx, al; h: cli; hlt; jmp h`
const PROMPT: &[u8] = &[
    0xbe, 0x1e, 0x7c, 0xba, 0xf8, 0x03, 0xac, 0x84, 0xc0, 0x74, 0x03, 0xee, 0xeb, 0xf8, 0x66, 0xb9, 0x40, 0x42, 0x0f,
    0x00, 0x67, 0xe2, 0xfd, 0xb0, b'!', 0xee, 0xfa, 0xf4, 0xeb, 0xfc, b'l', b'o', b'g', b'i', b'n', b':', 0,
];
/// Walks up through the first 64 KiB, 4 KiB at a time, for ever: fills each page's start with `jmp` to the next.
/// `mov ax, 0x1000; mov es, ax; xor di, di; l: mov dword [es:di], 0x900ffde9; add di, 0x1000; jnz l; jmp 0x1000:0` (`e9 fd 0f`
/// jumps 0x1000 on from its own start).
const WANDER: &[u8] = &[
    0xb8, 0x00, 0x10, 0x8e, 0xc0, 0x31, 0xff, 0x66, 0x26, 0xc7, 0x05, 0xe9, 0xfd, 0x0f, 0x90, 0x81, 0xc7, 0x00, 0x10,
    0x75, 0xf2, 0xea, 0x00, 0x00, 0x00, 0x10,
];

fn hang_soon(options: RecordOptions) -> RecordOptions {
    // A busy CPU must also run for that long, which takes several times as long on a loaded host.
    let observe = ObserveSpec { hang_after_ms: 8_000, timeout_ms: Some(120_000), ..options.observe };
    RecordOptions { observe, ..options }
}

#[test]
#[ignore = "10 s: in make test-all"]
fn a_machine_that_halts_for_ever_is_a_hang() {
    let scratch = Scratch::new();
    let options = hang_soon(scratch.sector_options(HALT));
    let Some(boot) = boot(scratch, &options) else { return };
    assert_eq!(boot.kind(), OutcomeKind::Hang);
    assert!(boot.detail().contains("CPU 0 halted at 0x7c0"), "{}", boot.detail());
    assert!(boot.text("registers.txt").contains("CPU#0"));
    assert!(boot.text("firmware.log").contains("SeaBIOS"));
    assert_eq!(boot.recorded.end, None);
}

#[test]
fn a_machine_that_spins_in_one_place_is_a_hang() {
    let scratch = Scratch::new();
    let options = hang_soon(scratch.sector_options(SPIN));
    let Some(boot) = boot(scratch, &options) else { return };
    assert_eq!(boot.kind(), OutcomeKind::Hang);
    assert!(boot.detail().contains("CPU 0 busy in one place at 0x7c01"), "{}", boot.detail());
}

#[test]
#[ignore = "20 s: in make test-all"]
fn a_busy_machine_that_says_nothing_is_no_hang() {
    let scratch = Scratch::new();
    let mut options = hang_soon(scratch.sector_options(WANDER));
    options.observe.timeout_ms = Some(20_000);
    let Some(boot) = boot(scratch, &options) else { return };
    assert_eq!(boot.kind(), OutcomeKind::Timeout);
    assert!(boot.detail().contains("20 s"), "{}", boot.detail());
    let at_s = boot.recorded.outcome.at_ns.unwrap() / 1_000_000_000;
    assert!((20..25).contains(&at_s), "{at_s}");
}

#[test]
fn a_reset_is_told_from_a_power_off() {
    let scratch = Scratch::new();
    let options = scratch.sector_options(RESET);
    let Some(boot) = boot(scratch, &options) else { return };
    assert_eq!(boot.kind(), OutcomeKind::Reset);
}

#[test]
#[ignore = "22 s: in make test-all"]
fn a_guest_that_prints_its_end_mark_and_resets_at_once_has_reached_it() {
    // mov dx, 0x3f8; mov al, '!'; out dx, al; then the reset.
    let code = [&[0xba, 0xf8, 0x03, 0xb0, b'!', 0xee][..], RESET].concat();
    for boot_number in 0..10 {
        let scratch = Scratch::new();
        let mut options = scratch.sector_options(&code);
        options.guest.until = Until::Regex("!".to_owned());
        let Some(boot) = boot(scratch, &options) else { return };
        assert_eq!(boot.kind(), OutcomeKind::Reached, "boot {boot_number}: {}", boot.detail());
    }
}

#[test]
#[ignore = "17 s: in make test-all"]
fn a_process_1_that_reports_and_resets_at_once_was_reached() {
    for boot_number in 0..10 {
        let scratch = Scratch::new();
        let kernel = scratch.path("kernel");
        std::fs::write(&kernel, kernel_that_says_then(b"I 17\n", RESET)).unwrap();
        let mut options = scratch.sector_options(&[]);
        (options.guest.kernel, options.guest.init) = (Some(kernel), Init::Guest);
        options.guest.disks.clear();
        let Some(boot) = boot(scratch, &options) else { return };
        assert_eq!(boot.kind(), OutcomeKind::Reached, "boot {boot_number}: {}", boot.detail());
    }
}

#[test]
#[ignore = "15 s: in make test-all"]
fn a_qemu_that_is_stopped_ends_with_its_timeout() {
    /// Stops QEMU (SIGSTOP) once it runs.
    struct Stops(Instant);
    impl Observer for Stops {
        fn progress(&mut self, _: &Progress<'_>) {
            if self.0.elapsed() > Duration::from_secs(1) {
                for pid in children() {
                    let _ = rustix::process::kill_process(pid, rustix::process::Signal::STOP);
                }
            }
        }
    }
    let scratch = Scratch::new();
    let mut options = scratch.sector_options(SPIN);
    options.observe.timeout_ms = Some(9_000);
    let began = Instant::now();
    let Some(boot) = boot_observed(scratch, &options, &mut Stops(began)) else { return };
    let took = began.elapsed();
    assert_eq!(boot.kind(), OutcomeKind::Timeout);
    assert!(took < Duration::from_secs(13), "it took {took:?}");
}

/// The children of this process.
fn children() -> Vec<rustix::process::Pid> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let texts = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("children")).ok());
    let words: Vec<String> = texts.flat_map(|text| text.split(' ').map(str::to_owned).collect::<Vec<_>>()).collect();
    words.iter().filter_map(|word| rustix::process::Pid::from_raw(word.trim().parse().ok()?)).collect()
}

#[test]
fn a_guest_that_prints_for_ever_fills_no_disk() {
    let scratch = Scratch::new();
    let mut options = scratch.sector_options(PRINT);
    options.observe.stream_bytes_max = 50_000;
    options.observe.timeout_ms = Some(8_000);
    let Some(boot) = boot(scratch, &options) else { return };
    assert_eq!(boot.kind(), OutcomeKind::Timeout);
    assert_eq!(boot.text("console.log").len() + boot.text("console.idx").len(), 50_000);
    assert_eq!(boot.text("console.tail.log").len(), 64 << 10);
    let notes = boot.recorded.manifest.notes.join("\n");
    assert!(notes.contains("console.log") && notes.contains("too many to keep"), "{notes}");
}

#[test]
fn a_line_on_the_console_can_be_the_end() {
    let scratch = Scratch::new();
    let mut options = scratch.sector_options(PRINT);
    options.guest.until = Until::Regex("xxxx".to_owned());
    let Some(boot) = boot(scratch, &options) else { return };
    assert_eq!(boot.kind(), OutcomeKind::Reached);
    let end = boot.recorded.end.as_ref().unwrap();
    assert!(end.what.contains("xxxx") && end.at_ns > 0);
    assert_eq!((end.error_ns, end.printk_ns), (Some(1_000_000), None));
    assert_eq!(boot.recorded.outcome.at_ns, Some(end.at_ns));
}

#[test]
fn the_rest_of_the_awaited_line_is_recorded() {
    let scratch = Scratch::new();
    let mut options = scratch.sector_options(PROMPT);
    options.guest.until = Until::Regex("login".to_owned());
    let Some(boot) = boot(scratch, &options) else { return };
    assert_eq!(boot.kind(), OutcomeKind::Reached);
    assert_eq!(boot.text("console.log"), "login:!");
    let (end, outcome) = (boot.recorded.end.as_ref().unwrap(), &boot.recorded.outcome);
    assert_eq!((end.what.as_str(), outcome.detail.as_str()), ("login:!", "login:!"));
}

#[test]
fn a_refusal_of_qemu_is_reported_in_its_words_and_leaves_nothing() {
    let scratch = Scratch::new();
    let mut options = scratch.sector_options(HALT);
    options.guest.machine = "no-such-machine".to_owned();
    let why = match record(&options, &mut machine::Silent) {
        Err(Error::VmmRefused { why, .. }) => why,
        Err(Error::VmmMissing { .. }) => return eprintln!("skipped: no QEMU"),
        other => panic!("{other:?}"),
    };
    assert!(why.contains("exit status: 1") && why.contains("unsupported machine type"), "{why}");
    assert!(!options.out.exists());
    // An existing empty folder stays.
    std::fs::create_dir(&options.out).unwrap();
    record(&options, &mut machine::Silent).unwrap_err();
    assert_eq!(std::fs::read_dir(&options.out).unwrap().count(), 0);
}

#[test]
fn further_arguments_go_to_qemu_as_they_are() {
    let scratch = Scratch::new();
    let mut options = scratch.sector_options(RESET);
    options.guest.extra = vec!["-name".to_owned(), "a name,debug-threads=on".to_owned()];
    let Some(boot) = boot(scratch, &options) else { return };
    assert_eq!(boot.kind(), OutcomeKind::Reset);
    assert!(boot.recorded.manifest.vmm.command.ends_with(&options.guest.extra));
}

#[test]
fn set_up_is_seen_in_order() {
    let scratch = Scratch::new();
    let options = scratch.sector_options(RESET);
    let Some(boot) = boot(scratch, &options) else { return };
    let marks: serde_json::Value = serde_json::from_str(&boot.text("vmm.json")).unwrap();
    let marks = marks.as_array().unwrap();
    let names: Vec<&str> = marks.iter().map(|mark| mark["name"].as_str().unwrap()).collect();
    let expected = ["executed", "linked", "monitor ready", "machine complete", "first instruction"];
    let without_linker = |names: &[&str]| names.iter().filter(|n| **n != "linked").map(|n| n.to_string()).collect();
    let (found, wanted): (Vec<String>, Vec<String>) = (without_linker(&names), without_linker(&expected));
    assert_eq!(found, wanted);
    let times: Vec<i64> = marks.iter().map(|mark| mark["at_ns"].as_i64().unwrap()).collect();
    assert!(times.is_sorted() && times[0] > 0, "{times:?}");
    let firmware = boot.text("firmware.idx");
    let first_line: i64 = firmware.lines().next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    assert!(first_line >= *times.last().unwrap(), "the firmware spoke before the CPUs ran");
    let vmm = &boot.recorded.manifest.vmm;
    assert!(vmm.max_rss_bytes > Some(10 << 20) && vmm.user_ns > Some(0), "{vmm:?}");
}

#[test]
fn a_guest_that_lies_is_bounded_counted_and_kept() {
    let output = b"I 17\nH ffffffffffffffff\nH 0\nH 100000\nI\nQ \x1b[2J\nP ../../etc/passwd 0 4 00000000 last\n\
                 P kmsg.log 0 4 00000000 last\n";
    let rest = b"E \x1b[2Jdone\n";
    let scratch = Scratch::new();
    let kernel = scratch.path("kernel");
    std::fs::write(&kernel, kernel_that_says(&[&output[..], b"abcd\n", rest].concat())).unwrap();
    let mut options = scratch.sector_options(&[]);
    (options.guest.kernel, options.guest.init) = (Some(kernel), Init::Guest);
    options.guest.disks.clear();
    let Some(boot) = boot(scratch, &options) else { return };
    assert_eq!(boot.kind(), OutcomeKind::Reached);
    assert_eq!(boot.text("guest.log").as_bytes(), [&output[..], rest].concat());
    assert!(!boot.has("kmsg.log") && !boot.has("passwd"));
    let notes = boot.recorded.manifest.notes.join("\n");
    assert!(notes.contains("3 lines on guest-init's port are malformed; they were skipped"), "{notes}");
    assert!(notes.contains("pieces of evidence were not taken"), "{notes}");
    assert!(!notes.contains('\x1b'), "{notes}");
}

/// Stops when its flag is set, and counts the calls of `progress`.
struct Stopper {
    stop: Arc<AtomicBool>,
    raise_after: Option<Duration>,
    began: Instant,
    progress_calls: u32,
}

impl Observer for Stopper {
    fn progress(&mut self, progress: &Progress<'_>) {
        assert!(progress.elapsed_ns > 0);
        self.progress_calls += 1;
        if self.raise_after.is_some_and(|after| self.began.elapsed() > after) {
            self.raise_after = None;
            // Ctrl-C, as the terminal sends it.
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::INT).unwrap();
        }
    }

    fn stop(&mut self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

#[test]
fn ctrl_c_finishes_the_recording() {
    let scratch = Scratch::new();
    let options = scratch.sector_options(SPIN);
    let raise_after = Some(Duration::from_millis(1500));
    let stop = stop_on_signals().unwrap();
    let mut stopper = Stopper { stop, raise_after, began: Instant::now(), progress_calls: 0 };
    let Some(boot) = boot_observed(scratch, &options, &mut stopper) else { return };
    assert_eq!(boot.kind(), OutcomeKind::Interrupted);
    assert!(stopper.progress_calls > 3);
    assert_eq!(boot.recording.manifest().outcome_word(), "interrupted");
    assert!(boot.text("registers.txt").contains("CPU#0"));
}

#[test]
fn a_file_that_cannot_be_written_leaves_a_finished_recording() {
    /// Puts a link in the place of one file, once the boot has begun.
    struct InTheWay(std::path::PathBuf);
    impl Observer for InTheWay {
        fn progress(&mut self, _: &Progress<'_>) {
            // On the next call it exists already.
            let _ = std::os::unix::fs::symlink("/dev/null", self.0.join("registers.txt.partial"));
        }
    }
    let scratch = Scratch::new();
    let mut options = scratch.sector_options(SPIN);
    options.observe.timeout_ms = Some(1_000);
    let why = match record(&options, &mut InTheWay(options.out.clone())) {
        Err(Error::CutShort { why, .. }) => why.to_string(),
        Err(Error::VmmMissing { .. }) => return eprintln!("skipped: no QEMU"),
        other => panic!("{other:?}"),
    };
    assert!(why.contains("registers.txt.partial"), "{why}");
    let recording = Recording::open(&options.out).unwrap();
    assert_eq!(recording.manifest().outcome_word(), "timeout");
    assert!(recording.manifest().notes.iter().any(|note| note.contains("this recording is not complete: ")));
    assert!(recording.read("vmm.json").unwrap().is_some(), "what is small still finds its place");
}

#[test]
fn nothing_is_begun_with_what_cannot_work() {
    let scratch = Scratch::new();
    let text = scratch.path("text");
    std::fs::write(&text, "no kernel").unwrap();
    let out = scratch.path("recording");
    let with_kernel = |kernel| RecordOptions {
        out: out.clone(),
        guest: GuestSpec { kernel: Some(kernel), ..GuestSpec::default() },
        ..RecordOptions::default()
    };
    let check = |options: &RecordOptions, named: &str| {
        let error = record(options, &mut machine::Silent).unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
        assert!(!out.exists());
    };
    check(&with_kernel(text.clone()), "is not a kernel");
    check(&with_kernel(scratch.path("gone")), "gone");
    let sector = || scratch.sector_options(HALT).guest;
    let with = |guest| RecordOptions { guest, ..scratch.sector_options(HALT) };
    check(&with(GuestSpec { disks: vec![scratch.path("gone.img")], ..sector() }), "gone.img");
    check(&with(GuestSpec { deterministic: true, ..sector() }), "disks=");
    check(&with(GuestSpec { target: Target::qemu("qemu-system-gone"), ..sector() }), "apt install");
}

#[test]
fn an_existing_recording_is_not_replaced_without_force() {
    let scratch = Scratch::new();
    let mut options = scratch.sector_options(RESET);
    std::fs::create_dir(&options.out).unwrap();
    std::fs::write(options.out.join("thesis.tex"), "x").unwrap();
    for force in [false, true] {
        options.force = force;
        match record(&options, &mut machine::Silent) {
            Err(Error::Recording(_)) => {}
            Err(Error::VmmMissing { .. }) => return eprintln!("skipped: no QEMU"),
            other => panic!("{other:?}"),
        }
    }
    assert!(Recording::open(&options.out).is_ok());
    assert!(options.out.join("thesis.tex").exists());
}

#[test]
fn disks_are_not_written() {
    // mov ax, 0x0301; mov bx, 0x7c00; mov cx, 2; mov dx, 0x80; int 0x13: writes the second sector; then resets.
    let code = [&[0xb8, 1, 3, 0xbb, 0, 0x7c, 0xb9, 2, 0, 0xba, 0x80, 0, 0xcd, 0x13][..], RESET].concat();
    let scratch = Scratch::new();
    let options = scratch.sector_options(&code);
    let before = std::fs::read(&options.guest.disks[0]).unwrap();
    let Some(boot) = boot(scratch, &options) else { return };
    assert_eq!(boot.kind(), OutcomeKind::Reset);
    assert!(std::fs::read(&options.guest.disks[0]).unwrap() == before);
}
