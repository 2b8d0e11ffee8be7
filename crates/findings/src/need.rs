//! Evidence that detectors need, and the check for it in a boot.

use crate::Seen;
use timeline::{Os, Phase, SpanKind, Unit};

/// A kind of evidence. The program that prints findings says how to record it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Need {
    /// The duration of a tick of the timeline. Every rule needs it to compare lengths with times.
    Rate,
    /// A boot path along which savings can be computed.
    BootPath,
    /// The operating system of the boot, for rules about one system.
    System,
    /// Times at which functions of the kernel ran.
    Functions,
    /// Times at which threads slept; in a log, times at which initcalls returned.
    Sleeps,
    /// Times at which the kernel printed its lines.
    Printing,
    /// Times at which initcalls ran. Only rules about Linux need them, so it is met for other systems.
    Initcalls,
    /// Times at which Linux's firmware and decompressor ran. It is met for other systems.
    BeforeTheKernel,
    /// The machine's memory size.
    Memory,
    /// Memory that was available at the end of the boot. Only a rule about Linux needs it, so it is met for other systems.
    MemoryLeft,
}

impl Need {
    /// True if the evidence is there. [`crate::find`] checks for the boot path itself.
    pub(crate) fn is_met(self, seen: &Seen) -> bool {
        let is_linux = seen.machine.os == Os::Linux;
        let has = |phase: Phase| seen.timeline.boundaries.iter().any(|boundary| boundary.phase == phase);
        match self {
            Need::Rate => {
                matches!(seen.timeline.unit, Unit::Nanoseconds | Unit::GuestTime | Unit::Instructions | Unit::Priced)
            }
            Need::BootPath => true,
            Need::System => seen.machine.os.is_known(),
            Need::Functions => seen.has_kind(SpanKind::Call),
            Need::Sleeps => {
                !seen.timeline.waits.is_empty() || seen.has_kind(SpanKind::Call) || seen.has_kind(SpanKind::Initcall)
            }
            Need::Memory => seen.machine.memory_bytes > 0,
            Need::MemoryLeft => !is_linux || seen.machine.memory_available.is_some(),
            Need::Printing => seen.has_kind(SpanKind::Call) || seen.lines().next().is_some(),
            Need::Initcalls => !is_linux || seen.has_kind(SpanKind::Initcall),
            Need::BeforeTheKernel => {
                !is_linux || has(Phase::Firmware) || has(Phase::UefiSec) || has(Phase::Decompressor)
            }
        }
    }
}
