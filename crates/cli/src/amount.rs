//! Parses amounts on the command line, in the same syntax for every option: a length of time, a size, a share, a
//! cut-off. [`timeline::amount`] has the grammar of times and sizes.

use report::Cutoff;
use std::time::Duration;
pub use timeline::amount::{bytes, time};

/// A length of time on the host's clock.
pub fn duration(text: &str) -> Result<Duration, String> {
    time(text).map(|time| Duration::from_nanos(time.0.unsigned_abs()))
}

/// A share in per cent, such as `73%`: 0.73.
pub fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let share = number.filter(|percent| (0.0..=100.0).contains(percent)).map(|percent| percent / 100.0);
    share.ok_or_else(|| format!("`{text}` is no share: write per cent from 0% to 100%"))
}

/// The size below which a row is not listed: a length of time, or a share of the whole.
pub fn cutoff(text: &str) -> Result<Cutoff, String> {
    if text.trim().ends_with('%') { percent(text).map(Cutoff::Share) } else { time(text).map(Cutoff::Time) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares() {
        assert_eq!(percent("73%"), Ok(0.73));
        for text in ["73", "101%", "-1%", "x%", "nan%"] {
            assert!(percent(text).is_err(), "{text}");
        }
    }
}
