//! The mark "kernel handed over": the program's very first instructions.
//!
//! `guest_init_entry` is the entry point of the binary (build.rs) and runs before libc: one system call for the right to
//! use ports, one tick of the time stamp counter, one byte `I` on the port. The host stamps a line by its first byte, so
//! the rest of the line (` <tsc>`) is said by [`finish_mark`] when libc is ready. It changes no register that `_start`
//! looks at (the stack pointer, and rdx: libc's exit hook).
//!
//! Started by its other name, [`ROOT_PATH`], it does not mark yet: the kernel puts that name into argv[0], and one letter
//! of it tells.

use crate::arch::Port;
use guest_init::cpio::{INIT_PATH, ROOT_PATH};
use guest_init::messages::{PORT, PORT_PRESENT};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

/// Where the letter is that tells the two names apart.
const LETTER_AT: usize = "/bootscope/".len();
const LETTER: u8 = ROOT_PATH.as_bytes()[LETTER_AT];
const _: () = assert!(INIT_PATH.as_bytes()[LETTER_AT] != LETTER);

/// What `iopl` returned; above zero: this is not process 1, or not yet the mark, and nothing was tried.
static IOPL: AtomicI32 = AtomicI32::new(1);
/// What a read of the port gave.
static HEARD: AtomicU32 = AtomicU32::new(0);
/// The tick just before the byte.
static TSC: AtomicU64 = AtomicU64::new(0);

// SAFETY: runs once, alone, before any Rust code. The ABI has argc and argv on top of the stack; argv[0] is not null where it
// is read, and behind its end there are the environment and the program's name, so the letter is within the stack's page
// or pages that the kernel has filled. System calls change rax, rcx and r11 only, rdx is put back; the three
// statics are aligned words that nobody else has seen yet. The port is read and written only as process 1 and only
// when iopl has permitted it.
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
    heard = sym HEARD,
    tsc = sym TSC,
    port = const PORT,
    present = const PORT_PRESENT,
    letter_at = const LETTER_AT,
    letter = const LETTER,
);

/// Whether the first instructions have left the mark to a second start of this program.
pub fn is_not_yet_the_mark() -> bool {
    IOPL.load(Ordering::Relaxed) > 0
}

/// Says the rest of the line that the first instructions began. Where nobody hears it, the console says why.
pub fn finish_mark() -> Port {
    let why = match (IOPL.load(Ordering::Relaxed), HEARD.load(Ordering::Relaxed)) {
        (0, heard) if heard == u32::from(PORT_PRESENT) => {
            let port = Port::heard();
            port.send(format!(" {}\n", TSC.load(Ordering::Relaxed)).as_bytes());
            return port;
        }
        (0, heard) => format!("nobody listens on port {PORT:#x} (it reads {heard:#x})"),
        (error, _) => format!("the kernel forbids ports: {}", std::io::Error::from_raw_os_error(-error)),
    };
    println!("bootscope: process 1 runs; {why}, so nothing is gathered");
    Port::unheard()
}
