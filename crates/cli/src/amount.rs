//! Parses amounts on the command line, in the same syntax for every option: a length of time, a size, a share, a
//! cut-off. [`timeline::amount`] has the grammar of times and sizes.

pub use campaigns::what_if::percent;
use report::Cutoff;
use std::time::Duration;
pub use timeline::amount::{bytes, time};

/// A length of time on the host's clock.
pub fn duration(text: &str) -> Result<Duration, String> {
    time(text).map(|time| Duration::from_nanos(time.0.unsigned_abs()))
}

/// The size below which a row is not listed: a length of time, or a share of the whole.
pub fn cutoff(text: &str) -> Result<Cutoff, String> {
    if text.trim().ends_with('%') { percent(text).map(Cutoff::Share) } else { time(text).map(Cutoff::Time) }
}
