//! Finds when each stage of a boot first ran. An [architecture](crate::boot::arch) recognises the stages by addresses.
//!
//! Stages that are not recognised are left out, never guessed.

pub use crate::boot::stage::{Region, Stage};

use crate::boot::arch;
use crate::formats::first_executions::FirstExecutions;
use hashbrown::HashMap;
use timeline::{DECOMPRESS, Ns, Phase, TimeBase, Timeline};

/// For each code address before the kernel: the stages in which it ran.
#[derive(Clone, Debug, Default)]
pub struct RanIn(HashMap<u64, Vec<Stage>>);

impl RanIn {
    /// Finds the stages. Linear in the number of blocks before the kernel.
    pub(crate) fn new(run: &FirstExecutions, regions: &[Region]) -> RanIn {
        let mut ran_in: HashMap<u64, Vec<Stage>> = HashMap::new();
        let mut lasting = regions.iter().filter(|region| region.lasts()).peekable();
        let mut stage = None;
        for block in run.blocks.iter() {
            while let Some(region) = lasting.next_if(|region| region.at <= block.at) {
                stage = Some(region.stage);
            }
            match stage {
                Some(stage) if stage < Stage::EarlyKernel => {
                    let stages = ran_in.entry(block.address).or_default();
                    if stages.last() != Some(&stage) {
                        stages.push(stage);
                    }
                }
                Some(_) => break,
                None => {}
            }
        }
        RanIn(ran_in)
    }

    /// Returns the stage of the code at an address. If it ran in several: `like` if that is among them, else the last.
    pub(crate) fn stage(&self, address: u64, like: Stage) -> Option<Stage> {
        let stages = self.0.get(&address)?;
        if stages.contains(&like) { Some(like) } else { stages.last().copied() }
    }
}

/// The error of a block's time. The time is taken when the block is translated, a few µs before it runs.
pub(crate) const ERROR: Ns = Ns(20_000);

/// Returns the stages that were seen, in order of time. For an unknown architecture, only the first block is known.
pub fn regions(run: &FirstExecutions) -> Vec<Region> {
    let Some(first) = run.blocks.iter().next() else { return Vec::new() };
    let firmware = Region::of(Stage::Firmware, &first, "first block of the machine");
    let mut stages = vec![firmware];
    if let Some(arch) = arch::of(&run.target) {
        stages.extend((arch.stages)(run));
    }
    stages.sort_by_key(|r| (r.at, r.stage));
    stages
}

/// Names the decompressor's work by the compression. Its functions have no names in a bzImage, so they share this name.
pub(crate) fn decompressing(compression: &str) -> String {
    let with = if compression.is_empty() { String::new() } else { format!(" ({compression})") };
    format!("{DECOMPRESS}{with}")
}

/// Returns the physical address of the kernel's entry, if its start was seen.
pub(crate) fn entered_at(regions: &[Region]) -> Option<u64> {
    regions.iter().find_map(|r| r.startup)
}

/// Adds the stages to the timeline: those that last as boundaries of phases, the others as marks on `track`.
///
/// The kernel's first block in the upper half comes a millisecond after the early kernel begins. It begins a phase only
/// if the early kernel was not seen. User space begins no phase: its first block may belong to a helper.
pub fn add(regions: &[Region], track: timeline::TrackId, timeline: &mut Timeline) {
    let error = if timeline.time_base == TimeBase::GuestVirtual { Ns::ZERO } else { ERROR };
    let early = regions.iter().any(|r| r.stage == Stage::EarlyKernel);
    for r in regions {
        let at = r.at;
        let phase = match r.stage {
            Stage::Firmware => Some(Phase::Firmware),
            Stage::Loader => Some(Phase::Loader),
            Stage::SetupCode => Some(Phase::SetupCode),
            Stage::Decompressor => Some(Phase::Decompressor),
            Stage::EfiStub => Some(Phase::EfiStub),
            Stage::EarlyKernel => Some(Phase::EarlyKernel),
            Stage::Kernel if !early => Some(Phase::Kernel),
            Stage::OptionRom | Stage::Kernel | Stage::UserSpace => None,
        };
        match phase {
            Some(phase) => timeline.boundary(phase, at, error, &r.evidence),
            None => {
                let name = timeline.names.intern(&format!("{}: first block", r.stage.name()));
                timeline.marks.push(timeline::Mark { at, name, track });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::first_executions::Ending::{Call, Jump, JumpIndirect};
    use crate::formats::first_executions::tests::blocks;

    const HIGH: u64 = 0xffff_ffff_9f20_00d3;

    #[test]
    fn an_address_ran_in_the_stages_in_which_it_was_new() {
        let addresses = [(0xffff_fff0, Jump), (0xf_001a, Call), (0x1_0200, Jump), (0xf_001a, Call)];
        let later = [(0x10_0000, Call), (0x10_0400, JumpIndirect), (0x100_0c43, Jump), (HIGH, Call)];
        let rows = (0i64..).zip(addresses.iter().chain(&later)).map(|(us, &(a, ending))| (us, a, 4, ending, 0, 1));
        let run = blocks(&rows.collect::<Vec<_>>());
        let ran_in = RanIn::new(&run, &regions(&run));
        assert_eq!(ran_in.stage(0x10_0400, Stage::Firmware), Some(Stage::Decompressor));
        assert_eq!(ran_in.stage(0xf_001a, Stage::Firmware), Some(Stage::Firmware));
        assert_eq!(ran_in.stage(0xf_001a, Stage::Decompressor), Some(Stage::SetupCode));
        assert_eq!(ran_in.stage(0x100_0c43, Stage::Firmware), None, "the kernel's own");
    }

    #[test]
    fn an_unknown_architecture_has_only_its_first_block() {
        let mut run = blocks(&[(0, 0x4000_0000, 4, Jump, 0, 1), (1, 0x10_0000, 4, Call, 0, 1)]);
        run.target = "stub".to_owned();
        let stages: Vec<_> = regions(&run).iter().map(|r| (r.stage, r.address)).collect();
        assert_eq!(stages, [(Stage::Firmware, 0x4000_0000)]);
    }
}
