//! A recording, a bench or a trial from another user runs nothing of its author: it only gives values. Options that
//! name a program, a device, a command or a file are left out, refused, or taken once the user allows it.

use crate::support::boots::{QUIET, Scratch, kernel, manifest, record, recorded};
use crate::support::{Ran, bootscope, run};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A folder with forged recordings, and a PATH on which each program only logs its run and its arguments.
struct Forge {
    folder: TempDir,
}

impl Forge {
    fn new() -> Forge {
        let folder = TempDir::new().unwrap();
        let bin = folder.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        for program in ["qemu-system-x86_64", "qemu-system-arm", "firecracker", "cloud-hypervisor", "sh", "id", "make"]
        {
            let path = bin.join(program);
            let ran = folder.path().join("ran");
            std::fs::write(&path, format!("#!/bin/bash\necho \"$0 $*\" >>{}\nexit 1\n", ran.display())).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        }
        Forge { folder }
    }

    /// A path that an attack would write to or run.
    fn mark(&self) -> PathBuf {
        self.folder.path().join("mark")
    }

    /// A recording with these options that this user's bootscope did not make.
    fn recording(&self, how: &Value) -> PathBuf {
        let path = self.folder.path().join("forged");
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        let manifest = json!({
            "schema": "bootscope.recording/1", "state": "finished", "how": how, "seal": "00".repeat(32),
            "outcome": {"kind": "reached"}, "end": {"mark": "line", "what": "x", "at_ns": 1_000_000_000},
        });
        std::fs::write(path.join("recording.json"), manifest.to_string()).unwrap();
        std::fs::write(path.join("console.log"), "[    0.000000] Linux version 6.1.0\n[    1.000000] x\n").unwrap();
        path
    }

    fn command(&self, subcommand: &str) -> Command {
        let mut command = bootscope(subcommand);
        command.env("PATH", self.folder.path().join("bin")).current_dir(self.folder.path());
        command
    }

    /// The programs that ran, with their arguments.
    fn ran(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("ran")).unwrap_or_default()
    }

    #[track_caller]
    fn assert_nothing_ran(&self, what: &Value) {
        assert!(!self.mark().exists(), "written: {what}");
        assert!(!self.ran().contains("mark") && !self.ran().contains("evil"), "{what}: {}", self.ran());
    }
}

/// Values that would run or write something, of every type.
fn attacks(mark: &Path) -> Vec<Value> {
    let mark = mark.display();
    let texts = [
        format!("id >{mark}"),
        format!("exec:id >{mark}"),
        format!("/bin/sh -c 'id >{mark}'"),
        format!("pc,dumpdtb={mark}"),
        format!("file:{mark}"),
        format!("{mark}"),
        "tcp:127.0.0.1:9".to_owned(),
        "$(evil)".to_owned(),
        "-evil".to_owned(),
        "\u{1b}]0;evil\u{7}".to_owned(),
    ];
    let texts = texts.map(Value::from);
    let lists = texts.clone().map(|text| json!([text, "-evil"]));
    let paths = texts.clone().map(|text| json!([{"path": text, "base": 1}]));
    let boards = texts.clone().map(|text| json!({"serial": text, "power_cycle": text, "baud": 1}));
    let marks = texts.clone().map(|text| json!({"regex": text}));
    let pages = texts.clone().map(|text| json!({"http": {"host": text, "port": 1, "path": text}}));
    let plain = [json!(null), json!(true), json!(-1), json!(0), json!(u64::MAX), json!(1.5), json!({}), json!([])];
    texts.into_iter().chain(lists).chain(paths).chain(boards).chain(marks).chain(pages).chain(plain).collect()
}

#[test]
fn a_thousand_forged_recordings_run_nothing_of_their_authors() {
    let forge = Forge::new();
    let fields = "arch kernel initrd dtb bios append mask disks root dax workload memory_bytes cpus machine vmm qemu accel \
                  deterministic trace_events init then until extra patches fixed_address isolated board timeout_ms hang_after_ms \
                  firmware_log first_run calls min_call_ns symbols silence_ms watch stream_bytes_max";
    let mut forged = 0;
    for field in fields.split_whitespace() {
        for value in attacks(&forge.mark()) {
            let mut how = json!({"init": "keep", "until": {"regex": "x"}, "bios": "/nonexistent"});
            how[field] = value;
            let recording = forge.recording(&how);
            let ran = run(forge.command("record").arg("--like").arg(&recording).args(["--timeout", "1s", "-o", "out"]));
            assert_eq!(ran.status, 2, "{how}: {}", ran.stderr);
            assert!(!ran.stderr.contains("panicked"), "{how}: {}", ran.stderr);
            forge.assert_nothing_ran(&how);
            forged += 1;
        }
    }
    assert!(forged >= 1000, "{forged}");
}

