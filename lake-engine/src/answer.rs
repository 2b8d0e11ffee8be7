//! The answer to a question: the same rows as JSON, CSV or a table, and the number of boots behind them.

use crate::FormatArgs;
use anyhow::Context as _;
use arrow::record_batch::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use harmless::harmless;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use std::io::{IsTerminal as _, Write, stdout};

/// Format of a column of the table.
#[derive(Clone, Copy)]
pub enum Show {
    /// Unchanged.
    Plain,
    /// Nanoseconds, as milliseconds.
    Ms,
    /// A ratio, as a change in percent.
    Change,
    /// A share of one, as percent.
    Percent,
    /// A probability, with few digits.
    Probability,
    /// Nanoseconds, as seconds.
    Seconds,
    /// The beginning of an identity, followed by `*`. `--where` accepts that form.
    Id,
}

/// Maximum width of an identity in the table.
const MAX_ID_WIDTH: usize = 20;
/// Maximum width of a text in the table. JSON and CSV have all of it.
const MAX_TEXT_WIDTH: usize = 40;

/// A column of the table: its heading, the field of each row, and its format.
pub type Shown = (&'static str, &'static str, Show);

/// The answer to a question, as printed.
#[derive(Serialize)]
pub struct Answer {
    /// Kind and version of the document: `bootscope.lake-QUESTION/1`.
    pub schema: String,
    /// The lake, as the user named it.
    pub lake: String,
    /// First day of the selected boots. Empty if all days are selected.
    pub since: String,
    /// Number of boots behind the answer.
    pub boots: u64,
    /// Remarks for the user, in sentences.
    pub remarks: Vec<String>,
    /// The rows. All have the same fields.
    pub rows: Vec<Fields>,
    /// True if the user should act on the answer.
    #[serde(skip)]
    pub is_bad: bool,
    /// The columns of the table.
    #[serde(skip)]
    pub shown: &'static [Shown],
}

impl Answer {
    /// Prints the answer. A table gets at most `top` rows.
    pub fn print(&self, format: FormatArgs, top: usize) -> anyhow::Result<()> {
        let mut out = stdout().lock();
        if format.json {
            let text = harmless::json(self, true)?;
            return writeln!(out, "{text}").context("cannot write to standard output");
        }
        if format.csv {
            return self.csv();
        }
        let names: Vec<&str> = self.shown.iter().map(|(heading, ..)| *heading).collect();
        let cell = |row: &Fields, &(_, field, show): &Shown| {
            if field == "by" { row.text(field).to_owned() } else { cut(&show.text(row.get(field)), MAX_TEXT_WIDTH) }
        };
        let lines: Vec<Vec<String>> =
            self.rows.iter().take(top).map(|row| self.shown.iter().map(|shown| cell(row, shown)).collect()).collect();
        if lines.is_empty() {
            writeln!(out, "none")?;
        } else {
            print_table(&mut out, &names, &lines)?;
        }
        if format.quiet {
            return Ok(());
        }
        let more = self.rows.len().saturating_sub(top);
        if more > 0 {
            writeln!(out, "and {more} more: --top {} shows all", self.rows.len())?;
        }
        let since = if self.since.is_empty() { String::new() } else { format!(" since {}", self.since) };
        writeln!(out, "\n{} boots{since}", self.boots)?;
        for remark in &self.remarks {
            writeln!(out, "{}", harmless(remark))?;
        }
        Ok(())
    }

    fn csv(&self) -> anyhow::Result<()> {
        let mut out = stdout().lock();
        let Some(Fields(first)) = self.rows.first() else { return Ok(()) };
        let line = |cells: Vec<String>| cells.join(",");
        writeln!(out, "{}", line(first.iter().map(|(name, _)| quoted(name)).collect()))?;
        for Fields(row) in &self.rows {
            let cell = |(_, value): &(String, Value)| match value {
                Value::Null => String::new(),
                Value::String(text) => quoted(text),
                other => quoted(&other.to_string()),
            };
            writeln!(out, "{}", line(row.iter().map(cell).collect()))?;
        }
        Ok(())
    }
}

/// A row: its fields in order.
#[derive(Clone, Debug, Default)]
pub struct Fields(pub Vec<(String, Value)>);

impl Fields {
    /// Converts a value that is an object in JSON.
    pub fn of(row: &impl Serialize) -> serde_json::Result<Fields> {
        serde_json::from_str(&serde_json::to_string(row)?)
    }

    /// A field. Null if it is missing.
    pub fn get(&self, name: &str) -> &Value {
        self.0.iter().find(|(field, _)| field == name).map_or(&Value::Null, |(_, value)| value)
    }

