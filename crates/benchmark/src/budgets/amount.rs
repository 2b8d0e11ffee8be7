//! Limits as they are written: `1.2s`, `180M`, `1.9G`, `+5%`, `+2ms`.

use super::{Kind, Limit};

const TIMES: &[(&str, f64)] = &[("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 60e9)];
const SIZES: &[(&str, f64)] = &[
    ("K", 1024.0),
    ("M", 1_048_576.0),
    ("G", 1_073_741_824.0),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
];
const COUNTS: &[(&str, f64)] = &[("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9)];

/// Reads a limit of a kind; or says what is wrong with it.
pub(super) fn limit(kind: Kind, text: &str) -> Result<Limit, String> {
    let (units, such): (&[(&str, f64)], &str) = match kind {
        Kind::Total | Kind::Phase | Kind::Function | Kind::Metric => (TIMES, "1.2s, 300ms, +5% or +2ms"),
        Kind::Memory => (SIZES, "180M, +5% or +4M"),
        Kind::Instructions => (COUNTS, "1.9G, 250k, +0.5% or +1M"),
    };
    let wrong = || format!("`{text}` is no limit here: write one such as {such}");
    let (over, rest) = match text.trim().strip_prefix('+') {
        Some(rest) => (true, rest.trim()),
        None => (false, text.trim()),
    };
    let digits = rest.trim_end_matches(|c: char| c.is_alphabetic() || c == '%').trim_end();
    let number: f64 = digits.parse().ok().filter(|n: &f64| n.is_finite() && *n >= 0.0).ok_or_else(wrong)?;
    let unit = rest[digits.len()..].trim();
    if unit == "%" {
        return if over { Ok(Limit::OverShare(number / 100.0)) } else { Err(wrong()) };
    }
    let factor = units.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?.1;
    Ok(if over { Limit::Over(number * factor) } else { Limit::AtMost(number * factor) })
}
