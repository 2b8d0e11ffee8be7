//! IBM Z machines: QEMU's `s390-ccw-virtio`.

use crate::{Facts, Image, Linux, Qemu};

/// The start of a kernel's code. A kernel runs at its physical addresses; programs have an address space of their own.
pub const KERNEL_START: u64 = 0x10_0000;

pub static FACTS: Facts = Facts {
    name: "s390x",
    aliases: &["s390"],
    targets: &["s390x"],
    has_ports: false,
    qemu: Qemu {
        program: "qemu-system-s390x",
        machine: "s390-ccw-virtio",
        known_machines: &[],
        takes_device_tree: false,
        pci_machines: &[],
        translated_cpu: |_| None,
        starts_unpacked: false,
        follows_calls: false,
        firmware_port: None,
        firmware_place: None,
        // `PSW=mask 0705000180000000 addr 000000000011ab40 cc 0`
        instruction_pointers: &["addr"],
        counts_as_the_host: false,
    },
    linux: Linux {
        console: "ttysclp0",
        board_consoles: &["ttysclp0"],
        early_console: "earlyprintk",
        trace_clock: "local",
        // COMMAND_LINE_SIZE without the NUL, of kernels before 5.16 and of their loader.
        command_line_bytes_max: 895,
        thunks: &[],
        cpu_starts: &["smp_start_secondary"],
        thread_switch: "__switch_to",
        thread_starts: &["schedule_tail"],
        image: Image {
            entry: "startup_continue",
            lowest_address: KERNEL_START,
            step_bytes: 1 << 20,
            bytes_max: 1 << 28,
        },
    },
};
