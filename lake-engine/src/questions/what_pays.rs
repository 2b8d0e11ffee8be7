//! The question `what-pays`: the saving of each remedy per day over all machines, which is its saving times the boots that have it.

use super::sums::{at, each};
use super::{Engine, FilterArgs, Found};
use crate::answer::{Show, Shown};
use serde::Serialize;
use std::collections::HashSet;

#[derive(Serialize)]
struct Row {
    id: String,
    /// One of the titles that boots have for this finding.
    title: String,
    /// Number of boots that have the finding.
    boots: u64,
    /// Share of the boots that were searched for findings.
    share: f64,
    machines: u64,
    kinds: u64,
    /// Mean saving of a boot that has the finding.
    mean_ns: f64,
    /// Saving per day over all boots that have the finding.
    per_day_ns: f64,
    /// Lower bound of the saving per day.
    per_day_low_ns: f64,
    /// Upper bound of the saving per day.
    per_day_high_ns: f64,
}

const SHOWN: &[Shown] = &[
    ("finding", "id", Show::Plain),
    ("boots", "boots", Show::Plain),
    ("share", "share", Show::Percent),
    ("machines", "machines", Show::Plain),
    ("kinds", "kinds", Show::Plain),
    ("mean ms", "mean_ns", Show::Ms),
    ("saves s/day", "per_day_ns", Show::Seconds),
    ("from", "per_day_low_ns", Show::Seconds),
    ("to", "per_day_high_ns", Show::Seconds),
];

pub async fn ask(engine: &Engine, filter: &FilterArgs) -> anyhow::Result<Found> {
    let condition = filter.sql();
    let (mut looked, mut all, mut days) = (0.0, 0.0, HashSet::new());
    let sql = format!(
        "SELECT day, count(*), sum(CASE WHEN findings_looked_for THEN 1 ELSE 0 END) FROM boots WHERE {condition} GROUP BY day"
    );
    each(engine, &sql, |part| {
        let (day, boots, of_these) = (part.texts(0)?, part.numbers(1)?, part.numbers(2)?);
        for row in 0..part.rows() {
            days.insert(at(&day, row).to_owned());
            all += boots.value(row);
            looked += of_these.value(row);
        }
        Ok(())
    })
    .await?;
    // A boot may have a finding several times, once for each place. Their savings add up.
    let sql = format!(
        "SELECT id, min(title), count(DISTINCT boot_id), count(DISTINCT machine), count(DISTINCT hardware), \
         sum(CAST(cost_ns AS DOUBLE)), sum(CAST(cost_low_ns AS DOUBLE)), sum(CAST(cost_high_ns AS DOUBLE)) \
         FROM findings WHERE {condition} GROUP BY id"
    );
    let mut rows = Vec::new();
    let per_day = days.len().max(1) as f64;
    each(engine, &sql, |part| {
        let (id, title) = (part.texts(0)?, part.texts(1)?);
        let counts = [part.integers(2)?, part.integers(3)?, part.integers(4)?];
        let costs = [part.numbers(5)?, part.numbers(6)?, part.numbers(7)?];
        for row in 0..part.rows() {
            let [boots, machines, kinds] = [0, 1, 2].map(|i| u64::try_from(counts[i].value(row)).unwrap_or(0));
            let [cost, low, high] = [0, 1, 2].map(|i| costs[i].value(row));
            rows.push(Row {
                id: at(&id, row).to_owned(),
                title: at(&title, row).to_owned(),
                boots,
                share: boots as f64 / f64::max(looked, 1.0),
                machines,
                kinds,
                mean_ns: cost / (boots as f64).max(1.0),
                per_day_ns: cost / per_day,
                per_day_low_ns: low / per_day,
                per_day_high_ns: high / per_day,
            });
        }
        Ok(())
    })
    .await?;
    rows.sort_by(|a, b| b.per_day_ns.total_cmp(&a.per_day_ns));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "they are counts")]
    let (all, looked) = (all as u64, looked as u64);
    let mut found = Found::new(all, rows, SHOWN)?;
    let days = days.len();
    found.remarks.push(format!("{looked} of these boots were looked at for findings, on {days} days with boots"));
    found.remarks.push("from and to: at the worst and at the best, as each finding says of itself".to_owned());
    found
        .remarks
        .push("what several findings share is in each of them: their sum is more than all save together".to_owned());
    Ok(found)
}
