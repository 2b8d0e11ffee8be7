//! The parts of a length of guest time: executed instructions, and waits for a clock.

use crate::{Ns, TrackId};
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};

/// A length of time on a boot's clock, and the part of it in which the guest waited for that clock. In a deterministic
/// boot the rest is instructions, one in each nanosecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cost {
    /// Both parts together.
    pub length: Ns,
    /// The timed waits in it.
    pub waited: Ns,
}

impl Cost {
    pub const ZERO: Cost = Cost { length: Ns::ZERO, waited: Ns::ZERO };

    /// A length in which the guest is not known to have waited.
    pub fn busy(length: Ns) -> Cost {
        Cost { length, waited: Ns::ZERO }
    }

    /// A timed wait.
    pub fn waits(length: Ns) -> Cost {
        Cost { length, waited: length }
    }

    /// A length of which all is a timed wait, or nothing.
    pub fn of(length: Ns, is_wait: bool) -> Cost {
        Cost { length, waited: if is_wait { length } else { Ns::ZERO } }
    }

    /// Its two parts, each with true if it is a timed wait.
    pub fn parts(self) -> [(Ns, bool); 2] {
        [(self.instructions(), false), (self.waited, true)]
    }

    /// The instructions of a deterministic boot.
    pub fn instructions(self) -> Ns {
        self.length - self.waited
    }
}

impl Add for Cost {
    type Output = Cost;

    fn add(self, more: Cost) -> Cost {
        Cost { length: self.length + more.length, waited: self.waited + more.waited }
    }
}

impl Sub for Cost {
    type Output = Cost;

    fn sub(self, less: Cost) -> Cost {
        Cost { length: self.length - less.length, waited: self.waited - less.waited }
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, more: Cost) {
        *self = *self + more;
    }
}

impl Sum for Cost {
    fn sum<I: Iterator<Item = Cost>>(costs: I) -> Cost {
        costs.fold(Cost::ZERO, Cost::add)
    }
}

/// The stretches of guest time in which the guest waited for its clock: its CPUs were halted, or a loop read the clock.
///
/// In a recorded boot, all tracks share them. In a replayed boot, each track has its own: another thread may run while
/// one waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimedWaits {
    shared: Stretches,
    /// By track; empty if all tracks share the stretches.
    by_track: Vec<Stretches>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Stretches {
    /// Disjoint, in order, and not empty.
    stretches: Vec<(Ns, Ns)>,
    /// The time waited before each stretch.
    before: Vec<Ns>,
}

impl TimedWaits {
    /// Makes the union of these stretches. Those that end before they begin are dropped.
    pub fn new(stretches: Vec<(Ns, Ns)>) -> TimedWaits {
        TimedWaits { shared: Stretches::new(stretches), by_track: Vec::new() }
    }

    /// The stretches of a recorded boot, in order.
    pub fn stretches(&self) -> &[(Ns, Ns)] {
        &self.shared.stretches
    }

    /// The same waits of a replayed boot with this number of tracks, in which `at` has the time of each instant.
    #[must_use]
    pub fn replayed(&self, tracks: usize, at: impl Fn(TrackId, Ns) -> Ns) -> TimedWaits {
        let of_track = |track: usize| {
            let track = TrackId(crate::number(track));
            let stretches = self.of(track).stretches.iter();
            Stretches::new(stretches.map(|&(from, to)| (at(track, from), at(track, to))).collect())
        };
        TimedWaits { shared: Stretches::default(), by_track: (0..tracks).map(of_track).collect() }
    }

    /// The time waited from `from` to `to` in a recorded boot.
    pub fn within(&self, from: Ns, to: Ns) -> Ns {
        self.shared.within(from, to)
    }

    /// The time that a track waited from `from` to `to`.
    pub fn within_on(&self, track: TrackId, from: Ns, to: Ns) -> Ns {
        self.of(track).within(from, to)
    }

    fn of(&self, track: TrackId) -> &Stretches {
        self.by_track.get(track.0 as usize).unwrap_or(&self.shared)
    }
}

impl Stretches {
    fn new(mut stretches: Vec<(Ns, Ns)>) -> Stretches {
        stretches.retain(|(from, to)| from < to);
        let stretches = crate::merged(stretches);
        let (mut before, mut sum) = (Vec::with_capacity(stretches.len()), Ns::ZERO);
        for &(from, to) in &stretches {
            before.push(sum);
            sum += to - from;
        }
        Stretches { stretches, before }
    }

    fn within(&self, from: Ns, to: Ns) -> Ns {
        if from < to { self.until(to) - self.until(from) } else { Ns::ZERO }
    }

    /// The time waited before an instant.
    fn until(&self, at: Ns) -> Ns {
        let begun = self.stretches.partition_point(|&(from, _)| from < at);
        begun.checked_sub(1).map_or(Ns::ZERO, |last| {
            let (from, to) = self.stretches[last];
            self.before[last] + (to.min(at) - from)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_length_is_told_apart() {
        let waits = TimedWaits::new(vec![(Ns(50), Ns(60)), (Ns(10), Ns(20)), (Ns(15), Ns(30)), (Ns(90), Ns(80))]);
        assert_eq!(waits.stretches(), [(Ns(10), Ns(30)), (Ns(50), Ns(60))]);
        let within = |from, to| waits.within(Ns(from), Ns(to)).0;
        assert_eq!([within(0, 100), within(12, 55), within(30, 50), within(20, 10), within(-5, 11)], [30, 23, 0, 0, 1]);
        let cost = Cost { length: Ns(100), waited: Ns(30) };
        assert_eq!((cost.instructions(), cost + Cost::busy(Ns(1))), (Ns(70), Cost { length: Ns(101), waited: Ns(30) }));
    }

    #[test]
    fn in_a_replay_each_track_has_its_own_waits() {
        let waits = TimedWaits::new(vec![(Ns(10), Ns(30)), (Ns(50), Ns(60))]);
        let replayed = waits.replayed(2, |track, at| if track.0 == 0 { Ns(at.0 / 2) } else { at });
        let within = |track, from, to| replayed.within_on(TrackId(track), Ns(from), Ns(to)).0;
        assert_eq!([within(0, 0, 100), within(1, 0, 100), within(0, 10, 20)], [15, 30, 5]);
    }

    proptest! {
        /// Cutting a stretch changes no sum.
        #[test]
        fn parts_sum_to_the_whole(
            stretches in proptest::collection::vec((-50_i64..200, -50_i64..200), 0..20),
            mut cuts in proptest::collection::vec(-100_i64..300, 2..10),
        ) {
            let waits = TimedWaits::new(stretches.iter().map(|&(a, b)| (Ns(a), Ns(b))).collect());
            cuts.sort_unstable();
            let whole = waits.within(Ns(cuts[0]), Ns(cuts[cuts.len() - 1]));
            let parts: Ns = cuts.windows(2).map(|cut| waits.within(Ns(cut[0]), Ns(cut[1]))).sum();
            prop_assert_eq!(parts, whole);
            let covered = |at: i64| stretches.iter().any(|&(from, to)| from <= at && at < to);
            let counted = (cuts[0]..cuts[cuts.len() - 1]).filter(|&at| covered(at)).count();
            prop_assert_eq!(usize::try_from(whole.0).unwrap(), counted);
        }
    }
}
