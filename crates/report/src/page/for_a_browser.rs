//! JSON for the page: its texts are harmless, and its numbers are ones that a browser has.

use crate::Summary;
use crate::text::harmless;
use serde::ser::{Error, SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use std::mem::take;

/// The most characters of a name.
const MAX_NAME_CHARACTERS: usize = 4_000;

/// Makes all texts harmless, and turns whole numbers that a double cannot hold into texts.
pub fn for_a_browser(value: Value) -> Value {
    const EXACT: u64 = 1 << 53;
    match value {
        Value::String(text) => Value::String(safe(&text)),
        Value::Array(values) => values.into_iter().map(for_a_browser).collect(),
        Value::Object(fields) => fields.into_iter().map(|(name, value)| (safe(&name), for_a_browser(value))).collect(),
        Value::Number(number) => {
            let is_exact = number.as_i64().map(i64::unsigned_abs).or(number.as_u64()).is_none_or(|n| n < EXACT);
            if is_exact { Value::Number(number) } else { Value::String(number.to_string()) }
        }
        other => other,
    }
}

/// The text made harmless, and cut if it is longer than anyone reads.
pub fn safe(text: &str) -> String {
    match text.char_indices().nth(MAX_NAME_CHARACTERS) {
        None => harmless(text).into_owned(),
        Some((end, _)) => format!("{}… ({} bytes)", harmless(&text[..end]), text.len()),
    }
}

const TABLES: [&str; 6] = ["where", "initcalls", "functions", "where_all_threads", "processes", "units"];

/// A summary whose long tables are converted row by row. All rows as one [`Value`] would take ten times their memory.
pub struct SummaryForABrowser {
    /// The long tables.
    tables: Summary,
    /// The other fields.
    fields: Map<String, Value>,
}

impl SummaryForABrowser {
    /// # Errors
    /// Those of `serde_json`.
    pub fn new(mut summary: Summary) -> serde_json::Result<Self> {
        let tables = Summary {
            wheres: take(&mut summary.wheres),
            initcalls: take(&mut summary.initcalls),
            functions: take(&mut summary.functions),
            where_all_threads: take(&mut summary.where_all_threads),
            processes: take(&mut summary.processes),
            units: take(&mut summary.units),
            ..Summary::default()
        };
        let mut fields = match for_a_browser(serde_json::to_value(summary)?) {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        TABLES.iter().for_each(|table| drop(fields.remove(*table)));
        Ok(SummaryForABrowser { tables, fields })
    }
}

impl Serialize for SummaryForABrowser {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Summary { wheres, initcalls, functions, where_all_threads, processes, units, .. } = &self.tables;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("where", &Rows(wheres))?;
        map.serialize_entry("initcalls", &Rows(initcalls))?;
        map.serialize_entry("functions", &Rows(functions))?;
        map.serialize_entry("where_all_threads", &Rows(where_all_threads))?;
        map.serialize_entry("processes", &Rows(processes))?;
        map.serialize_entry("units", &Rows(units))?;
        self.fields.iter().try_for_each(|(name, value)| map.serialize_entry(name, value))?;
        map.end()
    }
}

struct Rows<'a, T>(&'a [T]);

impl<T: Serialize> Serialize for Rows<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut rows = serializer.serialize_seq(Some(self.0.len()))?;
        for row in self.0 {
            rows.serialize_element(&for_a_browser(serde_json::to_value(row).map_err(S::Error::custom)?))?;
        }
        rows.end()
    }
}
