//! Machines with 64-bit ARM CPUs: QEMU's `virt`.

mod code;
mod kernel;
mod stack;

use super::virtio_console::Console;
use super::{Arch, image};

pub(super) static ARCH: Arch = Arch {
    name: "aarch64",
    aliases: &["arm64"],
    vmm: "qemu-system-aarch64",
    // The newest interrupt controller that the accelerator has. The oldest one supports only 8 CPUs, and KVM on newer hosts lacks it.
    machine: "virt,gic-version=max",
    boards: &[],
    takes_device_tree: true,
    pci_machines: &["virt", "sbsa-ref"],
    // QEMU's default is a 32-bit CPU. Its `max` signs return addresses, which under TCG doubles the time of a boot: 6.6 s, against 3.0 s
    // with this model (QEMU 7.2). `max` is also a different CPU in each version.
    translated_cpu: |_| Some("cortex-a72"),
    is_hosts: cfg!(target_arch = "aarch64"),
    guest_init: "guest-init-aarch64",
    starts_unpacked: false,
    follows_calls: true,
    console: "ttyAMA0",
    early_console: "earlycon",
    // The system counter, in ns since the kernel began to use it. No trace clock counts its ticks. `mono` and `mono_raw` do not advance
    // until late in the boot, when timekeeping switches to the counter.
    trace_clock: "local",
    // COMMAND_LINE_SIZE without the NUL.
    command_line_bytes_max: 2047,
    firmware_port: None,
    // The machine assigns these places from the last one down, so a driver uses this page of registers only late.
    channel: || Box::new(Console::at(0)),
    instruction_pointers: &["PC="],
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
    // A relocatable kernel may lie at any multiple of SEGMENT_ALIGN.
    image_step_bytes: 64 << 10,
    instruction: code::instruction,
    call_or_nothing: code::call_or_nothing,
};
