//! Runs every command that README.md and the book show, also in tables, and compares the output with the page, except
//! for figures.
//!
//! `scripts/make-book --check` does it, so test and book share one reader of pages. Commands that it does not run are
//! printed with the reason.

use crate::support::skip;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

#[test]
#[ignore = "113 s: in make test-all"]
fn the_book_shows_the_output_of_its_commands() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut check = Command::new(root.join("scripts/make-book"));
    let done = check.arg("--check").env("BOOTSCOPE", env!("CARGO_BIN_EXE_bootscope")).output().expect("python3 runs");
    let (stdout, stderr) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    println!("{stdout}");
    let mut reasons: BTreeMap<&str, u32> = BTreeMap::new();
    for line in stdout.lines().filter(|line| line.starts_with("not run: ")) {
        *reasons.entry(line.rsplit('\t').next().unwrap_or_default()).or_default() += 1;
    }
    for (why, count) in reasons {
        skip(&format!("{count} commands of README.md and the book: {why}"));
    }
    assert!(done.status.success(), "{stderr}");
    // `N commands run in T s, M known from before, …`
    let last = stdout.lines().last().unwrap_or_default();
    let count = |text: &str| text.split(' ').next().and_then(|number| number.parse::<u32>().ok()).unwrap_or(0);
    let run: u32 = last.split(", ").take(2).map(count).sum();
    assert!(run >= 50, "only {run} commands were run: {last}");
    let of_tables = last.split(", ").map(count).nth(3).unwrap_or(0);
    assert!(of_tables >= 20, "only {of_tables} of the commands in tables were run: {last}");
}
