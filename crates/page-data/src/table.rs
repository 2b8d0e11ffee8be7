//! The table format in which a page carries a boot: `bootscope report` writes it and `page/src/data/table.ts` reads it.
//!
//! A page has parts. Each is one [`Table`], compressed as a zlib stream (RFC 1950). A browser unpacks it without a
//! library (`DecompressionStream("deflate")`) and verifies its checksum. `crates/report/src/page/parts.rs` lists the
//! tables.
//!
//! ```text
//! table    = text(name) varint(rows) varint(columns) column*
//! column   = text(name) encoding:u8 varint(bytes) data[bytes]
//! text     = varint(bytes) UTF-8
//! varint   = seven bits a byte, the lowest first; the top bit says that more follow; at most ten bytes
//! encoding
//!   0 bytes    a byte for each row
//!   1 counts   a varint for each row
//!   2 deltas   for each row the difference to the row before, or of the first row to zero: modulo 2^64, as a varint of
//!              its zigzag form (0, -1, 1, -2 are 0, 1, 2, 3)
//!   3 texts    a varint for each row, its bytes; then the UTF-8 of all rows
//!   + 0x80     wide: a number of the column or a difference lies beyond 2^52. A reader whose numbers are doubles needs
//!              64-bit integers for it. Only with counts and deltas.
//! ```
//!
//! Times are deltas: sorted times take two or three bytes, and each is exact. The reader in this file is for tests and
//! for programs that read a page without a browser. It fails on bytes that break the format, allocates in proportion to
//! the bytes, and has no limit but [`MAX_BYTES`].

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write};

#[cfg(feature = "zlib")]
use flate2::{Compression, read::ZlibDecoder, write::ZlibEncoder};
#[cfg(feature = "zlib")]
use std::io::Read;

/// The most bytes of an unpacked table. A real part has some hundred thousand; only a damaged part has more.
pub const MAX_BYTES: u64 = 1 << 28;

/// Doubles hold every whole number up to twice this. The zigzag form of any smaller value is below that.
const EXACT: u64 = 1 << 52;

const WIDE: u8 = 0x80;

/// Named columns of equal length.
#[derive(Clone, Debug, PartialEq)]
pub struct Table<'a> {
    /// The kind of its rows, such as `spans`.
    pub name: Cow<'a, str>,
    /// The length of each column.
    pub rows: usize,
    pub columns: Vec<(Cow<'a, str>, Column<'a>)>,
}

/// The values of a column, one a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Column<'a> {
    /// Small numbers: kinds, flags.
    Bytes(Vec<u8>),
    /// Numbers that are not negative: lengths, places in other tables.
    Counts(Vec<u64>),
    /// Numbers whose neighbours are near each other: times.
    Deltas(Vec<i64>),
    Texts(Vec<Cow<'a, str>>),
}

impl Column<'_> {
    fn len(&self) -> usize {
        match self {
            Column::Bytes(v) => v.len(),
            Column::Counts(v) => v.len(),
            Column::Deltas(v) => v.len(),
            Column::Texts(v) => v.len(),
        }
    }
}

/// The reason why bytes are not a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The zlib stream is damaged or ends too early.
    Zlib,
    /// It unpacks to more than [`MAX_BYTES`].
    TooLarge,
    /// The table ends in the middle.
    CutOff,
    /// Something follows a column's last row, or the last column.
    LeftOver,
    /// A varint has more than 64 bits.
    Number,
    /// No encoding has this number.
    Encoding(u8),
    /// A text is not UTF-8.
    Text,
}

impl fmt::Display for Malformed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Malformed::Zlib => out.write_str("not a whole zlib stream"),
            Malformed::TooLarge => write!(out, "unpacks to more than {MAX_BYTES} bytes"),
            Malformed::CutOff => out.write_str("the table is cut off"),
            Malformed::LeftOver => out.write_str("bytes are left over"),
            Malformed::Number => out.write_str("a number is too large"),
            Malformed::Encoding(encoding) => write!(out, "unknown encoding {encoding}"),
            Malformed::Text => out.write_str("a text is not UTF-8"),
        }
    }
}

