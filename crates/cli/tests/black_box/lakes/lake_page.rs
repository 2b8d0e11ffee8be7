//! A lake's page, and queries that are passed on, with a fake program in place of the one that queries lakes.

use crate::support::boots::Scratch;
use crate::support::{bootscope, run, text};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../report/src/lake-page.example.json");

/// A folder with a fake engine that runs this script.
fn engine(scratch: &Scratch, script: &str) -> PathBuf {
    let folder = scratch.path("lib");
    fs::create_dir_all(&folder).unwrap();
    let program = folder.join("bootscope-lake");
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    folder
}

fn lake(lib: &Path, args: &[&str]) -> Command {
    let mut command = bootscope("lake");
    command.env("BOOTSCOPE_LIB", lib).args(args);
    command
}

#[test]
fn a_page_has_the_data_from_the_engine() {
    let scratch = Scratch::new();
    let (arguments_file, page) = (scratch.path("asked"), scratch.path("page.html"));
    let lib = engine(&scratch, &format!("printf '%s\\n' \"$@\" > {}; cat {EXAMPLE}", arguments_file.display()));
    let into = page.to_str().unwrap();
    let written =
        run(&mut lake(&lib, &["page", "my lake", "-o", into, "--since", "30d", "--cluster", "df://x", "--json"]));
    let written = written.exits(0).json();
    assert_eq!(text(&written["schema"]), "bootscope.lake-page-written/1");
    assert_eq!(written["bytes"], page.metadata().unwrap().len());
    assert_eq!(fs::read_to_string(&arguments_file).unwrap(), "page-data\n--since=30d\n--cluster=df://x\n--\nmy lake\n");
    let html = fs::read_to_string(&page).unwrap();
    for words in
        ["<title>Lake lake · bootscope</title>", "1 000 000 boots of 10 000 machines", "initcall acpi_init", "+5.0 %"]
    {
        assert!(html.contains(words), "{words}");
    }
    assert_eq!(html.matches("<script type=\"application/x-bootscope\">").count(), 3);
    // An existing page is kept without --force, and then the lake is not queried.
    fs::remove_file(&arguments_file).unwrap();
    run(&mut lake(&lib, &["page", "lake", "-o", into])).refuses(&["page.html", "--force"]);
    assert!(!arguments_file.exists());
    run(&mut lake(&lib, &["page", "lake", "-o", into, "--force"])).exits(0);
}

#[test]
fn a_failing_engine_gives_one_error_and_no_page() {
    let scratch = Scratch::new();
    let page = scratch.path("page.html");
    let into = page.to_str().unwrap();
    for (script, words) in [
        (
            "echo 'lake: no such folder' >&2; exit 2",
            &["lake: no such folder", "could not look at lake", "exit status: 2"][..],
        ),
        (
            "echo '{\"schema\": \"bootscope.lake-page/9\"}'",
            &["bootscope.lake-page/9", "build both from the same sources"],
        ),
        (
            "echo '{\"schema\": \"bootscope.lake-page/1\", \"boots\": -1}'",
            &["cannot use what", "no document of a lake"],
        ),
        ("head -c 3000 /dev/urandom", &["cannot use what", "no document of a lake"]),
        ("true", &["no document of a lake"]),
        ("yes '[[[[[[[[' | tr -d '\\n' | head -c 3000000", &["no document of a lake"]),
        ("kill -9 $$", &["could not look at lake", "signal: 9"]),
    ] {
        let lib = engine(&scratch, script);
        run(&mut lake(&lib, &["page", "lake", "-o", into])).refuses(words);
        assert!(!page.exists(), "{script}");
    }
}

#[test]
fn an_engine_that_does_not_stop_is_stopped() {
    let scratch = Scratch::new();
    let lib = engine(&scratch, "exec cat /dev/zero");
    let page = scratch.path("page.html");
    run(&mut lake(&lib, &["page", "lake", "-o", page.to_str().unwrap()])).refuses(&["printed more than", "--since"]);
    assert!(!page.exists());
}

#[test]
fn queries_are_passed_on_unchanged() {
    let scratch = Scratch::new();
    let lib = engine(&scratch, "printf '[%s]' \"$@\"; exit 7");
    let passed_on = |args: &[&str]| run(&mut lake(&lib, args)).exits(7).text().to_owned();
    assert_eq!(passed_on(&["ask", "--help"]), "[ask][--help]");
    assert_eq!(passed_on(&["ask"]), "[ask]");
    assert_eq!(
        passed_on(&["ask", "l", "regressions", "--since", "30d", "--json"]),
        "[ask][l][regressions][--since][30d][--json]"
    );
    assert_eq!(
        passed_on(&["--json", "-q", "sql", "l", "select 'a b'", "--csv"]),
        "[sql][--json][--quiet][l][select 'a b'][--csv]"
    );
    assert_eq!(passed_on(&["sql", "--cluster", "df://x", "l", "select 1"]), "[sql][--cluster][df://x][l][select 1]");
}

/// The same command of a copy of the program with no helpers beside it. After `make lake`, the engine is beside the
/// program under test.
fn without_helpers(scratch: &Scratch, command: &Command) -> Command {
    let program = scratch.path("bin/bootscope");
    std::fs::create_dir_all(program.parent().unwrap()).unwrap();
    std::fs::copy(command.get_program(), &program).unwrap();
    let mut other = Command::new(program);
    other.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => other.env(name, value),
            None => other.env_remove(name),
        };
    }
    other
}

#[test]
fn without_the_engine_the_error_names_what_builds_it() {
    let scratch = Scratch::new();
    let nowhere = scratch.path("nowhere");
    for args in [&["ask", "lake"][..], &["sql", "lake", "select 1"], &["page", "lake"]] {
        let mut command = without_helpers(&scratch, &lake(&nowhere, args));
        let own = format!("$BOOTSCOPE_LIB ({})", nowhere.display());
        run(command.env("PATH", "/var/empty")).refuses(&[
            "bootscope-lake is not installed",
            &own,
            "$PATH",
            "`make lake`",
        ]);
    }
    // It is also found in PATH.
    let lib = engine(&scratch, "echo found");
    let mut command = without_helpers(&scratch, &lake(&nowhere, &["ask", "lake"]));
    command.env("PATH", std::env::join_paths([Path::new("/usr/bin"), Path::new("/bin"), &lib]).unwrap());
    assert_eq!(run(&mut command).exits(0).text(), "found\n");
}