    /// A text field. Empty if it is missing or not a text.
    pub fn text(&self, name: &str) -> &str {
        self.get(name).as_str().unwrap_or_default()
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Fields, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Fields;

            fn expecting(&self, to: &mut std::fmt::Formatter) -> std::fmt::Result {
                to.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Fields, M::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        from.deserialize_map(InOrder)
    }
}

/// Shortens a wide text in its middle, because kinds of machine differ at the beginning or at the end.
pub fn cut(text: &str, wide: usize) -> String {
    let count = text.chars().count();
    if count <= wide {
        return text.to_owned();
    }
    let half = wide / 2;
    text.chars().take(half).chain(['…']).chain(text.chars().skip(count - (wide - half - 1))).collect()
}

/// Quotes a text by RFC 4180. Escapes control sequences of guests only if the output is a terminal, so that files have the
/// original text.
fn quoted(text: &str) -> String {
    let shown = if stdout().is_terminal() { harmless(text) } else { text.into() };
    let text = &*shown;
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

impl Show {
    fn text(self, value: &Value) -> String {
        match (self, value) {
            (_, Value::Null) => "-".to_owned(),
            (Show::Id, Value::String(text)) if text.chars().count() > MAX_ID_WIDTH => {
                text.chars().take(MAX_ID_WIDTH - 1).chain(['*']).collect()
            }
            (Show::Plain | Show::Id, Value::String(text)) if text.is_empty() => "-".to_owned(),
            (Show::Plain | Show::Id, Value::String(text)) => text.clone(),
            (Show::Plain, Value::Array(all)) => {
                all.iter().map(|one| Show::Plain.text(one)).collect::<Vec<_>>().join(" ")
            }
            (Show::Plain, Value::Number(number)) if number.is_f64() => {
                three_digits(number.as_f64().unwrap_or(f64::NAN))
            }
            (Show::Plain, other) => other.to_string(),
            (_, value) => {
                let number = value.as_f64().unwrap_or(f64::NAN);
                match self {
                    Show::Plain => number.to_string(),
                    Show::Ms => three_digits(number / 1e6),
                    Show::Change => format!("{:+.1} %", (number - 1.0) * 100.0),
                    Show::Percent => format!("{:.1} %", number * 100.0),
                    Show::Probability if number < 1e-4 => format!("{number:.0e}"),
                    Show::Probability => format!("{number:.4}"),
                    Show::Seconds => three_digits(number / 1e9),
                    Show::Id => number.to_string(),
                }
            }
        }
    }
}

/// Formats a number with at least three digits, and no more decimals than that needs.
fn three_digits(number: f64) -> String {
    let digits = match number.abs() {
        large if large >= 100.0 => 0,
        large if large >= 10.0 => 1,
        large if large >= 1.0 => 2,
        _ => 3,
    };
    format!("{number:.digits$}")
}

/// Appends the rows of a batch as texts.
pub fn texts_of(batch: &RecordBatch, rows: &mut Vec<Vec<String>>) -> anyhow::Result<()> {
    let options = FormatOptions::default().with_null("-");
    let columns = batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options));
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    rows.extend((0..batch.num_rows()).map(|row| columns.iter().map(|column| column.value(row).to_string()).collect()));
    Ok(())
}

/// Prints a table, with numbers aligned to the right. Names in a lake may quote guests' output, so control sequences are escaped.
pub fn print_table(out: &mut impl Write, names: &[&str], rows: &[Vec<String>]) -> anyhow::Result<()> {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| harmless(cell).into_owned()).collect()).collect();
    let is_number = |cell: &String| cell == "-" || cell.trim_end_matches(" %").parse::<f64>().is_ok();
    let columns: Vec<(usize, bool)> = names
        .iter()
        .enumerate()
        .map(|(i, name)| {
            let cells = rows.iter().filter_map(|row| row.get(i));
            let width = cells.clone().map(|cell| cell.chars().count()).max().unwrap_or(0).max(name.chars().count());
            (width, cells.clone().count() > 0 && cells.into_iter().all(is_number))
        })
        .collect();
    let heading: Vec<String> = names.iter().map(|name| harmless(name).into_owned()).collect();
    for row in std::iter::once(&heading).chain(&rows) {
        let cells =
            row.iter().zip(&columns).map(
                |(cell, &(width, is_right))| {
                    if is_right { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
                },
            );
        let line = cells.collect::<Vec<_>>().join("  ");
        writeln!(out, "{}", line.trim_end()).context("cannot write to standard output")?;
    }
    Ok(())
}
