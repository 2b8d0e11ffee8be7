//! The selection of boots for a question: translates `--since` and `--where` to a condition in SQL.

use crate::engine::text;
use anyhow::bail;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Columns of every table, so that a condition on them needs no join.
const KEYS: [&str; 4] = ["hardware", "time_base", "kernel", "machine"];

/// The first day that is plausible for a boot.
const FIRST_DAY: &str = "2000-01-01";

/// Options that select boots.
#[derive(clap::Args)]
pub struct FilterArgs {
    /// Only boots since then: a day such as 2026-11-01, or how long ago, such as 30d
    #[arg(long, value_name = "WHEN", value_parser = since)]
    since: Option<Since>,
    /// Only boots where that is so; NAME is hardware, time_base, kernel or machine. A VALUE that ends in * is the beginning of one. May be
    /// repeated
    #[arg(long = "where", value_name = "NAME=VALUE", value_parser = condition)]
    conditions: Vec<String>,
}

impl FilterArgs {
    /// The first selected day. Empty if all days are selected.
    pub fn since(&self) -> &str {
        self.since.as_ref().map_or("", |since| &since.day)
    }

    /// The condition in SQL, for any table.
    pub fn sql(&self) -> String {
        // The day selects files; within the first day, the time selects boots.
        let since = self.since.iter().map(|since| {
            let day = format!("day >= {}", text(&since.day));
            since.ms.map_or(day.clone(), |ms| format!("{day} AND began >= to_timestamp_millis({ms})"))
        });
        let all: Vec<String> = since.chain(self.conditions.iter().cloned()).collect();
        if all.is_empty() { "TRUE".to_owned() } else { all.join(" AND ") }
    }

    /// Like [`FilterArgs::sql`], but without boots whose clock was wrong, for questions about time. A machine without a clock starts
    /// in 1970, and a wrong clock may be in the future.
    pub fn sql_of_time(&self) -> String {
        let tomorrow = day(SystemTime::now() + Duration::from_secs(86_400));
        format!("({}) AND day >= {} AND day <= {}", self.sql(), text(FIRST_DAY), text(&tomorrow))
    }

    /// The same selection, but with this first day if the user gave no other.
    pub fn or_since(&self, day: &str) -> FilterArgs {
        FilterArgs {
            since: self.since.clone().or_else(|| Some(Since { day: day.to_owned(), ms: None })),
            conditions: self.conditions.clone(),
        }
    }
}

fn condition(given: &str) -> Result<String, String> {
    let Some((name, value)) = given.split_once('=') else { return Err("give NAME=VALUE".to_owned()) };
    if !KEYS.contains(&name) {
        return Err(format!("{name} is not one of {}", KEYS.join(", ")));
    }
    Ok(match value.strip_suffix('*') {
        Some(beginning) => format!("starts_with({name}, {})", text(beginning)),
        None => format!("{name} = {}", text(value)),
    })
}

/// The time of the first selected boot.
#[derive(Clone, Debug, PartialEq)]
struct Since {
    day: String,
    /// Time within the day, in ms since 1970. `None` for the whole day.
    ms: Option<u64>,
}

fn since(given: &str) -> Result<Since, String> {
    since_at(given, SystemTime::now()).map_err(|e| e.to_string())
}

fn since_at(given: &str, now: SystemTime) -> anyhow::Result<Since> {
    let is_day = given.len() == 10 && humantime::parse_rfc3339(&format!("{given}T00:00:00Z")).is_ok();
    if is_day {
        return Ok(Since { day: given.to_owned(), ms: None });
    }
    let Ok(ago) = humantime::parse_duration(given) else {
        bail!("give a day such as 2026-11-01, or how long ago, such as 30d or 12h");
    };
    let at = now.checked_sub(ago).unwrap_or(UNIX_EPOCH).max(UNIX_EPOCH);
    let ms = at.duration_since(UNIX_EPOCH).ok().and_then(|since| u64::try_from(since.as_millis()).ok());
    Ok(Since { day: day(at), ms })
}

/// The end of the year 9999, the last with four digits, in seconds since 1970.
const LAST_S: u64 = 253_402_300_799;

/// The day of a time in UTC. Times before 1970 and after 9999 are clamped.
pub fn day(at: SystemTime) -> String {
    let at = at.clamp(UNIX_EPOCH, UNIX_EPOCH + Duration::from_secs(LAST_S));
    let text = humantime::format_rfc3339_seconds(at).to_string();
    text.chars().take("2026-11-26".len()).collect()
}

/// The day that is `days` days before another.
pub fn days_before(day_text: &str, days: u64) -> String {
    let at = humantime::parse_rfc3339(&format!("{day_text}T00:00:00Z")).unwrap_or(UNIX_EPOCH);
    day(at.checked_sub(Duration::from_secs(86_400 * days)).unwrap_or(UNIX_EPOCH))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_given_or_counted_back() {
        let now = UNIX_EPOCH + Duration::from_secs(86_400 * 60 + 7200);
        let since = |given| since_at(given, now).unwrap();
        assert_eq!(since("2026-11-01"), Since { day: "2026-11-01".to_owned(), ms: None });
        assert_eq!(since("30d"), Since { day: "1970-01-31".to_owned(), ms: Some((86_400 * 30 + 7200) * 1000) });
        assert_eq!(since("1h"), Since { day: "1970-03-02".to_owned(), ms: Some((86_400 * 60 + 3600) * 1000) });
        assert_eq!(since("10000d"), Since { day: "1970-01-01".to_owned(), ms: Some(0) });
        assert!(since_at("yesterday", now).is_err());
        assert!(since_at("2026-13-01", now).is_err());
        assert_eq!(days_before("2026-03-01", 1), "2026-02-28");
        assert_eq!(day(UNIX_EPOCH - Duration::from_secs(1)), "1970-01-01");
        assert_eq!(day(UNIX_EPOCH + Duration::from_millis(u64::MAX)), "9999-12-31");
    }

    #[test]
    fn a_value_stays_a_value() {
        assert_eq!(condition("kernel=6.1'; drop").unwrap(), "kernel = '6.1''; drop'");
        assert_eq!(condition("machine=ab'*").unwrap(), "starts_with(machine, 'ab''')");
        assert!(condition("1=1 or kernel=x").is_err());
        assert!(condition("kernel").is_err());
    }
}
