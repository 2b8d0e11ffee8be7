//! Turned off, the macros produce no code: a file with them and the same file without them compile to the same assembly,
//! byte for byte, in Rust and in C, with and without optimisation. Turned on, the assembly differs, so the comparison can
//! fail.

mod support;

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use support::{CRATE, cc, folder, run, rustc, tslog_rlib};

/// The assembly of `instrumented.rs`, with the macros if the recorder's rlib is given.
fn rust_assembly(folder: &Path, tslog: Option<&Path>, optimisation: &str) -> String {
    let assembly = folder.join("rust.s");
    let mut rustc = rustc();
    rustc
        .args(["--emit", "asm", "-C", "panic=abort", "-C", optimisation, "-C", "codegen-units=1", "-o"])
        .arg(&assembly);
    if let Some(rlib) = tslog {
        rustc.args(["--cfg", "instrumented", "--extern"]).arg(format!("tslog={}", rlib.display()));
    }
    run(rustc.arg(Path::new(CRATE).join("tests/programs/instrumented.rs")));
    labels_in_order(&fs::read_to_string(assembly).expect("it was just written"))
}

/// Renumbers local labels in the order of their first appearance. Compilers skip numbers of labels that they leave out.
fn labels_in_order(assembly: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '_';
    let mut seen = HashMap::new();
    let mut result = String::new();
    let mut rest = assembly;
    while let Some(at) = rest.find(".L") {
        let label = &rest[at..];
        let label = &label[..label.find(|c| !is_part(c)).unwrap_or(label.len())];
        let count = seen.len();
        let number = *seen.entry(label).or_insert(count);
        result += &format!("{}.L{number}", &rest[..at]);
        rest = &rest[at + label.len()..];
    }
    result + rest
}

#[test]
fn off_is_no_code_in_rust() {
    let folder = folder("off-rust");
    let (on, off) = (tslog_rlib(&folder, true), tslog_rlib(&folder, false));
    for optimisation in ["opt-level=0", "opt-level=2", "opt-level=s"] {
        let without = rust_assembly(&folder, None, optimisation);
        assert!(without.contains("first_function"), "{without}");
        assert!(rust_assembly(&folder, Some(&off), optimisation) == without, "{optimisation}");
        assert!(rust_assembly(&folder, Some(&on), optimisation) != without, "{optimisation}");
    }
}

fn c_assembly(folder: &Path, flags: &[&str]) -> String {
    let assembly = folder.join("c.s");
    let mut cc = cc();
    cc.args(["-std=c11", "-ffreestanding", "-Wall", "-Wextra", "-Werror", "-S", "-I"])
        .arg(Path::new(CRATE).join("include"));
    run(cc.args(flags).arg(Path::new(CRATE).join("tests/programs/instrumented.c")).arg("-o").arg(&assembly));
    labels_in_order(&fs::read_to_string(assembly).expect("it was just written"))
}

#[test]
fn off_is_no_code_in_c() {
    let folder = folder("off-c");
    for optimisation in ["-O0", "-O2", "-Os"] {
        let without = c_assembly(&folder, &[optimisation]);
        assert!(without.contains("mount"), "{without}");
        assert!(c_assembly(&folder, &[optimisation, "-DINSTRUMENTED"]) == without, "{optimisation}");
        assert!(c_assembly(&folder, &[optimisation, "-DINSTRUMENTED", "-DTSLOG"]) != without, "{optimisation}");
    }
}
