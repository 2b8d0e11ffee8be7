//! The clocks of a boot, and their names. What joins them is no matter of this module.

use timeline::{Clock, Ns, RateSource, Ticks};

/// The name of a guest's counter that is the host's time stamp counter.
pub(crate) const COUNTER: &str = "guest TSC";
/// The name of printk's clock.
pub(crate) const PRINTK: &str = "printk";

/// The clocks of a recording, as far as it has them.
#[derive(Default)]
pub(crate) struct Clocks {
    /// The guest's time stamp counter.
    pub counter: Option<Clock>,
    /// The trace's stamps.
    pub trace: Option<Clock>,
    /// printk's stamps; its ticks are nanoseconds.
    pub printk: Option<Clock>,
    /// Nothing says how long the trace's ticks are, and there is nothing else: they stand for themselves.
    pub only_ticks: bool,
}

/// printk's stamps as ticks: they are nanoseconds and never negative.
pub(crate) fn log_ticks(stamp: Ns) -> Ticks {
    Ticks(u64::try_from(stamp.0).unwrap_or(0))
}

/// printk's clock of a deterministic boot that process 1 said nothing of: at its own rate from `start` on.
pub(crate) fn printk_alone(start: Ns) -> Clock {
    Clock::linear(PRINTK, 1e9, Ticks(0), start, RateSource::FirstInstruction)
}
