//! Boots of real kernels: their choice, their options, and the properties of every recording.
//!
//! `BOOTSCOPE_TEST_KERNEL` names one kernel, `BOOTSCOPE_TEST_KERNELS` several with `:` between them. Each is a path, or
//! the name of a kernel fetched by `scripts/fetch-kernel`. Without them the tests skip, and say so. The boots run under
//! TCG, which is available everywhere.
//!
//! On a busy host the guest may be too late when the kernel tests its timer, and the kernel then panics. The tests are
//! about bootscope, so they boot with [`CALM`] where the command line does not matter. A boot that still ends so is
//! printed and repeated once. Nothing else is retried. A failing test prints the end of each of its recordings.

use super::{Ran, bootscope, run, skip};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Condvar, LazyLock, Mutex, OnceLock, PoisonError};
use tempfile::TempDir;

/// Disables the kernel's test of its timer, which fails on a busy host.
pub const CALM: &str = "no_timer_check";
/// The same, on a quiet console.
pub const QUIET: &str = "quiet no_timer_check";
/// Panics that are due to a busy host. The first: the kernel's test of its timer failed. The second: one CPU ran code
/// that another was patching (6.12 with 4 CPUs under TCG, in a no-op of `sched_clock_cpu`, in one of some hundred
/// boots).
const HOST_PANICS: [&str; 2] = ["IO-APIC + timer doesn't work", "Fatal exception in interrupt"];

/// The number of tests that boot machines now, and the tests that wait to.
static BOOTING: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());

/// The most tests that boot machines at once: `BOOTSCOPE_TEST_BOOTS`, else one.
fn max_boots() -> usize {
    std::env::var("BOOTSCOPE_TEST_BOOTS").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// The permission to boot machines. A drop returns it.
struct Turn(());

impl Turn {
    fn wait() -> Turn {
        let booting = BOOTING.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut booting =
            BOOTING.1.wait_while(booting, |booting| *booting >= max_boots()).unwrap_or_else(PoisonError::into_inner);
        *booting += 1;
        Turn(())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *BOOTING.0.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        BOOTING.1.notify_one();
    }
}

/// A folder for one test, with the permission to boot machines.
pub struct Scratch {
    folder: TempDir,
    _turn: Turn,
}

impl Scratch {
    /// Waits for the permission.
    pub fn new() -> Scratch {
        let turn = Turn::wait();
        Scratch { folder: TempDir::new().unwrap(), _turn: turn }
    }

    /// The folder itself.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// The folder of shared boots: one for each run of the tests. The next run removes it.
static SHARED_FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let parent = Path::new(env!("CARGO_TARGET_TMPDIR")).join("shared-boots");
    for old in std::fs::read_dir(&parent).into_iter().flatten().flatten() {
        if !Path::new("/proc").join(old.file_name()).exists() {
            let _ = std::fs::remove_dir_all(old.path());
        }
    }
    let own = parent.join(std::process::id().to_string());
    std::fs::create_dir_all(&own).unwrap();
    own
});
static SHARED: Mutex<BTreeMap<&str, Arc<OnceLock<PathBuf>>>> = Mutex::new(BTreeMap::new());

/// The boot of this name, which several tests read: the first of them makes it. A test must not change it. `_turn` has
/// the permission to boot.
pub fn shared_boot(_turn: &Scratch, name: &'static str, make: impl FnOnce(&Path)) -> PathBuf {
    let boot = SHARED.lock().unwrap_or_else(PoisonError::into_inner).entry(name).or_default().clone();
    let recording = boot.get_or_init(|| {
        let into = SHARED_FOLDER.join(name);
        let _ = std::fs::remove_dir_all(&into); // by a test that failed to make it
        make(&into);
        into
    });
    recording.clone()
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let inside = std::fs::read_dir(self.folder()).into_iter().flatten().flatten();
            let mut recordings: Vec<PathBuf> = inside.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
            recordings.sort();
            recordings.iter().for_each(|recording| println!("{}", how_it_ended(recording)));
            if std::env::var_os("BOOTSCOPE_TEST_KEEP").is_some() {
                println!("kept, as BOOTSCOPE_TEST_KEEP asks: {}", self.folder().display());
                self.folder.disable_cleanup(true);
            }
        }
    }
}