#[test]
fn every_command_that_boots_again_leaves_out_the_same() {
    let forge = Forge::new();
    let mark = forge.mark();
    let (exec, command) = (format!("exec:id >{}", mark.display()), format!("id >{}", mark.display()));
    let arguments = json!({"bios": "/nonexistent", "init": "keep", "extra": ["-incoming", exec]});
    let board = json!({"board": {"serial": "tcp:127.0.0.1:1", "power_cycle": command}, "init": "keep", "until": {"regex": "x"}});
    for (how, left) in [(&arguments, "extra"), (&board, "serial")] {
        let recording = forge.recording(how);
        let refused = |command: &mut Command| {
            let ran: Ran = run(command).exits(2);
            for word in [left, "another user or", "--trust-recording"] {
                assert!(ran.stderr.contains(word), "{}", ran.stderr);
            }
            forge.assert_nothing_ran(how);
        };
        refused(forge.command("record").arg("--like").arg(&recording).args(["-o", "out"]));
        refused(forge.command("bench").arg("--like").arg(&recording).args(["--runs", "5"]));
        refused(forge.command("bench").arg("--vary").arg(format!("like={}", recording.display())));
        refused(forge.command("try").arg(&recording));
        let packed = forge.folder.path().join("forged.tar.zst");
        run(bootscope("pack").arg(&recording).arg("--force").arg("-o").arg(&packed)).exits(0);
        refused(forge.command("record").arg("--like").arg(&packed).args(["-o", "out"]));
    }
    let counted = json!({"kernel": "/nonexistent", "deterministic": true, "extra": ["-incoming", exec]});
    let recording = forge.recording(&counted);
    let refused = run(forge.command("diff").args([&recording, &recording]).args(["--dither", "2"])).exits(2);
    assert!(refused.stderr.contains("--trust-recording"), "{}", refused.stderr);
    forge.assert_nothing_ran(&counted);
}

