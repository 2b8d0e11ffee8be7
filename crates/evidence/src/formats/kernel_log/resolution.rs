//! The resolution of a log's stamps, by the stamps themselves.

use super::KernelLog;
use super::host_stamp::{DMESG_T, WHOLE_SECONDS};
use timeline::Ns;

const SECOND: Ns = Ns::from_ms(1000);

impl KernelLog {
    /// The resolution of the kernel's stamps: the seconds that `dmesg -T` prints, or the ticks of an old clock. Other stamps
    /// have microseconds.
    pub(crate) fn resolution(&self) -> Ns {
        /// The usual lengths of a tick, the longest first.
        const TICKS: [Ns; 3] = [Ns::from_ms(10), Ns::from_ms(4), Ns::from_ms(1)];
        const MIN_STAMPS: usize = 20;
        if [Some(DMESG_T), Some(WHOLE_SECONDS)].contains(&self.logger) {
            return SECOND;
        }
        let stamps = || self.lines.iter().filter_map(|line| line.stamp).filter(|stamp| *stamp > Ns::ZERO);
        let is_enough = stamps().take(MIN_STAMPS).count() == MIN_STAMPS;
        let is_multiple = |tick: &Ns| stamps().all(|stamp| stamp.0 % tick.0 == 0);
        [SECOND].into_iter().chain(TICKS).find(|tick| is_enough && is_multiple(tick)).unwrap_or(Ns::from_us(1))
    }

    /// The resolution of the stamps that a logger put before lines: whole seconds, or milliseconds or less.
    pub(crate) fn logger_resolution(&self) -> Ns {
        let stamps = || self.lines.iter().filter_map(|line| line.host_stamp);
        let is_later = stamps().any(|stamp| stamp > Ns::ZERO);
        if is_later && stamps().all(|stamp| stamp.0 % SECOND.0 == 0) { SECOND } else { Ns::ZERO }
    }
}
