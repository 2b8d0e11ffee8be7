//! Boards: machines that are connected only by a serial port. Here a board is a QEMU that the power-cycle command
//! starts, and the test plays the line between QEMU and bootscope. The line is a pseudo-terminal, a TCP port, or a
//! terminal server, and some tests let it damage bytes. The results must match the kernel's own stamps.

use crate::support::boots::{CALM, Scratch, console_messages, evidence, kernel, manifest, recorded};
use crate::support::images::initrd;
use crate::support::{bootscope, list, ns, run, shown, text};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::Value;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const MS: i64 = 1_000_000;
/// The phase of a kernel whose initcalls are not recorded.
const KERNEL: &str = "kernel, initcalls not told apart";

/// Process 1 of the board. It prints the login prompt repeatedly, for a line that loses characters.
const PROMPTS: &str = r#"for (;;) { say("\nboard login: "); long t[2] = {0, 200000000}; call(35, (long)t, 0, 0, 0); }"#;

/// Bytes on the line while the machine is switched on.
const EARLY: &[u8] = b"\0\0\xf0~";
/// A boot loader's output, with noise of the power supply before it.
const LOADER: &[u8] = b"\0\xff\xf0~\r\nU-Boot SPL 2024.01 (of the test)\r\n\r\nU-Boot 2024.01 (of the test)\r\nStarting kernel ...\r\n\r\n";

/// A function that turns sent bytes into received ones.
type Damage = fn(&mut Line, &[u8]) -> Vec<u8>;

/// The state of a line that damages bytes.
#[derive(Default)]
struct Line {
    seed: u64,
    lines: u32,
    /// The received part of a kernel message.
    message: Vec<u8>,
    is_at_start: bool,
}

/// Messages that the kernel prints once, and that define the phases. They arrive intact.
const NEEDED: [&[u8]; 3] = [b"Linux version", b"Freeing unused kernel image", b"Run /init as init process"];

impl Line {
    /// The next random number, the same in each run.
    fn next(&mut self, below: u64) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) % below
    }
}

fn intact(_: &mut Line, bytes: &[u8]) -> Vec<u8> {
    bytes.to_vec()
}

/// Loses, doubles or prefixes with noise one character in 150, except in [`NEEDED`], and changes one stamp of `[   
/// 1.2…` to `[   81.2…`.
fn noisy(line: &mut Line, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for &byte in bytes {
        if !line.message.is_empty() || byte == b'[' && line.is_at_start {
            line.message.push(byte);
        } else {
            damage(line, byte, &mut out);
        }
        line.is_at_start = byte == b'\n';
        if line.is_at_start {
            line.lines += 1;
            let mut message = std::mem::take(&mut line.message);
            if line.lines == 150 && message.get(4) == Some(&b' ') {
                message[4] = b'8';
            }
            match NEEDED.iter().any(|words| message.windows(words.len()).any(|some| some == *words)) {
                true => out.extend(message),
                false => message.iter().for_each(|&byte| damage(line, byte, &mut out)),
            }
        }
    }
    out
}

fn damage(line: &mut Line, byte: u8, out: &mut Vec<u8>) {
    match line.next(450) {
        0 => {}
        1 => out.extend([byte, byte]),
        2 => out.extend([[0xff, 0, 0x80, b'7'][line.next(4) as usize], byte]),
        _ => out.push(byte),
    }
}

/// The recorder's end of the line.
enum End {
    Pty(File),
    /// The connected client, and its answers.
    Server {
        listener: TcpListener,
        client: Option<TcpStream>,
        is_telnet: bool,
        answers: Arc<Mutex<Vec<u8>>>,
    },
}

/// A board that can be switched on, and its line.
struct Board {
    /// The argument of `--serial`.
    serial: String,
    /// The argument of `--power-cycle`.
    power_cycle: String,
    pid_file: PathBuf,
    answers: Arc<Mutex<Vec<u8>>>,
}

