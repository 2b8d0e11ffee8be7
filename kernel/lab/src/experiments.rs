//! What an experiment is: which words make a boot slow, which make it quick again, what was measured elsewhere, and which
//! rows of the boot path must be blamed. `table` lists the experiments.
//!
//! A remedy is right if those rows became shorter by most, the boot became shorter by what `what-if` predicts for them, and
//! it then took what is predicted, or [`Experiment::differs`] says why not. If an experiment names a check, the check decides
//! instead: the slow boot must be broken and the remedy's correct (`verdict.rs`). How long either took does not count then.

mod table;

pub use table::EXPERIMENTS;

/// A slow spot of the boot, with its remedies.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// What it is called.
    pub name: &'static str,
    /// What is slow, and what helps.
    pub what: &'static str,
    /// Where the published figures are from.
    pub source: &'static str,
    /// Words of the command line that make no difference between the boots.
    pub always: &'static str,
    /// The words that make it slow.
    pub slow: &'static str,
    /// The words of each remedy. Published figures are of the first.
    pub remedies: &'static [&'static str],
    /// The check whose verdict decides in the place of a time; empty if time decides.
    pub check: &'static str,
    /// What is timed.
    pub figures: &'static [Figure],
    /// What else is measured.
    pub amounts: &'static [Amount],
    /// Which lengths are neither the hardware's nor published but were chosen, and how; empty if none.
    pub chosen: &'static str,
    /// In what this boot is unlike the published one, where a figure shows it; empty if in nothing.
    pub note: &'static str,
    /// Of a remedy: why the boot does not take what `what-if` foretells for it, where that is more than 10 % off. `what-if`
    /// shortens the blamed rows and changes no other.
    pub differs: &'static [(&'static str, &'static str)],
    /// Of a remedy: the rows of the boot path that it adds or makes longer, which is taken off what is foretold. Those that grew by most have
    /// to be these.
    pub adds: &'static [(&'static str, &'static [&'static str])],
    /// Of a remedy that was published as none: why.
    pub no_better: &'static [(&'static str, &'static str)],
    /// Those of them with which the boot is to take as long as without, within 1 %.
    pub saves_nothing: &'static [&'static str],
    /// The rows of the boot path that the switch is to be found in, as the tables print them.
    pub blamed: &'static [&'static str],
    /// The machine.
    pub machine: Machine,
}

/// What is timed, and what it took where it was published.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// What it is called.
    pub name: &'static str,
    /// The functions whose time it is, with all they call and wait for; as the log names them.
    pub functions: &'static [&'static str],
    /// What it is per (`GB`, `AP`); empty if it is of a whole boot.
    pub per: &'static str,
    /// How many of those the machine has.
    pub units: u32,
    /// Published, of the slow boot; in microseconds.
    pub slow_us: Option<u64>,
    /// Published, with the remedy.
    pub fast_us: Option<u64>,
}

/// What is measured that is not a function's time, and what it was where it was published.
#[derive(Clone, Copy, Debug)]
pub struct Amount {
    /// What.
    pub of: Measure,
    /// Published, of the slow boot.
    pub slow: Option<u64>,
    /// Published, with each remedy, in their order; nothing was of those that are left out at the end.
    pub fast: &'static [u64],
}

/// What can be measured beside time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// What a character on the serial port costs, in nanoseconds: the time that printing takes less, by the characters that are
    /// printed less. There is one figure for both boots.
    NsPerCharacter,
    /// The guest's cache, in bytes.
    GuestCache,
    /// The most that the VMM had resident, in bytes.
    VmmResident,
    /// Segments that were passed in chains of the address arena's hash while em0 gave its buffers back.
    ChainSteps,
    /// The frame allocator's share of the boot after its machine-dependent part, in thousandths.
    FrameAllocatorPermille,
    /// The frame allocator's share of the time that was sampled, by the recorder; in thousandths.
    RecordedPermille,
    /// The same by the samples.
    SampledPermille,
    /// The round trip of a system call that there is not, in instructions; published in cycles.
    SystemCall,
    /// The same of a bare `syscall` and `sysret`.
    BareSystemCall,
    /// How many times as long the first is.
    SystemCallOfBare,
}

/// What an experiment is booted on.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Virtual CPUs.
    pub cpus: u32,
    /// Memory.
    pub memory_bytes: u64,
    /// How large a root image it is given; 0 for none.
    pub root_bytes: u32,
    /// Further arguments for QEMU.
    pub arguments: &'static [&'static str],
}

impl Experiment {
    /// The one of that name.
    pub fn named(name: &str) -> Option<&'static Experiment> {
        EXPERIMENTS.iter().find(|experiment| experiment.name == name)
    }

    /// Whether those that saved most are just the rows that the switch is to be found in, whatever their order.
    pub fn is_right(&self, blamed: &[&str]) -> bool {
        blamed.len() == self.blamed.len() && self.blamed.iter().all(|row| blamed.contains(row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blame_is_right_in_any_order_and_with_nothing_else() {
        let clocks = Experiment::named("clock-calibration").unwrap();
        assert!(clocks.is_right(&["SYSINIT clocks · DELAY", "SYSINIT cpu · DELAY"]));
        assert!(!clocks.is_right(&["SYSINIT clocks · DELAY"]));
        assert!(!clocks.is_right(&["SYSINIT clocks · DELAY", "_vprintf"]));
    }
}
