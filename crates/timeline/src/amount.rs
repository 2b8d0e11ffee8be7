//! Parses lengths of time and sizes as users type them. Options, budgets and sweeps share this one grammar.

use crate::Ns;

/// The units of time, each with its length in ns.
const TIMES: [(&[&str], f64); 7] = [
    (&["ns", "nsec"], 1.0),
    (&["us", "µs", "μs", "usec"], 1e3),
    (&["ms", "msec"], 1e6),
    (&["s", "sec", "secs", "second", "seconds"], 1e9),
    (&["m", "min", "mins", "minute", "minutes"], 60e9),
    (&["h", "hr", "hrs", "hour", "hours"], 3600e9),
    (&["d", "day", "days"], 86_400e9),
];

/// Parses a length of time: numbers with units, such as `20ms`, `3.5 s`, `10m` or `1h 30m`; or 0.
///
/// # Errors
/// A message that names the malformed text and shows how to write a time.
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
    #[expect(clippy::cast_possible_truncation, reason = "it is whole and within the range")]
    if (0.0..3.2e18).contains(&length) { Ok(Ns(length as i64)) } else { Err(wrong()) }
}

/// Parses a size: a number and its unit, such as `512M` or `1.5 GiB`; K is 1024 bytes. Also accepts a count of bytes,
/// or 0.
///
/// # Errors
/// A message that names the malformed text and shows how to write a size.
pub fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is no size: write a number with K, M, G or T, such as 512M");
    let text = text.trim();
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let digits = &text[..text.len() - unit.len()];
    let shift = match unit.trim_start().to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        _ => return Err(wrong()),
    };
    let bytes = if digits.contains('.') {
        let bytes = (digits.parse::<f64>().map_err(|_| wrong())? * (1_u64 << shift) as f64).round();
        // A value below 2^63 is exact in both types. A fraction of a byte is malformed.
        if !(0.0..9.2e18).contains(&bytes) || shift == 0 {
            return Err(wrong());
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is whole and within the range")]
        let bytes = bytes as u64;
        bytes
    } else {
        digits.parse::<u64>().map_err(|_| wrong())?.checked_mul(1 << shift).ok_or_else(wrong)?
    };
    // 0 is not a size. A count of bytes below 1 MiB most likely lacks its unit.
    if unit.is_empty() && (1..1 << 20).contains(&bytes) {
        return Err(format!("`{text}` is {text} bytes: with its unit, such as {text}M, it is what you mean"));
    }
    Ok(bytes)
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
    fn sizes_are_read_with_their_units() {
        assert_eq!(bytes("512M"), Ok(512 << 20));
        assert_eq!(bytes("2G"), Ok(2 << 30));
        assert_eq!(bytes("268435456"), Ok(256 << 20));
        assert_eq!(bytes("64mib"), Ok(64 << 20));
        assert_eq!(bytes("1.5 GiB"), Ok(3 << 29));
        assert_eq!(bytes("0"), Ok(0));
        for wrong in ["", "M", ".", "12X", "-1M", "1.5", "1.5B", "1e3K", "1..5G", "nan", "inf G", "99999999999999T"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
        assert!(bytes("512").unwrap_err().contains("512M"), "the unit was forgotten");
    }
}
