//! System calls: how user processes call the kernel, and how the first one is started (services: `services.rs`).
//!
//! Number in RAX, arguments in RDI and RSI, result in RAX. All other registers that a call may change are lost (sysv64), and
//! what the kernel had in them is seen: a kernel with more than one user clears them.

use crate::console::kprintln;
use crate::descriptors::selectors;
use crate::memory;
use crate::paging::{self, USER_BASE};
use core::arch::{asm, global_asm};
use lab::memory_map::FRAME_BYTES;
use x86_64::VirtAddr;
use x86_64::registers::model_specific::{LStar, SFMask, Star};
use x86_64::registers::rflags::RFlags;
use x86_64::structures::paging::PageTableFlags as Flags;

/// Prints the text at RDI, RSI bytes long.
const WRITE: u64 = 1;
/// The process is done.
const EXIT: u64 = 2;
/// A service has touched its pages.
const SERVICE_DONE: u64 = 3;
const NO_SUCH_CALL: u64 = -38i64 as u64;
const BAD_ADDRESS: u64 = -14i64 as u64;
const WRITE_BYTES_MAX: u64 = 256;
const USER_BYTES: u64 = 2 * FRAME_BYTES;

global_asm!(
    r#"
    .section .text.syscall, "ax"
    .global syscall_entry
    syscall_entry:
        swapgs
        mov gs:[16], rsp                # the user's stack pointer
        mov rsp, gs:[24]                # this thread's kernel stack
        push qword ptr gs:[16]
        push rcx                        # where to return to
        push r11                        # flags
        push rbp                        # aligned as before a call
        xor ebp, ebp                    # who walks the stack comes no further
        sti
        mov rdx, rsi
        mov rsi, rdi
        mov rdi, rax
        call syscall
        cli
        pop rbp
        pop r11
        pop rcx
        pop rsp
        swapgs
        sysretq

    # The user process: it says that it is there, and is done.
    .section .rodata.user, "a"
    .global user_program
    .global user_program_end
    user_program:
        lea rdi, [rip + 3f]
        lea rsi, [rip + 4f]
        sub rsi, rdi
        mov eax, {write}
        syscall
        mov eax, {exit}
        syscall
        ud2
    3:  .ascii "init: hello from user space"
    4:

    # A service's: it touches rdx pages from rdi and from rsi on, in turn, and says that it is done.
    service_program:
        mov byte ptr [rdi], 1
        mov byte ptr [rsi], 1
        add rdi, {page}
        add rsi, {page}
        dec rdx
        jnz service_program
        mov eax, {service_done}
        syscall
        ud2
    user_program_end:
    "#,
    write = const WRITE,
    exit = const EXIT,
    service_done = const SERVICE_DONE,
    page = const FRAME_BYTES,
);

unsafe extern "C" {
    static syscall_entry: u8;
    static user_program: u8;
    static service_program: u8;
    static user_program_end: u8;
}

/// Where the program of a service begins in user space.
pub fn service_entry() -> u64 {
    USER_BASE + ((&raw const service_program).addr() - (&raw const user_program).addr()) as u64
}

/// Tells this CPU where `syscall` goes.
pub fn start() {
    let segments = selectors();
    Star::write(segments.user_code, segments.user_data, segments.kernel_code, segments.kernel_data)
        .expect("syscall::start: the segments are not in the order of sysret");
    LStar::write(VirtAddr::from_ptr(&raw const syscall_entry));
    SFMask::write(RFlags::INTERRUPT_FLAG | RFlags::DIRECTION_FLAG | RFlags::TRAP_FLAG);
}

#[unsafe(no_mangle)]
extern "sysv64" fn syscall(number: u64, first: u64, second: u64) -> u64 {
    match number {
        WRITE => write(first, second),
        EXIT => crate::init::done(),
        SERVICE_DONE => crate::services::done(),
        _ => NO_SUCH_CALL,
    }
}

fn write(address: u64, bytes: u64) -> u64 {
    let in_user_space = address >= USER_BASE && bytes <= WRITE_BYTES_MAX && address - USER_BASE <= USER_BYTES - bytes;
    if !in_user_space {
        return BAD_ADDRESS;
    }
    // SAFETY: the check above: the range lies in the two pages from USER_BASE on, which `load_user_program` mapped.
    let text = unsafe { core::slice::from_raw_parts(address as *const u8, bytes as usize) };
    kprintln!("{}", core::str::from_utf8(text).unwrap_or("?"));
    bytes
}

/// Maps the user process: a page of text, a page of stack.
pub fn load_user_program() {
    let text = memory::allocate_frame();
    let (from, to) = (&raw const user_program, &raw const user_program_end);
    // SAFETY: the frame is new, and the program is shorter than a page.
    unsafe { core::ptr::copy_nonoverlapping(from, text as *mut u8, to.addr() - from.addr()) };
    paging::map(USER_BASE, text, Flags::PRESENT | Flags::USER_ACCESSIBLE);
    paging::map(USER_BASE + FRAME_BYTES, memory::allocate_frame(), paging::DATA | Flags::USER_ACCESSIBLE);
}

/// Leaves for user space. Comes back only by system calls.
pub fn enter_user_program() -> ! {
    let segments = selectors();
    x86_64::instructions::interrupts::disable();
    // SAFETY: what iretq takes is a user's frame over the two pages that `load_user_program` mapped; GS is swapped as the
    // entry expects it.
    unsafe {
        asm!(
            "swapgs", "push {ss}", "push {rsp}", "push 0x202", "push {cs}", "push {rip}", "iretq",
            ss = in(reg) u64::from(segments.user_data.0),
            rsp = in(reg) USER_BASE + USER_BYTES,
            cs = in(reg) u64::from(segments.user_code.0),
            rip = in(reg) USER_BASE,
            options(noreturn),
        )
    }
}
