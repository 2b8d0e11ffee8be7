//! The stages of a boot, and where one began. Which code is which stage, an [architecture](crate::boot::arch) knows.

use crate::formats::first_executions::Block;
use timeline::{EFI_STUB, Ns};

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
    /// The kernel's own UEFI program, which places it.
    EfiStub,
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
            Stage::EfiStub => EFI_STUB,
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

    /// Programs: what first ran below the kernel's half once the kernel ran there, but not within `far` bytes of where its image was
    /// entered, for the image's first part starts further CPUs.
    pub(crate) fn of_user_space(blocks: &[Block], kernel_half: u64, image: Option<u64>, far: u64) -> Option<Region> {
        let near_the_image = |address: u64| image.is_some_and(|image| address.abs_diff(image) < far);
        let first = blocks.iter().find(|block| block.address < kernel_half && !near_the_image(block.address))?;
        Some(Region::of(Stage::UserSpace, first, "first block in the lower half after the kernel's"))
    }

    /// Whether nothing of the stage before goes on after it: firmware does after an option ROM, the kernel below programs.
    pub fn lasts(&self) -> bool {
        !matches!(self.stage, Stage::OptionRom | Stage::UserSpace)
    }
}
