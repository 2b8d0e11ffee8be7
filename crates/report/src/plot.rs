//! A series of measurements as a plot in the terminal: oldest left, several values per column if need be. It shares the
//! scale at its left with the plot of a scaling model over sizes (`bench/plot.rs`).

use crate::text::{places, width};
use crate::{Layout, Style};

/// Lines of a plot.
const LINES: usize = 10;
/// The narrowest readable plot.
const MIN_COLUMNS: usize = 10;

/// A plot of values in order. A column shows the median of its values as a point, and the least and greatest as a line.
/// Marks under the axis show `changes`, which are places in the series.
pub fn plot(values: &[f64], changes: &[usize], text: impl Fn(f64) -> String, layout: Layout) -> String {
    let (least, most) = range(values);
    if !(least.is_finite() && most.is_finite()) {
        return String::new();
    }
    let labels = [most, least].map(text);
    let label = labels.iter().map(|l| width(l)).max().unwrap_or(0);
    let columns = layout.width.saturating_sub(label + 3).max(MIN_COLUMNS).min(values.len());
    let bins: Vec<Bin> = (0..columns)
        .map(|c| Bin::of(&values[start(c, columns, values.len())..start(c + 1, columns, values.len())]))
        .collect();
    let line_of = |value: f64| {
        let share = if most > least { (value - least) / (most - least) } else { 0.5 };
        places(share * (LINES - 1) as f64)
    };
    let mut out = String::new();
    for line in (0..LINES).rev() {
        let name = match line {
            _ if line == LINES - 1 => labels[0].as_str(),
            0 if most > least => labels[1].as_str(),
            _ => "",
        };
        let cell = |bin: &Bin| match line {
            _ if line == line_of(bin.median) => '•',
            _ if line_of(bin.least) <= line && line <= line_of(bin.most) => '│',
            _ => ' ',
        };
        let cells: String = bins.iter().map(cell).collect();
        scaled(&mut out, name, label, '┤', &layout.style.bar(cells.trim_end()));
    }
    let marked = |c: usize| {
        changes.iter().any(|&at| (start(c, columns, values.len())..start(c + 1, columns, values.len())).contains(&at))
    };
    let axis: String = (0..columns).map(|c| if marked(c) { '┴' } else { '─' }).collect();
    scaled(&mut out, "", label, '└', &axis);
    if !changes.is_empty() {
        let marks: String = (0..columns).map(|c| if marked(c) { '▲' } else { ' ' }).collect();
        scaled(&mut out, "", label, ' ', &mark(layout.style, marks.trim_end()));
    }
    out
}

/// Least, median and greatest value of a column.
struct Bin {
    least: f64,
    median: f64,
    most: f64,
}

impl Bin {
    fn of(values: &[f64]) -> Bin {
        let sorted = statistics::sorted(values);
        Bin { least: sorted[0], median: statistics::quantile::median(&sorted), most: sorted[sorted.len() - 1] }
    }
}

/// The place of a column's first value; every column has one.
fn start(column: usize, columns: usize, values: usize) -> usize {
    column * values / columns
}

fn range(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), &v| (least.min(v), most.max(v)))
}

/// Writes a line of a plot: its value on the scale, `label` columns wide, then the axis and the cells.
pub fn scaled(out: &mut String, name: &str, label: usize, axis: char, cells: &str) {
    let space = " ".repeat(label.saturating_sub(width(name)));
    out.push_str(format!("{space}{name} {axis}{cells}").trim_end());
    out.push('\n');
}

fn mark(style: Style, text: &str) -> String {
    style.bad(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(values: &[f64], changes: &[usize]) -> Vec<String> {
        let layout = Layout { width: 60, ..Layout::default() };
        plot(values, changes, |ns| timeline::Ns::rounded(ns).to_string(), layout).lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_step_is_seen_where_it_is() {
        let values: Vec<f64> = [vec![1e9; 10], vec![2e9; 10]].concat();
        let drawn = lines(&values, &[10]);
        assert_eq!(drawn.len(), LINES + 2);
        assert_eq!(drawn[0], format!("2.00 s ┤{}{}", " ".repeat(10), "•".repeat(10)));
        assert_eq!(drawn[LINES - 1], format!("1.00 s ┤{}", "•".repeat(10)));
        assert_eq!(drawn[LINES], format!("       └{}┴{}", "─".repeat(10), "─".repeat(9)));
        assert_eq!(drawn[LINES + 1], format!("        {}▲", " ".repeat(10)));
    }

    #[test]
    fn many_values_share_columns_and_none_is_left_out() {
        let mut values = vec![1e9; 100_000];
        values[77_777] = 3e9;
        let drawn = lines(&values, &[]);
        assert!(drawn.iter().all(|line| width(line) <= 60), "{drawn:#?}");
        assert!(drawn[0].starts_with("3.00 s ┤") && drawn[0].ends_with('│'), "{drawn:#?}");
    }

    #[test]
    fn one_value_no_value_and_equal_values() {
        assert_eq!(plot(&[], &[], |ns| ns.to_string(), Layout::default()), "");
        assert!(lines(&[5e6], &[]).iter().any(|line| line.ends_with('•')));
        assert!(lines(&[5e6; 3], &[])[0].starts_with("5.00 ms ┤"));
    }
}
