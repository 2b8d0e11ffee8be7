//! Stamps that a program between the serial line and the file put before each line.
//!
//! ```text
//! [0.000002 0.000002] text               grabserial -t: since its start, since the last line
//! [12:34:56.123456 0.000002] text        grabserial -T
//! Nov 21 10:11:12 text                   ts, syslog (then `host kernel: `)
//! 00:00:01 text                          ts -s
//! 00:00:01 text                          ts -i, since the line before: such stamps go down as often as up
//! 1700000000.123456 text                 ts %.s
//! [2026-11-21 10:11:12.123] text         minicom, tio
//! [Sat Nov 21 07:17:05 2026] text        dmesg -T; conserver without a blank, Tera Term with a fraction
//! [12] text                              FreeBSD, whole seconds since the boot
//! [Nov21 07:17] text                     dmesg -H, and since the line before: [  +0.000123] text
//! I (31) boot: text                      the system's own ([`super::own_stamp`])
//! ```
//! grabserial -m PATTERN counts from 0 again after the line that has the pattern; how long after the line before one came goes on, so
//! the stamps do too. A logger stamps every line alike, so the form is chosen once, by what most lines have; a line
//! without it stays as it is. Stamps count from the first one in the file.

use super::own_stamp::{esp_idf, fuchsia, logcat, zephyr};
use super::stamp;
use crate::formats::android_events::event;
use crate::formats::other_kernels;
use crate::formats::read_stamp::{Read, daily, date, month_and_day};
use crate::input::text::{Lines, lossy_start, number, seconds, skip_spaces, word};
use timeline::{Ns, Os};

type Strip = fn(&[u8]) -> Option<(Read, &[u8])>;

/// The form that no other program prints.
pub(crate) const GRABSERIAL: &str = "grabserial";

/// The form whose stamps are the kernel's, in whole seconds of the wall clock.
pub(crate) const DMESG_T: &str = "dmesg -T";

/// The form of `dmesg -H`.
pub(crate) const DMESG_H: &str = "dmesg -H";

/// The form of FreeBSD's `kern.msgbuf_show_timestamp=1`: whole seconds since the boot.
pub(crate) const WHOLE_SECONDS: &str = "FreeBSD's whole seconds";

/// Android's log, which is stamped by the wall clock.
const LOGCAT: &str = "Android's logcat";

/// The forms of systems that stamp their own lines. Much of what such a system prints has no stamp.
const OWN: [(&str, Strip); 4] = [("ESP-IDF", esp_idf), ("Zephyr", zephyr), ("Fuchsia", fuchsia), (LOGCAT, logcat)];

/// The forms, by name. The first of those that fit equally many lines is taken.
const FORMS: [(&str, Strip); 15] = [
    OWN[0],
    OWN[1],
    OWN[2],
    OWN[3],
    (GRABSERIAL, grabserial),
    ("minicom or tio", bracketed),
    ("conserver or Tera Term", dated),
    (DMESG_T, dmesg_t),
    (DMESG_H, dmesg_h),
    (WHOLE_SECONDS, whole_seconds),
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
    /// True if each stamp counts from the line before.
    is_since_last: bool,
}

