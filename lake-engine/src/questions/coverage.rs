//! The question `coverage`: machines that have been silent for longer than their usual time between boots explains.
//!
//! If a machine boots at random, `n` boots give an uncertain estimate `u` of the mean time between boots. The machine is then
//! silent for at least `s` days with the probability `(1 + s / (u (n - 1)))^-(n - 1)`. This is the tail of a Pareto distribution,
//! the prediction for exponential times (Nelson, Applied Life Data Analysis, 1982, ch. 6). Machines with significant silence are
//! listed, corrected for all machines ([`false_discoveries`]). Boots within an hour count as one, because a machine that is
//! installed or repaired boots often.

use super::sums::{at, each};
use super::{Engine, FilterArgs, Found};
use crate::answer::{Show, Shown};
use crate::filter;
use serde::Serialize;
use statistics::false_discoveries;
use std::time::{Duration, UNIX_EPOCH};

const ALPHA: f64 = 1.0 - statistics::CONFIDENCE;
const DAY_MS: f64 = 86_400_000.0;
/// Minimum number of boots from which a rate is estimated.
const MIN_BOOTS: f64 = 3.0;

#[derive(Serialize)]
struct Row {
    machine: String,
    hardware: String,
    kernel: String,
    last: String,
    boots: u64,
    usual_days: f64,
    silent_days: f64,
    /// p-value, corrected for all machines.
    p: f64,
}

const SHOWN: &[Shown] = &[
    ("machine", "machine", Show::Id),
    ("hardware", "hardware", Show::Plain),
    ("last kernel", "kernel", Show::Plain),
    ("last day", "last", Show::Plain),
    ("boots", "boots", Show::Plain),
    ("days between", "usual_days", Show::Plain),
    ("silent days", "silent_days", Show::Plain),
    ("p", "p", Show::Probability),
];

pub async fn ask(engine: &Engine, filter: &FilterArgs) -> anyhow::Result<Found> {
    let condition = filter.sql_of_time();
    let sql = format!(
        "SELECT machine, max(hardware), count(*), CAST(min(began) AS BIGINT), CAST(max(began) AS BIGINT), \
         last_value(kernel ORDER BY began), count(DISTINCT date_trunc('hour', began)) FROM boots WHERE machine IS NOT NULL AND began IS NOT NULL AND {condition} GROUP BY machine"
    );
    let mut machines: Vec<(Row, f64, f64)> = Vec::new();
    let (mut all, mut newest, mut lasts, mut few) = (0.0, 0.0, Vec::new(), 0);
    each(engine, &sql, |part| {
        let (machine, hardware, kernel) = (part.texts(0)?, part.texts(1)?, part.texts(5)?);
        let (boots, first, last, hours) = (part.numbers(2)?, part.numbers(3)?, part.numbers(4)?, part.numbers(6)?);
        for row in 0..part.rows() {
            let (count, last) = (boots.value(row), last.value(row));
            all += count;
            newest = f64::max(newest, last);
            lasts.push(last);
            if hours.value(row) < MIN_BOOTS {
                few += 1;
                continue;
            }
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "they are counts")]
            let (count_whole, last_ms) = (count as u64, last.max(0.0) as u64);
            let known = Row {
                machine: at(&machine, row).to_owned(),
                hardware: at(&hardware, row).to_owned(),
                kernel: at(&kernel, row).to_owned(),
                last: filter::day(UNIX_EPOCH + Duration::from_millis(last_ms)),
                boots: count_whole,
                usual_days: (last - first.value(row)) / DAY_MS / (hours.value(row) - 1.0),
                silent_days: 0.0,
                p: 1.0,
            };
            machines.push((known, last, hours.value(row)));
        }
        Ok(())
    })
    .await?;
    for (machine, last, hours) in &mut machines {
        machine.silent_days = (newest - *last) / DAY_MS;
        let n = *hours - 1.0;
        machine.p = (1.0 + machine.silent_days / (machine.usual_days * n)).powf(-n);
    }
    let corrected = false_discoveries::corrected(&machines.iter().map(|(machine, ..)| machine.p).collect::<Vec<f64>>());
    let silent = machines.into_iter().zip(corrected).filter(|(_, p)| *p <= ALPHA);
    let mut rows: Vec<Row> = silent.map(|((machine, ..), p)| Row { p, ..machine }).collect();
    rows.sort_by(|a, b| b.silent_days.total_cmp(&a.silent_days));
    let within = |days: f64| lasts.iter().filter(|&&last| newest - last <= days * DAY_MS).count();
    let said = format!(
        "{} machines, of which {} reported within a day of the last boot, {} within 7 days, {} within 30",
        lasts.len(),
        within(1.0),
        within(7.0),
        within(30.0)
    );
    let is_bad = !rows.is_empty();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is a count")]
    let mut found = Found::new(all as u64, rows, SHOWN)?;
    found.is_bad = is_bad;
    found.remarks.push(said);
    found
        .remarks
        .push("listed: machines that are silent for longer than their usual time between boots explains".to_owned());
    if few > 0 {
        found.remarks.push(format!("machines of fewer than {MIN_BOOTS} boots, which have no usual time: {few}"));
    }
    Ok(found)
}
