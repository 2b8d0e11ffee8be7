//! The question `regressions`: rows that became slower on a kind of machine, with the responsible update and the significance.
//!
//! A series is a row of the boot path on one kind of machine: for each day and each kernel, the mean over all boots, including
//! those without the row. [`statistics::levels`] finds the clearest change of its level, and [`false_discoveries`] corrects for
//! all series. The parts before and after a change are tested again, until no change is found. The totals of boots are a
//! separate family, with one series for each kind of machine.
//!
//! Sums only select the series that may have a change. For these, every boot is read and made comparable
//! ([`super::single_boots`]). The decision and the interval come from these values, the reported size of the change from the
//! original times.

use super::single_boots::{self, Boot, Boots};
use super::sums::{Names, at, each, kind, parts_of};
use super::{Engine, FilterArgs, Found};
use crate::answer::{Show, Shown};
use crate::engine::text;
use serde::Serialize;
use statistics::levels::{At, Cell, Change, clearest};
use statistics::{false_discoveries, student_t};
use std::collections::{BTreeSet, HashMap};

/// Maximum average share of false ones among the reported regressions.
const ALPHA: f64 = 1.0 - statistics::CONFIDENCE;
/// Minimum share of a tested row in its boots' time. Users would not act on smaller rows, and each more test weakens the others.
const MIN_SHARE: f64 = 1e-5;
/// Maximum corrected p-value, from sums, of a series that is read boot by boot.
const MAX_SELECTION_P: f64 = 0.5;
/// Number of the last days whose boots give the daily cost of a regression.
const WEEK_DAYS: u32 = 7;
/// Maximum number of rounds in which the parts before and after a change are tested.
const MAX_DEPTH: usize = 4;

#[derive(Debug, Serialize)]
struct Row {
    /// Name of the row. `null` for the whole boot.
    name: Option<String>,
    hardware: String,
    time_base: String,
    /// The first kernel with the regression. `null` if no kernel explains it.
    kernel: Option<String>,
    /// The first day after the change.
    since: String,
    /// Mean of all boots before the change.
    before_ns: f64,
    after_ns: f64,
    slower_ns: f64,
    /// The slowdown with outliers limited.
    near_ns: f64,
    /// Lower end of the 95 % interval of `near_ns`.
    slower_low_ns: f64,
    slower_high_ns: f64,
    /// After ÷ before. `null` if the row is new.
    ratio: Option<f64>,
    /// p-value, corrected for all tested series.
    p: f64,
    boots_before: u64,
    boots_after: u64,
    /// Number of boots of the whole series whose time was an outlier and is limited in `near_ns`.
    boots_far_off: u64,
    /// Cost per day over all machines of the kind, for the number of boots of the last week.
    per_day_ns: f64,
}

const SHOWN: &[Shown] = &[
    ("row", "name", Show::Plain),
    ("hardware", "hardware", Show::Plain),
    ("kernel", "kernel", Show::Plain),
    ("since", "since", Show::Plain),
    ("before ms", "before_ns", Show::Ms),
    ("after", "after_ns", Show::Ms),
    ("slower by", "slower_ns", Show::Ms),
    ("from", "slower_low_ns", Show::Ms),
    ("to", "slower_high_ns", Show::Ms),
    ("change", "ratio", Show::Change),
    ("p", "p", Show::Probability),
    ("boots before", "boots_before", Show::Plain),
    ("after", "boots_after", Show::Plain),
];

/// The boots of one day with one kernel on one kind of machine.
struct OfDay {
    day: u32,
    kernel: u32,
    boots: f64,
    total_ns: f64,
}

/// A row's time on one day with one kernel on one kind of machine.
#[derive(Clone, Copy)]
struct Sum {
    series: (u32, u32),
    day: u32,
    kernel: u32,
    self_ns: f64,
}

/// The sums that this question reads from the lake.
#[derive(Default)]
struct Sums {
    kinds: Names,
    names: Names,
    kernels: Names,
    days: Names,
    /// Boots by kind of machine.
    boots: HashMap<u32, Vec<OfDay>>,
    rows: Vec<Sum>,
}

