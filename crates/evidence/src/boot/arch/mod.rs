//! What evidence is read with that is only true of one architecture of the guest.
//!
//! Nothing else in this crate may ask which architecture it is. `crates/machine/src/arch/README.md` lists what a new one has
//! to give; here that is an [`Arch`] and a line in [`ALL`].

mod aarch64;
mod arm;
mod riscv64;
mod x86_64;

use crate::boot::stage::Region;
use crate::formats::first_executions::FirstExecutions;
use crate::formats::symbols::KernelImage;
use recording::{GuestSpec, Manifest};
use timeline::RateSource;

/// An architecture, as its evidence looks.
pub(crate) struct Arch {
    /// What QEMU calls the guests that it is of.
    pub targets: &'static [&'static str],
    /// The stages of a boot after the firmware's first block, in no order, told from the code that ran.
    pub stages: fn(&FirstExecutions) -> Vec<Region>,
    /// How names of code begin that is only passed through, on the way to a function or back from it.
    pub thunks: &'static [&'static [&'static str]],
    /// How the name of each CPU's first code in Linux begins.
    pub cpu_starts: &'static [&'static str],
    /// The function by which a CPU goes on with another thread of Linux.
    pub thread_switch: &'static str,
    /// What a new thread of Linux calls here before what it is for.
    pub thread_starts: &'static [&'static str],
    /// Where Linux' image lies in memory.
    pub kernel: KernelImage,
    /// How messages of Linux begin that say how many MHz its counter has, the better figure first; and what that figure is.
    pub counter_messages: &'static [(&'static str, RateSource)],
    /// Whether the guest's counter is the host's under TCG, and counts the instructions of a deterministic boot. Another one runs
    /// at a rate that only the guest can tell.
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

/// The architecture of the guest of a recording, if it is known here.
pub(crate) fn of_guest(manifest: &Manifest) -> Option<&'static Arch> {
    of(&GuestSpec::of(&manifest.how).unwrap_or_default().arch)
}

/// Whether the guest's counter is the host's, or in a deterministic boot that of instructions. So it is for a guest of an
/// architecture that is not known here: evidence taken elsewhere has none.
pub(crate) fn counts_as_the_host(manifest: &Manifest) -> bool {
    of_guest(manifest).is_none_or(|arch| arch.counts_as_the_host)
}

/// True if code of that name is only passed through, on the way to a function or back. No function has the name of another
/// architecture's thunk.
pub(crate) fn is_thunk(name: &str) -> bool {
    let mut thunks = ALL.iter().flat_map(|arch| arch.thunks.iter().copied().flatten());
    thunks.any(|known| name.starts_with(known))
}

/// Whether a name is that of a CPU's first code.
pub(crate) fn starts_cpu(name: &str) -> bool {
    ALL.iter().flat_map(|arch| arch.cpu_starts).any(|start| name.starts_with(start))
}

/// Whether a new thread calls a function of that name before what it is for.
pub(crate) fn starts_thread(name: &str) -> bool {
    ALL.iter().any(|arch| arch.thread_starts.contains(&name))
}

/// The messages that say how fast a counter is.
pub(crate) fn counter_messages() -> impl Iterator<Item = (&'static str, &'static RateSource)> {
    ALL.iter().flat_map(|arch| arch.counter_messages.iter().map(|(begins, from)| (*begins, from)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::stage::Stage;
    use crate::formats::first_executions::Ending;
    use crate::formats::first_executions::tests::blocks;

    /// An architecture that is none: its kernel is whatever runs second.
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
    fn another_architecture_fits_behind_it() {
        let all = [&x86_64::ARCH, &STUB];
        let arch = known(&all, "stub").unwrap();
        let run = blocks(&[(0, 0x8000, 4, Ending::Jump, 0, 1), (7, 0x9000, 4, Ending::Call, 0, 1)]);
        let found: Vec<_> = (arch.stages)(&run).iter().map(|r| (r.stage, r.address)).collect();
        assert_eq!(found, [(Stage::Kernel, 0x9000)]);
        assert!(known(&all, "i386").is_some_and(|arch| std::ptr::eq(arch, &x86_64::ARCH)));
        assert!(known(&all, "riscv64").is_none());
    }
}
