//! A small host: boots a kernel under QEMU with guest-init, takes the offered evidence, and counts.
//!
//! It is the smallest host that shows the protocol from outside; the real host is `crates/machine`.

use guest_init::config::Config;
use guest_init::delivery::{Delivery, Error};
use guest_init::messages::Message;
use guest_init::port::{PortEvent, PortReader};
use guest_init::round::{ANSWER_OFFSET, Answer};
use guest_init::{cpio, files};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

#[derive(Clone)]
pub struct Boot {
    pub append: &'static str,
    pub config: Config,
    pub memory: &'static str,
    /// The user's own initrd.
    pub initrd: Vec<u8>,
    /// Further arguments for QEMU.
    pub machine: &'static [&'static str],
    /// True for a machine without the port.
    pub without_port: bool,
    /// The number of rounds, from the first, in which a bit of the first page read is flipped.
    pub damaged_rounds: u32,
    /// Replaces the true answer to the guest; `None`: no answer.
    pub answer: fn(Answer) -> Option<Answer>,
}

impl Default for Boot {
    fn default() -> Self {
        Boot {
            append: "quiet",
            config: Config::default(),
            memory: "256M",
            initrd: vec![],
            machine: &[],
            without_port: false,
            damaged_rounds: 0,
            answer: Some,
        }
    }
}

/// The result of a boot.
#[derive(Default)]
pub struct Outcome {
    /// Each message, with the time at which its line ended, since QEMU's start.
    pub messages: Vec<(Duration, Message)>,
    pub malformed: Vec<String>,
    /// The content that guest.log would have.
    pub port_output: Vec<u8>,
    pub files: BTreeMap<&'static str, Vec<u8>>,
    pub unfinished: Vec<String>,
    pub errors: Vec<String>,
    pub console: String,
    /// For each round: its bytes, and the time that the host took for it.
    pub rounds: Vec<(u64, Duration)>,
    /// For each chunk from the port: its name, its bytes, and the time at which it was complete.
    pub chunks: Vec<(&'static str, usize, Duration)>,
    pub repeats: u64,
}

impl Outcome {
    pub fn text(&self, name: &str) -> String {
        let bytes = self.files.get(name).unwrap_or_else(|| panic!("{name} was not transferred: {self}"));
        String::from_utf8_lossy(bytes).into_owned()
    }

    /// The reported reasons for lacking `name`.
    pub fn lacks(&self, name: &str) -> Vec<&str> {
        let messages = self.messages.iter().filter_map(|(_, message)| match message {
            Message::Lack { what, why } if what.word() == name => Some(why.as_str()),
            _ => None,
        });
        messages.collect()
    }

    pub fn ends(&self) -> Vec<&str> {
        let messages = self.messages.iter();
        messages
            .filter_map(
                |(_, message)| if let Message::End { outcome } = message { Some(outcome.as_str()) } else { None },
            )
            .collect()
    }
}

impl std::fmt::Display for Outcome {
    /// Everything needed to understand a failed boot.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "--- console\n{}\n--- port\n{}", self.console, String::from_utf8_lossy(&self.port_output))?;
        writeln!(f, "--- errors {:?}, malformed {:?}, unfinished {:?}", self.errors, self.malformed, self.unfinished)
    }
}

/// The kernel to boot. Without a kernel, prints the reason and returns `None`.
pub fn kernel() -> Option<PathBuf> {
    // Not with `eprintln!`, because the test harness captures it while a test passes.
    let skip = |why: &str| {
        let _ = io::stderr().write_all(format!("SKIPPED: {why}\n").as_bytes());
        None
    };
    let Some(kernel) = std::env::var_os("BOOTSCOPE_TEST_KERNEL") else {
        return skip("BOOTSCOPE_TEST_KERNEL does not name a kernel to boot");
    };
    if Command::new("qemu-system-x86_64").arg("--version").stdout(Stdio::null()).status().is_err() {
        return skip("no qemu-system-x86_64; Debian's package `qemu-system-x86` has it");
    }
    assert!(Path::new(&kernel).is_file(), "BOOTSCOPE_TEST_KERNEL names {kernel:?}, which is no file");
    Some(kernel.into())
}

/// Process 1 as shipped: static, with the profile `guest`.
pub fn init_elf() -> &'static [u8] {
    static ELF: OnceLock<Vec<u8>> = OnceLock::new();
    ELF.get_or_init(|| {
        let target = "x86_64-unknown-linux-gnu";
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let status = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "-p", "guest-init", "--bin", "guest-init"])
            .args(["--profile", "guest", "--target", target])
            .env("RUSTFLAGS", "-C target-feature=+crt-static -C relocation-model=static")
            .current_dir(package)
            .status()
            .expect("cargo runs");
        assert!(status.success(), "guest-init does not build");
        // The test's own binary is in <target dir>/<profile>/deps.
        let own = std::env::current_exe().expect("a path");
        let target_dir = own.ancestors().nth(3).expect("a target directory");
        std::fs::read(target_dir.join(target).join("guest/guest-init")).expect("the binary just built")
    })
}

