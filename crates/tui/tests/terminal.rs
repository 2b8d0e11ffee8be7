//! The terminal is as before after the screen ends: by its key, by a signal, and by a panic. Each runs this test program again on a
//! pseudo-terminal.

use campaigns::opened_boot;
use report::{Boot, PageBoot};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tui::{App, Look};

/// The longest time for one change of the screen, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const LEAVE: &str = "\u{1b}[?1049l";
const SHOW_CURSOR: &str = "\u{1b}[?25h";
const HIDE_CURSOR: &str = "\u{1b}[?25l";
/// A text that the program does not write.
const LAST: &str = "the last text";

/// The screen of a kept recording. Its comparison panics.
#[test]
#[ignore = "the tests below run it on a pseudo-terminal"]
fn screen() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../cli/tests/kept");
    let opened = opened_boot::open(&folder.join("log-excerpt.tar.zst")).expect("a kept recording opens");
    let boot = Boot::new(&opened.timeline, &opened.facts);
    let page = PageBoot { name: "one", boot: &boot, console: &[] };
    let compare = |_, _| panic!("a comparison that panics");
    let look = Look { has_colours: false, has_unicode: true };
    tui::run(&mut App::new(&[page, page], &compare, look)).expect("a terminal");
}

struct Screen {
    /// The terminal's other end, and what came from it.
    keys: File,
    output: Receiver<Vec<u8>>,
    seen: String,
    /// The program's end, to read its modes.
    terminal: File,
    program: Child,
}

impl Screen {
    fn start(width: u16, height: u16) -> Screen {
        let master: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudo-terminal");
        grantpt(&master).expect("it is ours");
        unlockpt(&master).expect("it opens");
        let path = ptsname(&master, Vec::new()).expect("it has a name").into_string().expect("in ASCII");
        let open = || OpenOptions::new().read(true).write(true).open(&path).expect("its other end opens");
        let size = Winsize { ws_row: height, ws_col: width, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).expect("a size");
        let terminal = open();
        let program = Command::new(std::env::current_exe().expect("this program"))
            .args(["--ignored", "--exact", "screen", "--nocapture", "--test-threads=1"])
            .env("TERM", "xterm")
            .stdin(Stdio::from(open()))
            .stdout(Stdio::from(open()))
            .stderr(Stdio::from(open()))
            .spawn()
            .expect("it starts");
        let keys = File::from(master);
        let mut reader = keys.try_clone().expect("a copy");
        let (send, output) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count) = reader.read(&mut bytes) {
                if count == 0 || send.send(bytes[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Screen { keys, output, seen: String::new(), terminal, program }
    }

    fn until(&mut self, text: &str) {
        while !self.seen.contains(text) && !plain(&self.seen).contains(text) {
            let more =
                self.output.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{text:?} is not in {:?}", self.seen));
            self.seen.push_str(&String::from_utf8_lossy(&more));
        }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("the terminal takes keys");
    }

    fn is_raw(&self) -> bool {
        !tcgetattr(&self.terminal).expect("modes").local_modes.contains(LocalModes::ICANON)
    }

    fn send(&self, signal: Signal) {
        let pid = Pid::from_child(&self.program);
        kill_process(pid, signal).expect("it runs");
    }

    /// Waits for the program's end, and checks that the terminal is as it was.
    fn ends_restored(&mut self) -> ExitStatus {
        self.until(LEAVE);
        let status = self.program.wait().expect("it ends");
        assert!(!self.is_raw(), "the terminal still is in raw mode");
        assert_eq!(self.seen.matches("\u{1b}[?1049h").count(), 1);
        // All that the program wrote comes before this.
        self.terminal.write_all(LAST.as_bytes()).expect("the terminal takes text");
        self.until(LAST);
        // The library shows the cursor once more when a panic unwinds it.
        let after = self.seen.rsplit(LEAVE).next().expect("a rest").replace(SHOW_CURSOR, "");
        assert!(!after.contains("\u{1b}["), "the screen was drawn after it was left: {after:?}");
        assert!(self.seen.rfind(SHOW_CURSOR) > self.seen.rfind(HIDE_CURSOR), "the cursor is hidden: {:?}", self.seen);
        status
    }
}

/// The text without control sequences. The screen moves over single spaces, and so does this.
fn plain(seen: &str) -> String {
    let mut parts = seen.split("\u{1b}[");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit() || ";?".contains(c));
        text.push_str(if rest.starts_with('H') { " " } else { "" });
        text.push_str(rest.get(1..).unwrap_or_default());
    }
    text
}

#[test]
fn its_key_and_ctrl_c_end_the_screen() {
    for key in ["q", "\u{3}"] {
        let mut screen = Screen::start(80, 24);
        screen.until("q: end");
        assert!(screen.is_raw());
        screen.press(key);
        assert!(screen.ends_restored().success(), "{key:?}");
    }
}

#[test]
fn a_signal_restores_the_terminal_and_is_the_reason_of_the_end() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut screen = Screen::start(80, 24);
        screen.until("q: end");
        screen.send(signal);
        assert_eq!(screen.ends_restored().signal(), Some(signal.as_raw()));
    }
}

#[test]
fn a_panic_restores_the_terminal_and_is_readable() {
    let mut screen = Screen::start(80, 24);
    screen.until("q: end");
    screen.press("5");
    screen.until("a comparison that panics");
    assert!(!screen.ends_restored().success());
    let (left, message) = (screen.seen.find(LEAVE), screen.seen.find("a comparison that panics"));
    assert!(left < message, "the message came while the screen hid it: {:?}", screen.seen);
}

#[test]
fn a_resized_terminal_is_drawn_again_and_one_without_a_size_has_80_columns() {
    let mut screen = Screen::start(60, 24);
    // The first frame is complete.
    screen.until("\u{1b}[?25l");
    let size = Winsize { ws_row: 30, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&screen.keys, size).expect("a size");
    screen.seen.clear();
    screen.send(Signal::WINCH);
    screen.until(&"─".repeat(100));
    screen.press("q");
    screen.until(LEAVE);
    assert!(screen.program.wait().expect("it ends").success());
    let mut screen = Screen::start(0, 0);
    screen.until(&"─".repeat(80));
    screen.press("q");
    assert!(screen.ends_restored().success());
}
