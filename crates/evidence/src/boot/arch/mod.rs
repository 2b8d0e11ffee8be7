//! Facts about the guest's architecture that the readers need, one [`Arch`] for each architecture.
//!
//! No other code in this crate may depend on the architecture. `crates/machine/src/arch/README.md` lists the
//! requirements for a new one; here they are an [`Arch`] and a row in [`ALL`].

mod aarch64;
mod arm;
mod riscv64;
mod x86_64;

use crate::boot::stage::Region;
use crate::formats::first_executions::FirstExecutions;
use crate::formats::symbols::KernelImage;
use recording::{GuestSpec, Manifest};
use timeline::RateSource;

/// The facts about an architecture.
pub(crate) struct Arch {
    /// QEMU's names of its targets.
    pub targets: &'static [&'static str],
    /// Finds the stages of a boot after the firmware's first block, from the code that ran. They are in no order.
    pub stages: fn(&FirstExecutions) -> Vec<Region>,
    /// Name prefixes of code that is only passed through on the way to a function or back.
    pub thunks: &'static [&'static [&'static str]],
    /// Name prefixes of the first Linux code that a CPU runs.
    pub cpu_starts: &'static [&'static str],
    /// The function that switches a CPU to another thread of Linux.
    pub thread_switch: &'static str,
    /// The functions that a new thread of Linux calls before its main function.
    pub thread_starts: &'static [&'static str],
    /// The position of Linux' image in memory.
    pub kernel: KernelImage,
    /// Beginnings of the Linux messages that state the counter's rate in MHz, with the kind of figure. The more exact
    /// figure comes first.
    pub counter_messages: &'static [(&'static str, RateSource)],
    /// True if the guest's counter is the host's under TCG, and counts the instructions of a deterministic boot. Any
    /// other counter runs at a rate that only the guest can report.
    pub counts_as_the_host: bool,
}

static ALL: [&Arch; 4] = [&x86_64::ARCH, &aarch64::ARCH, &riscv64::ARCH, &arm::ARCH];

/// The architecture of a target.
pub(crate) fn of(target: &str) -> Option<&'static Arch> {
    known(&ALL, target)
}

fn known<'a>(all: &[&'a Arch], target: &str) -> Option<&'a Arch> {
    all.iter().find(|arch| arch.targets.contains(&target)).copied()
}

/// The architecture of a recording's guest, if it is known here.
pub(crate) fn of_guest(manifest: &Manifest) -> Option<&'static Arch> {
    of(&GuestSpec::of(&manifest.how).unwrap_or_default().arch)
}

/// Whether the guest's counter is the host's, or in a deterministic boot that of instructions. So it is for a guest of an
/// architecture that is not known here: evidence taken elsewhere has none.
pub(crate) fn counts_as_the_host(manifest: &Manifest) -> bool {
    of_guest(manifest).is_none_or(|arch| arch.counts_as_the_host)
}

/// True if code of that name is only passed through, on the way to a function or back. No architecture has an ordinary function
/// with the name of another's thunk. The same holds for the names below.
pub(crate) fn is_thunk(name: &str) -> bool {
    let mut thunks = ALL.iter().flat_map(|arch| arch.thunks.iter().copied().flatten());
    thunks.any(|known| name.starts_with(known))
}

/// True if a CPU's first code has this name.
pub(crate) fn starts_cpu(name: &str) -> bool {
    ALL.iter().flat_map(|arch| arch.cpu_starts).any(|start| name.starts_with(start))
}

/// True if a new thread calls a function of this name before its main function.
pub(crate) fn starts_thread(name: &str) -> bool {
    ALL.iter().any(|arch| arch.thread_starts.contains(&name))
}

/// The messages that state a counter's rate.
pub(crate) fn counter_messages() -> impl Iterator<Item = (&'static str, &'static RateSource)> {
    ALL.iter().flat_map(|arch| arch.counter_messages.iter().map(|(begins, from)| (*begins, from)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::stage::Stage;
    use crate::formats::first_executions::Ending;
    use crate::formats::first_executions::tests::blocks;

    /// A made-up architecture: its kernel is the second block that runs.
    static STUB: Arch = Arch {
        targets: &["stub"],
        stages: |run| run.blocks.iter().skip(1).take(1).map(|b| Region::of(Stage::Kernel, &b, "second")).collect(),
        thunks: &[&["__stub_"]],
        cpu_starts: &["stub_start"],
        thread_switch: "stub_switch",
        thread_starts: &[],
        kernel: KernelImage { entry: "stub_entry", lowest_address: 1 << 40, step_bytes: 4096, bytes_max: 1 << 20 },
        counter_messages: &[("stub: counter", RateSource::DetectedProcessor)],
        counts_as_the_host: false,
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
