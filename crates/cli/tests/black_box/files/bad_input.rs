//! Damaged, hostile or unsuitable input: one clear error or a counted diagnostic, never a panic, and never a control
//! character on the terminal. Nothing is booted here.

use crate::support::{assert_adds_up, bootscope, fixture, imported, list, ns, run, shown, text};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A hand-made recording with one file of evidence.
fn recording_of(folder: &TempDir, name: &str, evidence: &[u8]) -> PathBuf {
    let recording = folder.path().join("made");
    fs::create_dir_all(&recording).unwrap();
    fs::write(recording.join("recording.json"), r#"{"schema":"bootscope.recording/1","time_base":"evidence"}"#)
        .unwrap();
    fs::write(recording.join(name), evidence).unwrap();
    recording
}

/// The count of the diagnostic whose code contains this word.
fn diagnosed(document: &Value, word: &str) -> i64 {
    let all = list(&document["diagnostics"]).iter();
    all.filter(|d| text(&d["code"]).contains(word)).map(|d| ns(&d["count"])).sum()
}

#[test]
fn other_files_are_refused_with_the_next_step() {
    let folder = TempDir::new().unwrap();
    let (empty, log) = (folder.path().join("empty"), folder.path().join("boot.log"));
    fs::create_dir(&empty).unwrap();
    fs::write(&log, "[    0.1] x\n").unwrap();
    for command in [&["show"][..], &["show", "--json"], &["report"], &["export", "--to", "csv"], &["pack"]] {
        let refused = |path: &Path, words: &[&str]| {
            run(bootscope(command[0]).args(&command[1..]).arg(path)).refuses(words);
        };
        refused(&folder.path().join("nowhere"), &["nowhere"]);
        refused(&empty, &["empty", "neither a recording folder nor", "bootscope import"]);
        refused(&log, &["boot.log", "bootscope import"]);
        refused(Path::new("/dev/null"), &["/dev/null"]);
    }
    run(bootscope("import").args(["/nonexistent/serial.log", "-o"]).arg(folder.path().join("a")))
        .refuses(&["/nonexistent/serial.log", "No such file"]);
    run(bootscope("import").arg(&empty).arg("-o").arg(folder.path().join("a"))).refuses(&["empty", "directory"]);
    assert!(!folder.path().join("a").exists());
}

#[test]
fn an_undrawable_boot_is_an_error_of_the_boot_and_not_of_the_output() {
    let folder = TempDir::new().unwrap();
    let recording = recording_of(&folder, "vmm.log", b"qemu: hello\n");
    let refused = run(bootscope("export").args(["--to", "svg"]).arg(&recording))
        .refuses(&["no boot path to draw", "scheduler events"]);
    assert!(!refused.stderr.contains("standard output"), "{}", refused.stderr);
}

/// Linux's last level is `late`. If a trace ends in an earlier one, the rest of the boot is not known.
#[test]
fn a_trace_that_ends_before_the_last_level_has_no_hand_over() {
    let trace = |levels: &[&str]| {
        let mut text = "# tracer: nop\n".to_owned();
        for (i, level) in levels.iter().enumerate() {
            for (at, event) in [
                (0, format!("initcall_level: level={level}")),
                (1, format!("initcall_start: func={level}_init+0x0/0x10")),
                (3, format!("initcall_finish: func={level}_init+0x0/0x10 ret=0")),
            ] {
                text += &format!("  swapper/0-1  [000] .....     1.{i}0{at}000: {event}\n");
            }
        }
        text + "  swapper/0-1  [000] .....     1.900000: sched_process_exec: filename=/init pid=1 old_pid=1\n"
    };
    let after = |levels: &[&str]| {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("trace.txt");
        fs::write(&file, trace(levels)).unwrap();
        let document = shown(&imported(&file, &folder.path().join("a")));
        let phases: Vec<(String, i64)> = list(&document["phases"])
            .iter()
            .map(|p| (text(&p["name"]).to_owned(), ns(&p["end_ns"]) - ns(&p["start_ns"])))
            .collect();
        let last = phases.iter().position(|(name, _)| *name == format!("initcalls: {}", levels[levels.len() - 1]));
        phases[last.unwrap() + 1].clone()
    };
    let named = |name: &str, ns: i64| (name.to_owned(), ns);
    assert_eq!(after(&["early", "pure", "late"]), named("hand-over", 697_000_000));
    assert_eq!(after(&["early", "pure", "core"]), named("unexplained", 697_000_000));
}

#[test]
fn a_later_schema_asks_for_a_newer_program() {
    let folder = TempDir::new().unwrap();
    let recording = imported(&fixture("log/linux-6.1-serial.log"), &folder.path().join("a"));
    let manifest = recording.join("recording.json");
    let later = fs::read_to_string(&manifest).unwrap().replace("bootscope.recording/1", "bootscope.recording/99");
    fs::write(&manifest, later).unwrap();
    for command in ["show", "report", "pack"] {
        run(bootscope(command).arg(&recording)).refuses(&["bootscope.recording/99", "newer"]);
    }
}

#[test]
fn a_damaged_manifest_hides_no_evidence() {
    let folder = TempDir::new().unwrap();
    let recording = imported(&fixture("log/linux-6.1-serial.log"), &folder.path().join("a"));
    let whole = fs::read(recording.join("recording.json")).unwrap();
    let total = ns(&shown(&recording)["total_ns"]);
    for cut in (0..whole.len()).step_by(40) {
        fs::write(recording.join("recording.json"), &whole[..cut]).unwrap();
        assert_eq!(ns(&shown(&recording)["total_ns"]), total, "cut at {cut}");
    }
    fs::remove_file(recording.join("recording.json")).unwrap();
    run(bootscope("show").arg(&recording)).refuses(&["not a recording", "recording.json"]);
    // Evidence under a recorder's name is enough without a manifest.
    fs::rename(recording.join("00-linux-6.1-serial.log"), recording.join("kmsg.log")).unwrap();
    assert_eq!(ns(&shown(&recording)["total_ns"]), total);
}

#[test]
fn a_log_cut_anywhere_is_read_up_to_there() {
    // The program runs for each length, so the fixtures are small and every byte is tried.
    for name in ["log/linux-3.5.7-imx6-only-returns.log", "log/linux-6-arm64-deferred-and-glued.log"] {
        let whole = fs::read(fixture(name)).unwrap();
        let folder = TempDir::new().unwrap();
        let mut totals = Vec::new();
        for cut in 0..=whole.len() {
            let recording = recording_of(&folder, "00-serial.log", &whole[..cut]);
            totals.push(ns(&shown(&recording)["total_ns"]));
        }
        assert!(totals.last() > totals.first(), "{name}: nothing was read");
    }
}

#[test]
fn a_trace_cut_anywhere_is_read_up_to_there() {
    let whole = fs::read(fixture("trace/linux-6.1-cut-in-the-last-line.txt")).unwrap();
    let folder = TempDir::new().unwrap();
    for cut in (0..=whole.len()).rev().step_by(5) {
        shown(&recording_of(&folder, "trace.txt", &whole[..cut]));
    }
}

#[test]
fn a_packed_recording_cut_anywhere_is_read_or_refused() {
    let folder = TempDir::new().unwrap();
    let recording = imported(&fixture("log/linux-6.1-serial.log"), &folder.path().join("a"));
    let packed = folder.path().join("a.tar.zst");
    run(bootscope("pack").arg(&recording)).exits(0);
    let whole = fs::read(&packed).unwrap();
    for cut in (0..whole.len()).step_by(11) {
        fs::write(&packed, &whole[..cut]).unwrap();
        let ran = run(bootscope("show").arg("--json").arg(&packed));
        if ran.status == 0 {
            assert_adds_up(&ran.json());
        } else {
            ran.refuses(&["a.tar.zst"]);
        }
    }
}

/// A packed recording with entries that no bootscope writes.
fn packed(folder: &TempDir, entries: &[(&str, tar::EntryType)]) -> PathBuf {
    let mut archive = tar::Builder::new(zstd::Encoder::new(Vec::new(), 1).unwrap());
    for (name, kind) in entries {
        let mut header = tar::Header::new_gnu();
        // The builder refuses such paths, so they are written into the header directly.
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(*kind);
        header.set_mode(0o644);
        header.set_size(4);
        if kind.is_symlink() {
            header.set_link_name("/etc/passwd").unwrap();
            header.set_size(0);
        }
        header.set_cksum();
        archive.append(&header, if kind.is_symlink() { &b""[..] } else { &b"evil"[..] }).unwrap();
    }
    let path = folder.path().join("packed.tar.zst");
    fs::write(&path, archive.into_inner().unwrap().finish().unwrap()).unwrap();
    path
}

#[test]
fn a_packed_recording_that_climbs_out_is_refused_whole() {
    let folder = TempDir::new().unwrap();
    let inner = folder.path().join("inner");
    fs::create_dir(&inner).unwrap();
    let plain = tar::EntryType::Regular;
    let climbing = [
        ("../climbed", plain),
        ("a/../../climbed", plain),
        ("/tmp/climbed", plain),
        ("a/b/climbed", plain),
        ("a/link", tar::EntryType::Symlink),
        ("a/.hidden", plain),
    ];
    for entry in climbing {
        let path = packed(&folder, &[("a/recording.json", plain), entry]);
        run(bootscope("show").arg(&path).current_dir(&inner)).refuses(&["packed.tar.zst", "refused"]);
    }
    assert!(fs::read_dir(&inner).unwrap().next().is_none() && !folder.path().join("climbed").exists());
}

/// All characters that a terminal interprets or hides, in names, messages and initcalls, and those for a browser.
fn hostile_log() -> Vec<u8> {
    let mut log = b"[    0.000000] Linux version 6.1\x1b]0;owned\x07 <script>alert(1)</script>\n".to_vec();
    log.extend_from_slice(b"[    0.100000] calling  evil\x1b[31m_init+0x0/0x10 @ 1\n");
    log.extend_from_slice(b"[    0.200000] initcall evil\x1b[31m_init+0x0/0x10 returned 0 after 100000 usecs\n");
    log.extend_from_slice("[    0.300000] calling  \u{9b}2J\u{202e}tini+0x0/0x10 @ 1\n".as_bytes());
    log.extend_from_slice(
        "[    0.400000] initcall \u{9b}2J\u{202e}tini+0x0/0x10 returned 0 after 99 usecs\n".as_bytes(),
    );
    log.extend_from_slice(b"[    0.500000] calling  <img/src=x/onerror=alert(2)>+0x0/0x10 @ 1\n");
    log.extend_from_slice(b"[    0.600000] initcall <img/src=x/onerror=alert(2)>+0x0/0x10 returned 0 after 99 usecs\n");
    log.extend_from_slice(b"[    0.700000] calling  \xff\xfe\x80raw+0x0/0x10 @ 1\n");
    log.extend_from_slice(b"[    0.800000] initcall \xff\xfe\x80raw+0x0/0x10 returned 0 after 99 usecs\n");
    log.extend_from_slice(
        b"[    0.900000] Kernel panic - not syncing: \x1b[2J\x00\x7f\x08\x08</pre><script>alert(3)\n",
    );
    log
}

/// Panics on anything but text and line ends.
#[track_caller]
fn assert_harmless(bytes: &[u8], what: &str) {
    let shown = std::str::from_utf8(bytes).unwrap_or_else(|e| panic!("{what}: {e}"));
    let harmful = |c: &char| c.is_control() && *c != '\n' || ('\u{202a}'..='\u{202e}').contains(c);
    if let Some(bad) = shown.chars().find(harmful) {
        panic!("{what} lets {bad:?} through");
    }
}

#[test]
fn hostile_text_reaches_the_terminal_only_escaped() {
    let folder = TempDir::new().unwrap();
    let log = folder.path().join("evil\u{1b}[31m\u{9b}2J.log");
    fs::write(&log, hostile_log()).unwrap();
    let recording = folder.path().join("a");
    let import = run(bootscope("import").arg(&log).arg("-o").arg(&recording)).exits(0);
    assert_harmless(import.stderr.as_bytes(), "import");
    let evidence = fs::read_dir(&recording).unwrap().map(|e| e.unwrap().path());
    let kept = evidence.map(|path| fs::read(path).unwrap()).any(|bytes| bytes == hostile_log());
    assert!(kept, "what was recorded is not what is in the folder");

    let document = shown(&recording);
    assert!(document.to_string().contains("evil"), "the hostile initcall is not shown: {document}");
    for flags in [&["--functions", "--all-threads", "--verbose"][..], &["--json"]] {
        let ran = run(bootscope("show").args(flags).arg(&recording)).exits(0);
        assert_harmless(&ran.stdout, &format!("show {flags:?}"));
    }
    for format in ["speedscope", "chrome", "folded", "svg", "csv", "csv-where", "json"] {
        let ran = run(bootscope("export").arg(&recording).args(["--to", format])).exits(0);
        assert_harmless(&ran.stdout, format);
    }
    let missing = run(bootscope("show").arg(folder.path().join("\u{1b}[31mmissing")));
    assert_harmless(missing.refuses(&["missing"]).stderr.as_bytes(), "the name of a missing file");
}

#[test]
fn hostile_text_is_text_on_the_page() {
    let folder = TempDir::new().unwrap();
    let mut log = hostile_log();
    log.extend_from_slice(b"<svg onload=alert(4)>\n");
    let recording = recording_of(&folder, "console.log", &log);
    let page = folder.path().join("a.html");
    run(bootscope("report").arg(&recording).arg("-o").arg(&page)).exits(0);
    let page = fs::read_to_string(page).unwrap();
    for hostile in ["<script>alert", "<img/src", "</pre><script", "<svg onload"] {
        assert!(!page.contains(hostile), "{hostile}");
    }
    assert!(page.contains("&lt;script&gt;alert"), "what the console said is on the page, as text");
    assert_harmless(page.replace('\t', " ").as_bytes(), "the page");
    let remote = ["src=\"http", "href=\"http", "url(http", "@import"];
    assert!(!remote.iter().any(|sign| page.contains(sign)), "the page needs no network");
}

#[test]
fn hostile_texts_in_the_manifest_are_harmless_too() {
    let folder = TempDir::new().unwrap();
    let recording = imported(&fixture("log/linux-6.1-serial.log"), &folder.path().join("a"));
    let path = recording.join("recording.json");
    let mut manifest: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    manifest["subject"]["machine"] = json!("pc\u{1b}[2J<b>");
    manifest["notes"] = json!(["\u{9b}2J<script>alert(5)</script>"]);
    manifest["outcome"] = json!({"kind": "panic", "detail": "\u{1b}]0;x\u{7}", "at_ns": 5});
    fs::write(&path, manifest.to_string()).unwrap();
    let human = run(bootscope("show").arg(&recording)).exits(0);
    assert_harmless(&human.stdout, "show");
    assert!(human.text().contains("\\x1b[2J"), "it is shown as what it is: {}", human.text());
    assert_harmless(&run(bootscope("show").arg("--json").arg(&recording)).exits(0).stdout, "show --json");
}

#[test]
fn a_clock_that_steps_back_is_counted() {
    let mut log = String::from("[    0.000000] Linux version 6.1\n");
    for stamp in ["1.000000", "0.500000", "1.500000", "0.700000", "2.000000"] {
        log.push_str(&format!("[    {stamp}] something happens at {stamp}\n"));
    }
    let folder = TempDir::new().unwrap();
    let document = shown(&recording_of(&folder, "00-serial.log", log.as_bytes()));
    assert_eq!(diagnosed(&document, "clock-back"), 2, "{}", document["diagnostics"]);
    assert_eq!(ns(&document["total_ns"]), 2_000_000_000);
}

#[test]
fn numbers_beyond_all_bounds_are_survived() {
    let stamps = ["99999999999999999999.000000", "18446744073.709551", "9223372036.854775807", "-1.000000"];
    let mut log = String::from("[    0.000000] Linux version 6.1\n");
    for stamp in stamps {
        log.push_str(&format!("[{stamp}] calling  a+0x0/0x1 @ 99999999999999999999\n"));
        log.push_str(&format!("[{stamp}] initcall a+0x0/0x1 returned 0 after 18446744073709551615 usecs\n"));
    }
    let folder = TempDir::new().unwrap();
    shown(&recording_of(&folder, "00-serial.log", log.as_bytes()));
    let clocks = "0 -9223372036854775808\n99999999999 9223372036854775807\nx y\n";
    let recording = recording_of(&folder, "console.log", log.as_bytes());
    fs::write(recording.join("console.idx"), clocks).unwrap();
    fs::write(recording.join("trace.txt"), vec![b'x'; 100_000]).unwrap();
    fs::write(recording.join("first-run.bin"), vec![0xff; 100_000]).unwrap();
    fs::write(recording.join("kallsyms.gz"), b"\x1f\x8b\x08\x00not really").unwrap();
    fs::write(recording.join("vmm.json"), "[{\"name\":1}]").unwrap();
    let document = shown(&recording);
    assert!(!list(&document["diagnostics"]).is_empty(), "all of it without a word");
}

/// The lines and the document of `show` for an imported log.
fn shown_of(folder: &TempDir, log: &str) -> (String, Value) {
    let file = folder.path().join("serial.log");
    fs::write(&file, log).unwrap();
    let recording = imported(&file, &folder.path().join("boot"));
    let lines = run(bootscope("show").arg(&recording)).exits(0).text().to_owned();
    (lines, shown(&recording))
}

#[test]
fn the_last_of_two_boots_in_a_log_is_shown() {
    let boot = |version: &str, initcall: &str| {
        format!(
            "[    0.000000] Linux version {version}\n[    0.100000] calling  {initcall}+0x0/0x10 @ 1\n\
             [    0.300000] initcall {initcall}+0x0/0x10 returned 0 after 200000 usecs\n\
             [    1.000000] Run /sbin/init as init process\n"
        )
    };
    let folder = TempDir::new().unwrap();
    let (lines, document) =
        shown_of(&folder, &format!("{}{}", boot("5.10.1", "of_the_first"), boot("6.1.2", "of_the_last")));
    assert!(lines.contains("of_the_last") && !lines.contains("of_the_first"), "{lines}");
    assert_eq!(diagnosed(&document, "log-other-boot"), 4, "{document}");
    assert_eq!(diagnosed(&document, "log-clock-back"), 0, "{document}");
    assert!(lines.contains("4 lines are of another boot (boot -1, lines 1 to 4)"), "{lines}");
    let file = folder.path().join("serial.log");
    let earlier = run(bootscope("show").arg(&file).args(["--boot", "-1"])).exits(0).text().to_owned();
    assert!(earlier.contains("of_the_first") && !earlier.contains("of_the_last"), "{earlier}");
    run(bootscope("show").arg(&file).args(["--boot", "-2"])).refuses(&["the log holds no boot -2"]);
}

#[test]
fn a_log_without_its_beginning_has_a_warning_at_the_total() {
    let folder = TempDir::new().unwrap();
    let (lines, document) =
        shown_of(&folder, "[    3.000000] clk: x\n[    3.500000] y\n[    4.000000] Run /sbin/init as init process\n");
    assert_eq!(diagnosed(&document, "log-beginning-missing"), 1, "{document}");
    assert!(lines.contains("the beginning of 1 kernel log is missing") && lines.contains("affects total"), "{lines}");
}

#[test]
fn an_imported_log_with_a_panic_reports_it_first() {
    let folder = TempDir::new().unwrap();
    let panic_line = "Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)";
    let log = format!(
        "[    0.000000] Linux version 6.1\n[    0.500000] a\n[    0.700000] {panic_line}\n[    0.800000] CPU: 0 PID: 1\n"
    );
    let (lines, document) = shown_of(&folder, &log);
    assert_eq!((text(&document["outcome"]), text(&document["outcome_detail"])), ("panic", panic_line));
    assert!(lines.contains("panic: no end mark: the kernel panicked after 700 ms"), "{lines}");
}