impl Loggers {
    /// Chooses the form that at least half of the first lines have; for a system's own stamps a few are enough.
    pub(crate) fn detect(bytes: &[u8]) -> Loggers {
        let mut lines = 0;
        let mut fits = [0; FORMS.len()];
        let first = || Lines::new(bytes).filter(|l| !l.bytes.trim_ascii().is_empty()).take(LINES_LOOKED_AT);
        for line in first() {
            lines += 1;
            let text = uncoloured(line.bytes);
            for (count, (_, strip)) in fits.iter_mut().zip(FORMS) {
                *count += usize::from(strip(text).is_some());
            }
        }
        let is_form = |i: &usize| match *i < OWN.len() {
            true => fits[*i] >= OWN_LINES_MIN && fits[*i] * OWN_SHARE >= lines,
            false => fits[*i] > 0 && fits[*i] * 2 >= lines,
        };
        // The events of Android's boot have a better clock: the wall clock before them is set meanwhile.
        let is_form =
            |i: &usize| is_form(i) && !(FORMS[*i].0 == LOGCAT && first().any(|line| event(line.bytes).is_some()));
        // A number in brackets may be anything, unless another line says that this is FreeBSD.
        let says_freebsd = || first().any(|line| is_freebsd(line.bytes));
        let is_form = |i: &usize| is_form(i) && (FORMS[*i].0 != WHOLE_SECONDS || says_freebsd());
        let form = (0..FORMS.len()).rev().filter(is_form).max_by_key(|&i| fits[i]).map(|i| FORMS[i]);
        let is_since_last = form.is_some_and(|(name, strip)| {
            let stamps = first().filter_map(|line| Some(strip(line.bytes)?.0.ns));
            name.starts_with("ts ") && counts_from_last(stamps)
        });
        Loggers { form, first: None, last: i64::MIN, wrapped: 0, has_origin: false, is_since_last }
    }

    /// True if the system whose lines these are stamped them, from its reset on.
    pub(crate) fn is_own(&self) -> bool {
        self.form.is_some_and(|(name, _)| OWN[..OWN.len() - 1].iter().any(|own| own.0 == name))
    }

    /// True for a line that only such a system prints.
    pub(crate) fn is_own_line(line: &[u8]) -> bool {
        OWN.iter().any(|(_, strip)| strip(uncoloured(line)).is_some()) || is_freebsd(line)
    }

    fn is(&self, form: &str) -> bool {
        self.form.is_some_and(|(name, _)| name == form)
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
        if read.is_since_last || self.is_since_last {
            ns = if self.first.is_some() { self.last.saturating_add(read.ns) } else { 0 };
        } else if self.is(LOGCAT)
            && self.first.is_some()
            && ns.saturating_sub(self.last).saturating_abs() > CLOCK_SET_NS
        {
            // The wall clock was set: the time until then is unknown.
            self.wrapped = self.wrapped.saturating_add(self.last.saturating_sub(ns));
            ns = self.last;
        } else if self.is(DMESG_H) {
            // The minute in which the line was printed: by then this much had passed at least.
            let since_first = self.first.map_or(0, |first| read.ns.saturating_sub(MINUTE_NS).saturating_sub(first));
            ns = self.first.map_or(read.ns, |first| first.saturating_add(since_first).max(self.last));
        }
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
        let first = *self.first.get_or_insert(if self.is_own() { 0 } else { ns });
        let text = after_origin(rest);
        self.has_origin |= text.len() < rest.len();
        (Some(Ns(ns.saturating_sub(first))), text)
    }

    /// True if `host kernel: ` stood before a message: then a daemon read it from the kernel's buffer, maybe long after it was printed.
    pub(crate) fn has_origin(&self) -> bool {
        self.has_origin
    }
}

/// A step of more than this is no wait, but the wall clock that is set.
const CLOCK_SET_NS: i64 = 3_600_000_000_000;
/// A system's own stamps need this number of lines, and this part of all.
const OWN_LINES_MIN: usize = 2;
const OWN_SHARE: usize = 8;
const MINUTE_NS: i64 = 60_000_000_000;

/// True if stamps go down more often than a clock that is set would: at a quarter of the steps.
fn counts_from_last(stamps: impl Iterator<Item = i64>) -> bool {
    let (mut last, mut steps, mut down) = (None, 0, 0);
    for stamp in stamps {
        steps += 1;
        down += usize::from(last.is_some_and(|last| stamp < last));
        last = Some(stamp);
    }
    down > 1 && down * 4 >= steps
}

/// A line without the colours that it begins with.
fn uncoloured(mut line: &[u8]) -> &[u8] {
    while let Some(rest) = line.strip_prefix(b"\x1b[") {
        let Some(end) = rest.iter().take(16).position(|&b| b == b'm') else { break };
        line = &rest[end + 1..];
    }
    line
}

