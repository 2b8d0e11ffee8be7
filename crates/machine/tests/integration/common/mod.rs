//! Shared parts of the boot tests: guests whose every step is known, and the place of a real kernel.
//!
//! A test that cannot run here prints why on standard error and passes, because not every machine has QEMU or a kernel. On a very busy
//! host, a kernel can panic in the test of its timer. Such a boot is repeated, and this is printed; nothing else is repeated. A test that
//! fails prints how its boot ended.

pub mod small;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use machine::{Accel, Error, GuestSpec, Init, ObserveSpec, Observer, RecordOptions, Recorded, Silent, record};
use recording::{OutcomeKind, Recording};
use tempfile::TempDir;

/// One boot at a time: boots share the host's CPUs, and some tests wait for time to pass.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A folder for one test, and the lock that permits a boot.
pub struct Scratch {
    pub dir: TempDir,
    _turn: MutexGuard<'static, ()>,
}

/// The panic of a kernel whose timer was too late.
const TIMER_PANIC: &str = "IO-APIC + timer doesn't work";

/// A finished boot, and its recording.
pub struct Boot {
    pub recorded: Recorded,
    pub recording: Recording,
    _scratch: Option<Scratch>,
}

impl Scratch {
    pub fn new() -> Scratch {
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        Scratch { dir: TempDir::new().unwrap(), _turn: turn }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A disk whose boot sector is `code`, which the firmware starts at 0:7c00 in real mode.
    pub fn boot_sector(&self, code: &[u8]) -> PathBuf {
        let mut disk = vec![0; 1 << 20];
        disk[..code.len()].copy_from_slice(code);
        disk[510..512].copy_from_slice(&[0x55, 0xaa]);
        let path = self.path("disk.img");
        std::fs::write(&path, disk).unwrap();
        path
    }

    /// Options for such a disk.
    pub fn sector_options(&self, code: &[u8]) -> RecordOptions {
        RecordOptions {
            out: self.path("recording"),
            guest: GuestSpec {
                disks: vec![self.boot_sector(code)],
                init: Init::Keep,
                accel: Accel::Tcg,
                memory_bytes: 32 << 20,
                ..GuestSpec::default()
            },
            observe: ObserveSpec { timeout_ms: Some(120_000), first_executions: false, ..ObserveSpec::default() },
            ..RecordOptions::default()
        }
    }

    /// Options for the test kernel. If no kernel is named, prints why and returns `None`.
    pub fn kernel_options(&self) -> Option<RecordOptions> {
        let Some(kernel) = std::env::var_os("BOOTSCOPE_TEST_KERNEL") else {
            eprintln!("skipped: BOOTSCOPE_TEST_KERNEL names no kernel");
            return None;
        };
        Some(RecordOptions {
            out: self.path("recording"),
            guest: GuestSpec {
                kernel: Some(kernel.into()),
                // On a busy host the kernel can fail its test of the timer.
                append: "quiet no_timer_check".to_owned(),
                accel: Accel::Tcg,
                memory_bytes: 256 << 20,
                ..GuestSpec::default()
            },
            observe: ObserveSpec { timeout_ms: Some(300_000), ..ObserveSpec::default() },
            ..RecordOptions::default()
        })
    }
}

impl Drop for Scratch {
    /// Prints the evidence of a failed boot.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        for name in ["console.log", "kmsg-memory.log", "guest.log", "vmm.log", "registers.txt"] {
            let whole = std::fs::read(self.path("recording").join(name)).unwrap_or_default();
            let whole = String::from_utf8_lossy(&whole);
            let lines: Vec<&str> = whole.lines().collect();
            let tail = lines[lines.len().saturating_sub(25)..].join("\n");
            eprintln!("--- the end of {name}, {} lines in all\n{tail}", lines.len());
        }
    }
}

/// Records a boot. If that is not possible here, prints why and returns `None`.
pub fn boot(scratch: Scratch, options: &RecordOptions) -> Option<Boot> {
    boot_observed(scratch, options, &mut Silent)
}

