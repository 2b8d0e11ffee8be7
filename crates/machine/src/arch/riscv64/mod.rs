//! Machines with 64-bit RISC-V CPUs: QEMU's `virt`, with OpenSBI.

mod code;
mod kernel;
mod stack;

use super::virtio_console::Console;
use super::{Arch, image};

pub(super) static ARCH: Arch = Arch {
    name: "riscv64",
    aliases: &[],
    vmm: "qemu-system-riscv64",
    machine: "virt",
    boards: &[],
    takes_device_tree: true,
    pci_machines: &["virt"],
    // QEMU's default is a plain 64-bit CPU, `rv64`.
    translated_cpu: |_| None,
    is_hosts: cfg!(target_arch = "riscv64"),
    guest_init: "guest-init-riscv64",
    starts_unpacked: false,
    follows_calls: true,
    console: "ttyS0",
    // The device tree names the port.
    early_console: "earlycon",
    // The time counter, in ns since the kernel began to use it. No trace clock counts its ticks. `mono` and `mono_raw` do not advance
    // until late in the boot, when timekeeping switches to the counter.
    trace_clock: "local",
    // COMMAND_LINE_SIZE without the NUL.
    command_line_bytes_max: 1023,
    // OpenSBI prints on the console.
    firmware_port: None,
    // The machine assigns these places from the last one down, so a driver uses this page of registers only late.
    channel: || Box::new(Console::at(0)),
    // QEMU's ` pc       ffffffff80a12b34`.
    instruction_pointers: &["pc"],
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
    // A kernel is mapped by pages of 2 MiB.
    image_step_bytes: 2 << 20,
    instruction: code::instruction,
    call_or_nothing: code::call_or_nothing,
};
