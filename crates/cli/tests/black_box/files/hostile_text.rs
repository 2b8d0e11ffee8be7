//! Hostile text in a log, a bench or a file name: no output of any command contains a character that a terminal
//! interprets or hides, or that reverses text. The recorded evidence stays unchanged.

use crate::support::journals::Bench;
use crate::support::{bootscope, imported, run, skip};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// ESC, CSI as one character, a bell, right-to-left override, isolate and mark, a line separator, a tag.
const EVIL: &str = "\u{1b}[31m\u{9b}2J\u{7}\u{202e}\u{2066}\u{200f}\u{2028}\u{e0041}";

#[track_caller]
fn assert_harmless(bytes: &[u8], what: &str) {
    let shown = std::str::from_utf8(bytes).unwrap_or_else(|e| panic!("{what}: {e}"));
    let harmful = |c: &char| {
        let turns = matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{e0000}'..='\u{e007f}');
        turns || c.is_control() && *c != '\n'
    };
    if let Some(bad) = shown.chars().find(harmful) {
        let at = shown.find(bad).unwrap();
        panic!("{what} lets {bad:?} through: {:?}", shown[at..].chars().take(80).collect::<String>());
    }
}

/// Runs a command and checks that its output is harmless, whatever the exit status.
#[track_caller]
fn check(command: &mut Command) -> i32 {
    let what = format!("{command:?}");
    let ran = run(command);
    assert_harmless(&ran.stdout, &what);
    assert_harmless(ran.stderr.as_bytes(), &what);
    ran.status
}

fn tslog(evil: &str) -> String {
    let mut log =
        format!("0x1 1000000 ENTER mi_startup\n0x1 2000000 ENTER SYSINIT {evil}a\n0x2 2500000 THREAD {evil}t\n");
    log.push_str(&format!(
        "0x2 2600000 ENTER {evil}f {evil}\n0x2 3000000 EVENT HOLD {evil}h\n0x1 3000000 EVENT WAIT {evil}h\n"
    ));
    log.push_str(&format!(
        "0x2 5000000 EVENT RELEASE {evil}h\n0x2 5000000 EXIT {evil}f {evil}\n0x1 5000000 EVENT UNWAIT {evil}h\n"
    ));
    // Three delays are a finding.
    for at in [5_200_000, 5_400_000, 5_600_000] {
        log.push_str(&format!("0x1 {at} ENTER DELAY\n0x1 {} EXIT DELAY\n", at + 150_000));
    }
    log.push_str(&format!(
        "0x1 6000000 EXIT SYSINIT {evil}a\n0x1 7000000 EXIT mi_startup\nmachdep.tsc_freq: 1000000000\n"
    ));
    log
}

fn linux(evil: &str) -> String {
    let call = |name: &str, at: u32| {
        format!(
            "[    0.{at}00000] calling  {name}_init+0x0/0x10 @ 1\n[    0.{}00000] initcall {name}_init+0x0/0x10 returned 0 after 100000 usecs\n",
            at + 1
        )
    };
    format!("[    0.000000] Linux version 6.1 {evil}\n{}{}", call(&format!("{evil}x"), 1), call("plain", 3))
}

/// Recordings with hostile text in every field, in a folder with a hostile name.
fn recordings(folder: &TempDir) -> Vec<PathBuf> {
    let kinds = [("tslog", tslog(EVIL)), ("linux", linux(EVIL))];
    let made = kinds.map(|(name, text)| {
        let file = folder.path().join(format!("{EVIL}{name}.txt"));
        fs::write(&file, text).unwrap();
        let into = imported(&file, &folder.path().join(format!("{EVIL}{name}")));
        let path = into.join("recording.json");
        let mut manifest: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        manifest["subject"] = serde_json::json!({"os": EVIL, "kernel": EVIL, "machine": EVIL, "accelerator": EVIL});
        manifest["notes"] = serde_json::json!([EVIL]);
        manifest["evidence"][0]["bytes"] = 1_000_000.into();
        let lost = serde_json::json!({"file": EVIL, "bytes": 7, "origin": EVIL});
        manifest["evidence"].as_array_mut().unwrap().push(lost);
        fs::write(&path, manifest.to_string()).unwrap();
        into
    });
    made.to_vec()
}

