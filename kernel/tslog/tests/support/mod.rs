//! Compilers, for tests that compare machine code or link two languages.
//!
//! `kernel/check-aarch64` sets environment variables to use the compilers of another architecture.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::Command;

/// The crate's folder.
pub const CRATE: &str = env!("CARGO_MANIFEST_DIR");

/// An empty folder for one test.
pub fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tslog").join(test);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("target/tmp can be written to");
    folder
}

/// The command in an environment variable, with its first arguments, or else the default command.
fn command(variable: &str, default: &str) -> Command {
    let words = std::env::var(variable).unwrap_or_else(|_| default.to_owned());
    let mut words = words.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or_else(|| panic!("{variable} names no program")));
    command.args(words);
    command
}

/// The Rust compiler that built this test.
pub fn rustc() -> Command {
    let mut rustc = command("TSLOG_TEST_RUSTC", &std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned()));
    rustc.args(["--edition", "2024"]);
    rustc
}

/// The C compiler that links Rust programs.
pub fn cc() -> Command {
    command("TSLOG_TEST_CC", "cc")
}

/// A command that runs a program built by these compilers, in an emulator if the environment names one.
pub fn program(path: &Path) -> Command {
    match std::env::var("TSLOG_TEST_RUNNER") {
        Ok(_) => {
            let mut runner = command("TSLOG_TEST_RUNNER", "");
            runner.arg(path);
            runner
        }
        Err(_) => Command::new(path),
    }
}

/// The output without the counter's rate. On aarch64 every log ends with the rate, because a register holds it.
pub fn without_own_rate(printed: &str, logs: usize) -> String {
    let hz = |line: &str| line.rsplit_once(" EVENT TSLOG hz ").and_then(|(_, hz)| hz.parse::<u64>().ok());
    let (rates, others): (Vec<&str>, Vec<&str>) = printed.lines().partition(|line| hz(line).is_some());
    assert_eq!(rates.len(), if cfg!(target_arch = "aarch64") { logs } else { 0 }, "{printed}");
    assert!(rates.iter().all(|line| hz(line).is_some_and(|hz| (1_000_000..=1_000_000_000).contains(&hz))), "{rates:?}");
    others.join("\n")
}

/// Compiles the crate alone, with the recorder on or off, and returns the path of its rlib.
pub fn tslog_rlib(folder: &Path, on: bool) -> PathBuf {
    let rlib = folder.join(if on { "on/libtslog.rlib" } else { "off/libtslog.rlib" });
    std::fs::create_dir_all(rlib.parent().expect("it has one")).expect("target/tmp can be written to");
    let mut rustc = rustc();
    rustc.args(["--crate-name", "tslog", "--crate-type", "rlib", "-O", "-C", "panic=abort", "-o"]).arg(&rlib);
    if on {
        rustc.args(["--cfg", "feature=\"on\""]);
    }
    run(rustc.arg(Path::new(CRATE).join("src/lib.rs")));
    rlib
}

/// Runs a program, which must succeed, and returns its output.
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{stderr}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}