/// One boot at a time: they are timed, and the machine is small.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Boots, and returns when the machine is off (or after five minutes).
pub fn boot(kernel: &Path, boot: &Boot) -> Outcome {
    let elf = init_elf();
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let shm = Path::new("/dev/shm");
    let folder = tempfile::tempdir_in(if shm.is_dir() { shm } else { Path::new("/tmp") }).expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let mut initrd = cpio::archive(elf, &boot.config, &[]);
    initrd.extend_from_slice(&boot.initrd);
    std::fs::write(at("initrd"), initrd).expect("an initrd");
    let bytes = boot.memory.trim_end_matches('M').parse::<u64>().expect("so many M") << 20;
    let ram = OpenOptions::new().read(true).write(true).create_new(true).open(at("ram")).expect("guest memory");
    ram.set_len(bytes).expect("room for guest memory");

    let start = Instant::now();
    let mut qemu = Command::new("timeout");
    qemu.args(["--kill-after=5", "300", "qemu-system-x86_64", "-nodefaults", "-display", "none", "-no-reboot"]);
    qemu.args(["-machine", "pc,accel=tcg,memory-backend=ram", "-m", boot.memory]);
    qemu.arg("-object").arg(format!(
        "memory-backend-file,id=ram,size={},share=on,mem-path={}",
        boot.memory,
        at("ram").display()
    ));
    qemu.arg("-serial").arg(format!("file:{}", at("console").display()));
    qemu.args(boot.machine).args(["-chardev", "stdio,id=guest,signal=off"]);
    if !boot.without_port {
        qemu.args(["-device", "isa-debugcon,iobase=0xe9,chardev=guest"]);
    }
    qemu.arg("-kernel").arg(kernel).arg("-initrd").arg(at("initrd"));
    qemu.arg("-append").arg(format!(
        "console=ttyS0 panic=-1 no_timer_check rdinit={} {}",
        cpio::INIT_PATH,
        boot.append
    ));
    let mut child = qemu.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("qemu starts");
    let mut host = Host::new(boot, ram, start);
    host.listen(child.stdout.take().expect("piped")).expect("the port is heard");
    child.wait().expect("qemu ends");

    let mut outcome = host.outcome;
    outcome.unfinished = host.delivery.unfinished().map(|(name, bytes)| format!("{name} {bytes}")).collect();
    outcome.repeats = host.delivery.repeats();
    outcome.console = String::from_utf8_lossy(&std::fs::read(at("console")).unwrap_or_default()).into_owned();
    outcome
}

struct Host<'a> {
    boot: &'a Boot,
    ram: File,
    start: Instant,
    delivery: Delivery,
    offered: u32,
    outcome: Outcome,
}

impl<'a> Host<'a> {
    fn new(boot: &'a Boot, ram: File, start: Instant) -> Host<'a> {
        Host { boot, ram, start, delivery: Delivery::new(1 << 30), offered: 0, outcome: Outcome::default() }
    }

    fn listen(&mut self, mut port: impl Read) -> io::Result<()> {
        let (mut reader, mut buffer) = (PortReader::new(), vec![0; 64 << 10]);
        loop {
            let bytes = port.read(&mut buffer)?;
            if bytes == 0 {
                return Ok(());
            }
            reader.feed(&buffer[..bytes], &mut |event| self.handle(event));
            // QEMU writes byte by byte, and would wake a reader that waits in `read` for each byte, at the guest's
            // cost.
            if reader.cut_off().is_some() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    fn handle(&mut self, event: PortEvent<'_>) {
        let now = self.start.elapsed();
        match event {
            PortEvent::Output(bytes) => self.outcome.port_output.extend_from_slice(bytes),
            PortEvent::Malformed(text) => self.outcome.malformed.push(text.to_string()),
            PortEvent::Message(message) => {
                if let Message::Round { header_phys } = message {
                    self.take_round(header_phys);
                }
                self.outcome.messages.push((now, message));
            }
            PortEvent::Chunk(chunk, bytes) => {
                self.outcome.chunks.push((chunk.name, bytes.len(), now));
                let files = &mut self.outcome.files;
                let taken =
                    self.delivery.take_chunk(&chunk, bytes, &mut |name, bytes: &[u8], _| keep(files, name, bytes));
                self.outcome.errors.extend(taken.err().map(|e| e.to_string()));
            }
        }
    }

    fn take_round(&mut self, header_phys: u64) {
        let began = Instant::now();
        self.offered += 1;
        let damage = self.offered <= self.boot.damaged_rounds;
        let (ram, files) = (&self.ram, &mut self.outcome.files);
        // Below 3 GiB of a `pc`, physical addresses are offsets in the file.
        let mut read_at = |phys: u64, buffer: &mut [u8]| {
            ram.read_exact_at(buffer, phys)?;
            if damage && phys != header_phys {
                buffer[0] ^= 1;
            }
            Ok(())
        };
        let taken =
            self.delivery.take_round(header_phys, &mut read_at, &mut |name, bytes: &[u8], _| keep(files, name, bytes));
        let answer = taken.as_ref().map_or_else(Error::answer, |_| Answer::Taken);
        if let Some(answer) = (self.boot.answer)(answer) {
            let message = (answer as u32).to_le_bytes();
            self.ram.write_all_at(&message, header_phys + ANSWER_OFFSET).expect("guest memory can be written");
        }
        match taken {
            Ok(taken) => self.outcome.rounds.push((taken.bytes, began.elapsed())),
            Err(e) => self.outcome.errors.push(e.to_string()),
        }
    }
}

fn keep(files: &mut BTreeMap<&'static str, Vec<u8>>, name: &'static str, bytes: &[u8]) -> io::Result<()> {
    files.entry(name).or_default().extend_from_slice(bytes);
    Ok(())
}

/// True if these bytes are the test pattern.
pub fn is_payload(bytes: &[u8]) -> bool {
    let mut expected = vec![0; bytes.len()];
    files::payload(0, &mut expected);
    expected == bytes
}
