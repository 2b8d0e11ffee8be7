//! The host's clocks: nanoseconds of CLOCK_MONOTONIC, and the time stamp counter beside them.

use rustix::time::{ClockId, clock_gettime};

use crate::arch::host_ticks;

/// CLOCK_MONOTONIC in ns. Read through the vDSO, which takes tens of nanoseconds.
#[must_use]
pub fn monotonic_ns() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// A moment on both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) ns: i64,
    pub(crate) ticks: u64,
}

impl Moment {
    /// Reads both clocks at the same moment: tries a few times, and returns the try with the least disturbance.
    pub(crate) fn now() -> Option<Moment> {
        (0..5)
            .filter_map(|_| {
                let before = host_ticks()?;
                let ns = monotonic_ns();
                let after = host_ticks()?;
                let width = after.wrapping_sub(before);
                Some((width, Moment { ns, ticks: before.wrapping_add(width / 2) }))
            })
            .min_by_key(|(width, _)| *width)
            .map(|(_, moment)| moment)
    }

    /// The counter's rate between two moments, in Hz; `None` if they are too close.
    pub(crate) fn rate_to(self, later: Moment) -> Option<f64> {
        let ns = later.ns - self.ns;
        let ticks = later.ticks.wrapping_sub(self.ticks);
        // Each moment has an error of some 50 ns: over 100 ms that is 1 ppm.
        (ns >= 100_000_000).then(|| ticks as f64 * 1e9 / ns as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_needs_some_time() {
        let at = |ns, ticks| Moment { ns, ticks };
        assert_eq!(at(0, 0).rate_to(at(1000, 2500)), None);
        assert_eq!(at(5, u64::MAX).rate_to(at(1_000_000_005, 2_499_999_999)), Some(2.5e9));
    }
}
