//! The guest's architecture: what a recorder has to know of it, as data and a few functions.
//!
//! The guest determines the [`Arch`]. Code that depends on it asks the `Arch`, and never which one it is. `README.md` lists
//! what a new one has to give, here and in the other crates.

mod aarch64;
mod arm;
mod image;
mod riscv64;
mod serial_port;
mod virtio_console;
pub(crate) mod x86_64;

use std::borrow::Cow;

use recording::GuestSpec;

use crate::Error;
use crate::vmm::channel::GuestChannel;

/// How a Linux kernel's addresses lie in memory, and its tables of stack frames. Only those of x86-64 can be read yet.
pub(crate) use x86_64::{orc, paging};

/// What a recorder has to know of an architecture.
#[derive(Debug)]
pub(crate) struct Arch {
    /// Its name, in options and in recordings: QEMU's.
    pub(crate) name: &'static str,
    /// What it is called elsewhere.
    pub(crate) also_called: &'static [&'static str],
    /// The VMM's program, where the user names none.
    pub(crate) vmm: &'static str,
    /// The machine, where the user names none.
    pub(crate) machine: &'static str,
    /// Machines whose console, channel or CPU is another than that of the one above.
    pub(crate) boards: &'static [Board],
    /// Whether a VMM gives its kernels a device tree, the user's own too.
    pub(crate) takes_device_tree: bool,
    /// What the names of its machines with PCI contain.
    pub(crate) pci_machines: &'static [&'static str],
    /// The CPU model that a VMM of this major version translates; none: its own choice.
    pub(crate) translated_cpu: fn(u32) -> Option<&'static str>,
    /// Whether the host's CPUs run its code.
    pub(crate) is_hosts: bool,
    /// The file that is process 1.
    pub(crate) guest_init: &'static str,
    /// Whether a VMM starts its kernels unpacked, as ELF images (x86-64's by PVH).
    pub(crate) starts_unpacked: bool,
    /// Whether the VMM's plugin follows calls of its guests.
    pub(crate) follows_calls: bool,
    /// The first serial port, as Linux's `console=` calls it.
    pub(crate) console: &'static str,
    /// What makes Linux print on that port before it has drivers.
    pub(crate) early_console: &'static str,
    /// The trace clock that counts what process 1 reads its stamps from.
    pub(crate) trace_clock: &'static str,
    /// The longest command line that Linux takes, in bytes.
    pub(crate) command_line_bytes_max: usize,
    /// The I/O port that firmware writes its debug messages to, where there is one.
    pub(crate) firmware_port: Option<u16>,
    /// The way of the guest's messages.
    pub(crate) channel: fn() -> Box<dyn GuestChannel>,
    /// What instruction pointers are called in a VMM's text of registers.
    pub(crate) instruction_pointers: &'static [&'static str],
    /// Whether a VMM can start a kernel that begins with these bytes; what it is instead.
    pub(crate) check_kernel: fn(&[u8]) -> Result<(), &'static str>,
    /// The release of a Linux whose image begins with these bytes, where they say it.
    pub(crate) linux_release: fn(&[u8]) -> Option<String>,
    /// How much of the image has to be looked at for that.
    pub(crate) release_bytes_max: u64,
    /// Whether an image that begins with these bytes has one of this form, compressed or not.
    pub(crate) is_plain_image: fn(&[u8]) -> bool,
    /// The kernel as it lies in memory, out of an image that is this architecture's own form of one and no ELF image.
    pub(crate) plain_image: fn(&[u8]) -> Option<Cow<'_, [u8]>>,
    /// The address that a kernel which moves itself writes to this place of its image, as linked.
    pub(crate) relocated: fn(&[u8], usize) -> Option<u64>,
    /// Whether its kernels' page tables are known, so that their memory can be read by their addresses.
    pub(crate) reads_kernels: bool,
    /// The registers that a stack is walked by, out of all that a gdbstub gives.
    pub(crate) registers: fn(&[u8]) -> Option<Registers>,
    /// So far below where the frame pointer leads lie the caller's frame pointer and, above it, the return address.
    pub(crate) frame_below: u64,
    /// The call that these bytes end with, if they may be one.
    pub(crate) call_before: fn(&[u8]) -> Option<Call>,
    /// How far above the stack pointer the return address lies where a function has no frame of its own (yet, or any more), by
    /// the byte before the instruction pointer and those from there on.
    pub(crate) return_without_frame: fn(u8, &[u8]) -> Option<u64>,
    /// A kernel that randomises its own address moves by a multiple of this.
    pub(crate) image_step_bytes: u64,
    /// The instruction that bytes at an address begin with, if they begin one.
    pub(crate) instruction: fn(&[u8], u64) -> Option<Instruction>,
    /// Code for an address that calls a function, or without one does nothing, of just so many bytes; none if there is no
    /// such code.
    pub(crate) call_or_nothing: fn(u64, Option<u64>, usize) -> Option<Vec<u8>>,
}

