//! PCs with x86-64 CPUs.

use crate::{Facts, FirmwarePlace, Image, Linux, Qemu};

/// The start of the upper half of the address space.
pub const UPPER_HALF: u64 = 0xffff_8000_0000_0000;

pub static FACTS: Facts = Facts {
    name: "x86_64",
    aliases: &["amd64", "x86-64"],
    targets: &["x86_64", "i386"],
    has_ports: true,
    qemu: Qemu {
        program: "qemu-system-x86_64",
        machine: "pc",
        known_machines: &["pc", "q35", "microvm"],
        takes_device_tree: false,
        pci_machines: &["pc", "q35"],
        translated_cpu: |qemu_major| (qemu_major < 8).then_some(WITHOUT_CX16),
        starts_unpacked: true,
        follows_calls: true,
        // The debug port of SeaBIOS and others.
        firmware_port: Some(0x402),
        firmware_place: Some(FirmwarePlace::EndsAt(1 << 32)),
        instruction_pointers: &["RIP=", "EIP="],
        counts_as_the_host: true,
    },
    linux: Linux {
        console: "ttyS0",
        board_consoles: crate::BOARD_CONSOLES,
        early_console: "earlyprintk=serial,ttyS0,115200",
        trace_clock: "x86-tsc",
        // COMMAND_LINE_SIZE without the NUL.
        command_line_bytes_max: 2047,
        thunks: &THUNKS,
        cpu_starts: &["secondary_startup_64", "common_startup_64", "startup_64"],
        thread_switch: "__switch_to_asm",
        thread_starts: &["__switch_to_asm", "schedule_tail", "native_load_tls", "native_load_gs_index"],
        image: Image {
            entry: "startup_64",
            lowest_address: UPPER_HALF,
            // `CONFIG_PHYSICAL_ALIGN` is at least that in 64-bit kernels.
            step_bytes: 2 << 20,
            bytes_max: 1 << 28,
        },
    },
};

/// A CPU model without `cmpxchg16b`. Under the translator of QEMU 7.2, Debian's 6.12 kernel crashed at random before process 1 in
/// about one boot of four. Each crash followed a `cmpxchg16b` with garbage in the flags. Without that instruction 20 of 20
/// boots succeeded. QEMU 8 and later are not known to have this fault.
const WITHOUT_CX16: &str = "qemu64,-cx16";

const THUNKS: [&str; 12] = [
    // On the way of a call: retpolines and their patched replacements (`_call_`, `_jump_`, `_its_`), the argument checks of
    // FineIBT (`__bhi_args`), trampolines of static calls.
    "__x86_indirect_",
    "__bhi_args",
    "its_static_thunk",
    "__SCT__",
    // On the way back of a return.
    "__x86_return_",
    "srso_return_thunk",
    "srso_alias_return_thunk",
    "srso_safe_ret",
    "srso_alias_safe_ret",
    "retbleed_return_thunk",
    "its_return_thunk",
    "call_depth_return_thunk",
];