impl Board {
    fn new(kernel: &Path, scratch: &Scratch, kind: &str, damage: Damage) -> Board {
        let answers = Arc::new(Mutex::new(Vec::new()));
        let (serial, end) = match kind {
            "pty" => {
                let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
                grantpt(&master).unwrap();
                unlockpt(&master).unwrap();
                rustix::io::ioctl_fionbio(&master, true).unwrap();
                (ptsname(&master, Vec::new()).unwrap().into_string().unwrap(), End::Pty(File::from(master)))
            }
            _ => {
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                let serial = format!("{kind}:127.0.0.1:{}", listener.local_addr().unwrap().port());
                listener.set_nonblocking(true).unwrap();
                let answers = answers.clone();
                (serial, End::Server { listener, client: None, is_telnet: kind == "telnet", answers })
            }
        };
        let socket = scratch.path(&format!("{kind}.socket"));
        let line = UnixListener::bind(&socket).unwrap();
        let on = scratch.path(&format!("{kind}.on"));
        let is_on = on.clone();
        std::thread::spawn(move || carry(&line, end, damage, &is_on));
        let pid_file = scratch.path(&format!("{kind}.pid"));
        let initrd = initrd(scratch.folder(), PROMPTS);
        // The earlier machine goes off, and holds the lock of its file for a moment. The new one is on when QEMU has
        // left the command.
        let power_cycle = format!(
            "rm -f {on}; test -s {pid} && kill -9 $(cat {pid}); rm -f {pid}; echo relay: off, on; qemu-system-x86_64 -daemonize -pidfile {pid} \
             -display none -monitor none -nodefaults -no-reboot -m 256 -accel tcg -kernel {} -initrd {} \
             -append 'console=ttyS0 panic=-1 {CALM}' -chardev socket,id=line,path={} -serial chardev:line && touch {on}",
            kernel.display(),
            initrd.display(),
            socket.display(),
            pid = pid_file.display(),
            on = on.display(),
        );
        Board { serial, power_cycle, pid_file, answers }
    }

    /// `record` of this board.
    fn record(&self, into: &Path) -> Command {
        let mut command = bootscope("record");
        command.args(["--serial", &self.serial, "--power-cycle", &self.power_cycle, "--timeout", "3m", "-o"]).arg(into);
        command
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        // QEMU left its command, so it is not a child of this process.
        if let Ok(pid) = std::fs::read_to_string(&self.pid_file) {
            let _ = Command::new("kill").args(["-9", pid.trim()]).stderr(Stdio::null()).status();
        }
    }
}

/// Forwards the output of each machine that connects, until the test ends.
fn carry(line: &UnixListener, mut end: End, damage: Damage, is_on: &Path) {
    let mut state = Line::default();
    for machine in line.incoming() {
        let Ok(mut machine) = machine else { return };
        // Bytes during the command are not part of the boot.
        end.write(EARLY);
        while !is_on.exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
        // The command has ended by now, or ends a little later.
        std::thread::sleep(Duration::from_millis(200));
        end.write(LOADER);
        let mut buffer = [0; 4096];
        while let Ok(n) = machine.read(&mut buffer) {
            if n == 0 {
                break;
            }
            let bytes = damage(&mut state, &buffer[..n]);
            end.write(&bytes);
        }
    }
}

