//! System calls of user processes, and the start of the first process (services: `services.rs`).
//!
//! The number is in RAX, arguments are in RDI and RSI, the result is in RAX. RCX and R11 are lost. All other registers are saved
//! at the end of the kernel stack and restored.
//!
//! There are four ways through the kernel (`syscall=`), which differ in their work for debuggers (`contexts.rs`). The entry
//! address of each CPU points to the chosen way, so that no call has to choose.

use crate::console::kprintln;
use crate::contexts::{self, AFTER, BEFORE, Call};
use crate::descriptors::selectors;
use crate::paging::{self, USER_BASE};
use crate::registers::{pop_registers, push_registers};
use crate::{boot, memory};
use core::arch::{asm, global_asm};
use core::sync::atomic::{AtomicBool, Ordering};
use lab::memory_map::FRAME_BYTES;
use lab::switches::Syscall;
use x86_64::VirtAddr;
use x86_64::registers::model_specific::{LStar, SFMask, Star};
use x86_64::registers::rflags::RFlags;
use x86_64::structures::paging::PageTableFlags as Flags;

/// Prints the text at RDI, RSI bytes long.
const WRITE: u64 = 1;
/// Ends the process.
const EXIT: u64 = 2;
/// Ends a service that has touched its pages, or a loop of calls.
const SERVICE_DONE: u64 = 3;
/// A number without a system call.
const NONE: u64 = 0x7fff_ffff;
const NO_SUCH_CALL: u64 = -38i64 as u64;
const BAD_ADDRESS: u64 = -14i64 as u64;
const MAX_WRITE_BYTES: u64 = 256;
const USER_BYTES: u64 = 2 * FRAME_BYTES;

global_asm!(
    r#"
    .section .text.syscall, "ax"
    .macro way name, handler
    .balign 16
    .global \name
    \name:
        swapgs
        mov gs:[16], rsp                # the user's stack pointer
        mov rsp, gs:[24]                # this thread's kernel stack
        push qword ptr gs:[16]
        # 16 words with these, so that the stack is aligned as before a call. RCX is the return address, R11 the flags.
    "#,
    push_registers!(),
    r#"
        xor ebp, ebp                    # a walk up the stack ends here
        mov rdi, rsp
        sti
        call \handler
        cli
    "#,
    pop_registers!(),
    r#"
        pop rsp
        swapgs
        sysretq
    .endm
    way entry_traced, syscall_traced
    way entry_flat, syscall_flat
    way entry_cached, syscall_cached
    way entry_lean, syscall_lean

    # The bare round trip.
    .balign 16
    .global entry_bare
    entry_bare:
        sysretq

    # The user process: it prints a line, and ends.
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

    # The program of a service: it touches rdx pages from rdi and from rsi on, in turn, and reports that it is done.
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

    # A loop of rdi rounds with a system call that does not exist, and a loop without a call.
    calls_program:
        mov rbx, rdi
    5:  mov eax, {none}
        syscall
        dec rbx
        jnz 5b
        jmp 7f
    rounds_program:
        mov rbx, rdi
    6:  mov eax, {none}
        dec rbx
        jnz 6b
    7:  mov eax, {service_done}
        syscall
        ud2                             # reached after a bare round trip; the fault ends bare round trips (end_bare)
        jmp 7b
    user_program_end:
    "#,
    write = const WRITE,
    exit = const EXIT,
    service_done = const SERVICE_DONE,
    none = const NONE,
    page = const FRAME_BYTES,
);

unsafe extern "C" {
    static entry_traced: u8;
    static entry_flat: u8;
    static entry_cached: u8;
    static entry_lean: u8;
    static entry_bare: u8;
    static user_program: u8;
    static service_program: u8;
    static calls_program: u8;
    static rounds_program: u8;
    static user_program_end: u8;
}

/// The registers of the process, as an entry saves them.
#[repr(C)]
pub struct Registers {
    r15: u64,
    r14: u64,
    r13: u64,
    r12: u64,
    r11: u64,
    pub r10: u64,
    pub r9: u64,
    pub r8: u64,
    rbp: u64,
    pub rdi: u64,
    pub rsi: u64,
    pub rdx: u64,
    rcx: u64,
    rbx: u64,
    pub rax: u64,
    rsp: u64,
}

const _: () = assert!(size_of::<Registers>() == 16 * 8);

impl Registers {
    /// Address at which the process continues.
    pub fn rip(&self) -> u64 {
        self.rcx
    }
}

