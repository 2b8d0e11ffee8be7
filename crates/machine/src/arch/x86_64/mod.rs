//! PCs with x86-64 CPUs.

#![allow(unsafe_code, reason = "an instruction of the CPU")]

mod channel;
mod code;
mod kernel;
pub(crate) mod orc;
pub(crate) mod paging;
mod stack;

use super::Arch;

pub(crate) static ARCH: Arch = Arch {
    console: "ttyS0",
    early_console: "earlyprintk=serial,ttyS0,115200",
    trace_clock: "x86-tsc",
    // COMMAND_LINE_SIZE, less the NUL.
    command_line_bytes_max: 2047,
    // SeaBIOS and others.
    firmware_port: Some(0x402),
    channel: || Box::<channel::DebugPort>::default(),
    instruction_pointers: &["RIP=", "EIP="],
    check_kernel: kernel::kernel_kind,
    linux_release: kernel::release,
    registers: stack::registers,
    call_before: stack::call_before,
    return_without_frame: stack::return_without_frame,
    image_step_bytes: 2 << 20,
    instruction: code::instruction,
    call_or_nothing: code::call_or_nothing,
};

/// The time stamp counter.
#[cfg(target_arch = "x86_64")]
pub(super) fn ticks() -> u64 {
    // SAFETY: RDTSC has no operands and touches no memory; every x86-64 CPU has it, and Linux lets programs use it
    // unless a program asked for itself to be stopped (PR_SET_TSC), which this one never does.
    unsafe { core::arch::x86_64::_rdtsc() }
}
