//! Identities are planted in all kinds of files of a recording, in the sources of `capture`, and in boots for a lake.
//! No pack, capture or lake may contain any of them.
//!
//! `identities/` has lines as systems print them, with each identity between « and ». The search covers all that a
//! stranger gets: the bytes of the unpacked archive with decompressed members, and the rows of all tables.

use crate::support::boots::{evidence, kernel, record, recorded};
use crate::support::{bootscope, fixture, run, shown, skip};
use parquet::file::reader::{FileReader, SerializedFileReader};
use serde_json::json;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const PLANTED: &str = include_str!("../../identities/planted.txt");
/// Words that occur in real logs beside identities, and that must stay.
const KEPT: [&str; 8] = [
    "Linux version ",
    "systemd[1]:",
    "BOOTIF=01-",
    "nfsroot=",
    "Accepted publickey for ",
    "/ks.cfg",
    "SerialNumber: ",
    ".service",
];

fn identities() -> Vec<&'static str> {
    let found: Vec<&str> = PLANTED.split('«').skip(1).map(|rest| rest.split_once('»').expect("« has a »").0).collect();
    assert!(found.len() >= 200, "{}", found.len());
    found
}

fn planted() -> String {
    PLANTED.replace(['«', '»'], "")
}

/// Lines that need not be at the start of a file's line: no prompts, no prefixes of a log.
fn sentences() -> Vec<String> {
    let starts = [
        "«",
        "Nov ",
        "2026-",
        "<30>",
        "[   ",
        "[root@",
        "oskarw@",
        "dragos@",
        "«bittern",
        "Debian GNU",
        "Ubuntu",
        "FreeBSD",
    ];
    let lines = PLANTED
        .lines()
        .map(|line| line.split_once("] ").filter(|(stamp, _)| stamp.starts_with("[ ")).map_or(line, |(_, rest)| rest));
    let sentences = lines.filter(|line| !starts.iter().any(|start| line.starts_with(start)));
    sentences.map(|line| line.replace(['«', '»'], "")).collect()
}

/// The identities in some bytes, in any letter case.
fn found_in(bytes: &[u8]) -> Vec<&'static str> {
    let text = String::from_utf8_lossy(bytes).to_lowercase();
    identities().into_iter().filter(|identity| text.contains(&identity.to_lowercase())).collect()
}

/// All bytes of an archive: names, contents, and the unpacked content of compressed members.
fn bytes_of(packed: &Path) -> Vec<(String, Vec<u8>)> {
    let mut archive = tar::Archive::new(zstd::Decoder::new(File::open(packed).unwrap()).unwrap());
    let mut files = Vec::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().to_string_lossy().into_owned();
        let mut bytes = name.clone().into_bytes();
        entry.read_to_end(&mut bytes).unwrap();
        let content = &bytes[name.len()..];
        let mut inside = Vec::new();
        if content.starts_with(&[0x1f, 0x8b]) {
            flate2::read::MultiGzDecoder::new(content).read_to_end(&mut inside).unwrap();
        } else if content.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
            inside = zstd::decode_all(content).unwrap();
        }
        bytes.extend(inside);
        files.push((name, bytes));
    }
    files
}

fn gzip(text: &str) -> Vec<u8> {
    let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    to.write_all(text.as_bytes()).unwrap();
    to.finish().unwrap()
}

