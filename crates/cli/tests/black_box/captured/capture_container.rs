//! `bootscope capture` in containers on this machine: with systemd as process 1, and without.
//!
//! A container can often read its host's kernel log. The capture must have the container's boot, and equal what the
//! host sees of it.

use crate::support::boots::Scratch;
use crate::support::{list, ns, run, shown, skip, text};
use serde_json::Value;
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const MS: i64 = 1_000_000;
const KNOWN: &str = "[Unit]\nAfter=basic.target\n[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sleep 0.7\n\
                     [Install]\nWantedBy=multi-user.target\n";
const STAYS: &str =
    "[Unit]\nAfter=known.service\n[Service]\nExecStart=/bin/sleep 1000\n[Install]\nWantedBy=multi-user.target\n";
/// The longest time for the start or the stop of a container.
const MAX_WAIT: Duration = Duration::from_secs(90);

/// The static program, which runs in any container.
fn program() -> Option<PathBuf> {
    let lib = std::env::var_os("BOOTSCOPE_LIB").map(|lib| Path::new(&lib).join("bootscope-capture"));
    let program = lib.filter(|program| program.is_file());
    if program.is_none() {
        skip("BOOTSCOPE_LIB has no bootscope-capture");
    }
    program
}

/// A Debian that contains the program.
fn root(scratch: &Scratch) -> Option<PathBuf> {
    let program = program()?;
    let made = run(&mut Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/make-rootfs")));
    if made.status == 77 {
        skip(&made.stderr.replace('\n', " "));
        return None;
    }
    let archive = made.exits(0).text().trim().to_owned();
    let root = scratch.path("root");
    fs::create_dir_all(&root).unwrap();
    let unpack = "cpio --extract --make-directories --quiet";
    let mut command = Command::new("sh");
    command.args(["-c", unpack]).current_dir(&root).stdin(fs::File::open(archive).unwrap());
    let unpacked = run(&mut command);
    if unpacked.status != 0 {
        skip(&format!("the root file system cannot be unpacked: {}", unpacked.stderr.replace('\n', " ")));
        return None;
    }
    fs::copy(program, root.join("bootscope-capture")).unwrap();
    run(Command::new("chmod").arg("755").arg(root.join("bootscope-capture"))).exits(0);
    Some(root)
}

/// Ticks of 10 ms since this machine booted.
fn now_ticks() -> i64 {
    let uptime = fs::read_to_string("/proc/uptime").unwrap();
    let (seconds, rest) = uptime.split_once('.').unwrap();
    seconds.parse::<i64>().unwrap() * 100 + rest[..2].parse::<i64>().unwrap()
}

/// A field of `/proc/PID/stat`, counted from the one after the name.
fn stat(pid: u32, field: usize) -> Option<i64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(field)?.parse().ok()
}

const PARENT: usize = 1;
const START: usize = 19;

/// The process numbers of a process's children on this machine.
fn children(parent: u32) -> Vec<u32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| stat(*pid, PARENT) == Some(i64::from(parent))).collect()
}

/// A running container, ended with its test.
struct Container {
    manager: Child,
    /// Its process 1, by its number on this machine.
    init: Option<u32>,
}

impl Container {
    /// A command inside the container, in all of its namespaces.
    fn inside(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.init.expect("it runs").to_string(), "-m", "-u", "-i", "-n", "-p", "-r", "--"]);
        command
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // All of a container ends with its process 1.
        if let Some(init) = self.init {
            let _ = Command::new("kill").args(["-KILL", &init.to_string()]).stderr(Stdio::null()).status();
        } else {
            let _ = self.manager.kill();
        }
        let _ = self.manager.wait();
    }
}

/// Boots a Debian in a container, and returns when the host is notified that it is ready.
fn booted(root: &Path, scratch: &Scratch) -> Option<(Container, i64)> {
    let socket = scratch.path("notify");
    let hears = UnixDatagram::bind(&socket).unwrap();
    hears.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let name = format!("bootscope-test-{}", std::process::id());
    let mut command = Command::new("systemd-nspawn");
    command.args([
        "--boot",
        "--register=no",
        "--notify-ready=yes",
        "--console=pipe",
        "--private-network",
        "-M",
        &name,
        "-D",
    ]);
    command.arg(root).args(["--resolv-conf=off", "--timezone=off"]);
    if !Path::new("/run/systemd/system").is_dir() {
        command.arg("--keep-unit");
    }
    let log = fs::File::create(scratch.path("nspawn.log")).unwrap();
    command.env("NOTIFY_SOCKET", &socket).stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
    let manager = match command.spawn() {
        Ok(manager) => manager,
        Err(e) => {
            skip(&format!("systemd-nspawn: {e} (apt-get install systemd-container)"));
            return None;
        }
    };
    let mut container = Container { manager, init: None };
    let begun = Instant::now();
    let mut buffer = [0; 4096];
    loop {
        if let Ok(length) = hears.recv(&mut buffer) {
            if String::from_utf8_lossy(&buffer[..length]).lines().any(|line| line == "READY=1") {
                break;
            }
        }
        if container.manager.try_wait().unwrap().is_some() || begun.elapsed() > MAX_WAIT {
            let log = fs::read_to_string(scratch.path("nspawn.log")).unwrap_or_default();
            skip(&format!("no container with systemd starts here: {}", log.replace('\n', " ")));
            return None;
        }
    }
    let ready = now_ticks();
    let is_init = |pid: &u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.lines().any(|line| line.starts_with("NSpid:") && line.ends_with("\t1"))
    };
    container.init = children(container.manager.id()).into_iter().find(is_init);
    assert!(container.init.is_some(), "the container's process 1 is a child of its manager");
    Some((container, ready))
}

