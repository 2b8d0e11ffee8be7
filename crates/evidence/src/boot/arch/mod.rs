//! Facts about the guest's architecture that the readers need, one [`Arch`] for each architecture.
//!
//! No other code in this crate may depend on the architecture. `crates/machine/src/arch/README.md` lists the
//! requirements for a new one; here they are an [`Arch`] and a row in [`ALL`].

mod aarch64;
mod arm;
mod by_address;
mod ppc64;
mod riscv64;
mod s390x;
mod x86_64;

use crate::boot::stage::Region;
use crate::formats::first_executions::FirstExecutions;
use ::arch::Facts;
use recording::{GuestSpec, Manifest};
use timeline::RateSource;

/// The facts about an architecture.
pub(crate) struct Arch {
    /// Its names, and facts about its Linux kernels.
    pub facts: &'static Facts,
    /// Finds the stages of a boot after the firmware's first block, from the code that ran. They are in no order.
    pub stages: fn(&FirstExecutions) -> Vec<Region>,
    /// Beginnings of the Linux messages that state the counter's rate in MHz, with the kind of figure. The more exact
    /// figure comes first.
    pub counter_messages: &'static [(&'static str, RateSource)],
    /// Devices of QEMU's machines at fixed addresses: first and last address, name.
    pub devices: &'static [(u64, u64, &'static str)],
}

static ALL: [&Arch; 6] = [&x86_64::ARCH, &aarch64::ARCH, &riscv64::ARCH, &arm::ARCH, &s390x::ARCH, &ppc64::ARCH];

/// The architecture of a target.
pub(crate) fn of(target: &str) -> Option<&'static Arch> {
    known(&ALL, target)
}

fn known<'a>(all: &[&'a Arch], target: &str) -> Option<&'a Arch> {
    all.iter().find(|arch| arch.facts.targets.contains(&target)).copied()
}

/// The architecture of a recording's guest, if it is known here.
pub(crate) fn of_guest(manifest: &Manifest) -> Option<&'static Arch> {
    of(&GuestSpec::of(&manifest.how).unwrap_or_default().arch)
}

/// True if the guest's counter is the host's, or counts instructions in a deterministic boot. It is also true for a
/// guest of an unknown architecture: evidence taken elsewhere names none.
pub(crate) fn counts_as_the_host(manifest: &Manifest) -> bool {
    of_guest(manifest).is_none_or(|arch| arch.facts.qemu.counts_as_the_host)
}

/// True if code of that name is only passed through, on the way to a function or back. No architecture has an ordinary function
/// with the name of another's thunk. The same holds for the names below.
pub(crate) fn is_thunk(name: &str) -> bool {
    let mut thunks = ::arch::ALL.iter().flat_map(|facts| facts.linux.thunks);
    thunks.any(|known| name.starts_with(known))
}

/// True if a CPU's first code has this name.
pub(crate) fn starts_cpu(name: &str) -> bool {
    ::arch::ALL.iter().flat_map(|facts| facts.linux.cpu_starts).any(|start| name.starts_with(start))
}

/// True if a new thread calls a function of this name before its main function.
pub(crate) fn starts_thread(name: &str) -> bool {
    ::arch::ALL.iter().any(|facts| facts.linux.thread_starts.contains(&name))
}

/// The messages that state a counter's rate.
pub(crate) fn counter_messages() -> impl Iterator<Item = (&'static str, &'static RateSource)> {
    ALL.iter().flat_map(|arch| arch.counter_messages.iter().map(|(begins, from)| (*begins, from)))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::boot::regions::regions;
    use crate::boot::stage::Stage;
    use crate::formats::first_executions::Ending;
    use crate::formats::first_executions::tests::blocks;
    use ::arch::{Image, Linux, Qemu};

    /// Compares the stages of these blocks (address, ending, target), their addresses, and the address of the kernel's entry.
    pub(super) fn check_stages(
        target: &str,
        addresses: &[(u64, Ending, u64)],
        expected: &[(Stage, u64)],
        startup: Option<u64>,
    ) {
        let rows: Vec<_> = (0i64..).zip(addresses).map(|(us, &(a, ending, to))| (us, a, 4, ending, to, 1)).collect();
        let mut run = blocks(&rows);
        run.target = target.to_owned();
        let got = regions(&run);
        assert_eq!(got.iter().map(|r| (r.stage, r.address)).collect::<Vec<_>>(), expected);
        assert_eq!(got.iter().find_map(|r| r.startup), startup);
    }

    /// A made-up architecture: its kernel is the second block that runs.
    static STUB: Arch = Arch {
        facts: &STUB_FACTS,
        stages: |run| run.blocks.iter().skip(1).take(1).map(|b| Region::of(Stage::Kernel, &b, "second")).collect(),
        counter_messages: &[("stub: counter", RateSource::DetectedProcessor)],
        devices: &[],
    };

    static STUB_FACTS: Facts = Facts {
        name: "stub",
        aliases: &[],
        targets: &["stub"],
        has_ports: true,
        qemu: Qemu {
            program: "stub",
            machine: "none",
            known_machines: &["none"],
            takes_device_tree: false,
            pci_machines: &[],
            translated_cpu: |_| None,
            starts_unpacked: false,
            follows_calls: false,
            firmware_port: None,
            firmware_place: None,
            instruction_pointers: &[],
            counts_as_the_host: false,
        },
        linux: Linux {
            console: "",
            board_consoles: &[],
            early_console: "",
            trace_clock: "",
            command_line_bytes_max: 0,
            thunks: &["__stub_"],
            cpu_starts: &["stub_start"],
            thread_switch: "stub_switch",
            thread_starts: &[],
            image: Image { entry: "stub_entry", lowest_address: 1 << 40, step_bytes: 4096, bytes_max: 1 << 20 },
        },
    };

    #[test]
    fn a_further_architecture_can_be_added() {
        let all = [&x86_64::ARCH, &STUB];
        let arch = known(&all, "stub").unwrap();
        let run = blocks(&[(0, 0x8000, 4, Ending::Jump, 0, 1), (7, 0x9000, 4, Ending::Call, 0, 1)]);
        let found: Vec<_> = (arch.stages)(&run).iter().map(|r| (r.stage, r.address)).collect();
        assert_eq!(found, [(Stage::Kernel, 0x9000)]);
        assert!(known(&all, "i386").is_some_and(|arch| std::ptr::eq(arch, &x86_64::ARCH)));
        assert!(known(&all, "riscv64").is_none());
    }
}
