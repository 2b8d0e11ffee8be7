//! A clock before 1970, as that of a board whose battery is empty: commands that write the date of a recording write the first
//! second of 1970.

use crate::support::{bootscope, fixture, run, run_with, shown};
use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// Gives the wall clock the year 1901. Other clocks stay.
const SHIM: &str = r"
#define _GNU_SOURCE
#include <time.h>
#include <unistd.h>
#include <sys/syscall.h>
int clock_gettime(clockid_t clock, struct timespec *at) {
    long failed = syscall(SYS_clock_gettime, clock, at);
    if (clock == CLOCK_REALTIME) at->tv_sec = -2177452800L;
    return failed;
}
";

fn shim(folder: &TempDir) -> PathBuf {
    let shim = folder.path().join("clock.so");
    let mut compiler = Command::new("cc");
    run_with(compiler.args(["-shared", "-fPIC", "-x", "c", "-", "-o"]).arg(&shim), SHIM.as_bytes()).exits(0);
    shim
}

#[test]
fn imports_and_captures_are_dated_1970() {
    let folder = TempDir::new().unwrap();
    let (shim, imported, captured) =
        (shim(&folder), folder.path().join("imported"), folder.path().join("captured.tar.zst"));
    let log = fixture("log/linux-6.1-serial.log");
    run(bootscope("import").arg(log).arg("-o").arg(&imported).env("LD_PRELOAD", &shim)).exits(0);
    run(bootscope("capture").arg("-o").arg(&captured).env("LD_PRELOAD", &shim)).exits(0);
    let mut archive = tar::Archive::new(zstd::Decoder::new(File::open(&captured).unwrap()).unwrap());
    let mut manifest = String::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        if entry.path().unwrap().ends_with("recording.json") {
            entry.read_to_string(&mut manifest).unwrap();
        }
    }
    for manifest in [manifest, fs::read_to_string(imported.join("recording.json")).unwrap()] {
        let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
        assert_eq!(manifest["created"], "1970-01-01T00:00:00Z", "{manifest}");
    }
    shown(&imported);
    shown(&captured);
}