impl std::error::Error for Malformed {}

impl<'a> Table<'a> {
    /// A table without columns.
    pub fn new(name: &'a str, rows: usize) -> Table<'a> {
        Table { name: Cow::Borrowed(name), rows, columns: Vec::new() }
    }

    /// The same table with one more column.
    ///
    /// # Panics
    /// If the column and the table differ in their number of rows.
    #[must_use]
    pub fn with(mut self, name: &'a str, column: Column<'a>) -> Table<'a> {
        assert_eq!(column.len(), self.rows, "rows of column {name}");
        self.columns.push((Cow::Borrowed(name), column));
        self
    }

    /// The table as compressed bytes.
    #[cfg(feature = "zlib")]
    pub fn packed(&self) -> Vec<u8> {
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
        self.write_plain(&mut zlib).and_then(|()| zlib.finish()).expect("memory takes all that is written")
    }

    /// The table's bytes before compression.
    pub fn plain(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write_plain(&mut out).expect("memory takes all that is written");
        out
    }

    /// Writes the table's bytes. Texts, which can be megabytes, are not copied.
    fn write_plain(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut head = Vec::new();
        text(&mut head, &self.name);
        varint(&mut head, self.rows as u64);
        varint(&mut head, self.columns.len() as u64);
        for (name, column) in &self.columns {
            text(&mut head, name);
            let (encoding, data) = encoded(column);
            let texts: &[Cow<str>] = if let Column::Texts(values) = column { values } else { &[] };
            head.push(encoding);
            varint(&mut head, (data.len() + texts.iter().map(|value| value.len()).sum::<usize>()) as u64);
            out.write_all(&head)?;
            out.write_all(&data)?;
            texts.iter().try_for_each(|value| out.write_all(value.as_bytes()))?;
            head.clear();
        }
        out.write_all(&head)
    }

    /// Reads the output of [`Table::packed`].
    ///
    /// # Errors
    /// [`Malformed`], at the first violation of the format.
    #[cfg(feature = "zlib")]
    pub fn read(packed: &[u8]) -> Result<Table<'static>, Malformed> {
        let mut plain = Vec::new();
        let mut zlib = ZlibDecoder::new(packed).take(MAX_BYTES + 1);
        zlib.read_to_end(&mut plain).map_err(|_| Malformed::Zlib)?;
        if plain.len() as u64 > MAX_BYTES {
            return Err(Malformed::TooLarge);
        }
        Table::from_plain(&plain)
    }

    /// Reads the output of [`Table::plain`].
    ///
    /// # Errors
    /// [`Malformed`], at the first violation of the format.
    pub fn from_plain(plain: &[u8]) -> Result<Table<'static>, Malformed> {
        let mut input = Input(plain);
        let name = Cow::Owned(input.text()?);
        let rows = usize::try_from(input.varint()?).map_err(|_| Malformed::CutOff)?;
        let count = input.varint()?;
        let mut columns = Vec::new();
        for _ in 0..count {
            let name = Cow::Owned(input.text()?);
            let encoding = input.byte()?;
            let bytes = input.length()?;
            columns.push((name, decoded(encoding, rows, Input(input.take(bytes)?))?));
        }
        if !input.0.is_empty() {
            return Err(Malformed::LeftOver);
        }
        Ok(Table { name, rows, columns })
    }

    /// The column with this name.
    pub fn column(&self, name: &str) -> Option<&Column<'a>> {
        self.columns.iter().find(|(column, _)| column == name).map(|(_, column)| column)
    }
}