/// The sentences in the format of each kind of file in a recording.
fn containers() -> Vec<(&'static str, Vec<u8>)> {
    let sentences = sentences();
    let all = sentences.join("\n");
    let each = |form: &dyn Fn(usize, &str) -> String| -> Vec<u8> {
        let lines = sentences.iter().enumerate().map(|(number, line)| form(number, line));
        lines.collect::<Vec<String>>().join("\n").into_bytes()
    };
    let numbers = |text: &str| text.bytes().map(|byte| byte.to_string()).collect::<Vec<_>>().join(",");
    vec![
        ("kmsg.log", each(&|number, line| format!("6,{number},{},-;{line}", 1_000_000 + number * 1000))),
        ("guest.log", each(&|_, line| format!("L console.log: {line}"))),
        ("vmm.log", each(&|_, line| format!("qemu: {line}"))),
        (
            "vmm.json",
            serde_json::to_vec(&sentences.iter().map(|line| json!({"name": line, "at_ns": 5})).collect::<Vec<_>>())
                .unwrap(),
        ),
        (
            "01-journal.txt",
            each(&|number, line| {
                json!({"MESSAGE": format!("a\n{line}"), "__MONOTONIC_TIMESTAMP": number.to_string()}).to_string()
            }),
        ),
        (
            "02-colours.txt",
            each(&|number, line| format!("{{\"MESSAGE\":[27,91,109,{}],\"PRIORITY\":\"{number}\"}}", numbers(line))),
        ),
        (
            "trace.txt",
            each(&|number, line| format!("   sh-7     [000] .....  {number}.000001: tracing_mark_write: {line}")),
        ),
        ("tslog.txt", each(&|number, line| format!("0xffffffff8251db00 {} ENTER {line}", 1_000_000 + number * 10))),
        ("silence.txt", all.clone().into_bytes()),
        ("config.gz", gzip(&all)),
        ("notes.txt.zst", zstd::encode_all(all.as_bytes(), 3).unwrap()),
        ("symbols-1.gz", gzip(&all)),
        ("console.idx", all.into_bytes()),
    ]
}

fn change_manifest(folder: &Path, change: impl Fn(&mut serde_json::Value)) {
    let path = folder.join("recording.json");
    let mut manifest: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut manifest);
    fs::write(&path, manifest.to_string()).unwrap();
}

/// A recording of a real log, with these files.
fn recording(folder: &Path, files: &[(&str, Vec<u8>)], change: impl Fn(&mut serde_json::Value)) {
    crate::support::imported(&fixture("log/linux-6.1-serial.log"), folder);
    change_manifest(folder, change);
    for (name, bytes) in files {
        fs::write(folder.join(name), bytes).unwrap();
    }
}

