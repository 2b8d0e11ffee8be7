//! Time and raw counter values, as types that cannot be mixed up, and the one format of times.

use std::fmt;
use std::ops::{Add, AddAssign, Neg, Sub, SubAssign};

/// Nanoseconds: a point in time (since time zero, possibly before it) or a length of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ns(pub i64);

/// A raw counter value, as the evidence has it. Only a [`crate::Clock`] turns it into time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticks(pub u64);

/// The nearest integer, halves away from zero, as in `f64::round`. On older CPUs `f64::round` is a call, and this is
/// not.
#[inline]
pub fn rounded(value: f64) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "the fraction follows, and what is too large is the largest")]
    let whole = value as i64;
    // Exact: beyond 2^52 there is no fraction.
    let fraction = value - whole as f64;
    whole.saturating_add(i64::from(fraction >= 0.5) - i64::from(fraction <= -0.5))
}

/// The same for a count; a negative value becomes 0.
pub fn rounded_count(value: f64) -> u64 {
    u64::try_from(rounded(value)).unwrap_or(0)
}

/// The value without its fraction, for a limit of a count. A value out of range becomes the nearest one in range.
#[expect(clippy::cast_possible_truncation, reason = "that is what it is for")]
pub fn truncated(value: f64) -> i64 {
    value as i64
}

impl Ns {
    /// Time zero; no time at all.
    pub const ZERO: Ns = Ns(0);
    /// The latest time; stands for "never ends".
    pub const MAX: Ns = Ns(i64::MAX);
    /// The earliest time, before any event.
    pub const MIN: Ns = Ns(i64::MIN);

    /// The nearest whole nanosecond, halves away from zero. A value out of range becomes the nearest one in range.
    pub fn rounded(ns: f64) -> Ns {
        Ns(rounded(ns))
    }

    /// The value without its fraction. A value out of range becomes the nearest one in range.
    pub fn truncated(ns: f64) -> Ns {
        Ns(truncated(ns))
    }

    /// `ns` nanoseconds, at most [`Ns::MAX`].
    pub fn saturated(ns: u64) -> Ns {
        Ns(i64::try_from(ns).unwrap_or(i64::MAX))
    }

    /// A length in microseconds.
    pub const fn from_us(us: i64) -> Ns {
        Ns(us.saturating_mul(1_000))
    }

    /// A length in milliseconds.
    pub const fn from_ms(ms: i64) -> Ns {
        Ns(ms.saturating_mul(1_000_000))
    }

    /// This time in milliseconds, for drawing and for people. Not for sums.
    pub fn as_ms(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// The distance from zero.
    pub fn abs(self) -> Ns {
        Ns(self.0.saturating_abs())
    }
}

impl Add for Ns {
    type Output = Ns;
    fn add(self, other: Ns) -> Ns {
        Ns(self.0.saturating_add(other.0))
    }
}

impl Sub for Ns {
    type Output = Ns;
    fn sub(self, other: Ns) -> Ns {
        Ns(self.0.saturating_sub(other.0))
    }
}

impl AddAssign for Ns {
    fn add_assign(&mut self, other: Ns) {
        *self = *self + other;
    }
}

impl SubAssign for Ns {
    fn sub_assign(&mut self, other: Ns) {
        *self = *self - other;
    }
}

impl Neg for Ns {
    type Output = Ns;
    fn neg(self) -> Ns {
        Ns(self.0.saturating_neg())
    }
}

impl std::iter::Sum for Ns {
    fn sum<I: Iterator<Item = Ns>>(parts: I) -> Ns {
        parts.fold(Ns::ZERO, Add::add)
    }
}

/// A length of time for people: three significant digits and a unit (`1.24 s`, `76.5 ms`, `9.77 ms`, `312 µs`, `41 ns`).
impl fmt::Display for Ns {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::with_capacity(16);
        three_digits(self.0, NANOSECONDS, &mut text);
        out.pad(&text)
    }
}

/// The units of a count of nanoseconds.
pub(crate) const NANOSECONDS: [&str; 4] = ["ns", "µs", "ms", "s"];

