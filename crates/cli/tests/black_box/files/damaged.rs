//! Damaged recordings: missing or truncated files, an empty manifest, a killed recorder, impossible rates, archives
//! that are no recordings or too large. Each fault is reported prominently. Nothing is booted here.

use crate::support::{bootscope, fixture, imported, list, run, shown, text};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

fn import_of(folder: &TempDir) -> PathBuf {
    imported(&fixture("log/linux-6.1-serial.log"), &folder.path().join("a"))
}

/// The first warnings of a view.
fn warnings(document: &Value) -> Vec<&str> {
    list(&document["warnings"]).iter().map(text).collect()
}

#[track_caller]
fn assert_warns(recording: &Path, words: &[&str]) {
    let document = shown(recording);
    let warned = warnings(&document);
    assert!(warned.iter().any(|warning| words.iter().all(|word| warning.contains(word))), "{words:?}: {warned:?}");
    let text = |command: &mut Command| {
        let ran = run(command.arg(recording)).exits(0);
        (ran.text().replace('\n', " ").replace("  ", " "), ran.stderr)
    };
    // The first line of every view has it, and so have the exports.
    let first = words[0];
    for flags in [&[][..], &["--quiet"]] {
        let (shown, _) = text(bootscope("show").args(flags));
        let line = shown.split(" Linux").next().unwrap();
        assert!(line.starts_with("warning: ") && line.contains(first), "{shown}");
    }
    let (folded, _) = text(bootscope("export").args(["--to", "folded"]));
    assert!(folded.contains(first), "{folded}");
    let page = recording.with_extension("html");
    run(bootscope("report").arg(recording).arg("--force").arg("-o").arg(&page)).exits(0);
    let page = fs::read_to_string(page).unwrap();
    let (warning, table) = (page.find(first), page.find("<table"));
    assert!(warning.is_some() && warning < table, "the page says it, before any figure");
    // These show it apart from their figures.
    let both = run(bootscope("diff").arg(recording).arg(recording)).exits(0);
    assert!(both.stderr.contains(first), "diff: {}", both.stderr);
}

#[test]
fn a_missing_or_truncated_file_is_named_with_its_effect() {
    let folder = TempDir::new().unwrap();
    let recording = import_of(&folder);
    assert!(warnings(&shown(&recording)).is_empty());
    let file = recording.join("00-linux-6.1-serial.log");
    let whole = fs::read(&file).unwrap();
    let half = whole.len() / 2;
    fs::write(&file, &whole[..half]).unwrap();
    let (found, recorded) = (half.to_string(), whole.len().to_string());
    assert_warns(&recording, &["00-linux-6.1-serial.log is cut", &found, &recorded, "in no table", "restore it"]);
    let document = shown(&recording);
    let line = &list(&document["warning_lines"])[0];
    assert_eq!((text(&line["code"]), text(&line["affects"])), ("file-cut", "all that this file shows"));
    assert_eq!(line["text"], document["warnings"][0]);
    // The packed recording is truncated in the same way.
    let packed = folder.path().join("cut.tar.zst");
    run(bootscope("pack").arg(&recording).arg("-o").arg(&packed)).exits(0);
    assert!(warnings(&shown(&packed))[0].contains("00-linux-6.1-serial.log is cut"));

    fs::remove_file(&file).unwrap();
    fs::write(recording.join("kmsg.log"), &whole).unwrap();
    assert_warns(&recording, &["00-linux-6.1-serial.log is missing", &recorded]);
}

