//! PCs with x86-64 CPUs.

#![allow(unsafe_code, reason = "an instruction of the CPU, and memory for KVM")]

mod channel;
mod code;
mod kernel;
#[cfg(target_arch = "x86_64")]
pub(super) mod kvm;
pub(crate) mod orc;
pub(crate) mod paging;
mod stack;

use super::Arch;

pub(crate) static ARCH: Arch = Arch {
    name: "x86_64",
    aliases: &["amd64", "x86-64"],
    vmm: "qemu-system-x86_64",
    machine: "pc",
    boards: &[],
    takes_device_tree: false,
    pci_machines: &["pc", "q35"],
    translated_cpu: |vmm_major| (vmm_major < 8).then_some(WITHOUT_CX16),
    is_hosts: cfg!(target_arch = "x86_64"),
    guest_init: "guest-init",
    // The setup code of a bzImage contains the version string.
    release_bytes_max: 64 << 10,
    starts_unpacked: true,
    follows_calls: true,
    console: "ttyS0",
    early_console: "earlyprintk=serial,ttyS0,115200",
    trace_clock: "x86-tsc",
    // COMMAND_LINE_SIZE without the NUL.
    command_line_bytes_max: 2047,
    // The debug port of SeaBIOS and others.
    firmware_port: Some(0x402),
    channel: || Box::<channel::DebugPort>::default(),
    instruction_pointers: &["RIP=", "EIP="],
    check_kernel: kernel::check_image,
    linux_release: kernel::release,
    // A bzImage contains an ELF image, in which addresses that are relocated have their linked values.
    is_plain_image: |_| false,
    plain_image: |_| None,
    relocated: |_, _| None,
    reads_kernels: true,
    registers: stack::registers,
    frame_record_offset: 0,
    call_before: stack::call_before,
    return_without_frame: stack::return_without_frame,
    image_step_bytes: 2 << 20,
    instruction: code::instruction,
    call_or_nothing: code::call_or_nothing,
};

/// A CPU model without `cmpxchg16b`. Under the translator of QEMU 7.2, Debian's 6.12 kernel crashed at random before process 1 in
/// about one boot of four. Each crash followed a `cmpxchg16b` with garbage in the flags. Without that instruction 20 of 20
/// boots succeeded. QEMU 8 and later are not known to have this fault.
const WITHOUT_CX16: &str = "qemu64,-cx16";

/// The time stamp counter.
#[cfg(target_arch = "x86_64")]
pub(super) fn ticks() -> u64 {
    // SAFETY: RDTSC has no operands and accesses no memory, and every x86-64 CPU has it. Linux lets programs use it unless they disable it
    // for themselves (PR_SET_TSC), which this program never does.
    unsafe { core::arch::x86_64::_rdtsc() }
}
