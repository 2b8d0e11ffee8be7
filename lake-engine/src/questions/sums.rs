//! Reads the result of a query by column, and maps names to numbers.

use crate::engine::Engine;
use arrow::array::{Array, AsArray as _, Float64Array, Int64Array, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use arrow::record_batch::RecordBatch;
use std::collections::HashMap;
use std::sync::Arc;

/// A part of a query's result.
pub struct Part(RecordBatch);

impl Part {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.0.num_rows()
    }

    /// A column of texts.
    pub fn texts(&self, column: usize) -> anyhow::Result<StringViewArray> {
        Ok(cast(self.0.column(column), &DataType::Utf8View)?.as_string_view().clone())
    }

    /// A column of integers.
    pub fn integers(&self, column: usize) -> anyhow::Result<Int64Array> {
        Ok(cast(self.0.column(column), &DataType::Int64)?.as_primitive::<Int64Type>().clone())
    }

    /// A column of floating-point numbers.
    pub fn numbers(&self, column: usize) -> anyhow::Result<Float64Array> {
        Ok(cast(self.0.column(column), &DataType::Float64)?.as_primitive::<Float64Type>().clone())
    }
}

/// Runs a query and passes each part of the result to `take`, so that memory holds only what the caller keeps.
pub async fn each(engine: &Engine, sql: &str, mut take: impl FnMut(&Part) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let mut batches = engine.query(sql).await?.execute_stream().await?;
    while let Some(batch) = engine.next(&mut batches).await? {
        take(&Part(batch))?;
    }
    Ok(())
}

/// One name for a kind of machine, made of both parts. `time_base` never contains the separator, because bootscope writes it.
pub fn kind(hardware: &str, time_base: &str) -> String {
    format!("{hardware}\u{1f}{time_base}")
}

/// Splits the name of a kind into its two parts.
pub fn parts_of(kind: &str) -> (&str, &str) {
    kind.rsplit_once('\u{1f}').unwrap_or((kind, ""))
}

/// The text of a row. Empty if it is null.
pub fn at(texts: &StringViewArray, row: usize) -> &str {
    if texts.is_null(row) { "" } else { texts.value(row) }
}

/// Distinct names with their numbers.
#[derive(Default)]
pub struct Names {
    numbers: HashMap<Arc<str>, u32>,
    names: Vec<Arc<str>>,
}

impl Names {
    /// The number of a name. Adds the name if it is new.
    pub fn number(&mut self, name: &str) -> u32 {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let number = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        let name: Arc<str> = name.into();
        self.numbers.insert(name.clone(), number);
        self.names.push(name);
        number
    }

    /// The number of a name. `None` if it was not added.
    pub fn known(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    /// The name with a number. Empty if there is no such number.
    pub fn name(&self, number: u32) -> &str {
        self.names.get(number as usize).map_or("", |name| name)
    }

    /// Number of distinct names.
    pub fn len(&self) -> usize {
        self.names.len()
    }
}
