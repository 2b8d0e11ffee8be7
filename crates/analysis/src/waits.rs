//! The wait that a track is in at each instant: the innermost, where one wait lies within another.
//!
//! Waits in a scheduler's trace never overlap. A thread that reports its own waits may wait for one thing while it
//! waits for another. For example, a wait for the root file system begins with a wait for idle disks.

use timeline::{Ns, Timeline, TrackId, Wait};

/// The index of a wait in the timeline.
pub type WaitNo = u32;

/// A stretch in which one wait is the innermost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WaitPiece {
    pub from: Ns,
    pub to: Ns,
    pub wait: WaitNo,
}

/// All waits, cut into pieces that do not overlap.
pub struct Waits<'a> {
    waits: &'a [Wait],
    /// The pieces of each track, by time.
    by_track: Vec<Vec<WaitPiece>>,
    /// The wait around each wait.
    outer: Vec<Option<WaitNo>>,
    /// The number of waits nested deeper than [`MAX_NESTED_WAITS`].
    pub too_deep: u64,
}

/// A deeper nest of waits on one thread is broken evidence. The time of the deeper waits is that of the wait around
/// them.
const MAX_NESTED_WAITS: usize = 64;

impl<'a> Waits<'a> {
    /// Linear in the number of waits.
    pub fn new(timeline: &'a Timeline) -> Self {
        let waits = &timeline.waits;
        let mut all = Waits {
            waits,
            by_track: vec![Vec::new(); timeline.tracks.len()],
            outer: vec![None; waits.len()],
            too_deep: 0,
        };
        let mut open = Vec::new();
        let mut cursor = Ns::MIN;
        for (no, wait) in (0..).zip(waits) {
            let ends_before = |top: &Wait| top.track != wait.track || top.until <= wait.from;
            while open.last().is_some_and(|&top: &WaitNo| ends_before(&waits[top as usize])) {
                all.close(&mut open, &mut cursor);
            }
            if open.len() == MAX_NESTED_WAITS {
                all.too_deep += 1;
                continue;
            }
            if let Some(&top) = open.last() {
                all.push(top, cursor, wait.from);
            }
            all.outer[no as usize] = open.last().copied();
            cursor = wait.from;
            open.push(no);
        }
        while !open.is_empty() {
            all.close(&mut open, &mut cursor);
        }
        all
    }

    fn close(&mut self, open: &mut Vec<WaitNo>, cursor: &mut Ns) {
        if let Some(top) = open.pop() {
            let until = self.waits[top as usize].until;
            self.push(top, *cursor, until);
            *cursor = (*cursor).max(until);
        }
    }

    fn push(&mut self, wait: WaitNo, from: Ns, to: Ns) {
        if from < to {
            let track = self.waits[wait as usize].track;
            self.by_track[track.0 as usize].push(WaitPiece { from, to, wait });
        }
    }

    /// Returns the last piece on a track that begins before `at`.
    pub fn before(&self, track: TrackId, at: Ns) -> Option<WaitPiece> {
        let all = &self.by_track[track.0 as usize];
        let after = all.partition_point(|piece| piece.from < at);
        after.checked_sub(1).map(|i| all[i])
    }

    pub fn get(&self, wait: WaitNo) -> Wait {
        self.waits[wait as usize]
    }

    /// Returns the wait around this one.
    pub fn outer(&self, wait: WaitNo) -> Option<WaitNo> {
        self.outer[wait as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use timeline::{NameId, TimeBase, TrackKind, WaitedOn};

    fn check(waits: &[(i64, i64)], expected: &[(i64, i64, u32)]) {
        let mut t = Timeline::new(TimeBase::Evidence);
        let track = t.tracks.add(NameId::EMPTY, TrackKind::Thread, 1);
        for &(from, until) in waits {
            let until = Ns(until);
            t.waits.push(Wait {
                track,
                from: Ns(from),
                woken: until,
                until,
                by: WaitedOn::Unknown,
                uninterruptible: false,
            });
        }
        t.finalize(Ns::ZERO);
        let pieces = &Waits::new(&t).by_track[0];
        let pieces: Vec<_> = pieces.iter().map(|p| (p.from.0, p.to.0, p.wait)).collect();
        assert_eq!(pieces, expected);
    }

    #[test]
    fn the_innermost_wait_has_the_time() {
        check(&[(0, 10), (20, 30)], &[(0, 10, 0), (20, 30, 1)]);
        check(&[(0, 30), (10, 20)], &[(0, 10, 0), (10, 20, 1), (20, 30, 0)]);
        check(&[(0, 30), (0, 10), (20, 30)], &[(0, 10, 1), (10, 20, 0), (20, 30, 2)]);
        check(&[(0, 30), (5, 5)], &[(0, 5, 0), (5, 30, 0)]);
    }

    #[test]
    fn waits_that_cross_do_not_overlap() {
        check(&[(0, 20), (10, 30)], &[(0, 10, 0), (10, 30, 1)]);
        check(&[(0, 15), (5, 30), (10, 20)], &[(0, 5, 0), (5, 10, 1), (10, 20, 2), (20, 30, 1)]);
    }

    #[test]
    fn very_deep_nests_are_cut() {
        let many: Vec<(i64, i64)> = (0..100).map(|i| (i, 1_000 - i)).collect();
        let deepest = MAX_NESTED_WAITS as i64 - 1;
        let mut expected: Vec<(i64, i64, u32)> = (0..deepest).map(|i| (i, i + 1, i as u32)).collect();
        expected.push((deepest, 1_000 - deepest, deepest as u32));
        expected.extend((0..deepest).rev().map(|i| (999 - i, 1_000 - i, i as u32)));
        check(&many, &expected);
    }
}
