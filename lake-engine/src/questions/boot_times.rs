//! The question `boot-times`: percentiles of the length of boots by group, with intervals that assume no distribution.
//!
//! The interval of a percentile runs from one order statistic to another. The number of values below the percentile is binomial
//! (David and Nagaraja, Order Statistics, 3rd ed., 7.1); the normal approximation is used. If there are too few boots for an end
//! of the interval, that end is null.

use super::sums::{Names, at, each};
use super::{Engine, FilterArgs, Found};
use crate::answer::{Fields, Show, Shown, cut};
use crate::engine::text;
use anyhow::bail;
use serde::Serialize;
use statistics::normal;
use statistics::quantile::quantile;
use std::collections::HashMap;

/// Percentiles of the boots of a group.
#[derive(Serialize)]
pub struct Row {
    /// The common properties of the boots: one field each, and all as one text in `by`.
    #[serde(flatten)]
    pub group: Fields,
    /// Number of boots that reached an end mark. The times are those of these boots.
    pub boots: u64,
    /// Number of boots that did not.
    pub not_ended: u64,
    /// Median.
    pub p50_ns: Option<f64>,
    p50_low_ns: Option<f64>,
    p50_high_ns: Option<f64>,
    /// 95th percentile.
    pub p95_ns: Option<f64>,
    p95_low_ns: Option<f64>,
    p95_high_ns: Option<f64>,
    p99_ns: Option<f64>,
    p99_low_ns: Option<f64>,
    p99_high_ns: Option<f64>,
}

const SHOWN: &[Shown] = &[
    ("by", "by", Show::Plain),
    ("boots", "boots", Show::Plain),
    ("not ended", "not_ended", Show::Plain),
    ("p50 ms", "p50_ns", Show::Ms),
    ("from", "p50_low_ns", Show::Ms),
    ("to", "p50_high_ns", Show::Ms),
    ("p95 ms", "p95_ns", Show::Ms),
    ("from", "p95_low_ns", Show::Ms),
    ("to", "p95_high_ns", Show::Ms),
    ("p99 ms", "p99_ns", Show::Ms),
    ("from", "p99_low_ns", Show::Ms),
    ("to", "p99_high_ns", Show::Ms),
];

/// The boots of one group.
#[derive(Default)]
struct Group {
    total_ns: Vec<f64>,
    not_ended: u64,
}

pub async fn ask(engine: &Engine, filter: &FilterArgs, by: &[String]) -> anyhow::Result<Found> {
    let by = Grouping::new(by, &["hardware", "time_base", "kernel"])?;
    let mut rows = percentiles(engine, filter, &by).await?;
    rows.sort_by(|a, b| b.p50_ns.unwrap_or(0.0).total_cmp(&a.p50_ns.unwrap_or(0.0)));
    let boots = rows.iter().map(|row| row.boots + row.not_ended).sum();
    let mut found = Found::new(boots, rows, SHOWN)?;
    found.remarks.push("from and to: the 95 % interval of the percentile before them".to_owned());
    found.remarks.extend(by.mixed());
    Ok(found)
}

/// The percentiles of each group, in any order.
pub async fn percentiles(engine: &Engine, filter: &FilterArgs, by: &Grouping) -> anyhow::Result<Vec<Row>> {
    let sql = format!(
        "SELECT {}, CASE WHEN b.ended THEN b.total_ns END FROM {} WHERE {}",
        by.columns(),
        by.boots(),
        filter.sql()
    );
    let mut names = Names::default();
    let mut groups: HashMap<Vec<u32>, Group> = HashMap::new();
    each(engine, &sql, |part| {
        let columns = (0..by.len()).map(|i| part.texts(i)).collect::<anyhow::Result<Vec<_>>>()?;
        let totals = part.integers(by.len())?;
        let mut key = Vec::new();
        for (row, total) in totals.iter().enumerate() {
            key.clear();
            key.extend(columns.iter().map(|column| names.number(at(column, row))));
            if !groups.contains_key(&key) {
                groups.insert(key.clone(), Group::default());
            }
            let Some(group) = groups.get_mut(&key) else { continue };
            match total {
                Some(total) => group.total_ns.push(total as f64),
                None => group.not_ended += 1,
            }
        }
        Ok(())
    })
    .await?;
    Ok(groups.into_iter().map(|(key, group)| row(by.group(&key, &names), group)).collect())
}

fn row(group: Fields, mut boots: Group) -> Row {
    boots.total_ns.sort_by(f64::total_cmp);
    let sorted = &boots.total_ns;
    let [(p50_ns, p50_low_ns, p50_high_ns), (p95_ns, p95_low_ns, p95_high_ns), (p99_ns, p99_low_ns, p99_high_ns)] =
        [0.5, 0.95, 0.99].map(|p| percentile(sorted, p));
    let (count, not_ended) = (sorted.len() as u64, boots.not_ended);
    Row {
        group,
        boots: count,
        not_ended,
        p50_ns,
        p50_low_ns,
        p50_high_ns,
        p95_ns,
        p95_low_ns,
        p95_high_ns,
        p99_ns,
        p99_low_ns,
        p99_high_ns,
    }
}

