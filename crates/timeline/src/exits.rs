//! Accesses that leave the guest, reads of clocks' registers, and first touches of pages of RAM: counts beside the
//! boot's times.

use crate::{NameId, Ns};

/// The kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ExitKind {
    PortRead,
    PortWrite,
    MmioRead,
    MmioWrite,
    MsrRead,
    MsrWrite,
    Cpuid,
    /// HLT, WFI.
    Halt,
    /// A call of a hypervisor or of firmware.
    Hypercall,
    /// A read of a clock's register. It does not leave the guest.
    ClockRead,
    /// The first access to a page of RAM. It does not leave the guest.
    FirstTouch,
}

impl ExitKind {
    /// All kinds, in the order in which they are listed.
    pub const ALL: [ExitKind; 11] = [
        ExitKind::PortRead,
        ExitKind::PortWrite,
        ExitKind::MmioRead,
        ExitKind::MmioWrite,
        ExitKind::MsrRead,
        ExitKind::MsrWrite,
        ExitKind::Cpuid,
        ExitKind::Halt,
        ExitKind::Hypercall,
        ExitKind::ClockRead,
        ExitKind::FirstTouch,
    ];

    pub fn name(self) -> &'static str {
        match self {
            ExitKind::PortRead => "port read",
            ExitKind::PortWrite => "port write",
            ExitKind::MmioRead => "MMIO read",
            ExitKind::MmioWrite => "MMIO write",
            ExitKind::MsrRead => "MSR read",
            ExitKind::MsrWrite => "MSR write",
            ExitKind::Cpuid => "CPUID",
            ExitKind::Halt => "halt",
            ExitKind::Hypercall => "hypercall",
            ExitKind::ClockRead => "clock read",
            ExitKind::FirstTouch => "page first touched",
        }
    }

    /// True if a virtualising host handles it.
    pub fn leaves_guest(self) -> bool {
        !matches!(self, ExitKind::ClockRead | ExitKind::FirstTouch)
    }
}

/// The accesses of one kind, by one instruction in one call path, to one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitRow {
    pub kind: ExitKind,
    /// The function of the instruction; empty if it has no name.
    pub function: NameId,
    /// The device or the port; empty if it is unknown.
    pub place: NameId,
    /// The call path, as an index of [`Exits::paths`]; `None` if calls were not followed.
    pub path: Option<u32>,
}

/// Accesses of a row at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitRun {
    /// An index of [`Exits::rows`].
    pub row: u32,
    /// `None` if the time was not kept.
    pub at: Option<Ns>,
    pub count: u64,
    /// Those of them in a loop that waits for a clock.
    pub in_waits: u64,
}

/// A function on a call path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitPath {
    pub function: NameId,
    /// Its caller, as an index of [`Exits::paths`] before its own.
    pub caller: Option<u32>,
}

/// All accesses of a recording, also those after the end mark.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exits {
    pub rows: Vec<ExitRow>,
    pub runs: Vec<ExitRun>,
    pub paths: Vec<ExitPath>,
    /// Accesses that the plugin counted by kind alone, because its table was full.
    pub rest: Vec<(ExitKind, u64)>,
}
