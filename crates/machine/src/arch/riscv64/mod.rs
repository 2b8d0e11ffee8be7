//! Machines with 64-bit RISC-V CPUs: QEMU's `virt`, with OpenSBI.

mod code;
mod kernel;
mod stack;

use super::virtio_console::Console;
use super::{Arch, GuestInit, image};

pub(super) static ARCH: Arch = Arch {
    facts: &::arch::riscv64::FACTS,
    boards: &[],
    is_hosts: cfg!(target_arch = "riscv64"),
    guest_init: GuestInit::File("guest-init-riscv64"),
    shows_log: true,
    // The machine assigns these places from the last one down, so a driver uses this page of registers only late.
    channel: || Box::new(Console::at(0)),
    check_kernel: kernel::check_image,
    linux_release: kernel::release,
    is_plain_image: |head| kernel::check_image(head).is_ok(),
    plain_image: kernel::plain,
    relocated: kernel::relocated,
    reads_kernels: false,
    release_bytes_max: image::MAX_IMAGE_BYTES,
    registers: stack::registers,
    // The frame pointer is the caller's stack pointer before the call (RISC-V ELF psABI, "Frame pointer convention").
    frame_record_offset: 16,
    call_before: stack::call_before,
    return_without_frame: |_, _| None,
    instruction: code::instruction,
    call_or_nothing: code::call_or_nothing,
};