pub fn boot_observed(scratch: Scratch, options: &RecordOptions, observer: &mut dyn Observer) -> Option<Boot> {
    let mut recorded = record(options, observer);
    if recorded.as_ref().is_ok_and(|recorded| recorded.outcome.detail.contains(TIMER_PANIC)) {
        eprintln!("BOOTED AGAIN: the host was too busy for the kernel's test of its timer");
        recorded = record(&RecordOptions { force: true, ..options.clone() }, observer);
    }
    match recorded {
        Ok(recorded) => {
            let recording = Recording::open(&options.out).unwrap();
            eprintln!("{:?} {:?}", recorded.outcome, recorded.manifest.notes);
            Some(Boot { recorded, recording, _scratch: Some(scratch) })
        }
        Err(error @ (Error::VmmMissing { .. } | Error::LibraryMissing { .. })) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

impl Boot {
    pub fn kind(&self) -> OutcomeKind {
        self.recorded.outcome.kind
    }

    pub fn detail(&self) -> &str {
        &self.recorded.outcome.detail
    }

    /// A file of the recording as text; empty if it is not there.
    pub fn text(&self, name: &str) -> String {
        let bytes = self.recording.read(name).unwrap().unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub fn has(&self, name: &str) -> bool {
        self.recording.names().any(|n| n == name)
    }
}

/// A multiboot kernel that writes `words` to guest-init's port, a byte at a time, and halts.
pub fn kernel_that_says(words: &[u8]) -> Vec<u8> {
    kernel_that_says_then(words, &[])
}

/// The same kernel, which runs `then` before it halts.
pub fn kernel_that_says_then(words: &[u8], then: &[u8]) -> Vec<u8> {
    const LOAD_AT: u32 = 0x10_0000;
    const CODE_AT: u32 = LOAD_AT + 32;
    const MAGIC: u32 = 0x1bad_b002;
    const ADDRESSES_GIVEN: u32 = 1 << 16;
    let length = u32::try_from(words.len()).unwrap();
    let words_at = CODE_AT + 18 + u32::try_from(then.len()).unwrap();
    let end = words_at + length;
    let checksum = 0u32.wrapping_sub(MAGIC + ADDRESSES_GIVEN);
    // Magic, flags, checksum; addresses of this header, of the image, of its end and of the end of its memory; the entry.
    let header = [MAGIC, ADDRESSES_GIVEN, checksum, LOAD_AT, LOAD_AT, end, end, CODE_AT];
    let mut image: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
    image.push(0xbe); // mov esi, the words
    image.extend(words_at.to_le_bytes());
    image.push(0xb9); // mov ecx, their number
    image.extend(length.to_le_bytes());
    image.extend([0xac, 0xe6, 0xe9, 0xe2, 0xfb]); // next: lodsb; out 0xe9, al; loop next
    image.extend(then);
    image.extend([0xf4, 0xeb, 0xfd]); // hlt; jmp $-1
    image.extend(words);
    image.resize(image.len().max(8192), 0);
    image
}

/// Writes a cpio archive (newc) with one executable, `/init`, and the folder and node that a console needs.
pub fn initrd_with_init(path: &Path, elf: &[u8]) {
    let mut archive = Vec::new();
    let mut entry = |name: &str, mode: u32, device: (u32, u32), data: &[u8]| {
        let size = u32::try_from(data.len()).unwrap();
        let name_size = u32::try_from(name.len()).unwrap() + 1;
        archive.extend_from_slice(b"070701");
        for field in [1, mode, 0, 0, 1, 0, size, 0, 0, device.0, device.1, name_size, 0] {
            archive.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        for part in [name.as_bytes(), &[0]] {
            archive.extend_from_slice(part);
        }
        archive.resize(archive.len().next_multiple_of(4), 0);
        archive.extend_from_slice(data);
        archive.resize(archive.len().next_multiple_of(4), 0);
    };
    entry("dev", 0o040_755, (0, 0), &[]);
    entry("dev/console", 0o020_600, (5, 1), &[]);
    entry("init", 0o100_755, (0, 0), elf);
    entry("TRAILER!!!", 0, (0, 0), &[]);
    std::fs::write(path, archive).unwrap();
}

/// A static x86-64 program that writes `text` to its standard output and then sleeps for ever.
pub fn program_that_says(text: &str) -> Vec<u8> {
    const BASE: u64 = 0x40_0000;
    const CODE_AT: u64 = 64 + 56;
    let mut code = vec![0xb8, 1, 0, 0, 0, 0xbf, 1, 0, 0, 0]; // mov eax, SYS_write; mov edi, 1
    code.extend([0x48, 0x8d, 0x35, 19, 0, 0, 0]); // lea rsi, [rip + 19]: the text
    code.push(0xba); // mov edx, its length
    code.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
    code.extend([0x0f, 0x05]); // syscall
    code.extend([0xb8, 34, 0, 0, 0, 0x0f, 0x05, 0xeb, 0xf7, 0x90, 0x90, 0x90]); // again: mov eax, SYS_pause; syscall; jmp again
    let size = CODE_AT + (code.len() + text.len()) as u64;
    let mut elf = b"\x7fELF\x02\x01\x01".to_vec();
    elf.resize(16, 0);
    elf.extend([2, 0, 62, 0, 1, 0, 0, 0]); // executable, x86-64, version 1
    for value in [BASE + CODE_AT, 64, 0] {
        elf.extend(value.to_le_bytes()); // entry, program headers, section headers
    }
    elf.extend([0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 0, 0, 0, 0, 0, 0]); // flags, sizes, one program header
    elf.extend([1, 0, 0, 0, 5, 0, 0, 0]); // PT_LOAD, readable and executable
    for value in [0, BASE, BASE, size, size, 0x1000] {
        elf.extend(u64::to_le_bytes(value));
    }
    elf.extend(code);
    elf.extend(text.as_bytes());
    elf
}
