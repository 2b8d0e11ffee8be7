//! Amounts as one types them, the same for every option: a length of time, a size, a share, a cut-off.

use report::Cutoff;
use std::time::Duration;
use timeline::Ns;

/// The units of time, and how many ns each is.
const TIMES: [(&[&str], f64); 7] = [
    (&["ns", "nsec"], 1.0),
    (&["us", "µs", "μs", "usec"], 1e3),
    (&["ms", "msec"], 1e6),
    (&["s", "sec", "secs", "second", "seconds"], 1e9),
    (&["m", "min", "mins", "minute", "minutes"], 60e9),
    (&["h", "hr", "hrs", "hour", "hours"], 3600e9),
    (&["d", "day", "days"], 86_400e9),
];

/// A length of time: numbers and their units, such as `20ms`, `3.5 s`, `10m` or `1h 30m`; or 0.
pub fn time(text: &str) -> Result<Ns, String> {
    let wrong = || format!("`{text}` is no time: write a number and ns, us, ms, s, m or h, such as 20ms");
    let mut rest = text.trim();
    if rest == "0" {
        return Ok(Ns::ZERO);
    }
    let mut sum = 0.0;
    loop {
        let number = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let digits: f64 = rest[..rest.len() - number.len()].parse().map_err(|_| wrong())?;
        let unit = number.trim_start();
        rest = unit.trim_start_matches(char::is_alphabetic);
        let unit = &unit[..unit.len() - rest.len()];
        sum += digits * TIMES.iter().find(|(names, _)| names.contains(&unit)).ok_or_else(wrong)?.1;
        rest = rest.trim_start();
        if rest.is_empty() {
            break;
        }
    }
    let length = sum.round();
    // No boot takes longer than this: a hundred years.
    if (0.0..3.2e18).contains(&length) { Ok(Ns(length as i64)) } else { Err(wrong()) }
}

/// The same, for clocks of the host.
pub fn duration(text: &str) -> Result<Duration, String> {
    time(text).map(|time| Duration::from_nanos(time.0.unsigned_abs()))
}

/// A size such as 512M.
pub fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is no size: write a number with K, M, G or T, such as 512M");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    let shift = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        _ => return Err(wrong()),
    };
    let bytes = number.checked_mul(1 << shift).ok_or_else(wrong)?;
    // 0 is no size at all; a number in between is one whose unit was forgotten.
    if digits == text && (1..1 << 20).contains(&bytes) {
        return Err(format!("`{text}` is {text} bytes: with its unit, such as {text}M, it is what you mean"));
    }
    Ok(bytes)
}

/// A share in per cent, such as `73%`: 0.73.
pub fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let share = number.filter(|percent| (0.0..=100.0).contains(percent)).map(|percent| percent / 100.0);
    share.ok_or_else(|| format!("`{text}` is no share: write per cent from 0% to 100%"))
}

/// What is too small to list: a length of time, or a share of the whole.
pub fn cutoff(text: &str) -> Result<Cutoff, String> {
    if text.trim().ends_with('%') { percent(text).map(Cutoff::Share) } else { time(text).map(Cutoff::Time) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (text, ns) in [
            ("20ms", 20_000_000),
            ("3.5ms", 3_500_000),
            ("0.1 ms", 100_000),
            ("1s", 1_000_000_000),
            ("7us", 7_000),
            ("0", 0),
            ("10m", 600_000_000_000),
            ("1h 30m", 5_400_000_000_000),
            ("1m30s", 90_000_000_000),
        ] {
            assert_eq!(time(text), Ok(Ns(ns)), "{text}");
        }
        for text in
            ["", "20", "ms", "-5ms", "1 parsec", "1e30s", "nan s", "20M", "1h 30", "1h-3m", "1..2s", "99999999999h"]
        {
            assert!(time(text).unwrap_err().contains("such as 20ms"), "{text}");
        }
    }

    #[test]
    fn shares() {
        assert_eq!(percent("73%"), Ok(0.73));
        for text in ["73", "101%", "-1%", "x%", "nan%"] {
            assert!(percent(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_read_with_their_units() {
        assert_eq!(bytes("512M"), Ok(512 << 20));
        assert_eq!(bytes("2G"), Ok(2 << 30));
        assert_eq!(bytes("268435456"), Ok(256 << 20));
        assert_eq!(bytes("64mib"), Ok(64 << 20));
        for wrong in ["", "M", "12X", "-1M", "1.5G", "99999999999999T"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
        assert!(bytes("512").unwrap_err().contains("512M"), "the unit was forgotten");
    }
}
