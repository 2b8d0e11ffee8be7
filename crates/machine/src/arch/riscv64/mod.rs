//! Machines with 64-bit RISC-V CPUs: QEMU's `virt`, with OpenSBI.

mod code;
mod kernel;
mod stack;

use super::virtio_console::Console;
use super::{Arch, image};

pub(super) static ARCH: Arch = Arch {
    name: "riscv64",
    also_called: &[],
    vmm: "qemu-system-riscv64",
    machine: "virt",
    boards: &[],
    takes_device_tree: true,
    pci_machines: &["virt"],
    // QEMU's own choice is a plain 64-bit one, `rv64`.
    translated_cpu: |_| None,
    is_hosts: cfg!(target_arch = "riscv64"),
    guest_init: "guest-init-riscv64",
    // A call writes no return address to the stack, which is what tells the plugin the stack pointer.
    starts_unpacked: false,
    follows_calls: true,
    console: "ttyS0",
    // The port is the one that the device tree names.
    early_console: "earlycon",
    // The time counter, in ns since the kernel has it. There is no trace clock of its ticks; `mono` and `mono_raw` stand still
    // until late in the boot, when timekeeping takes the counter for its source.
    trace_clock: "local",
    // COMMAND_LINE_SIZE, less the NUL.
    command_line_bytes_max: 1023,
    // OpenSBI prints on the console.
    firmware_port: None,
    // The machine gives these places out from the last one on, so this page of registers stays without a driver for long.
    channel: || Box::new(Console::at(0)),
    // QEMU's ` pc       ffffffff80a12b34`.
    instruction_pointers: &["pc"],
    check_kernel: kernel::kernel_kind,
    linux_release: kernel::release,
    is_plain_image: |head| kernel::kernel_kind(head).is_ok(),
    plain_image: kernel::plain,
    relocated: kernel::relocated,
    reads_kernels: false,
    release_bytes_max: image::IMAGE_BYTES_MAX,
    registers: stack::registers,
    // The frame pointer is where the caller's stack ended (RISC-V ELF psABI, "Frame pointer convention").
    frame_below: 16,
    call_before: stack::call_before,
    return_without_frame: |_, _| None,
    // A kernel is mapped by pages of 2 MiB.
    image_step_bytes: 2 << 20,
    instruction: code::instruction,
    call_or_nothing: code::call_or_nothing,
};
