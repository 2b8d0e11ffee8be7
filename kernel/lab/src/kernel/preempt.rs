//! Preemption: a thread that allows it gives way when a timer interrupt has woken another.
//!
//! The rest of this kernel is cooperative, and stays so: only what runs inside [`allowed`] is preempted, and only with
//! `preempt=full`. An interrupt's handler cannot switch threads itself, because its stack is the CPU's, not the thread's.
//! It lets the interrupted code go on at `preempted`, as if that code had called it.

use crate::registers::{pop_registers, push_registers};
use crate::trap::Frame;
use crate::{boot, cpu, thread};
use core::arch::global_asm;
use core::sync::atomic::{AtomicU16, Ordering};
use lab::switches::Preempt;

/// Compiled code may use as much below its stack pointer (System V ABI).
const RED_ZONE_BYTES: u64 = 128;

/// The thread that may be preempted; there is one at most.
static ALLOWED: AtomicU16 = AtomicU16::new(thread::NO_THREAD);

/// Does some work, during which this thread may be preempted.
pub fn allowed(work: impl FnOnce()) {
    ALLOWED.store(cpu::this().current.get(), Ordering::Relaxed);
    work();
    ALLOWED.store(thread::NO_THREAD, Ordering::Relaxed);
}

/// Gives way if somebody waits for this CPU: what a thread calls where it may.
pub fn point() {
    if boot::switches().preempt == Preempt::Voluntary && thread::others_can_run() {
        thread::yield_now();
    }
}

/// An interrupt has woken whom it had to. The interrupted thread gives way if it may and somebody waits.
pub fn after_interrupt(frame: &mut Frame) {
    let may = boot::switches().preempt == Preempt::Full
        && frame.cs & 3 == 0
        && cpu::this().current.get() == ALLOWED.load(Ordering::Relaxed)
        && cpu::this().current.get() != thread::NO_THREAD;
    if may && thread::others_can_run() {
        let rsp = frame.rsp - RED_ZONE_BYTES - 8;
        // SAFETY: below the red zone of a thread's stack, which is mapped and in nobody's use: the thread is interrupted,
        // and its guard page is 32 KiB below its top, of which `allowed` work uses a few hundred bytes.
        unsafe { (rsp as *mut u64).write(frame.rip) };
        frame.rsp = rsp;
        frame.rip = preempted as *const () as u64;
    }
}

global_asm!(
    r#"
    .section .text.preempt, "ax"
    .global preempted
    preempted:
        pushfq
    "#,
    push_registers!(),
    r#"
        mov rbp, rsp
        sub rsp, 512
        and rsp, -16
        fxsave64 [rsp]
        cld
        call yield_preempted
        fxrstor64 [rsp]
        mov rsp, rbp
    "#,
    pop_registers!(),
    r#"
        popfq
        ret 128     # back to the interrupted instruction, above the red zone
    "#
);

unsafe extern "sysv64" {
    /// Where interrupted code goes on that gives way: saves what a call would not.
    fn preempted();
}

#[unsafe(no_mangle)]
extern "sysv64" fn yield_preempted() {
    thread::yield_now();
}
