//! The promised figures of the project, each beside its promise, from one run on this machine: `make bench`.
//!
//! One line per figure: its name, the measured value (the median, with the range in brackets), the promise, and whether
//! it was kept. Figures that compare two programs are ratios of one run. A figure that cannot be measured here has a
//! reason. The exit status is 1 if a promise is not kept.
//!
//! `cargo bench -p bootscope --bench figures -- [--pairs N] [PART]…`, with the parts `readers`, `synthetic`, `tslog`,
//! `boot`, `calls`, `home`, `bench`, `simulations`, `lab`, `page`, `history` and `lake`; without any, all.

mod bench;
mod boot;
mod calls;
mod history;
mod home;
mod host;
mod instructions;
mod lab;
mod lake;
mod page;
mod readers;
mod show;
mod synthetic;
mod table;
mod tslog;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use table::Table;

/// The program under test.
const BOOTSCOPE: &str = env!("CARGO_BIN_EXE_bootscope");

fn main() -> ExitCode {
    let (parts, pairs) = match arguments() {
        Ok(read) => read,
        Err(wrong) => {
            eprintln!(
                "figures: {wrong}; usage: figures [--pairs N] [readers|synthetic|tslog|boot|calls|home|bench|simulations|lab|page|history|lake]…"
            );
            return ExitCode::from(2);
        }
    };
    let wanted = |part: &str| parts.is_empty() || parts.iter().any(|p| p == part);
    let work = Path::new(env!("CARGO_TARGET_TMPDIR")).join("figures");
    let kernel = kernel();
    let mut table = Table::default();
    if wanted("boot") {
        boot::measure(kernel.as_deref(), &work, pairs, &mut table);
    }
    if wanted("calls") {
        calls::measure(kernel.as_deref(), &work, pairs, &mut table);
    }
    if wanted("home") {
        home::measure(kernel.as_deref(), &mut table);
    }
    if wanted("bench") {
        bench::measure(kernel.as_deref(), &work, &mut table);
    }
    if wanted("simulations") {
        bench::simulate(&mut table);
    }
    if wanted("lab") {
        lab::measure(&work, &mut table);
    }
    if wanted("synthetic") {
        show::synthetic(&work, &mut table);
    }
    if wanted("tslog") {
        tslog::measure(&work, &mut table);
    }
    if wanted("readers") {
        readers::measure(&mut table);
    }
    if wanted("page") {
        page::measure(&work, &mut table);
    }
    if wanted("history") {
        history::measure(&work, &mut table);
    }
    if wanted("lake") {
        lake::measure(kernel.as_deref(), &work, &mut table);
    }
    println!("\n{}\n{table}", host::description(kernel.as_deref().ok()));
    if table.kept() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn arguments() -> Result<(Vec<String>, u32), String> {
    let (mut parts, mut pairs) = (Vec::new(), 5);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            // Cargo passes this to every benchmark.
            "--bench" => {}
            "--pairs" => {
                let count = arguments.next().and_then(|n| n.parse().ok()).filter(|n| *n >= 2);
                pairs = count.ok_or("--pairs takes a number from 2")?;
            }
            "readers" | "synthetic" | "tslog" | "boot" | "calls" | "home" | "bench" | "simulations" | "lab"
            | "page" | "history" | "lake" => parts.push(argument),
            _ => return Err(format!("`{argument}` is no part")),
        }
    }
    Ok((parts, pairs))
}

/// The JSON document that a command prints.
fn json_document(command: &mut Command) -> Result<Value, String> {
    let output = command.output().map_err(|e| e.to_string())?;
    if !output.status.success() {
        return Err(table::last_line(&output.stderr));
    }
    serde_json::from_slice(&output.stdout).map_err(|e| e.to_string())
}

/// The `recording.json` of a recording.
fn manifest(recording: &Path) -> Result<Value, String> {
    let text = std::fs::read(recording.join("recording.json")).map_err(|e| format!("recording.json: {e}"))?;
    serde_json::from_slice(&text).map_err(|e| format!("recording.json: {e}"))
}

/// The kernel to boot, or the reason why no kernel can be booted here.
fn kernel() -> Result<PathBuf, String> {
    if host::first_line("qemu-system-x86_64", &["--version"]).is_none() {
        return Err("no qemu-system-x86_64: install Debian's package qemu-system-x86".to_owned());
    }
    if let Some(named) = std::env::var_os("BOOTSCOPE_TEST_KERNEL") {
        let path = PathBuf::from(named);
        return if path.is_file() {
            Ok(path)
        } else {
            Err(format!("BOOTSCOPE_TEST_KERNEL: no file {}", path.display()))
        };
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/fetch-kernel");
    match std::process::Command::new(script).arg("6.1-cloud").output() {
        Ok(output) if output.status.success() => Ok(String::from_utf8_lossy(&output.stdout).trim().into()),
        Ok(output) => Err(table::last_line(&output.stderr)),
        Err(e) => Err(format!("no BOOTSCOPE_TEST_KERNEL, and scripts/fetch-kernel: {e}")),
    }
}
