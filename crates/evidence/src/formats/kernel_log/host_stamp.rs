//! Stamps that a program between the serial line and the file put before each line.
//!
//! ```text
//! [0.000002 0.000002] text               grabserial -t: since its start, since the last line
//! [12:34:56.123456 0.000002] text        grabserial -T
//! Nov 21 10:11:12 text                   ts, syslog (then `host kernel: `)
//! 00:00:01 text                          ts -s
//! 1700000000.123456 text                 ts %.s
//! [2026-11-21 10:11:12.123] text         minicom, tio
//! [Sat Nov 21 07:17:05 2026] text        dmesg -T
//! ```
//! grabserial -m PATTERN counts from 0 again after the line that has the pattern; how long after the line before one came goes on, so
//! the stamps do too. A logger stamps every line alike, so the form is chosen once, by what most lines have; a line
//! without it stays as it is. Stamps count from the first one in the file.

use super::stamp;
use crate::input::text::{Lines, number, seconds, skip_spaces, word};
use timeline::Ns;

/// A stamp as read, in nanoseconds, and after how long its clock begins again.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Read {
    ns: i64,
    wraps_after_ns: Option<i64>,
    /// The time since the line before, if the logger prints it too.
    since_last_ns: Option<i64>,
}

impl Read {
    fn plain(ns: i64) -> Read {
        Read { ns, wraps_after_ns: None, since_last_ns: None }
    }

    fn wrapping(ns: i64, period: i64) -> Read {
        Read { wraps_after_ns: Some(period), ..Read::plain(ns) }
    }
}

type Strip = fn(&[u8]) -> Option<(Read, &[u8])>;

/// The form that no other program prints.
pub(crate) const GRABSERIAL: &str = "grabserial";

/// The form whose stamps are the kernel's, in whole seconds of the wall clock.
pub(crate) const DMESG_T: &str = "dmesg -T";

/// The forms, by name. The first of those that fit equally many lines is taken.
const FORMS: [(&str, Strip); 8] = [
    (GRABSERIAL, grabserial),
    ("minicom or tio", bracketed),
    (DMESG_T, dmesg_t),
    ("syslog or ts", syslog),
    ("date and time", date_and_time),
    ("ts with a time of day", time_and_space),
    ("ts with seconds", seconds_and_space),
    ("a second stamp in brackets", second_stamp),
];

/// Lines looked at to choose a form.
const LINES_LOOKED_AT: usize = 1000;

/// The clock began again if a stamp is earlier than expected by more than this, which is far above rounding. The stamp
/// before and the printed time since then give the expected one.
const AGAIN_NS: i64 = 1_000_000;

/// The form of a file's stamps, and its clock.
#[derive(Debug)]
pub(crate) struct Loggers {
    form: Option<(&'static str, Strip)>,
    first: Option<i64>,
    last: i64,
    /// The sum of the times that were added because the clock began again.
    wrapped: i64,
    has_origin: bool,
}

impl Loggers {
    /// Chooses the form that at least half of the first lines have.
    pub(crate) fn detect(bytes: &[u8]) -> Loggers {
        let mut lines = 0;
        let mut fits = [0; FORMS.len()];
        for line in Lines::new(bytes).filter(|l| !l.bytes.trim_ascii().is_empty()).take(LINES_LOOKED_AT) {
            lines += 1;
            for (count, (_, strip)) in fits.iter_mut().zip(FORMS) {
                *count += usize::from(strip(line.bytes).is_some());
            }
        }
        let best = (0..FORMS.len()).rev().max_by_key(|&i| fits[i]).filter(|&i| fits[i] > 0 && fits[i] * 2 >= lines);
        Loggers { form: best.map(|i| FORMS[i]), first: None, last: i64::MIN, wrapped: 0, has_origin: false }
    }

    pub(crate) fn name(&self) -> Option<&'static str> {
        self.form.map(|(name, _)| name)
    }

    /// A line behind its stamp, for a reader that only looks ahead.
    pub(crate) fn without_stamp<'a>(&self, line: &'a [u8]) -> &'a [u8] {
        self.form.and_then(|(_, strip)| strip(line)).map_or(line, |(_, rest)| rest)
    }

    /// Takes the stamp off a line, and with it what syslog says of host and origin.
    pub(crate) fn strip<'a>(&mut self, line: &'a [u8]) -> (Option<Ns>, &'a [u8]) {
        let Some((read, rest)) = self.form.and_then(|(_, strip)| strip(line)) else { return (None, line) };
        let mut ns = read.ns.saturating_add(self.wrapped);
        if let Some(period) = read.wraps_after_ns.filter(|period| ns < self.last.saturating_sub(period / 2)) {
            self.wrapped = self.wrapped.saturating_add(period);
            ns = ns.saturating_add(period);
        }
        // grabserial -m PATTERN counts from 0 again after the line that has it.
        if let Some(since_last) = read.since_last_ns.filter(|_| self.first.is_some()) {
            let expected = self.last.saturating_add(since_last);
            if ns < expected.saturating_sub(AGAIN_NS) {
                self.wrapped = self.wrapped.saturating_add(expected.saturating_sub(ns));
                ns = expected;
            }
        }
        self.last = ns;
        let first = *self.first.get_or_insert(ns);
        let text = after_origin(rest);
        self.has_origin |= text.len() < rest.len();
        (Some(Ns(ns.saturating_sub(first))), text)
    }

    /// True if `host kernel: ` stood before a message: then a daemon read it from the kernel's buffer, maybe long after it was printed.
    pub(crate) fn has_origin(&self) -> bool {
        self.has_origin
    }
}