/// A machine that is built otherwise than the usual one of its architecture. Its CPU is the VMM's choice.
#[derive(Debug)]
pub(crate) struct Board {
    /// What a VMM calls it.
    pub(crate) name: &'static str,
    /// The serial port that its console is on, as Linux's `console=` calls it.
    pub(crate) console: &'static str,
    /// The place of that port among those of the machine.
    pub(crate) console_place: u8,
    /// The way of the guest's messages.
    pub(crate) channel: fn() -> Box<dyn GuestChannel>,
}

impl Arch {
    /// The board that a guest runs on, if its machine is one of them. A VMM makes no device tree for these.
    pub(crate) fn board(&self, guest: &GuestSpec) -> Option<&'static Board> {
        let machine = guest.machine.split(',').next().unwrap_or_default();
        self.boards.iter().find(|board| board.name == machine)
    }

    /// A guest's console, as Linux's `console=` calls it.
    pub(crate) fn console(&self, guest: &GuestSpec) -> &'static str {
        self.board(guest).map_or(self.console, |board| board.console)
    }

    /// The place of that console's port among a machine's serial ports.
    pub(crate) fn console_place(&self, guest: &GuestSpec) -> u8 {
        self.board(guest).map_or(0, |board| board.console_place)
    }

    /// The way of a guest's messages.
    pub(crate) fn channel(&self, guest: &GuestSpec) -> Box<dyn GuestChannel> {
        (self.board(guest).map_or(self.channel, |board| board.channel))()
    }

    /// The CPU model that a VMM of this major version translates for a guest; none: its own choice.
    pub(crate) fn cpu(&self, guest: &GuestSpec, version: u32) -> Option<&'static str> {
        self.board(guest).map_or_else(|| (self.translated_cpu)(version), |_| None)
    }
}

/// Where a vCPU is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Registers {
    /// The next instruction.
    pub(crate) pc: u64,
    /// The top of its stack.
    pub(crate) sp: u64,
    /// The frame pointer, where code keeps one there.
    pub(crate) fp: u64,
    /// In what it runs.
    pub(crate) mode: Mode,
}

/// What runs on a vCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Firmware, or a loader: the CPU is not set up as a kernel has it.
    Boot,
    /// A kernel; or firmware or a loader that has set the CPU up alike.
    Kernel,
    /// A process.
    User,
}

/// A call, as its instruction has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// To so many bytes behind its end.
    By(i32),
    /// Through a register or memory.
    Indirect,
}

/// An instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    /// How long it is.
    pub(crate) bytes: usize,
    /// Whom it calls, if it is a call.
    pub(crate) call: Option<CallTo>,
}

/// Where a call leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallTo {
    /// There.
    Address(u64),
    /// The instruction does not say.
    Unknown,
}

/// The first is that of guests which say nothing.
static ALL: [&Arch; 4] = [&x86_64::ARCH, &aarch64::ARCH, &riscv64::ARCH, &arm::ARCH];

/// That of a guest. One whose architecture is unknown is refused before anything is started ([`check`]).
pub(crate) fn of(guest: &GuestSpec) -> &'static Arch {
    named(&guest.arch).unwrap_or(ALL[0])
}

