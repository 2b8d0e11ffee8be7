//! The boot path's time on a thread itself, in any stretch of time: without the threads that it waited for.

use crate::Stays;
use hashbrown::HashMap;
use timeline::{Cost, Ns, Timeline, TrackId};

/// The stays of the path by their owner's track, with running sums.
pub struct OwnTimes<'a> {
    timeline: &'a Timeline,
    by_track: HashMap<TrackId, Vec<Stay>>,
}

struct Stay {
    from: Ns,
    to: Ns,
    /// The sum of the stays before it.
    before: Cost,
}

impl<'a> OwnTimes<'a> {
    /// Linear in the number of stays.
    pub fn new(stays: &Stays<'a>) -> OwnTimes<'a> {
        let timeline = stays.timeline;
        let mut by_track: HashMap<TrackId, Vec<Stay>> = HashMap::new();
        for stay in stays.iter() {
            let track = stay.waiters_and_owner().1.track;
            let of_track = by_track.entry(track).or_default();
            let before =
                of_track.last().map_or(Cost::ZERO, |l: &Stay| l.before + timeline.cost_on(track, l.from, l.to));
            of_track.push(Stay { from: stay.from, to: stay.to, before });
        }
        OwnTimes { timeline, by_track }
    }

    /// The path's time on the track within a stretch, with the timed waits in it. Logarithmic.
    pub fn within(&self, track: TrackId, from: Ns, to: Ns) -> Cost {
        let Some(stays) = self.by_track.get(&track) else { return Cost::ZERO };
        let until = |at: Ns| {
            let after = stays.partition_point(|stay| stay.from < at);
            let last = after.checked_sub(1).map(|last| &stays[last]);
            last.map_or(Cost::ZERO, |stay| stay.before + self.timeline.cost_on(track, stay.from, at.min(stay.to)))
        };
        until(to.max(from)) - until(from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use timeline::{End, EndEvidence, NameId, TimeBase, TimedWaits, Timeline, TrackKind, Wait, WaitedOn};

    #[test]
    fn the_time_of_a_thread_that_was_waited_for_is_not_the_waiter_s() {
        let mut t = Timeline::new(TimeBase::Host);
        let waiter = t.tracks.add(NameId::EMPTY, TrackKind::Thread, 1);
        let other = t.tracks.add(NameId::EMPTY, TrackKind::Thread, 2);
        let by = WaitedOn::Thread(other);
        let (from, until) = (Ns(20), Ns(50));
        t.waits.push(Wait { track: waiter, from, woken: until, until, by, uninterruptible: false });
        t.tracks.get_mut(other).created = Some((Ns(0), waiter));
        t.end = Some(End { at: Ns(100), error: Ns::ZERO, track: Some(waiter), evidence: EndEvidence::LastSign });
        // The second wait lies in the parts of both threads.
        t.timed_waits = Some(TimedWaits::new(vec![(Ns(30), Ns(40)), (Ns(45), Ns(55))]));
        t.finalize(Ns::ZERO);
        let own = OwnTimes::new(&Stays::new(&t));
        let waited = |track, from, to| own.within(track, Ns(from), Ns(to)).waited;
        assert_eq!([waited(waiter, 0, 100), waited(waiter, 52, 100), waited(waiter, 0, 40)], [Ns(5), Ns(3), Ns(0)]);
        assert_eq!([waited(other, 0, 100), waited(other, 35, 47), waited(other, 60, 100)], [Ns(15), Ns(7), Ns(0)]);
        assert_eq!(own.within(waiter, Ns(0), Ns(100)).length, Ns(70));
        assert_eq!(own.within(waiter, Ns(10), Ns(60)).length, Ns(20));
        assert_eq!(own.within(waiter, Ns(25), Ns(45)).length, Ns(0));
        assert_eq!(own.within(other, Ns(0), Ns(100)).length, Ns(30));
        assert_eq!(own.within(other, Ns(45), Ns(40)).length, Ns(0));
        assert_eq!(own.within(TrackId(9), Ns(0), Ns(100)).length, Ns(0));
    }
}
