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

use super::{Arch, GuestInit};

pub(crate) static ARCH: Arch = Arch {
    facts: &::arch::x86_64::FACTS,
    boards: &[],
    is_hosts: cfg!(target_arch = "x86_64"),
    guest_init: GuestInit::File("guest-init"),
    shows_log: true,
    // The setup code of a bzImage contains the version string.
    release_bytes_max: 64 << 10,
    channel: || Box::<channel::DebugPort>::default(),
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
    instruction: code::instruction,
    call_or_nothing: code::call_or_nothing,
};

/// The time stamp counter.
#[cfg(target_arch = "x86_64")]
pub(super) fn ticks() -> u64 {
    // SAFETY: RDTSC has no operands and accesses no memory, and every x86-64 CPU has it. Linux lets programs use it unless they disable it
    // for themselves (PR_SET_TSC), which this program never does.
    unsafe { core::arch::x86_64::_rdtsc() }
}
