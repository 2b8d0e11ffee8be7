//! One line of execution: what it does one after the other, and its map from when that was to when it then is.

use super::{DEEPEST, Shrink};
use timeline::{Ns, TrackId};

/// A line of execution.
pub struct Line {
    /// When it was created, and by whom.
    pub born: Option<(Ns, TrackId)>,
    pub steps: Vec<Step>,
    /// How many steps are in `marks`.
    pub done: usize,
    /// The map, in pieces.
    pub marks: Vec<Mark>,
}

/// From `old` on, until the next mark.
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
    /// When what comes next begins, at `old` or later than all marks.
    pub fn next(&self, old: Ns) -> f64 {
        match self.marks.last() {
            Some(mark) if mark.old == old => mark.new,
            _ => self.at(old),
        }
    }

    /// How many marks are before an instant. A replay mostly asks for what just happened: so they are looked through from the end, in
    /// steps that double, `O(log n)` in how many marks are later.
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

    /// Where the map has a step, its lower end.
    pub fn at(&self, old: Ns) -> f64 {
        let after = self.marks_before(old);
        match after.checked_sub(1).map_or_else(|| self.marks.first(), |i| self.marks.get(i)) {
            Some(mark) if mark.old < old => mark.new + mark.factor * (old - mark.old).0 as f64,
            Some(mark) => mark.new - (mark.old - old).0 as f64,
            None => old.0 as f64,
        }
    }
}

/// When a line then gets to where it was at `at`, once all lines have their marks.
pub fn time(lines: &[Line], track: TrackId, at: Ns) -> f64 {
    let mut line = &lines[track.0 as usize];
    // Before it was created it is its creator, but never later than when it is created.
    let mut latest = f64::INFINITY;
    for _ in 0..DEEPEST {
        let Some((_, by)) = line.born.filter(|&(born, _)| at < born) else { break };
        latest = latest.min(line.marks.first().map_or(latest, |m| m.new));
        line = &lines[by.0 as usize];
    }
    line.at(at).min(latest)
}

/// The steps of a stretch in which a track ran.
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
    fn marks_are_counted_as_a_plain_search_counts_them() {
        for count in 0..40 {
            let mark = |i: i64| Mark { old: Ns(i / 3 * 10), new: 0.0, factor: 1.0 };
            let line = Line { born: None, steps: Vec::new(), done: 0, marks: (0..count).map(mark).collect() };
            for old in (-5..150).map(Ns) {
                assert_eq!(line.marks_before(old), line.marks.partition_point(|m| m.old < old), "{count} {old}");
            }
        }
    }
}
