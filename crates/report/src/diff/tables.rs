//! The tables of a diff. Each table sums to the total change, so rows that are cut off or not listed get a row that
//! sums them up.

use super::signed::{signed, signed_waits};
use super::{CHANGED, DiffAmount, DiffLine, DiffRow, Direction};
use crate::table::{Align, Column, Line, only, render};
use crate::text::{counted, thousands};
use crate::{Layout, harmless};
use timeline::{Cost, Ns, Unit};

/// The name of the row for everything that took as long as before.
const UNCHANGED: &str = "unchanged";

/// The sums that the rows of a table must reach.
pub(super) struct Whole {
    pub before: Cost,
    pub after: Cost,
    pub change: Cost,
    pub is_dithered: bool,
    /// For dithered boots, the number of rows left out because they changed by no more than their noise.
    pub within_noise: Option<usize>,
    /// The name of what no row of a table has.
    pub unlisted: &'static str,
    /// List only rows that changed in this direction. The sum of everything else has the others.
    pub only: Option<Direction>,
}

/// The times of a row before and after, if known.
pub(super) type Times = [Option<Cost>; 2];

/// A row that sums up others: its name, its change, and its times if the rows have them.
struct Sum {
    name: String,
    change: Cost,
    times: Times,
}

impl Whole {
    /// The rows that make a table sum to the whole: rows that were cut off, rows that are not listed, the total. `all`
    /// are the changes and times of all rows that the table could list.
    fn sums(&self, all: &[(Cost, Times)], listed: usize, unlisted: &str) -> Vec<Sum> {
        let cut = &all[listed..];
        let sum = |rows: &[(Cost, Times)]| -> (Cost, [Cost; 2]) {
            let side_sum = |side: usize| rows.iter().filter_map(|row| row.1[side]).sum();
            (rows.iter().map(|row| row.0).sum(), [side_sum(0), side_sum(1)])
        };
        // With several boots per side, only the first boot's times are known, and changes are differences of medians.
        let times = |times: [Cost; 2]| if self.within_noise.is_some() { [None; 2] } else { times.map(Some) };
        let mut sums = Vec::new();
        if !cut.is_empty() {
            let (change, cut_times) = sum(cut);
            let name = format!("everything else ({})", counted(cut.len() as u64, "row"));
            sums.push(Sum { name, change, times: times(cut_times) });
        }
        let (change, [before, after]) = sum(all);
        let rest = (self.change - change, [self.before - before, self.after - after]);
        let name = match self.within_noise {
            Some(rows) => format!("within their noise ({})", counted(rows as u64, "row")),
            None if rest.0 == Cost::ZERO => UNCHANGED.to_owned(),
            None => unlisted.to_owned(),
        };
        if rest.0 != Cost::ZERO || (self.within_noise.is_none() && rest.1 != [Cost::ZERO; 2]) {
            sums.push(Sum { name, change: rest.0, times: times(rest.1) });
        }
        let name = if self.is_dithered && self.within_noise.is_none() { "total of the first boots" } else { "total" };
        let times = times([self.before, self.after]);
        sums.push(Sum { name: name.to_owned(), change: self.change, times });
        sums
    }
}

/// The width from which functions and paths have their times before and after, and those of a call.
const WIDE_COLUMNS: usize = 110;

/// Writes a table of phases or rows: the first `top`, everything else, the total.
pub(super) fn row_table(
    title: &'static str,
    all: &[DiffRow],
    top: usize,
    whole: &Whole,
    layout: Layout,
    out: &mut String,
) {
    if all.is_empty() {
        return;
    }
    let columns = [
        Column::new(title, Align::Left, None),
        Column::new("change", Align::Right, Some(layout.time_width() + 2)),
        Column::new("before", Align::Right, Some(layout.time_width())),
        Column::new("after", Align::Right, Some(layout.time_width())),
        Column::new("waits change", Align::Right, Some(12)),
        Column::new("before", Align::Right, Some(9)),
        Column::new("after", Align::Right, Some(9)),
    ];
    let waits = layout.unit == Unit::Instructions && (whole.before + whole.after).waited > Ns::ZERO;
    let shown = [true, true, true, true, waits, waits, waits];
    let line = |name: &str, change: Cost, times: Times, faint: bool| {
        let cell = |cost: Option<Cost>, text: fn(&Layout, Cost) -> String| {
            cost.map_or_else(String::new, |cost| text(&layout, cost))
        };
        let length = if waits { Layout::busy } else { Layout::cost };
        let [before, after] = times.map(|cost| cell(cost, length));
        let [waited_before, waited_after] = times.map(|cost| cell(cost, Layout::waited));
        let change_text = signed(if waits { change.instructions().0 } else { change.length.0 }, layout);
        let name = harmless(name).into_owned();
        let cells = [name, change_text, before, after, signed_waits(change), waited_before, waited_after];
        Line { cells: only(cells, shown), faint }
    };
    let (all, listed) = &listed_first(all, top, whole.only, DiffRow::change);
    let listed = *listed;
    let mut lines: Vec<Line> = all[..listed].iter().map(|r| line(&r.name, r.cost_change(), r.times(), false)).collect();
    let figures: Vec<(Cost, Times)> = all.iter().map(|row| (row.cost_change(), row.times())).collect();
    let sums = whole.sums(&figures, listed, whole.unlisted);
    lines.extend(sums.iter().map(|sum| line(&sum.name, sum.change, sum.times, true)));
    render(&only(columns, shown), &lines, layout.table_width(), layout.style, out);
    out.push('\n');
}