#[test]
fn views_and_exports_escape_hostile_text() {
    let folder = TempDir::new().unwrap();
    let all = recordings(&folder);
    for recording in &all {
        for flags in [
            &["--functions", "--all-threads", "--verbose", "--initcalls", "--processes"][..],
            &["--quiet"],
            &["--json"],
        ] {
            assert_eq!(check(bootscope("show").args(flags).arg(recording)), 0);
        }
        let formats = ["speedscope", "chrome", "folded", "folded-all-threads", "svg", "csv", "csv-where", "json"];
        for format in formats {
            assert_eq!(check(bootscope("export").arg(recording).args(["--to", format])), 0, "{format}");
        }
        assert_eq!(check(bootscope("diff").arg(recording).arg(recording)), 0);
        assert_eq!(check(bootscope("diff").arg("--json").arg(recording).arg(recording)), 0);
        check(bootscope("what-if").arg(recording).args(["--save", &format!("{EVIL}x=-50%"), "--save", "nothing"]));
        check(bootscope("what-if").arg(recording).args(["--save", "*=-50%"]));
        check(bootscope("findings").arg(recording));
        check(bootscope("findings").arg("--json").arg(recording));
        check(bootscope("findings").args(["--explain", EVIL]));
        check(bootscope("what-if").arg(recording).arg("--rung").arg(format!("{EVIL}={}", recording.display())));
        check(bootscope("show").args(["--fit", "cpus"]).args([recording, recording]));
        let budgets = folder.path().join("budgets.toml");
        fs::write(&budgets, "[total]\nmax = \"1ms\"\n").unwrap();
        for flags in [&[][..], &["--json"], &["--github"]] {
            check(bootscope("check").arg(&budgets).arg(recording).args(flags));
        }
        let page = folder.path().join(format!("{EVIL}.html"));
        check(bootscope("report").arg("--force").arg(recording).arg("-o").arg(&page));
        assert_harmless(&fs::read(&page).unwrap(), "the page");
        check(bootscope("pack").arg(recording));
    }
    // If there are findings, they are text like any other.
    let slow = &all[0];
    let export = run(bootscope("export").arg(slow).args(["--to", "json"])).exits(0).json();
    let title = export["findings"][0]["title"].as_str().unwrap_or_else(|| panic!("no finding: {}", export["found"]));
    assert!(title.contains('\u{202e}') && title.contains("the same delay is made again and again"), "{title:?}");
    let shown = run(bootscope("show").arg("--json").arg(slow)).exits(0).json();
    assert_eq!((&export["findings"], &export["found"]), (&shown["findings"], &shown["found"]));
    let page = folder.path().join(format!("{EVIL}.html"));
    check(bootscope("report").arg("--force").arg(slow).arg("-o").arg(&page));
    let page = fs::read(&page).unwrap();
    assert_harmless(&page, "the page with a finding");
    let list = String::from_utf8(page).unwrap().split_once("What to do, most valuable first").unwrap().1.to_owned();
    assert!(list.split("</section>").next().unwrap().contains("the same delay is made again and again"), "{list}");
}

#[test]
fn messages_escape_hostile_arguments() {
    let folder = TempDir::new().unwrap();
    let evil = folder.path().join(EVIL);
    for command in [
        "show", "report", "pack", "import", "diff", "history", "bench", "record", "check", "what-if", "range", "lab",
        "findings",
    ] {
        assert_eq!(check(bootscope(command).arg(&evil)), 2, "{command}");
        assert_eq!(check(bootscope(command).arg(format!("--{EVIL}"))), 2, "{command}");
    }
    for flags in [["--memory", EVIL], ["--until", EVIL], ["--kernel", EVIL], ["--qemu", EVIL], ["--accel", EVIL]] {
        check(
            bootscope("record")
                .args(flags)
                .args(["--timeout", "1s", "--kernel", EVIL, "-o"])
                .arg(folder.path().join("r")),
        );
    }
    for flags in [["--vary", EVIL], ["--sweep", EVIL], ["--continue", EVIL], ["--db", EVIL]] {
        check(bootscope("bench").args(flags));
    }
    check(bootscope("export").arg(&evil).args(["--to", EVIL]));
    check(bootscope("import").arg(&evil).args(["--tsc-frequency", EVIL, "-o", EVIL]));
    check(&mut bootscope(EVIL));
}

#[test]
fn output_of_a_bench_escapes_hostile_text() {
    let folder = TempDir::new().unwrap();
    let rounds: Vec<Vec<Option<f64>>> = (0..7).map(|r| vec![Some(1000.0 + f64::from(r)), None]).collect();
    let bench = Bench { created: "2026-01-01T00:00:00Z", kernels: &[EVIL, "b"], rounds: &rounds };
    let bench = bench.write(&folder.path().join(format!("{EVIL}bench")));
    let journal = bench.join("bench.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    let escaped = serde_json::to_string(EVIL).unwrap();
    let evil = escaped.trim_matches('"');
    fs::write(&journal, text.replace("initcalls", evil).replace("hang", evil).replace("a CPU", evil)).unwrap();
    for format in ["csv", "json", "markdown", "html"] {
        assert_eq!(check(bootscope("export").arg(&bench).args(["--to", format])), 0, "{format}");
    }
    let db = folder.path().join(format!("{EVIL}.db"));
    for flags in [&[][..], &["--json"], &["--verbose"]] {
        assert_eq!(check(bootscope("show").arg(&bench).args(flags)), 0);
        check(bootscope("history").arg("--db").arg(&db).args(flags).arg("--add").arg(&bench));
        assert_eq!(check(bootscope("history").arg("--db").arg(&db).args(flags)), 0);
    }
}

/// A kernel's own log is exported as it was logged; only a terminal gets it escaped.
#[test]
fn a_terminal_gets_logs_escaped() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("tslog.txt");
    fs::write(&file, tslog("\u{9b}2J\u{202e}")).unwrap();
    let recording = imported(&file, &folder.path().join("a"));
    let piped = run(bootscope("export").args(["--to", "tslog"]).arg(&recording)).exits(0);
    assert!(piped.text().contains('\u{202e}'), "a file or a pipe gets what was logged");
    let mut export = bootscope("export");
    export.args(["--to", "tslog"]).arg(&recording);
    match on_a_terminal(&export) {
        None => skip("script (util-linux) cannot make a terminal here"),
        Some(shown) => {
            assert!(shown.contains("mi_startup") && shown.contains("\\u{202e}"), "{shown}");
            assert_harmless(shown.replace('\r', "").as_bytes(), "export to a terminal");
        }
    }
}

/// The output of a command on a terminal.
fn on_a_terminal(command: &Command) -> Option<String> {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<String> = words.map(|word| format!("'{}'", Path::new(word).display())).collect();
    let mut script = Command::new("script");
    script.args(["-qec", &words.join(" "), "/dev/null"]).stdin(Stdio::null());
    let output = script.output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
