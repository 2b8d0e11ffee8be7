//! Columns and values of a lake's tables.

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Name, which ends with the unit.
    pub name: &'static str,
    /// Type of the values.
    pub kind: Type,
    /// True if a value may be unknown (`null`).
    pub optional: bool,
    /// Description for `docs/lake.md`.
    pub text: &'static str,
}

/// Type of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// Text in UTF-8.
    Text,
    /// Signed integer of 64 bits.
    Integer,
    /// Floating-point number of 64 bits, IEEE 754.
    Fraction,
    /// Time in milliseconds since 1970, UTC: Parquet's `TIMESTAMP(MILLIS, true)`.
    Time,
    /// Boolean.
    Flag,
}

/// A column with a value in each row.
pub const fn column(name: &'static str, kind: Type, text: &'static str) -> Column {
    Column { name, kind, optional: false, text }
}

/// A column of texts.
pub const fn text(name: &'static str, text: &'static str) -> Column {
    column(name, Type::Text, text)
}

/// A column of integers.
pub const fn integer(name: &'static str, text: &'static str) -> Column {
    column(name, Type::Integer, text)
}

/// A column whose values may be unknown.
pub const fn maybe(name: &'static str, kind: Type, text: &'static str) -> Column {
    Column { name, kind, optional: true, text }
}

/// A value of a column. Values sort as in the lake: unknown ones first.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub enum Cell<'a> {
    /// The value is unknown: `null`.
    Unknown,
    /// Value of a [`Type::Text`].
    Text(&'a str),
    /// Value of a [`Type::Integer`] or a [`Type::Time`].
    Integer(i64),
    /// Value of a [`Type::Fraction`].
    Fraction(f64),
    /// Value of a [`Type::Flag`].
    Flag(bool),
}

impl<'a> From<&'a str> for Cell<'a> {
    fn from(text: &'a str) -> Self {
        Cell::Text(text)
    }
}

impl From<i64> for Cell<'_> {
    fn from(value: i64) -> Self {
        Cell::Integer(value)
    }
}

impl From<bool> for Cell<'_> {
    fn from(value: bool) -> Self {
        Cell::Flag(value)
    }
}

impl<'a, T: Into<Cell<'a>>> From<Option<T>> for Cell<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Cell::Unknown, Into::into)
    }
}
