//! The boot path as rows of bars. A bar's callees, or the thread that it waits for, lie in the row below it.

use crate::window::Window;
use report::{Boot, Label, Slice};
use timeline::{Ns, SpanKind};

/// A stretch of the boot path with one name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bar {
    pub start: Ns,
    pub end: Ns,
    pub label: Label,
    pub kind: Option<SpanKind>,
    /// The bar around it, in the row above.
    around: usize,
}

impl Bar {
    pub fn length(&self) -> Ns {
        self.end - self.start
    }
}

/// The place of a bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    pub row: usize,
    pub bar: usize,
}

/// Neighbouring columns of a row in which one bar is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub left: u16,
    pub right: u16,
    pub bar: usize,
    /// True if the bar is shorter than a column, so that others may lie beside it.
    pub is_crowd: bool,
}

/// The rows, the outermost first. The bars of a row are in order of time, and do not overlap.
#[derive(Debug, Default)]
pub struct Flame {
    rows: Vec<Vec<Bar>>,
}

impl Flame {
    /// The boot path of a boot; no rows if it has none.
    pub fn of(boot: &Boot) -> Flame {
        Flame::of_slices(boot.path_slices())
    }

    fn of_slices(slices: Vec<Slice>) -> Flame {
        let mut rows: Vec<Vec<Bar>> = Vec::new();
        let mut open: Vec<(usize, Slice)> = Vec::new();
        for slice in slices {
            while open.last().is_some_and(|(_, top)| !top.holds(&slice)) {
                open.pop();
            }
            let around = open.last().map_or(0, |&(bar, _)| bar);
            if rows.len() == open.len() {
                rows.push(Vec::new());
            }
            let row = &mut rows[open.len()];
            let Slice { start, end, label, kind } = slice;
            row.push(Bar { start, end, label, kind, around });
            open.push((row.len() - 1, slice));
        }
        Flame { rows }
    }

    /// The number of rows.
    pub fn depth(&self) -> usize {
        self.rows.len()
    }

    pub fn row(&self, row: usize) -> &[Bar] {
        self.rows.get(row).map_or(&[], Vec::as_slice)
    }

    pub fn get(&self, spot: Spot) -> Option<&Bar> {
        self.row(spot.row).get(spot.bar)
    }