/// Writes a table of functions or call paths: the first ones, everything else, the total on the boot path.
pub(super) fn table(title: &'static str, all: &[DiffLine], whole: &Whole, layout: Layout, out: &mut String) {
    if all.is_empty() {
        return;
    }
    let (all, listed) = &listed_first(all, layout.top, whole.only, |line| line.on_path_change_ns);
    let listed = *listed;
    let (columns, mut lines) = columns_and_lines(title, all, listed, layout);
    // Other columns cover all threads, and a function is in the total of its callers. Only the boot path can be summed.
    let figures: Vec<(Cost, Times)> = all.iter().map(|l| (Cost::busy(Ns(l.on_path_change_ns)), [None; 2])).collect();
    for Sum { name, change, .. } in whole.sums(&figures, listed, "in no function") {
        if name != UNCHANGED {
            let mut cells = vec![name, signed(change.length.0, layout)];
            cells.resize(columns.len(), String::new());
            lines.push(Line { cells, faint: true });
        }
    }
    render(&columns, &lines, layout.table_width(), layout.style, out);
    out.push('\n');
}

/// Those that changed in the requested direction, then the others; and the number to list.
fn listed_first<T>(all: &[T], top: usize, only: Option<Direction>, change: fn(&T) -> i64) -> (Vec<&T>, usize) {
    let is_wanted = |row: &&T| only.is_none_or(|only| only.is_of(change(row)));
    let (mut rows, others): (Vec<&T>, Vec<&T>) = all.iter().partition(is_wanted);
    let listed = top.min(rows.len());
    rows.extend(others);
    (rows, listed)
}

/// Writes functions or call paths alone, without a sum.
pub(crate) fn changed_lines(title: &'static str, all: &[DiffLine], layout: Layout, out: &mut String) {
    if all.is_empty() {
        return;
    }
    let all: Vec<&DiffLine> = all.iter().collect();
    let (columns, lines) = columns_and_lines(title, &all, all.len(), layout);
    render(&columns, &lines, layout.table_width(), layout.style, out);
    out.push('\n');
}

/// The columns for functions or call paths, and the first lines.
fn columns_and_lines(
    title: &'static str,
    all: &[&DiffLine],
    listed: usize,
    layout: Layout,
) -> (Vec<Column>, Vec<Line>) {
    // A column with the same value in every row is left out.
    let has_own_self = all.iter().any(|l| change(l, |a| a.self_ns) != l.on_path_change_ns);
    let has_own_total = all.iter().any(|l| change(l, |a| a.total_ns) != change(l, |a| a.self_ns));
    let has_calls = all.iter().any(|l| change(l, calls) != 0);
    let has_what = all.iter().any(|l| l.what != CHANGED);
    let is_wide = layout.table_width() >= WIDE_COLUMNS;
    let has_per_call = is_wide && all.iter().any(|l| [&l.before, &l.after].into_iter().flatten().any(|a| a.calls > 1));
    type Cell = fn(&DiffLine, Layout) -> String;
    let all_columns: [(bool, Column, Cell); 9] = [
        (true, Column::new(title, Align::Left, None), |l, _| harmless(&name_and_callers(l)).into_owned()),
        (true, Column::new("boot path", Align::Right, Some(layout.time_width() + 2)), |l, layout| {
            signed(l.on_path_change_ns, layout)
        }),
        (is_wide, Column::new("before", Align::Right, Some(layout.time_width())), |l, layout| {
            l.before.as_ref().map_or_else(String::new, |a| layout.time(a.on_path_ns))
        }),
        (is_wide, Column::new("after", Align::Right, Some(layout.time_width())), |l, layout| {
            l.after.as_ref().map_or_else(String::new, |a| layout.time(a.on_path_ns))
        }),
        (has_own_self, Column::new("self", Align::Right, Some(layout.time_width() + 2)), |l, layout| {
            signed(change(l, |a| a.self_ns), layout)
        }),
        (has_own_total, Column::new("total", Align::Right, Some(layout.time_width() + 2)), |l, layout| {
            signed(change(l, |a| a.total_ns), layout)
        }),
        (has_calls, Column::new("calls", Align::Right, Some(20)), |l, _| calls_and_change(l)),
        (has_per_call, Column::new("self per call", Align::Right, Some(2 * layout.time_width() + 3)), per_call),
        (has_what, Column::new("what", Align::Left, Some(8)), |l, _| l.what.clone()),
    ];
    let shown = all_columns.into_iter().filter(|(is_shown, ..)| *is_shown);
    let (columns, cells): (Vec<Column>, Vec<Cell>) = shown.map(|(_, column, cell)| (column, cell)).unzip();
    let row = |l: &&DiffLine| Line { cells: cells.iter().map(|cell| cell(l, layout)).collect(), faint: false };
    let lines = all[..listed].iter().map(row).collect();
    (columns, lines)
}

