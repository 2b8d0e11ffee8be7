//! The stages of a boot. An [architecture](crate::boot::arch) recognises a stage's code.

use crate::formats::first_executions::Block;
use timeline::{EFI_STUB, Ns};

/// A stage of the boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Begins at the reset vector.
    Firmware,
    /// The initialisation of a firmware extension. The firmware goes on after it.
    OptionRom,
    /// The program that fetches the kernel.
    Loader,
    /// The kernel's real-mode part.
    SetupCode,
    /// Unpacks the kernel and chooses its address.
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
    pub(crate) fn name(self) -> &'static str {
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

/// The beginning of a stage, and the block that shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Region {
    pub stage: Stage,
    pub at: Ns,
    /// The block's address.
    pub address: u64,
    /// The reason why this block is the stage's first.
    pub evidence: String,
    /// For the early kernel: the address of the kernel's entry (`startup_64`, `primary_entry`).
    pub startup: Option<u64>,
}

impl Region {
    /// Returns the region that begins with this block. `why` is its evidence.
    pub(crate) fn of(stage: Stage, block: &Block, why: &str) -> Region {
        let evidence = format!("{why} ({:#x})", block.address);
        Region { stage, at: block.at, address: block.address, evidence, startup: None }
    }

    /// Returns the beginning of user space: the first of `blocks` below the kernel's half of the addresses. `image` is
    /// the address at which the kernel's image was entered. Blocks within `far` bytes of it do not count, because the
    /// image's first part starts further CPUs.
    pub(crate) fn of_user_space(blocks: &[Block], kernel_half: u64, image: Option<u64>, far: u64) -> Option<Region> {
        let near_the_image = |address: u64| image.is_some_and(|image| address.abs_diff(image) < far);
        let first = blocks.iter().find(|block| block.address < kernel_half && !near_the_image(block.address))?;
        Some(Region::of(Stage::UserSpace, first, "first block in the lower half after the kernel's"))
    }

    /// True if the stage before is over. Firmware goes on after an option ROM, and the kernel beneath programs.
    pub(crate) fn lasts(&self) -> bool {
        !matches!(self.stage, Stage::OptionRom | Stage::UserSpace)
    }
}
