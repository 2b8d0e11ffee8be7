//! User processes that are started before the boot is done (`services=`), as a system starts its daemons: the load under
//! which a frame allocator shows.
//!
//! Each service is a process that stays, with a start-up script beside it that does not. Both touch one page after the
//! other, in turn, and get a frame for each by a fault, as with demand paging. Then the script ends, and its frames come
//! back: every second one. How many pages they touch is chosen, not measured. What a service would do with its pages is left out:
//! it writes a byte into each.
//!
//! They run one after the other on the thread that starts them, in the one address space there is.

use crate::console::verbose;
use crate::paging::{self, USER_BASE};
use crate::{boot, contexts, cpu, descriptors, memory};
use core::arch::global_asm;
use lab::memory_map::FRAME_BYTES;
use x86_64::structures::paging::PageTableFlags as Flags;

/// How many pages a service touches, and its script as well: 2 MiB each.
const PAGES: u64 = 512;
/// Addresses of the first service. The process of `syscall.rs` lies below.
const BASE: u64 = USER_BASE + (1 << 30);
const SPACING_BYTES: u64 = 64 << 20;
/// Where in a service's addresses its script's begin.
const SCRIPT: u64 = SPACING_BYTES / 2;
const END: u64 = BASE + SPACING_BYTES * lab::switches::SERVICES_MAX as u64;

global_asm!(
    r#"
    .section .text.run_user, "ax"
    # Goes to user space at rdi, with three registers from rsi, rdx and rcx. Comes back when the program says that it is done.
    .global run_user
    run_user:
        push rbp
        mov rbp, rsp
        push rbx
        push r12
        push r13
        push r14
        push r15
        sub rsp, 8
        cli
        mov gs:[24], rsp                # system calls begin below
        push {user_data}
        push 0                          # it has no stack
        push 0x202                      # interrupts on
        push {user_code}
        push rdi
        mov rdi, rsi
        mov rsi, rdx
        mov rdx, rcx
        swapgs
        iretq

    # From a system call of that program's: back to who called `run_user`.
    .global user_is_done
    user_is_done:
        mov rsp, gs:[24]
        add rsp, 8
        pop r15
        pop r14
        pop r13
        pop r12
        pop rbx
        pop rbp
        ret
    "#,
    user_data = const descriptors::USER_DATA,
    user_code = const descriptors::USER_CODE,
);

unsafe extern "sysv64" {
    fn run_user(rip: u64, first: u64, second: u64, pages: u64);
    fn user_is_done() -> !;
}

/// Starts them all. The program's text is mapped (`syscall::load_user_program`).
pub fn start() {
    for nth in 0..boot::switches().services {
        start_one(BASE + u64::from(nth) * SPACING_BYTES);
    }
    if boot::switches().services > 0 {
        verbose!("services: {} started, {} pages each", boot::switches().services, PAGES);
    }
}

#[inline(never)]
fn start_one(service: u64) {
    let _scope = tslog::scope!("service_start");
    run(crate::syscall::service_entry(), service, service + SCRIPT, PAGES);
    end_script(service + SCRIPT);
}

/// Runs one of the user programs (`syscall.rs`) until it says that it is done, with three registers.
pub fn run(entry: u64, first: u64, second: u64, third: u64) {
    let kernel_rsp = cpu::this().kernel_rsp.get();
    // SAFETY: the program is mapped; nothing that it calls switches threads, so that it comes back on this stack.
    unsafe { run_user(entry, first, second, third) };
    cpu::this().kernel_rsp.set(kernel_rsp);
    contexts::leave();
}

/// The script ends: its pages are unmapped and its frames free.
#[inline(never)]
fn end_script(script: u64) {
    let _scope = tslog::scope!("process_exit");
    for page in (script..script + PAGES * FRAME_BYTES).step_by(FRAME_BYTES as usize) {
        if let Some(frame) = paging::unmap(page) {
            memory::free_frames(frame, 1);
        }
    }
}

/// A program that `run` started is done (`syscall.rs`).
pub fn done() -> ! {
    // SAFETY: only such a program says so, and `run_user` waits for it.
    unsafe { user_is_done() }
}

/// A page that is not there yet was touched. False if it is nobody's.
#[inline(never)]
pub fn page_fault(address: u64) -> bool {
    if !(BASE..END).contains(&address) {
        return false;
    }
    let _scope = tslog::scope!("page_fault");
    paging::map(address & !(FRAME_BYTES - 1), memory::allocate_frame(), paging::DATA | Flags::USER_ACCESSIBLE);
    true
}
