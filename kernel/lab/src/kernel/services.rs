//! User processes that are started before the boot is done (`services=`), as a system starts its daemons. They are a load that
//! makes the frame allocator's cost visible.
//!
//! A service is a process that stays, with a start-up script beside it that ends. Both touch one page after the other, in turn,
//! and get a frame for each page by a fault, as with demand paging. Then the script ends, and its frames are freed: every second
//! frame. The number of pages is chosen, not measured. A service only writes a byte into each page.
//!
//! The services run one after the other on the thread that starts them, in the kernel's only address space.

use crate::console::verbose;
use crate::paging::{self, USER_BASE};
use crate::{boot, contexts, cpu, descriptors, memory};
use core::arch::global_asm;
use lab::memory_map::FRAME_BYTES;
use x86_64::structures::paging::PageTableFlags as Flags;

/// Number of pages that a service touches. Its script touches as many: 2 MiB each.
const PAGES: u64 = 512;
/// Address of the first service. The process of `syscall.rs` lies below.
const BASE: u64 = USER_BASE + (1 << 30);
const SPACING_BYTES: u64 = 64 << 20;
/// Offset of the script's addresses in a service's addresses.
const SCRIPT: u64 = SPACING_BYTES / 2;
const END: u64 = BASE + SPACING_BYTES * lab::switches::SERVICES_MAX as u64;

global_asm!(
    r#"
    .section .text.run_user, "ax"
    # Enters user space at rdi, with three registers from rsi, rdx and rcx. Returns when the program reports that it is done.
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
        push 0                          # the program has no stack
        push 0x202                      # interrupts on
        push {user_code}
        push rdi
        mov rdi, rsi
        mov rsi, rdx
        mov rdx, rcx
        swapgs
        iretq

    # Returns from a system call of that program to the caller of `run_user`.
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

/// Starts all services. `syscall::load_user_program` has mapped the program's text.
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

/// Runs one of the user programs (`syscall.rs`) with three registers, until it reports that it is done.
pub fn run(entry: u64, first: u64, second: u64, third: u64) {
    let kernel_rsp = cpu::this().kernel_rsp.get();
    // SAFETY: the program is mapped. Its system calls do not switch threads, so it returns on this stack.
    unsafe { run_user(entry, first, second, third) };
    cpu::this().kernel_rsp.set(kernel_rsp);
    contexts::leave();
}

/// Ends a script: unmaps its pages and frees its frames.
#[inline(never)]
fn end_script(script: u64) {
    let _scope = tslog::scope!("process_exit");
    for page in (script..script + PAGES * FRAME_BYTES).step_by(FRAME_BYTES as usize) {
        if let Some(frame) = paging::unmap(page) {
            memory::free_frames(frame, 1);
        }
    }
}

/// Ends a program that `run` started, from its system call (`syscall.rs`).
pub fn done() -> ! {
    // SAFETY: only such a program makes this call, and `run_user` waits for it.
    unsafe { user_is_done() }
}

/// Handles a fault on an unmapped page. Returns false if the page belongs to no service.
#[inline(never)]
pub fn page_fault(address: u64) -> bool {
    if !(BASE..END).contains(&address) {
        return false;
    }
    let _scope = tslog::scope!("page_fault");
    paging::map(address & !(FRAME_BYTES - 1), memory::allocate_frame(), paging::DATA | Flags::USER_ACCESSIBLE);
    true
}
