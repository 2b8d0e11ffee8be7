//! The local APIC of each CPU: its timer, and interrupts to other CPUs. Also the I/O APIC, for sampling.

use crate::{cpu, trap};
use x86_64::registers::model_specific::Msr;

/// Address of the local APIC after reset. This kernel does not move it.
const BASE: u64 = 0xfee0_0000;
const ID: u64 = 0x20;
const END_OF_INTERRUPT: u64 = 0xb0;
const SPURIOUS_VECTOR: u64 = 0xf0;
const COMMAND_LOW: u64 = 0x300;
const COMMAND_HIGH: u64 = 0x310;
const LVT_TIMER: u64 = 0x320;
const LVT_LINT0: u64 = 0x350;
const INITIAL_COUNT: u64 = 0x380;
const CURRENT_COUNT: u64 = 0x390;
const DIVIDE: u64 = 0x3e0;

const SOFTWARE_ENABLE: u32 = 1 << 8;
const MASKED: u32 = 1 << 16;
const PERIODIC: u32 = 1 << 17;
const DIVIDE_BY_1: u32 = 0b1011;
const DELIVERY_NMI: u32 = 0b100 << 8;
const DELIVERY_INIT: u32 = 0b101 << 8;
const DELIVERY_STARTUP: u32 = 0b110 << 8;
const TO_ALL_OTHERS: u32 = 0b11 << 18;
const LEVEL_ASSERT: u32 = 1 << 14;
const DELIVERY_PENDING: u32 = 1 << 12;
const IA32_APIC_BASE: Msr = Msr::new(0x1b);
const GLOBAL_ENABLE: u64 = 1 << 11;

fn read(register: u64) -> u32 {
    // SAFETY: a register of the local APIC, which is mapped uncached.
    unsafe { ((BASE + register) as *const u32).read_volatile() }
}

fn write(register: u64, value: u32) {
    // SAFETY: as above. Only this file decides what a write does to other CPUs.
    unsafe { ((BASE + register) as *mut u32).write_volatile(value) }
}

/// Turns this CPU's local APIC on, with its timer stopped and the old interrupt controller's line masked.
pub fn start() {
    // SAFETY: every CPU with a local APIC has this register, and all CPUs that run 64-bit code under QEMU have a local APIC.
    let base = unsafe { IA32_APIC_BASE.read() };
    assert!(base & GLOBAL_ENABLE != 0 && base & !0xfff == BASE, "apic::start: base {base:#x}");
    write(SPURIOUS_VECTOR, SOFTWARE_ENABLE | u32::from(trap::SPURIOUS));
    write(LVT_LINT0, MASKED);
    write(DIVIDE, DIVIDE_BY_1);
    write(LVT_TIMER, MASKED);
    cpu::this().apic_id.set(id());
}

pub fn id() -> u32 {
    read(ID) >> 24
}

pub fn end_of_interrupt() {
    write(END_OF_INTERRUPT, 0);
}

/// Sets the timer to one interrupt after this number of its ticks.
pub fn arm_timer(ticks: u32) {
    write(LVT_TIMER, u32::from(trap::TIMER));
    write(INITIAL_COUNT, ticks.max(1));
}

/// Starts periodic timer events, or stops them. Events while interrupts are off cause one interrupt later.
pub fn beat(every_ticks: Option<u32>) {
    write(LVT_TIMER, every_ticks.map_or(MASKED, |_| PERIODIC | u32::from(trap::TIMER)));
    write(INITIAL_COUNT, every_ticks.unwrap_or(0));
}

/// Lets the timer count down without interrupts, so that the calibration can read it.
pub fn free_run() {
    write(LVT_TIMER, MASKED);
    write(INITIAL_COUNT, u32::MAX);
}

/// Number of timer ticks since `free_run`.
pub fn counted() -> u32 {
    u32::MAX - read(CURRENT_COUNT)
}

/// Interrupts another CPU.
pub fn interrupt(apic_id: u32, vector: u8) {
    command(apic_id, u32::from(vector) | LEVEL_ASSERT);
}

/// Interrupts all other CPUs by an NMI, after a panic.
pub fn stop_others() {
    command(0, DELIVERY_NMI | TO_ALL_OTHERS | LEVEL_ASSERT);
}

/// Sends another CPU a non-maskable interrupt. It may be called from an NMI handler that interrupted the writing of a command,
/// so it restores the command's first half.
pub fn send_nmi(apic_id: u32) {
    let half_written = read(COMMAND_HIGH);
    command(apic_id, DELIVERY_NMI | LEVEL_ASSERT);
    write(COMMAND_HIGH, half_written);
}

/// Address of the first I/O APIC, on every machine that this kernel boots on.
const IO_APIC: u64 = 0xfec0_0000;
const IO_APIC_DATA: u64 = 0x10;
/// Lower half of the entry of pin 2, where PCs have the PIT.
const PIT_ENTRY: u32 = 0x10 + 2 * 2;

/// Makes each beat of the PIT's channel 0 an edge-triggered non-maskable interrupt of this CPU.
pub fn route_pit_as_nmi() {
    let write = |register: u32, value: u32| {
        // SAFETY: the I/O APIC's two registers, which are mapped.
        unsafe {
            (IO_APIC as *mut u32).write_volatile(register);
            ((IO_APIC + IO_APIC_DATA) as *mut u32).write_volatile(value);
        }
    };
    write(PIT_ENTRY + 1, id() << 24);
    write(PIT_ENTRY, DELIVERY_NMI);
}

pub fn send_init(apic_id: u32) {
    command(apic_id, DELIVERY_INIT | LEVEL_ASSERT);
}

/// Starts a CPU at the page `phys`, below 1 MiB.
pub fn send_startup(apic_id: u32, phys: u64) {
    command(apic_id, DELIVERY_STARTUP | LEVEL_ASSERT | (phys >> 12) as u32);
}

fn command(apic_id: u32, low: u32) {
    write(COMMAND_HIGH, apic_id << 24);
    write(COMMAND_LOW, low);
    while read(COMMAND_LOW) & DELIVERY_PENDING != 0 {
        core::hint::spin_loop();
    }
}
