//! The question `outliers`: machines that are slower than their kind in a row.
//!
//! For each row, a machine's mean is compared with the median of its kind's machines. The usual difference between machines is
//! the median of their distances from that median (MAD: Hampel, Journal of the American Statistical Association 69, 1974), which
//! outliers hardly change. The error of a machine's mean comes from the scatter of the boots of all machines of its kind, or of
//! its own boots if that is larger, because a few boots may agree by chance. [`false_discoveries`] corrects for all machines and
//! rows.

use super::sums::{Names, at, each, kind, parts_of};
use super::{Engine, FilterArgs, Found};
use crate::answer::{Show, Shown};
use crate::filter::days_before;
use serde::Serialize;
use statistics::outliers::OF_MAD;
use statistics::quantile::median;
use statistics::{false_discoveries, sorted, student_t};
use std::collections::HashMap;

const ALPHA: f64 = 1.0 - statistics::CONFIDENCE;
/// Number of days up to the last boot that are read without `--since`, because the present state of a machine counts.
const DAYS: u64 = 14;
/// Minimum number of machines of a kind. Fewer give no useful median.
const MIN_MACHINES: usize = 8;
/// Minimum number of boots of a machine.
const MIN_BOOTS: f64 = 5.0;
/// Minimum listed difference, as a share of the boot. Users would not act on less.
const MIN_SHARE: f64 = 1e-4;

#[derive(Serialize)]
struct Row {
    machine: String,
    hardware: String,
    time_base: String,
    /// Last kernel of the machine. An old one may be the reason.
    kernel: String,
    name: String,
    mean_ns: f64,
    others_ns: f64,
    slower_ns: f64,
    ratio: f64,
    /// p-value, corrected for all rows of all machines.
    p: f64,
    boots: u64,
    machines: u64,
}

const SHOWN: &[Shown] = &[
    ("machine", "machine", Show::Id),
    ("hardware", "hardware", Show::Plain),
    ("last kernel", "kernel", Show::Plain),
    ("row", "name", Show::Plain),
    ("ms", "mean_ns", Show::Ms),
    ("others", "others_ns", Show::Ms),
    ("change", "ratio", Show::Change),
    ("p", "p", Show::Probability),
    ("boots", "boots", Show::Plain),
    ("machines", "machines", Show::Plain),
];

/// Sums of a row over the boots of one machine.
#[derive(Clone, Copy)]
struct Sum {
    /// Numbers of the kind and the row.
    series: (u32, u32),
    machine: u32,
    sum: f64,
    squares: f64,
}

/// Totals of one machine's boots.
#[derive(Clone, Copy)]
struct Machine {
    boots: f64,
    total_ns: f64,
    /// Last kernel of the machine.
    kernel: u32,
}

/// Mean of a row on a machine, with its standard error.
struct Mean {
    machine: u32,
    mean: f64,
    error: f64,
}

