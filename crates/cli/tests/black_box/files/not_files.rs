//! FIFOs and devices in place of a file: an error at once, with the path and the next step. No command waits for a
//! writer that never comes.

use crate::support::{Ran, bootscope, fixture, imported, run};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The seconds after which a command counts as waiting.
const LATE: &str = "60";

fn fifo(path: &Path) -> PathBuf {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    path.to_owned()
}

/// Runs a command that must not wait.
fn at_once(command: &mut Command) -> Ran {
    let mut bounded = Command::new("timeout");
    bounded.arg(LATE).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        bounded.env(name, value.unwrap_or_default());
    }
    let ran = run(&mut bounded);
    assert_ne!(ran.status, 124, "it waits: {command:?}");
    ran
}

#[test]
fn a_history_that_is_no_file_does_not_affect_other_output() {
    let folder = tempfile::tempdir().unwrap();
    let recording = imported(&fixture("log/linux-6.1-serial.log"), &folder.path().join("a"));
    // The manifest of a boot that was recorded here, so past trials on its kernel are searched.
    let manifest = recording.join("recording.json");
    let mut document: serde_json::Value = serde_json::from_slice(&fs::read(&manifest).unwrap()).unwrap();
    (document["how"], document["inputs"]) = (json!({}), json!([{"role": "kernel", "path": "k", "sha256": "ab"}]));
    fs::write(&manifest, document.to_string()).unwrap();
    for ending in ["", "-journal", "-wal"] {
        let data = folder.path().join(format!("data{ending}"));
        let database = data.join("bootscope/history.db");
        if !ending.is_empty() {
            fs::create_dir_all(database.parent().unwrap()).unwrap();
            fs::write(&database, "").unwrap();
        }
        fifo(&data.join(format!("bootscope/history.db{ending}")));
        let with = |command: &mut Command| at_once(command.env("XDG_DATA_HOME", &data));
        for command in ["show", "findings"] {
            let ran = with(bootscope(command).arg(&recording)).exits(0);
            assert!(ran.stderr.contains("what was tried before is not known"), "{}", ran.stderr);
        }
        with(&mut bootscope("history")).refuses(&["history.db", "it is a FIFO", "remove it"]);
    }
}

#[test]
fn arguments_that_are_not_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let recording = imported(&fixture("log/linux-6.1-serial.log"), &folder.path().join("a"));
    let fifo = fifo(&folder.path().join("fifo"));
    let refuses = |command: &mut Command, path: &Path, what: &str| {
        at_once(command).refuses(&[path.to_str().unwrap(), what, "name a regular file"]);
    };
    for (path, what) in [(fifo.as_path(), "it is a FIFO"), (Path::new("/dev/zero"), "it is a device")] {
        refuses(bootscope("check").arg(path).arg(&recording), path, what);
        refuses(bootscope("show").arg(&recording).arg("--group").arg(path), path, what);
        refuses(bootscope("record").arg("--kernel").arg(path).arg("-o").arg(folder.path().join("r")), path, what);
        let lake = folder.path().join("lake");
        let mut add = bootscope("lake");
        add.arg("add").arg(&recording).arg("--to").arg(&lake).args(["--machine", "m", "--key"]).arg(path);
        refuses(&mut add, path, what);
    }
    at_once(bootscope("show").arg(&fifo)).refuses(&["fifo"]);
    let lake = folder.path().join("other");
    fs::create_dir(&lake).unwrap();
    self::fifo(&lake.join("lake.json"));
    at_once(bootscope("lake").arg("add").arg(&recording).arg("--to").arg(&lake))
        .refuses(&["lake.json", "it is a FIFO"]);
    // A folder whose manifest is not a file is no recording, neither to replace nor to read.
    fs::remove_file(recording.join("recording.json")).unwrap();
    self::fifo(&recording.join("recording.json"));
    let log = fixture("log/linux-6.1-serial.log");
    at_once(bootscope("import").arg(&log).arg("--force").arg("-o").arg(&recording)).refuses(&["not a recording"]);
    at_once(bootscope("show").arg(&recording)).exits(2);
}

#[test]
fn a_shell_pipe_is_read_as_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let recording = imported(&fixture("log/linux-6.1-serial.log"), &folder.path().join("a"));
    let script = "(sleep 0.2; echo 'total = \"1000s\"') | \"$0\" check --undecided ok /dev/stdin \"$1\"";
    let program = bootscope("check").get_program().to_owned();
    run(Command::new("sh").args(["-c", script]).arg(program).arg(&recording)).exits(0);
}

/// Endless input is read up to a limit.
#[test]
fn a_device_without_end_is_imported_up_to_the_limit_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    at_once(bootscope("import").arg("/dev/zero").arg("-o").arg(folder.path().join("a")))
        .refuses(&["nothing to import"]);
    assert!(!folder.path().join("a").exists());
}
