//! Machines with 64-bit ARM CPUs: QEMU's `virt`.

use crate::{Facts, FirmwarePlace, Image, Linux, Qemu};

/// The start of a kernel's addresses, with 52 bits of them (`PAGE_OFFSET`).
pub const KERNEL_HALF: u64 = 0xfff0_0000_0000_0000;

pub static FACTS: Facts = Facts {
    name: "aarch64",
    aliases: &["arm64"],
    targets: &["aarch64"],
    has_ports: false,
    qemu: Qemu {
        program: "qemu-system-aarch64",
        // The newest interrupt controller that the accelerator has. The oldest one supports only 8 CPUs, and KVM on newer hosts lacks it.
        machine: "virt,gic-version=max",
        known_machines: &["virt"],
        takes_device_tree: true,
        pci_machines: &["virt", "sbsa-ref"],
        // QEMU's default is a 32-bit CPU. Its `max` signs return addresses, which under TCG doubles the time of a boot: 6.6 s, against 3.0 s
        // with this model (QEMU 7.2). `max` is also a different CPU in each version.
        translated_cpu: |_| Some("cortex-a72"),
        starts_unpacked: false,
        follows_calls: true,
        firmware_port: None,
        firmware_place: Some(FirmwarePlace::StartsAt(0)),
        instruction_pointers: &["PC="],
        counts_as_the_host: false,
    },
    linux: Linux {
        console: "ttyAMA0",
        board_consoles: crate::BOARD_CONSOLES,
        early_console: "earlycon",
        // The system counter, in ns since the kernel began to use it. No trace clock counts its ticks. `mono` and `mono_raw` do not advance
        // until late in the boot, when timekeeping switches to the counter.
        trace_clock: "local",
        // COMMAND_LINE_SIZE without the NUL.
        command_line_bytes_max: 2047,
        thunks: &[],
        cpu_starts: &["secondary_startup", "secondary_entry", "__secondary_switched", "primary_entry"],
        thread_switch: "cpu_switch_to",
        // `ret_from_fork` is left out: on x86-64 it is what a thread's stack begins with, and these names are looked up for all.
        thread_starts: &["cpu_switch_to", "schedule_tail"],
        image: Image {
            entry: "primary_entry",
            lowest_address: KERNEL_HALF,
            // SEGMENT_ALIGN: a relocatable kernel may lie at any multiple of it.
            step_bytes: 64 << 10,
            bytes_max: 1 << 28,
        },
    },
};
