//! Amounts as one types them: a length of time, a share, a cut-off.

use report::Cutoff;
use timeline::Ns;

/// A length of time: a number and its unit, such as `20ms` or `3.5 s`.
pub fn time(text: &str) -> Result<Ns, String> {
    let wrong = || format!("`{text}` is no time: write a number and ns, us, ms or s, such as 20ms");
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_alphabetic()).trim_end();
    let number: f64 = digits.parse().map_err(|_| wrong())?;
    let ns = match text[digits.len()..].trim() {
        "ns" => 1.0,
        "us" | "µs" | "μs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "min" => 60e9,
        _ => return Err(wrong()),
    };
    let length = (number * ns).round();
    // No boot takes longer than this: a hundred years.
    if (0.0..3.2e18).contains(&length) { Ok(Ns(length as i64)) } else { Err(wrong()) }
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
        for (text, ns) in
            [("20ms", 20_000_000), ("3.5ms", 3_500_000), ("0.1 ms", 100_000), ("1s", 1_000_000_000), ("7us", 7_000)]
        {
            assert_eq!(time(text), Ok(Ns(ns)), "{text}");
        }
        for text in ["", "20", "ms", "-5ms", "1 parsec", "1e30s", "nan s", "20m"] {
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
}