#[test]
fn no_planted_identity_of_any_file_is_in_an_anonymous_pack() {
    let scratch = tempfile::tempdir().unwrap();
    let mut wrong = Vec::new();
    let mut boots = containers();
    boots.push(("console.log", planted().into_bytes()));
    for (number, (name, bytes)) in boots.into_iter().enumerate() {
        let folder = scratch.path().join(number.to_string());
        let packed = scratch.path().join(format!("{number}.tar.zst"));
        recording(&folder, &[(name, bytes)], |_| {});
        run(bootscope("pack").arg(&folder).arg("-o").arg(&packed)).exits(0);
        let open: Vec<u8> = bytes_of(&packed).into_iter().flat_map(|(_, bytes)| bytes).collect();
        // This file writes texts as numbers.
        let planted = if name == "02-colours.txt" { 0 } else { 100 };
        assert!(found_in(&open).len() >= planted, "{name}: a pack that keeps all has {:?}", found_in(&open));
        let ran = run(bootscope("pack").arg(&folder).args(["--anonymous", "--force", "-o"]).arg(&packed)).exits(0);
        let files = bytes_of(&packed);
        let is_there = files.iter().any(|(file, _)| file.ends_with(&format!("/{name}")));
        if !is_there {
            wrong.push(format!("{name} is left out: {}", ran.stderr));
        }
        let all: Vec<u8> = files.into_iter().flat_map(|(_, bytes)| bytes).collect();
        let left = found_in(&all);
        if !left.is_empty() {
            wrong.push(format!("{name}: {} of {} stay: {left:?}", left.len(), identities().len()));
        }
        let lost: Vec<&str> =
            KEPT.into_iter().filter(|kept| !all.windows(kept.len()).any(|part| part == kept.as_bytes())).collect();
        if name == "console.log" && !lost.is_empty() {
            wrong.push(format!("{name}: {lost:?} must stay"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_manifest_and_file_names_are_anonymised_too() {
    let scratch = tempfile::tempdir().unwrap();
    let (folder, packed) = (scratch.path().join("x"), scratch.path().join("x.tar.zst"));
    let files = [("03-bittern9-log.txt", b"bittern9 login: \n".to_vec()), ("00-extra.txt", b"x\n".to_vec())];
    recording(&folder, &files, |manifest| {
        let sentences = sentences();
        manifest["vmm"] = json!({"command": ["qemu", "--token", "bird01.0123456789abcdef", "-append", sentences.join(" ")], "path": "/home/yngve/qemu", "version": "9 on bittern9"});
        manifest["how"] = json!({"append": sentences.join(" "), "extra": ["-device", "nvme,serial=S4EWNX0R701234"], "board": {"serial": "tcp:lab-ts1:7001", "power_cycle": "ssh oskarw@bittern7 off"}, "until": {"http": {"host": "bittern9", "port": 80, "path": "/"}}});
        manifest["notes"] = json!(sentences);
        manifest["subject"] = json!({"kernel": "vmlinuz-bittern9", "os": "Linux"});
        manifest["host"] = json!({"cpu": "x", "kernel": "6.1.0-bittern9"});
        manifest["inputs"] = json!([{"role": "kernel", "path": "/home/yngve/bittern9/bzImage"}]);
        manifest["end"] = json!({"what": "bittern9 login:", "at_ns": 5});
        manifest["outcome"] = json!({"kind": "reached", "detail": "bittern9 login:"});
        manifest["evidence"] = json!([{"file": "00-extra.txt", "bytes": 2, "origin": "copied from oskarw@bittern7.heronlab.example:/home/oskarw/x"}]);
    });
    run(bootscope("pack").arg(&folder).args(["--anonymous", "-o"]).arg(&packed)).exits(0);
    let all: Vec<u8> = bytes_of(&packed).into_iter().flat_map(|(_, bytes)| bytes).collect();
    assert_eq!(found_in(&all), [""; 0]);
    assert!(!String::from_utf8_lossy(&all).contains("lab-ts1"));
}

#[test]
fn a_file_that_cannot_be_read_as_text_is_left_out_and_named() {
    let scratch = tempfile::tempdir().unwrap();
    let (folder, packed) = (scratch.path().join("x"), scratch.path().join("x.tar.zst"));
    let with_zeros = || planted().replace('\n', "\0").into_bytes();
    let wide: Vec<u8> = planted().encode_utf16().flat_map(u16::to_le_bytes).collect();
    let files = [
        ("console.log", planted().into_bytes()),
        ("system.journal", [b"LPKSHHRH".to_vec(), with_zeros()].concat()),
        ("disguised.log", [b"LPKSHHRH".to_vec(), with_zeros()].concat()),
        ("wide.txt", wide),
        ("perf.data", [b"PERFILE2".to_vec(), with_zeros()].concat()),
        ("calls.bin", [b"BSCALLS\n".to_vec(), b"\0\x01bittern9\0".to_vec()].concat()),
        ("kallsyms.gz", gzip("ffffffff81000000 T bittern9\n")),
        ("damaged.gz", gzip(&planted())[..200].to_vec()),
    ];
    let names: Vec<&str> = files.iter().skip(1).map(|(name, _)| *name).collect();
    recording(&folder, &files, |_| {});
    let ran = run(bootscope("pack").arg(&folder).args(["--anonymous", "-o"]).arg(&packed)).exits(0);
    let line = ran.stderr.lines().find(|line| line.contains("left out")).expect("it says so");
    for name in names {
        assert!(line.contains(name), "{name}: {line}");
    }
    let files = bytes_of(&packed);
    assert_eq!(files.iter().filter(|(name, _)| name.ends_with("console.log")).count(), 1);
    let all: Vec<u8> = files.into_iter().flat_map(|(_, bytes)| bytes).collect();
    assert_eq!(found_in(&all), [""; 0]);
}

/// The content of all files of a lake, as text.
fn rows_of(lake: &Path) -> String {
    let (mut text, mut folders) = (String::new(), vec![lake.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "parquet") {
                let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
                reader.get_row_iter(None).unwrap().for_each(|row| text.push_str(&format!("{}\n", row.unwrap())));
            } else {
                text.push_str(&String::from_utf8_lossy(&fs::read(&path).unwrap()));
            }
        }
    }
    text
}

#[test]
fn no_planted_identity_is_in_a_lake() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("x");
    // Names of rows come from a kernel's own log. Prompts and prefixes are on the console of the same boot.
    let mut log = String::new();
    for (number, line) in sentences().iter().enumerate() {
        let (from, to) = (1_000_000 + number * 2000, 1_001_500 + number * 2000);
        log += &format!("0xffffffff8251db00 {from} ENTER {line}\n0xffffffff8251db00 {to} EXIT {line}\n");
    }
    let file = scratch.path().join("vmlinuz-bittern9.txt");
    fs::write(&file, log).unwrap();
    run(bootscope("import").arg(&file).args(["--tsc-frequency", "1000000000", "-o"]).arg(&folder)).exits(0);
    fs::write(folder.join("console.log"), planted()).unwrap();
    change_manifest(&folder, |manifest| {
        manifest["subject"] = json!({"kernel": "vmlinuz-bittern9", "os": "FreeBSD"});
        manifest["host"] = json!({"cpu": "CPU of bittern9"});
        manifest["vmm"] = json!({"version": "QEMU of bittern9", "command": ["qemu"]});
    });
    let add = |lake: &str, more: &[&str]| {
        let lake = scratch.path().join(lake);
        run(bootscope("lake").arg("add").arg(&folder).arg("--to").arg(&lake).args(more)).exits(0);
        rows_of(&lake)
    };
    let identified = found_in(add("open", &["--identify"]).as_bytes());
    assert!(identified.len() >= 100, "only {} are in rows: {identified:?}", identified.len());
    let rows = add("lake", &["--machine", "kitchen7.example"]);
    assert_eq!(found_in(rows.as_bytes()), [""; 0]);
    assert!(rows.contains("[host]") && rows.contains("[address]") && !rows.contains("kitchen7"));
}

fn script(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// A machine whose journal, packages and loader's times contain all lines, and whose command line contains as many as
/// fit.
#[test]
fn no_planted_identity_is_in_a_capture_which_reports_what_it_keeps() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    let says = |name: &str, text: &str| {
        let file = folder.join(format!("{name}.out"));
        fs::write(&file, text).unwrap();
        script(folder, name, &format!("#!/bin/sh\ncat {}\n", file.display()));
    };
    let journal: Vec<String> =
        sentences().iter().map(|line| json!({"MESSAGE": line, "_HOSTNAME": "bittern9"}).to_string()).collect();
    says("journalctl", &format!("{}\n", journal.join("\n")));
    says("cbmem", &planted());
    let command_line: Vec<String> = sentences().into_iter().filter(|line| line.contains("ommand line: ")).collect();
    let cmdline = folder.join("cmdline");
    fs::write(&cmdline, command_line.join(" ")).unwrap();
    let is_root = run(Command::new("unshare").args(["-m", "true"])).status == 0;
    if !is_root {
        skip("no namespaces for mounts: /proc/cmdline stays the machine's own");
    }
    let packed = folder.join("here.tar.zst");
    let capture = |more: &[&str]| {
        let mount =
            if is_root { format!("mount --bind {} /proc/cmdline && ", cmdline.display()) } else { String::new() };
        let own = bootscope("capture").get_program().to_string_lossy().into_owned();
        let line = format!(
            "{mount}PATH={}:$PATH exec {own} capture --force -o {} {}",
            folder.display(),
            packed.display(),
            more.join(" ")
        );
        let mut command = Command::new(if is_root { "unshare" } else { "sh" });
        command.args(if is_root { &["-m", "sh", "-c"][..] } else { &["-c"] }).arg(line);
        run(&mut command).exits(0)
    };
    let all = || -> Vec<u8> { bytes_of(&packed).into_iter().flat_map(|(_, bytes)| bytes).collect() };
    let ran = capture(&["--identify"]);
    let identified = found_in(&all());
    assert!(identified.len() >= 100, "only {} are in it: {identified:?}", identified.len());
    assert!(!is_root || identified.contains(&"R58M41ABCDE"), "the command line is in it");
    assert!(ran.stderr.contains("keeps, as --identify says: names of hosts: "), "{}", ran.stderr);
    let ran = capture(&[]);
    assert_eq!(found_in(&all()), [""; 0]);
    assert!(ran.stderr.contains("makes tokens of names of hosts: "), "{}", ran.stderr);
    assert!(ran.stderr.contains(&format!("keeps {} lines of the journal", journal.len())), "{}", ran.stderr);
    shown(&packed);
}

/// Real boots and imports: names may become tokens, but times and the number of rows stay.
#[test]
fn an_anonymous_pack_of_a_real_boot_has_the_same_times() {
    let scratch = tempfile::tempdir().unwrap();
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kept");
    let paths = fs::read_dir(kept).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|e| e == "zst")).collect();
    paths.sort();
    assert!(paths.len() >= 12, "{paths:?}");
    let mut wrong = Vec::new();
    for path in paths {
        let packed = scratch.path().join("x.tar.zst");
        run(bootscope("pack").arg(&path).args(["--anonymous", "--force", "-o"]).arg(&packed)).exits(0);
        let show = |path: &Path| run(bootscope("show").args(["--json"]).arg(path)).exits(0).json();
        let (before, after) = (show(&path), show(&packed));
        for field in ["total_ns", "outcome", "time_base", "unit", "phases", "explained", "initcalls"] {
            if before[field] != after[field] {
                wrong.push(format!("{}: {field}: {} became {}", path.display(), before[field], after[field]));
            }
        }
        let times = |document: &serde_json::Value| {
            let rows = document["where"].as_array().cloned().expect("it has rows");
            rows.iter().map(|row| (row["self_ns"].as_i64(), row["count"].as_i64())).collect::<Vec<_>>()
        };
        if times(&before) != times(&after) {
            wrong.push(format!("{}: rows", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A guest booted with as many identities on its command line as it accepts. Its kernel prints them, and so does
/// process 1.
#[test]
#[ignore = "13 s: in make test-all"]
fn a_guest_with_identities_on_its_command_line_leaves_none_in_a_pack_or_a_lake() {
    const MOST: usize = 1600;
    let Some(kernel) = kernel() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("x");
    let mut line = "loglevel=7".to_owned();
    for sentence in sentences() {
        let Some((_, options)) = sentence.split_once("ommand line: ") else { continue };
        // The test sets the root and the console itself.
        let is_harmless = !["root=", "netconsole=", "autoinstall"].iter().any(|start| options.contains(start));
        if is_harmless && line.len() + options.len() < MOST {
            line = format!("{line} {options}");
        }
    }
    recorded(record(&kernel, &folder).args(["--append", &line]), &folder, "reached");
    let planted = found_in(evidence(&folder, "kmsg.log").as_bytes());
    assert!(planted.len() >= 20, "the kernel prints them: {planted:?}");
    let packed = scratch.path().join("x.tar.zst");
    run(bootscope("pack").arg(&folder).args(["--anonymous", "-o"]).arg(&packed)).exits(0);
    let files = bytes_of(&packed);
    assert!(files.iter().any(|(name, _)| name.ends_with("kallsyms.gz")), "names of functions stay");
    let all: Vec<u8> = files.into_iter().flat_map(|(_, bytes)| bytes).collect();
    assert_eq!(found_in(&all), [""; 0]);
    let (before, after) = (shown(&folder), shown(&packed));
    for field in ["total_ns", "phases", "initcalls"] {
        assert_eq!(before[field], after[field], "{field}");
    }
    let lake = scratch.path().join("lake");
    run(bootscope("lake").arg("add").arg(&folder).arg("--to").arg(&lake)).exits(0);
    assert_eq!(found_in(rows_of(&lake).as_bytes()), [""; 0]);
}
