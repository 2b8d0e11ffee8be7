//! Machines with 32-bit ARM CPUs (ARMv7): QEMU's `virt`, and boards.

mod boards;
mod code;
mod kernel;
mod stack;

use super::Arch;
use super::virtio_console::Console;

pub(super) static ARCH: Arch = Arch {
    name: "arm",
    also_called: &["armhf", "armv7"],
    vmm: "qemu-system-arm",
    // A kernel without LPAE reaches no address above 4 GiB, and there QEMU puts the registers of PCI otherwise.
    machine: "virt,highmem=off",
    boards: &boards::ALL,
    takes_device_tree: true,
    pci_machines: &["virt"],
    // That of `virt`, and QEMU's own choice in versions that have one.
    translated_cpu: |_| Some("cortex-a15"),
    // An arm64 host's CPU runs this code only as an option of KVM that bootscope does not give.
    is_hosts: cfg!(target_arch = "arm"),
    guest_init: "guest-init-arm",
    // A call writes no return address to the stack, which is what tells the plugin the stack pointer.
    starts_unpacked: false,
    follows_calls: false,
    console: "ttyAMA0",
    early_console: "earlycon",
    // What the kernel's own clock counts, in ns since it has a counter. There is no trace clock of a counter's ticks.
    trace_clock: "local",
    // COMMAND_LINE_SIZE, less the NUL.
    command_line_bytes_max: 1023,
    firmware_port: None,
    // The machine gives these places out from the last one on, so this page of registers stays without a driver for long.
    channel: || Box::new(Console::at(0)),
    instruction_pointers: &["R15="],
    check_kernel: kernel::kernel_kind,
    linux_release: kernel::release,
    is_plain_image: |head| kernel::kernel_kind(head).is_ok(),
    plain_image: kernel::plain,
    relocated: |_, _| None,
    reads_kernels: false,
    release_bytes_max: super::image::IMAGE_BYTES_MAX,
    registers: stack::registers,
    frame_below: 0,
    call_before: stack::call_before,
    return_without_frame: |_, _| None,
    // Such a kernel does not move itself at random; what unpacks it puts it at a multiple of this.
    image_step_bytes: 2 << 20,
    instruction: code::instruction,
    call_or_nothing: code::call_or_nothing,
};
