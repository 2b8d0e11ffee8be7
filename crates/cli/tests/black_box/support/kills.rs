//! Kills processes at random moments: recorders, and the QEMUs that they started.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

/// The longest time for which a QEMU may outlive its recorder.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// The running QEMUs of that name. A killed process still exists until its parent waits for it.
pub fn alive(name: &str) -> Vec<String> {
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
pub fn assert_no_qemu(name: &str) {
    let killed = Instant::now();
    while !alive(name).is_empty() {
        assert!(killed.elapsed() < MAX_WAIT, "QEMU outlived us: {:?}", alive(name));
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Kills the one QEMU of that name, as in a crash.
#[track_caller]
pub fn kill_qemu(name: &str) {
    let alive = alive(name);
    let [qemu] = &alive[..] else { panic!("{alive:?}") };
    let pid = qemu.trim_start_matches("/proc/");
    assert!(Command::new("sh").args(["-c", &format!("kill -KILL {pid}")]).status().unwrap().success());
}

/// The number of kills: `BOOTSCOPE_TEST_KILLS`, or a default.
pub fn kills(otherwise: u64) -> u64 {
    std::env::var("BOOTSCOPE_TEST_KILLS").ok().map_or(otherwise, |kills| kills.parse().unwrap())
}

/// Waits until a condition is true.
#[track_caller]
pub fn wait_for(condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < Duration::from_secs(300), "waited in vain");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Random numbers (xorshift64) from the time of day, so that each run kills at other moments.
pub struct Random(u64);

impl Random {
    /// A generator with a new seed.
    pub fn new() -> Random {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        Random(u64::try_from(now.as_nanos()).unwrap() | 1)
    }

    /// The seed, to be printed so that a run can be repeated.
    pub fn seed(&self) -> u64 {
        self.0
    }

    /// A number from 0 to 1.
    pub fn share(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 as f64 / u64::MAX as f64
    }
}
