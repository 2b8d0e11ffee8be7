//! Machines with 32-bit ARM CPUs (ARMv7): QEMU's `virt`, and boards.

use crate::{Facts, Image, Linux, Qemu};

/// The start of a kernel's addresses, with modules (`PAGE_OFFSET` less 16 MiB, with three quarters of all for processes).
pub const KERNEL_HALF: u64 = 0xbf00_0000;

pub static FACTS: Facts = Facts {
    name: "arm",
    aliases: &["armhf", "armv7"],
    targets: &["arm"],
    has_ports: false,
    qemu: Qemu {
        program: "qemu-system-arm",
        // A kernel without LPAE cannot access addresses above 4 GiB, where QEMU would otherwise put the registers of PCI.
        machine: "virt,highmem=off",
        known_machines: &["virt"],
        takes_device_tree: true,
        pci_machines: &["virt"],
        // The CPU of `virt`, and QEMU's default in versions that have a default.
        translated_cpu: |_| Some("cortex-a15"),
        starts_unpacked: false,
        // A call writes no return address to the stack, and the plugin does not track this CPU's stack pointer yet.
        follows_calls: false,
        firmware_port: None,
        firmware_place: None,
        instruction_pointers: &["R15="],
        counts_as_the_host: false,
    },
    linux: Linux {
        console: "ttyAMA0",
        board_consoles: crate::BOARD_CONSOLES,
        early_console: "earlycon",
        // The kernel's own clock, in ns since the kernel began to use a counter. No trace clock counts a counter's ticks.
        trace_clock: "local",
        // COMMAND_LINE_SIZE without the NUL.
        command_line_bytes_max: 1023,
        thunks: &[],
        cpu_starts: &["secondary_startup", "secondary_start_kernel"],
        thread_switch: "__switch_to",
        // These names are looked up for all architectures, and `__switch_to` is another kind of function on x86-64.
        thread_starts: &["schedule_tail"],
        image: Image {
            entry: "stext",
            lowest_address: KERNEL_HALF,
            // The kernel does not randomise its address. Its decompressor puts it at a multiple of this, and it maps itself from there on.
            step_bytes: 2 << 20,
            bytes_max: 1 << 27,
        },
    },
};
