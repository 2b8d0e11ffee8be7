//! Files of a lake that any version of bootscope wrote. Reads them by column, and writes new files with some of their rows.
//!
//! Columns that this version does not know are preserved. Memory holds one column of the rows of one new file, and their
//! boots' identities.

use crate::Error;
use crate::columns::{GROUP_ROWS, Rows, properties};
use crate::files::{catch_panics, create_anew};
use crate::key::SORTED_BY;
use crate::tables::Table;
use parquet::basic::{Repetition, Type as Physical};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::{ParquetError, Result as Encoded};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type as SchemaType, TypePtr};
use recording::open_regular;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum number of rows decoded at once.
const CHUNK_ROWS: usize = 1 << 14;

/// A file of a table, open for reading.
pub struct Stored {
    path: PathBuf,
    reader: SerializedFileReader<File>,
}

/// The values of a column by row. Equal texts are stored once.
#[derive(Default)]
pub struct Values {
    /// `None` for `null`; for a text its index in `texts`, and for another value its bits.
    words: Vec<Option<u64>>,
    is_text: bool,
    texts: Vec<ByteArray>,
    places: HashMap<Vec<u8>, u64>,
}

impl Values {
    fn push_text(&mut self, text: ByteArray) {
        self.is_text = true;
        let place = match self.places.get(text.data()) {
            Some(place) => *place,
            None => {
                let place = self.texts.len() as u64;
                self.places.insert(text.data().to_vec(), place);
                // Copy the bytes, so that the page from which the text was read can be freed.
                self.texts.push(ByteArray::from(text.data().to_vec()));
                place
            }
        };
        self.words.push(Some(place));
    }

    fn text_at(&self, word: u64) -> &[u8] {
        usize::try_from(word).ok().and_then(|place| self.texts.get(place)).map_or(&[], |text| text.data())
    }

    /// Compares two rows in the order of the lake: `null` first.
    fn compare(&self, a: usize, b: usize) -> Ordering {
        match (self.words[a], self.words[b]) {
            (Some(a), Some(b)) if self.is_text => self.text_at(a).cmp(self.text_at(b)),
            (Some(a), Some(b)) => signed(a).cmp(&signed(b)),
            (a, b) => a.is_some().cmp(&b.is_some()),
        }
    }

    /// The text of a row.
    pub fn text(&self, row: usize) -> Option<String> {
        self.words[row].map(|word| String::from_utf8_lossy(self.text_at(word)).into_owned())
    }

    /// The integer of a row.
    pub fn integer(&self, row: usize) -> Option<i64> {
        self.words[row].map(signed)
    }

    /// Writes the values of some rows.
    fn write(&self, rows: &[u32], is_optional: bool, to: &mut SerializedColumnWriter) -> Encoded<()> {
        let words = rows.iter().map(|&row| self.words[row as usize]);
        let levels: Vec<i16> = words.clone().map(|word| i16::from(word.is_some())).collect();
        if !is_optional && levels.contains(&0) {
            return Err(ParquetError::General("a value is missing".to_owned()));
        }
        let levels = is_optional.then_some(&levels[..]);
        let known = words.flatten();
        match to.untyped() {
            ColumnWriter::ByteArrayColumnWriter(to) => {
                let texts = known.map(|word| usize::try_from(word).ok().and_then(|place| self.texts.get(place)));
                to.write_batch(&texts.map(|text| text.cloned().unwrap_or_default()).collect::<Vec<_>>(), levels, None)?
            }
            ColumnWriter::Int64ColumnWriter(to) => {
                to.write_batch(&known.map(signed).collect::<Vec<_>>(), levels, None)?
            }
            ColumnWriter::DoubleColumnWriter(to) => {
                to.write_batch(&known.map(f64::from_bits).collect::<Vec<_>>(), levels, None)?
            }
            ColumnWriter::BoolColumnWriter(to) => {
                to.write_batch(&known.map(|word| word != 0).collect::<Vec<_>>(), levels, None)?
            }
            _ => return Err(ParquetError::General("a column of another kind".to_owned())),
        };
        Ok(())
    }
}

/// Converts bits to an integer.
fn signed(word: u64) -> i64 {
    i64::from_ne_bytes(word.to_ne_bytes())
}

