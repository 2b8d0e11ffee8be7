//! Separates the changes of a diff from noise, with dithered boots: each side is booted several times, each time with a
//! dummy argument of another length.
//!
//! Such boots differ only in memory layout and hashing. The range of a row, a function or a call path among them
//! (largest minus smallest) is its *floor*. Its change is the difference of the medians, and counts if it exceeds the
//! floor of both sides. With a handful of boots a test of significance is too weak for thousands of functions;
//! comparing with the largest random change is not.

use super::{Diff, DiffLine};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::hash::Hash;

/// The figures of a diff of dithered boots.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Dither {
    /// Boots of each side.
    pub boots: usize,
    /// The change of the total: the difference of the medians.
    pub total_change_ns: i64,
    /// The noise of the total.
    pub total_floor_ns: i64,
    /// The number of rows that changed by no more than their noise and are left out.
    pub rows_within: usize,
    /// The number of functions left out for the same reason.
    pub functions_within: usize,
    /// The number of call paths left out for the same reason.
    pub paths_within: usize,
}

/// The changes from a side's first boot to its other boots, by key. The first boot itself counts as 0.
struct Moves<K> {
    boots: usize,
    by: HashMap<K, Vec<i64>>,
}

impl<K: Hash + Eq> Moves<K> {
    fn of<'a>(others: &'a [Diff], changes: impl Fn(&'a Diff) -> Vec<(K, i64)>) -> Self {
        let mut by: HashMap<K, Vec<i64>> = HashMap::new();
        for (key, change) in others.iter().flat_map(changes) {
            by.entry(key).or_default().push(change);
        }
        Moves { boots: others.len() + 1, by }
    }

    /// The median change, and the range of the changes. A boot without an entry did not change.
    fn spread(&self, key: &K) -> (i64, i64) {
        let mut changes = self.by.get(key).cloned().unwrap_or_default();
        changes.resize(self.boots, 0);
        changes.sort_unstable();
        (changes[self.boots / 2], changes[self.boots - 1] - changes[0])
    }
}

impl Diff {
    /// Keeps only what changed by more than its noise. `self` compares the first boots of both sides. `before` and
    /// `after` compare the first boot of a side with each other boot of that side.
    pub fn dithered(mut self, before: &[Diff], after: &[Diff]) -> Diff {
        let totals = [before, after]
            .map(|others| Moves::of(others, |d| vec![((), d.after.total_ns - d.before.total_ns)]).spread(&()));
        let total = self.after.total_ns - self.before.total_ns + totals[1].0 - totals[0].0;
        let total_floor_ns = totals[0].1.max(totals[1].1);
        let mut dither =
            Dither { boots: before.len() + 1, total_change_ns: total, total_floor_ns, ..Dither::default() };
        let rows =
            [before, after].map(|o| Moves::of(o, |d| d.rows.iter().map(|r| (r.name.as_str(), r.change())).collect()));
        dither.rows_within = keep(
            &mut self.rows,
            |r| counts(r.name.as_str(), r.change(), &rows),
            |r, change| {
                (r.change_ns, r.floor_ns) = (Some(change.0), Some(change.1));
            },
        );
        let lines = |rows_of: fn(&Diff) -> &Vec<DiffLine>| {
            [before, after]
                .map(|o| Moves::of(o, |d| rows_of(d).iter().map(|l| (l.key(), l.on_path_change_ns)).collect()))
        };
        let set = |l: &mut DiffLine, change: (i64, i64)| (l.on_path_change_ns, l.floor_ns) = (change.0, Some(change.1));
        let functions = lines(|d| &d.functions);
        dither.functions_within = keep(&mut self.functions, |l| counts(l.key(), l.on_path_change_ns, &functions), set);
        let paths = lines(|d| &d.paths);
        dither.paths_within = keep(&mut self.paths, |l| counts(l.key(), l.on_path_change_ns, &paths), set);
        self.rows.sort_by_key(|r| std::cmp::Reverse(r.change_ns.unwrap_or(0).abs()));
        for lines in [&mut self.functions, &mut self.paths] {
            lines.sort_by_key(|l| std::cmp::Reverse(l.on_path_change_ns.abs()));
        }
        self.floor = (self.before.total_ns > 0).then(|| total_floor_ns as f64 / self.before.total_ns as f64);
        self.dither = Some(dither);
        self
    }
}

/// The difference of the medians and the floor, if the change exceeds the floor.
fn counts<K: Hash + Eq>(key: K, first: i64, moves: &[Moves<K>; 2]) -> Option<(i64, i64)> {
    let [before, after] = [0, 1].map(|side| moves[side].spread(&key));
    let (change, floor) = (first + after.0 - before.0, before.1.max(after.1));
    (change.abs() > floor).then_some((change, floor))
}

/// Keeps the items that `counts` accepts. Returns how many it removed.
fn keep<T>(all: &mut Vec<T>, counts: impl Fn(&T) -> Option<(i64, i64)>, set: impl Fn(&mut T, (i64, i64))) -> usize {
    let listed = all.len();
    all.retain_mut(|one| match counts(one) {
        Some(change) => {
            set(one, change);
            true
        }
        None => false,
    });
    listed - all.len()
}

#[cfg(test)]
mod tests {
    use super::super::{DiffRow, DiffSide};
    use super::*;

    fn diff(total: (i64, i64), rows: &[(&str, i64, i64)]) -> Diff {
        let row = |&(name, before, after): &(&str, i64, i64)| DiffRow {
            name: name.to_owned(),
            before_ns: Some(before),
            after_ns: Some(after),
            ..DiffRow::default()
        };
        let line = |&(name, before, after): &(&str, i64, i64)| DiffLine {
            name: name.to_owned(),
            on_path_change_ns: after - before,
            ..DiffLine::default()
        };
        Diff {
            before: DiffSide { total_ns: total.0, ..DiffSide::default() },
            after: DiffSide { total_ns: total.1, ..DiffSide::default() },
            rows: rows.iter().map(row).collect(),
            functions: rows.iter().map(line).collect(),
            ..Diff::default()
        }
    }

    /// `grown` takes 50 more, and moves by 4; `shaky` took 40 more, and moves by 60; `late` is only in the other boots.
    #[test]
    fn changes_within_the_noise_are_left_out() {
        let first = diff((1000, 1090), &[("grown", 100, 150), ("shaky", 200, 240)]);
        let before =
            [diff((1000, 1060), &[("shaky", 200, 260)]), diff((1000, 1004), &[("grown", 100, 104), ("late", 10, 9)])];
        let after = [diff((1090, 1080), &[("shaky", 240, 230)]), diff((1090, 1091), &[("grown", 150, 151)])];
        let found = first.dithered(&before, &after);
        let rows: Vec<_> = found.rows.iter().map(|r| (r.name.as_str(), r.change_ns, r.floor_ns)).collect();
        assert_eq!(rows, [("grown", Some(50), Some(4))]);
        let functions: Vec<_> =
            found.functions.iter().map(|l| (l.name.as_str(), l.on_path_change_ns, l.floor_ns)).collect();
        assert_eq!(functions, [("grown", 50, Some(4))]);
        let expected = Dither {
            boots: 3,
            total_change_ns: 90 - 4,
            total_floor_ns: 60,
            rows_within: 1,
            functions_within: 1,
            paths_within: 0,
        };
        assert_eq!((found.dither, found.floor), (Some(expected), Some(0.06)));
    }
}
