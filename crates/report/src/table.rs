//! Aligned columns in a given width. One column may give way; the others keep what they need up to their limit.

use crate::Style;
use crate::text::{cut, width};
use std::borrow::Cow;

/// Columns are set apart by this.
const GAP: &str = "  ";

/// Narrower than this, a column that gives way says nothing.
const NARROWEST: usize = 8;

/// How a cell stands in its column.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

/// One column.
pub struct Column {
    pub title: Cow<'static, str>,
    pub align: Align,
    /// Longer cells are cut; `None`: this is the column that gives way to the others.
    pub most: Option<usize>,
    /// How its cells are coloured.
    pub paint: fn(Style, &str) -> String,
}

impl Column {
    pub fn new(title: impl Into<Cow<'static, str>>, align: Align, most: Option<usize>) -> Column {
        Column { title: title.into(), align, most, paint: |_, text| text.to_owned() }
    }
}

/// A row: one cell per column, harmless text. A faint row is not one of the things listed (a sum, the rest).
pub struct Line {
    pub cells: Vec<String>,
    pub faint: bool,
}

/// The table, a line of titles first, no line wider than `columns` allow in `whole` columns of the terminal.
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
    let mut widths: Vec<usize> =
        (0..columns.len()).map(|i| natural(i).unwrap_or(0).min(columns[i].most.unwrap_or(usize::MAX))).collect();
    if let Some(gives_way) = columns.iter().position(|c| c.most.is_none()) {
        let others: usize = (0..columns.len()).filter(|&i| i != gives_way).map(|i| widths[i] + GAP.len()).sum();
        widths[gives_way] = widths[gives_way].min(whole.saturating_sub(others).max(NARROWEST));
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
