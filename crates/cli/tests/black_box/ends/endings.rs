//! Every end of a boot has its outcome and exit status, and the guest's output is kept. Guests hang, panic, reset,
//! power off, or print for ever. QEMU is missing, too old, or refuses. The disk is full.

use crate::support::boots::{
    CALM, QUIET, Scratch, console_messages, evidence, kernel, manifest, messages, record, recorded,
};
use crate::support::images::initrd;
use crate::support::{bootscope, ns, run, shown, skip, text};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

/// Waits for its root for ever, long before process 1: a true hang, with idle CPUs.
const HANGS: &str = "root=/dev/nowhere rootwait";

/// The kernel log of a hung boot: from memory, and from the console.
struct Hung {
    memory: Vec<(u64, String)>,
    console: Vec<(u64, String)>,
}

fn hung(kernel: &Path, append: &str) -> Hung {
    let scratch = Scratch::new();
    let into = scratch.path("hung");
    let append = format!("{append} {CALM} {HANGS}");
    let mut command = record(kernel, &into);
    command.args(["--init", "keep", "--hang-after", "3s", "--append", &append]);
    let ran = recorded(&mut command, &into, "hang");
    assert!(ran.stderr.contains("nothing moved") && ran.stderr.contains("CPU 0 halted"), "{}", ran.stderr);
    assert!(evidence(&into, "registers.txt").contains("RIP="), "where the CPUs stand");
    let document = shown(&into);
    assert_eq!(document["outcome"], "hang");
    assert!(ns(&document["total_ns"]) > 0);
    let console = console_messages(&evidence(&into, "console.log"));
    let memory = messages(&evidence(&into, "kmsg-memory.log"));
    let (detail, last) = (text(&document["outcome_detail"]), &memory.last().expect("a log").1);
    assert!(detail.ends_with(&format!("; the last line was: {last}")), "{detail}: {last}");
    Hung { memory, console }
}

#[test]
#[ignore = "57 s: in make test-all"]
fn a_hung_quiet_guest_gives_the_log_of_a_verbose_one() {
    let Some(kernel) = kernel() else { return };
    // KASLR is on: the log must be found wherever the kernel is.
    let verbose = hung(&kernel, "ignore_loglevel");
    assert!(verbose.memory.len() > 200, "{} records only", verbose.memory.len());
    // For one boot, memory and console are identical, with their stamps.
    assert_eq!(verbose.memory, verbose.console);

    let quiet = hung(&kernel, "quiet");
    assert_eq!(quiet.console, [], "a quiet console");
    // For two boots they agree, except for what differs from boot to boot: numbers, and the options themselves.
    let (quiet, verbose) = (comparable(&quiet.memory), comparable(&verbose.console));
    let only = |these: &[String], those: &[String]| -> Vec<String> {
        these.iter().filter(|line| !those.contains(line)).cloned().collect()
    };
    assert_eq!((only(&quiet, &verbose), only(&verbose, &quiet)), (vec![], vec![]));
    assert!(quiet.last().unwrap().starts_with("Waiting for root device"), "{:?}", quiet.last());
}

/// The lines without their numbers, and without those that depend on a busy host or on the command line.
fn comparable(log: &[(u64, String)]) -> Vec<String> {
    let varies = [
        "Command line:",
        "Kernel command line:",
        "printk: debug:",
        "APIC ",
        "..",
        "tsc: ",
        "clocksource: ",
        "sched_clock: ",
        "hpet: Lost",
        "TSC found unstable",
    ];
    let lines = log.iter().map(|(_, text)| text).filter(|text| !varies.iter().any(|start| text.starts_with(start)));
    lines.map(|text| numberless(text)).collect()
}

/// Replaces hexadecimal numbers and runs of digits by `#`: `input0: base 0xfee00000` becomes `input#: base #`.
fn numberless(text: &str) -> String {
    let mut kept = String::new();
    for word in text.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
        let number = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        let hexadecimal = number.trim_start_matches("0x").chars().all(|c| c.is_ascii_hexdigit());
        if hexadecimal && number.contains(|c: char| c.is_ascii_digit()) {
            kept.push('#');
        } else {
            for part in number.split_inclusive(|c: char| !c.is_ascii_digit()) {
                let name = part.trim_start_matches(|c: char| c.is_ascii_digit());
                kept.push_str(if name.len() < part.len() { "#" } else { "" });
                kept.push_str(name);
            }
        }
        kept.push_str(&word[number.len()..]);
    }
    kept
}

