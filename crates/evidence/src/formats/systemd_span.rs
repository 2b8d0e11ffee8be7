//! Spans of time as systemd prints them, in every program and message of it (systemd.time(7)).

use crate::input::text::number;
use timeline::Ns;

/// `1min 3.753s`, `529ms`, `0`: as systemd prints a span of time.
pub(crate) fn span(text: &[u8]) -> Option<(Ns, &[u8])> {
    let (mut sum, mut rest) = part(text)?;
    while let Some((more, after)) = rest.strip_prefix(b" ").and_then(part) {
        (sum, rest) = (Ns(sum.0.checked_add(more.0)?), after);
    }
    Some((sum, rest))
}

/// A number with its unit; a 0 has none.
fn part(text: &[u8]) -> Option<(Ns, &[u8])> {
    // The longer ones first: `min` and `ms` are no `m`.
    const UNITS: [(&[u8], i64); 9] = [
        (b"month", 2_629_800_000_000_000),
        (b"min", 60_000_000_000),
        (b"ms", 1_000_000),
        (b"us", 1_000),
        (b"y", 31_557_600_000_000_000),
        (b"w", 604_800_000_000_000),
        (b"d", 86_400_000_000_000),
        (b"h", 3_600_000_000_000),
        (b"s", 1_000_000_000),
    ];
    let (whole, rest) = number(text)?;
    let (fraction, rest) = match rest {
        [b'.', digits @ ..] => fraction(digits)?,
        _ => (0, rest),
    };
    let Some((unit_ns, rest)) = UNITS.iter().find_map(|(unit, ns)| Some((*ns, rest.strip_prefix(*unit)?))) else {
        let is_zero = whole == 0 && !rest.first().is_some_and(u8::is_ascii_alphanumeric);
        return is_zero.then_some((Ns::ZERO, rest));
    };
    let whole_ns = i64::try_from(whole).ok()?.checked_mul(unit_ns)?;
    let fraction_ns = i64::try_from(i128::from(fraction) * i128::from(unit_ns) / 1_000_000_000).ok()?;
    Some((Ns(whole_ns.checked_add(fraction_ns)?), rest))
}

/// The digits behind a point, as billionths.
fn fraction(text: &[u8]) -> Option<(i64, &[u8])> {
    let length = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at(length);
    let billionths = digits.iter().chain(b"000000000").take(9).fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'));
    (length > 0).then_some((billionths, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_time() {
        for (text, ns, rest) in [
            ("0", 0, ""),
            ("0 x", 0, " x"),
            ("529ms", 529_000_000, ""),
            ("1.043s (kernel)", 1_043_000_000, " (kernel)"),
            ("1min 39.916s", 99_916_000_000, ""),
            ("1h 2min 3.004s a.service", 3_723_004_000_000, " a.service"),
            ("2w 1d", 1_296_000_000_000_000, ""),
            ("17us", 17_000, ""),
        ] {
            assert_eq!(span(text.as_bytes()), Some((Ns(ns), rest.as_bytes())), "{text}");
        }
        for text in ["", "s", "1", "1.s", "7x", "99999999999999999999s", "99999999999y", "1.2"] {
            assert_eq!(span(text.as_bytes()), None, "{text}");
        }
    }
}