/// A column as bytes, with the number of its encoding. For texts, these are the lengths: the texts follow.
fn encoded(column: &Column) -> (u8, Vec<u8>) {
    match column {
        Column::Bytes(values) => (0, values.clone()),
        Column::Counts(values) => {
            let mut out = Vec::with_capacity(values.len() * 2);
            values.iter().for_each(|&value| varint(&mut out, value));
            (1 | wide(values.iter().any(|&value| value >= EXACT)), out)
        }
        Column::Deltas(values) => {
            let mut out = Vec::with_capacity(values.len() * 3);
            let (mut before, mut is_wide) = (0_i64, false);
            for &value in values {
                let delta = value.wrapping_sub(before);
                is_wide |= delta.unsigned_abs() >= EXACT || value.unsigned_abs() >= EXACT;
                varint(&mut out, zigzag(delta));
                before = value;
            }
            (2 | wide(is_wide), out)
        }
        Column::Texts(values) => {
            let mut out = Vec::new();
            values.iter().for_each(|value| varint(&mut out, value.len() as u64));
            (3, out)
        }
    }
}

fn wide(is_wide: bool) -> u8 {
    if is_wide { WIDE } else { 0 }
}

fn decoded(encoding: u8, rows: usize, mut data: Input) -> Result<Column<'static>, Malformed> {
    // A row takes at least one byte, so the data bounds what is allocated for the rows.
    if rows > data.0.len() {
        return Err(Malformed::CutOff);
    }
    let column = match encoding {
        0 => Column::Bytes(data.take(rows)?.to_vec()),
        1 | 0x81 => Column::Counts((0..rows).map(|_| data.varint()).collect::<Result<_, _>>()?),
        2 | 0x82 => {
            let mut value = 0_i64;
            let next = |_| {
                value = value.wrapping_add(unzigzag(data.varint()?));
                Ok(value)
            };
            Column::Deltas((0..rows).map(next).collect::<Result<_, _>>()?)
        }
        3 => {
            let lengths: Vec<usize> = (0..rows).map(|_| data.length()).collect::<Result<_, _>>()?;
            Column::Texts(lengths.into_iter().map(|n| Ok(Cow::Owned(data.utf8(n)?))).collect::<Result<_, _>>()?)
        }
        other => return Err(Malformed::Encoding(other)),
    };
    if data.0.is_empty() { Ok(column) } else { Err(Malformed::LeftOver) }
}

fn zigzag(value: i64) -> u64 {
    unsigned(value) << 1 ^ unsigned(value >> 63)
}

fn unzigzag(value: u64) -> i64 {
    signed(value >> 1) ^ -signed(value & 1)
}

/// The same bits. (`cast_unsigned` needs Rust 1.87.)
fn unsigned(value: i64) -> u64 {
    u64::from_ne_bytes(value.to_ne_bytes())
}

fn signed(value: u64) -> i64 {
    i64::from_ne_bytes(value.to_ne_bytes())
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(low_byte(value) | 0x80);
        value >>= 7;
    }
    out.push(low_byte(value));
}

fn low_byte(value: u64) -> u8 {
    value.to_le_bytes()[0]
}

fn text(out: &mut Vec<u8>, value: &str) {
    varint(out, value.len() as u64);
    out.extend_from_slice(value.as_bytes());
}

/// The bytes that are not read yet.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed::CutOff)?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.take(1)?[0])
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return Err(Malformed::Number);
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed::Number)
    }

    fn length(&mut self) -> Result<usize, Malformed> {
        usize::try_from(self.varint()?).map_err(|_| Malformed::CutOff)
    }

    fn utf8(&mut self, count: usize) -> Result<String, Malformed> {
        let bytes = self.take(count)?;
        std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| Malformed::Text)
    }

    fn text(&mut self) -> Result<String, Malformed> {
        let count = self.length()?;
        self.utf8(count)
    }
}