/// A file as large as a plugin without a limit wrote it, and a stream that another program continued.
#[test]
fn a_file_beyond_the_limit_is_named_with_its_effect_and_the_rest_is_shown() {
    const BYTES: u64 = 3 << 30;
    let folder = TempDir::new().unwrap();
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kept/linux-first-run-cut.tar.zst");
    let mut unpacking = Command::new("tar");
    unpacking.arg("--zstd").arg("-xf").arg(kept).arg("-C").arg(folder.path());
    assert!(unpacking.status().unwrap().success());
    let recording = fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    let before = shown(&recording);
    let enlarge = |name: &str| {
        let file = fs::File::options().create(true).append(true).open(recording.join(name)).unwrap();
        file.set_len(BYTES).unwrap();
    };
    enlarge("calls.bin");
    let (bytes, limit) = (BYTES.to_string(), (1 << 30).to_string());
    assert_warns(&recording, &["calls.bin has", &bytes, &limit, "calls", "record again"]);
    let document = shown(&recording);
    assert_eq!((&document["phases"], &document["total_ns"]), (&before["phases"], &before["total_ns"]));
    let lines = list(&document["warning_lines"]);
    let line = lines.iter().find(|line| text(&line["text"]).starts_with("calls.bin")).unwrap();
    assert_eq!((text(&line["code"]), text(&line["affects"])), ("file-too-large", "all that this file shows"));
    let counted = list(&document["diagnostics"]).iter().find(|row| row["code"] == "file-too-large").unwrap();
    assert_eq!((&counted["count"], text(&counted["about"])), (&json!(1), "calls.bin"));

    let others = ["kmsg.log", "console.log", "console.idx", "meminfo.txt", "trace.txt", "kallsyms.gz", "first-run.bin"];
    others.iter().for_each(|name| enlarge(name));
    assert_warns(&recording, &["kmsg.log has", &bytes]);
    let document = shown(&recording);
    let warned = warnings(&document);
    for name in others {
        assert!(warned.iter().any(|warning| warning.starts_with(&format!("{name} has"))), "{name}: {warned:?}");
    }
    let counted = list(&document["diagnostics"]).iter().filter(|row| row["code"] == "file-too-large").count();
    assert_eq!(counted, 1 + others.len());
}

#[test]
fn the_effect_of_a_lost_recorder_file_is_reported() {
    let folder = TempDir::new().unwrap();
    let recording = import_of(&folder);
    let path = recording.join("recording.json");
    let mut manifest: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    for (file, cost) in [
        ("guest.log", "end mark"),
        ("trace.txt", "wake-ups"),
        ("kallsyms.gz", "no names"),
        ("image-symbols.gz", "no names"),
        ("04-my.symbols", "no names"),
        ("vmm.log", "no figure"),
        ("registers.txt", "no figure"),
        ("meminfo.txt", "memory is not known"),
        ("meminfo-after.txt", "memory is not known"),
        ("console.tail.log", "kernel messages"),
        ("console.tail.idx", "clocks may be off"),
        ("config.gz", "is not used"),
    ] {
        manifest["evidence"][0] = json!({"file": file, "bytes": 9, "origin": ""});
        fs::write(&path, manifest.to_string()).unwrap();
        assert!(warnings(&shown(&recording))[0].contains(cost), "{file}");
    }
}

