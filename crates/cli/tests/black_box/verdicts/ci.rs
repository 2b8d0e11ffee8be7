//! The steps for CI systems (`ci/`): these tests run the scripts of the GitHub action and of the GitLab job.

use crate::support::boots::{Scratch, kernel};
use crate::support::ran;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ci").canonicalize().unwrap()
}

/// A shell command in a folder, with this bootscope in its PATH.
fn shell(command: &str, within: &Path) -> Command {
    let program = Path::new(env!("CARGO_BIN_EXE_bootscope")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("bash");
    shell.args(["-euo", "pipefail", "-c", command]).current_dir(within).env("PATH", path);
    shell.env_remove("GITHUB_ACTIONS").env("OPTIONS", "--deterministic --append 'quiet panic=1' --no-history");
    shell
}

/// The line of a file that runs a script, without its YAML prefix.
fn step(file: &str, script: &str) -> String {
    let text = fs::read_to_string(folder().join(file)).unwrap();
    let mut lines = text.lines().map(str::trim).filter(|line| line.ends_with(script));
    let line = lines.next().unwrap_or_else(|| panic!("{file} does not run {script}"));
    line.trim_start_matches("run: ").trim_start_matches("- ").to_owned()
}

#[test]
#[ignore = "59 s: in make test-all"]
fn both_systems_compare_two_kernels_by_one_script() {
    let Some(kernel) = kernel() else { return };
    let scratch = Scratch::new();
    let (base, new) = (scratch.path("base.bzImage"), scratch.path("new.bzImage"));
    fs::copy(&kernel, &base).unwrap();
    fs::copy(&kernel, &new).unwrap();
    fs::write(scratch.path("budgets.toml"), "total = \"+3%\"\n").unwrap();
    let within = scratch.folder();
    let mut github = shell(&step("action.yml", "/boot-time"), within);
    let summary = scratch.path("summary.md");
    github.env("GITHUB_ACTION_PATH", folder()).env("GITHUB_ACTIONS", "true").env("GITHUB_STEP_SUMMARY", &summary);
    github.env("BASE", &base).env("NEW", &new).env("RUNS", "4");
    ran(github.output().unwrap(), "the action's step".to_owned()).exits(0);
    for (file, words) in [("boots/boots.xml", "<testsuites"), ("boots/boots.html", "</html>"), ("summary.md", "total")]
    {
        assert!(fs::read_to_string(scratch.path(file)).unwrap().contains(words), "{file}");
    }
    // The other system's job is the same script. It reports a missing variable before it boots anything.
    let mut gitlab = shell(&step("gitlab.yml", "/boot-time"), within);
    gitlab.env("BOOTSCOPE_CI", folder()).env("BASE", &base).env("NEW", scratch.path("not built"));
    ran(gitlab.output().unwrap(), "the job's script".to_owned()).refuses(&[
        "NEW is",
        "not built",
        "there is no such file",
    ]);
}

#[test]
#[ignore = "21 s: in make test-all"]
fn each_kernel_of_a_folder_has_a_result_of_its_own() {
    let Some(kernel) = kernel() else { return };
    let scratch = Scratch::new();
    let kernels = scratch.path("kernels");
    fs::create_dir(&kernels).unwrap();
    fs::copy(&kernel, kernels.join("stock")).unwrap();
    fs::write(kernels.join("notes.txt"), "no kernel").unwrap();
    let all = format!("{}/boot-all kernels results", folder().display());
    let mut command = shell(&all, scratch.folder());
    let done = ran(command.env("RUNS", "1").output().unwrap(), all.clone()).exits(0);
    assert!(
        done.text().contains("stock passed") && done.text().contains("notes.txt was not booted"),
        "{}",
        done.text()
    );
    let junit = fs::read_to_string(scratch.path("results/stock.xml")).unwrap();
    assert!(junit.contains("every boot reaches its end mark") && junit.contains("failures=\"0\""), "{junit}");

    // A kernel that does not boot fails with any budgets.
    let mut command = shell(&all, scratch.folder());
    command.env("RUNS", "1").env("OPTIONS", "--deterministic --init keep --append 'quiet panic=1' --no-history");
    let done = ran(command.output().unwrap(), all).exits(1);
    assert!(done.text().contains("stock FAILED"), "{}", done.text());
}
