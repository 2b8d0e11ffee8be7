//! The parts of an experiment: the words that make a boot slow, the remedies, the published measurements, and the rows of the
//! boot path that must be blamed. `table` lists the experiments.
//!
//! A remedy is right if those rows became shorter by most, if the boot became shorter by the saving that `what-if` predicts
//! for them, and if the boot takes the predicted time or [`Experiment::differs`] has the reason. If an experiment names a
//! check, the check decides instead: the slow boot must be broken and the remedy's boot correct (`verdict.rs`). The length of
//! either boot does not count then.

mod table;

pub use table::EXPERIMENTS;

/// A slow spot of the boot, with its remedies.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    pub name: &'static str,
    /// The slow part, and the remedies, in words.
    pub what: &'static str,
    /// Source of the published figures.
    pub source: &'static str,
    /// Words of the command line in all boots.
    pub always: &'static str,
    /// Words of the slow boot.
    pub slow: &'static str,
    /// Words of each remedy. Published figures belong to the first remedy.
    pub remedies: &'static [&'static str],
    /// Name of the check whose verdict decides instead of a time; empty if time decides.
    pub check: &'static str,
    /// The measured times.
    pub figures: &'static [Figure],
    /// Further measurements.
    pub amounts: &'static [Amount],
    /// The lengths that we chose, because they are neither the hardware's nor published, and the reason; may be empty.
    pub chosen: &'static str,
    /// Difference between this boot and the published one that a figure shows; may be empty.
    pub note: &'static str,
    /// Remedies whose boot differs from the prediction of `what-if` by more than 10 %, each with the reason. `what-if` shortens
    /// the blamed rows and changes no other.
    pub differs: &'static [(&'static str, &'static str)],
    /// Remedies that add rows of the boot path or lengthen them, each with these rows. Their growth is subtracted from the
    /// predicted saving. The rows that grew by most must be these.
    pub adds: &'static [(&'static str, &'static [&'static str])],
    /// Remedies that were published as no improvement, each with the reason.
    pub no_better: &'static [(&'static str, &'static str)],
    /// Remedies in `no_better` that must leave the length of the boot unchanged, within 1 %.
    pub saves_nothing: &'static [&'static str],
    /// Rows of the boot path that the switch affects, as the tables print them.
    pub blamed: &'static [&'static str],
    pub machine: Machine,
}

/// A measured time, and its published values.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    pub name: &'static str,
    /// Functions whose time is summed, with all they call and wait for. The names are those of the log.
    pub functions: &'static [&'static str],
    /// Unit that the time is divided by (`GB`, `AP`); empty if the time is for a whole boot.
    pub per: &'static str,
    /// Number of these units that the machine has.
    pub units: u32,
    /// Published time of the slow boot, in microseconds.
    pub slow_us: Option<u64>,
    /// Published time with the first remedy, in microseconds.
    pub fast_us: Option<u64>,
}

/// A measurement that is not a function's time, and its published values.
#[derive(Clone, Copy, Debug)]
pub struct Amount {
    /// The measured quantity.
    pub of: Measure,
    /// Published value of the slow boot.
    pub slow: Option<u64>,
    /// Published values with each remedy, in the remedies' order. Remedies past the end have no published value.
    pub fast: &'static [u64],
}

/// The measurable quantities beside time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Cost of a character on the serial port, in nanoseconds. It is the printing time saved, divided by the characters
    /// saved, so both boots together have one value.
    NsPerCharacter,
    /// The guest's cache, in bytes.
    GuestCache,
    /// The VMM's largest resident memory, in bytes.
    VmmResident,
    /// Chain steps in the address arena's hash while em0 freed its buffers.
    ChainSteps,
    /// The frame allocator's share of the boot after its machine-dependent part, in thousandths.
    FrameAllocatorPermille,
    /// The frame allocator's share of the sampled time, by the recorder, in thousandths.
    RecordedPermille,
    /// The same share by the samples.
    SampledPermille,
    /// Round trip of a system call that does not exist, in instructions; published in cycles.
    SystemCall,
    /// Round trip of a bare `syscall` and `sysret`, in instructions; published in cycles.
    BareSystemCall,
    /// Ratio of the former to the latter.
    SystemCallOfBare,
}

/// The machine that an experiment boots on.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Number of virtual CPUs.
    pub cpus: u32,
    pub memory_bytes: u64,
    /// Size of the root image; 0 for no root image.
    pub root_bytes: u32,
    /// Further arguments for QEMU.
    pub arguments: &'static [&'static str],
}

impl Experiment {
    /// Finds the experiment of that name.
    pub fn named(name: &str) -> Option<&'static Experiment> {
        EXPERIMENTS.iter().find(|experiment| experiment.name == name)
    }

    /// True if the rows that saved most are exactly the rows that the switch affects, in any order.
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
