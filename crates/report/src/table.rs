//! Aligned columns in a given width. One column gives way to the others; these get the width they need, up to their
//! limit.

use crate::Style;
use crate::text::{cut, width};
use std::borrow::Cow;

/// The gap between columns.
const GAP: &str = "  ";

/// The least width of the column that gives way.
const MIN_WIDTH: usize = 8;

/// The width from which only unusually long cells are cut.
pub const WIDE: usize = 240;

/// The length up to which such a wide table leaves cells uncut.
const WIDE_CELL: usize = 80;

/// The alignment of a cell in its column.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

pub struct Column {
    pub title: Cow<'static, str>,
    pub align: Align,
    /// The widest cell before it is cut. `None` marks the column that gives way to the others.
    pub most: Option<usize>,
    /// The colour of its cells.
    pub paint: fn(Style, &str) -> String,
}

impl Column {
    pub fn new(title: impl Into<Cow<'static, str>>, align: Align, most: Option<usize>) -> Column {
        Column { title: title.into(), align, most, paint: |_, text| text.to_owned() }
    }
}

/// A row: one cell per column, of harmless text. A faint row is not a listed thing, but a sum or the rest.
pub struct Line {
    pub cells: Vec<String>,
    pub faint: bool,
}

/// The cells of the columns that are shown.
pub fn only<T, const N: usize>(cells: [T; N], shown: [bool; N]) -> Vec<T> {
    cells.into_iter().zip(shown).filter_map(|(cell, shown)| shown.then_some(cell)).collect()
}

/// Writes the table, titles first. No line is wider than `whole` columns of the terminal, if the column limits allow
/// it.
pub fn render(columns: &[Column], lines: &[Line], whole: usize, style: Style, out: &mut String) {
    let widths = widths(columns, lines, whole);
    let titles: Vec<String> = columns.iter().map(|c| c.title.to_string()).collect();
    let mut put = |cells: &[String], paint: &dyn Fn(&Column, &str) -> String| {
        let padded: Vec<String> = (0..columns.len())
            .map(|i| {
                let last = i + 1 == columns.len();
                paint(&columns[i], &pad(&cells[i], widths[i], columns[i].align, last))
            })
            .collect();
        out.push_str(padded.join(GAP).trim_end());
        out.push('\n');
    };
    put(&titles, &|_, text| style.heading(text));
    for line in lines {
        put(&line.cells, &|column, text| if line.faint { style.faint(text) } else { (column.paint)(style, text) });
    }
}

fn widths(columns: &[Column], lines: &[Line], whole: usize) -> Vec<usize> {
    let natural = |i: usize| lines.iter().map(|l| width(&l.cells[i])).chain([width(&columns[i].title)]).max();
    let most = |column: &Column| match column.most {
        Some(most) if whole >= WIDE => most.max(WIDE_CELL),
        most => most.unwrap_or(usize::MAX),
    };
    let mut widths: Vec<usize> = (0..columns.len()).map(|i| natural(i).unwrap_or(0).min(most(&columns[i]))).collect();
    if let Some(gives_way) = columns.iter().position(|c| c.most.is_none()) {
        let others: usize = (0..columns.len()).filter(|&i| i != gives_way).map(|i| widths[i] + GAP.len()).sum();
        widths[gives_way] = widths[gives_way].min(whole.saturating_sub(others).max(MIN_WIDTH));
    }
    widths
}

fn pad(text: &str, columns: usize, align: Align, last: bool) -> String {
    let text = cut(text, columns);
    let space = " ".repeat(columns - width(&text));
    match align {
        Align::Right => space + &text,
        Align::Left if last => text.into_owned(),
        Align::Left => text.into_owned() + &space,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_cut_where_there_is_no_room() {
        let columns = [Column::new("row", Align::Left, None), Column::new("thread", Align::Left, Some(15))];
        let cells = ["x".repeat(60), "acpi_thermal_pm +48".to_owned()].to_vec();
        let shown = |whole| {
            let mut out = String::new();
            render(&columns, &[Line { cells: cells.clone(), faint: false }], whole, Style::Plain, &mut out);
            out
        };
        assert!(shown(WIDE).contains(&cells.join("  ")), "{}", shown(WIDE));
        assert_eq!(shown(80).matches('…').count(), 1, "{}", shown(80));
        let endless = [Line { cells: vec!["x".repeat(10_000), "y".repeat(10_000)], faint: false }];
        let mut out = String::new();
        render(&columns, &endless, WIDE, Style::Plain, &mut out);
        assert!(out.lines().all(|line| width(line) <= WIDE), "{out}");
    }
}
