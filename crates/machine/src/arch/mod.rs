//! The properties of the guest's architecture that the recorder needs, as data and a few functions.
//!
//! The guest determines the [`Arch`]. Other code must use the `Arch`'s fields, and must not test which architecture it is. `README.md`
//! lists the parts of a new architecture, here and in the other crates.

mod aarch64;
mod arm;
mod image;
mod riscv64;
mod serial_port;
mod undecoded;
mod virtio_console;
pub(crate) mod x86_64;

use std::borrow::Cow;

use ::arch::Facts;
use recording::GuestSpec;

use crate::Error;
use crate::guest_channel::GuestChannel;
use crate::refusal::text;
use recording::Field;

/// A Linux kernel's page tables and its unwind tables. Only those of x86-64 can be read yet.
pub(crate) use x86_64::{orc, paging};

/// The properties of an architecture.
#[derive(Debug)]
pub(crate) struct Arch {
    /// Its names, QEMU's defaults for its guests, and facts about its Linux kernels.
    pub(crate) facts: &'static Facts,
    /// Machines with another console, channel or CPU than the default machine.
    pub(crate) boards: &'static [Board],
    /// True if the host's CPUs run its code.
    pub(crate) is_hosts: bool,
    pub(crate) guest_init: GuestInit,
    /// True if the kernel's log can be found in the guest's memory. Otherwise the console has all of it.
    pub(crate) shows_log: bool,
    /// The carrier of the guest's messages.
    pub(crate) channel: fn() -> Box<dyn GuestChannel>,
    /// Checks that a VMM can start a kernel image that begins with these bytes. The error describes the image's actual format.
    pub(crate) check_kernel: fn(&[u8]) -> Result<(), &'static str>,
    /// The release of a Linux whose image begins with these bytes, if they contain it.
    pub(crate) linux_release: fn(&[u8]) -> Option<String>,
    /// The size of the image's part that may contain the release.
    pub(crate) release_bytes_max: u64,
    /// True if an image that begins with these bytes has a [`plain_image`](Arch::plain_image), compressed or not.
    pub(crate) is_plain_image: fn(&[u8]) -> bool,
    /// The kernel in its layout in memory, from an image in this architecture's own format. It does not take ELF images.
    pub(crate) plain_image: fn(&[u8]) -> Option<Cow<'_, [u8]>>,
    /// The address, as linked, that a kernel writes to this offset of its image when it relocates itself.
    pub(crate) relocated: fn(&[u8], usize) -> Option<u64>,
    /// True if the format of its kernels' page tables is known, so that their memory can be read at virtual addresses.
    pub(crate) reads_kernels: bool,
    /// Extracts the registers for a walk of the stack from all registers of a gdbstub.
    pub(crate) registers: fn(&[u8]) -> Option<Registers>,
    /// The distance from the frame record to the address in the frame pointer, which is above. The record is the caller's frame pointer,
    /// followed by the return address.
    pub(crate) frame_record_offset: u64,
    /// The call at the end of these bytes, if they may end with one.
    pub(crate) call_before: fn(&[u8]) -> Option<Call>,
    /// The distance of the return address above the stack pointer, if the function at the instruction pointer has no frame (not yet, or no
    /// longer). The arguments are the byte before the instruction pointer, and the bytes from there on.
    pub(crate) return_without_frame: fn(u8, &[u8]) -> Option<u64>,
    /// Decodes the first instruction of bytes at an address.
    pub(crate) instruction: fn(&[u8], u64) -> Option<Instruction>,
    /// Assembles code of exactly the given size for an address. The code calls the given function, or without a function does nothing.
    /// Returns `None` if there is no such code.
    pub(crate) call_or_nothing: fn(u64, Option<u64>, usize) -> Option<Vec<u8>>,
}

/// A machine that differs from the default machine of its architecture. Its CPU is the VMM's default.
#[derive(Debug)]
pub(crate) struct Board {
    /// The VMM's name for the machine.
    pub(crate) name: &'static str,
    /// The serial port of its console, as Linux's `console=` names it.
    pub(crate) console: &'static str,
    /// The place of that port among the machine's serial ports.
    pub(crate) console_place: u8,
    /// The carrier of the guest's messages.
    pub(crate) channel: fn() -> Box<dyn GuestChannel>,
}

