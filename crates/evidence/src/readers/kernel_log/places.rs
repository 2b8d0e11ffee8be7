//! The time of each line of a log, by the best of its stamps.

use crate::boot::Placing;
use crate::boot::clocks::log_ticks;
use crate::formats::kernel_log::{KernelLog, Line};
use crate::readers::kernel_log::arrivals::Arrivals;
use timeline::{Clock, Ns, RateSource};

/// The error of a phase is at least this.
const SHORTEST_ERROR: Ns = Ns::from_us(500);

/// A log and what its stamps count from.
pub(super) struct Places<'a> {
    pub log: &'a KernelLog,
    pub arrivals: &'a Arrivals<'a>,
    /// The kernel's clock, if it is known.
    pub clock: Option<&'a Clock>,
    pub is_imported: bool,
}

impl Places<'_> {
    /// The time of a line: by the kernel's stamp, else by its arrival.
    pub(super) fn at(&self, line: &Line) -> Option<Ns> {
        self.by_kernel(line).or_else(|| self.arrivals.of(self.log, line)).or(line.host_stamp)
    }

    /// The times of the nearest lines before and after one that has no time.
    pub(super) fn around(&self, line: &Line) -> (Option<Ns>, Option<Ns>) {
        let lines = || self.log.lines.iter();
        let before = lines().take_while(|other| other.number < line.number).filter_map(|line| self.at(line)).last();
        (before, lines().filter(|other| other.number > line.number).find_map(|line| self.at(line)))
    }

    /// The time of a line by the kernel's stamp alone.
    pub(super) fn by_kernel(&self, line: &Line) -> Option<Ns> {
        let clock = self.clock?;
        let stamp = line.stamp.or_else(|| {
            // A kernel stamps 0 what it prints before its clock runs.
            (line.before_clock && line.host_stamp.is_none() && self.is_imported).then_some(Ns::ZERO)
        })?;
        Some(clock.to_ns(log_ticks(stamp)))
    }

    /// The time of a line that may begin a phase. A recorded console has better evidence than the arrival of its lines.
    pub(super) fn of_boundary(&self, line: &Line) -> Option<Ns> {
        self.by_kernel(line).or(line.host_stamp.filter(|_| self.is_imported))
    }

    /// The error of such a time.
    ///
    /// Until the kernel has a good clocksource its clock loses ticks: a tenth of the time was seen under TCG, more on a
    /// busy host. Where the clock was only compared near process 1, that is the error of what is far from it. Where it
    /// goes through messages on the way, the error is what it lost between the two around.
    pub(super) fn error(&self, line: &Line, boot: &Placing<'_>) -> Ns {
        let (Some(clock), Some(stamp)) = (self.clock, line.stamp.or(line.before_clock.then_some(Ns::ZERO))) else {
            return boot.arrival_error();
        };
        let last = || self.log.lines.iter().filter_map(|line| line.stamp).max().unwrap_or_default();
        let lost = match clock.rate_from {
            RateSource::NearProcess1 => Ns((last() - stamp).0 / 5),
            RateSource::FirstExecutions { .. } => clock.lost_around(log_ticks(stamp), 1e9),
            RateSource::FirstInstruction => Ns(stamp.0 / 5),
            _ => Ns::ZERO,
        };
        clock.residual.max(SHORTEST_ERROR).max(boot.stamp_resolution) + lost
    }
}