impl End {
    fn write(&mut self, bytes: &[u8]) {
        match self {
            End::Pty(master) => {
                let mut left = bytes;
                while !left.is_empty() {
                    match master.write(left) {
                        Ok(n) => left = &left[n..],
                        // No recorder reads while no boot is recorded.
                        Err(e) if e.kind() == ErrorKind::WouldBlock => {
                            let wait = Timespec { tv_sec: 1, tv_nsec: 0 };
                            let mut polled = [PollFd::new(&*master, PollFlags::OUT)];
                            if poll(&mut polled, Some(&wait)).unwrap_or(0) == 0 {
                                return;
                            }
                        }
                        Err(_) => return,
                    }
                }
            }
            End::Server { listener, client, is_telnet, answers } => {
                if let Ok((mut new, _)) = listener.accept() {
                    new.set_nonblocking(false).unwrap();
                    if *is_telnet {
                        // WILL ECHO, WILL SUPPRESS-GO-AHEAD, DO NAWS, and an unrequested parameter.
                        new.write_all(b"\xff\xfb\x01\xff\xfb\x03\xff\xfd\x1f\xff\xfa\x18\x01\xff\xf0").unwrap();
                        let mut from = new.try_clone().unwrap();
                        let answers = answers.clone();
                        std::thread::spawn(move || {
                            let mut buffer = [0; 64];
                            while let Ok(n @ 1..) = from.read(&mut buffer) {
                                answers.lock().unwrap().extend_from_slice(&buffer[..n]);
                            }
                        });
                    }
                    *client = Some(new);
                }
                let doubled = |b: &u8| if *is_telnet && *b == 0xff { vec![*b, *b] } else { vec![*b] };
                let sent: Vec<u8> = bytes.iter().flat_map(doubled).collect();
                if client.as_mut().is_some_and(|client| client.write_all(&sent).is_err()) {
                    *client = None;
                }
            }
        }
    }
}

fn names(document: &Value) -> Vec<&str> {
    list(&document["phases"]).iter().map(|phase| text(&phase["name"])).collect()
}

fn start(document: &Value, phase: &str) -> i64 {
    let found = list(&document["phases"]).iter().find(|row| row["name"] == phase);
    ns(&found.unwrap_or_else(|| panic!("no {phase} in {:?}", names(document)))["start_ns"])
}

/// The stamp of a message on the console, in ns.
fn stamp(console: &str, words: &str) -> i64 {
    let messages = console_messages(console);
    let found = messages.iter().find(|(_, text)| text.starts_with(words));
    found.unwrap_or_else(|| panic!("no {words:?} on the console")).0 as i64 * 1000
}

/// Checks that the phases match the kernel's own log, though they are based only on arrival times.
fn assert_boot(into: &Path, what: &str) -> Value {
    let (document, console) = (shown(into), evidence(into, "console.log"));
    let phases = names(&document);
    // Without initcall_debug, initcalls are not separated from the time before them.
    assert_eq!(phases[..3], ["firmware", "loader", KERNEL], "{what}");
    assert!(phases.contains(&"process 1"), "{what}: {phases:?}");
    assert_eq!((&document["time_base"], &document["subject"]["machine"]), (&"host".into(), &"board".into()));
    assert!(document["memory"]["vmm_max_rss_bytes"].is_null(), "a board has no process: {}", document["memory"]);
    // The kernel's own clock has the time of the hand-over. Before the kernel knows its counter, that clock stands
    // still while a busy host delays it. So only the time after that is compared.
    let own = stamp(&console, "Run /init as init process") - stamp(&console, "Freeing unused kernel image (initmem)");
    let found = start(&document, "process 1") - start(&document, "hand-over");
    println!(
        "{what}: {phases:?}, handing over took {:.3} ms by stamps, {:.3} ms found",
        own as f64 / 1e6,
        found as f64 / 1e6
    );
    // On a host that starves the guest, the guest calibrates its counter wrongly, and reports so later.
    match console.contains("timekeeping watchdog") {
        true => println!("{what}: NOT COMPARED: the kernel says itself that its clock is unstable"),
        false => assert!((found - own).abs() <= 20 * MS, "{what}: {found} ns, where the kernel says {own}"),
    }
    // Search bytes: the board's first output is not text.
    let raw = std::fs::read(into.join("console.log")).unwrap();
    let name_position = raw.windows(13).position(|words| words == b"Linux version").unwrap();
    let offset = raw[..name_position].iter().rposition(|&byte| byte == b'\n').unwrap() + 1;
    let arrivals = evidence(into, "console.idx");
    let arrival = arrivals.lines().find_map(|line| line.strip_prefix(&format!("{offset} "))).unwrap();
    // The console starts late, so its first line arrives late too. The kernel begins after the loader, and no later
    // than its clock allows for the time up to process 1.
    let (began, first_line) = (start(&document, KERNEL), arrival.parse::<i64>().unwrap());
    let (own, found) = (stamp(&console, "Run /init as init process"), start(&document, "process 1") - began);
    println!("{what}: began {began} ns, first line {first_line} ns; {own} ns to process 1 by its clock, {found} found");
    assert!(start(&document, "loader") < began && began <= first_line, "{what}: {began} and {first_line} ns");
    assert!(found + 20 * MS >= own, "{what}: {found} ns, where the kernel says {own}");
    let end = &manifest(into)["end"];
    assert!(ns(&document["end"]["at_ns"]) == ns(&end["at_ns"]) && ns(&end["error_ns"]) >= MS, "{what}: {end}");
    document
}

