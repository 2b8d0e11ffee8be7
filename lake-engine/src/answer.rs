//! What a question is answered with: rows that say the same in JSON, in CSV and as a table, and how many boots that rests on.

use crate::FormatArgs;
use anyhow::Context as _;
use arrow::record_batch::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use harmless::harmless;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use std::io::{IsTerminal as _, Write, stdout};

/// How a column of the table shows a field of a row.
#[derive(Clone, Copy)]
pub enum Show {
    /// As it is.
    Plain,
    /// Nanoseconds, as milliseconds.
    Ms,
    /// A ratio, as a change in percent.
    Change,
    /// A share of one, as percent.
    Percent,
    /// A probability.
    Probability,
    /// Nanoseconds, as seconds.
    Seconds,
    /// An identity, of which the beginning is shown: `--where` takes it with the `*` behind it.
    Id,
}

/// So much of an identity is shown.
const ID: usize = 20;
/// A text of an answer's table is not wider; JSON and CSV have all of it.
const WIDE: usize = 40;

/// A column of the table: its heading, the field of each row, and how that is shown.
pub type Shown = (&'static str, &'static str, Show);

/// An answer.
#[derive(Serialize)]
pub struct Answer {
    /// `bootscope.lake-QUESTION/1`.
    pub schema: String,
    /// The lake, as the user named it.
    pub lake: String,
    /// From which day on boots were asked; all if empty.
    pub since: String,
    /// Boots that it rests on.
    pub boots: u64,
    /// What a reader must know of it, in sentences.
    pub remarks: Vec<String>,
    /// Each an object of the same fields.
    pub rows: Vec<Fields>,
    /// Whether it found something to act on.
    #[serde(skip)]
    pub is_bad: bool,
    /// How the table shows the rows.
    #[serde(skip)]
    pub shown: &'static [Shown],
}

impl Answer {
    /// Prints it; of a table at most so many rows.
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
            if field == "by" { row.text(field).to_owned() } else { cut(&show.text(row.get(field)), WIDE) }
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
    /// Of anything that is an object in JSON.
    pub fn of(row: &impl Serialize) -> serde_json::Result<Fields> {
        serde_json::from_str(&serde_json::to_string(row)?)
    }

    /// A field; null if it is not there.
    pub fn get(&self, name: &str) -> &Value {
        self.0.iter().find(|(field, _)| field == name).map_or(&Value::Null, |(_, value)| value)
    }

    /// A field that is a text; empty if it is none.
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

/// The beginning and the end of a text that is too wide: kinds of machine differ at either.
pub fn cut(text: &str, wide: usize) -> String {
    let count = text.chars().count();
    if count <= wide {
        return text.to_owned();
    }
    let half = wide / 2;
    text.chars().take(half).chain(['…']).chain(text.chars().skip(count - (wide - half - 1))).collect()
}

/// As RFC 4180 has it. A terminal must not obey what a guest said; a file has it as it was.
fn quoted(text: &str) -> String {
    let shown = if stdout().is_terminal() { harmless(text) } else { text.into() };
    let text = &*shown;
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

impl Show {
    fn text(self, value: &Value) -> String {
        match (self, value) {
            (_, Value::Null) => "-".to_owned(),
            (Show::Id, Value::String(text)) if text.chars().count() > ID => {
                text.chars().take(ID - 1).chain(['*']).collect()
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

/// Three digits at least, and no more behind the point than these need.
fn three_digits(number: f64) -> String {
    let digits = match number.abs() {
        large if large >= 100.0 => 0,
        large if large >= 10.0 => 1,
        large if large >= 1.0 => 2,
        _ => 3,
    };
    format!("{number:.digits$}")
}

/// The rows of a batch as texts.
pub fn texts_of(batch: &RecordBatch, rows: &mut Vec<Vec<String>>) -> anyhow::Result<()> {
    let options = FormatOptions::default().with_null("-");
    let columns = batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options));
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    rows.extend((0..batch.num_rows()).map(|row| columns.iter().map(|column| column.value(row).to_string()).collect()));
    Ok(())
}

/// Prints columns, numbers to the right. Names in a lake quote what guests said: a terminal must not obey them.
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
