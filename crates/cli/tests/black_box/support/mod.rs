//! Shared code of the black-box tests: runs the program as a user does, and reads its output.
//!
//! No code here uses the program's own libraries: the tests check the program's output, its exit status and the folder
//! that it leaves. Each run has the tests' own cache folder, so a machine's saved figures have no effect.

pub mod boots;
pub mod debian;
pub mod followed;
pub mod images;
pub mod journals;
pub mod json_schema;
pub mod kills;
pub mod lab;
pub mod other_archs;
pub mod percival;
pub mod schemas;
pub mod scripts;
pub mod service_graphs;

use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The program with a subcommand.
pub fn bootscope(subcommand: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bootscope"));
    command.arg(subcommand).env_remove("NO_COLOR").env_remove("COLUMNS").stdin(Stdio::null());
    let own = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let homes = [("XDG_CACHE_HOME", "cache"), ("XDG_DATA_HOME", "data"), ("XDG_CONFIG_HOME", "config")];
    command.envs(homes.map(|(name, folder)| (name, own.join(folder))));
    command
}

/// The result of a run.
#[derive(Debug)]
pub struct Ran {
    /// Exit status.
    pub status: i32,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error, as text.
    pub stderr: String,
    what: String,
}

/// Runs a command to its end. An end by a signal is a failure, whatever the test expects.
pub fn run(command: &mut Command) -> Ran {
    let what = format!("{command:?}");
    let output = command.output().unwrap_or_else(|e| panic!("{what}: {e}"));
    ran(output, what)
}

/// As [`run`], with data on standard input.
pub fn run_with(command: &mut Command, input: &[u8]) -> Ran {
    let what = format!("{command:?}");
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("{what}: {e}"));
    child.stdin.take().expect("it is piped").write_all(input).expect("it reads all of it");
    ran(child.wait_with_output().expect("it ends"), what)
}

/// The result of a child that has ended.
pub fn ran(output: Output, what: String) -> Ran {
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let status = output.status.code().unwrap_or_else(|| panic!("{what}: {:?}: {stderr}", output.status));
    Ran { status, stdout: output.stdout, stderr, what }
}

impl Ran {
    /// Asserts the exit status.
    #[track_caller]
    pub fn exits(self, status: i32) -> Ran {
        assert_eq!(self.status, status, "exit status of {}\n{}", self.what, self.stderr);
        self
    }

    /// Asserts a refusal: exit status 2, nothing on standard output, and one message with all these words.
    #[track_caller]
    pub fn refuses(self, words: &[&str]) -> Ran {
        let ran = self.exits(2);
        assert_eq!(ran.text(), "", "{}", ran.what);
        for word in words {
            assert!(ran.stderr.contains(word), "{}: no {word:?} in: {}", ran.what, ran.stderr);
        }
        assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
        ran
    }

    /// Standard output as text.
    #[track_caller]
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap_or_else(|e| panic!("{}: {e}", self.what))
    }

    /// Standard output as one JSON document.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.stdout).unwrap_or_else(|e| panic!("{}: {e}", self.what))
    }
}

/// The `show --json` document of a recording, with its sums checked.
#[track_caller]
pub fn shown(recording: &Path) -> Value {
    let document = run(bootscope("show").arg("--json").arg(recording)).exits(0).json();
    assert_eq!(document["schema"], "bootscope.show/1");
    assert_adds_up(&document);
    document
}

/// Asserts that the document adds up, to the nanosecond. The program's own check finds no impossible figure, phases are
/// contiguous and sum to the total, and so do the charges of the boot path.
#[track_caller]
pub fn assert_adds_up(document: &Value) {
    let impossible = |d: &&Value| text(&d["code"]).starts_with("impossible-");
    let found: Vec<&Value> = list(&document["diagnostics"]).iter().filter(impossible).collect();
    assert!(found.is_empty(), "figures that cannot be: {found:?}");
    let total = ns(&document["total_ns"]);
    let mut at = None;
    let mut sum = 0;
    for phase in list(&document["phases"]) {
        let (start, end) = (ns(&phase["start_ns"]), ns(&phase["end_ns"]));
        assert!(start <= end, "a phase that ends before it starts: {phase}");
        assert_eq!(at.unwrap_or(start), start, "a gap before {phase}");
        at = Some(end);
        sum += end - start;
    }
    assert_eq!(sum, total, "the phases' sum");
    let rows = list(&document["where"]);
    if !rows.is_empty() {
        assert_eq!(rows.iter().map(|row| ns(&row["self_ns"])).sum::<i64>(), total, "the sum of `where`");
    }
    // A field that is left out is 0.
    let sum = |list: &[Value], field: &str| list.iter().map(|one| one[field].as_i64().unwrap_or(0)).sum::<i64>();
    let waited = document["waited_ns"].as_i64().unwrap_or(0);
    assert_eq!(sum(list(&document["phases"]), "waited_ns"), waited, "the timed waits of phases");
    if !rows.is_empty() {
        assert_eq!(sum(rows, "self_waited_ns"), waited, "the timed waits of `where`");
    }
}

#[track_caller]
pub fn ns(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("no integer: {value}"))
}

#[track_caller]
pub fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("no list: {value}"))
}

#[track_caller]
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}

/// The rows of a list whose field has this value.
pub fn rows<'a>(of: &'a Value, field: &str, value: &str) -> Vec<&'a Value> {
    of.as_array().into_iter().flatten().filter(|row| row[field] == value).collect()
}

/// The fixtures of the readers: excerpts of real logs and traces.
pub fn fixtures() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in ["log", "trace", "guestfs"] {
        let folder = fixture(folder);
        for entry in std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|e| e == "log" || e == "txt") {
                found.push(path);
            }
        }
    }
    assert!(found.len() >= 10, "fixtures are missing: {found:?}");
    found.sort();
    found
}

/// The fixture of this name.
pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../evidence/tests/data").join(name)
}

/// A recording with one imported file.
#[track_caller]
pub fn imported(file: &Path, into: &Path) -> PathBuf {
    run(bootscope("import").arg(file).arg("-o").arg(into)).exits(0);
    into.to_path_buf()
}

/// Prints the reason for skipping a test, in the form that `make test` collects.
pub fn skip(why: &str) {
    println!("SKIPPED: {why}");
}
