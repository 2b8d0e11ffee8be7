//! Collects rows of a table by column, and writes them as a Parquet file.
//!
//! Texts and numbers are encoded by dictionaries if that is smaller, and compressed with zstd. Each row group has the minimum
//! and maximum of each column. Identities have Bloom filters, so that a query for one boot or machine reads little.

use crate::Error;
use crate::column::{Cell, Column, Type};
use crate::files::catch_panics;
use crate::tables::{SCHEMA, Table, TableKind};
use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel};
use parquet::column::reader::ColumnReader;
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result as Encoded};
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{WriterProperties, WriterPropertiesPtr};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type as SchemaType, TypePtr};
use recording::open_regular;
use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// Compression level of zstd: quick, and small enough.
const COMPRESSION_LEVEL: i32 = 3;
/// Number of rows of a row group, which readers read as a unit.
pub const GROUP_ROWS: usize = 1 << 20;
/// Columns with Bloom filters, by which queries look up single boots.
const FILTERED_COLUMNS: [&str; 2] = ["boot_id", "machine"];

/// The known values of a column.
#[derive(Debug)]
enum Known {
    Text(Vec<ByteArray>),
    Integer(Vec<i64>),
    Fraction(Vec<f64>),
    Flag(Vec<bool>),
}

/// Rows of a table, collected by column.
#[derive(Debug)]
pub struct Rows {
    table: &'static Table,
    count: usize,
    /// For each column, the known values, and for each row 1 if its value is known, else 0.
    columns: Vec<(Known, Vec<i16>)>,
    /// The distinct texts, each stored once.
    texts: HashMap<Box<str>, ByteArray>,
    /// Values of the first columns in the following rows. `None` for unknown values.
    key: Vec<Option<Value>>,
}

/// A value of a column in Parquet's representation.
#[derive(Clone, Debug)]
enum Value {
    Text(ByteArray),
    Integer(i64),
    Fraction(f64),
    Flag(bool),
}

impl Rows {
    /// An empty collection of rows.
    pub fn new(table: &'static Table) -> Rows {
        let column = |column: &Column| {
            let known = match column.kind {
                Type::Text => Known::Text(Vec::new()),
                Type::Integer | Type::Time => Known::Integer(Vec::new()),
                Type::Fraction => Known::Fraction(Vec::new()),
                Type::Flag => Known::Flag(Vec::new()),
            };
            (known, Vec::new())
        };
        Rows {
            table,
            count: 0,
            columns: table.columns.iter().map(column).collect(),
            texts: HashMap::new(),
            key: Vec::new(),
        }
    }

    pub fn table(&self) -> &'static Table {
        self.table
    }

    /// Sets the cells of the first columns for the following rows, so that they are not looked up for each row.
    pub fn begin(&mut self, key: &[Cell]) {
        self.key = key.iter().map(|cell| value(&mut self.texts, cell)).collect();
    }

    /// Adds a row. `cells` are those of the columns that [`Rows::begin`] did not set, in the table's order.
    ///
    /// # Panics
    /// If the cells do not match the table's columns. That is a bug of this crate and does not depend on input.
    pub fn push(&mut self, cells: &[Cell]) {
        let Rows { table, columns, texts, key, .. } = self;
        assert_eq!(key.len() + cells.len(), columns.len(), "a row of {}", table.name);
        let values = key.iter().cloned().chain(cells.iter().map(|cell| value(texts, cell)));
        for ((column, (known, defined)), value) in table.columns.iter().zip(columns).zip(values) {
            defined.push(i16::from(value.is_some()));
            match (known, value) {
                (Known::Text(values), Some(Value::Text(text))) => values.push(text),
                (Known::Integer(values), Some(Value::Integer(value))) => values.push(value),
                (Known::Fraction(values), Some(Value::Fraction(value))) => values.push(value),
                (Known::Flag(values), Some(Value::Flag(value))) => values.push(value),
                (_, None) if column.optional => {}
                (_, value) => panic!("{value:?} in {}.{}", table.name, column.name),
            }
        }
        self.count += 1;
    }

    /// Writes the rows as a Parquet file.
    ///
    /// # Errors
    /// If `to` cannot be written.
    pub fn write(&self, to: impl Write + Send) -> Encoded<()> {
        let mut writer = SerializedFileWriter::new(to, schema(self.table)?, properties(self.table, self.count)?)?;
        for from in (0..self.count).step_by(GROUP_ROWS) {
            let rows = from..self.count.min(from + GROUP_ROWS);
            let mut group = writer.next_row_group()?;
            let mut columns = self.table.columns.iter().zip(&self.columns);
            while let Some(mut column) = group.next_column()? {
                if let Some((about, (known, defined))) = columns.next() {
                    let before = count(&defined[..rows.start]);
                    let within = before..before + count(&defined[rows.clone()]);
                    let levels = about.optional.then_some(&defined[rows.clone()]);
                    match (column.untyped(), known) {
                        (ColumnWriter::ByteArrayColumnWriter(to), Known::Text(all)) => {
                            to.write_batch(&all[within], levels, None)?
                        }
                        (ColumnWriter::Int64ColumnWriter(to), Known::Integer(all)) => {
                            to.write_batch(&all[within], levels, None)?
                        }
                        (ColumnWriter::DoubleColumnWriter(to), Known::Fraction(all)) => {
                            to.write_batch(&all[within], levels, None)?
                        }
                        (ColumnWriter::BoolColumnWriter(to), Known::Flag(all)) => {
                            to.write_batch(&all[within], levels, None)?
                        }
                        _ => return Err(ParquetError::General(format!("{} is of another kind", about.name))),
                    };
                }
                column.close()?;
            }
            group.close()?;
        }
        writer.close().map(drop)
    }
}

