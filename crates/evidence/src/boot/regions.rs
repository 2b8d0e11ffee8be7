//! Where each stage of a boot first ran, told from addresses by its [architecture](crate::boot::arch), and what follows from that.
//!
//! What is not recognised is left out, never guessed.

pub use crate::boot::stage::{Region, Stage};

use crate::boot::arch;
use crate::formats::first_executions::FirstExecutions;
use hashbrown::HashMap;
use timeline::{DECOMPRESS, Ns, Phase, TimeBase, Timeline};

/// In which of the stages before the kernel the code at each address ran.
#[derive(Clone, Debug, Default)]
pub struct RanIn(HashMap<u64, Vec<Stage>>);

impl RanIn {
    /// Linear in the blocks before the kernel.
    pub fn new(run: &FirstExecutions, regions: &[Region]) -> RanIn {
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

    /// The stage of the code at an address: of several the one that is asked about, or the last.
    pub fn stage(&self, address: u64, like: Stage) -> Option<Stage> {
        let stages = self.0.get(&address)?;
        if stages.contains(&like) { Some(like) } else { stages.last().copied() }
    }
}

/// How far off a block's time may be: it is taken while the block is translated, a few µs before it runs.
pub const ERROR: Ns = Ns(20_000);

/// The stages that were seen, in order of time. Of an architecture that is not known here, only that something ran first.
pub fn regions(run: &FirstExecutions) -> Vec<Region> {
    let Some(first) = run.blocks.iter().next() else { return Vec::new() };
    let firmware = Region::of(Stage::Firmware, &first, "first block of the machine");
    let mut found = vec![firmware];
    if let Some(arch) = arch::of(&run.target) {
        found.extend((arch.stages)(run));
    }
    found.sort_by_key(|r| (r.at, r.stage));
    found
}

/// What the decompressor does, by what it unpacks. Its functions have no names in a bzImage: all of them are this.
pub fn decompressing(compression: &str) -> String {
    let with = if compression.is_empty() { String::new() } else { format!(" ({compression})") };
    format!("{DECOMPRESS}{with}")
}

/// The physical address of the kernel's entry, if it was seen to start.
pub fn entered_at(regions: &[Region]) -> Option<u64> {
    regions.iter().find_map(|r| r.startup)
}

/// Adds the stages to the timeline: those that last as starts of phases, the others as marks on `track`.
///
/// The kernel's first block in the upper half comes a millisecond into the early kernel and starts no phase, unless nothing
/// was seen of that one; nor does user space, whose first block may be a helper's.
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
    fn of_another_architecture_only_the_first_block_is_known() {
        let mut run = blocks(&[(0, 0x4000_0000, 4, Jump, 0, 1), (1, 0x10_0000, 4, Call, 0, 1)]);
        run.target = "stub".to_owned();
        let found: Vec<_> = regions(&run).iter().map(|r| (r.stage, r.address)).collect();
        assert_eq!(found, [(Stage::Firmware, 0x4000_0000)]);
    }
}
