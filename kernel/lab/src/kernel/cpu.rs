//! The data of each CPU, and instructions that Rust has no function for.
//!
//! GS points at the running CPU's [`Cpu`]: from `pvh_entry` on for the first CPU, from its trampoline on for every other one.
//! Only that CPU may write its fields, except in `prepare`, and other CPUs may read them in `apic_id_of` alone. `thread_id` is
//! read in any context. In the few instructions around `swapgs` (`syscall.rs`) an NMI finds the user's GS; `nmi_entry` handles
//! that.

use core::arch::asm;
use core::cell::{Cell, UnsafeCell};
use core::mem::offset_of;
use core::ops::Range;
use core::sync::atomic::{AtomicU32, Ordering};

/// Largest number of running CPUs. Further ones stay asleep.
pub const CPUS_MAX: usize = lab::switches::CPUS_MAX as usize;

#[repr(C, align(4096))]
pub struct Cpu {
    /// Address of this structure, which `gs:[0]` reads.
    this: Cell<u64>,
    /// Id of the running thread, for the recorder.
    pub thread_id: Cell<u64>,
    /// The user's stack pointer while a system call runs.
    pub user_rsp: Cell<u64>,
    /// Stack pointer at which a system call of the running thread begins.
    pub kernel_rsp: Cell<u64>,
    /// Number of the CPU; 0 is the CPU that booted.
    pub index: Cell<u32>,
    pub apic_id: Cell<u32>,
    /// Number of locks that this CPU holds. Interrupts are off while it is not 0.
    pub locks_held: Cell<u32>,
    pub interrupts_were_on: Cell<bool>,
    /// The running thread's stops for a tracer (`contexts.rs`).
    pub stops: Cell<u8>,
    /// Slot of the running thread in the table; `NO_THREAD` in the scheduler.
    pub current: Cell<u16>,
    /// The scheduler's stack pointer while a thread runs.
    pub scheduler_rsp: Cell<u64>,
    /// Start and length of the scheduler's stack.
    pub scheduler_stack: Cell<(u64, u64)>,
    pub descriptors: UnsafeCell<crate::descriptors::Descriptors>,
}

const _: () = assert!(offset_of!(Cpu, this) == 0 && offset_of!(Cpu, thread_id) == 8);
const _: () = assert!(offset_of!(Cpu, user_rsp) == 16 && offset_of!(Cpu, kernel_rsp) == 24);

// SAFETY: each CPU writes only its own entry. `prepare` writes the fields that other CPUs read, before that CPU is started.
unsafe impl Sync for Cpu {}

/// The CPUs by number. `pvh_entry` calls the first one `boot_cpu`.
#[unsafe(export_name = "boot_cpu")]
static CPUS: [Cpu; CPUS_MAX] = [const {
    Cpu {
        this: Cell::new(0),
        thread_id: Cell::new(0),
        user_rsp: Cell::new(0),
        kernel_rsp: Cell::new(0),
        index: Cell::new(0),
        apic_id: Cell::new(0),
        locks_held: Cell::new(0),
        interrupts_were_on: Cell::new(false),
        stops: Cell::new(0),
        current: Cell::new(0),
        scheduler_rsp: Cell::new(0),
        scheduler_stack: Cell::new((0, 0)),
        descriptors: UnsafeCell::new(crate::descriptors::Descriptors::new()),
    }
}; CPUS_MAX];

impl Cpu {
    /// Addresses of the scheduler's stack.
    pub fn scheduler_stack(&self) -> Range<u64> {
        let (start, bytes) = self.scheduler_stack.get();
        start..start + bytes
    }
}

/// Number of running CPUs.
pub static RUNNING: AtomicU32 = AtomicU32::new(1);