/// Properties of a table's files: compression, metadata and Bloom filters.
pub fn properties(table: &Table, rows: usize) -> Encoded<WriterPropertiesPtr> {
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(COMPRESSION_LEVEL)?))
        .set_created_by(format!("bootscope {}", env!("CARGO_PKG_VERSION")))
        .set_sorting_columns(Some(sorted_by(table)))
        .set_key_value_metadata(Some(vec![KeyValue::new("schema".to_owned(), SCHEMA.to_owned())]));
    if table.kind == TableKind::Boots {
        for name in FILTERED_COLUMNS {
            let path = ColumnPath::from(name);
            properties = properties
                .set_column_bloom_filter_enabled(path.clone(), true)
                .set_column_bloom_filter_max_ndv(path, rows.max(1) as u64);
        }
    }
    Ok(Arc::new(properties.build()))
}

/// The sort order of a table's rows: its first columns, ascending, `null` first.
fn sorted_by(table: &Table) -> Vec<SortingColumn> {
    let column = |(column_idx, _)| SortingColumn { column_idx, descending: false, nulls_first: true };
    (0..).zip(&table.columns[..table.sorted_by]).map(column).collect()
}

fn count(defined: &[i16]) -> usize {
    defined.iter().filter(|&&level| level > 0).count()
}

fn value(texts: &mut HashMap<Box<str>, ByteArray>, cell: &Cell) -> Option<Value> {
    Some(match *cell {
        Cell::Text(text) => Value::Text(shared(texts, text)),
        Cell::Integer(value) => Value::Integer(value),
        Cell::Fraction(value) => Value::Fraction(value),
        Cell::Flag(value) => Value::Flag(value),
        Cell::Unknown => return None,
    })
}

fn shared(texts: &mut HashMap<Box<str>, ByteArray>, text: &str) -> ByteArray {
    if let Some(known) = texts.get(text) {
        return known.clone();
    }
    let new = ByteArray::from(text);
    texts.insert(text.into(), new.clone());
    new
}