/// After `host kernel: `, if that is how it goes on.
fn after_origin(text: &[u8]) -> &[u8] {
    let (host, rest) = word(text);
    if host == b"kernel:" {
        return rest;
    }
    if host.is_empty() || host.starts_with(b"[") { text } else { rest.strip_prefix(b"kernel: ").unwrap_or(text) }
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

/// `[Sat Nov 21 07:17:05 2026]`
fn day_and_year(line: &[u8]) -> Option<(Read, &[u8])> {
    let (_, rest) = word(line.strip_prefix(b"[")?);
    let (read, rest) = month_and_day(rest)?;
    let (_, rest) = number(rest.strip_prefix(b" ")?)?;
    Some((read, rest.strip_prefix(b"]")?))
}

fn dmesg_t(line: &[u8]) -> Option<(Read, &[u8])> {
    let (read, rest) = day_and_year(line)?;
    Some((read, rest.strip_prefix(b" ")?))
}

/// The same without a blank, or with a fraction: then a logger stamped the line.
fn dated(line: &[u8]) -> Option<(Read, &[u8])> {
    let (read, rest) = day_and_year(line)?;
    let has_fraction = line.iter().take(32).any(|&b| b == b'.');
    (has_fraction || !rest.starts_with(b" ")).then(|| (read, rest.strip_prefix(b" ").unwrap_or(rest)))
}

/// `[Nov21 07:17] text`, `[  +0.000123] text`
fn dmesg_h(line: &[u8]) -> Option<(Read, &[u8])> {
    let inner = line.strip_prefix(b"[")?;
    if let Some(since) = skip_spaces(inner).strip_prefix(b"+") {
        let (ns, _, rest) = seconds(since)?;
        let read = Read { is_since_last: true, ..Read::plain(i64::try_from(ns).ok()?) };
        return Some((read, rest.strip_prefix(b"] ")?));
    }
    // As `Nov 21 07:17:00`, which has the same parts.
    let (month, rest) = inner.split_at_checked(3)?;
    let (day, rest) = number(skip_spaces(rest))?;
    let (time, rest) = rest.strip_prefix(b" ")?.split_at_checked(5)?;
    let spelt = [month, format!(" {day} ").as_bytes(), time, b":00"].concat();
    let (read, _) = month_and_day(&spelt)?;
    Some((read, rest.strip_prefix(b"] ")?))
}

/// `[12] text`
fn whole_seconds(line: &[u8]) -> Option<(Read, &[u8])> {
    let (seconds, rest) = number(line.strip_prefix(b"[")?)?;
    let ns = i64::try_from(seconds.checked_mul(1_000_000_000)?).ok()?;
    Some((Read::plain(ns), rest.strip_prefix(b"] ")?))
}

/// True for a line in that form by which FreeBSD is known.
fn is_freebsd(line: &[u8]) -> bool {
    let text = whole_seconds(line).map(|(_, text)| lossy_start(text));
    text.is_some_and(|text| other_kernels::system(&text) == Some(Os::FreeBsd))
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
    date_of(line).map(|(_, rest)| rest)
}

/// The same with the date, in nanoseconds. They count from some instant that all lines of a file share.
pub(crate) fn date_of(line: &[u8]) -> Option<(i64, &[u8])> {
    /// There was a journal nowhere before 2001.
    const SINCE_NS: i64 = 1_000_000_000_000_000_000;
    let since = || seconds_and_space(line).filter(|(read, _)| read.ns >= SINCE_NS);
    if let Some((read, rest)) = syslog(line).or_else(|| date_and_time(line)).or_else(since) {
        return Some((read.ns, rest));
    }
    let (_, dated) = word(line);
    let (read, zoned) = date(dated)?;
    Some((read.ns, word(zoned.strip_prefix(b" ")?).1))
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
