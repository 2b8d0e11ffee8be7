//! Reads text without a parser library: lines, numbers and shortened names. The bytes can be hostile.
//!
//! Formats here are read at memory speed, so there is no regex and no allocation per line.

use std::borrow::Cow;

/// At least this number of zero bytes in a text are a hole: a disk lost the data there, which is a sector or more.
pub(crate) const HOLE_BYTES_MIN: usize = 512;

/// One line of a file: its number from 1, its offset, and its bytes without the newline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Line<'a> {
    pub number: u32,
    pub offset: usize,
    pub bytes: &'a [u8],
    /// True if a newline ended it; only the last line of a file can lack one.
    pub whole: bool,
}

/// All lines of a file.
#[derive(Clone, Debug)]
pub(crate) struct Lines<'a> {
    bytes: &'a [u8],
    at: usize,
    number: u32,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Lines { bytes, at: 0, number: 0 }
    }

    /// The bytes that have not been read yet.
    #[inline]
    pub(crate) fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    /// The next line, if the caller knows that it has `length` bytes and ends with a newline.
    #[inline]
    pub(crate) fn take_line(&mut self, length: usize) -> Line<'a> {
        let offset = self.at;
        self.at += length + 1;
        self.number = self.number.saturating_add(1);
        Line { number: self.number, offset, bytes: &self.bytes[offset..offset + length], whole: true }
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = Line<'a>;

    #[inline]
    fn next(&mut self) -> Option<Line<'a>> {
        let rest = self.bytes.get(self.at..).filter(|rest| !rest.is_empty())?;
        let (length, whole) = match memchr::memchr(b'\n', rest) {
            Some(length) => (length, true),
            None => (rest.len(), false),
        };
        let offset = self.at;
        self.at += length + usize::from(whole);
        self.number = self.number.saturating_add(1);
        Some(Line { number: self.number, offset, bytes: &rest[..length], whole })
    }
}

/// The decimal number at the start, and the text after it; `None` without a digit or above `u64::MAX`.
#[inline]
pub(crate) fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0u64;
    let mut at = 0;
    while let Some(digit) = bytes.get(at).map(|b| b.wrapping_sub(b'0')).filter(|&d| d < 10) {
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
        at += 1;
    }
    (at > 0).then(|| (value, &bytes[at..]))
}

/// The same for a number that may have commas at every third digit, as `sysctl -h` prints it. `None` if more digits, a
/// comma or a point follow, because it is another kind of number then.
pub(crate) fn grouped_number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (mut value, mut rest) = number(bytes)?;
    while let [b',', a, b, c, after @ ..] = rest {
        value = value.checked_mul(1000)?.checked_add(whole_number(&[*a, *b, *c])?)?;
        rest = after;
    }
    rest.first().is_none_or(|b| !b.is_ascii_digit() && !matches!(b, b',' | b'.')).then_some((value, rest))
}

/// The same for a number with an optional minus sign.
pub(crate) fn signed(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let (minus, digits) = match bytes {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, bytes),
    };
    let (value, rest) = number(digits)?;
    let value = i64::try_from(value).ok()?;
    Some((if minus { -value } else { value }, rest))
}

/// The whole of `bytes` as a decimal number.
pub(crate) fn whole_number(bytes: &[u8]) -> Option<u64> {
    number(bytes).filter(|(_, rest)| rest.is_empty()).map(|(value, _)| value)
}

/// Reads `seconds.fraction` at the start. Returns nanoseconds, the number of digits after the point, and the text after
/// it. There must be a digit after the point, and the first 9 count.
#[inline]
pub(crate) fn seconds(bytes: &[u8]) -> Option<(u64, usize, &[u8])> {
    let (whole, rest) = number(bytes)?;
    let fraction = rest.strip_prefix(b".")?;
    let mut ns = 0u64;
    let mut digits = 0;
    while let Some(digit) = fraction.get(digits).map(|b| b.wrapping_sub(b'0')).filter(|&d| d < 10) {
        if digits < 9 {
            ns = ns * 10 + u64::from(digit);
        }
        digits += 1;
    }
    if digits == 0 {
        return None;
    }
    for _ in digits..9 {
        ns *= 10;
    }
    Some((whole.checked_mul(1_000_000_000)?.checked_add(ns)?, digits, &fraction[digits..]))
}

