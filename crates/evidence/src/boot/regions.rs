//! Finds when each stage of a boot first ran. An [architecture](crate::boot::arch) recognises the stages by addresses.
//!
//! Stages that are not recognised are left out, never guessed.

pub use crate::boot::stage::{Region, Stage};

use crate::boot::arch;
use crate::formats::firmware_images::FirmwareImages;
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

/// Moves the beginning of the kernel's UEFI program behind code of the firmware. An architecture finds it by addresses, and a
/// module may lie near the kernel, one without a name too: nothing starts a kernel before `BdsDxe`. A stage without code of
/// its own is left out.
pub(crate) fn outside_programs(
    mut regions: Vec<Region>,
    run: &FirstExecutions,
    programs: &FirmwareImages,
) -> Vec<Region> {
    let next = regions.iter().filter(|r| r.lasts() && r.stage > Stage::EfiStub).map(|r| r.at).min().unwrap_or(Ns::MAX);
    let starts = run.blocks.iter().find(|block| programs.begins(block.address) == Some(Phase::UefiBds));
    let starts = starts.map_or(Ns::MIN, |block| block.at);
    regions.retain_mut(|region| {
        if region.stage != Stage::EfiStub || (region.at >= starts && programs.find(region.address).is_none()) {
            return true;
        }
        let earliest = region.at.max(starts);
        let later = run.blocks.iter().skip_while(|block| block.at < earliest).take_while(|block| block.at < next);
        let Some(first) = later.into_iter().find(|block| programs.find(block.address).is_none()) else { return false };
        *region = Region::of(Stage::EfiStub, &first, "first block that is in no module of the firmware");
        true
    });
    regions
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

/// Finds the beginnings of UEFI's phases, and of a loader's: the first block of the program that each begins with, until
/// the firmware no longer runs. Only one that comes after the one before counts.
fn uefi_phases(run: &FirstExecutions, programs: &FirmwareImages, regions: &[Region]) -> Vec<(Phase, Ns, u64)> {
    let end = regions.iter().filter(|r| r.lasts() && r.stage > Stage::Firmware).map(|r| r.at).min();
    let of_firmware = run.blocks.iter().take_while(|block| end.is_none_or(|end| block.at < end));
    let mut found: Vec<(Phase, Ns, u64)> = Vec::new();
    for block in of_firmware {
        let begins = programs.begins(block.address);
        let Some(order) = begins.and_then(|phase| UEFI_PHASES.iter().position(|known| *known == phase)) else {
            continue;
        };
        let is_next = found.last().is_none_or(|last| UEFI_PHASES[..order].contains(&last.0));
        if is_next {
            found.push((UEFI_PHASES[order], block.at, block.address));
        }
    }
    found
}

/// The phases that a program of UEFI firmware begins, in order.
const UEFI_PHASES: [Phase; 4] = [Phase::UefiPei, Phase::UefiDxe, Phase::UefiBds, Phase::Loader];

/// Adds the stages to the timeline: those that last as boundaries of phases, the others as marks on `track`.
///
/// The kernel's first block in the upper half comes a millisecond after the early kernel begins. It begins a phase only
/// if the early kernel was not seen. User space begins no phase: its first block may belong to a helper.
pub(crate) fn add(
    (run, programs): (&FirstExecutions, &FirmwareImages),
    regions: &[Region],
    track: timeline::TrackId,
    timeline: &mut Timeline,
) {
    let error = if timeline.time_base == TimeBase::GuestVirtual { Ns::ZERO } else { ERROR };
    let uefi = uefi_phases(run, programs, regions);
    for (phase, at, address) in &uefi {
        let program = programs.find(*address).unwrap_or_default();
        timeline.boundary(*phase, *at, error, &format!("first block of {program} ({address:#x})"));
    }
    let early = regions.iter().any(|r| r.stage == Stage::EarlyKernel);
    for r in regions {
        let at = r.at;
        let phase = match r.stage {
            Stage::Firmware if uefi.is_empty() => Some(Phase::Firmware),
            Stage::Firmware => Some(Phase::UefiSec),
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
    use timeline::Diagnostics;

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
    fn uefi_has_the_phases_of_its_modules_in_their_order() {
        let list = b"0000000000820000 1000 PeiCore\n0000000000830000 1000 DxeCore\n0000000000840000 1000 BdsDxe\n\
                     0000000000850000 1000 Shell\n0000000000860000 1000 shim application\n";
        let programs = FirmwareImages::read("f", list, &mut Diagnostics::default());
        let phases = |addresses: &[u64], kernel: Option<i64>| {
            let rows = (0i64..).zip(addresses).map(|(us, &address)| (us, address, 4, Call, 0, 1));
            let run = blocks(&rows.collect::<Vec<_>>());
            let stage =
                |stage, us| Region { stage, at: Ns::from_us(us), address: 0, evidence: String::new(), startup: None };
            let regions: Vec<Region> =
                std::iter::once(stage(Stage::Firmware, 0)).chain(kernel.map(|us| stage(Stage::EfiStub, us))).collect();
            let found = uefi_phases(&run, &programs, &regions).into_iter();
            found.map(|(phase, at, _)| (phase, at.0 / 1000)).collect::<Vec<_>>()
        };
        let all = [0xffff_fff0, 0x82_0010, 0x82_0020, 0x83_0000, 0x85_0000, 0x82_0040, 0x84_0000, 0x86_0000, 0x84_0010];
        let expected = [(Phase::UefiPei, 1), (Phase::UefiDxe, 3), (Phase::UefiBds, 6), (Phase::Loader, 7)];
        assert_eq!(phases(&all, None), expected);
        assert_eq!(phases(&all, Some(6)), expected[..2], "the kernel's stub runs from then on");
        // A module that runs late begins no earlier phase.
        assert_eq!(phases(&[0x83_0000, 0x82_0000, 0x86_0000], None), [(Phase::UefiDxe, 0), (Phase::Loader, 2)]);
        assert_eq!(phases(&[0xffff_fff0, 0x85_0000], None), []);
    }

    #[test]
    fn a_module_near_the_kernel_is_not_its_stub() {
        let bds = |list: &[u8]| FirmwareImages::read("f", list, &mut Diagnostics::default());
        let of = |programs, rows: &[(i64, u64)]| {
            let run = blocks(&rows.iter().map(|&(us, address)| (us, address, 4, Call, 0, 1)).collect::<Vec<_>>());
            let stage = |stage, us, address| Region {
                stage,
                at: Ns::from_us(us),
                address,
                evidence: String::new(),
                startup: None,
            };
            let regions = vec![stage(Stage::EfiStub, 1, 0x5fac_f55c), stage(Stage::EarlyKernel, 9, 0x5a36_c618)];
            let found = outside_programs(regions, &run, &bds(programs)).into_iter();
            found.map(|region| (region.stage, region.at.0 / 1000, region.address)).collect::<Vec<_>>()
        };
        let kernel = (Stage::EarlyKernel, 9, 0x5a36_c618);
        let rows = [(0, 0x100), (1, 0x5fac_f55c), (2, 0x5fac_0000), (5, 0x5c00_0000), (9, 0x5a36_c618)];
        let whole = b"000000005fac0000 20000 BdsDxe\n";
        assert_eq!(of(whole, &rows), [(Stage::EfiStub, 5, 0x5c00_0000), kernel]);
        assert_eq!(of(whole, &rows[..3]), [kernel], "it has no code of its own");
        let nameless = b"000000005fac0000 8000 BdsDxe\n";
        assert_eq!(of(nameless, &rows), [(Stage::EfiStub, 5, 0x5c00_0000), kernel], "nor before the kernel can start");
    }

    #[test]
    fn an_unknown_architecture_has_only_its_first_block() {
        let mut run = blocks(&[(0, 0x4000_0000, 4, Jump, 0, 1), (1, 0x10_0000, 4, Call, 0, 1)]);
        run.target = "stub".to_owned();
        let stages: Vec<_> = regions(&run).iter().map(|r| (r.stage, r.address)).collect();
        assert_eq!(stages, [(Stage::Firmware, 0x4000_0000)]);
    }
}