/// A percentile of sorted values, and the ends of its interval.
fn percentile(sorted: &[f64], p: f64) -> (Option<f64>, Option<f64>, Option<f64>) {
    let n = sorted.len() as f64;
    let half = normal::quantile(0.5 + statistics::CONFIDENCE / 2.0) * (n * p * (1.0 - p)).sqrt();
    // The order statistics just outside, counted from 0.
    let place = |place: f64| {
        let is_there = place >= 0.0 && place < n;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is within the list")]
        is_there.then(|| sorted[place as usize])
    };
    // With so small a sample, no boot is expected beyond the percentile.
    if n * (1.0 - p) < 0.5 - 1e-9 {
        return (None, None, None);
    }
    let estimate = Some(quantile(sorted, p));
    (estimate, place((n * p - half).floor() - 1.0), place((n * p + half).ceil()))
}

/// Columns of `boots` by which boots can be grouped.
const COLUMNS: [&str; 16] = [
    "hardware",
    "time_base",
    "kernel",
    "machine",
    "day",
    "os",
    "kernel_sha256",
    "machine_type",
    "accelerator",
    "cpus",
    "memory_bytes",
    "host_cpu",
    "vmm",
    "outcome",
    "end_code",
    "tool_version",
];

/// Maximum width of a part of `by`.
const MAX_PART_WIDTH: usize = 26;

/// The columns and labels by which boots are grouped.
pub struct Grouping {
    columns: Vec<String>,
    labels: Vec<String>,
}

impl Grouping {
    /// Groups by the user's choice `by`, or by `usual` if that is empty. `label:NAME` is a label, anything else a column of `boots`.
    pub fn new(by: &[String], usual: &[&str]) -> anyhow::Result<Grouping> {
        let mut grouping = Grouping { columns: Vec::new(), labels: Vec::new() };
        let by: Vec<&str> = if by.is_empty() { usual.to_vec() } else { by.iter().map(String::as_str).collect() };
        // A deterministic boot's times cannot be compared with times on a host.
        let time_base = if by.contains(&"time_base") { None } else { Some("time_base") };
        for name in by.into_iter().chain(time_base) {
            match name.strip_prefix("label:") {
                Some(label) => grouping.labels.push(label.to_owned()),
                None if COLUMNS.contains(&name) => grouping.columns.push(name.to_owned()),
                None => bail!("--by {name}: give label:NAME, or one of {}", COLUMNS.join(", ")),
            }
        }
        Ok(grouping)
    }

    /// A remark for the user if the groups mix kinds of machine.
    pub fn mixed(&self) -> Option<String> {
        let is_told = self.columns.iter().any(|column| column == "hardware" || column == "machine");
        (!is_told).then(|| "kinds of machine are mixed: --by hardware tells them apart".to_owned())
    }

    /// Number of columns and labels.
    pub fn len(&self) -> usize {
        self.columns.len() + self.labels.len()
    }

    /// The columns in SQL, for the table [`Grouping::boots`].
    pub fn columns(&self) -> String {
        let columns = self.columns.iter().map(|name| format!("b.{name}"));
        let labels = (0..self.labels.len()).map(|i| format!("l{i}.value"));
        columns.chain(labels).collect::<Vec<_>>().join(", ")
    }

    /// The table in SQL: `boots` as `b`, joined with the labels.
    pub fn boots(&self) -> String {
        let label = |(i, name): (usize, &String)| {
            let of = format!("SELECT boot_id AS labelled, value FROM labels WHERE name = {}", text(name));
            format!(" LEFT JOIN ({of}) AS l{i} ON l{i}.labelled = b.boot_id")
        };
        let labels: String = self.labels.iter().enumerate().map(label).collect();
        format!("boots AS b{labels}")
    }

    /// The fields of a group, preceded by all of them as one text, `by`.
    pub fn group(&self, key: &[u32], names: &Names) -> Fields {
        let labels = self.labels.iter().map(|label| format!("label:{label}"));
        let fields = ["by".to_owned()].into_iter().chain(self.columns.iter().cloned()).chain(labels);
        let values: Vec<&str> = key.iter().map(|&number| names.name(number)).collect();
        let all = values.iter().map(|value| cut(value, MAX_PART_WIDTH)).collect::<Vec<_>>().join(" ");
        Fields(fields.zip([&*all].into_iter().chain(values)).map(|(field, value)| (field, value.into())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_holds_the_percentile_as_often_as_it_says() {
        // Uniform numbers from 0 to 1, made by SplitMix64.
        let mut state = 1_u64;
        let mut next = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
        };
        let mut held = 0;
        for _ in 0..2000 {
            let mut values: Vec<f64> = (0..300).map(|_| next()).collect();
            values.sort_by(f64::total_cmp);
            let (_, low, high) = percentile(&values, 0.95);
            held += usize::from(low.unwrap() <= 0.95 && 0.95 <= high.unwrap());
        }
        let rate = held as f64 / 2000.0;
        assert!((0.94..0.985).contains(&rate), "{rate}");
    }

    #[test]
    fn few_boots_have_no_interval_of_a_high_percentile() {
        assert_eq!(percentile(&[1.0, 2.0, 3.0], 0.99), (None, None, None));
        assert_eq!(percentile(&[1.0, 2.0, 3.0], 0.5).0, Some(2.0));
        assert_eq!(percentile(&[7.0], 0.5), (Some(7.0), None, None));
        assert_eq!(percentile(&[], 0.5), (None, None, None));
    }

    #[test]
    fn only_columns_and_labels_tell_boots_apart() {
        let by = Grouping::new(&["kernel".to_owned(), "label:te'am".to_owned()], &[]).unwrap();
        assert_eq!(by.columns(), "b.kernel, b.time_base, l0.value");
        assert!(by.boots().contains("name = 'te''am'"));
        assert!(Grouping::new(&["kernel; drop".to_owned()], &[]).is_err());
    }
}