pub async fn ask(engine: &Engine, filter: &FilterArgs) -> anyhow::Result<Found> {
    let sums = read(engine, filter).await?;
    let boots: f64 = sums.boots.values().flatten().map(|of_day| of_day.boots).sum();
    let series = series(&sums);
    let looked_at = series.len();
    let (rows, wholes): (Vec<Series>, Vec<Series>) = series.into_iter().partition(|series| series.name.is_some());
    let mut found = Vec::new();
    for family in [rows, wholes] {
        let size = family.len();
        let chosen = chosen(family);
        let chosen = boot_by_boot(engine, filter, &sums, chosen).await?;
        found.extend(found_in(&sums, chosen, size));
    }
    let faster = found.iter().filter(|row| row.near_ns < 0.0).count();
    let mut slower: Vec<Row> = found.into_iter().filter(|row| row.near_ns > 0.0).collect();
    slower.sort_by(|a, b| b.per_day_ns.total_cmp(&a.per_day_ns));
    let is_bad = !slower.is_empty();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is a count")]
    let mut answer = Found::new(boots as u64, slower, SHOWN)?;
    answer.is_bad = is_bad;
    let kinds = sums.kinds.len();
    answer.remarks.push(format!("looked at {looked_at} series of {kinds} kinds of machine; p is corrected for that"));
    if faster > 0 {
        answer.remarks.push(format!("{faster} became faster; they are not listed"));
    }
    answer.remarks.push("row -: the whole boot. kernel -: no kernel explains it, only a day".to_owned());
    answer.remarks.push("from, to: the 95 % interval of slower by, without boots whose time was far off".to_owned());
    Ok(answer)
}

async fn read(engine: &Engine, filter: &FilterArgs) -> anyhow::Result<Sums> {
    let mut sums = Sums::default();
    let condition = filter.sql_of_time();
    let keys = "hardware, time_base, kernel, day";
    let sql = format!(
        "SELECT {keys}, count(*), sum(CAST(total_ns AS DOUBLE)) FROM boots \
         WHERE total_ns IS NOT NULL AND {condition} GROUP BY {keys}"
    );
    each(engine, &sql, |part| {
        let (hardware, time_base, kernel, day) = (part.texts(0)?, part.texts(1)?, part.texts(2)?, part.texts(3)?);
        let (boots, total) = (part.numbers(4)?, part.numbers(5)?);
        for row in 0..part.rows() {
            let kind = sums.kinds.number(&kind(at(&hardware, row), at(&time_base, row)));
            sums.boots.entry(kind).or_default().push(OfDay {
                day: sums.days.number(at(&day, row)),
                kernel: sums.kernels.number(at(&kernel, row)),
                boots: boots.value(row),
                total_ns: total.value(row),
            });
        }
        Ok(())
    })
    .await?;
    let sql = format!("SELECT {keys}, name, sum(self_ns) FROM rows WHERE ended AND {condition} GROUP BY {keys}, name");
    each(engine, &sql, |part| {
        let (hardware, time_base, kernel, day) = (part.texts(0)?, part.texts(1)?, part.texts(2)?, part.texts(3)?);
        let (name, self_ns) = (part.texts(4)?, part.numbers(5)?);
        let mut last = (String::new(), String::new(), 0);
        for row in 0..part.rows() {
            let (this_hardware, this_base) = (at(&hardware, row), at(&time_base, row));
            if this_hardware != last.0 || this_base != last.1 || row == 0 {
                let number = sums.kinds.number(&kind(this_hardware, this_base));
                last = (this_hardware.to_owned(), this_base.to_owned(), number);
            }
            sums.rows.push(Sum {
                series: (last.2, sums.names.number(at(&name, row))),
                day: sums.days.number(at(&day, row)),
                kernel: sums.kernels.number(at(&kernel, row)),
                self_ns: self_ns.value(row),
            });
        }
        Ok(())
    })
    .await?;
    sums.rows.sort_unstable_by_key(|sum| sum.series);
    Ok(sums)
}

/// A series that is tested for changes.
struct Series {
    kind: u32,
    /// Number of the row's name. `None` for the whole boot.
    name: Option<u32>,
    cells: Vec<Cell>,
    /// The same cells with means of the original times. Empty until single boots are read.
    raw: Vec<Cell>,
    /// Number of boots that are outliers.
    far: u64,
}