/// Records a guest with its own init, which is the body of a C function.
#[track_caller]
fn own_init(body: &str, flags: &[&str], outcome: &str, check: impl FnOnce(&Path, &str)) {
    let Some(kernel) = kernel() else { return };
    let scratch = Scratch::new();
    let into = scratch.path("boot");
    let mut command = record(&kernel, &into);
    // The kernel resets at once: it does not ask the firmware.
    command.args(["--init", "keep", "--append", &format!("{CALM} reboot=t")]).args(flags);
    command.arg("--initrd").arg(initrd(scratch.folder(), body));
    let ran = recorded(&mut command, &into, outcome);
    assert_eq!(shown(&into)["outcome"], outcome);
    check(&into, &ran.stderr);
}

#[test]
#[ignore = "9 s: in make test-all"]
fn a_panic_is_named_by_its_line() {
    let Some(kernel) = kernel() else { return };
    // With `panic=-1` it resets at once, and the outcome is still a panic.
    for append in ["quiet", "quiet panic=-1 reboot=t"] {
        let scratch = Scratch::new();
        let into = scratch.path("boot");
        let append = format!("{append} {CALM}");
        let mut command = record(&kernel, &into);
        recorded(command.args(["--init", "keep", "--append", &append]), &into, "panic");
        let detail = manifest(&into)["outcome"]["detail"].clone();
        let line = "Kernel panic - not syncing: VFS: Unable to mount root fs";
        assert!(text(&detail).contains(line), "{detail}");
        assert!(evidence(&into, "console.log").contains(line));
        let log = messages(&evidence(&into, "kmsg-memory.log"));
        assert!(log.iter().any(|(_, text)| text.contains(line)), "the log in memory has it too");
        let shown = run(bootscope("show").arg(&into)).exits(0);
        assert!(shown.text().starts_with("Linux") && shown.text().contains("panic"), "{}", shown.text());
    }
}

#[test]
fn an_init_that_ends_is_a_panic() {
    own_init("call(60, 7, 0, 0, 0);", &["--until", "never said"], "panic", |into, _| {
        let detail = manifest(into)["outcome"]["detail"].clone();
        assert!(text(&detail).contains("Attempted to kill init! exitcode=0x00000700"), "{detail}");
    });
}

#[test]
fn a_reset_is_no_power_off() {
    own_init("restart();", &["--until", "never said"], "reset", |_, output| {
        assert!(output.contains("reset"), "{output}")
    });
}

#[test]
fn a_power_off_before_the_end_mark_is_not_reached() {
    own_init("say(\"good night\\n\"); power_off();", &["--until", "never said"], "power-off", |into, output| {
        assert!(output.contains("before the end mark"), "{output}");
        assert!(evidence(into, "console.log").contains("good night"));
    });
}

#[test]
fn a_power_off_can_be_the_end_mark() {
    own_init("power_off();", &["--until", "power-off"], "reached", |into, _| {
        assert_eq!(manifest(into)["end"]["what"], "power-off");
    });
}

#[test]
fn a_line_of_the_guests_own_can_be_the_end_mark() {
    own_init("say(\"\\nready in 5\\n\"); wait();", &["--until", "^ready in [0-9]"], "reached", |into, _| {
        let end = manifest(into)["end"].clone();
        assert!(text(&end["what"]).contains("ready in 5"), "{end}");
        // The end mark is the arrival of the line, by its own stamp.
        let document = shown(into);
        assert!((ns(&document["total_ns"]) - ns(&end["at_ns"])).abs() < 50_000_000, "{} {end}", document["total_ns"]);
    });
}

#[test]
#[ignore = "13 s: in make test-all"]
fn a_boot_that_takes_too_long_is_timed_out() {
    own_init("for (;;);", &["--until", "never said", "--timeout", "12s"], "timeout", |into, output| {
        assert!(output.contains("within 12 s"), "{output}");
        assert!(messages(&evidence(into, "kmsg-memory.log")).len() > 100);
    });
}

/// The most bytes on disk for the start of a guest's console in the next test.
const MAX_STREAM_BYTES: u64 = 192 << 10;

