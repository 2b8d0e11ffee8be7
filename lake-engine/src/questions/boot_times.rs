//! How long boots take, by whatever tells them apart: percentiles with intervals that no distribution is assumed for.
//!
//! The interval of a percentile runs from one order statistic to another: how many values lie below it is binomial (David and Nagaraja,
//! Order Statistics, 3rd ed., 7.1), by the normal approximation. Where too few boots are there for an end of it, that end is null.

use super::sums::{Names, at, each};
use super::{Engine, FilterArgs, Found};
use crate::answer::{Fields, Show, Shown, cut};
use crate::engine::text;
use anyhow::bail;
use serde::Serialize;
use statistics::normal;
use statistics::quantile::quantile;
use std::collections::HashMap;

/// How long the boots of a group take.
#[derive(Serialize)]
pub struct Row {
    /// What they have in common, field by field, and as one text in `by`.
    #[serde(flatten)]
    pub group: Fields,
    /// Those that reached an end mark: times are of these.
    pub boots: u64,
    /// Those that did not.
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

/// Boots of one group.
#[derive(Default)]
struct Group {
    total_ns: Vec<f64>,
    not_ended: u64,
}

/// Answers it.
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

/// A percentile of sorted values, and its interval.
fn percentile(sorted: &[f64], p: f64) -> (Option<f64>, Option<f64>, Option<f64>) {
    let n = sorted.len() as f64;
    let half = normal::quantile(0.5 + statistics::CONFIDENCE / 2.0) * (n * p * (1.0 - p)).sqrt();
    // The order statistics just outside; counted from 0.
    let place = |place: f64| {
        let is_there = place >= 0.0 && place < n;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is within the list")]
        is_there.then(|| sorted[place as usize])
    };
    // Of fewer boots, hardly one is expected beyond it.
    if n * (1.0 - p) < 0.5 - 1e-9 {
        return (None, None, None);
    }
    let estimate = Some(quantile(sorted, p));
    (estimate, place((n * p - half).floor() - 1.0), place((n * p + half).ceil()))
}

/// Columns of `boots` by which boots can be told apart.
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

/// A part of `by` is not wider.
const PART: usize = 26;

/// What boots are told apart by.
pub struct Grouping {
    columns: Vec<String>,
    labels: Vec<String>,
}

impl Grouping {
    /// Of the user's choice, or of what is usual. `label:NAME` is a label, everything else a column of `boots`.
    pub fn new(by: &[String], usual: &[&str]) -> anyhow::Result<Grouping> {
        let mut grouping = Grouping { columns: Vec::new(), labels: Vec::new() };
        let by: Vec<&str> = if by.is_empty() { usual.to_vec() } else { by.iter().map(String::as_str).collect() };
        // A counted boot's milliseconds are not a host's.
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

    /// What is to be known where kinds of machine are not told apart.
    pub fn mixed(&self) -> Option<String> {
        let is_told = self.columns.iter().any(|column| column == "hardware" || column == "machine");
        (!is_told).then(|| "kinds of machine are mixed: --by hardware tells them apart".to_owned())
    }

    /// How many columns.
    pub fn len(&self) -> usize {
        self.columns.len() + self.labels.len()
    }

    /// The columns, of the table that [`Grouping::boots`] is.
    pub fn columns(&self) -> String {
        let columns = self.columns.iter().map(|name| format!("b.{name}"));
        let labels = (0..self.labels.len()).map(|i| format!("l{i}.value"));
        columns.chain(labels).collect::<Vec<_>>().join(", ")
    }

    /// `boots`, called `b`, with the labels.
    pub fn boots(&self) -> String {
        let label = |(i, name): (usize, &String)| {
            let of = format!("SELECT boot_id AS labelled, value FROM labels WHERE name = {}", text(name));
            format!(" LEFT JOIN ({of}) AS l{i} ON l{i}.labelled = b.boot_id")
        };
        let labels: String = self.labels.iter().enumerate().map(label).collect();
        format!("boots AS b{labels}")
    }

    /// What a group is called, field by field, and all together as `by`.
    pub fn group(&self, key: &[u32], names: &Names) -> Fields {
        let labels = self.labels.iter().map(|label| format!("label:{label}"));
        let fields = ["by".to_owned()].into_iter().chain(self.columns.iter().cloned()).chain(labels);
        let values: Vec<&str> = key.iter().map(|&number| names.name(number)).collect();
        let all = values.iter().map(|value| cut(value, PART)).collect::<Vec<_>>().join(" ");
        Fields(fields.zip([&*all].into_iter().chain(values)).map(|(field, value)| (field, value.into())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_holds_the_percentile_as_often_as_it_says() {
        // Even numbers from 0 to 1, of SplitMix64's steps.
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
