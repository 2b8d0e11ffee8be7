//! The speed of the evidence transfer from a guest. The tests of guest-init transfer a pattern of many megabytes on
//! each channel, and print their speed.

use crate::table::{MB_PER_S, Promise, SLOW_MB_PER_S, Table, Unit, last_line};
use std::path::Path;
use std::process::Command;

/// A transfer channel: its figure, its test, the start of the line with the speed, its unit, and the promise in MB/s.
type Channel = (&'static str, &'static str, &'static str, Unit, f64);

const CHANNELS: [Channel; 2] = [
    ("evidence home through memory", "everything_comes_home_through_memory", "guest and host: ", MB_PER_S, 200.0),
    ("evidence home by the port", "the_port_brings_it_home_where_memory_cannot", "port: ", SLOW_MB_PER_S, 0.5),
];

/// Runs each channel's test.
pub fn measure(kernel: Result<&Path, &String>, table: &mut Table) {
    for (figure, test, start, unit, promise) in CHANNELS {
        match kernel.map(|kernel| speed(kernel, test, start)) {
            Ok(Ok(found)) => table.add(figure, found, unit, Promise::AtLeast(promise), ""),
            Ok(Err(why)) => table.fail(figure, &why),
            Err(why) => table.skip(figure, why),
        }
    }
}

fn speed(kernel: &Path, test: &str, start: &str) -> Result<f64, String> {
    let output = Command::new(env!("CARGO"))
        .args(["test", "--release", "--locked", "-p", "guest-init", "--test", "guest", "--", "--nocapture", test])
        .env("BOOTSCOPE_TEST_KERNEL", kernel)
        .output()
        .map_err(|e| format!("cargo: {e}"))?;
    if !output.status.success() {
        return Err(format!("{test} failed: {}", last_line(&output.stderr)));
    }
    let output_text = String::from_utf8_lossy(&output.stdout);
    // `guest and host: a round of 8388608 bytes in 25.1 ms, 334 MB/s`
    let line = output_text.lines().find_map(|line| line.strip_prefix(start)?.strip_suffix(" MB/s"));
    let number = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
    number.ok_or_else(|| format!("{test} says no speed: {}", last_line(&output.stderr)))
}
