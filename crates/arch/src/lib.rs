//! Facts about architectures, as data: one file for each. QEMU's defaults for its guests, and the names and addresses in a
//! Linux kernel.
//!
//! This crate has no code for an architecture's instructions, stacks or images: see `crates/machine/src/arch/README.md`.

#![no_std]
#![forbid(unsafe_code)]

pub mod aarch64;
pub mod arm;
pub mod ppc64;
pub mod riscv64;
pub mod s390x;
pub mod x86_64;

/// The facts about one architecture.
#[derive(Debug)]
pub struct Facts {
    /// QEMU's name, used in options and in recordings.
    pub name: &'static str,
    /// Names that Linux and distributions use.
    pub aliases: &'static [&'static str],
    /// QEMU's names of the targets that run its guests.
    pub targets: &'static [&'static str],
    /// True if its CPUs have I/O ports, model-specific registers and the instruction CPUID.
    pub has_ports: bool,
    pub qemu: Qemu,
    pub linux: Linux,
}

/// The guests that QEMU boots.
#[derive(Debug)]
pub struct Qemu {
    /// The file name of its program for these guests.
    pub program: &'static str,
    /// The default machine.
    pub machine: &'static str,
    /// The machines whose console, CPU model and devices are known. Their versions have names with a suffix (`virt-7.2`).
    pub known_machines: &'static [&'static str],
    /// True if it passes a device tree to the kernel, also one of the user.
    pub takes_device_tree: bool,
    /// Parts of the names of its machines that have PCI.
    pub pci_machines: &'static [&'static str],
    /// The CPU model for translation by this major version. `None` means QEMU's default.
    pub translated_cpu: fn(u32) -> Option<&'static str>,
    /// True if it starts unpacked kernels, as ELF images (on x86-64 by PVH).
    pub starts_unpacked: bool,
    /// True if bootscope's plugin traces calls in its guests.
    pub follows_calls: bool,
    /// The I/O port to which firmware writes its debug messages, if there is one.
    pub firmware_port: Option<u16>,
    /// The place of firmware in its machines' address space, if it is the same in all of them.
    pub firmware_place: Option<FirmwarePlace>,
    /// The names of instruction pointers in its text of registers.
    pub instruction_pointers: &'static [&'static str],
    /// True if the guest's counter is the host's under TCG, and counts the instructions of a deterministic boot. Another one runs
    /// at a rate that only the guest can report.
    pub counts_as_the_host: bool,
}

/// The place of a firmware's file in the address space. It runs there before there is RAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirmwarePlace {
    /// The file's end is at this address.
    EndsAt(u64),
    /// The file's start is at this address.
    StartsAt(u64),
}

/// A Linux kernel.
#[derive(Debug)]
pub struct Linux {
    /// The first serial port, as `console=` names it.
    pub console: &'static str,
    /// The ports that may be the console of a machine whose ports are not known. The kernel prints on each that exists.
    pub board_consoles: &'static [&'static str],
    /// The parameter that makes it print on that port before it has drivers.
    pub early_console: &'static str,
    /// The trace clock that follows the counter from which process 1 takes its stamps.
    pub trace_clock: &'static str,
    /// The longest command line that it accepts, in bytes.
    pub command_line_bytes_max: usize,
    /// The prefixes of the names of code that is only passed through, on the way to a function or back from it.
    pub thunks: &'static [&'static str],
    /// The prefixes of the name of each CPU's first code.
    pub cpu_starts: &'static [&'static str],
    /// The function by which a CPU continues with another thread.
    pub thread_switch: &'static str,
    /// The functions that a new thread calls before its own.
    pub thread_starts: &'static [&'static str],
    pub image: Image,
}

/// The place of a kernel's image: linked to one address, moved by chance to another, and entered before it runs there.
#[derive(Debug)]
pub struct Image {
    /// The function where it is entered: its decompressor jumps there.
    pub entry: &'static str,
    /// The kernel's own addresses are not below this one. Lower ones belong to the image as it was loaded, or to user space.
    pub lowest_address: u64,
    /// An image that is moved is moved by a multiple of this.
    pub step_bytes: u64,
    /// Upper bound for its length.
    pub bytes_max: u64,
}

/// The console ports of boards, by Linux's drivers.
const BOARD_CONSOLES: &[&str] = &["ttyS0", "ttySIF0", "ttyPS0", "ttymxc0", "ttyAMA0"];

/// All architectures. The first is the default.
pub static ALL: [&Facts; 6] =
    [&x86_64::FACTS, &aarch64::FACTS, &riscv64::FACTS, &arm::FACTS, &s390x::FACTS, &ppc64::FACTS];

/// The architecture with this name, which is QEMU's, or one that Linux and distributions use.
#[must_use]
pub fn named(name: &str) -> Option<&'static Facts> {
    ALL.iter().find(|facts| facts.name == name || facts.aliases.contains(&name)).copied()
}

/// The architecture of a QEMU target.
#[must_use]
pub fn of_target(target: &str) -> Option<&'static Facts> {
    ALL.iter().find(|facts| facts.targets.contains(&target)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_targets_are_those_of_one_architecture() {
        for facts in ALL {
            assert_eq!(named(facts.name).map(|found| found.name), Some(facts.name));
            assert!(facts.targets.contains(&facts.name), "{}", facts.name);
            for target in facts.targets {
                assert_eq!(of_target(target).map(|found| found.name), Some(facts.name));
            }
            for alias in facts.aliases {
                assert_eq!(named(alias).map(|found| found.name), Some(facts.name));
            }
            assert!(facts.linux.image.step_bytes.is_power_of_two() && facts.linux.image.lowest_address > 0);
        }
        assert_eq!(of_target("i386").map(|found| found.name), Some("x86_64"));
        assert!(named("vax").is_none() && of_target("amd64").is_none());
    }
}