impl Stored {
    /// Opens a file.
    ///
    /// # Errors
    /// If it cannot be opened, or is not a Parquet file of a flat table.
    pub fn open(path: &Path) -> Result<Stored, Error> {
        catch_panics(path, || Stored::read_header(path))
    }

    fn read_header(path: &Path) -> Result<Stored, Error> {
        let file = open_regular(path).map_err(Error::io("open", path))?;
        let reader = SerializedFileReader::new(file).map_err(Error::parquet(path))?;
        let stored = Stored { path: path.to_owned(), reader };
        for field in stored.fields() {
            let is_known = field.is_primitive()
                && field.get_basic_info().repetition() != Repetition::REPEATED
                && matches!(
                    field.get_physical_type(),
                    Physical::BYTE_ARRAY | Physical::INT64 | Physical::DOUBLE | Physical::BOOLEAN
                );
            if !is_known {
                return Err(Error::UnknownKind { path: path.to_owned(), column: field.name().to_owned() });
            }
        }
        Ok(stored)
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        usize::try_from(self.reader.metadata().file_metadata().num_rows()).unwrap_or(0)
    }

    fn fields(&self) -> &[TypePtr] {
        self.reader.metadata().file_metadata().schema().get_fields()
    }

    /// The texts of a column. All are `None` if the file lacks the column.
    pub fn texts(&self, column: &str) -> Result<Vec<Option<String>>, Error> {
        let values = self.column(column)?;
        Ok((0..values.words.len()).map(|row| values.text(row)).collect())
    }

    /// The values of a column. All are `null` if the file lacks the column.
    pub fn column(&self, column: &str) -> Result<Values, Error> {
        let mut values = Values::default();
        catch_panics(&self.path, || self.read(column, &mut values))?;
        Ok(values)
    }

    fn read(&self, column: &str, into: &mut Values) -> Result<(), Error> {
        let Some(place) = self.fields().iter().position(|field| field.name() == column) else {
            into.words.resize(into.words.len() + self.rows(), None);
            return Ok(());
        };
        let is_optional = self.fields()[place].is_optional();
        for group in 0..self.reader.num_row_groups() {
            let cannot = || Error::parquet(&self.path);
            let group = self.reader.get_row_group(group).map_err(cannot())?;
            let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
            let words = &mut into.words;
            match group.get_column_reader(place).map_err(cannot())? {
                ColumnReader::ByteArrayColumnReader(from) => pull(from, rows, is_optional, |value| match value {
                    Some(text) => into.push_text(text),
                    None => into.words.push(None),
                }),
                ColumnReader::Int64ColumnReader(from) => pull(from, rows, is_optional, |value| {
                    words.push(value.map(|value| u64::from_ne_bytes(value.to_ne_bytes())));
                }),
                ColumnReader::DoubleColumnReader(from) => {
                    pull(from, rows, is_optional, |value| words.push(value.map(f64::to_bits)))
                }
                ColumnReader::BoolColumnReader(from) => {
                    pull(from, rows, is_optional, |value| words.push(value.map(u64::from)))
                }
                _ => Err(ParquetError::General(format!("{column} is of another kind"))),
            }
            .map_err(cannot())?;
        }
        Ok(())
    }
}

/// Passes each value of a column of a row group to `take`, in order.
fn pull<T: DataType>(
    mut from: ColumnReaderImpl<T>,
    rows: usize,
    is_optional: bool,
    mut take: impl FnMut(Option<T::T>),
) -> Encoded<()> {
    let (mut values, mut levels, mut done) = (Vec::new(), Vec::new(), 0);
    while done < rows {
        values.clear();
        levels.clear();
        let chunk = CHUNK_ROWS.min(rows - done);
        let (records, ..) = from.read_records(chunk, is_optional.then_some(&mut levels), None, &mut values)?;
        if records == 0 {
            return Err(ParquetError::EOF(format!("a column has {done} of {rows} rows")));
        }
        done += records;
        if is_optional {
            let mut known = values.drain(..);
            levels.iter().for_each(|&level| take(if level > 0 { known.next() } else { None }));
        } else {
            values.drain(..).for_each(|value| take(Some(value)));
        }
    }
    Ok(())
}

