//! Recording that is stopped: by `kill -9` at any moment, and by Ctrl-C. What was heard can be read, and no QEMU is left.
//!
//! `BOOTSCOPE_TEST_KILLS` says how often to kill, at random moments; 10 times where it does not.

mod support;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};
use support::boots::{CALM, Scratch, console_messages, kernel, manifest, messages, record};
use support::{assert_adds_up, bootscope, fixture, ran, run, shown};

/// How long a QEMU may outlive us.
const GRACE: Duration = Duration::from_secs(10);

/// A boot under way, whose QEMU is known by a name that no other has.
struct Boot {
    child: Child,
    name: String,
}

fn begin(kernel: &Path, into: &Path, number: u64) -> Boot {
    let name = format!("bootscope-test-{}-{number}", std::process::id());
    let mut command = record(kernel, into);
    let append = format!("ignore_loglevel {CALM}");
    command.args(["--append", &append, "--", "-name", &name]).stdout(Stdio::null()).stderr(Stdio::piped());
    Boot { child: command.spawn().unwrap(), name }
}

/// The QEMUs of that name that are alive: a killed one stays a process until it is waited for.
fn alive(name: &str) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().filter_map(|entry| Some(entry.ok()?.path()));
    let ours = processes.filter(|process| {
        let named = fs::read(process.join("cmdline")).is_ok_and(|line| contains(&line, name.as_bytes()));
        let state = fs::read_to_string(process.join("stat")).unwrap_or_default();
        let dead = state.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']));
        named && !dead && fs::read_link(process.join("exe")).is_ok_and(|exe| exe.to_string_lossy().contains("qemu"))
    });
    ours.map(|process| process.display().to_string()).collect()
}

fn contains(bytes: &[u8], word: &[u8]) -> bool {
    bytes.windows(word.len()).any(|window| window == word)
}