/// The Parquet schema of a table.
fn schema(table: &Table) -> Encoded<TypePtr> {
    let field = |column: &Column| {
        let (physical, logical) = match column.kind {
            Type::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Type::Integer => (Physical::INT64, None),
            Type::Fraction => (Physical::DOUBLE, None),
            Type::Flag => (Physical::BOOLEAN, None),
            Type::Time => {
                let unit = TimeUnit::MILLIS;
                (Physical::INT64, Some(LogicalType::timestamp(true, unit)))
            }
        };
        let repetition = if column.optional { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        let field = SchemaType::primitive_type_builder(column.name, physical);
        field.with_repetition(repetition).with_logical_type(logical).build().map(Arc::new)
    };
    let fields = table.columns.iter().map(field).collect::<Encoded<Vec<TypePtr>>>()?;
    SchemaType::group_type_builder(table.name).with_fields(fields).build().map(Arc::new)
}

/// The texts of a column without `null`s.
///
/// # Errors
/// If the file cannot be read, or has no such column.
pub fn texts(path: &Path, column: &'static str) -> Result<Vec<String>, Error> {
    catch_panics(path, || texts_in(path, column))
}

fn texts_in(path: &Path, column: &'static str) -> Result<Vec<String>, Error> {
    let file = open_regular(path).map_err(Error::io("open", path))?;
    let reader = SerializedFileReader::new(file).map_err(Error::parquet(path))?;
    let columns = reader.metadata().file_metadata().schema_descr_ptr();
    let place = (0..columns.num_columns()).find(|&i| columns.column(i).name() == column);
    let mut texts = Vec::new();
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group).map_err(Error::parquet(path))?;
        let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
        let found = place.map(|place| group.get_column_reader(place)).transpose().map_err(Error::parquet(path))?;
        let Some(ColumnReader::ByteArrayColumnReader(mut found)) = found else {
            return Err(Error::NoColumn { path: path.to_owned(), column });
        };
        let mut values = Vec::new();
        while values.len() < rows {
            let (more, ..) = found.read_records(rows, None, None, &mut values).map_err(Error::parquet(path))?;
            if more == 0 {
                break;
            }
        }
        texts.extend(values.iter().map(|value| String::from_utf8_lossy(value.data()).into_owned()));
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::tables;
    use parquet::file::properties::ReaderProperties;
    use parquet::file::serialized_reader::ReadOptionsBuilder;

    fn written(rows: &Rows) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        rows.write(file.as_file()).unwrap();
        file
    }

    fn labels() -> &'static Table {
        tables().iter().find(|table| table.kind == TableKind::Labels).unwrap()
    }

    fn key(id: &str) -> [Cell<'_>; 7] {
        ["pc".into(), "host".into(), "6.1".into(), 5.into(), id.into(), true.into(), Cell::Unknown]
    }

    #[test]
    fn pushed_rows_are_read_back_over_several_groups() {
        let mut rows = Rows::new(labels());
        let ids: Vec<String> = (0..GROUP_ROWS + 3).map(|i| (i % 7).to_string()).collect();
        for id in &ids {
            rows.push(&[&key(id)[..], &["team".into(), "x".into()]].concat());
        }
        let file = written(&rows);
        assert_eq!(texts(file.path(), "boot_id").unwrap(), ids);
        assert!(matches!(texts(file.path(), "nothing"), Err(Error::NoColumn { .. })));
    }

    #[test]
    fn the_rows_of_a_boot_have_its_key() {
        let mut rows = Rows::new(labels());
        for id in ["a", "b"] {
            rows.begin(&key(id));
            (0..2).for_each(|_| rows.push(&["team".into(), id.into()]));
        }
        let file = written(&rows);
        for column in ["boot_id", "value"] {
            assert_eq!(texts(file.path(), column).unwrap(), ["a", "a", "b", "b"], "{column}");
        }
    }

    #[test]
    fn every_table_can_be_written_with_nothing_in_it() {
        for table in tables() {
            let text = table.columns.iter().find(|column| column.kind == Type::Text && !column.optional).unwrap();
            assert_eq!(texts(written(&Rows::new(table)).path(), text.name).unwrap(), Vec::<String>::new());
        }
    }

    /// Checks the metadata that readers rely on: the sort order, and the Bloom filters.
    #[test]
    fn every_file_says_how_it_is_sorted_and_identities_have_filters_that_answer() {
        let options = || {
            let properties = ReaderProperties::builder().set_read_bloom_filter(true).build();
            ReadOptionsBuilder::new().with_reader_properties(properties).build()
        };
        for table in tables() {
            let mut rows = Rows::new(table);
            let of_kind = |column: &Column| match (column.name, column.kind) {
                ("boot_id", _) => "here".into(),
                ("machine", _) => "machine-1".into(),
                (_, Type::Text) => "x".into(),
                (_, Type::Integer | Type::Time) => 5.into(),
                (_, Type::Fraction) => Cell::Fraction(0.5),
                (_, Type::Flag) => true.into(),
            };
            rows.push(&table.columns.iter().map(of_kind).collect::<Vec<Cell>>());
            let file = written(&rows);
            let reader = SerializedFileReader::new_with_options(file.reopen().unwrap(), options()).unwrap();
            let group = reader.get_row_group(0).unwrap();
            let sorted: Vec<&str> = group
                .metadata()
                .sorting_columns()
                .unwrap()
                .iter()
                .map(|by| {
                    assert!(by.nulls_first && !by.descending);
                    table.columns[usize::try_from(by.column_idx).unwrap()].name
                })
                .collect();
            let expected = match table.kind {
                TableKind::Machines => vec!["hardware", "machine"],
                _ => vec!["hardware", "time_base", "kernel", "began", "boot_id"],
            };
            assert_eq!(sorted, expected, "{}", table.name);
            for (i, column) in table.columns.iter().enumerate() {
                let filter = group.get_column_bloom_filter(i);
                let has = |value: &str| filter.map(|filter| filter.check(&ByteArray::from(value)));
                let expected = match (table.kind, column.name) {
                    (TableKind::Boots, "boot_id") => (Some(true), Some(false)),
                    (TableKind::Boots, "machine") => (Some(false), Some(true)),
                    _ => (None, None),
                };
                assert_eq!((has("here"), has("machine-1")), expected, "{}.{}", table.name, column.name);
            }
        }
    }

    #[test]
    #[should_panic(expected = "in labels.value")]
    fn a_cell_of_another_type_panics() {
        Rows::new(labels()).push(&[&key("a")[..], &["team".into(), true.into()]].concat());
    }

    #[test]
    fn a_cut_file_is_an_error() {
        let mut rows = Rows::new(labels());
        rows.push(&[&key("a")[..], &["team".into(), "x".into()]].concat());
        let file = written(&rows);
        let whole = std::fs::read(file.path()).unwrap();
        for cut in 0..whole.len() {
            std::fs::write(file.path(), &whole[..cut]).unwrap();
            assert!(texts(file.path(), "boot_id").is_err(), "cut to {cut} bytes");
        }
    }
}