pub async fn ask(engine: &Engine, filter: &FilterArgs) -> anyhow::Result<Found> {
    let mut newest = String::new();
    each(engine, &format!("SELECT max(day) FROM boots WHERE {}", filter.sql_of_time()), |part| {
        let days = part.texts(0)?;
        (0..part.rows()).for_each(|row| newest = at(&days, row).to_owned());
        Ok(())
    })
    .await?;
    let since = days_before(&newest, DAYS - 1);
    let filter = filter.or_since(&since);
    let condition = format!("machine IS NOT NULL AND {}", filter.sql_of_time());
    let (mut kinds, mut names, mut machines, mut kernels) =
        (Names::default(), Names::default(), Names::default(), Names::default());
    let mut of_kinds: HashMap<u32, HashMap<u32, Machine>> = HashMap::new();
    let keys = "hardware, time_base, machine";
    let sql = format!(
        "SELECT {keys}, count(*), sum(total_ns), last_value(kernel ORDER BY began) FROM boots WHERE total_ns IS NOT NULL AND {condition} GROUP BY {keys}"
    );
    each(engine, &sql, |part| {
        let (hardware, time_base, machine) = (part.texts(0)?, part.texts(1)?, part.texts(2)?);
        let (boots, total_ns, kernel) = (part.numbers(3)?, part.numbers(4)?, part.texts(5)?);
        for row in 0..part.rows() {
            let kind = kinds.number(&kind(at(&hardware, row), at(&time_base, row)));
            let kernel = kernels.number(at(&kernel, row));
            let found = Machine { boots: boots.value(row), total_ns: total_ns.value(row), kernel };
            of_kinds.entry(kind).or_default().insert(machines.number(at(&machine, row)), found);
        }
        Ok(())
    })
    .await?;
    let mut sums: Vec<Sum> = Vec::new();
    let sql = format!(
        "SELECT {keys}, name, sum(self_ns), sum(CAST(self_ns AS DOUBLE) * CAST(self_ns AS DOUBLE)) FROM rows \
         WHERE ended AND {condition} GROUP BY {keys}, name"
    );
    each(engine, &sql, |part| {
        let (hardware, time_base, machine) = (part.texts(0)?, part.texts(1)?, part.texts(2)?);
        let (name, sum, squares) = (part.texts(3)?, part.numbers(4)?, part.numbers(5)?);
        for row in 0..part.rows() {
            let kind = kinds.number(&kind(at(&hardware, row), at(&time_base, row)));
            let series = (kind, names.number(at(&name, row)));
            let machine = machines.number(at(&machine, row));
            sums.push(Sum { series, machine, sum: sum.value(row), squares: squares.value(row) });
        }
        Ok(())
    })
    .await?;
    sums.sort_unstable_by_key(|sum| sum.series);
    let boots: f64 = of_kinds.values().flat_map(HashMap::values).map(|machine| machine.boots).sum();
    let (enough, too_few): (Vec<&Machine>, Vec<&Machine>) =
        of_kinds.values().flat_map(HashMap::values).partition(|machine| machine.boots >= MIN_BOOTS);
    let (enough, too_few) = (enough.len(), too_few.len());
    let few = of_kinds.values().filter(|machines| machines.len() < MIN_MACHINES).count();
    let mut candidates: Vec<(u32, u32, Mean, f64, f64)> = Vec::new();
    for rows in sums.chunk_by(|a, b| a.series == b.series) {
        let (kind, name) = rows[0].series;
        let Some(of_kind) = of_kinds.get(&kind) else { continue };
        let means = means(rows, of_kind);
        if means.len() < MIN_MACHINES {
            continue;
        }
        let (middle, spread) = middle(&means);
        for mean in means {
            let t = (mean.mean - middle) / (spread * spread + mean.error * mean.error).sqrt();
            let freedom = (of_kind.len() - 1) as f64;
            // The question is only about slower machines, so the test is one-sided.
            let p = if t > 0.0 { student_t::two_sided(t, freedom) / 2.0 } else { 1.0 };
            candidates.push((kind, name, mean, middle, p));
        }
    }
    let looked_at = candidates.len();
    let p_values: Vec<f64> = candidates.iter().map(|candidate| candidate.4).collect();
    let corrected = false_discoveries::corrected(&p_values);
    let mut rows = Vec::new();
    for ((kind, name, mean, middle, _), p) in candidates.into_iter().zip(corrected) {
        let machine = of_kinds[&kind][&mean.machine];
        let slower_ns = mean.mean - middle;
        if p > ALPHA || slower_ns < MIN_SHARE * machine.total_ns / machine.boots {
            continue;
        }
        let (hardware, time_base) = parts_of(kinds.name(kind));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is a count")]
        rows.push(Row {
            machine: machines.name(mean.machine).to_owned(),
            hardware: hardware.to_owned(),
            time_base: time_base.to_owned(),
            kernel: kernels.name(machine.kernel).to_owned(),
            name: names.name(name).to_owned(),
            mean_ns: mean.mean,
            others_ns: middle,
            slower_ns,
            ratio: mean.mean / middle.max(1.0),
            p,
            boots: machine.boots as u64,
            machines: of_kinds[&kind].len() as u64,
        });
    }
    rows.sort_by(|a, b| b.slower_ns.total_cmp(&a.slower_ns));
    let is_bad = !rows.is_empty();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is a count")]
    let mut found = Found::new(boots as u64, rows, SHOWN)?;
    found.is_bad = is_bad;
    found.since = filter.since().to_owned();
    found.remarks.push("others: the middle of the kind's machines".to_owned());
    found.remarks.push(format!("looked at {looked_at} rows of {enough} machines; p is corrected for that"));
    if too_few > 0 {
        let said = format!("{too_few} machines have fewer than {MIN_BOOTS} boots since then, and were not looked at");
        found.remarks.push(said);
    }
    if few > 0 {
        found.remarks.push(format!("kinds of fewer than {MIN_MACHINES} machines, which have no middle: {few}"));
    }
    Ok(found)
}

/// Mean of each machine with enough boots. A boot without the row counts as 0.
fn means(rows: &[Sum], of_kind: &HashMap<u32, Machine>) -> Vec<Mean> {
    let by_machine: HashMap<u32, &Sum> = rows.iter().map(|row| (row.machine, row)).collect();
    let squares_about = |machine: u32, of: &Machine| {
        let (sum, squares) = by_machine.get(&machine).map_or((0.0, 0.0), |row| (row.sum, row.squares));
        (sum / of.boots, (squares - sum * sum / of.boots).max(0.0))
    };
    let enough: Vec<(u32, &Machine)> =
        of_kind.iter().filter(|(_, of)| of.boots >= MIN_BOOTS).map(|(&machine, of)| (machine, of)).collect();
    let all: f64 = enough.iter().map(|&(machine, of)| squares_about(machine, of).1).sum();
    let freedom: f64 = enough.iter().map(|(_, of)| of.boots - 1.0).sum();
    let mean = |&(machine, of): &(u32, &Machine)| {
        let (mean, squares) = squares_about(machine, of);
        let variance = (all / freedom).max(squares / (of.boots - 1.0));
        Mean { machine, mean, error: (variance / of.boots).sqrt() }
    };
    enough.iter().map(mean).collect()
}

/// Median of the machines, and their standard deviation beyond the error of their means.
fn middle(means: &[Mean]) -> (f64, f64) {
    let of = |values: Vec<f64>| median(&sorted(&values));
    let middle = of(means.iter().map(|mean| mean.mean).collect());
    let apart = OF_MAD * of(means.iter().map(|mean| (mean.mean - middle).abs()).collect());
    let errors = of(means.iter().map(|mean| mean.error * mean.error).collect());
    // If a row hardly scatters, rounding must not look like an outlier, so the result is at least 1 ns.
    (middle, (apart * apart - errors).max(0.0).sqrt().max(1.0))
}