/// The change of an amount.
fn change(line: &DiffLine, amount: fn(&DiffAmount) -> i64) -> i64 {
    let [before, after] = [&line.before, &line.after].map(|side| side.as_ref().map_or(0, amount));
    after - before
}

fn calls(amount: &DiffAmount) -> i64 {
    i64::try_from(amount.calls).unwrap_or(i64::MAX)
}

/// The calls of the second boot and their change: `12 (+3)`.
fn calls_and_change(line: &DiffLine) -> String {
    let after = line.after.as_ref().map_or(0, |amount| amount.calls);
    match change(line, calls) {
        0 => thousands(after),
        change => format!("{} ({})", thousands(after), signed_count(change)),
    }
}

/// The self time of a call before and after.
fn per_call(line: &DiffLine, layout: Layout) -> String {
    let sides = [&line.before, &line.after].into_iter().flatten().filter(|amount| amount.calls > 0);
    let lengths: Vec<String> = sides.map(|amount| layout.time(amount.self_ns / calls(amount))).collect();
    match lengths.as_slice() {
        [before, after] if before == after => before.clone(),
        lengths => lengths.join(" → "),
    }
}

fn signed_count(count: i64) -> String {
    match count {
        0 => "0".to_owned(),
        1.. => format!("+{}", thousands(count.unsigned_abs())),
        _ => format!("−{}", thousands(count.unsigned_abs())),
    }
}

fn name_and_callers(line: &DiffLine) -> String {
    match line.callers.as_slice() {
        [] => line.name_and_kin(),
        callers => format!("{} ← {}", line.name, callers.iter().rev().cloned().collect::<Vec<_>>().join(" ← ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn whole(within_noise: Option<usize>, before_ns: i64, after_ns: i64, change_ns: i64) -> Whole {
        Whole {
            before: Cost::busy(Ns(before_ns)),
            after: Cost::busy(Ns(after_ns)),
            change: Cost::busy(Ns(change_ns)),
            is_dithered: within_noise.is_some(),
            within_noise,
            unlisted: "in no row",
            only: None,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn every_table_sums_to_the_change_of_the_whole(
            rows in prop::collection::vec((prop::option::of(0i64..1000), prop::option::of(0i64..1000)), 0..20),
            top in 0usize..25,
            unlisted in (0i64..500, 0i64..500),
            moved in -100i64..100,
            within_noise in prop::option::of(0usize..9),
        ) {
            let part = |ns: i64| Cost { length: Ns(ns), waited: Ns(ns / 3) };
            let all: Vec<(Cost, Times)> = rows
                .iter()
                .map(|&(b, a)| (part(a.unwrap_or(0)) - part(b.unwrap_or(0)), [b.map(part), a.map(part)]))
                .collect();
            let length = |cost: Option<Cost>| cost.unwrap_or_default().length.0;
            let before_ns = all.iter().map(|r| length(r.1[0])).sum::<i64>() + unlisted.0;
            let after_ns = all.iter().map(|r| length(r.1[1])).sum::<i64>() + unlisted.1;
            let change_ns = after_ns - before_ns + if within_noise.is_some() { moved } else { 0 };
            let listed = top.min(all.len());
            let sums = whole(within_noise, before_ns, after_ns, change_ns).sums(&all, listed, "in no function");
            let (total, others) = sums.split_last().expect("a total");
            let change: Cost = all[..listed].iter().map(|r| r.0).chain(others.iter().map(|s| s.change)).sum();
            prop_assert_eq!((change, total.change), (Cost::busy(Ns(change_ns)), Cost::busy(Ns(change_ns))));
            let times = |side: usize| {
                let listed = all[..listed].iter().map(|r| r.1[side].unwrap_or_default());
                listed.chain(others.iter().map(|s| s.times[side].unwrap_or_default())).sum::<Cost>()
            };
            if within_noise.is_none() {
                prop_assert_eq!((Some(times(0)), Some(times(1))), (total.times[0], total.times[1]));
            }
        }
    }
}
