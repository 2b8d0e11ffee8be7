//! A recording, a bench or a trial from another user runs nothing of its author: it only gives values. Options that
//! name a program, a device, a command or a file are left out, refused, or taken once the user allows it.

use crate::support::boots::{QUIET, Scratch, kernel, manifest, record, recorded};
use crate::support::{Ran, bootscope, fixture, imported, run, run_with};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A folder with forged recordings, and a PATH on which each program only logs its run and its arguments.
struct Forge {
    folder: TempDir,
}

/// A program that logs its name and its arguments in `LOG` and fails. It reports a version of QEMU's, because bootscope starts no
/// other program as QEMU. It is compiled, because bootscope refuses scripts.
const WITNESS: &str = r#"
#include <stdio.h>
#include <string.h>
int main(int count, char **words) {
    if (count == 2 && !strcmp(words[1], "--version")) return puts("QEMU emulator version 7.2.22"), 0;
    FILE *log = fopen(LOG, "a");
    for (int i = 0; i < count; i++) {
        for (char *at = words[i]; *at; at++) if (*at == '\n' || *at == '\t') *at = ' ';
        fprintf(log, "%s%c", words[i], i + 1 < count ? '\t' : '\n');
    }
    return 1;
}
"#;

impl Forge {
    fn new() -> Forge {
        let folder = TempDir::new().unwrap();
        let bin = folder.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        let witness = folder.path().join("witness");
        let log = format!("-DLOG=\"{}\"", folder.path().join("ran").display());
        run_with(Command::new("cc").args(["-w", &log, "-x", "c", "-", "-o"]).arg(&witness), WITNESS.as_bytes())
            .exits(0);
        for program in [
            "qemu-system-x86_64",
            "qemu-system-aarch64",
            "qemu-system-arm",
            "firecracker",
            "cloud-hypervisor",
            "sh",
            "id",
            "make",
        ] {
            std::fs::hard_link(&witness, bin.join(program)).unwrap();
        }
        // The header of a bzImage, as the boot protocol has it.
        let mut kernel = vec![0; 8192];
        (kernel[0x1f1], kernel[0x211]) = (4, 1);
        kernel[0x1fe..0x208].copy_from_slice(b"\x55\xaa\0\0HdrS\x0f\x02");
        std::fs::write(folder.path().join("vmlinuz"), kernel).unwrap();
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

    /// A program of the recording's author.
    fn witness(&self) -> PathBuf {
        self.folder.path().join("witness")
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

/// Values of the option's type that would run or write something.
fn attacks(forge: &Forge, field: &str) -> Vec<Value> {
    let (mark, witness) = (forge.mark().display().to_string(), forge.witness().display().to_string());
    let texts = [format!("id >{mark}"), format!("pc,dumpdtb={mark}"), witness, "-evil".to_owned()];
    let of_type = |text: String| match field {
        "disks" | "extra" | "mask" => json!([text, "-evil"]),
        "symbols" => json!([{"path": text, "base": 1}]),
        "board" => json!({"serial": text, "power_cycle": text, "baud": 1}),
        "until" => json!({"regex": text}),
        _ => text.into(),
    };
    texts.into_iter().map(of_type).collect()
}

/// The words of the programs that ran, without the kernel's command line, which is the guest's.
fn host_words(ran: &str) -> Vec<Vec<&str>> {
    let all = ran.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    all.map(|mut words| {
        if let Some(at) = words.iter().position(|word| *word == "-append") {
            words.remove(at + 1);
        }
        words
    })
    .collect()
}

/// The tests of `machine` have thousands of forged documents. These go through the program, with a QEMU that only logs.
#[test]
fn forged_recordings_run_nothing_of_their_authors() {
    let forge = Forge::new();
    let kernel = forge.folder.path().join("vmlinuz");
    let fields = "append bios board disks dtb extra initrd kernel machine mask qemu root symbols until workload";
    let (mut forged, mut started) = (0, 0);
    for field in fields.split(' ') {
        for (value, is_replaced) in
            attacks(&forge, field).into_iter().flat_map(|value| [(value.clone(), false), (value, true)])
        {
            let mut how = json!({
                "init": "keep", "until": {"regex": "x"}, "first_run": false, "firmware_log": false, "accel": "tcg",
                "qemu": forge.witness(),
            });
            how[field] = value;
            let recording = forge.recording(&how);
            let _ = std::fs::remove_file(forge.folder.path().join("ran"));
            let mut command = forge.command("record");
            command.arg("--like").arg(&recording).args(["--timeout", "1s", "-o", "out", "--kernel"]).arg(&kernel);
            // The user replaces what is left out, so that QEMU starts.
            if is_replaced {
                command.args(["--machine", "pc", "--append", "own", "--initrd"]).arg(&kernel);
                command.arg("--disk").arg(&kernel).args(["--", "-no-hpet"]);
            }
            let ran = run(&mut command);
            assert_eq!(ran.status, 2, "{how}: {}", ran.stderr);
            assert!(!ran.stderr.contains("panicked"), "{how}: {}", ran.stderr);
            assert!(!forge.mark().exists() && !forge.folder.path().join("out").exists(), "written: {how}");
            let log = forge.ran();
            for words in host_words(&log) {
                started += 1;
                assert!(words[0].ends_with("/bin/qemu-system-x86_64"), "{how}: {words:?}");
                let is_foreign =
                    |word: &&&str| ["mark", "witness", "evil", "dumpdtb"].iter().any(|foreign| word.contains(foreign));
                assert_eq!(words.iter().find(is_foreign), None, "{how}: {words:?}");
            }
            forged += 1;
        }
    }
    println!("{forged} forged recordings; QEMU was started {started} times");
    assert!(forged >= 100 && started >= 40, "{forged} {started}");
}

/// The trial itself: what the recording names does run once the user trusts it.
#[test]
fn a_trusted_recording_runs_what_it_names() {
    let forge = Forge::new();
    let (kernel, witness) = (forge.folder.path().join("vmlinuz"), forge.witness());
    let usual = json!({"init": "keep", "until": {"regex": "x"}, "first_run": false, "firmware_log": false, "kernel": kernel, "accel": "tcg"});
    let trusted = |field: &str, value: Value| {
        let mut how = usual.clone();
        how[field] = value;
        let recording = forge.recording(&how);
        let mut command = forge.command("record");
        run(command.arg("--like").arg(&recording).args(["--trust-recording", "--timeout", "1s", "-o", "out"])).exits(2);
        forge.ran()
    };
    assert!(trusted("extra", json!(["-evil"])).contains("\t-evil\n"), "{}", forge.ran());
    assert!(trusted("qemu", json!(witness)).contains(witness.to_str().unwrap()), "{}", forge.ran());
    assert!(trusted("machine", json!("pc,dumpdtb=mark")).contains("dumpdtb=mark"), "{}", forge.ran());
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
fn a_link_in_a_recording_is_not_packed_and_named() {
    let folder = TempDir::new().unwrap();
    let recording = imported(&fixture("log/linux-6.1-serial.log"), &folder.path().join("a"));
    let own = folder.path().join("id_ed25519");
    std::fs::write(&own, "my private key").unwrap();
    std::os::unix::fs::symlink(&own, recording.join("console.log")).unwrap();
    for options in [&[][..], &["--anonymous"]] {
        let packed = folder.path().join("a.tar.zst");
        let ran = run(bootscope("pack").arg(&recording).args(options).args(["--force", "-o"]).arg(&packed)).exits(0);
        assert!(ran.stderr.contains("left out links, folders and devices: console.log"), "{}", ran.stderr);
        let archive = zstd::decode_all(std::fs::File::open(&packed).unwrap()).unwrap();
        assert!(!archive.windows(14).any(|bytes| bytes == b"my private key"), "{options:?}");
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