#[test]
fn a_bench_of_another_user_is_not_resumed() {
    let forge = Forge::new();
    let how = json!({"bios": "/nonexistent", "init": "keep", "qemu": forge.mark(), "extra": ["-evil"]});
    let folder = forge.folder.path().join("bench");
    std::fs::create_dir(&folder).unwrap();
    for trial in [Value::Null, json!({"recording": "/r", "remedies": [], "sources": {"tree": "/evil", "config": "/c"}})]
    {
        let mut head = json!({
            "schema": "bootscope.bench/1", "tool_version": env!("CARGO_PKG_VERSION"), "created": "", "deterministic": false,
            "plan": {"leaves_out": false, "variants": 1, "warm_ups": 0, "stop": {"rounds": 5, "width": null, "budget_ns": null}, "seed": 1},
            "variants": [{"name": "a", "how": how}], "ask": {"margin": 0.05, "power": 0.9}, "seal": "00",
        });
        if !trial.is_null() {
            head["trial"] = trial.clone();
        }
        std::fs::write(folder.join("bench.jsonl"), format!("{head}\n")).unwrap();
        let command = if trial.is_null() { "bench" } else { "try" };
        let refused = run(forge.command(command).arg("--continue").arg(&folder)).refuses(&["--trust-recording"]);
        assert!(refused.stderr.contains("begun by another user"), "{}", refused.stderr);
        let trusted = run(forge.command(command).arg("--continue").arg(&folder).arg("--trust-recording")).exits(2);
        assert!(trusted.stderr.contains(r#""extra":["-evil"]"#), "{}", trusted.stderr);
    }
    assert!(!forge.mark().exists());
}

#[test]
fn a_fifo_in_a_recording_blocks_no_command() {
    let forge = Forge::new();
    let fifo = forge.folder.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let how = json!({"kernel": fifo, "initrd": fifo, "append": "quiet"});
    let recording = forge.recording(&how);
    let path = recording.join("recording.json");
    let mut manifest: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let input = |role: &str| json!({"role": role, "path": fifo, "bytes": 6, "sha256": "00".repeat(32)});
    manifest["inputs"] = json!([input("kernel"), input("initrd")]);
    std::fs::write(&path, manifest.to_string()).unwrap();
    run(forge.command("show").arg(&recording)).exits(0);
    run(forge.command("findings").arg(&recording)).exits(0);
    run(forge.command("record").arg("--like").arg(&recording).args(["-o", "out"])).refuses(&["kernel", "initrd"]);
}

#[test]
#[ignore = "9 s: in make test-all"]
fn an_own_recording_is_repeated_completely_and_a_foreign_one_if_trusted() {
    let Some(kernel) = kernel() else { return };
    let scratch = Scratch::new();
    let first = scratch.path("first");
    let mut command = record(&kernel, &first);
    command.args(["--append", QUIET, "--trace", "none", "--no-first-executions", "--", "-device", "virtio-rng-pci"]);
    recorded(&mut command, &first, "reached");
    let stranger = |config: &str| {
        let mut command = bootscope("record");
        command.env("XDG_CONFIG_HOME", scratch.path(config)).arg("--like").arg(&first);
        command
    };
    // A user without this user's key. That user may create another key.
    let refused = run(stranger("other").arg("-o").arg(scratch.path("refused"))).exits(2);
    assert!(refused.stderr.contains(r#"extra is ["-device","virtio-rng-pci"]"#), "{}", refused.stderr);
    assert!(!scratch.path("refused").exists());
    let trusted = scratch.path("trusted");
    let result = recorded(stranger("other").arg("--trust-recording").arg("-o").arg(&trusted), &trusted, "reached");
    assert!(
        result.stderr.contains(r#"extra, because they are arguments for the VMM: ["-device","virtio-rng-pci"]"#),
        "{}",
        result.stderr
    );
    assert_eq!(manifest(&trusted)["how"], manifest(&first)["how"]);
    let given = scratch.path("given");
    recorded(stranger("third").arg("-o").arg(&given).args(["--", "-device", "virtio-balloon"]), &given, "reached");
    assert_eq!(manifest(&given)["how"]["extra"], json!(["-device", "virtio-balloon"]));
    assert_eq!(manifest(&given)["how"]["kernel"], manifest(&first)["how"]["kernel"], "its content is the recorded one");
    let own = scratch.path("own");
    let result = recorded(bootscope("record").arg("--like").arg(&first).arg("-o").arg(&own), &own, "reached");
    assert!(!result.stderr.contains("taken") && !result.stderr.contains("left out"), "{}", result.stderr);
}

#[test]
fn a_linked_journal_is_refused_and_its_target_unchanged() {
    let folder = TempDir::new().unwrap();
    let (own, bench) = (folder.path().join("own.db"), folder.path().join("bench"));
    std::fs::create_dir(&bench).unwrap();
    std::os::unix::fs::symlink(&own, bench.join("bench.jsonl")).unwrap();
    for content in ["no line's end", "a line\nand a part of one", r#"{"valid": "json"}"#] {
        std::fs::write(&own, content).unwrap();
        run(bootscope("bench").arg("--continue").arg(&bench)).exits(2);
        assert_eq!(std::fs::read_to_string(&own).unwrap(), content);
    }
}

#[test]
fn a_foreign_lake_changes_no_file_outside_of_it() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kept/lab-two-cpus.tar.zst");
    let folder = TempDir::new().unwrap();
    let own = folder.path().join("own");
    std::fs::create_dir(&own).unwrap();
    let letter = own.join("letter.txt");
    std::fs::write(&letter, "Dear").unwrap();
    let make = |name: &str| {
        let lake = folder.path().join(name);
        run(bootscope("lake").arg("add").arg(&kept).arg("--to").arg(&lake)).exits(0);
        lake
    };
    let unharmed = || {
        assert_eq!(std::fs::read_to_string(&letter).unwrap(), "Dear");
        assert_eq!(std::fs::read_dir(&own).unwrap().count(), 1);
    };
    // A day with a path that climbs out.
    let lake = make("climbs");
    std::fs::create_dir_all(lake.join(".rewriting/boots/day=x")).unwrap();
    std::fs::create_dir_all(lake.join("boots/day=x")).unwrap();
    std::fs::write(lake.join(".rewriting/changes.json"), r#"{"x/../../../../own":{"gone":[],"made":[]}}"#).unwrap();
    run(bootscope("lake").arg("compact").arg(&lake));
    unharmed();
    // A day that is a link.
    let lake = make("links");
    std::fs::create_dir_all(lake.join(".rewriting/boots")).unwrap();
    std::os::unix::fs::symlink(&own, lake.join(".rewriting/boots/day=2026-11-27")).unwrap();
    std::fs::write(lake.join(".rewriting/changes.json"), r#"{"2026-11-27":{"gone":[],"made":[]}}"#).unwrap();
    run(bootscope("lake").arg("compact").arg(&lake)).refuses(&["symbolic link"]);
    unharmed();
    // A day with a file that is being written.
    let lake = make("written");
    let [day] = &std::fs::read_dir(lake.join("units")).unwrap().map(|day| day.unwrap().path()).collect::<Vec<_>>()[..]
    else {
        panic!("one day")
    };
    let [file] = &std::fs::read_dir(day).unwrap().map(|file| file.unwrap().path()).collect::<Vec<_>>()[..] else {
        panic!("one file")
    };
    let partial = day.join(format!(".{}.partial", file.file_name().unwrap().to_str().unwrap()));
    for table in std::fs::read_dir(&lake).unwrap().map(|table| table.unwrap().path()) {
        let here = table.join(day.file_name().unwrap()).join(file.file_name().unwrap());
        let _ = std::fs::remove_file(here);
    }
    std::os::unix::fs::symlink(&letter, &partial).unwrap();
    run(bootscope("lake").arg("add").arg(&kept).arg("--to").arg(&lake)).exits(0);
    unharmed();
}