/// bootscope's process 1 for an architecture's guests.
#[derive(Debug)]
pub(crate) enum GuestInit {
    /// The name of its file.
    File(&'static str),
    /// A program without a channel, for the byte order of a kernel that begins with these bytes.
    Made(fn(&[u8]) -> Vec<u8>),
}

impl Arch {
    /// The board of a guest, if its machine is a board. A VMM makes no device tree for a board.
    pub(crate) fn board(&self, guest: &GuestSpec) -> Option<&'static Board> {
        let machine = guest.machine.split(',').next().unwrap_or_default();
        self.boards.iter().find(|board| board.name == machine)
    }

    /// The guest's console, as Linux's `console=` names it.
    pub(crate) fn console(&self, guest: &GuestSpec) -> &'static str {
        self.board(guest).map_or(self.facts.linux.console, |board| board.console)
    }

    /// The place of that console's port among a machine's serial ports.
    pub(crate) fn console_place(&self, guest: &GuestSpec) -> u8 {
        self.board(guest).map_or(0, |board| board.console_place)
    }

    /// The carrier of a guest's messages.
    pub(crate) fn channel(&self, guest: &GuestSpec) -> Box<dyn GuestChannel> {
        (self.board(guest).map_or(self.channel, |board| board.channel))()
    }

    /// True if bootscope does not know the guest's machine. Nothing is added to such a machine.
    pub(crate) fn is_plain(&self, guest: &GuestSpec) -> bool {
        let machine = guest.machine.split(',').next().unwrap_or_default();
        let is_version = |rest: &str| rest.is_empty() || rest.starts_with('-');
        let mut known = self.facts.qemu.known_machines.iter();
        let is_known = known.any(|known| machine.strip_prefix(known).is_some_and(is_version));
        guest.target.is_qemu() && self.board(guest).is_none() && !is_known
    }

    /// The CPU model of a guest for translation by a VMM of this major version. `None` means the VMM's default.
    pub(crate) fn cpu(&self, guest: &GuestSpec, version: u32) -> Option<&'static str> {
        let is_usual = self.board(guest).is_none() && !self.is_plain(guest);
        if is_usual { (self.facts.qemu.translated_cpu)(version) } else { None }
    }
}

/// The registers of a vCPU for a walk of its stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Registers {
    /// The address of the next instruction.
    pub(crate) pc: u64,
    /// The stack pointer.
    pub(crate) sp: u64,
    /// The frame pointer, if the code keeps one in this register.
    pub(crate) fp: u64,
    pub(crate) mode: Mode,
}

/// The kind of code that runs on a vCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Firmware or a loader: the CPU is not set up for a kernel.
    Boot,
    /// A kernel, or firmware or a loader that has set the CPU up like a kernel.
    Kernel,
    /// A process.
    User,
}

/// The target of a call, as its instruction encodes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// A distance in bytes from the end of the call.
    By(i32),
    /// Through a register or memory.
    Indirect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    /// Its length.
    pub(crate) bytes: usize,
    /// The target, if it is a call.
    pub(crate) call: Option<CallTo>,
}

/// The target of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallTo {
    Address(u64),
    /// The instruction does not contain the target.
    Unknown,
}

/// All architectures. The first is the default.
static ALL: [&Arch; 6] =
    [&x86_64::ARCH, &aarch64::ARCH, &riscv64::ARCH, &arm::ARCH, &undecoded::s390x::ARCH, &undecoded::ppc64::ARCH];

/// The architecture of a guest. [`check`] has refused a guest with an unknown one before.
pub(crate) fn of(guest: &GuestSpec) -> &'static Arch {
    named(&guest.arch).unwrap_or(ALL[0])
}

/// The architecture with this name, which is QEMU's, or one that Linux and distributions use.
pub(crate) fn named(name: &str) -> Option<&'static Arch> {
    let facts = ::arch::named(name)?;
    ALL.iter().find(|arch| arch.facts.name == facts.name).copied()
}

/// Fails unless the guest's architecture is known.
pub(crate) fn check(guest: &GuestSpec) -> Result<(), Error> {
    if named(&guest.arch).is_some() {
        return Ok(());
    }
    let names = ALL.map(|arch| arch.facts.name).join(", ");
    let why = text![Field::Arch.is(&guest.arch), format!(": bootscope boots guests of {names}")];
    Err(Error::refused(Field::Arch, why, ""))
}

/// True if an image that begins with these bytes has a [`plain_image`].
pub(crate) fn is_plain_image(head: &[u8]) -> bool {
    ALL.iter().any(|arch| (arch.is_plain_image)(head))
}