#[test]
#[ignore = "11 s: in make test-all"]
fn a_guest_that_prints_too_much_is_cut_in_the_middle() {
    let Some(kernel) = kernel() else { return };
    let scratch = Scratch::new();
    let (short, long) = (scratch.path("short"), scratch.path("long"));
    let body = "say(\"up\\n\"); for (int n = 0; n < 8000; n++) say(\"and on and on and on and on and on\\n\");
        say(\"that is all\\n\"); wait();";
    let init = initrd(scratch.folder(), body);
    let mut command = record(&kernel, &short);
    command.args(["--init", "keep", "--until", "^up", "--append", QUIET, "--initrd"]).arg(init);
    recorded(&mut command, &short, "reached");
    // The default limit is 256 MiB, too much for a serial port in a test. So the test edits a smaller limit into a
    // recording, and repeats that.
    let manifest_path = short.join("recording.json");
    let mut changed = manifest(&short);
    assert!(changed["how"]["stream_bytes_max"].as_u64() > Some(1 << 20), "{}", changed["how"]);
    changed["how"]["stream_bytes_max"] = MAX_STREAM_BYTES.into();
    std::fs::write(&manifest_path, changed.to_string()).unwrap();
    let mut command = bootscope("record");
    command.arg("--like").arg(&short).args(["--until", "^that is all", "-o"]).arg(&long);
    recorded(&mut command, &long, "reached");
    let size = |name: &str| std::fs::metadata(long.join(name)).unwrap().len();
    let sizes = ["console.log", "console.idx", "console.tail.log", "console.tail.idx"].map(size);
    assert!(
        sizes[0] + sizes[1] <= MAX_STREAM_BYTES && sizes[0] > MAX_STREAM_BYTES / 4,
        "of the start what fits is kept: {sizes:?}"
    );
    assert!(sizes[2] <= 64 << 10 && sizes[2] > 32 << 10, "and of the end the last 64 KiB: {sizes:?}");
    assert!(evidence(&long, "console.tail.log").contains("and on and on"));
    let notes = manifest(&long)["notes"].to_string();
    assert!(notes.contains("console.log: ") && notes.contains("too many to keep"), "{notes}");
    shown(&long);
}

#[test]
fn a_boot_that_cannot_start_is_refused_and_leaves_nothing() {
    let Some(kernel) = kernel() else { return };
    let scratch = Scratch::new();
    let into = scratch.path("boot");
    let missing = Path::new("/nonexistent/initrd");
    run(&mut record(missing, &into)).refuses(&["/nonexistent/initrd", "No such file"]);
    run(&mut record(Path::new("/etc/passwd"), &into)).refuses(&["/etc/passwd is not a kernel", "bzImage"]);
    run(&mut record(Path::new("/etc"), &into)).refuses(&["/etc"]);
    run(record(&kernel, &into).arg("--initrd").arg(missing)).refuses(&["/nonexistent/initrd", "No such file"]);
    run(record(&kernel, &into).arg("--disk").arg(missing)).refuses(&["/nonexistent/initrd", "No such file"]);
    run(record(&kernel, &into).args(["--until", "("])).refuses(&["--until"]);
    run(record(&kernel, &into).args(["--memory", "1M"])).refuses(&["--memory", "at least 16M"]);
    run(record(&kernel, &into).args(["--qemu", "/nonexistent/qemu"])).refuses(&["/nonexistent/qemu", "apt install"]);
    run(record(&kernel, &into).env("PATH", "/nonexistent"))
        .refuses(&["qemu-system-x86_64", "apt install qemu-system-x86"]);
    let disk = scratch.path("disk.img");
    std::fs::write(&disk, vec![0; 1 << 20]).unwrap();
    run(record(&kernel, &into).arg("--deterministic").arg("--disk").arg(&disk))
        .refuses(&["--deterministic", "disk.img"]);
    assert!(!into.exists(), "what was refused leaves nothing");

    std::fs::create_dir(&into).unwrap();
    std::fs::write(into.join("precious"), "kept").unwrap();
    run(&mut record(&kernel, &into)).refuses(&["exists already", "--force"]);
    run(record(&kernel, &into).arg("--force")).refuses(&["not a recording"]);
    assert_eq!(evidence(&into, "precious"), "kept");
}

#[test]
#[ignore = "30 s: in make test-all"]
fn a_deterministic_panic_takes_the_same_time_on_a_busy_host() {
    let Some(kernel) = kernel() else { return };
    let scratch = Scratch::new();
    // Nothing of bootscope runs in the guest: the kernel finds no root and panics.
    let boot = |name: &str, busy: bool| {
        let into = scratch.path(name);
        let mut command = record(&kernel, &into);
        command.args(["--init", "keep", "--deterministic", "--memory", "256M", "--append", CALM]);
        let mut load: Vec<_> = (0..if busy { 4 } else { 0 })
            .map(|_| Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap())
            .collect();
        recorded(&mut command, &into, "panic");
        load.iter_mut().for_each(|spin| {
            spin.kill().unwrap();
            spin.wait().unwrap();
        });
        let document = shown(&into);
        // The kernel's own stamp of its last message. Its clock and the counter differ by some 20 ms at this kernel's
        // initcalls.
        let log = messages(&evidence(&into, "kmsg-memory.log"));
        let panic_us = log.iter().find(|(_, text)| text.starts_with("Kernel panic")).expect("it panicked").0;
        (ns(&document["total_ns"]), panic_us as i64 * 1000)
    };
    let ((quiet, stamp_ns), (busy, _)) = (boot("quiet", false), boot("busy", true));
    assert_eq!(quiet, busy);
    assert!((quiet - stamp_ns).abs() < stamp_ns / 10, "{quiet} ns, and the kernel panicked at {stamp_ns}");
}

#[test]
fn an_old_or_missing_qemu_is_refused() {
    let Some(kernel) = kernel() else { return };
    let scratch = Scratch::new();
    let fake = scratch.path("qemu");
    for (script, words) in [
        ("echo QEMU emulator version 4.2.1", &["4.2.1", "at least", "--qemu"][..]),
        ("echo QEMU emulator version 7.2.22", &["does not work", "is a script"]),
        ("echo hello", &["does not work"]),
        ("echo no such library >&2; exit 127", &["does not work", "no such library"]),
    ] {
        std::fs::write(&fake, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&fake, std::fs::Permissions::from_mode(0o755)).unwrap();
        run(record(&kernel, &scratch.path("boot")).arg("--qemu").arg(&fake)).refuses(words);
    }
}

#[test]
fn an_error_of_qemu_is_quoted() {
    let Some(kernel) = kernel() else { return };
    let scratch = Scratch::new();
    let into = scratch.path("boot");
    run(record(&kernel, &into).args(["--", "-device", "nonsense"]))
        .refuses(&["exit status: 1", "'nonsense' is not a valid device"]);
    run(record(&kernel, &into).args(["--machine", "foo"])).refuses(&["unsupported machine type", "-machine help"]);
    assert!(!into.exists(), "nothing was recorded");
}

#[test]
fn an_initrd_that_no_kernel_unpacks_is_refused_or_reported() {
    let Some(kernel) = kernel() else { return };
    let scratch = Scratch::new();
    let (into, script) = (scratch.path("boot"), scratch.path("init.sh"));
    std::fs::write(&script, "#!/bin/sh\n").unwrap();
    run(record(&kernel, &into).arg("--initrd").arg(&script)).refuses(&["init.sh", "neither a cpio", "-H newc"]);
    // With the guest's own init it may be the image of a disk.
    let mut command = record(&kernel, &into);
    command.args(["--init", "keep", "--append", QUIET, "--initrd"]).arg(&script);
    let ran = recorded(&mut command, &into, "panic");
    assert!(ran.stderr.contains("init.sh is no initial RAM file system"), "{}", ran.stderr);
}

#[test]
fn a_full_disk_ends_the_recording_and_keeps_what_fitted() {
    let Some(kernel) = kernel() else { return };
    let scratch = Scratch::new();
    let small = scratch.path("small");
    std::fs::create_dir(&small).unwrap();
    // A file system of 300 KiB, in its own mount namespace. Its content is read before it disappears.
    let script = format!(
        "mount -t tmpfs -o size=300k none {small} || exit 77; \
         {bootscope} record --accel tcg --timeout 60s --kernel {kernel} --append 'ignore_loglevel {CALM}' -o {small}/boot; \
         echo status $?; {bootscope} show {small}/boot >{small}.shown; echo show $?",
        small = small.display(),
        bootscope = env!("CARGO_BIN_EXE_bootscope"),
        kernel = kernel.display()
    );
    // Root needs no user namespace, which a chroot does not give even to root.
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    let mut command = Command::new("unshare");
    let ran = run(command.arg("--mount").args((!is_root).then_some("--map-root-user")).args(["sh", "-c", &script]));
    if ran.status == 77 || ran.stderr.contains("unshare failed") {
        return skip("no mount namespace of its own can be made here");
    }
    assert!(ran.text().contains("show 0") && !ran.text().contains("status 0"), "{} {}", ran.text(), ran.stderr);
    assert!(ran.stderr.contains("no space left on the disk"), "{}", ran.stderr);
    let shown = std::fs::read_to_string(scratch.path("small.shown")).unwrap();
    assert!(shown.contains("no space left") && shown.contains("firmware"), "{shown}");
}
