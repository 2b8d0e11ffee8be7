//! Interrupts and faults: 256 stubs that lead to one function.
//!
//! A stub saves all general registers, and with `fxsave64` those of SSE, which compiled code uses everywhere. A fault in the
//! kernel is a bug, and panics with the details; `probe_read.rs` is the exception. A user process's fault panics too, except on
//! a service's pages and at the end of bare system calls.

use crate::descriptors::{IST_DOUBLE_FAULT, IST_FAULT, IST_INTERRUPT, IST_NMI};
use crate::registers::{pop_registers, push_registers};
use crate::{apic, clock, preempt, probe_read, services, shootdown, syscall};
use core::arch::global_asm;
use core::cell::UnsafeCell;
use x86_64::VirtAddr;
use x86_64::registers::control::Cr2;
use x86_64::structures::DescriptorTablePointer;
use x86_64::structures::idt::InterruptDescriptorTable;

const INVALID_OPCODE: u8 = 6;
const PAGE_FAULT: u8 = 14;
/// Vector of this CPU's local APIC timer.
pub const TIMER: u8 = 0x20;
/// Vector by which another CPU reports a runnable thread, or an earlier wake-up.
pub const RESCHEDULE: u8 = 0x21;
/// Vector by which another CPU requests a TLB shootdown.
pub const SHOOTDOWN: u8 = 0x22;
/// Vector of spurious interrupts of the local APIC.
pub const SPURIOUS: u8 = 0xff;
const STUB_BYTES: u64 = 16;
const UD2_BYTES: u64 = 2;

/// The registers that a stub and the CPU push on the stack.
#[repr(C)]
pub struct Frame {
    r15: u64,
    r14: u64,
    r13: u64,
    r12: u64,
    r11: u64,
    r10: u64,
    r9: u64,
    r8: u64,
    rbp: u64,
    rdi: u64,
    rsi: u64,
    rdx: u64,
    rcx: u64,
    rbx: u64,
    rax: u64,
    vector: u64,
    error: u64,
    pub rip: u64,
    pub cs: u64,
    rflags: u64,
    pub rsp: u64,
    ss: u64,
}

const _: () = assert!(size_of::<Frame>() == 22 * 8);

global_asm!(
    r#"
    .section .text.trap, "ax"
    .balign 16
    .global trap_stubs
    trap_stubs:
    .set vector, 0
    .rept 256
        .balign 16
        # Vectors 8, 10 to 14, 17, 21, 29 and 30 have an error code.
        .if (vector != 8) && (vector < 10 || vector > 14) && (vector != 17) && (vector != 21) && (vector != 29) && (vector != 30)
            push 0
        .endif
        push vector
        jmp trap_common
        .set vector, vector + 1
    .endr
    .balign 16
    trap_common:
        test byte ptr [rsp + 24], 3     # CS: after user space, GS is the user's
        jz 1f
        swapgs
    1:
    "#,
    push_registers!(),
    r#"
        cld
        mov rdi, rsp
        mov rbx, rsp
        sub rsp, 512
        and rsp, -16
        fxsave64 [rsp]
        # A frame as if the interrupted code had called this, so that a walk up the stack continues there, but not into user code.
        test byte ptr [rbx + 18 * 8], 3
        jz 3f
        xor ebp, ebp
    3:  push qword ptr [rbx + 17 * 8]
        push rbp
        mov rbp, rsp
        call trap
        add rsp, 16
        fxrstor64 [rsp]
        mov rsp, rbx
    "#,
    pop_registers!(),
    r#"
        add rsp, 16
        test byte ptr [rsp + 8], 3
        jz 2f
        swapgs
    2:  iretq

    # A non-maskable interrupt comes anywhere, also where GS is still or already the user's, which is 0. Its handler must not
    # fault: the return from the fault would allow the next NMI on this stack.
    .global nmi_entry
    nmi_entry:
        push rax
        push rcx
        push rdx
        push rbx
        push rsi
        push rdi
        push rbp
        push r8
        push r9
        push r10
        push r11
        mov rbp, rsp
        xor ebx, ebx
        mov ecx, 0xc0000101             # GS base
        rdmsr
        or eax, edx
        jnz 4f
        swapgs
        inc ebx
    4:  cld
        mov rdi, rsp
        sub rsp, 512
        and rsp, -16
        fxsave64 [rsp]
        call nmi
        fxrstor64 [rsp]
        mov rsp, rbp
        test ebx, ebx
        jz 5f
        swapgs
    5:  pop r11
        pop r10
        pop r9
        pop r8
        pop rbp
        pop rdi
        pop rsi
        pop rbx
        pop rdx
        pop rcx
        pop rax
        iretq
    "#
);

/// The registers that `nmi_entry` and the CPU push on the stack.
#[repr(C)]
pub struct NmiFrame {
    saved: [u64; 4],
    pub rbp: u64,
    others: [u64; 6],
    pub rip: u64,
    pub cs: u64,
    rflags: u64,
    pub rsp: u64,
    ss: u64,
}