/// True while system calls are bare round trips.
static IS_BARE: AtomicBool = AtomicBool::new(false);

/// Address of a service's program in user space.
pub fn service_entry() -> u64 {
    in_user_space(&raw const service_program)
}

/// Address of the loop with calls in user space.
pub fn calls_entry() -> u64 {
    in_user_space(&raw const calls_program)
}

/// Address of the loop without calls in user space.
pub fn rounds_entry() -> u64 {
    in_user_space(&raw const rounds_program)
}

fn in_user_space(program: *const u8) -> u64 {
    USER_BASE + (program.addr() - (&raw const user_program).addr()) as u64
}

/// Sets the entry address of system calls on this CPU.
pub fn start() {
    let segments = selectors();
    Star::write(segments.user_code, segments.user_data, segments.kernel_code, segments.kernel_data)
        .expect("syscall::start: the segments are not in the order of sysret");
    LStar::write(VirtAddr::from_ptr(chosen_entry()));
    SFMask::write(RFlags::INTERRUPT_FLAG | RFlags::DIRECTION_FLAG | RFlags::TRAP_FLAG);
}

fn chosen_entry() -> *const u8 {
    match boot::switches().syscall {
        Syscall::Traced => &raw const entry_traced,
        Syscall::Flat => &raw const entry_flat,
        Syscall::Cached => &raw const entry_cached,
        Syscall::Lean => &raw const entry_lean,
    }
}

/// Makes this CPU only return from each system call. A process ends that by an invalid instruction.
pub fn begin_bare() {
    IS_BARE.store(true, Ordering::Relaxed);
    LStar::write(VirtAddr::from_ptr(&raw const entry_bare));
}

/// Ends bare round trips. Returns false if there were none.
pub fn end_bare() -> bool {
    let was_bare = IS_BARE.swap(false, Ordering::Relaxed);
    if was_bare {
        LStar::write(VirtAddr::from_ptr(chosen_entry()));
    }
    was_bare
}

#[unsafe(no_mangle)]
extern "sysv64" fn syscall_traced(registers: &mut Registers) {
    contexts::track(registers);
    let result = noted_and_looked_up(registers);
    contexts::untrack();
    registers.rax = result;
}

#[unsafe(no_mangle)]
extern "sysv64" fn syscall_flat(registers: &mut Registers) {
    registers.rax = noted_and_looked_up(registers);
}

#[unsafe(no_mangle)]
extern "sysv64" fn syscall_cached(registers: &mut Registers) {
    contexts::note(Call::of(registers));
    let result = with_cached_stops(registers);
    contexts::forget();
    registers.rax = result;
}

#[unsafe(no_mangle)]
extern "sysv64" fn syscall_lean(registers: &mut Registers) {
    registers.rax = with_cached_stops(registers);
}

#[inline(always)]
fn noted_and_looked_up(registers: &Registers) -> u64 {
    contexts::note(Call::of(registers));
    contexts::stop_if_in_session(BEFORE, None);
    let result = answer(registers);
    contexts::stop_if_in_session(AFTER, Some(result));
    contexts::forget();
    result
}

#[inline(always)]
fn with_cached_stops(registers: &Registers) -> u64 {
    contexts::stop_if_cached(BEFORE, None);
    let result = answer(registers);
    contexts::stop_if_cached(AFTER, Some(result));
    result
}

/// Runs the requested system call.
#[inline(always)]
fn answer(registers: &Registers) -> u64 {
    match registers.rax {
        WRITE => write(registers.rdi, registers.rsi),
        EXIT => crate::init::done(),
        SERVICE_DONE => crate::services::done(),
        _ => NO_SUCH_CALL,
    }
}

fn write(address: u64, bytes: u64) -> u64 {
    let in_user_space = address >= USER_BASE && bytes <= MAX_WRITE_BYTES && address - USER_BASE <= USER_BYTES - bytes;
    if !in_user_space {
        return BAD_ADDRESS;
    }
    // SAFETY: by the check above, the range lies in the two pages from USER_BASE on, which `load_user_program` mapped.
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

/// Enters user space. The CPU returns only by system calls.
pub fn enter_user_program() -> ! {
    let segments = selectors();
    x86_64::instructions::interrupts::disable();
    // SAFETY: iretq takes a user's frame, which refers to the two pages that `load_user_program` mapped. GS is swapped, as the
    // entry expects.
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
