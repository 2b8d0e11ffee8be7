//! Machines with 64-bit RISC-V CPUs: QEMU's `virt`, with OpenSBI.

use crate::{Facts, Image, Linux, Qemu};

/// The lowest start of a kernel's addresses, with the most bits (`PAGE_OFFSET_L5`).
pub const KERNEL_HALF: u64 = 0xff00_0000_0000_0000;

pub static FACTS: Facts = Facts {
    name: "riscv64",
    aliases: &[],
    targets: &["riscv64"],
    has_ports: false,
    qemu: Qemu {
        program: "qemu-system-riscv64",
        machine: "virt",
        known_machines: &["virt"],
        takes_device_tree: true,
        pci_machines: &["virt"],
        // QEMU's default is a plain 64-bit CPU, `rv64`.
        translated_cpu: |_| None,
        starts_unpacked: false,
        follows_calls: true,
        // OpenSBI prints on the console.
        firmware_port: None,
        firmware_place: None,
        // QEMU's ` pc       ffffffff80a12b34`.
        instruction_pointers: &["pc"],
        counts_as_the_host: false,
    },
    linux: Linux {
        console: "ttyS0",
        board_consoles: crate::BOARD_CONSOLES,
        // The device tree names the port.
        early_console: "earlycon",
        // The time counter, in ns since the kernel began to use it. No trace clock counts its ticks. `mono` and `mono_raw` do not advance
        // until late in the boot, when timekeeping switches to the counter.
        trace_clock: "local",
        // COMMAND_LINE_SIZE without the NUL.
        command_line_bytes_max: 1023,
        thunks: &[],
        cpu_starts: &["_start_kernel", "secondary_start_sbi", "smp_callin"],
        thread_switch: "__switch_to",
        // These names are looked up for all architectures, and `__switch_to` is another kind of function on x86-64.
        thread_starts: &["schedule_tail"],
        image: Image {
            entry: "_start",
            lowest_address: KERNEL_HALF,
            // A kernel is mapped by pages of 2 MiB.
            step_bytes: 2 << 20,
            bytes_max: 1 << 28,
        },
    },
};
