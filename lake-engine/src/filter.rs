//! Which boots a question is about: `--since` and `--where`, as a condition in SQL.

use crate::engine::text;
use anyhow::bail;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Columns that are in every table, so that a condition on them needs no join.
const KEYS: [&str; 4] = ["hardware", "time_base", "kernel", "machine"];

/// Which boots.
#[derive(clap::Args)]
pub struct FilterArgs {
    /// Only boots since then: a day such as 2026-11-01, or how long ago, such as 30d
    #[arg(long, value_name = "WHEN", value_parser = since)]
    since: Option<String>,
    /// Only boots where that is so; NAME is hardware, time_base, kernel or machine; may be repeated
    #[arg(long = "where", value_name = "NAME=VALUE", value_parser = condition)]
    conditions: Vec<String>,
}

impl FilterArgs {
    /// The first day of them; empty if they are all.
    pub fn since(&self) -> &str {
        self.since.as_deref().unwrap_or_default()
    }

    /// A condition for any table.
    pub fn sql(&self) -> String {
        let since = self.since.iter().map(|day| format!("day >= {}", text(day)));
        let all: Vec<String> = since.chain(self.conditions.iter().cloned()).collect();
        if all.is_empty() { "TRUE".to_owned() } else { all.join(" AND ") }
    }

    /// With another first day, where the user gave none.
    pub fn or_since(&self, day: &str) -> FilterArgs {
        FilterArgs { since: self.since.clone().or_else(|| Some(day.to_owned())), conditions: self.conditions.clone() }
    }
}

fn condition(given: &str) -> Result<String, String> {
    let Some((name, value)) = given.split_once('=') else { return Err("give NAME=VALUE".to_owned()) };
    if !KEYS.contains(&name) {
        return Err(format!("{name} is not one of {}", KEYS.join(", ")));
    }
    Ok(format!("{name} = {}", text(value)))
}

/// A day as it is, or that many days ago.
fn since(given: &str) -> Result<String, String> {
    day_of(given, SystemTime::now()).map_err(|e| e.to_string())
}

fn day_of(given: &str, now: SystemTime) -> anyhow::Result<String> {
    let is_day = given.len() == 10 && humantime::parse_rfc3339(&format!("{given}T00:00:00Z")).is_ok();
    if is_day {
        return Ok(given.to_owned());
    }
    let Ok(ago) = humantime::parse_duration(given) else {
        bail!("give a day such as 2026-11-01, or how long ago, such as 30d or 12h");
    };
    Ok(day(now.checked_sub(ago).unwrap_or(UNIX_EPOCH)))
}

/// The day of a time, in UTC.
pub fn day(at: SystemTime) -> String {
    let at = at.max(UNIX_EPOCH);
    let text = humantime::format_rfc3339_seconds(at).to_string();
    text.chars().take("2026-11-26".len()).collect()
}

/// So many days before another.
pub fn days_before(day_text: &str, days: u64) -> String {
    let at = humantime::parse_rfc3339(&format!("{day_text}T00:00:00Z")).unwrap_or(UNIX_EPOCH);
    day(at.checked_sub(Duration::from_secs(86_400 * days)).unwrap_or(UNIX_EPOCH))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_given_or_counted_back() {
        let now = UNIX_EPOCH + Duration::from_secs(86_400 * 60);
        assert_eq!(day_of("2026-11-01", now).unwrap(), "2026-11-01");
        assert_eq!(day_of("30d", now).unwrap(), "1970-01-31");
        assert_eq!(day_of("10000d", now).unwrap(), "1970-01-01");
        assert!(day_of("yesterday", now).is_err());
        assert!(day_of("2026-13-01", now).is_err());
        assert_eq!(days_before("2026-03-01", 1), "2026-02-28");
    }

    #[test]
    fn a_value_stays_a_value() {
        assert_eq!(condition("kernel=6.1'; drop").unwrap(), "kernel = '6.1''; drop'");
        assert!(condition("1=1 or kernel=x").is_err());
        assert!(condition("kernel").is_err());
    }
}
