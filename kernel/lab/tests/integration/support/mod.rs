//! Boots the kernel in QEMU, with its memory in a file. Returns its console, its exit status, and the log from its memory.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

/// QEMU arguments that make two boots equal to the byte.
pub const DETERMINISTIC: &[&str] =
    &["-icount", "shift=0,sleep=off", "-rtc", "base=2020-01-01T00:00:00,clock=vm", "-seed", "1"];
/// Size of the low memory that is searched. The kernel lies in it with its log.
const SEARCHED_BYTES: usize = 32 << 20;
/// QEMU's exit statuses, which isa-debug-exit makes of the kernel's two values.
pub const DONE: Option<i32> = Some(1);
pub const PANICKED: Option<i32> = Some(3);

/// Path of the built kernel. If there is no kernel or no QEMU, prints that and returns `None`.
pub fn kernel() -> Option<PathBuf> {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/lib/bootscope");
    let library = env::var_os("BOOTSCOPE_LIB").map_or(built, PathBuf::from);
    let kernel = library.join("lab");
    let skip = |why: String| {
        println!("skipped: {why}");
        None
    };
    if !kernel.exists() {
        return skip(format!("no kernel at {}; `make build` makes it", kernel.display()));
    }
    match Command::new("qemu-system-x86_64").arg("--version").stdout(Stdio::null()).status() {
        Ok(status) if status.success() => Some(kernel),
        _ => skip("no qemu-system-x86_64; Debian's package `qemu-system-x86` has it".to_owned()),
    }
}

/// A machine to boot, with its differences from the default.
pub struct Machine {
    pub name: &'static str,
    pub memory_mib: u32,
    pub cpus: u32,
    pub arguments: Vec<String>,
    /// A boot that takes longer fails.
    pub limit: Duration,
}

impl Machine {
    pub fn new(name: &'static str) -> Machine {
        Machine { name, memory_mib: 128, cpus: 1, arguments: Vec::new(), limit: Duration::from_secs(120) }
    }

    pub fn deterministic() -> Machine {
        Machine::new("q35").with(DETERMINISTIC)
    }

    pub fn with(mut self, arguments: &[&str]) -> Machine {
        self.arguments.extend(arguments.iter().map(|&argument| argument.to_owned()));
        self
    }

    /// Boots until the machine ends.
    pub fn boot(&self, kernel: &Path, command_line: &str) -> Boot {
        self.boot_until(kernel, command_line, |_| false)
    }

    /// Boots until the machine ends, or until `enough` is true for its console; then kills the machine.
    pub fn boot_until(&self, kernel: &Path, command_line: &str, enough: impl Fn(&str) -> bool) -> Boot {
        let folder = tempfile::tempdir().unwrap();
        let (memory, console) = (folder.path().join("memory"), folder.path().join("console"));
        let mut qemu = Killed(self.command(kernel, command_line, &memory, &console).spawn().unwrap());
        let deadline = Instant::now() + self.limit;
        let status = loop {
            if let Some(status) = qemu.0.try_wait().unwrap() {
                break status.code();
            }
            let so_far = fs::read(&console).unwrap_or_default();
            if enough(&String::from_utf8_lossy(&so_far)) {
                break None;
            }
            assert!(
                Instant::now() < deadline,
                "{command_line:?} ran {:?}: {}",
                self.limit,
                String::from_utf8_lossy(&so_far)
            );
            thread::sleep(Duration::from_millis(5));
        };
        drop(qemu);
        let console = String::from_utf8_lossy(&fs::read(&console).unwrap()).replace('\r', "");
        let (log, dropped) = log_in(&memory);
        Boot { status, console, log, dropped }
    }

    fn command(&self, kernel: &Path, command_line: &str, memory: &Path, console: &Path) -> Command {
        let mut qemu = Command::new("qemu-system-x86_64");
        let size = self.memory_mib;
        qemu.args(["-M", &format!("{},memory-backend=memory", self.name), "-nodefaults", "-display", "none"]);
        qemu.args(["-no-reboot", "-accel", "tcg", "-m", &format!("{size}M"), "-smp", &self.cpus.to_string()]);
        let backend = format!("memory-backend-file,id=memory,size={size}M,share=on,mem-path={}", memory.display());
        qemu.args(["-object", &backend, "-serial", &format!("file:{}", console.display())]);
        qemu.args(["-device", "isa-debug-exit,iobase=0xf4,iosize=4"]).args(&self.arguments);
        qemu.arg("-kernel").arg(kernel).args(["-append", command_line]).stdin(Stdio::null());
        qemu
    }
}

impl Boot {
    /// The last line of the log before the counter's rate, which ends the text.
    pub fn last_line(&self) -> &str {
        self.log.lines().rev().find(|line| !line.contains(" EVENT TSLOG hz ")).unwrap_or_default()
    }
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A finished boot.
pub struct Boot {
    /// QEMU's exit status; `None` if it was killed.
    pub status: Option<i32>,
    pub console: String,
    /// The log as text, out of the machine's memory.
    pub log: String,
    /// Number of events for which the log had no room.
    pub dropped: u64,
}

impl Boot {
    /// Ticks between the first line that ends with `from` and the first that ends with `to`.
    pub fn ticks_between(&self, from: &str, to: &str) -> u64 {
        self.ticks_at(to) - self.ticks_at(from)
    }

    pub fn ticks_at(&self, event: &str) -> u64 {
        let line = self.log.lines().find(|line| line.ends_with(event));
        let line = line.unwrap_or_else(|| panic!("no {event:?} in\n{}\n{}", self.log, self.console));
        line.split(' ').nth(1).unwrap().parse().unwrap()
    }
}

/// The log in a memory file, as text, and the number of dropped events.
fn log_in(memory: &Path) -> (String, u64) {
    let file = File::open(memory).unwrap();
    let mut low = vec![0; SEARCHED_BYTES];
    file.read_exact_at(&mut low, 0).unwrap();
    let at = tslog::find(&low).find(|&at| tslog::Head::parse(&low[at..]).is_ok()).expect("no log in memory");
    let image = tslog::Image::new(&low[at..]).unwrap();
    let mut text = String::new();
    let mut read_phys = |phys: u64, bytes: &mut [u8]| file.read_exact_at(bytes, phys).is_ok();
    let dump = tslog::write_image_text(&image, &mut text, &mut read_phys).unwrap();
    assert_eq!((dump.unresolved, dump.before_start), (0, 0), "{dump:?}");
    (text, dump.dropped)
}