/// Identities of the boots to keep in files of `boots`, in the order of the lake's rows.
pub fn kept_boots(boots: &[Stored], table: &Table, keep: impl Fn(&str) -> bool) -> Result<Vec<String>, Error> {
    let mut sort_columns = Vec::new();
    for column in &table.columns[..SORTED_BY] {
        sort_columns.push(column_of(boots, column.name)?);
    }
    let ids = column_of(boots, "boot_id")?;
    let mut rows: Vec<usize> = (0..ids.words.len()).collect();
    rows.sort_by(|&a, &b| {
        sort_columns.iter().map(|column| column.compare(a, b)).find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
    });
    Ok(rows.into_iter().filter_map(|row| ids.text(row)).filter(|id| keep(id)).collect())
}

fn column_of(files: &[Stored], column: &str) -> Result<Values, Error> {
    let mut values = Values::default();
    for file in files {
        file.read(column, &mut values)?;
    }
    Ok(values)
}

/// Writes a file with the rows of these boots from several files, in the order of the boots. Syncs it.
///
/// # Errors
/// If a file cannot be read, or the new one cannot be written.
pub fn merge(table: &'static Table, from: &[Stored], boots: &[String], path: &Path) -> Result<(), Error> {
    let mut to = create_anew(path)?;
    let cannot = || Error::parquet(path);
    if from.is_empty() {
        Rows::new(table).write(BufWriter::new(&mut to)).map_err(cannot())?;
        return to.sync_all().map_err(Error::io("write", path));
    }
    let order = order(from, boots)?;
    let fields = fields_of(from).map_err(cannot())?;
    let schema = SchemaType::group_type_builder(table.name).with_fields(fields.clone()).build().map_err(cannot())?;
    let properties = properties(table, order.len()).map_err(cannot())?;
    let mut writer =
        SerializedFileWriter::new(BufWriter::new(&mut to), Arc::new(schema), properties).map_err(cannot())?;
    for rows in order.chunks(GROUP_ROWS) {
        let mut group = writer.next_row_group().map_err(cannot())?;
        for field in &fields {
            let values = column_of(from, field.name())?;
            if let Some(mut column) = group.next_column().map_err(cannot())? {
                values.write(rows, field.is_optional(), &mut column).map_err(cannot())?;
                column.close().map_err(cannot())?;
            }
        }
        group.close().map_err(cannot())?;
    }
    writer.close().map_err(cannot())?;
    to.sync_all().map_err(Error::io("write", path))
}

/// The rows of these boots, in the order of the boots. Each boot's rows keep their order.
fn order(from: &[Stored], boots: &[String]) -> Result<Vec<u32>, Error> {
    let ranks: HashMap<&[u8], usize> = boots.iter().enumerate().map(|(rank, id)| (id.as_bytes(), rank)).collect();
    let ids = column_of(from, "boot_id")?;
    let rank_of: Vec<Option<usize>> = ids.texts.iter().map(|id| ranks.get(id.data()).copied()).collect();
    let rank = |word: Option<u64>| rank_of.get(usize::try_from(word?).ok()?).copied().flatten();
    let mut rows: Vec<(usize, u32)> =
        (0u32..).zip(&ids.words).filter_map(|(row, word)| Some((rank(*word)?, row))).collect();
    rows.sort_by_key(|(rank, _)| *rank);
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

/// The columns of all files. A column that some files lack becomes optional.
fn fields_of(from: &[Stored]) -> Encoded<Vec<TypePtr>> {
    let mut fields: Vec<TypePtr> = Vec::new();
    for field in from.iter().flat_map(Stored::fields) {
        if !fields.iter().any(|other| other.name() == field.name()) {
            fields.push(field.clone());
        }
    }
    let is_optional = |name: &str| {
        let same = |file: &Stored| file.fields().iter().find(|field| field.name() == name).map(|f| f.is_optional());
        from.iter().any(|file| same(file).unwrap_or(true))
    };
    fields
        .into_iter()
        .map(|field| {
            let repetition = if is_optional(field.name()) { Repetition::OPTIONAL } else { Repetition::REQUIRED };
            SchemaType::primitive_type_builder(field.name(), field.get_physical_type())
                .with_repetition(repetition)
                .with_logical_type(field.get_basic_info().logical_type_ref().cloned())
                .with_converted_type(field.get_basic_info().converted_type())
                .build()
                .map(Arc::new)
        })
        .collect()
}