/// The kernels of a kind of machine in the order of their release, and the positions of its cells.
struct Order {
    /// Position of a kernel in that order.
    updates: HashMap<u32, u32>,
    kernels: Vec<u32>,
    /// Index of each cell, by day and kernel.
    cells: HashMap<(u32, u32), usize>,
}

fn order(of_kind: &[OfDay], days: &[u32]) -> Order {
    let mut by_kernel: HashMap<u32, Vec<(u32, f64)>> = HashMap::new();
    for of_day in of_kind {
        by_kernel.entry(of_day.kernel).or_default().push((days[of_day.day as usize], of_day.boots));
    }
    let came: HashMap<u32, u32> = by_kernel.iter().map(|(&kernel, boots)| (kernel, came(boots))).collect();
    let mut kernels: Vec<u32> = came.keys().copied().collect();
    kernels.sort_by_key(|kernel| (came[kernel], *kernel));
    let updates = (0..).zip(&kernels).map(|(place, &kernel)| (kernel, place)).collect();
    let cells = of_kind.iter().enumerate().map(|(i, of_day)| ((of_day.day, of_day.kernel), i)).collect();
    Order { updates, kernels, cells }
}

/// Release of a kernel: the day by which a twentieth of its boots had run. A single boot may have a wrong clock.
fn came(boots: &[(u32, f64)]) -> u32 {
    let mut boots = boots.to_vec();
    boots.sort_by_key(|&(day, _)| day);
    let all: f64 = boots.iter().map(|&(_, boots)| boots).sum();
    let mut until = 0.0;
    let place = boots.iter().find(|&&(_, boots)| {
        until += boots;
        until >= all / 20.0
    });
    place.map_or(0, |&(day, _)| day)
}

/// Position in time of each day. Days are numbered in the order in which they were read.
fn places_of_days(days: &Names) -> Vec<u32> {
    let mut by_name: Vec<u32> = (0..days.len()).filter_map(|i| u32::try_from(i).ok()).collect();
    by_name.sort_by_key(|&day| days.name(day));
    let mut places = vec![0; by_name.len()];
    for (place, &day) in (0..).zip(&by_name) {
        places[day as usize] = place;
    }
    places
}

fn series(sums: &Sums) -> Vec<Series> {
    let places = places_of_days(&sums.days);
    let orders: HashMap<u32, Order> =
        sums.boots.iter().map(|(&kind, of_kind)| (kind, order(of_kind, &places))).collect();
    let cell = |kind: u32, of_day: &OfDay, sum_ns: f64| Cell {
        day: places[of_day.day as usize],
        update: orders[&kind].updates[&of_day.kernel],
        runs: of_day.boots,
        mean: sum_ns / of_day.boots,
    };
    let mut all = Vec::new();
    for (&kind, of_kind) in &sums.boots {
        let cells = of_kind.iter().map(|of_day| cell(kind, of_day, of_day.total_ns)).collect();
        all.push(Series { kind, name: None, cells, raw: Vec::new(), far: 0 });
    }
    for rows in sums.rows.chunk_by(|a, b| a.series == b.series) {
        let (kind, name) = rows[0].series;
        let Some(of_kind) = sums.boots.get(&kind) else { continue };
        let in_all: f64 = of_kind.iter().map(|of_day| of_day.total_ns).sum();
        if rows.iter().map(|row| row.self_ns).sum::<f64>() < MIN_SHARE * in_all {
            continue;
        }
        // A boot without the row counts as 0.
        let mut of_cells = vec![0.0; of_kind.len()];
        for row in rows {
            // While another process adds boots, rows may lack their boots.
            if let Some(&place) = orders[&kind].cells.get(&(row.day, row.kernel)) {
                of_cells[place] += row.self_ns;
            }
        }
        let cells = of_kind.iter().zip(of_cells).map(|(of_day, sum)| cell(kind, of_day, sum)).collect();
        all.push(Series { kind, name: Some(name), cells, raw: Vec::new(), far: 0 });
    }
    all
}