#[test]
fn a_board_is_recorded_through_a_terminal() {
    let Some(kernel) = kernel() else { return };
    let scratch = Scratch::new();
    let board = Board::new(&kernel, &scratch, "pty", intact);
    let into = scratch.path("boot");
    let ran = recorded(board.record(&into).args(["--until", "login:"]), &into, "reached");
    let document = assert_boot(&into, "pty");
    assert!(text(&manifest(&into)["end"]["what"]).contains("board login:"));
    assert_eq!(evidence(&into, "vmm.log"), "relay: off, on\n", "what the command printed is kept");
    assert!(ran.stderr.contains("4 bytes came before --power-cycle had ended"), "{}", ran.stderr);
    assert!(ran.stderr.contains("stamped on arrival") && ran.stderr.contains("pseudo-terminal"), "{}", ran.stderr);
    // The prompt comes after the hand-over, and the time between is the kernel's way to process 1.
    let handed_over = start(&document, "process 1");
    let total = ns(&document["total_ns"]);
    assert!((handed_over..handed_over + 500 * MS).contains(&total), "{total} ns, handed over at {handed_over}");
    // Repeat it with --like, up to the kernel's own end.
    let again = scratch.path("again");
    let mut like = bootscope("record");
    like.arg("--like").arg(&into).args(["--until", "init", "-o"]).arg(&again);
    recorded(&mut like, &again, "reached");
    assert!(text(&manifest(&again)["end"]["what"]).contains("Run /init as init process"));
    run(bootscope("report").arg(&into).arg("-o").arg(scratch.path("a.html"))).exits(0);
}

#[test]
fn a_boot_is_recorded_over_a_line_that_damages_characters() {
    let Some(kernel) = kernel() else { return };
    let scratch = Scratch::new();
    let board = Board::new(&kernel, &scratch, "pty", noisy);
    let into = scratch.path("boot");
    recorded(board.record(&into).args(["--until", "board login: "]), &into, "reached");
    let raw = std::fs::read(into.join("console.log")).unwrap();
    let noise = raw.iter().filter(|b| matches!(b, 0 | 0x80 | 0xff)).count();
    let document = shown(&into);
    let counted: Vec<(&str, i64)> =
        list(&document["diagnostics"]).iter().map(|d| (text(&d["code"]), ns(&d["count"]))).collect();
    println!("{} bytes, {noise} of noise; {counted:?}", raw.len());
    assert!(noise > 10, "the noise is kept");
    let count = |code: &str| counted.iter().find(|(known, _)| *known == code).map_or(0, |(_, count)| *count);
    assert!(count("log-stamp-damaged") > 0 && count("messages-placed-by-arrival") > 0, "{counted:?}");
    // The kernel's clock is still joined: the length is that of a boot over a good line, by the kernel's last good
    // stamp.
    let early = start(&document, KERNEL);
    let total = ns(&document["total_ns"]);
    let messages = console_messages(&String::from_utf8_lossy(&raw));
    let mut stamps: Vec<u64> = messages.iter().map(|(us, _)| *us).collect();
    stamps.sort_unstable();
    let (middle, length) = (stamps[stamps.len() / 2] as i64 * 1000, total - early);
    println!("{length} ns from the kernel's first message on, the middle stamp {middle}");
    // The prompt is not earlier than the kernel's own clock allows, and the kernel does not begin before the line with
    // its name.
    let end = ns(&manifest(&into)["end"]["at_ns"]);
    assert!(middle < length && early > 0 && total == end, "a damaged stamp moved the clock");
    let process_1 = start(&document, "process 1");
    assert!((0..10_000 * MS).contains(&(end - process_1)), "{process_1} ns, and the prompt came at {end}");
}

