//! What a detector has to see, and whether a boot's evidence has it.

use crate::Seen;
use timeline::{Os, Phase, SpanKind, Unit};

/// A kind of evidence. What to record for it, whoever prints findings says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Need {
    /// How long the ticks of its times are. Every rule needs that: it compares lengths with times.
    Rate,
    /// A boot path along which savings can be worked out.
    BootPath,
    /// Which operating system was booted. Rules that are about one of them ask for it.
    System,
    /// Which function of the kernel ran when.
    Functions,
    /// When threads slept; in a log, when each initcall returned.
    Sleeps,
    /// When the kernel printed each line.
    Printing,
    /// Which initcall ran when. Only rules about Linux ask for it, and another system lacks nothing.
    Initcalls,
    /// When Linux's firmware and decompressor ran. Another system lacks nothing.
    BeforeTheKernel,
    /// How much memory the machine has.
    Memory,
    /// How much of it was available when the boot was done. Only a rule about Linux asks for it, and another system lacks nothing.
    MemoryLeft,
}

impl Need {
    /// Whether it is there. That there is a boot path, [`crate::find`] knows.
    pub(crate) fn is_met(self, seen: &Seen) -> bool {
        let is_linux = seen.machine.os == Os::Linux;
        let has = |phase: Phase| seen.timeline.boundaries.iter().any(|boundary| boundary.phase == phase);
        match self {
            Need::Rate => matches!(seen.timeline.unit, Unit::Nanoseconds | Unit::Instructions),
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
            Need::BeforeTheKernel => !is_linux || has(Phase::Firmware) || has(Phase::Decompressor),
        }
    }
}