    /// All bars, by row.
    pub fn bars(&self) -> impl Iterator<Item = (Spot, &Bar)> {
        let row = |(row, bars): (usize, &'_ Vec<Bar>)| (row, bars.len());
        let spots = self.rows.iter().enumerate().map(row);
        spots
            .flat_map(|(row, len)| (0..len).map(move |bar| Spot { row, bar }))
            .map(|spot| (spot, &self.rows[spot.row][spot.bar]))
    }

    /// The key that puts bars in order of time, outer ones first.
    pub fn order(&self, spot: Spot) -> (Ns, usize) {
        (self.get(spot).map_or(Ns::MAX, |bar| bar.start), spot.row)
    }

    /// The bar around a bar.
    pub fn around(&self, spot: Spot) -> Option<Spot> {
        let bar = self.get(spot)?;
        (spot.row > 0).then(|| Spot { row: spot.row - 1, bar: bar.around })
    }

    /// The bars directly below a bar.
    pub fn inside(&self, spot: Spot) -> impl Iterator<Item = Spot> {
        let below = self.row(spot.row + 1);
        let first = below.partition_point(|bar| bar.around < spot.bar);
        let inside = below[first..].iter().take_while(move |bar| bar.around == spot.bar).count();
        (first..first + inside).map(move |bar| Spot { row: spot.row + 1, bar })
    }

    /// The longest of the bars directly below a bar.
    pub fn longest_inside(&self, spot: Spot) -> Option<Spot> {
        // The first of equal ones.
        self.inside(spot).reduce(|a, b| if self.length(b) > self.length(a) { b } else { a })
    }

    /// The time of a bar that no bar below it has.
    pub fn own_time(&self, spot: Spot) -> Ns {
        let below = self.inside(spot).map(|inner| self.length(inner).0).sum::<i64>();
        Ns(self.length(spot).0 - below)
    }

    fn length(&self, spot: Spot) -> Ns {
        self.get(spot).map_or(Ns::ZERO, Bar::length)
    }

    /// The bar of a row at an instant.
    pub fn at(&self, row: usize, at: Ns) -> Option<Spot> {
        let bars = self.row(row);
        let bar = bars.partition_point(|bar| bar.end <= at);
        bars.get(bar).filter(|bar| bar.start <= at).map(|_| Spot { row, bar })
    }

    /// The innermost bar at an instant.
    pub fn innermost_at(&self, at: Ns) -> Option<Spot> {
        (0..self.depth()).map_while(|row| self.at(row, at)).last()
    }

    /// The next instant after `at`, or the last before it, at which the boot path changes, and the innermost bar then.
    pub fn step(&self, at: Ns, is_forwards: bool) -> Option<(Ns, Spot)> {
        let change = if is_forwards { self.change_after(at)? } else { self.change_before(at)? };
        self.innermost_at(change).map(|spot| (change, spot))
    }

    fn change_after(&self, at: Ns) -> Option<Ns> {
        let Some(spot) = self.innermost_at(at) else {
            let row = self.row(0);
            return row.get(row.partition_point(|bar| bar.start <= at)).map(|bar| bar.start);
        };
        let below = self.row(spot.row + 1);
        let next = below.get(below.partition_point(|bar| bar.start <= at)).filter(|bar| bar.around == spot.bar);
        next.map(|bar| bar.start).or_else(|| self.get(spot).map(|bar| bar.end))
    }

    fn change_before(&self, at: Ns) -> Option<Ns> {
        let before = Ns(at.0.saturating_sub(1));
        let spot = self.innermost_at(before)?;
        let below = self.row(spot.row + 1);
        let ended = below.partition_point(|bar| bar.end <= before);
        let last = below[..ended].last().filter(|bar| bar.around == spot.bar);
        last.map(|bar| bar.end).or_else(|| self.get(spot).map(|bar| bar.start))
    }

    /// The bars of a row as the columns of a window show them. The time follows the columns, not the bars.
    pub fn runs(&self, row: usize, window: Window, columns: u16) -> Vec<Run> {
        let bars = self.row(row);
        let mut runs: Vec<Run> = Vec::new();
        for column in 0..columns {
            let Some((bar, is_crowd)) = shown_in(bars, window, column, columns) else { continue };
            match runs.last_mut().filter(|run| run.bar == bar && run.right == column) {
                Some(run) => run.right = column + 1,
                None => runs.push(Run { left: column, right: column + 1, bar, is_crowd }),
            }
        }
        runs
    }
}

/// The bar that a column shows, and true if it does not reach over the column's middle: the first of short ones.
fn shown_in(bars: &[Bar], window: Window, column: u16, columns: u16) -> Option<(usize, bool)> {
    let middle = window.middle(column, columns);
    let over = bars.partition_point(|bar| bar.end <= middle);
    if bars.get(over).is_some_and(|bar| bar.start <= middle) {
        return Some((over, false));
    }
    let (begin, end) = (window.at(column, columns), window.at(column + 1, columns));
    let first = bars.partition_point(|bar| bar.end <= begin);
    bars.get(first).filter(|bar| bar.start < end).map(|_| (first, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flame(slices: &[(i64, i64)]) -> Flame {
        let slice =
            |&(start, end): &(i64, i64)| Slice { start: Ns(start), end: Ns(end), label: Label::Wait, kind: None };
        Flame::of_slices(slices.iter().map(slice).collect())
    }

    const ROOT: Spot = Spot { row: 0, bar: 0 };

    #[test]
    fn bars_lie_below_the_bar_that_holds_them() {
        let flame = flame(&[(0, 1_000), (0, 400), (100, 200), (400, 900), (500, 800), (1_000, 1_500), (1_200, 1_300)]);
        assert_eq!((flame.depth(), flame.row(0).len(), flame.row(1).len(), flame.row(2).len()), (3, 2, 3, 2));
        assert_eq!(flame.longest_inside(ROOT), Some(Spot { row: 1, bar: 1 }));
        assert_eq!(flame.inside(ROOT).count(), 2);
        assert_eq!(flame.own_time(ROOT), Ns(100));
        assert_eq!(flame.around(Spot { row: 2, bar: 1 }), Some(Spot { row: 1, bar: 1 }));
        assert_eq!((flame.around(ROOT), flame.longest_inside(Spot { row: 2, bar: 0 })), (None, None));
        assert_eq!(flame.innermost_at(Ns(600)), Some(Spot { row: 2, bar: 1 }));
        assert_eq!(flame.innermost_at(Ns(1_500)), None);
    }

    #[test]
    fn steps_visit_each_change_of_the_path_in_both_directions() {
        let flame = flame(&[(0, 1_000), (0, 400), (100, 200), (400, 900), (500, 800)]);
        let walk = |from: i64, is_forwards: bool| -> Vec<(i64, usize)> {
            let steps = std::iter::successors(Some((Ns(from), ROOT)), |&(at, _)| flame.step(at, is_forwards));
            steps.skip(1).map(|(at, spot)| (at.0, spot.row)).collect()
        };
        assert_eq!(walk(-1, true), [(0, 1), (100, 2), (200, 1), (400, 1), (500, 2), (800, 1), (900, 0)]);
        assert_eq!(walk(1_000, false), [(900, 0), (800, 1), (500, 2), (400, 1), (200, 1), (100, 2), (0, 1)]);
    }

    #[test]
    fn a_bar_of_a_column_or_more_is_always_drawn() {
        let bars: Vec<(i64, i64)> =
            (0..1_000).map(|i| (i * 100, i * 100 + if i % 10 == 0 { 100 } else { 3 })).collect();
        let (flame, window) = (flame(&bars), Window::new(Ns(0), Ns(8_000)));
        let runs = flame.runs(0, window, 80);
        for i in (0..80).step_by(10) {
            assert!(runs.iter().any(|run| run.bar == i && !run.is_crowd), "{i} of {runs:?}");
        }
        assert_eq!(runs.iter().filter(|run| run.is_crowd).count(), 72);
        assert!(runs.windows(2).all(|pair| pair[0].right <= pair[1].left));
        let far = flame.runs(0, Window::new(Ns(0), Ns(100_000)), 10);
        assert_eq!(far.len(), 10, "each column is full: {far:?}");
        assert!(flame.runs(0, Window::new(Ns(200_000), Ns(300_000)), 80).is_empty());
        assert!(flame.runs(7, window, 80).is_empty() && flame.runs(0, window, 0).is_empty());
    }
}