/// After `host kernel: `, if that is how it goes on.
fn after_origin(text: &[u8]) -> &[u8] {
    let (host, rest) = word(text);
    if host == b"kernel:" {
        return rest;
    }
    if host.is_empty() || host.starts_with(b"[") { text } else { rest.strip_prefix(b"kernel: ").unwrap_or(text) }
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

fn daily(text: &[u8]) -> Option<(Read, &[u8])> {
    time_of_day(text).map(|(ns, rest)| (Read::wrapping(ns, DAY_NS), rest))
}

/// `2026-11-21 10:11:12` or with a `T`, perhaps with fraction and zone.
fn date(text: &[u8]) -> Option<(Read, &[u8])> {
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
fn month_and_day(text: &[u8]) -> Option<(Read, &[u8])> {
    const MONTHS: [&[u8; 3]; 12] =
        [b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov", b"dec"];
    let name: [u8; 3] = text.get(..3)?.try_into().ok()?;
    let month = MONTHS.iter().position(|m| **m == name.map(|b| b.to_ascii_lowercase()));
    let (day, rest) = number(skip_spaces(text[3..].strip_prefix(b" ")?))?;
    let (ns, rest) = time_of_day(rest.strip_prefix(b" ")?)?;
    // A year that is no leap year: the stamp does not say, and only distances matter.
    let days = days(2025, month? as u64 + 1, day)?;
    Some((Read::wrapping(days * DAY_NS + ns, 365 * DAY_NS), rest))
}

fn grabserial(line: &[u8]) -> Option<(Read, &[u8])> {
    let inner = line.strip_prefix(b"[")?;
    let (read, rest) = match daily(inner).or_else(|| date(inner)) {
        Some(found) => found,
        None => elapsed(inner)?,
    };
    let (since_last, _, rest) = seconds(skip_spaces(rest.strip_prefix(b" ")?))?;
    let read = Read { since_last_ns: i64::try_from(since_last).ok(), ..read };
    Some((read, rest.strip_prefix(b"] ").or_else(|| rest.strip_prefix(b"]"))?))
}

fn elapsed(text: &[u8]) -> Option<(Read, &[u8])> {
    let (ns, _, rest) = seconds(skip_spaces(text))?;
    Some((Read::plain(i64::try_from(ns).ok()?), rest))
}

fn bracketed(line: &[u8]) -> Option<(Read, &[u8])> {
    let inner = line.strip_prefix(b"[")?;
    let (read, rest) = daily(inner).or_else(|| date(inner))?;
    Some((read, rest.strip_prefix(b"] ")?))
}

fn dmesg_t(line: &[u8]) -> Option<(Read, &[u8])> {
    let (_, rest) = word(line.strip_prefix(b"[")?);
    let (read, rest) = month_and_day(rest)?;
    let (_, rest) = number(rest.strip_prefix(b" ")?)?;
    Some((read, rest.strip_prefix(b"] ")?))
}

fn syslog(line: &[u8]) -> Option<(Read, &[u8])> {
    let (read, rest) = month_and_day(line)?;
    Some((read, rest.strip_prefix(b" ")?))
}

fn date_and_time(line: &[u8]) -> Option<(Read, &[u8])> {
    let (read, rest) = date(line)?;
    Some((read, rest.strip_prefix(b" ")?))
}

/// The rest of a line behind the date that it begins with: `Nov 21 10:11:12`, `2026-11-21T10:11:12+0000`,
/// `Sat 2026-11-21 10:11:12 UTC`, or seconds since 1970.
pub(crate) fn after_date(line: &[u8]) -> Option<&[u8]> {
    /// There was a journal nowhere before 2001.
    const SINCE_NS: i64 = 1_000_000_000_000_000_000;
    let since = || seconds_and_space(line).filter(|(read, _)| read.ns >= SINCE_NS);
    if let Some((_, rest)) = syslog(line).or_else(|| date_and_time(line)).or_else(since) {
        return Some(rest);
    }
    let (_, dated) = word(line);
    let (_, zoned) = date(dated)?;
    Some(word(zoned.strip_prefix(b" ")?).1)
}

fn time_and_space(line: &[u8]) -> Option<(Read, &[u8])> {
    let (read, rest) = daily(line)?;
    Some((read, rest.strip_prefix(b" ")?))
}

fn seconds_and_space(line: &[u8]) -> Option<(Read, &[u8])> {
    let (read, rest) = elapsed(line)?;
    Some((read, rest.strip_prefix(b" ")?))
}

/// `[   10.1] [    0.0] text`: the kernel's own stamp is the second.
fn second_stamp(line: &[u8]) -> Option<(Read, &[u8])> {
    let (ns, rest) = stamp::stamp(line)?;
    let rest = skip_spaces(rest);
    let (_, after) = stamp::stamp(rest)?;
    // A stamp that a CPU's number follows is the vendor's, and the first one is the kernel's.
    (!after.starts_with(b"@")).then(|| (Read::plain(ns), rest))
}