/// By QEMU's name, or by the one that Linux and distributions use.
pub(crate) fn named(name: &str) -> Option<&'static Arch> {
    ALL.iter().find(|arch| arch.name == name || arch.also_called.contains(&name)).copied()
}

/// Fails unless the guest's architecture is known.
pub(crate) fn check(guest: &GuestSpec) -> Result<(), Error> {
    if named(&guest.arch).is_some() {
        return Ok(());
    }
    let known = ALL.map(|arch| arch.name).join(", ");
    Err(Error::option(format!("--arch {}: bootscope boots guests of {known}", guest.arch)))
}

/// Whether an image that begins with these bytes gives a [plain one](plain_image).
pub(crate) fn is_plain_image(head: &[u8]) -> bool {
    ALL.iter().any(|arch| (arch.is_plain_image)(head))
}

/// The kernel as it lies in memory, out of an image that is no ELF image, whosever form it has.
pub(crate) fn plain_image(image: &[u8]) -> Option<Cow<'_, [u8]>> {
    ALL.iter().find_map(|arch| (arch.plain_image)(image))
}

/// The address that a kernel which moves itself writes to this place of its image, as linked.
pub(crate) fn relocated(image: &[u8], at: usize) -> Option<u64> {
    ALL.iter().find_map(|arch| (arch.relocated)(image, at))
}

/// That whose VMM can start a kernel that begins with these bytes.
pub(crate) fn of_kernel(head: &[u8]) -> Option<&'static Arch> {
    ALL.iter().find(|arch| (arch.check_kernel)(head).is_ok()).copied()
}

/// The host's cycle counter, where it has one that is known here.
pub(crate) fn host_ticks() -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    return Some(x86_64::ticks());
    #[cfg(not(target_arch = "x86_64"))]
    None
}

/// How many instructions of a guest's kernel this host's KVM runs in a second; or why that cannot be measured.
pub(crate) fn kvm_instructions_per_s() -> Result<u64, String> {
    #[cfg(target_arch = "x86_64")]
    return x86_64::kvm::instructions_per_s();
    #[cfg(not(target_arch = "x86_64"))]
    Err("nobody has tried it on this architecture".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel_line::{Added, kernel_line};
    use crate::profile::GuestProfile;
    use crate::vmm::channel::Wire;
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

    /// An architecture that is none.
    static STUB: Arch = Arch {
        name: "stub",
        also_called: &[],
        vmm: "stub",
        machine: "none",
        boards: &[],
        takes_device_tree: false,
        pci_machines: &[],
        translated_cpu: |_| None,
        is_hosts: false,
        guest_init: "stub",
        release_bytes_max: 0,
        starts_unpacked: false,
        follows_calls: false,
        console: "ttySTUB0",
        early_console: "earlycon",
        trace_clock: "stub",
        command_line_bytes_max: 100,
        firmware_port: None,
        channel: || Box::new(Mute),
        instruction_pointers: &["PC="],
        check_kernel: |_| Err("it is a kernel of no machine"),
        linux_release: |_| None,
        is_plain_image: |_| false,
        plain_image: |_| None,
        relocated: |_, _| None,
        reads_kernels: false,
        registers: |_| None,
        frame_below: 0,
        call_before: |_| None,
        return_without_frame: |_, _| None,
        image_step_bytes: 1,
        instruction: |_, _| None,
        call_or_nothing: |_, _, _| None,
    };

    #[test]
    fn another_architecture_fits_behind_it() {
        let guest = GuestSpec { append: "quiet".to_owned(), ..GuestSpec::default() };
        let profile = GuestProfile { takes_linux_words: true, ..GuestProfile::default() };
        let line = |guest: &GuestSpec, adds| kernel_line(guest, &STUB, &profile, adds);
        assert_eq!(line(&guest, Added::Plain).unwrap().text, "console=ttySTUB0 quiet rdinit=/bootscope/init");
        let traced = line(&guest, Added::Recorded { trace_in_memory: false }).unwrap_err().to_string();
        assert!(traced.contains("the kernel takes 100"), "{traced}");
        assert_eq!(((STUB.channel)().wire(), (STUB.check_kernel)(b"").is_err()), (Wire::IoPort(0), true));
    }
}
