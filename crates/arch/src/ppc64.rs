//! 64-bit POWER machines of either byte order: QEMU's `pseries`, with SLOF.

use crate::{Facts, Image, Linux, Qemu};

/// The start of a kernel's addresses (`PAGE_OFFSET`).
pub const KERNEL_HALF: u64 = 0xc000_0000_0000_0000;

pub static FACTS: Facts = Facts {
    name: "ppc64",
    aliases: &["ppc64le", "ppc64el", "powerpc64le"],
    targets: &["ppc64"],
    has_ports: false,
    qemu: Qemu {
        program: "qemu-system-ppc64",
        machine: "pseries",
        known_machines: &[],
        // The firmware makes the kernel's.
        takes_device_tree: false,
        pci_machines: &[],
        translated_cpu: |_| None,
        starts_unpacked: true,
        follows_calls: false,
        firmware_port: None,
        firmware_place: None,
        // `NIP c000000000012ab4   LR …`
        instruction_pointers: &["NIP"],
        counts_as_the_host: false,
    },
    linux: Linux {
        console: "hvc0",
        board_consoles: &["hvc0", "ttyS0"],
        early_console: "earlycon",
        trace_clock: "local",
        // COMMAND_LINE_SIZE without the NUL.
        command_line_bytes_max: 2047,
        thunks: &[],
        cpu_starts: &["start_secondary"],
        thread_switch: "_switch",
        thread_starts: &["schedule_tail"],
        image: Image { entry: "__start", lowest_address: KERNEL_HALF, step_bytes: 64 << 10, bytes_max: 1 << 28 },
    },
};
