//! The mark "kernel handed over": the very first instructions of the program.
//!
//! `guest_init_entry` is the entry point of the binary (build.rs). It runs before libc, and makes one system call for
//! the right to use ports. Then it reads the time stamp counter once, and writes one byte `I` to the port. The host
//! stamps a line by its first byte, so [`finish_mark`] sends the rest of the line (` <tsc>`) when libc is ready. It
//! changes no register that `_start` reads (the stack pointer, and rdx: libc's exit hook).
//!
//! A program started by its other name, [`ROOT_PATH`], does not mark yet. The kernel puts that name into argv[0], and
//! one of its letters differs.

use crate::arch::Port;
use guest_init::cpio::{INIT_PATH, ROOT_PATH};
use guest_init::messages::{PORT, PORT_PRESENT};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

/// Offset of the letter that differs between the two names.
const LETTER_AT: usize = "/bootscope/".len();
const LETTER: u8 = ROOT_PATH.as_bytes()[LETTER_AT];
const _: () = assert!(INIT_PATH.as_bytes()[LETTER_AT] != LETTER);

/// The result of `iopl`. Above zero: this is not process 1, or not yet the mark, and nothing was tried.
static IOPL: AtomicI32 = AtomicI32::new(1);
/// The value read from the port.
static PORT_VALUE: AtomicU32 = AtomicU32::new(0);
/// The tick just before the byte.
static TSC: AtomicU64 = AtomicU64::new(0);

// SAFETY: this runs once, alone, before any Rust code. The ABI has argc and argv on top of the stack. argv[0] is not
// null where it is read, and the environment and the program's name follow its end. So the letter is within the pages
// of the stack that the kernel has filled. System calls change only rax, rcx and r11, and rdx is restored. The three
// statics are aligned words that no other code has read yet. The port is read and written only by process 1, and only
// after iopl has permitted it.
std::arch::global_asm!(
    ".globl guest_init_entry",
    "guest_init_entry:",
    "mov r8, rdx",
    "mov eax, 39", // getpid
    "syscall",
    "cmp eax, 1",
    "jne 3f",
    "mov rdi, [rsp + 8]", // argv[0]
    "test rdi, rdi",
    "jz 4f",
    "cmp byte ptr [rdi + {letter_at}], {letter}",
    "je 3f",
    "4:",
    "mov eax, 172", // iopl(3)
    "mov edi, 3",
    "syscall",
    "mov r9d, eax",
    "xor r10d, r10d",
    "test eax, eax",
    "jne 2f",
    "mov edx, {port}",
    "in al, dx",
    "movzx r10d, al",
    "cmp al, {present}",
    "jne 2f",
    "lfence",
    "rdtsc",
    "shl rdx, 32",
    "or rax, rdx",
    "mov rdi, rax",
    "mov edx, {port}",
    "mov al, 0x49", // 'I'
    "out dx, al",
    // Only now: the first write to a page of data is a page fault, and the kernel's first of that kind is slow.
    "mov [rip + {tsc}], rdi",
    "2:",
    "mov [rip + {iopl}], r9d",
    "mov [rip + {heard}], r10d",
    "3:",
    "mov rdx, r8",
    "jmp _start",
    iopl = sym IOPL,
    heard = sym PORT_VALUE,
    tsc = sym TSC,
    port = const PORT,
    present = const PORT_PRESENT,
    letter_at = const LETTER_AT,
    letter = const LETTER,
);

/// True if the first instructions have left the mark to a second start of this program.
pub fn leaves_mark_to_second_start() -> bool {
    IOPL.load(Ordering::Relaxed) > 0
}

/// Sends the rest of the line that the first instructions began. If there is no host, prints the reason to the console.
pub fn finish_mark() -> Port {
    let why = match (IOPL.load(Ordering::Relaxed), PORT_VALUE.load(Ordering::Relaxed)) {
        (0, value) if value == u32::from(PORT_PRESENT) => {
            let port = Port::connected();
            port.send_bytes(format!(" {}\n", TSC.load(Ordering::Relaxed)).as_bytes());
            return port;
        }
        (0, value) => format!("nobody listens on port {PORT:#x} (it reads {value:#x})"),
        (error, _) => format!("the kernel forbids ports: {}", std::io::Error::from_raw_os_error(-error)),
    };
    println!("bootscope: process 1 runs; {why}, so nothing is gathered");
    Port::disconnected()
}