#[test]
fn a_board_is_recorded_through_terminal_servers() {
    let Some(kernel) = kernel() else { return };
    let scratch = Scratch::new();
    for kind in ["tcp", "telnet"] {
        let board = Board::new(&kernel, &scratch, kind, intact);
        let into = scratch.path(kind);
        recorded(board.record(&into).args(["--until", "login:"]), &into, "reached");
        assert_boot(&into, kind);
        let raw = std::fs::read(into.join("console.log")).unwrap();
        assert!(raw.starts_with(b"\0\xff\xf0~\r\nU-Boot SPL"), "{kind}: {:?}", String::from_utf8_lossy(&raw[..40]));
        if kind == "telnet" {
            let answers = board.answers.lock().unwrap().clone();
            assert_eq!(answers, b"\xff\xfe\x01\xff\xfe\x03\xff\xfc\x1f", "each option is refused once");
        }
    }
}

#[test]
fn a_board_boots_again_and_again_in_a_bench() {
    let Some(kernel) = kernel() else { return };
    let scratch = Scratch::new();
    let board = Board::new(&kernel, &scratch, "tcp", intact);
    let into = scratch.path("bench");
    let mut bench = bootscope("bench");
    bench.args([
        "--serial",
        &board.serial,
        "--power-cycle",
        &board.power_cycle,
        "--until",
        "login:",
        "--timeout",
        "3m",
    ]);
    bench.args(["--runs", "2", "--warm-ups", "0", "--no-history", "--json", "-o"]).arg(&into);
    let document = run(&mut bench).exits(0).json();
    let boots = list(&document["boots"]);
    let totals: Vec<i64> = boots.iter().map(|boot| ns(&boot["total_ns"])).collect();
    println!("{totals:?}");
    assert!(totals.len() == 2 && totals.iter().all(|&total| total > 100 * MS), "{totals:?}");
    assert!(boots.iter().all(|boot| boot["outcome"] == "reached"), "{boots:?}");
}

/// A server that sends these words, and then stays silent or closes.
fn line_server(words: &'static [u8], stays: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let serial = format!("tcp:127.0.0.1:{}", listener.local_addr().unwrap().port());
    std::thread::spawn(move || {
        let Ok((mut client, _)) = listener.accept() else { return };
        let _ = client.write_all(words);
        while stays && client.read(&mut [0; 16]).is_ok_and(|n| n > 0) {}
    });
    serial
}