const _: () = assert!(core::mem::offset_of!(NmiFrame, rip) == 11 * 8);

unsafe extern "C" {
    static trap_stubs: u8;
    static nmi_entry: u8;
}

struct Table(UnsafeCell<InterruptDescriptorTable>);

// SAFETY: `load` writes it on the first CPU, before there is a second. Afterwards only the CPUs read it.
unsafe impl Sync for Table {}

static TABLE: Table = Table(UnsafeCell::new(InterruptDescriptorTable::new()));

/// Fills the table and loads it on the first CPU.
pub fn load() {
    // SAFETY: there is only this CPU, and no interrupt yet.
    let table = unsafe { &mut *TABLE.0.get() };
    macro_rules! fault {
        ($($entry:ident $vector:literal $stack:expr,)*) => {$({
            // SAFETY: it is the stub for this vector, on a stack that `descriptors` has set up.
            unsafe { table.$entry.set_handler_addr(stub($vector)).set_stack_index($stack) };
        })*};
    }
    fault! {
        divide_error 0 IST_FAULT, debug 1 IST_FAULT, breakpoint 3 IST_FAULT,
        overflow 4 IST_FAULT, bound_range_exceeded 5 IST_FAULT, invalid_opcode 6 IST_FAULT,
        device_not_available 7 IST_FAULT, double_fault 8 IST_DOUBLE_FAULT, invalid_tss 10 IST_FAULT,
        segment_not_present 11 IST_FAULT, stack_segment_fault 12 IST_FAULT, general_protection_fault 13 IST_FAULT,
        page_fault 14 IST_FAULT, x87_floating_point 16 IST_FAULT, alignment_check 17 IST_FAULT,
        machine_check 18 IST_DOUBLE_FAULT, simd_floating_point 19 IST_FAULT,
    }
    // SAFETY: as above.
    unsafe {
        let entry = VirtAddr::from_ptr(&raw const nmi_entry);
        table.non_maskable_interrupt.set_handler_addr(entry).set_stack_index(IST_NMI);
    }
    for vector in 32..=255u8 {
        // SAFETY: as above.
        unsafe { table[vector].set_handler_addr(stub(u64::from(vector))).set_stack_index(IST_INTERRUPT) };
    }
    load_again();
}

/// Loads the table on another CPU.
pub fn load_again() {
    // SAFETY: the table lives for ever and is complete.
    unsafe { (*TABLE.0.get()).load_unsafe() };
}

/// Unloads the table, so that the next fault is a triple fault, which resets every machine.
pub fn unload() {
    x86_64::instructions::interrupts::disable();
    let empty = DescriptorTablePointer { limit: 0, base: VirtAddr::zero() };
    // SAFETY: interrupts are off, and a fault is meant to reset the machine now.
    unsafe { x86_64::instructions::tables::lidt(&empty) };
}

fn stub(vector: u64) -> VirtAddr {
    VirtAddr::from_ptr(&raw const trap_stubs) + vector * STUB_BYTES
}

#[unsafe(no_mangle)]
extern "sysv64" fn trap(frame: &mut Frame) {
    match frame.vector as u8 {
        TIMER => {
            apic::end_of_interrupt();
            clock::timer_interrupt();
            preempt::after_interrupt(frame);
        }
        RESCHEDULE => {
            apic::end_of_interrupt();
            clock::look_again();
        }
        SHOOTDOWN => {
            apic::end_of_interrupt();
            shootdown::answer();
        }
        SPURIOUS => {}
        PAGE_FAULT if frame.cs & 3 != 0 && services::page_fault(Cr2::read_raw()) => {}
        PAGE_FAULT if frame.cs & 3 == 0 && probe_read::recover(frame) => {}
        INVALID_OPCODE if frame.cs & 3 != 0 && syscall::end_bare() => frame.rip += UD2_BYTES,
        _ => fault(frame),
    }
}

fn fault(frame: &Frame) -> ! {
    const NAMES: [&str; 20] = [
        "divide error",
        "debug",
        "non-maskable interrupt",
        "breakpoint",
        "overflow",
        "bound range",
        "invalid opcode",
        "no device",
        "double fault",
        "coprocessor",
        "invalid TSS",
        "no segment",
        "stack segment",
        "general protection",
        "page fault",
        "reserved",
        "x87",
        "alignment",
        "machine check",
        "SIMD",
    ];
    let name = NAMES.get(frame.vector as usize).copied().unwrap_or("unexpected interrupt");
    panic!(
        "trap: {name} (vector {}, error {:#x}) at {:#x}, address {:#x}, stack {:#x}, {} mode",
        frame.vector,
        frame.error,
        frame.rip,
        Cr2::read_raw(),
        frame.rsp,
        if frame.cs & 3 == 0 { "kernel" } else { "user" },
    );
}
