//! Machines with 64-bit ARM CPUs: QEMU's `virt`.

mod code;
mod kernel;
mod stack;

use super::virtio_console::Console;
use super::{Arch, image};

pub(super) static ARCH: Arch = Arch {
    name: "aarch64",
    also_called: &["arm64"],
    vmm: "qemu-system-aarch64",
    // The newest interrupt controller that the accelerator has: the oldest has room for 8 CPUs, and KVM on newer hosts has none.
    machine: "virt,gic-version=max",
    boards: &[],
    takes_device_tree: true,
    pci_machines: &["virt", "sbsa-ref"],
    // QEMU's own choice is a 32-bit one. Its `max` signs return addresses, which under TCG doubles a boot (6.6 s, and 3.0 s with this
    // one, QEMU 7.2), and means another CPU in each version.
    translated_cpu: |_| Some("cortex-a72"),
    is_hosts: cfg!(target_arch = "aarch64"),
    guest_init: "guest-init-aarch64",
    // A call writes no return address to the stack, which is what tells the plugin the stack pointer.
    starts_unpacked: false,
    follows_calls: true,
    console: "ttyAMA0",
    early_console: "earlycon",
    // The system counter, in ns since the kernel has it. There is no trace clock of its ticks; `mono` and `mono_raw` stand still
    // until late in the boot, when timekeeping takes the counter for its source.
    trace_clock: "local",
    // COMMAND_LINE_SIZE, less the NUL.
    command_line_bytes_max: 2047,
    firmware_port: None,
    // The machine gives these places out from the last one on, so this page of registers stays without a driver for long.
    channel: || Box::new(Console::at(0)),
    instruction_pointers: &["PC="],
    check_kernel: kernel::kernel_kind,
    linux_release: kernel::release,
    is_plain_image: |head| kernel::kernel_kind(head).is_ok(),
    plain_image: kernel::plain,
    relocated: kernel::relocated,
    reads_kernels: false,
    release_bytes_max: image::IMAGE_BYTES_MAX,
    registers: stack::registers,
    frame_below: 0,
    call_before: stack::call_before,
    return_without_frame: |_, _| None,
    // SEGMENT_ALIGN: a relocatable kernel may lie at any multiple of it.
    image_step_bytes: 64 << 10,
    instruction: code::instruction,
    call_or_nothing: code::call_or_nothing,
};