/// The series of a family that may have a change.
fn chosen(family: Vec<Series>) -> Vec<Series> {
    let p = |series: &Series| clearest(&series.cells).map_or(1.0, |change| change.p);
    let corrected = false_discoveries::corrected(&family.iter().map(p).collect::<Vec<f64>>());
    family.into_iter().zip(corrected).filter(|(_, p)| *p <= MAX_SELECTION_P).map(|(series, _)| series).collect()
}

/// The same series, computed from single boots.
async fn boot_by_boot(
    engine: &Engine,
    filter: &FilterArgs,
    sums: &Sums,
    mut chosen: Vec<Series>,
) -> anyhow::Result<Vec<Series>> {
    if chosen.is_empty() {
        return Ok(chosen);
    }
    let places: HashMap<(u32, Option<u32>), usize> =
        chosen.iter().enumerate().map(|(i, series)| ((series.kind, series.name), i)).collect();
    let mut found: Vec<Boots> = chosen.iter().map(|_| Boots::default()).collect();
    let mut machines = Names::default();
    let is_of_rows = chosen.iter().any(|series| series.name.is_some());
    let list = |names: BTreeSet<&str>| names.into_iter().map(text).collect::<Vec<_>>().join(", ");
    let hardware = |kind: u32| parts_of(sums.kinds.name(kind)).0;
    let kinds = list(chosen.iter().map(|series| hardware(series.kind)).collect());
    let names = list(chosen.iter().filter_map(|series| series.name).map(|name| sums.names.name(name)).collect());
    let condition = format!("{} AND coalesce(hardware, '') IN ({kinds})", filter.sql_of_time());
    let sql = if is_of_rows {
        format!(
            "SELECT hardware, time_base, kernel, day, self_ns, name, machine FROM rows WHERE ended AND {condition} AND name IN ({names})"
        )
    } else {
        format!(
            "SELECT hardware, time_base, kernel, day, total_ns, '', machine FROM boots WHERE total_ns IS NOT NULL AND {condition}"
        )
    };
    let (kind_numbers, name_numbers) = (&sums.kinds, &sums.names);
    each(engine, &sql, |part| {
        let texts = [part.texts(0)?, part.texts(1)?, part.texts(2)?, part.texts(3)?, part.texts(5)?];
        let (ns, machine) = (part.numbers(4)?, part.texts(6)?);
        for row in 0..part.rows() {
            let [hardware, time_base, kernel, day, name] = [0, 1, 2, 3, 4].map(|i| at(&texts[i], row));
            let kind = kind_numbers.known(&kind(hardware, time_base));
            let name = if is_of_rows { name_numbers.known(name).map(Some) } else { Some(None) };
            let place = kind.zip(name).and_then(|key| places.get(&key));
            let cell = sums.days.known(day).zip(sums.kernels.known(kernel));
            if let Some((&place, cell)) = place.zip(cell) {
                let machine = Some(at(&machine, row)).filter(|name| !name.is_empty()).map(|name| machines.number(name));
                found[place].entry(cell).or_default().push(Boot { machine, ns: ns.value(row) });
            }
        }
        Ok(())
    })
    .await?;
    let days = places_of_days(&sums.days);
    for (series, boots) in chosen.iter_mut().zip(found) {
        let of_kind = &sums.boots[&series.kind];
        series.raw = series.cells.clone();
        (series.cells, series.far) = of_single_boots(series, of_kind, boots, &days);
    }
    Ok(chosen)
}

/// The cells with means of the comparable times, and the number of outliers.
fn of_single_boots(series: &Series, of_kind: &[OfDay], mut boots: Boots, days: &[u32]) -> (Vec<Cell>, u64) {
    // A boot without the row counts as 0.
    for of_day in of_kind {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is a count")]
        let all = of_day.boots as usize;
        let of_cell = boots.entry((of_day.day, of_day.kernel)).or_default();
        of_cell.resize(of_cell.len().max(all), Boot { machine: None, ns: 0.0 });
    }
    single_boots::take_off_machines(&mut boots, days);
    let far = single_boots::draw_nearer(&mut boots, days);
    let cells = of_kind.iter().zip(&series.cells).map(|(of_day, cell)| {
        let of_cell = &boots[&(of_day.day, of_day.kernel)];
        Cell { mean: of_cell.iter().map(|boot| boot.ns).sum::<f64>() / of_cell.len() as f64, ..*cell }
    });
    (cells.collect(), far)
}

