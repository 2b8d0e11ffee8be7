//! Compilers, for tests that look at machine code or link two languages.
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

/// The Rust compiler that built this test.
pub fn rustc() -> Command {
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["--edition", "2024"]);
    rustc
}

/// The C compiler that links Rust programs.
pub fn cc() -> Command {
    Command::new("cc")
}

/// Compiles the crate by itself, on or off, and returns where its rlib is.
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

/// Runs a program that has to succeed, and returns what it printed.
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{stderr}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}
