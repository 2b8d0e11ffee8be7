//! A stamp that was read, and the dates and times of a day that stamps are made of.

use crate::input::text::{number, skip_spaces};

/// A stamp as read, in nanoseconds, and after how long its clock begins again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Read {
    pub ns: i64,
    pub wraps_after_ns: Option<i64>,
    /// The time since the line before, if the logger prints it too.
    pub since_last_ns: Option<i64>,
    /// True if it prints nothing else.
    pub is_since_last: bool,
}

impl Read {
    pub(crate) fn plain(ns: i64) -> Read {
        Read { ns, wraps_after_ns: None, since_last_ns: None, is_since_last: false }
    }

    pub(crate) fn wrapping(ns: i64, period: i64) -> Read {
        Read { wraps_after_ns: Some(period), ..Read::plain(ns) }
    }
}

const DAY_NS: i64 = 86_400_000_000_000;

/// `10:11:12`, perhaps with a fraction.
fn time_of_day(text: &[u8]) -> Option<(i64, &[u8])> {
    let two = |text: &[u8]| -> Option<i64> {
        let [a, b] = *text else { return None };
        (a.is_ascii_digit() && b.is_ascii_digit()).then(|| i64::from((a - b'0') * 10 + (b - b'0')))
    };
    let (hours, minutes, whole) = (two(text.get(..2)?)?, two(text.get(3..5)?)?, two(text.get(6..8)?)?);
    (text[2] == b':' && text[5] == b':').then_some(())?;
    let mut ns = ((hours * 60 + minutes) * 60 + whole) * 1_000_000_000;
    let mut rest = &text[8..];
    if let [b'.' | b',', digits @ ..] = rest {
        let count = digits.iter().take_while(|b| b.is_ascii_digit()).count();
        let mut unit = 100_000_000;
        for digit in &digits[..count] {
            ns += i64::from(digit - b'0') * unit;
            unit /= 10;
        }
        rest = &digits[count..];
    }
    Some((ns, rest))
}

pub(crate) fn daily(text: &[u8]) -> Option<(Read, &[u8])> {
    time_of_day(text).map(|(ns, rest)| (Read::wrapping(ns, DAY_NS), rest))
}

/// `2026-11-21 10:11:12` or with a `T`, perhaps with fraction and zone.
pub(crate) fn date(text: &[u8]) -> Option<(Read, &[u8])> {
    let (year, rest) = number(text)?;
    let (month, rest) = number(rest.strip_prefix(b"-")?)?;
    let (day, rest) = number(rest.strip_prefix(b"-")?)?;
    let [b' ' | b'T', rest @ ..] = rest else { return None };
    let (ns, rest) = time_of_day(rest)?;
    let zone = rest.iter().take_while(|b| b"Z+-:0123456789".contains(b)).count();
    let days = days(i64::try_from(year).ok().filter(|y| (1970..2262).contains(y))?, month, day)?;
    Some((Read::plain(days * DAY_NS + ns), &rest[zone..]))
}

/// Days since 1970-01-01 (Gregorian; the year is taken to begin in March, so that the leap day is its last).
fn days(year: i64, month: u64, day: u64) -> Option<i64> {
    ((1..=12).contains(&month) && (1..=31).contains(&day)).then_some(())?;
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let of_year = i64::try_from((153 * month + 2) / 5 + day).ok()? - 1;
    Some(year * 365 + year / 4 - year / 100 + year / 400 + of_year - 719_468)
}

/// `Nov 21 10:11:12`: the month by any three letters, as locales have their own.
pub(crate) fn month_and_day(text: &[u8]) -> Option<(Read, &[u8])> {
    const MONTHS: [&[u8; 3]; 12] =
        [b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov", b"dec"];
    let name: [u8; 3] = text.get(..3)?.try_into().ok()?;
    let month = MONTHS.iter().position(|m| **m == name.map(|b| b.to_ascii_lowercase()));
    let (day, rest) = number(skip_spaces(text[3..].strip_prefix(b" ")?))?;
    after_month_and_day(month? as u64 + 1, day, rest)
}

/// ` 10:11:12`, behind a month and a day.
pub(crate) fn after_month_and_day(month: u64, day: u64, text: &[u8]) -> Option<(Read, &[u8])> {
    let (ns, rest) = time_of_day(text.strip_prefix(b" ")?)?;
    // A year that is no leap year: the stamp does not say, and only distances matter.
    let days = days(2025, month, day)?;
    Some((Read::wrapping(days * DAY_NS + ns, 365 * DAY_NS), rest))
}
