//! Machines that are slower than their kind, and in which row.
//!
//! Of each row, a machine's mean is compared with the middle of its kind's machines. By how much machines differ anyway is the median of
//! their distances from that middle (MAD: Hampel, Journal of the American Statistical Association 69, 1974), so that the outliers
//! themselves do not hide. How far off a machine's mean may be comes from how the boots of all the kind's machines scatter, or from its own if
//! they scatter more: three boots that happen to agree are no proof. Of all machines and rows, [`false_discoveries`] leaves those
//! that chance does not explain.

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
/// Without `--since`, so many days back from the last boot: a machine is as it is now.
const DAYS: u64 = 14;
/// Machines of a kind, at least: fewer have no middle.
const MACHINES_LEAST: usize = 8;
/// Boots of a machine, at least.
const BOOTS_LEAST: f64 = 5.0;
/// What is less of a boot than this is not shown: nobody would act on it.
const SHARE_LEAST: f64 = 1e-4;

#[derive(Serialize)]
struct Row {
    machine: String,
    hardware: String,
    time_base: String,
    /// The last that it had: an old one may be why.
    kernel: String,
    name: String,
    mean_ns: f64,
    others_ns: f64,
    slower_ns: f64,
    ratio: f64,
    /// Corrected for all rows of all machines.
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

/// A row of one machine.
#[derive(Clone, Copy)]
struct Sum {
    /// Kind and row.
    series: (u32, u32),
    machine: u32,
    sum: f64,
    squares: f64,
}

/// A machine of a kind.
#[derive(Clone, Copy)]
struct Machine {
    boots: f64,
    total_ns: f64,
    /// Its last one.
    kernel: u32,
}

/// A machine's mean of a row, and its standard error.
struct Mean {
    machine: u32,
    mean: f64,
    error: f64,
}

/// Answers it.
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
        of_kinds.values().flat_map(HashMap::values).partition(|machine| machine.boots >= BOOTS_LEAST);
    let (enough, too_few) = (enough.len(), too_few.len());
    let few = of_kinds.values().filter(|machines| machines.len() < MACHINES_LEAST).count();
    let mut candidates: Vec<(u32, u32, Mean, f64, f64)> = Vec::new();
    for rows in sums.chunk_by(|a, b| a.series == b.series) {
        let (kind, name) = rows[0].series;
        let Some(of_kind) = of_kinds.get(&kind) else { continue };
        let means = means(rows, of_kind);
        if means.len() < MACHINES_LEAST {
            continue;
        }
        let (middle, spread) = middle(&means);
        for mean in means {
            let t = (mean.mean - middle) / (spread * spread + mean.error * mean.error).sqrt();
            let freedom = (of_kind.len() - 1) as f64;
            // Only slower ones are asked for: one side of the distribution.
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
        if p > ALPHA || slower_ns < SHARE_LEAST * machine.total_ns / machine.boots {
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
        let said = format!("{too_few} machines have fewer than {BOOTS_LEAST} boots since then, and were not looked at");
        found.remarks.push(said);
    }
    if few > 0 {
        found.remarks.push(format!("kinds of fewer than {MACHINES_LEAST} machines, which have no middle: {few}"));
    }
    Ok(found)
}

/// The mean of each machine that has boots enough; boots without the row have 0 of it.
fn means(rows: &[Sum], of_kind: &HashMap<u32, Machine>) -> Vec<Mean> {
    let by_machine: HashMap<u32, &Sum> = rows.iter().map(|row| (row.machine, row)).collect();
    let squares_about = |machine: u32, of: &Machine| {
        let (sum, squares) = by_machine.get(&machine).map_or((0.0, 0.0), |row| (row.sum, row.squares));
        (sum / of.boots, (squares - sum * sum / of.boots).max(0.0))
    };
    let enough: Vec<(u32, &Machine)> =
        of_kind.iter().filter(|(_, of)| of.boots >= BOOTS_LEAST).map(|(&machine, of)| (machine, of)).collect();
    let all: f64 = enough.iter().map(|&(machine, of)| squares_about(machine, of).1).sum();
    let freedom: f64 = enough.iter().map(|(_, of)| of.boots - 1.0).sum();
    let mean = |&(machine, of): &(u32, &Machine)| {
        let (mean, squares) = squares_about(machine, of);
        let variance = (all / freedom).max(squares / (of.boots - 1.0));
        Mean { machine, mean, error: (variance / of.boots).sqrt() }
    };
    enough.iter().map(mean).collect()
}

/// The middle of machines, and by how much they differ beyond what the error of their means explains.
fn middle(means: &[Mean]) -> (f64, f64) {
    let of = |values: Vec<f64>| median(&sorted(&values));
    let middle = of(means.iter().map(|mean| mean.mean).collect());
    let apart = OF_MAD * of(means.iter().map(|mean| (mean.mean - middle).abs()).collect());
    let errors = of(means.iter().map(|mean| mean.error * mean.error).collect());
    // Of a row that hardly scatters, rounding must not look like an outlier.
    (middle, (apart * apart - errors).max(0.0).sqrt().max(1.0))
}