/// The bytes after leading spaces.
#[inline]
pub(crate) fn skip_spaces(bytes: &[u8]) -> &[u8] {
    let spaces = bytes.iter().take_while(|&&b| b == b' ').count();
    &bytes[spaces..]
}

/// The bytes up to the first space, and those after that space.
pub(crate) fn word(bytes: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memchr(b' ', bytes) {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (bytes, &[]),
    }
}

/// Bytes as text; invalid UTF-8 is replaced.
pub(crate) fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// The start of a line as text. Linux prints at most 1 KiB in a line, and a file without line feeds is one line.
pub(crate) fn lossy_start(line: &[u8]) -> Cow<'_, str> {
    const MOST_BYTES: usize = 4096;
    lossy(&line[..line.len().min(MOST_BYTES)])
}

/// A symbol as the kernel prints it: `name+0x0/0x10 [module]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// The function's name, without offset and size.
    pub name: &'a [u8],
    /// Its module.
    pub module: Option<&'a [u8]>,
}

impl<'a> Symbol<'a> {
    /// Parses a printed symbol. The name is never longer than the text.
    pub(crate) fn parse(text: &'a [u8]) -> Symbol<'a> {
        let (symbol, module) = match memchr::memchr(b' ', text) {
            None => (text, None),
            Some(at) => (&text[..at], text[at + 1..].strip_prefix(b"[").and_then(|m| m.strip_suffix(b"]"))),
        };
        let end = memchr::memchr(b'+', symbol).unwrap_or(symbol.len());
        Symbol { name: &symbol[..end], module }
    }

    /// `name`, or `name [module]`: the module distinguishes the many functions named `init_module`.
    pub fn text(&self) -> Cow<'a, str> {
        match self.module {
            None => lossy(self.name),
            Some(module) => Cow::Owned(format!("{} [{}]", lossy(self.name), lossy(module))),
        }
    }
}

/// Largest length of a name that is made of a line, in characters.
const NAME_CHARS_MAX: usize = 60;

/// A line as a name: without control characters, and shortened.
pub(crate) fn shorten(text: &str) -> String {
    // Nearly all lines need no change.
    if text.len() <= NAME_CHARS_MAX && text.bytes().all(|b| (b' '..=b'~').contains(&b)) {
        return text.trim().to_owned();
    }
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    let text = text.trim();
    match text.char_indices().nth(NAME_CHARS_MAX) {
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_or_refused_whole() {
        assert_eq!(number(b"042x"), Some((42, &b"x"[..])));
        assert_eq!(number(b"18446744073709551616"), None);
        assert_eq!(number(b""), None);
        assert_eq!(grouped_number(b"1,073,741,824 x"), Some((1 << 30, &b" x"[..])));
        assert_eq!(grouped_number(b"1024"), Some((1024, &b""[..])));
        for other in ["1,00", "1,0000", "1,234,", "2.4", "18446744073709551,615,000", ",1"] {
            assert_eq!(grouped_number(other.as_bytes()), None, "{other}");
        }
        assert_eq!(signed(b"-517 "), Some((-517, &b" "[..])));
        assert_eq!(seconds(b"1.5]"), Some((1_500_000_000, 1, &b"]"[..])));
        assert_eq!(seconds(b"0.1234567891 "), Some((123_456_789, 10, &b" "[..])));
        assert_eq!(seconds(b"99999999999999.0"), None);
        assert_eq!(seconds(b"3 "), None);
    }

    #[test]
    fn lines_have_their_number_and_offset() {
        let lines: Vec<_> = Lines::new(b"a\n\nbc").map(|l| (l.number, l.offset, l.bytes, l.whole)).collect();
        assert_eq!(lines, [(1, 0, &b"a"[..], true), (2, 2, b"", true), (3, 3, b"bc", false)]);
    }

    #[test]
    fn symbols_are_parsed() {
        let symbol = Symbol::parse(b"init_module+0x0/0x1000 [virtio_net]");
        assert_eq!((symbol.name, symbol.module), (&b"init_module"[..], Some(&b"virtio_net"[..])));
        assert_eq!(symbol.text(), "init_module [virtio_net]");
        assert_eq!(Symbol::parse(b"acpi_init+0x0/0x4c2").text(), "acpi_init");
        assert_eq!(Symbol::parse(b"0xffffffff81000000").text(), "0xffffffff81000000");
    }
}
