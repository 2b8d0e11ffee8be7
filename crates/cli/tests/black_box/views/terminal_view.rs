//! `view --tui`, on a terminal of the test's own and without one.

use crate::support::{bootscope, fixture, imported, run, skip};
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

/// The output of the screen on a terminal that gets these keys; `None` without `script`, with a printed reason.
fn on_terminal(arguments: &str, keys: &str) -> Option<String> {
    let line = format!("stty rows 24 cols 80; exec {} view --tui {arguments}", env!("CARGO_BIN_EXE_bootscope"));
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).env("TERM", "xterm").env("LC_ALL", "C.UTF-8").env_remove("NO_COLOR");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let Ok(mut program) = command.spawn() else {
        skip("no `script` (util-linux) to give the program a terminal");
        return None;
    };
    program.stdin.take().unwrap().write_all(keys.as_bytes()).unwrap();
    let output = program.wait_with_output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{:?}: {shown:?}", output.status);
    Some(shown)
}

/// The text without the sequences that move, colour, clear, and choose the screen. Any other stays.
fn plain(shown: &str) -> String {
    let mut parts = shown.split("\u{1b}[");
    let mut text = parts.next().unwrap().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit() || ";?".contains(c));
        match rest.chars().next() {
            // The screen moves over single spaces.
            Some('H') => text.push_str(&format!(" {}", &rest[1..])),
            Some('m' | 'J' | 'h' | 'l' | 'n') => text.push_str(&rest[1..]),
            _ => text.push_str(&format!("\u{1b}[{part}")),
        }
    }
    text
}

#[test]
fn the_screen_shows_the_figures_of_show_by_keyboard() {
    let folder = tempfile::tempdir().unwrap();
    let recording = imported(&fixture("log/linux-6.1-serial.log"), &folder.path().join("a"));
    let Some(shown) = on_terminal(&recording.display().to_string(), "]234/printk\n?xq") else { return };
    let text = plain(&shown);
    for part in ["Linux 6.1.0-47-cloud-amd64", "2.04 s", "1.75 s", "Console", "q: end"] {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
    assert!(shown.ends_with("\u{1b}[?1049l\u{1b}[?25h") || shown.contains("\u{1b}[?1049l"), "the screen is left");
    let is_coloured = |shown: &str| shown.contains("\u{1b}[38;5;") || shown.contains("\u{1b}[48;5;");
    assert!(is_coloured(&shown), "{shown:?}");
    let Some(plainly) = on_terminal(&format!("--color never {}", recording.display()), "]23q") else { return };
    assert!(!is_coloured(&plainly), "{plainly:?}");
}

#[test]
fn text_of_a_guest_reaches_the_screen_only_escaped() {
    const EVIL: &str = "\u{1b}[31m\u{9b}2J\u{7}\u{202e}\u{2066}\u{200f}\u{2028}\u{1b}]0;title";
    let folder = tempfile::tempdir().unwrap();
    let log = format!(
        "[    0.000000] Linux version 6.1 {EVIL}\n[    0.100000] calling  {EVIL}x_init+0x0/0x10 @ 1\n\
         [    0.200000] initcall {EVIL}x_init+0x0/0x10 returned 0 after 100000 usecs\n[    0.900000] {EVIL}later\n"
    );
    let file = folder.path().join("evil.log");
    fs::write(&file, log).unwrap();
    let recording = imported(&file, &folder.path().join("a"));
    // Each view, a search that is typed with hostile text, and the list of keys.
    let Some(shown) = on_terminal(&recording.display().to_string(), "]]]2jj34jjj1/\u{202e}x\n?xq") else { return };
    let text = plain(&shown);
    let is_harmful = |c: char| {
        let turns = matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}');
        turns || c.is_control() && !matches!(c, '\r' | '\n')
    };
    // `script` echoes the keys before the program has the terminal, and ^D at their end.
    let screen = text.split_once("Linux").map_or(&*text, |(_, screen)| screen);
    let bad = screen.find(is_harmful).map(|at| screen[at..].chars().take(60).collect::<String>());
    assert_eq!(bad, None, "{screen:?}");
    assert!(screen.contains("\\u{202e}") && screen.contains("later"), "{screen:?}");
}

#[test]
fn without_a_terminal_the_error_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let recording = imported(&fixture("log/linux-6.1-serial.log"), &folder.path().join("a"));
    let refused = run(bootscope("view").arg("--tui").arg(&recording)).exits(2);
    assert!(
        refused.stderr.contains("needs a terminal") && refused.stderr.contains("bootscope show"),
        "{}",
        refused.stderr
    );
    let refused = run(bootscope("view").args(["--tui", "--port", "8000"]).arg(&recording)).exits(2);
    assert!(refused.stderr.contains("cannot be used with"), "{}", refused.stderr);
}
