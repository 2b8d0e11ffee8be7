//! Reading what a query gives, column by column, and names as numbers.

use crate::engine::Engine;
use arrow::array::{Array, AsArray as _, Float64Array, Int64Array, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use arrow::record_batch::RecordBatch;
use std::collections::HashMap;
use std::sync::Arc;

/// A part of what a query gives.
pub struct Part(RecordBatch);

impl Part {
    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.0.num_rows()
    }

    /// A column of texts; null is empty.
    pub fn texts(&self, column: usize) -> anyhow::Result<StringViewArray> {
        Ok(cast(self.0.column(column), &DataType::Utf8View)?.as_string_view().clone())
    }

    /// A column of whole numbers.
    pub fn integers(&self, column: usize) -> anyhow::Result<Int64Array> {
        Ok(cast(self.0.column(column), &DataType::Int64)?.as_primitive::<Int64Type>().clone())
    }

    /// A column of numbers.
    pub fn numbers(&self, column: usize) -> anyhow::Result<Float64Array> {
        Ok(cast(self.0.column(column), &DataType::Float64)?.as_primitive::<Float64Type>().clone())
    }
}

/// Asks, and hands over part by part: memory is bounded by what the caller keeps.
pub async fn each(engine: &Engine, sql: &str, mut take: impl FnMut(&Part) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let mut batches = engine.query(sql).await?.execute_stream().await?;
    while let Some(batch) = engine.next(&mut batches).await? {
        take(&Part(batch))?;
    }
    Ok(())
}

/// A kind of machine, as one name. The second part is one of ours.
pub fn kind(hardware: &str, time_base: &str) -> String {
    format!("{hardware}\u{1f}{time_base}")
}

/// The two parts of it.
pub fn parts_of(kind: &str) -> (&str, &str) {
    kind.rsplit_once('\u{1f}').unwrap_or((kind, ""))
}

/// A text of a row; empty where it is null.
pub fn at(texts: &StringViewArray, row: usize) -> &str {
    if texts.is_null(row) { "" } else { texts.value(row) }
}

/// Names, each once, by number.
#[derive(Default)]
pub struct Names {
    numbers: HashMap<Arc<str>, u32>,
    names: Vec<Arc<str>>,
}

impl Names {
    /// The number of a name.
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

    /// The number of a name that is known.
    pub fn known(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    /// The name of a number.
    pub fn name(&self, number: u32) -> &str {
        self.names.get(number as usize).map_or("", |name| name)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }
}
