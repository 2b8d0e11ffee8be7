//! Closed or full standard output: the output is missing, and the exit status reports it. `commands` tests a reader
//! that closes its pipe.

use crate::support::{Ran, bootscope, fixture, imported, run};
use std::process::Command;

/// Runs the program with a redirection of the shell.
fn redirected(arguments: &[&str], redirection: &str) -> Ran {
    let program = bootscope(arguments[0]);
    let mut command = Command::new("sh");
    command.args(["-c", &format!("exec \"$0\" \"$@\" {redirection}")]).arg(program.get_program()).args(arguments);
    for (name, value) in program.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    run(&mut command)
}

#[test]
fn failed_output_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let recording = imported(&fixture("log/linux-6.1-serial.log"), &folder.path().join("a"));
    let (path, log) = (recording.to_str().unwrap(), fixture("log/linux-6.1-serial.log"));
    let other = folder.path().join("b");
    let commands: [&[&str]; 13] = [
        &["--help"],
        &["--version"],
        &["show", "--help"],
        &["completions", "bash"],
        &["show", path],
        &["show", path, "--json"],
        &["findings", path],
        &["what-if", path, "--save", "*=-10%"],
        &["diff", path, path],
        &["export", path, "--to", "folded"],
        &["export", path, "--to", "json"],
        &["view", path, "--no-browser"],
        &["import", log.to_str().unwrap(), "-o", other.to_str().unwrap(), "--json", "--force"],
    ];
    for arguments in commands {
        redirected(arguments, ">&-").refuses(&["cannot write to standard output", "it is closed"]);
        redirected(arguments, ">/dev/full").refuses(&["cannot write to standard output", "free some space"]);
    }
    // Discarding all of it is no error, however it is opened.
    redirected(&["show", path], ">/dev/null").exits(0);
    redirected(&["show", path], "1<>/dev/null").exits(0);
}

#[test]
fn failed_standard_error_changes_no_status() {
    let folder = tempfile::tempdir().unwrap();
    let recording = imported(&fixture("log/linux-6.1-serial.log"), &folder.path().join("a"));
    for redirection in ["2>/dev/full", "2>&-"] {
        redirected(&["show", recording.to_str().unwrap()], redirection).exits(0);
        redirected(&["show", "/nonexistent"], redirection).exits(2);
        redirected(&["show", "--no-such-option"], redirection).exits(2);
        let log = fixture("log/linux-6.1-serial.log");
        let into = recording.join("../b");
        redirected(&["import", log.to_str().unwrap(), "--force", "-o", into.to_str().unwrap()], redirection).exits(0);
    }
}

#[test]
fn a_capture_that_cannot_be_printed_is_an_error() {
    for redirection in [">&-", ">/dev/full"] {
        redirected(&["capture", "--no-journal", "-o", "-"], redirection).refuses(&["cannot write to standard output"]);
    }
}
