//! The question `boots`: lists boots, slowest first. Users ask it to follow up on another answer.

use super::sums::{at, each};
use super::{Engine, FilterArgs, Found};
use crate::answer::{Show, Shown};
use serde::Serialize;

/// Maximum number of listed boots.
const MAX_LISTED: usize = 1000;

#[derive(Serialize)]
struct Row {
    boot_id: String,
    day: String,
    hardware: String,
    time_base: String,
    kernel: String,
    machine: String,
    outcome: String,
    total_ns: Option<i64>,
}

const SHOWN: &[Shown] = &[
    ("boot", "boot_id", Show::Id),
    ("day", "day", Show::Plain),
    ("hardware", "hardware", Show::Plain),
    ("kernel", "kernel", Show::Plain),
    ("machine", "machine", Show::Id),
    ("outcome", "outcome", Show::Plain),
    ("ms", "total_ns", Show::Ms),
];

pub async fn ask(engine: &Engine, filter: &FilterArgs) -> anyhow::Result<Found> {
    let condition = filter.sql();
    let mut boots = 0;
    each(engine, &format!("SELECT count(*) FROM boots WHERE {condition}"), |part| {
        boots += part.integers(0)?.iter().flatten().sum::<i64>();
        Ok(())
    })
    .await?;
    let sql = format!(
        "SELECT boot_id, day, hardware, time_base, kernel, machine, outcome, total_ns FROM boots WHERE {condition} \
         ORDER BY total_ns DESC NULLS LAST, boot_id LIMIT {MAX_LISTED}"
    );
    let mut rows = Vec::new();
    each(engine, &sql, |part| {
        let texts = (0..7).map(|i| part.texts(i)).collect::<anyhow::Result<Vec<_>>>()?;
        let totals = part.integers(7)?;
        rows.extend(totals.iter().enumerate().map(|(row, total_ns)| {
            let text = |i: usize| at(&texts[i], row).to_owned();
            Row {
                boot_id: text(0),
                day: text(1),
                hardware: text(2),
                time_base: text(3),
                kernel: text(4),
                machine: text(5),
                outcome: text(6),
                total_ns,
            }
        }));
        Ok(())
    })
    .await?;
    let is_cut = rows.len() == MAX_LISTED;
    let mut found = Found::new(u64::try_from(boots).unwrap_or(0), rows, SHOWN)?;
    if is_cut {
        found.remarks.push(format!("only the {MAX_LISTED} slowest are listed: `lake sql` has all"));
    }
    Ok(found)
}
