//! The second kernel, `kernel/examples`: built, booted, and its output checked. It uses `p2buddy`, `vmem` and `sampler`
//! as their READMEs describe, and its samples have known shares.

use crate::support::boots::Scratch;
use crate::support::{bootscope, list, ns, rows, run, skip};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Builds it as its header comment describes, beside the first kernel.
fn built() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args([
        "build",
        "--locked",
        "--profile",
        "lab",
        "-p",
        "kernel-examples",
        "--features",
        "kernel",
        "--target-dir",
    ]);
    cargo.arg(root.join("target")).env("RUSTFLAGS", "-C force-frame-pointers=yes").current_dir(&root);
    let output = cargo.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    root.join("target/lab/second-kernel")
}

#[test]
fn a_second_kernel_takes_the_crates_and_its_samples_are_read() {
    if Command::new("qemu-system-x86_64").arg("--version").stdout(Stdio::null()).status().is_err() {
        skip("no qemu-system-x86_64; Debian's package `qemu-system-x86` has it");
        return;
    }
    let scratch = Scratch::new();
    let (serial, into) = (scratch.path("serial.txt"), scratch.path("second"));
    let mut qemu = Command::new("timeout");
    qemu.args([
        "120",
        "qemu-system-x86_64",
        "-M",
        "q35",
        "-m",
        "64M",
        "-accel",
        "tcg",
        "-display",
        "none",
        "-no-reboot",
    ]);
    qemu.args(["-icount", "shift=0,sleep=off", "-device", "isa-debug-exit,iobase=0xf4,iosize=4", "-serial"]);
    qemu.arg(format!("file:{}", serial.display())).arg("-kernel").arg(built()).stdin(Stdio::null());
    let ended = qemu.output().unwrap();
    let serial_output = fs::read_to_string(&serial).unwrap_or_default();
    // isa-debug-exit turns the kernel's 0 into this status.
    assert_eq!(ended.status.code(), Some(1), "{}{serial_output}", String::from_utf8_lossy(&ended.stderr));

    // 1 + 2 + 4 + 8 frames were allocated 64 times. Then all blocks merged again up to the largest.
    let numbers = |line: &str| {
        let words = line.split(|c: char| !c.is_ascii_digit()).filter(|word| !word.is_empty());
        words.map(|word| word.parse().unwrap()).collect::<Vec<u64>>()
    };
    let mut lines = serial_output.lines();
    let (frames, arena) = (lines.next().unwrap(), lines.next().unwrap());
    let [free, least] = numbers(frames)[..] else { panic!("{frames}") };
    assert!(free - least == 960 && free > 15_000 && frames.ends_with("merged again: (true, true)"), "{frames}");
    let [imports, given_back] = numbers(arena)[..] else { panic!("{arena}") };
    assert!(imports > 0 && imports == given_back, "{arena}");

    run(bootscope("import").arg(&serial).arg("-o").arg(&into)).exits(0);
    let shown = run(bootscope("show").arg("--json").arg(&into)).exits(0).json();
    assert_eq!(list(&shown["diagnostics"]).len(), 0, "{}", shown["diagnostics"]);
    let event = &shown["sampled"]["events"][0];
    assert_eq!((ns(&event["samples"]), ns(&shown["sampled"]["lost"]), ns(&event["user"])), (400, 0, 0));
    let share = |name: &str| {
        let row = rows(&event["functions"], "name", name)[0];
        (row["total_share"].as_f64().unwrap(), row["total_error"].as_f64().unwrap())
    };
    // By its counter it spins three times as long as it works.
    let (spins, error) = share("spin");
    println!("spin: {spins:.4} ± {error:.4}");
    assert!((spins - 0.75).abs() < 3.0 * error && (0.01..0.03).contains(&error), "{spins} {error}");
    assert!(share("kmain").0 > 0.99 && share("hand_out").0 > 0.02 && share("give_back").0 > 0.02, "{event}");
}