fn starts(document: &Value) -> Vec<(i64, i64)> {
    list(&document["processes"]).iter().map(|process| (ns(&process["pid"]), ns(&process["start_ns"]))).collect()
}

#[test]
fn a_container_with_systemd_has_its_own_boot() {
    let scratch = Scratch::new();
    let Some(root) = root(&scratch) else { return };
    let wants = root.join("etc/systemd/system/multi-user.target.wants");
    fs::create_dir_all(&wants).unwrap();
    for (name, content) in [("known.service", KNOWN), ("stays.service", STAYS)] {
        fs::write(root.join("etc/systemd/system").join(name), content).unwrap();
        std::os::unix::fs::symlink(format!("../{name}"), wants.join(name)).unwrap();
    }
    let Some((container, ready)) = booted(&root, &scratch) else { return };
    let (begun, called) = (Instant::now(), now_ticks());
    let stderr = run(container.inside().args(["/bootscope-capture", "-o", "/root/here.tar.zst"])).exits(0).stderr;
    println!("{} ms, {}", begun.elapsed().as_millis(), stderr.trim());
    assert!(stderr.contains("this is a container (systemd-nspawn)") && stderr.contains("kernel log"), "{stderr}");
    let document = shown(&root.join("root/here.tar.zst"));

    // The capture has nothing of the host's boot.
    let phases: Vec<&str> = list(&document["phases"]).iter().map(|phase| text(&phase["name"])).collect();
    assert!(!phases.is_empty() && phases.iter().all(|phase| phase.starts_with("user space")), "{phases:?}");
    assert_eq!(text(&document["end"]["code"]), "systemd-finished");
    assert_eq!(text(&document["subject"]["machine"]), "a container (systemd-nspawn)");

    // The host's view: the start of each process, and the notification that the container is ready.
    let inside = starts(&document);
    let init = container.init.expect("it runs");
    let (first, first_seen) = (inside.iter().find(|(pid, _)| *pid == 1).unwrap().1, stat(init, START).unwrap());
    let mut compared = 0;
    for pid in children(init) {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let own = status.lines().find_map(|line| line.strip_prefix("NSpid:")?.rsplit('\t').next()?.parse::<i64>().ok());
        let Some((own, seen)) = own.zip(stat(pid, START)) else { continue };
        if let Some((_, start)) = inside.iter().find(|(pid, _)| *pid == own) {
            assert_eq!((start - first) / (10 * MS), seen - first_seen, "process {own}");
            compared += 1;
        }
    }
    assert!(compared >= 2, "{inside:?}");
    // The boot ended after the sleeping service, and before the capture. The time of the notification depends on the
    // host's load. The start and the call are both rounded down to ticks.
    let units = list(&document["units"]);
    let known = units.iter().find(|unit| text(&unit["name"]) == "known.service").expect("it was started");
    let (started, settled, end) = (ns(&known["start_ns"]), ns(&known["settled_ns"]), ns(&document["end"]["at_ns"]));
    let (notified, called) = (ready - first_seen, called - first_seen);
    println!(
        "{compared} processes; slept {} ms; ready after {} ms by the container, {notified} ticks by the host, captured after {called}",
        (settled - started) / MS,
        (end - first) / MS
    );
    assert!(settled - started >= 700 * MS, "{started} to {settled} ns");
    assert!(end >= settled && end - first < (called + 2) * 10 * MS, "{settled}, {end} from {first} ns, {called} ticks");
}

#[test]
fn a_container_without_systemd_reports_missing_evidence() {
    let scratch = Scratch::new();
    let Some(root) = root(&scratch) else { return };
    let inside = "sleep 0.3; sleep 30 & /bootscope-capture -o /root/here.tar.zst";
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--mount-proc", "--mount", "--uts"]).arg(format!("--root={}", root.display()));
    let ran = run(command.args(["sh", "-c", &format!("{inside}; exit $?")]));
    if ran.status != 0 && ran.stderr.contains("unshare") {
        return skip(&ran.stderr.replace('\n', " "));
    }
    let stderr = ran.exits(0).stderr;
    for words in ["kernel log", "this is a container", "process 1 is not systemd but \"sh\"", "not read: journal"] {
        assert!(stderr.contains(words), "{words}: {stderr}");
    }
    let document = shown(&root.join("root/here.tar.zst"));
    assert_eq!(list(&document["phases"]).len(), 0, "{}", document["phases"]);
    // Starts count from that of the container, not of the host.
    let starts = starts(&document);
    assert!(starts.len() >= 2 && starts.iter().any(|(pid, start)| (*pid, *start) == (1, 0)), "{starts:?}");
    assert!(starts.iter().all(|(_, start)| (0..60_000 * MS).contains(start)), "{starts:?}");
    assert!(starts.iter().any(|(_, start)| *start >= 300 * MS), "{starts:?}");
}
