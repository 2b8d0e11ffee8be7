//! A line of execution: its steps in sequence, and the map from the recorded time of each to the replayed time.

use super::{MAX_DEPTH, Shrink};
use timeline::{Ns, TrackId};

pub struct Line {
    /// The time at which it was created, and its creator.
    pub born: Option<(Ns, TrackId)>,
    pub steps: Vec<Step>,
    /// The number of steps that are in `marks`.
    pub done: usize,
    /// The map, in pieces.
    pub marks: Vec<Mark>,
}

/// A piece of the map, from `old` until the next mark.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    pub old: Ns,
    pub new: f64,
    pub factor: f64,
}

pub enum Step {
    Run(Ns, f64),
    Block(usize),
}

impl Line {
    /// Returns the new start of the next step, at `old`, which is not earlier than any mark.
    pub fn next(&self, old: Ns) -> f64 {
        match self.marks.last() {
            Some(mark) if mark.old == old => mark.new,
            _ => self.at(old),
        }
    }

    /// Returns the number of marks before an instant. A replay mostly needs recent instants. Therefore the search
    /// starts at the end and doubles its steps: `O(log n)` in the number of later marks.
    fn marks_before(&self, old: Ns) -> usize {
        let mut later = self.marks.len();
        let mut step = 1;
        while later > 0 {
            let from = later.saturating_sub(step);
            if self.marks[from].old < old {
                return from + 1 + self.marks[from + 1..later].partition_point(|m| m.old < old);
            }
            later = from;
            step *= 2;
        }
        0
    }

    /// Returns the new time for `old`. Where the map has a step, the lower end.
    pub fn at(&self, old: Ns) -> f64 {
        let after = self.marks_before(old);
        match after.checked_sub(1).map_or_else(|| self.marks.first(), |i| self.marks.get(i)) {
            Some(mark) if mark.old < old => mark.new + mark.factor * (old - mark.old).0 as f64,
            Some(mark) => mark.new - (mark.old - old).0 as f64,
            None => old.0 as f64,
        }
    }
}

/// Returns the new time at which a line gets to its state at `at`, once all lines have their marks.
pub fn time(lines: &[Line], track: TrackId, at: Ns) -> f64 {
    let mut line = &lines[track.0 as usize];
    // Before its creation, a line is its creator, but never later than the creation.
    let mut latest = f64::INFINITY;
    for _ in 0..MAX_DEPTH {
        let Some((_, by)) = line.born.filter(|&(born, _)| at < born) else { break };
        latest = latest.min(line.marks.first().map_or(latest, |m| m.new));
        line = &lines[by.0 as usize];
    }
    line.at(at).min(latest)
}

/// Appends the steps of a stretch in which a track ran.
pub fn runs(track: TrackId, from: Ns, to: Ns, shrink: &dyn Shrink, steps: &mut Vec<Step>) {
    if from < to {
        let mut last = None;
        shrink.running(track, from, to, &mut |from, factor| {
            if last != Some(factor) {
                steps.push(Step::Run(from, factor));
                last = Some(factor);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_before_agrees_with_a_plain_search() {
        for count in 0..40 {
            let mark = |i: i64| Mark { old: Ns(i / 3 * 10), new: 0.0, factor: 1.0 };
            let line = Line { born: None, steps: Vec::new(), done: 0, marks: (0..count).map(mark).collect() };
            for old in (-5..150).map(Ns) {
                assert_eq!(line.marks_before(old), line.marks.partition_point(|m| m.old < old), "{count} {old}");
            }
        }
    }
}