/// The significant changes of a family. `looked_at` is the number of series in the family.
fn found_in(sums: &Sums, chosen: Vec<Series>, looked_at: usize) -> Vec<Row> {
    let mut found = Vec::new();
    let mut open = chosen;
    for _ in 0..MAX_DEPTH {
        let changes: Vec<Option<Change>> = open.iter().map(|series| clearest(&series.cells)).collect();
        // Correct each direction separately: the faster ones are not listed and must not make slower ones more significant.
        let [slower, faster] = [true, false].map(|is_slower| {
            let p = |change: &Option<Change>| {
                change.filter(|of| (of.after > of.before) == is_slower).map_or(1.0, |of| of.p)
            };
            let mut p_values: Vec<f64> = changes.iter().map(p).collect();
            // Correct the parts for at least as many tests as there were series.
            p_values.resize(p_values.len().max(looked_at), 1.0);
            false_discoveries::corrected(&p_values)
        });
        let corrected = slower.into_iter().zip(faster).map(|(slower, faster)| slower.min(faster));
        let mut parts = Vec::new();
        for ((series, change), p) in open.into_iter().zip(changes).zip(corrected) {
            let Some(change) = change.filter(|_| p <= ALPHA) else { continue };
            found.push(row(sums, &series, &change, p));
            for side in [false, true] {
                let of_side =
                    |cells: &[Cell]| cells.iter().filter(|cell| change.at.is_after(cell) == side).copied().collect();
                parts.push(Series { cells: of_side(&series.cells), raw: of_side(&series.raw), ..series });
            }
        }
        open = parts;
        if open.is_empty() {
            break;
        }
    }
    found
}

/// Mean over the boots of one side of a change.
fn mean(cells: &[Cell], at: At, side: bool) -> f64 {
    let of_side = || cells.iter().filter(|cell| at.is_after(cell) == side);
    let sum: f64 = of_side().map(|cell| cell.runs * cell.mean).sum();
    sum / of_side().map(|cell| cell.runs).sum::<f64>()
}

fn row(sums: &Sums, series: &Series, change: &Change, p: f64) -> Row {
    let of_kind = &sums.boots[&series.kind];
    let places = places_of_days(&sums.days);
    let kernel = match change.at {
        At::Update(update) => order(of_kind, &places).kernels.get(update as usize).copied(),
        At::Day(_) => None,
    };
    let first = series.cells.iter().filter(|cell| change.at.is_after(cell)).map(|cell| cell.day).min().unwrap_or(0);
    let day = (0..).zip(&places).find(|&(_, &place)| place == first).map_or(0, |(day, _)| day);
    // The comparable times decide that there is a change. The original times give its size.
    let (before, after) = (mean(&series.raw, change.at, false), mean(&series.raw, change.at, true));
    let slower_ns = after - before;
    let half = student_t::half_width(change.freedom) * change.error;
    let near_ns = change.after - change.before;
    let last = series.cells.iter().map(|cell| cell.day).max().unwrap_or(0);
    let of_week = series.cells.iter().filter(|cell| cell.day + WEEK_DAYS > last);
    let days = of_week.clone().map(|cell| cell.day).collect::<BTreeSet<u32>>().len();
    let boots_a_day = of_week.map(|cell| cell.runs).sum::<f64>() / days.max(1) as f64;
    let (hardware, time_base) = parts_of(sums.kinds.name(series.kind));
    let count = |runs: f64| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is a count")]
        let count = runs.round() as u64;
        count
    };
    Row {
        name: series.name.map(|name| sums.names.name(name).to_owned()),
        hardware: hardware.to_owned(),
        time_base: time_base.to_owned(),
        kernel: kernel.map(|kernel| sums.kernels.name(kernel).to_owned()),
        since: sums.days.name(day).to_owned(),
        before_ns: before,
        after_ns: after,
        slower_ns,
        near_ns,
        slower_low_ns: near_ns - half,
        slower_high_ns: near_ns + half,
        ratio: (before > 0.0).then(|| after / before),
        p,
        boots_before: count(change.runs_before),
        boots_after: count(change.runs_after),
        boots_far_off: series.far,
        per_day_ns: slower_ns * boots_a_day,
    }
}