#[test]
fn an_empty_manifest_is_reported_first() {
    let folder = TempDir::new().unwrap();
    let recording = import_of(&folder);
    let path = recording.join("recording.json");
    let whole = fs::read(&path).unwrap();
    let damaged = [&b""[..], &whole[..whole.len() / 2], b"{}", b"{\"state\":\"finished\"}", b"\0\0\0", b"[1,2,3]"];
    for damaged in damaged {
        fs::write(&path, damaged).unwrap();
        assert_warns(&recording, &["state unknown", "recording.json cannot be read"]);
        assert_eq!(shown(&recording)["outcome"], "unknown");
    }
    fs::write(&path, br#"{"schema":"bootscope.recording/1"}"#).unwrap();
    assert_warns(&recording, &["state unknown", "does not say whether"]);
    fs::remove_file(&path).unwrap();
    fs::rename(recording.join("00-linux-6.1-serial.log"), recording.join("kmsg.log")).unwrap();
    assert_warns(&recording, &["state unknown", "there is no recording.json"]);
}

/// A folder as a killed recorder leaves it.
fn killed(folder: &TempDir) -> PathBuf {
    let recording = folder.path().join("killed");
    fs::create_dir(&recording).unwrap();
    let manifest = r#"{"schema":"bootscope.recording/1","state":"running","time_base":"host"}"#;
    fs::write(recording.join("recording.json"), manifest).unwrap();
    fs::write(recording.join("console.log"), "[    0.000000] Linux version 6.1\n[    0.500000] second\n").unwrap();
    fs::write(recording.join("console.idx"), "0 1000000000\n33 1500000000\n").unwrap();
    fs::write(recording.join("guest.idx"), "0 1250000000\n").unwrap();
    recording
}

#[test]
fn a_killed_recording_reports_first_the_kill_and_the_last_arrival() {
    let folder = TempDir::new().unwrap();
    let recording = killed(&folder);
    assert_warns(&recording, &["interrupted", "killed", "nothing came after 1.5", "console.log"]);
    let human = run(bootscope("show").arg(&recording)).exits(0);
    let first = human.text().lines().next().unwrap();
    assert!(first.contains("this recording was interrupted"), "{first}");
    assert!(!human.text().contains("running") && human.text().contains("\ninterrupted: "), "{}", human.text());
    // While a recorder holds the folder, the recording is at work, not killed.
    let mut holder = Command::new("flock");
    holder.arg(&recording).args(["sh", "-c", "echo held; read end"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut holder = holder.spawn().unwrap();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
    assert_warns(&recording, &["still being made", "1.5"]);
    drop(holder.stdin.take());
    holder.wait().unwrap();
    assert_warns(&recording, &["interrupted"]);
}

#[test]
fn an_archive_without_a_recording_is_refused() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("photos.tar.zst");
    let mut archive = tar::Builder::new(zstd::Encoder::new(Vec::new(), 1).unwrap());
    for name in ["photos/a.txt", "photos/b.txt"] {
        let mut header = tar::Header::new_gnu();
        header.set_size(5);
        archive.append_data(&mut header, name, &b"hello"[..]).unwrap();
    }
    fs::write(&path, archive.into_inner().unwrap().finish().unwrap()).unwrap();
    for command in [&["show"][..], &["show", "--json"], &["report"], &["export", "--to", "csv"]] {
        run(bootscope(command[0]).args(&command[1..]).arg(&path)).refuses(&["photos.tar.zst", "not a recording"]);
    }
}

/// A TSLOG file that contains the rate of its counter.
fn tslog(rate: &str) -> String {
    let mut log =
        String::from("0x1 1000000 ENTER mi_startup\n0x1 2000000 ENTER SYSINIT a\n0x1 3000000 EXIT SYSINIT a\n");
    log.push_str("0x1 4000000 EVENT x y\n");
    log + rate
}

#[test]
fn a_rate_that_no_counter_has_is_refused_and_counted() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("tslog.txt");
    let rates = ["machdep.tsc_freq: 999", "machdep.tsc_freq: 100000000001", "0x0 4000000 EVENT TSLOG hz 5"];
    for (n, rate) in rates.iter().enumerate() {
        fs::write(&file, tslog(&format!("{rate}\n"))).unwrap();
        let document = shown(&imported(&file, &folder.path().join(n.to_string())));
        assert_eq!(document["unit"], "ticks", "{rate}");
        let diagnostic = list(&document["diagnostics"]).iter().find(|d| d["code"] == "counter-rate-implausible");
        assert!(text(&diagnostic.unwrap()["first"]).contains("Hz"), "{rate}: {document}");
    }
    for (n, rate) in ["machdep.tsc_freq: 1000", "machdep.tsc_freq: 100000000000"].iter().enumerate() {
        fs::write(&file, tslog(&format!("{rate}\n"))).unwrap();
        assert_eq!(shown(&imported(&file, &folder.path().join(format!("good{n}"))))["unit"], "ns", "{rate}");
    }
    fs::write(&file, tslog("")).unwrap();
    for rate in ["999", "1Hz", "100.1GHz", "1e3"] {
        let into = folder.path().join("refused");
        run(bootscope("import").arg(&file).args(["--tsc-frequency", rate, "-o"]).arg(&into))
            .refuses(&["--tsc-frequency", "Hz"]);
        assert!(!into.exists());
    }
    // A rate that was written into the manifest by other means.
    let recording = imported(&file, &folder.path().join("by-hand"));
    let path = recording.join("recording.json");
    let mut manifest: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    manifest["ticks_hz"] = json!(0.001);
    fs::write(&path, manifest.to_string()).unwrap();
    let document = shown(&recording);
    assert_eq!(document["unit"], "ticks");
    assert!(document["diagnostics"].to_string().contains("recording.json: ticks_hz"), "{}", document["diagnostics"]);
}

const PAGE: usize = 4096;

/// The initcalls by name, each with its start and end, in ns.
fn initcalls(recording: &Path) -> BTreeSet<String> {
    let csv = run(bootscope("export").arg(recording).args(["--to", "csv"])).exits(0);
    let span = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        matches!(cells[..], [_, _, _, _, _, "initcall", "initcall", _])
            .then(|| format!("{} {} {}", cells[7], cells[2], cells[3]))
    };
    csv.text().lines().filter_map(span).collect()
}

