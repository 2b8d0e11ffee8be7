//! The overhead of recording, computed from pairs of boots: one plain, one recorded. It boots nothing and keeps nothing.

use recording::{Measured, Overhead};
use statistics::quantile::median_interval;
use statistics::{Interval, sorted};

/// The median of recorded ÷ plain over pairs of boots, with its interval and how it was measured. `of` says what was booted.
/// Returns `None` if there is no pair.
pub fn overhead(ratios: &[f64], kernel: &str, cpus: u32, of: Measured) -> Option<Overhead> {
    let Interval { estimate: ratio, low, high, confidence } = median_interval(&sorted(ratios))?;
    let few = if confidence < 0.95 { ", the most that so few pairs allow" } else { "" };
    let how = format!(
        "median of {} pairs of boots to process 1, by the host's clock, with its {:.0} % interval{few}; {kernel}, {cpus} CPU{}",
        ratios.len(),
        confidence * 100.0,
        if cpus == 1 { "" } else { "s" }
    );
    Some(Overhead { ratio, low, high, how, of })
}
