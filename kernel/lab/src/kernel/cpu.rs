//! What is each CPU's own, and the instructions that Rust has no word for.
//!
//! GS points at the running CPU's [`Cpu`]: from `pvh_entry` on for the first one, from its trampoline on for every other
//! one. Fields are written by that CPU only, but for `prepare`, and read by others in `apic_id_of` alone. `thread_id` is
//! read in any context: the few instructions around `swapgs` (`syscall.rs`), where an NMI finds the user's GS, are `nmi_entry`'s to know.

use core::arch::asm;
use core::cell::{Cell, UnsafeCell};
use core::mem::offset_of;
use core::ops::Range;
use core::sync::atomic::{AtomicU32, Ordering};

/// More CPUs than these are left asleep.
pub const CPUS_MAX: usize = lab::switches::CPUS_MAX as usize;

#[repr(C, align(4096))]
pub struct Cpu {
    /// Its own address: what `gs:[0]` reads.
    this: Cell<u64>,
    /// The running thread, for the recorder.
    pub thread_id: Cell<u64>,
    /// The user's stack pointer while a system call runs.
    pub user_rsp: Cell<u64>,
    /// The running thread's stack, for a system call to begin on.
    pub kernel_rsp: Cell<u64>,
    /// 0 is the one that booted.
    pub index: Cell<u32>,
    pub apic_id: Cell<u32>,
    /// How many locks this CPU holds; interrupts are off while it is not 0.
    pub locks_held: Cell<u32>,
    pub interrupts_were_on: Cell<bool>,
    /// At which stops of the running thread a tracer wants to be told (`contexts.rs`).
    pub stops: Cell<u8>,
    /// The running thread's place in the table; `NO_THREAD` in the scheduler.
    pub current: Cell<u16>,
    /// The scheduler's stack pointer while a thread runs.
    pub scheduler_rsp: Cell<u64>,
    /// The scheduler's stack: where it begins, and its length.
    pub scheduler_stack: Cell<(u64, u64)>,
    pub descriptors: UnsafeCell<crate::descriptors::Descriptors>,
}

const _: () = assert!(offset_of!(Cpu, this) == 0 && offset_of!(Cpu, thread_id) == 8);
const _: () = assert!(offset_of!(Cpu, user_rsp) == 16 && offset_of!(Cpu, kernel_rsp) == 24);

// SAFETY: each CPU writes only its own; what `prepare` writes, and others read, is written before that CPU is started.
unsafe impl Sync for Cpu {}

/// By number. The first is what `pvh_entry` calls `boot_cpu`.
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
    /// The addresses of the scheduler's stack.
    pub fn scheduler_stack(&self) -> Range<u64> {
        let (start, bytes) = self.scheduler_stack.get();
        start..start + bytes
    }
}

/// How many CPUs run.
pub static RUNNING: AtomicU32 = AtomicU32::new(1);

/// The CPU that runs this.
#[inline(always)]
pub fn this() -> &'static Cpu {
    let cpu: *const Cpu;
    // SAFETY: GS points at a `Cpu`, which begins with its own address, from before the first Rust instruction on.
    unsafe {
        asm!("mov {}, gs:[0]", out(reg) cpu, options(nostack, readonly, preserves_flags));
        &*cpu
    }
}

/// The running thread's id; thread0's from the first event on.
#[inline(always)]
pub fn thread_id() -> u64 {
    let id: u64;
    // SAFETY: as in `this`.
    unsafe { asm!("mov {}, gs:[8]", out(reg) id, options(nostack, readonly, preserves_flags)) };
    id
}

/// Makes an application processor's own data ready, before it is started. Returns its address, for GS.
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

/// The local APIC's number of each running CPU.
pub fn apic_id_of(index: u32) -> u32 {
    CPUS[index as usize].apic_id.get()
}

/// How many CPUs run.
pub fn running() -> u32 {
    RUNNING.load(Ordering::Acquire)
}

#[inline(always)]
pub fn rdtsc() -> u64 {
    // SAFETY: reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

pub fn interrupts_are_on() -> bool {
    x86_64::instructions::interrupts::are_enabled()
}

#[inline(always)]
pub fn inb(port: u16) -> u8 {
    let value: u8;
    // SAFETY: port input does not touch memory; what it does to the device is the caller's business.
    unsafe { asm!("in al, dx", in("dx") port, out("al") value, options(nomem, nostack, preserves_flags)) };
    value
}

#[inline(always)]
pub fn outb(port: u16, value: u8) {
    // SAFETY: no port that this kernel writes starts DMA, so memory is not touched.
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

/// Some hundred instructions that do nothing: between two readings of a slow port.
pub fn spin(rounds: u32) {
    for _ in 0..rounds {
        // SAFETY: does nothing.
        unsafe { asm!("nop", options(nomem, nostack, preserves_flags)) };
    }
}

/// What no CPU executes.
pub fn invalid_instruction() -> ! {
    // SAFETY: it faults, and a fault never comes back.
    unsafe { asm!("ud2", options(noreturn, nomem, nostack)) }
}

/// For ever, with interrupts off.
pub fn stop() -> ! {
    loop {
        x86_64::instructions::interrupts::disable();
        x86_64::instructions::hlt();
    }
}