/// Appends three significant digits of a count and a suitable unit. Each unit is a thousand times the one before.
/// Halves round up. A flame chart has tens of thousands of these, so the digits are written without `format!`.
pub(crate) fn three_digits(count: i64, units: [&str; 4], text: &mut String) {
    if count < 0 {
        text.push('-');
    }
    let count = count.unsigned_abs();
    // Rounding can carry into the next unit (999.6 µs is 1.00 ms), so each limit is the value that rounds up.
    let (size, unit) = match count {
        0..1_000 => (1, units[0]),
        1_000..999_500 => (1_000, units[1]),
        999_500..999_500_000 => (1_000_000, units[2]),
        _ => (1_000_000_000, units[3]),
    };
    // The power of ten for the decimals that three digits leave room for.
    let decimal = match count {
        _ if size == 1 => 1,
        _ if count < size / 1_000 * 9_995 => 100,
        _ if count < size / 100 * 9_995 => 10,
        _ => 1,
    };
    let rounded = (count * decimal + size / 2) / size;
    let mut digits = itoa::Buffer::new();
    text.push_str(digits.format(rounded / decimal));
    match decimal {
        100 => text.push_str(point_and_two_digits(rounded)),
        10 => text.push_str(&point_and_two_digits(rounded * 10)[..2]),
        _ => {}
    }
    // A count below a thousand may have no unit.
    if !unit.is_empty() {
        text.push(' ');
        text.push_str(unit);
    }
}

/// A decimal point and the last two digits of a number: `.05` of 105. It comes from a table, because a chart has tens
/// of thousands of such texts.
pub fn point_and_two_digits(number: u64) -> &'static str {
    const LENGTH: usize = 3;
    const ALL: [u8; LENGTH * 100] = {
        let mut all = [b'.'; LENGTH * 100];
        let mut number: u8 = 0;
        while number < 100 {
            all[LENGTH * number as usize + 1] = b'0' + number / 10;
            all[LENGTH * number as usize + 2] = b'0' + number % 10;
            number += 1;
        }
        all
    };
    const TEXT: &str = match std::str::from_utf8(&ALL) {
        Ok(text) => text,
        Err(_) => panic!("digits are ASCII"),
    };
    let from = LENGTH * (number % 100) as usize;
    &TEXT[from..from + LENGTH]
}

#[cfg(test)]
mod tests {
    use super::{Ns, rounded, rounded_count};

    #[test]
    fn rounding_is_as_the_library_rounds() {
        let values =
            [0.0, 0.5, 1.5, 2.5, 0.499_999_999_999_999_94, 4_503_599_627_370_497.5, 9.3e18, 1e300, f64::INFINITY];
        for value in values.into_iter().flat_map(|value| [value, -value]).chain([f64::NAN]) {
            #[expect(clippy::cast_possible_truncation, reason = "what is too large is the largest: that is wanted")]
            let wanted = value.round() as i64;
            assert_eq!(rounded(value), wanted, "{value}");
        }
    }

    #[test]
    fn cutting_goes_toward_zero_and_counts_are_not_negative() {
        for (value, cut, count) in
            [(2.9, 2, 3), (-2.9, -2, 0), (0.5, 0, 1), (1e300, i64::MAX, i64::MAX), (f64::NAN, 0, 0)]
        {
            assert_eq!((Ns::truncated(value), rounded_count(value)), (Ns(cut), count.unsigned_abs()), "{value}");
        }
        assert_eq!(Ns::truncated(f64::NEG_INFINITY), Ns::MIN);
    }

    fn check(ns: i64, text: &str) {
        assert_eq!(Ns(ns).to_string(), text);
    }

    #[test]
    fn three_significant_digits_and_a_unit() {
        check(0, "0 ns");
        check(999, "999 ns");
        check(1_000, "1.00 µs");
        check(9_765_000, "9.77 ms");
        check(1_005, "1.01 µs");
        check(9_994_999, "9.99 ms");
        check(9_995_000, "10.0 ms");
        check(99_949_999_999, "99.9 s");
        check(99_950_000_000, "100 s");
        check(76_540_000, "76.5 ms");
        check(999_499, "999 µs");
        check(999_500, "1.00 ms");
        check(999_499_999, "999 ms");
        check(999_500_000, "1.00 s");
        check(19_360_000_000, "19.4 s");
        check(1_800_000_000_000, "1800 s");
        check(-1_500, "-1.50 µs");
        check(i64::MIN, "-9223372037 s");
    }

    #[test]
    fn padding_is_honoured() {
        assert_eq!(format!("{:>10}", Ns(1_500)), "   1.50 µs");
    }
}