#[test]
fn each_failure_of_a_board_is_an_outcome() {
    let scratch = Scratch::new();
    let record = |name: &str, serial: &str, more: &[&str]| {
        let into = scratch.path(name);
        let mut command = bootscope("record");
        command.args(["--serial", serial, "--until", "login:", "-o"]).arg(&into).args(more);
        let ran = run(&mut command).exits(1);
        (manifest(&into)["outcome"].clone(), ran.stderr)
    };
    let (outcome, stderr) = record("silent", &line_server(b"U-Boot 2024.01\r\n=> ", true), &["--hang-after", "2s"]);
    assert_eq!(outcome["kind"], "hang", "{stderr}");
    assert!(
        text(&outcome["detail"]).contains("the board said nothing for") && stderr.contains("switch the board on"),
        "{stderr}"
    );
    let (outcome, stderr) = record("gone", &line_server(b"U-Boot 2024.01\r\n", false), &[]);
    assert_eq!(outcome["kind"], "line-lost", "{stderr}");
    assert!(text(&outcome["detail"]).contains("closed the connection"), "{outcome}");
    let (outcome, _) = record("late", &line_server(b"U-Boot 2024.01\r\n=> ", true), &["--timeout", "1s"]);
    assert_eq!(outcome["kind"], "timeout");
    let panic: &[u8] = b"[    1.000000] Kernel panic - not syncing: VFS\r\n[    1.100000] ---[ end Kernel panic - not syncing: VFS ]---\r\n";
    let (outcome, _) = record("panic", &line_server(panic, true), &[]);
    assert_eq!(outcome["kind"], "panic");
    // Any bytes on the line are kept completely.
    let odd: &[u8] = b"\xff\xfe\0\0\x1b[2J\xc3\x28 no newline for long \r\r\r\0";
    let (outcome, _) = record("odd", &line_server(odd, false), &[]);
    assert_eq!(outcome["kind"], "line-lost");
    assert_eq!(std::fs::read(scratch.path("odd").join("console.log")).unwrap(), odd);
    shown(&scratch.path("odd"));
}

#[test]
fn unfit_boards_are_refused() {
    let scratch = Scratch::new();
    let refused = |arguments: &[&str], words: &[&str]| {
        let into = scratch.path("refused");
        let mut command = bootscope("record");
        run(command.args(arguments).arg("-o").arg(&into)).refuses(words);
        assert!(!into.exists(), "{arguments:?} leaves nothing behind");
    };
    let tcp = "tcp:127.0.0.1:1";
    refused(&["--serial", "/dev/nonexistent"], &["/dev/nonexistent is not there", "ls /dev/serial/by-id"]);
    refused(&["--serial", "/dev/null"], &["/dev/null is no serial port"]);
    refused(&["--serial", "tcp:lab"], &["tcp:lab is no port", "tcp:HOST:PORT"]);
    refused(&["--serial", tcp], &["cannot connect to 127.0.0.1:1", "ser2net"]);
    refused(&["--serial", tcp, "--kernel", "vmlinuz"], &["--kernel does not go with --serial", "install the kernel"]);
    refused(&["--serial", tcp, "--init", "keep"], &["--init does not go with --serial"]);
    refused(&["--serial", tcp, "--deterministic"], &["--deterministic does not go with --serial", "bootscope bench"]);
    refused(&["--serial", tcp, "--trace", "calls"], &["--trace calls does not go with --serial"]);
    refused(&["--serial", tcp, "--memory", "1G"], &["--memory does not go with --serial"]);
    refused(&["--serial", tcp, "--until", "power-off"], &["--until", "'login:'"]);
    refused(&["--serial", tcp, "--baud", "0"], &["--baud is 0"]);
    refused(&["--baud", "9600", "--disk", "a.img"], &["--serial /dev/ttyUSB0"]);
    run(bootscope("bench").args(["--serial", tcp, "--runs", "3"])).refuses(&["--power-cycle"]);
    // A failing command is reported, and no boot is recorded.
    let serial = line_server(b"", true);
    refused(
        &["--serial", &serial, "--power-cycle", "echo relay 7 does not answer >&2; exit 4"],
        &["the board was not switched on", "exit status: 4", "relay 7 does not answer"],
    );
    let free = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&free).unwrap();
    unlockpt(&free).unwrap();
    let name = ptsname(&free, Vec::new()).unwrap().into_string().unwrap();
    let user = File::options().read(true).write(true).open(&name).unwrap();
    rustix::fs::flock(&user, rustix::fs::FlockOperation::LockExclusive).unwrap();
    refused(&["--serial", &name], &["in use by another program", "fuser"]);
}
