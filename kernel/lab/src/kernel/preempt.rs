//! Preemption: a thread that allows it yields when a timer interrupt has woken another thread.
//!
//! The rest of this kernel must stay cooperative. Only code inside [`allowed`] is preempted, and only with `preempt=full`. An
//! interrupt's handler cannot switch threads itself, because its stack belongs to the CPU, not to the thread. It makes the
//! interrupted code continue at `preempted`, as if that code had called it.

use crate::registers::{pop_registers, push_registers};
use crate::trap::Frame;
use crate::{boot, cpu, thread};
use core::arch::global_asm;
use core::sync::atomic::{AtomicU16, Ordering};
use lab::switches::Preempt;

/// Size of the area below its stack pointer that compiled code may use (System V ABI).
const RED_ZONE_BYTES: u64 = 128;

/// The thread that may be preempted; there is at most one.
static ALLOWED: AtomicU16 = AtomicU16::new(thread::NO_THREAD);

/// Runs `work`, during which this thread may be preempted.
pub fn allowed(work: impl FnOnce()) {
    ALLOWED.store(cpu::this().current.get(), Ordering::Relaxed);
    work();
    ALLOWED.store(thread::NO_THREAD, Ordering::Relaxed);
}

/// Yields if another thread waits for this CPU. A thread calls it at a point where it can yield.
pub fn point() {
    if boot::switches().preempt == Preempt::Voluntary && thread::others_can_run() {
        thread::yield_now();
    }
}

/// Called after an interrupt has woken its threads. Makes the interrupted thread yield if it may be preempted and another thread
/// waits.
pub fn after_interrupt(frame: &mut Frame) {
    let is_allowed = boot::switches().preempt == Preempt::Full
        && frame.cs & 3 == 0
        && cpu::this().current.get() == ALLOWED.load(Ordering::Relaxed)
        && cpu::this().current.get() != thread::NO_THREAD;
    if is_allowed && thread::others_can_run() {
        let rsp = frame.rsp - RED_ZONE_BYTES - 8;
        // SAFETY: the address is below the red zone of a thread's stack. It is mapped and unused: the thread is interrupted, and
        // its guard page is 32 KiB below its top, of which `allowed` work uses a few hundred bytes.
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
    /// Continues interrupted code by yielding. Saves the registers that a call would not save.
    fn preempted();
}

#[unsafe(no_mangle)]
extern "sysv64" fn yield_preempted() {
    thread::yield_now();
}