/// The kernel in its layout in memory, from an image in the format of any architecture. It does not take ELF images.
pub(crate) fn plain_image(image: &[u8]) -> Option<Cow<'_, [u8]>> {
    ALL.iter().find_map(|arch| (arch.plain_image)(image))
}

/// The address, as linked, that a kernel writes to this offset of its image when it relocates itself.
pub(crate) fn relocated(image: &[u8], at: usize) -> Option<u64> {
    ALL.iter().find_map(|arch| (arch.relocated)(image, at))
}

/// The architecture whose VMM can start a kernel image that begins with these bytes.
pub(crate) fn of_kernel(head: &[u8]) -> Option<&'static Arch> {
    ALL.iter().find(|arch| (arch.check_kernel)(head).is_ok()).copied()
}

/// The host's cycle counter, if bootscope supports the host's.
pub(crate) fn host_ticks() -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    return Some(x86_64::ticks());
    #[cfg(not(target_arch = "x86_64"))]
    None
}

/// The number of instructions of a guest's kernel that this host's KVM runs in a second. The error is the reason why that cannot be
/// measured.
pub(crate) fn kvm_instructions_per_s() -> Result<u64, String> {
    #[cfg(target_arch = "x86_64")]
    return x86_64::kvm::instructions_per_s();
    #[cfg(not(target_arch = "x86_64"))]
    Err("nobody has tried it on this architecture".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guest_channel::Wire;
    use crate::kernel_line::{Added, kernel_line};
    use crate::profile::GuestProfile;
    use ::arch::{Image, Linux, Qemu};
    use guest_init::port::PortEvent;

    /// A channel that carries nothing.
    #[derive(Debug)]
    struct Mute;

    impl GuestChannel for Mute {
        fn wire(&self) -> Wire {
            Wire::IoPort(0)
        }

        fn origin(&self) -> &'static str {
            "nothing"
        }

        fn feed(&mut self, _bytes: &[u8], _hear: &mut dyn FnMut(PortEvent<'_>)) {}
    }

    /// A made-up architecture.
    static STUB: Arch = Arch {
        facts: &STUB_FACTS,
        boards: &[],
        is_hosts: false,
        guest_init: GuestInit::File("stub"),
        shows_log: true,
        release_bytes_max: 0,
        channel: || Box::new(Mute),
        check_kernel: |_| Err("it is a kernel of no machine"),
        linux_release: |_| None,
        is_plain_image: |_| false,
        plain_image: |_| None,
        relocated: |_, _| None,
        reads_kernels: false,
        registers: |_| None,
        frame_record_offset: 0,
        call_before: |_| None,
        return_without_frame: |_, _| None,
        instruction: |_, _| None,
        call_or_nothing: |_, _, _| None,
    };

    static STUB_FACTS: Facts = Facts {
        name: "stub",
        aliases: &[],
        targets: &["stub"],
        has_ports: false,
        qemu: Qemu {
            program: "stub",
            machine: "none",
            known_machines: &["pc"],
            takes_device_tree: false,
            pci_machines: &[],
            translated_cpu: |_| None,
            starts_unpacked: false,
            follows_calls: false,
            firmware_port: None,
            firmware_place: None,
            instruction_pointers: &["PC="],
            counts_as_the_host: false,
        },
        linux: Linux {
            console: "ttySTUB0",
            board_consoles: &[],
            early_console: "earlycon",
            trace_clock: "stub",
            command_line_bytes_max: 100,
            thunks: &[],
            cpu_starts: &[],
            thread_switch: "stub_switch",
            thread_starts: &[],
            image: Image { entry: "stub_entry", lowest_address: 1 << 40, step_bytes: 1, bytes_max: 1 << 20 },
        },
    };

    #[test]
    fn a_stub_architecture_fits_the_interface() {
        let guest = GuestSpec { append: "quiet".to_owned(), ..GuestSpec::default() };
        let profile = GuestProfile { takes_linux_words: true, ..GuestProfile::default() };
        let line = |guest: &GuestSpec, adds| kernel_line(guest, &STUB, &profile, adds);
        assert_eq!(line(&guest, Added::Plain).unwrap().text, "console=ttySTUB0 quiet rdinit=/bootscope/init");
        let traced =
            line(&guest, Added::Recorded { trace_in_memory: false, has_events: true }).unwrap_err().to_string();
        assert!(traced.contains("the kernel takes 100"), "{traced}");
        assert_eq!(((STUB.channel)().wire(), (STUB.check_kernel)(b"").is_err()), (Wire::IoPort(0), true));
    }
}
