//! Machines with 32-bit ARM CPUs (ARMv7): QEMU's `virt`, and boards.

mod boards;
mod code;
mod kernel;
mod stack;

use super::Arch;
use super::virtio_console::Console;

pub(super) static ARCH: Arch = Arch {
    name: "arm",
    aliases: &["armhf", "armv7"],
    vmm: "qemu-system-arm",
    // A kernel without LPAE cannot access addresses above 4 GiB, where QEMU would otherwise put the registers of PCI.
    machine: "virt,highmem=off",
    boards: &boards::ALL,
    takes_device_tree: true,
    pci_machines: &["virt"],
    // The CPU of `virt`, and QEMU's default in versions that have a default.
    translated_cpu: |_| Some("cortex-a15"),
    // An arm64 host's CPU runs this code only with an option of KVM that bootscope does not use.
    is_hosts: cfg!(target_arch = "arm"),
    guest_init: "guest-init-arm",
    starts_unpacked: false,
    // A call writes no return address to the stack, and the plugin does not track this CPU's stack pointer yet.
    follows_calls: false,
    console: "ttyAMA0",
    early_console: "earlycon",
    // The kernel's own clock, in ns since the kernel began to use a counter. No trace clock counts a counter's ticks.
    trace_clock: "local",
    // COMMAND_LINE_SIZE without the NUL.
    command_line_bytes_max: 1023,
    firmware_port: None,
    // The machine assigns these places from the last one down, so a driver uses this page of registers only late.
    channel: || Box::new(Console::at(0)),
    instruction_pointers: &["R15="],
    check_kernel: kernel::check_image,
    linux_release: kernel::release,
    is_plain_image: |head| kernel::check_image(head).is_ok(),
    plain_image: kernel::plain,
    relocated: |_, _| None,
    reads_kernels: false,
    release_bytes_max: super::image::MAX_IMAGE_BYTES,
    registers: stack::registers,
    frame_record_offset: 0,
    call_before: stack::call_before,
    return_without_frame: |_, _| None,
    // Such a kernel does not randomise its address. The unpacking program puts it at a multiple of this.
    image_step_bytes: 2 << 20,
    instruction: code::instruction,
    call_or_nothing: code::call_or_nothing,
};