#[track_caller]
fn assert_no_qemu(name: &str) {
    let killed = Instant::now();
    while !alive(name).is_empty() {
        assert!(killed.elapsed() < GRACE, "QEMU outlived us: {:?}", alive(name));
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_kill_at_any_moment_leaves_a_recording_and_no_qemu() {
    let Some(kernel) = kernel() else { return };
    let scratch = Scratch::new();
    // A boot in peace tells how long one takes here: kills are spread over all of it, and a little more.
    let began = Instant::now();
    let mut boot = begin(&kernel, &scratch.path("whole"), 0);
    assert!(boot.child.wait().unwrap().success());
    let whole = began.elapsed().mul_f64(1.05);

    let kills = std::env::var("BOOTSCOPE_TEST_KILLS").ok().map_or(10, |kills| kills.parse().unwrap());
    let mut random = Random::new();
    println!("{kills} kills within {whole:?}, random numbers from {}", random.0);
    let (mut read, mut evidence_bytes) = (0, 0);
    for number in 1..=kills {
        let at = whole.mul_f64(random.share());
        let into = scratch.path(&format!("killed-{number}"));
        let mut boot = begin(&kernel, &into, number);
        std::thread::sleep(at);
        boot.child.kill().unwrap();
        boot.child.wait().unwrap();
        assert_no_qemu(&boot.name);
        if into.exists() {
            read += 1;
            evidence_bytes += assert_readable(&into, at);
            // What is left can be replaced, or it would be in the way.
            let log = fixture("log/linux-6.1-serial.log");
            run(bootscope("import").arg(log).arg("--force").arg("-o").arg(&into)).exits(0);
            fs::remove_dir_all(&into).unwrap();
        } else {
            assert!(at < whole / 2, "killed after {at:?}, and there is no folder");
        }
    }
    println!("{read} recordings of {kills} kills were begun, all can be read; {evidence_bytes} bytes of evidence");
    assert!(read * 2 >= kills, "most kills were too early: {read} of {kills}");
}

/// `show` reads it, and packing and exporting do. How much evidence is in it.
fn assert_readable(into: &Path, at: Duration) -> u64 {
    let files = fs::read_dir(into).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len());
    let bytes = files.sum();
    let show = run(bootscope("show").arg("--json").arg(into));
    // A folder that was made, and nothing put into it yet, is no recording.
    if bytes == 0 {
        show.refuses(&["neither a recording folder nor"]);
        return 0;
    }
    let document = show.exits(0).json();
    assert_adds_up(&document);
    let outcome = &document["outcome"];
    assert!(outcome == "running" || outcome == "reached", "{outcome} after {at:?}");
    run(bootscope("export").args(["--to", "folded"]).arg(into)).exits(0);
    bytes
}

#[test]
fn ctrl_c_ends_the_boot_and_keeps_what_was_heard() {
    let Some(kernel) = kernel() else { return };
    for signal in ["INT", "TERM"] {
        let scratch = Scratch::new();
        let into = scratch.path("boot");
        let boot = begin(&kernel, &into, 0);
        wait_for(|| fs::read_to_string(into.join("console.log")).is_ok_and(|log| log.contains("Linux version")));
        let pid = boot.child.id().to_string();
        assert!(Command::new("sh").args(["-c", &format!("kill -{signal} {pid}")]).status().unwrap().success());
        let ended = ran(boot.child.wait_with_output().unwrap(), format!("record, SIG{signal}")).exits(1);
        assert!(ended.stderr.contains("interrupted"), "{}", ended.stderr);
        assert_no_qemu(&boot.name);
        let manifest = manifest(&into);
        assert_eq!((&manifest["state"], &manifest["outcome"]["kind"]), (&"finished".into(), &"interrupted".into()));
        let document = shown(&into);
        assert_eq!(document["outcome"], "interrupted");
        assert!(into.join("registers.txt").is_file(), "where the CPUs stood");
        let memory = messages(&support::boots::evidence(&into, "kmsg-memory.log"));
        assert!(memory.iter().any(|(_, text)| text.starts_with("Linux version")), "{memory:?}");
    }
}

#[test]
fn a_qemu_that_dies_leaves_its_guests_kernel_log() {
    let Some(kernel) = kernel() else { return };
    let scratch = Scratch::new();
    let into = scratch.path("boot");
    let boot = begin(&kernel, &into, 0);
    wait_for(|| fs::read_to_string(into.join("console.log")).is_ok_and(|log| log.contains("clocksource: Switched")));
    let [qemu] = &alive(&boot.name)[..] else { panic!("{:?}", alive(&boot.name)) };
    let pid = qemu.trim_start_matches("/proc/");
    assert!(Command::new("sh").args(["-c", &format!("kill -KILL {pid}")]).status().unwrap().success());
    let ended = ran(boot.child.wait_with_output().unwrap(), "record".to_owned()).exits(1);
    assert!(ended.stderr.contains("vmm-failed") && ended.stderr.contains("signal: 9"), "{}", ended.stderr);
    assert_eq!(shown(&into)["outcome"], "vmm-failed");
    // It was killed between two bytes of the console: the log in memory has at least what the console says.
    let [memory, console] = ["kmsg-memory.log", "console.log"].map(|name| support::boots::evidence(&into, name));
    let (memory, console) = (messages(&memory), console_messages(&console));
    assert!(console.len() > 100 && memory.len() >= console.len(), "{} {}", console.len(), memory.len());
}

#[test]
fn two_recorders_do_not_share_a_folder() {
    let Some(kernel) = kernel() else { return };
    let scratch = Scratch::new();
    let into = scratch.path("boot");
    let mut boot = begin(&kernel, &into, 0);
    wait_for(|| into.join("recording.json").exists());
    run(record(&kernel, &into).arg("--force")).refuses(&["being recorded into"]);
    assert!(boot.child.wait().unwrap().success(), "the first one is not disturbed");
    assert_eq!(shown(&into)["outcome"], "reached");
}

fn wait_for(condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < Duration::from_secs(300), "waited in vain");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Random numbers (xorshift64) from the time of day: each run kills at other moments.
struct Random(u64);

impl Random {
    fn new() -> Random {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        Random(u64::try_from(now.as_nanos()).unwrap() | 1)
    }

    /// In 0 to 1.
    fn share(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 as f64 / u64::MAX as f64
    }
}
