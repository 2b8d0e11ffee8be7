//! Dates as text, for any clock value: a board without a clock, or with an empty battery, can report any date.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Seconds from 1970 to the last one that RFC 3339 can write: 9999-12-31T23:59:59Z.
const LAST_S: u64 = 253_402_300_799;

/// The RFC 3339 text of a time, in UTC and whole seconds. A time before 1970 gives the first second of 1970, and a time
/// after 9999 the last of 9999. Such a clock is wrong, but its boots still need a date.
#[must_use]
pub fn rfc3339(at: SystemTime) -> String {
    let at = at.clamp(UNIX_EPOCH, UNIX_EPOCH + Duration::from_secs(LAST_S));
    humantime::format_rfc3339_seconds(at).to_string()
}

/// The time of such a text. `None` if it has another form.
#[must_use]
pub fn parse_rfc3339(text: &str) -> Option<SystemTime> {
    humantime::parse_rfc3339(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_has_a_date() {
        const DAY: Duration = Duration::from_secs(86_400);
        for (at, date) in [
            (UNIX_EPOCH + DAY, "1970-01-02T00:00:00Z"),
            (UNIX_EPOCH - Duration::from_nanos(1), "1970-01-01T00:00:00Z"),
            (UNIX_EPOCH - 25_000 * DAY, "1970-01-01T00:00:00Z"),
            (UNIX_EPOCH + 120_000 * DAY, "2298-07-20T00:00:00Z"),
            (UNIX_EPOCH + Duration::from_secs(LAST_S), "9999-12-31T23:59:59Z"),
            (UNIX_EPOCH + Duration::from_secs(LAST_S + 1), "9999-12-31T23:59:59Z"),
            (UNIX_EPOCH + 4_000_000 * DAY, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(rfc3339(at), date);
        }
    }
}
