//! The question `slowest-rows`: the mean time of each row over all boots. A boot without the row counts as 0.

use super::boot_times::Grouping;
use super::sums::{Names, at, each};
use super::{Engine, FilterArgs, Found};
use crate::answer::{Fields, Show, Shown};
use serde::Serialize;
use statistics::normal;
use std::collections::HashMap;

#[derive(Serialize)]
struct Row {
    #[serde(flatten)]
    group: Fields,
    name: String,
    /// Number of boots of the group.
    boots: u64,
    /// Number of these that have the row.
    boots_with_it: u64,
    /// Mean over all boots of the group.
    mean_ns: f64,
    /// Lower end of the mean's interval. Null for a single boot.
    mean_low_ns: Option<f64>,
    mean_high_ns: Option<f64>,
    /// Share of the total time of the group's boots.
    share: f64,
}

const SHOWN: &[Shown] = &[
    ("by", "by", Show::Plain),
    ("row", "name", Show::Plain),
    ("boots", "boots", Show::Plain),
    ("with it", "boots_with_it", Show::Plain),
    ("mean ms", "mean_ns", Show::Ms),
    ("from", "mean_low_ns", Show::Ms),
    ("to", "mean_high_ns", Show::Ms),
    ("share", "share", Show::Percent),
];

pub async fn ask(engine: &Engine, filter: &FilterArgs, by: &[String]) -> anyhow::Result<Found> {
    let by = Grouping::new(by, &["hardware", "time_base"])?;
    let (columns, of_boots) = (by.columns(), by.boots());
    let filter = filter.sql();
    let mut names = Names::default();
    let mut boots: HashMap<Vec<u32>, (f64, f64)> = HashMap::new();
    let sql = format!(
        "SELECT {columns}, count(*), sum(b.total_ns) FROM {of_boots} WHERE b.total_ns IS NOT NULL AND {filter} GROUP BY {columns}"
    );
    each(engine, &sql, |part| {
        let keys = (0..by.len()).map(|i| part.texts(i)).collect::<anyhow::Result<Vec<_>>>()?;
        let (counts, totals) = (part.numbers(by.len())?, part.numbers(by.len() + 1)?);
        for row in 0..part.rows() {
            let key = keys.iter().map(|column| names.number(at(column, row))).collect();
            boots.insert(key, (counts.value(row), totals.value(row)));
        }
        Ok(())
    })
    .await?;
    // The table `rows` lacks most of the columns to group by, so join it with `boots`.
    let source = format!(
        "(SELECT boot_id, name, self_ns FROM rows WHERE ended AND {filter}) AS r JOIN (SELECT boot_id AS id, {} FROM {of_boots} \
         WHERE b.total_ns IS NOT NULL AND {filter}) AS g ON g.id = r.boot_id",
        numbered(&columns)
    );
    let keys = (0..by.len()).map(|i| format!("g.k{i}")).collect::<Vec<_>>().join(", ");
    let sql = format!(
        "SELECT {keys}, r.name, count(*), sum(r.self_ns), sum(CAST(r.self_ns AS DOUBLE) * CAST(r.self_ns AS DOUBLE)) \
         FROM {source} GROUP BY {keys}, r.name"
    );
    let mut rows = Vec::new();
    each(engine, &sql, |part| {
        let keys = (0..by.len()).map(|i| part.texts(i)).collect::<anyhow::Result<Vec<_>>>()?;
        let (row_names, counts) = (part.texts(by.len())?, part.numbers(by.len() + 1)?);
        let (sums, squares) = (part.numbers(by.len() + 2)?, part.numbers(by.len() + 3)?);
        for row in 0..part.rows() {
            let key: Vec<u32> = keys.iter().map(|column| names.number(at(column, row))).collect();
            let Some(&(n, total)) = boots.get(&key) else { continue };
            let mean = sums.value(row) / n;
            let variance = (squares.value(row) - n * mean * mean).max(0.0) / (n - 1.0).max(1.0);
            let half = normal::quantile(0.5 + statistics::CONFIDENCE / 2.0) * (variance / n).sqrt();
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "they are counts")]
            rows.push(Row {
                group: by.group(&key, &names),
                name: at(&row_names, row).to_owned(),
                boots: n as u64,
                boots_with_it: counts.value(row) as u64,
                mean_ns: mean,
                mean_low_ns: (n > 1.0).then_some((mean - half).max(0.0)),
                mean_high_ns: (n > 1.0).then_some(mean + half),
                share: sums.value(row) / total,
            });
        }
        Ok(())
    })
    .await?;
    rows.sort_by(|a, b| b.mean_ns.total_cmp(&a.mean_ns));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is a count")]
    let all = boots.values().map(|(count, _)| *count as u64).sum();
    let mut found = Found::new(all, rows, SHOWN)?;
    found
        .remarks
        .push("mean: over all boots, those without the row count as 0. from and to: its 95 % interval".to_owned());
    found.remarks.extend(by.mixed());
    Ok(found)
}

/// `b.x, l0.value` as `b.x AS k0, l0.value AS k1`.
fn numbered(columns: &str) -> String {
    columns.split(", ").enumerate().map(|(i, column)| format!("{column} AS k{i}")).collect::<Vec<_>>().join(", ")
}