/// A disk that lost a page of a file returns zeros. The evidence there is gone. What is still shown keeps its length,
/// and the hole is reported before the rest.
#[test]
fn a_page_of_zeros_is_reported_and_changes_no_initcall() {
    let folder = TempDir::new().unwrap();
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kept/linux-traced-no-symbols.tar.zst");
    tar::Archive::new(zstd::Decoder::new(fs::File::open(kept).unwrap()).unwrap()).unpack(folder.path()).unwrap();
    let recording = fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    let phases = |document: &Value| -> Vec<String> {
        list(&document["phases"]).iter().map(|phase| text(&phase["name"]).to_owned()).collect()
    };
    let (whole, expected) = (phases(&shown(&recording)), initcalls(&recording));
    assert!(expected.len() > 500, "{} initcalls", expected.len());
    let mut levels_lost = 0;
    for (name, stride) in [("trace.txt", 5), ("kmsg.log", 2)] {
        let bytes = fs::read(recording.join(name)).unwrap();
        for page in (1..bytes.len() / PAGE - 1).step_by(stride) {
            let mut damaged = bytes.clone();
            damaged[page * PAGE..(page + 1) * PAGE].fill(0);
            fs::write(recording.join(name), damaged).unwrap();
            let document = shown(&recording);
            let of_kind =
                |code: &str| list(&document["diagnostics"]).iter().filter(|d| d["code"] == code).collect::<Vec<_>>();
            let hole = of_kind("file-hole");
            assert_eq!(hole.len(), 1, "{name}, page {page}: {}", document["diagnostics"]);
            assert_eq!((&hole[0]["about"], &hole[0]["count"]), (&name.into(), &PAGE.into()));
            assert_eq!(hole[0]["severity"], "figures affected");
            let found = initcalls(&recording);
            let other: Vec<&String> = found.difference(&expected).collect();
            assert!(other.is_empty(), "{name}, page {page}: {other:?}");
            // A level with a lost event is named, because the level before it is as long as both.
            let shown = phases(&document);
            let lost =
                ["core", "postcore", "arch", "subsys", "fs", "device"].map(|level| format!("initcalls: {level}"));
            for level in lost.iter().filter(|level| whole.contains(level) && !shown.contains(level)) {
                levels_lost += 1;
                let missing = of_kind("initcall-level-missing");
                assert!(missing.iter().any(|d| level.ends_with(text(&d["about"]))), "{name}, page {page}: {level}");
            }
        }
        fs::write(recording.join(name), bytes).unwrap();
    }
    println!("{levels_lost} levels were lost with their pages");
    assert!(levels_lost > 0, "no page that was tried held the event of a level");
}
