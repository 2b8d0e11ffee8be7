//! The kernel logs of real kernels, read out of QEMU's guest RAM, compared with the output of the same kernels on their consoles.
//!
//! Needs QEMU and `BOOTSCOPE_TEST_KERNEL`, the path of a stock x86-64 bzImage (several, with `:` between them); without either it prints
//! why nothing was tested. The kernels get no initrd, and panic because they have no root.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use machine::memory::{GuestRam, KernelLog, LogError, LogProbe, Method, Record, TraceImage, kernel_log};
use machine::ram_extents;

const QEMU: &str = "qemu-system-x86_64";
const MAX_BOOT_TIME: Duration = Duration::from_secs(300);

/// A guest with its RAM in a file on tmpfs, and QEMU's monitor.
struct Guest {
    folder: tempfile::TempDir,
    qemu: Child,
    monitor: (ChildStdin, ChildStdout),
    ram: GuestRam,
}

impl Guest {
    /// Powers on with the CPUs stopped.
    fn new(kernel: &Path, append: &str, machine: &[&str]) -> Guest {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let (ram, console) = (folder.path().join("ram"), folder.path().join("console"));
        let memory = machine.iter().skip_while(|word| **word != "-m").nth(1).expect("-m is given");
        let mut qemu = Command::new(QEMU)
            .args(["-S", "-nodefaults", "-display", "none", "-no-reboot", "-monitor", "stdio"])
            .args(machine)
            .arg("-serial")
            .arg(format!("file:{}", console.display()))
            .arg("-object")
            .arg(format!("memory-backend-file,id=ram,share=on,size={memory},mem-path={}", ram.display()))
            .arg("-kernel")
            .arg(kernel)
            .arg("-append")
            .arg(format!("console=ttyS0 no_timer_check {append}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut monitor = (qemu.stdin.take().unwrap(), qemu.stdout.take().unwrap());
        until_prompt(&mut monitor.1);
        let mtree = say(&mut monitor, "info mtree -f");
        let ram = GuestRam::new(File::open(ram).unwrap(), ram_extents(&mtree, "ram").unwrap()).unwrap();
        Guest { folder, qemu, monitor, ram }
    }

    fn say(&mut self, command: &str) -> String {
        say(&mut self.monitor, command)
    }

    /// Runs the guest until it has begun to print, then for a moment at a time until it has a log. Stops the guest, and returns that log.
    fn early_log(&mut self) -> KernelLog {
        let start = Instant::now();
        self.say("cont");
        // A search before that would only take the host's CPUs away from the guest.
        while !self.console().contains("Linux version") {
            assert!(start.elapsed() < MAX_BOOT_TIME, "nothing on the console: {:?}", self.console());
            std::thread::sleep(Duration::from_millis(5));
        }
        loop {
            self.say("stop");
            match kernel_log(&self.ram) {
                Ok(log) if log.records.len() > 50 => return log,
                Ok(_) | Err(LogError::NotFound { .. }) => assert!(start.elapsed() < MAX_BOOT_TIME, "no log in memory"),
                Err(error) => panic!("{error}"),
            }
            self.say("cont");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The log of the running guest, after it has panicked and logs nothing more.
    fn last_log(&mut self) -> KernelLog {
        self.say("cont");
        let start = Instant::now();
        let mut newest = None;
        loop {
            std::thread::sleep(Duration::from_millis(300));
            assert!(start.elapsed() < MAX_BOOT_TIME, "no panic; newest record {newest:?}");
            let Ok(probe) = LogProbe::find(&self.ram) else { continue };
            let Ok(log) = probe.read(&self.ram) else { continue };
            let before = std::mem::replace(&mut newest, probe.newest_seq(&self.ram).unwrap());
            if log.last_words().panic.is_some() && before == newest {
                assert_eq!(newest, log.records.last().map(|record| record.seq));
                return log;
            }
        }
    }

    fn console(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.folder.path().join("console")).unwrap()).replace('\r', "")
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}

fn say(monitor: &mut (ChildStdin, ChildStdout), command: &str) -> String {
    writeln!(monitor.0, "{command}").unwrap();
    until_prompt(&mut monitor.1)
}

fn until_prompt(output: &mut ChildStdout) -> String {
    let mut text = Vec::new();
    while !text.ends_with(b"\n(qemu) ") {
        let mut byte = [0];
        assert_eq!(output.read(&mut byte).unwrap(), 1, "QEMU ended: {}", String::from_utf8_lossy(&text));
        text.push(byte[0]);
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// The kernels to test with; prints why if there are no kernels.
fn kernels() -> Vec<PathBuf> {
    let Ok(paths) = std::env::var("BOOTSCOPE_TEST_KERNEL") else {
        println!("skipped: BOOTSCOPE_TEST_KERNEL names no kernel");
        return Vec::new();
    };
    if Command::new(QEMU).arg("--version").output().is_err() {
        println!("skipped: no {QEMU} (Debian's package is qemu-system-x86)");
        return Vec::new();
    }
    paths.split(':').map(PathBuf::from).collect()
}

/// The lines of a record as the kernel's console driver writes them.
fn console_lines(record: &Record) -> Vec<String> {
    let (seconds, micros) = (record.ts_ns / 1_000_000_000, record.ts_ns / 1000 % 1_000_000);
    let text = String::from_utf8_lossy(&record.text);
    text.split('\n').map(|line| format!("[{seconds:5}.{micros:06}] {line}")).collect()
}

/// A text without the parts that differ from boot to boot: numbers and addresses.
fn without_numbers(record: &Record) -> String {
    let text = String::from_utf8_lossy(&record.text).into_owned();
    let words =
        text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.contains(|c: char| c.is_ascii_digit()));
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Boots verbosely. Reads the log early, by its shape, and after the panic; both must equal the console's output. Returns the late one.
fn check_verbose(kernel: &Path, append: &str, machine: &[&str]) -> KernelLog {
    let mut guest = Guest::new(kernel, append, machine);
    let early = guest.early_log();
    let late = guest.last_log();
    let console = guest.console();
    println!("{} {append} {machine:?}", kernel.display());
    println!(
        "  early {:?} {} records, late {:?} {} records",
        early.method,
        early.records.len(),
        late.method,
        late.records.len()
    );
    assert_eq!((early.method, late.method), (Method::Scan, Method::Vmcoreinfo));
    assert!(!early.records.is_empty() && early.records.len() < late.records.len());
    assert_eq!(early.records, late.records[..early.records.len()]);
    assert_eq!(early.left_out.damaged + late.left_out.damaged, 0);
    assert_eq!(late.left_out.before, 0);
    let numbers: Vec<u64> = late.records.iter().map(|record| record.seq).collect();
    assert_eq!(numbers, (0..late.records.len() as u64).collect::<Vec<_>>());
    let printed: Vec<&str> = console.lines().filter(|line| line.starts_with('[')).collect();
    let read: Vec<String> = late.records.iter().filter(|r| r.level < 7).flat_map(console_lines).collect();
    assert_eq!(read, printed);
    late
}

/// Boots quietly, with KASLR: the log has the messages that the console does not print.
fn check_quiet(kernel: &Path, verbose: &KernelLog, machine: &[&str]) {
    let mut guest = Guest::new(kernel, "quiet", machine);
    let log = guest.last_log();
    let console = guest.console();
    assert!(!console.contains("Linux version"), "not quiet: {console}");
    let words = log.last_words();
    assert!(words.panic.unwrap().text.starts_with(b"Kernel panic - not syncing: VFS: Unable to mount root"));
    let texts =
        |log: &KernelLog| log.records.iter().map(without_numbers).filter(|text| is_same_in_any_boot(text)).collect();
    let (quiet, verbose): (BTreeSet<_>, BTreeSet<_>) = (texts(&log), texts(verbose));
    let differ: Vec<_> = quiet.symmetric_difference(&verbose).collect();
    println!("  quiet: {} records, {} kinds of text, not in both boots: {differ:?}", log.records.len(), quiet.len());
    assert!(differ.len() * 50 <= verbose.len(), "{differ:#?}");
}

/// The command line differs on purpose, and messages about clocks depend on how busy the host is.
fn is_same_in_any_boot(text: &str) -> bool {
    let text = text.to_lowercase();
    !["command line", "clock", "tsc"].iter().any(|word| text.contains(word))
}

#[test]
#[ignore = "11 s: in make test-all"]
fn a_log_in_memory_is_what_the_console_says() {
    for kernel in kernels() {
        let verbose = check_verbose(&kernel, "", &["-machine", "pc,memory-backend=ram", "-m", "256M"]);
        check_quiet(&kernel, &verbose, &["-machine", "pc,memory-backend=ram", "-m", "256M"]);
    }
}

#[test]
#[ignore = "11 s: in make test-all"]
fn a_log_moved_to_the_direct_map_with_five_level_tables_and_two_cpus() {
    for kernel in kernels() {
        let machine = ["-machine", "q35,memory-backend=ram", "-m", "4G", "-cpu", "max", "-smp", "2"];
        check_verbose(&kernel, "log_buf_len=4M", &machine);
    }
}

/// The kernel's log and its trace must have the same initcalls in the same order, and the same messages.
#[test]
#[ignore = "24 s: in make test-all"]
fn a_trace_in_memory_has_what_the_log_has() {
    for kernel in kernels() {
        let image = TraceImage::of(&std::fs::read(&kernel).unwrap()).unwrap_or_else(|why| panic!("{kernel:?}: {why}"));
        for (size, is_whole) in [("8M", true), ("64k", false)] {
            let machine = ["-machine", "pc,memory-backend=ram", "-m", "512M", "-smp", "2"];
            let events = "trace_event=initcall:*,sched:*,printk:console trace_clock=x86-tsc";
            let mut guest =
                Guest::new(&kernel, &format!("quiet initcall_debug {events} trace_buf_size={size}"), &machine);
            let log = guest.last_log();
            guest.say("stop");
            let trace = image.read(&guest.ram).unwrap_or_else(|why| panic!("{kernel:?}: {why}"));
            let text = String::from_utf8(trace.text).unwrap();
            assert!(trace.clock.ends_with("[x86-tsc]\n"), "{:?}", trace.clock);
            assert_eq!(trace.overwritten == 0, is_whole, "{kernel:?} {size}: {}", trace.overwritten);
            assert_eq!(text.contains("[LOST "), !is_whole);
            let lines: Vec<&str> =
                text.lines().filter(|line| !line.starts_with('#') && !line.contains("[LOST ")).collect();
            let stamp = |line: &str| -> u64 {
                let before = line.split(": ").next().and_then(|before| before.split_whitespace().last());
                before.and_then(|stamp| stamp.trim_end_matches(':').parse().ok()).unwrap_or_else(|| panic!("{line}"))
            };
            assert!(lines.windows(2).all(|pair| stamp(pair[0]) <= stamp(pair[1])), "{kernel:?}: not in order of time");
            assert!(!text.contains("records of kinds") && !text.contains("contradict"), "{kernel:?}: {text}");
            let after =
                |key: &str| lines.iter().filter_map(|line| Some(line.split_once(key)?.1)).collect::<Vec<&str>>();
            let logged_after = |key: &str| -> Vec<String> {
                let texts = log.records.iter().map(|record| String::from_utf8_lossy(&record.text).into_owned());
                texts.filter_map(|text| Some(text.strip_prefix(key)?.split(['+', ' ']).next()?.to_owned())).collect()
            };
            let called = logged_after("calling  ");
            let traced: Vec<&str> =
                after(": initcall_start: func=").iter().filter_map(|text| text.split('+').next()).collect();
            assert!(called.len() > 300, "{kernel:?}: {} initcalls", called.len());
            // The log also has the initcalls that ran before the trace; the trace also has those of the console, which the log does not
            // have.
            let common: Vec<&str> =
                traced.iter().copied().filter(|name| called.iter().any(|known| known == name)).collect();
            if is_whole {
                assert_eq!(common, called, "{kernel:?}");
            } else {
                // One CPU's buffer may go back further than the other's, so there can be a gap.
                let mut ahead = called.iter();
                assert!(common.iter().all(|name| ahead.any(|known| known == name)), "{kernel:?}: {common:?}");
                assert_eq!(common.last().copied(), called.last().map(String::as_str), "{kernel:?}");
            }
            let switches = after(": sched_switch: ");
            assert!(
                switches.iter().any(|text| text.contains("prev_comm=swapper/0 prev_pid=1 prev_prio=120 prev_state=")),
                "{kernel:?}"
            );
            assert!(switches.iter().all(|text| text.contains(" ==> next_comm=")), "{kernel:?}");
            let traced_messages = after(": console: ");
            let logged: Vec<String> =
                log.records.iter().map(|r| String::from_utf8_lossy(&r.text).into_owned()).collect();
            // Kernels before 5.11 put printk's stamp in front.
            let known =
                traced_messages.iter().filter(|text| logged.iter().any(|line| text.ends_with(line.as_str()))).count();
            assert!(
                known * 100 >= traced_messages.len() * 95 && known > 10,
                "{kernel:?}: {known} of {}",
                traced_messages.len()
            );
        }
    }
}
