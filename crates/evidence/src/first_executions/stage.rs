//! The stages of a boot, and where one began. Which code is which stage, an [architecture](crate::arch) knows.

use super::Block;
use timeline::Ns;

/// A stage of the boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// From the reset vector on.
    Firmware,
    /// An extension of the firmware was initialised. The firmware goes on after it.
    OptionRom,
    /// What fetches the kernel.
    Loader,
    /// The kernel's real-mode part.
    SetupCode,
    /// Unpacks the kernel and chooses where it goes.
    Decompressor,
    /// The kernel, not yet at its virtual address.
    EarlyKernel,
    /// The kernel at its virtual address.
    Kernel,
    /// Programs.
    UserSpace,
}

impl Stage {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Firmware => "firmware",
            Stage::OptionRom => "option ROM",
            Stage::Loader => "loader",
            Stage::SetupCode => "setup code",
            Stage::Decompressor => "decompressor",
            Stage::EarlyKernel => "early kernel",
            Stage::Kernel => "kernel",
            Stage::UserSpace => "user space",
        }
    }
}

/// When a stage first ran, and the block that decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Region {
    /// Which stage.
    pub stage: Stage,
    /// When.
    pub at: Ns,
    /// The block's address.
    pub address: u64,
    /// Why this block is that stage's first.
    pub evidence: String,
    /// Of the early kernel: where the kernel's entry ran: `startup_64`, `primary_entry`.
    pub startup: Option<u64>,
}

impl Region {
    /// The stage that begins with this block, and why.
    pub(crate) fn of(stage: Stage, block: &Block, why: &str) -> Region {
        let evidence = format!("{why} ({:#x})", block.address);
        Region { stage, at: block.at, address: block.address, evidence, startup: None }
    }

    /// Whether nothing of the stage before goes on after it: firmware does after an option ROM, the kernel below programs.
    pub fn lasts(&self) -> bool {
        !matches!(self.stage, Stage::OptionRom | Stage::UserSpace)
    }
}