/// The CPU that runs this code.
#[inline(always)]
pub fn this() -> &'static Cpu {
    let cpu: *const Cpu;
    // SAFETY: GS points at a `Cpu`, which begins with its own address, from before the first Rust instruction on.
    unsafe {
        asm!("mov {}, gs:[0]", out(reg) cpu, options(nostack, readonly, preserves_flags));
        &*cpu
    }
}

/// Id of the running thread. It is thread0's from the first event on.
#[inline(always)]
pub fn thread_id() -> u64 {
    let id: u64;
    // SAFETY: as in `this`.
    unsafe { asm!("mov {}, gs:[8]", out(reg) id, options(nostack, readonly, preserves_flags)) };
    id
}

/// Prepares an application processor's data before the processor is started. Returns the data's address, for GS.
pub fn prepare(index: usize, apic_id: u32, stack: Range<u64>) -> u64 {
    let cpu = &CPUS[index];
    let address = core::ptr::from_ref(cpu).addr() as u64;
    cpu.this.set(address);
    cpu.index.set(index as u32);
    cpu.scheduler_stack.set((stack.start, stack.end - stack.start));
    cpu.apic_id.set(apic_id);
    cpu.thread_id.set(crate::thread::idle_id(index as u32));
    cpu.current.set(crate::thread::NO_THREAD);
    address
}

/// The local APIC id of a running CPU.
pub fn apic_id_of(index: u32) -> u32 {
    CPUS[index as usize].apic_id.get()
}

/// Number of running CPUs.
pub fn running() -> u32 {
    RUNNING.load(Ordering::Acquire)
}

#[inline(always)]
pub fn rdtsc() -> u64 {
    // SAFETY: it only reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

pub fn interrupts_are_on() -> bool {
    x86_64::instructions::interrupts::are_enabled()
}

#[inline(always)]
pub fn inb(port: u16) -> u8 {
    let value: u8;
    // SAFETY: port input does not touch memory. The caller answers for its effect on the device.
    unsafe { asm!("in al, dx", in("dx") port, out("al") value, options(nomem, nostack, preserves_flags)) };
    value
}

#[inline(always)]
pub fn outb(port: u16, value: u8) {
    // SAFETY: no port that this kernel writes starts DMA, so it does not touch memory.
    unsafe { asm!("out dx, al", in("dx") port, in("al") value, options(nomem, nostack, preserves_flags)) };
}

pub fn outw(port: u16, value: u16) {
    // SAFETY: as for `outb`.
    unsafe { asm!("out dx, ax", in("dx") port, in("ax") value, options(nomem, nostack, preserves_flags)) };
}

pub fn inw(port: u16) -> u16 {
    let value: u16;
    // SAFETY: as for `inb`.
    unsafe { asm!("in ax, dx", in("dx") port, out("ax") value, options(nomem, nostack, preserves_flags)) };
    value
}

pub fn inl(port: u16) -> u32 {
    let value: u32;
    // SAFETY: as for `inb`.
    unsafe { asm!("in eax, dx", in("dx") port, out("eax") value, options(nomem, nostack, preserves_flags)) };
    value
}

pub fn outl(port: u16, value: u32) {
    // SAFETY: as for `outb`.
    unsafe { asm!("out dx, eax", in("dx") port, in("eax") value, options(nomem, nostack, preserves_flags)) };
}

/// Executes `rounds` instructions that do nothing, such as between two readings of a slow port.
pub fn spin(rounds: u32) {
    for _ in 0..rounds {
        // SAFETY: the instruction does nothing.
        unsafe { asm!("nop", options(nomem, nostack, preserves_flags)) };
    }
}

/// Executes an invalid instruction, which faults.
pub fn invalid_instruction() -> ! {
    // SAFETY: it faults, and a fault in the kernel never returns.
    unsafe { asm!("ud2", options(noreturn, nomem, nostack)) }
}

/// Stops this CPU for ever, with interrupts off.
pub fn stop() -> ! {
    loop {
        x86_64::instructions::interrupts::disable();
        x86_64::instructions::hlt();
    }
}
