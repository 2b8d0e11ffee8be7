//! Machines with 64-bit ARM CPUs: QEMU's `virt`.

mod code;
mod kernel;
mod stack;

use super::virtio_console::Console;
use super::{Arch, GuestInit, image};

pub(super) static ARCH: Arch = Arch {
    facts: &::arch::aarch64::FACTS,
    boards: &[],
    is_hosts: cfg!(target_arch = "aarch64"),
    guest_init: GuestInit::File("guest-init-aarch64"),
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
    frame_record_offset: 0,
    call_before: stack::call_before,
    return_without_frame: |_, _| None,
    instruction: code::instruction,
    call_or_nothing: code::call_or_nothing,
};