/// The outcome, the notes, and the last output of guest and QEMU, to explain a failed boot.
fn how_it_ended(recording: &Path) -> String {
    let read =
        |name: &str| String::from_utf8_lossy(&std::fs::read(recording.join(name)).unwrap_or_default()).into_owned();
    let manifest: Value = serde_json::from_str(&read("recording.json")).unwrap_or_default();
    let mut text =
        format!("--- {}: outcome {}, notes {}\n", recording.display(), manifest["outcome"], manifest["notes"]);
    for name in ["console.log", "console.tail.log", "kmsg-memory.log", "guest.log", "vmm.log", "registers.txt"] {
        let whole = read(name);
        let lines: Vec<&str> = whole.lines().collect();
        let tail = &lines[lines.len().saturating_sub(25)..];
        if !tail.is_empty() {
            text.push_str(&format!("--- the end of {name}, {} lines in all\n{}\n", lines.len(), tail.join("\n")));
        }
    }
    text
}

/// The kernel to test with; `None` without one, with a printed reason.
pub fn kernel() -> Option<PathBuf> {
    let Some(kernel) = std::env::var("BOOTSCOPE_TEST_KERNEL").ok().filter(|k| !k.is_empty()) else {
        skip("BOOTSCOPE_TEST_KERNEL names no kernel");
        return None;
    };
    Some(found(&kernel))
}

/// All kernels to test with; at least the one, if it is given.
pub fn kernels() -> Vec<PathBuf> {
    let several = std::env::var("BOOTSCOPE_TEST_KERNELS").unwrap_or_default();
    let several: Vec<PathBuf> = several.split(':').filter(|name| !name.is_empty()).map(found).collect();
    if several.is_empty() { kernel().into_iter().collect() } else { several }
}

/// A kernel by its path, or by its name for `scripts/fetch-kernel`.
pub fn found(name: &str) -> PathBuf {
    let fetched = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/kernels").join(name);
    let path = if name.contains('/') { PathBuf::from(name) } else { fetched };
    path.canonicalize().unwrap_or_else(|e| panic!("no kernel {name} at {}: {e}", path.display()))
}

/// `bootscope record` of a kernel into a folder.
pub fn record(kernel: &Path, into: &Path) -> Command {
    let mut command = bootscope("record");
    command.args(["--accel", "tcg", "--kernel"]).arg(kernel).arg("-o").arg(into);
    command
}

/// Records, and asserts exit status and outcome: 0 for `reached`, 1 for every other outcome.
#[track_caller]
pub fn recorded(command: &mut Command, into: &Path, outcome: &str) -> Ran {
    let mut ran = run(command);
    let text = std::fs::read_to_string(into.join("recording.json")).unwrap_or_default();
    if outcome != "panic" && HOST_PANICS.iter().any(|panic| text.contains(panic)) {
        println!("BOOTED AGAIN: the kernel panicked as it does on a busy host\n{}", how_it_ended(into));
        std::fs::remove_dir_all(into).unwrap();
        ran = run(command);
    }
    let stderr = ran.stderr.clone();
    let ran = ran.exits(i32::from(outcome != "reached"));
    assert_eq!(manifest(into)["outcome"]["kind"], outcome, "{stderr}");
    ran
}

/// `recording.json`.
#[track_caller]
pub fn manifest(recording: &Path) -> Value {
    let path = recording.join("recording.json");
    let text = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// A file of a recording, as text.
#[track_caller]
pub fn evidence(recording: &Path, name: &str) -> String {
    let path = recording.join(name);
    let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The stamp in microseconds and text of each record of a `kmsg*.log`, without the escapes of `/dev/kmsg`.
pub fn messages(kmsg: &str) -> Vec<(u64, String)> {
    let record = |line: &str| {
        let (head, text) = line.split_once(';')?;
        let stamp = head.split(',').nth(2)?.split('.').next()?.parse().ok()?;
        Some((stamp, text.replace("\\x09", "\t").replace("\\x5c", "\\")))
    };
    kmsg.lines().filter(|line| !line.starts_with([' ', '#'])).filter_map(record).collect()
}

/// The stamp in microseconds and text of each kernel message on a console.
pub fn console_messages(console: &str) -> Vec<(u64, String)> {
    let message = |line: &str| {
        let (stamp, text) = line.strip_prefix('[')?.split_once("] ")?;
        let (seconds, micros) = stamp.trim_start().split_once('.')?;
        Some((seconds.parse::<u64>().ok()? * 1_000_000 + micros.parse::<u64>().ok()?, text.to_owned()))
    };
    console.lines().map(|line| line.trim_end_matches('\r')).filter_map(message).collect()
}
