//! What a column is, and a value in it.

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name; the unit stands at its end.
    pub name: &'static str,
    /// What its values are.
    pub kind: Type,
    /// Whether a value may be unknown.
    pub optional: bool,
    /// What it says.
    pub text: &'static str,
}

/// What a column's values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// UTF-8.
    Text,
    /// 64 bits with a sign.
    Integer,
    /// 64 bits, IEEE 754.
    Fraction,
    /// Milliseconds since 1970, UTC: Parquet's `TIMESTAMP(MILLIS, true)`.
    Time,
    /// Yes or no.
    Flag,
}

/// One that has a value in each row.
pub const fn column(name: &'static str, kind: Type, text: &'static str) -> Column {
    Column { name, kind, optional: false, text }
}

/// One of texts.
pub const fn text(name: &'static str, text: &'static str) -> Column {
    column(name, Type::Text, text)
}

/// One of integers.
pub const fn integer(name: &'static str, text: &'static str) -> Column {
    column(name, Type::Integer, text)
}

/// One whose values may be unknown.
pub const fn maybe(name: &'static str, kind: Type, text: &'static str) -> Column {
    Column { name, kind, optional: true, text }
}

/// A value. They sort as the lake does: what nobody knows is first.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub enum Cell<'a> {
    /// Nobody knows.
    Unknown,
    /// Of a [`Type::Text`].
    Text(&'a str),
    /// Of a [`Type::Integer`], or of a [`Type::Time`].
    Integer(i64),
    /// Of a [`Type::Fraction`].
    Fraction(f64),
    /// Of a [`Type::Flag`].
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