#[cfg(all(test, feature = "zlib"))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn column(rows: usize) -> impl Strategy<Value = Column<'static>> {
        let near = prop_oneof![any::<i64>(), -1000..1000_i64, Just(i64::MIN), Just(i64::MAX), Just(1 << 53)];
        prop_oneof![
            prop::collection::vec(any::<u8>(), rows).prop_map(Column::Bytes),
            prop::collection::vec(prop_oneof![any::<u64>(), 0..300_u64], rows).prop_map(Column::Counts),
            prop::collection::vec(near, rows).prop_map(Column::Deltas),
            prop::collection::vec(".{0,9}".prop_map(Cow::Owned), rows).prop_map(Column::Texts),
        ]
    }

    fn table() -> impl Strategy<Value = Table<'static>> {
        let columns = |rows| prop::collection::vec(("[a-z]{0,5}".prop_map(Cow::Owned), column(rows)), 0..6);
        let rows = 0..40_usize;
        rows.prop_flat_map(move |rows| ("[a-z]{0,9}", Just(rows), columns(rows)))
            .prop_map(|(name, rows, columns)| Table { name: Cow::Owned(name), rows, columns })
    }

    proptest! {
        #[test]
        fn tables_survive_a_round_trip(table in table()) {
            prop_assert_eq!(Table::read(&table.packed()), Ok(table));
        }

        #[test]
        fn any_bytes_are_a_table_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Table::read(&bytes);
            let mut zlib = ZlibEncoder::new(Vec::new(), Compression::fast());
            zlib.write_all(&bytes).unwrap();
            if let Ok(table) = Table::read(&zlib.finish().unwrap()) {
                prop_assert!(table.columns.iter().all(|(_, column)| column.len() == table.rows));
            }
        }

        #[test]
        fn a_cut_table_is_an_error(table in table(), part in 0.0..1.0_f64) {
            let packed = table.packed();
            let keep = timeline::truncated(packed.len() as f64 * part);
            prop_assert!(Table::read(&packed[..usize::try_from(keep).unwrap()]).is_err());
        }
    }

    /// The reference bytes for other readers: page/test/table.test.mjs reads the same bytes.
    #[test]
    fn the_bytes_are_these() {
        let table = Table::new("t", 3)
            .with("kind", Column::Bytes(vec![7, 0, 255]))
            .with("length", Column::Counts(vec![0, 127, 300]))
            .with("at", Column::Deltas(vec![-1, 5, 5]))
            .with("far", Column::Deltas(vec![i64::MIN, 0, 1 << 53]))
            .with("name", Column::Texts(vec!["é".into(), "".into(), "<b>".into()]));
        let hex: String = table.plain().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hex,
            concat!(
                "01740305",
                "046b696e6400030700ff",
                "066c656e6774680104007fac02",
                "026174020301",
                "0c00",
                "0366617282",
                "1c",
                "ffffffffffffffffff01",
                "ffffffffffffffffff01",
                "8080808080808020",
                "046e616d650308",
                "020003",
                "c3a9",
                "3c623e"
            )
        );
    }

    #[test]
    fn the_error_names_what_breaks_the_format() {
        let packed = |bytes: &[u8]| {
            let mut zlib = ZlibEncoder::new(Vec::new(), Compression::fast());
            zlib.write_all(bytes).unwrap();
            zlib.finish().unwrap()
        };
        let check = |bytes: &[u8], wrong| assert_eq!(Table::read(&packed(bytes)), Err(wrong), "{bytes:?}");
        assert_eq!(Table::read(b"not zlib"), Err(Malformed::Zlib));
        check(b"", Malformed::CutOff);
        check(b"\x01t\x00\x00?", Malformed::LeftOver);
        check(b"\x01t\x01\x01\x01c\x09\x01\x00", Malformed::Encoding(9));
        check(b"\x01t\x01\x01\x01c\x00\x02\x00\x00", Malformed::LeftOver);
        check(b"\x01t\x01\x01\x01c\x03\x02\x01\xff", Malformed::Text);
        check(b"\x01t\xff\xff\xff\xff\x0f\x01\x01c\x00\x01\x00", Malformed::CutOff);
        check(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", Malformed::Number);
    }
}
