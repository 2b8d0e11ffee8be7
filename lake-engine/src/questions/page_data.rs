//! Prints the data of a lake's page as one document, `bootscope.lake-page/1`. `bootscope lake page` draws it.

use super::boot_times::{Grouping, percentiles};
use super::sums::{at, each};
use super::{Engine, FilterArgs, Found, coverage, outliers, regressions, slowest_rows, what_pays};
use crate::LakeArgs;
use crate::answer::Fields;
use crate::engine::text;
use anyhow::Context as _;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::io::{Write as _, stdout};
use std::process::ExitCode;

/// Maximum length of each list.
const MAX_LISTED: usize = 1000;
/// Maximum number of boots listed for a regression.
const MAX_BOOTS: usize = 5;

/// Print what a page of the lake shows, as JSON
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    lake: LakeArgs,
    #[command(flatten)]
    filter: FilterArgs,
}

#[derive(Serialize)]
struct Kind {
    hardware: String,
    time_base: String,
    boots: u64,
    machines: u64,
    cells: Vec<Cell>,
}

/// Boots of one day with one kernel.
#[derive(Serialize)]
struct Cell {
    /// Index in `days`.
    day: usize,
    /// Index in `kernels`.
    kernel: usize,
    /// Number of boots, including those that did not reach an end mark.
    boots: u64,
    not_ended: u64,
    p50_ns: Option<f64>,
    p95_ns: Option<f64>,
}

pub async fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let engine = args.lake.open().await?;
    let filter = &args.filter;
    let (days, kernels, kinds) = kinds(&engine, filter).await?;
    let mut regressions = regressions::ask(&engine, filter).await?;
    regressions.rows.truncate(MAX_LISTED);
    behind(&engine, filter, &mut regressions.rows).await?;
    let slowest = slowest_rows::ask(&engine, filter, &["os".to_owned()]).await?;
    let outliers = outliers::ask(&engine, filter).await?;
    let pays = what_pays::ask(&engine, filter).await?;
    let missing = coverage::ask(&engine, filter).await?;
    let listed = |found: &Found| found.rows.iter().take(MAX_LISTED).cloned().collect::<Vec<Fields>>();
    let document = json!({
        "schema": "bootscope.lake-page/1",
        "lake": engine.lake,
        "since": filter.since(),
        "boots": kinds.iter().map(|kind| kind.boots).sum::<u64>(),
        "machines": kinds.iter().map(|kind| kind.machines).sum::<u64>(),
        "days": days,
        "kernels": kernels,
        "kinds": kinds,
        "regressions": regressions.rows,
        "slowest_rows": listed(&slowest),
        "outliers": listed(&outliers),
        "what_pays": listed(&pays),
        "missing": listed(&missing),
        "remarks": {
            "regressions": regressions.remarks,
            "slowest_rows": slowest.remarks,
            "outliers": outliers.remarks,
            "what_pays": pays.remarks,
            "missing": missing.remarks,
        },
    });
    let mut out = stdout().lock();
    serde_json::to_writer(&mut out, &document).context("cannot write to standard output")?;
    writeln!(out).context("cannot write to standard output")?;
    Ok(ExitCode::SUCCESS)
}

/// The days in order, the kernels in the order of their first day, and the boot times of each kind of machine.
async fn kinds(engine: &Engine, filter: &FilterArgs) -> anyhow::Result<(Vec<String>, Vec<String>, Vec<Kind>)> {
    let by: Vec<String> = ["hardware", "time_base", "day", "kernel"].map(str::to_owned).to_vec();
    let groups = percentiles(engine, filter, &Grouping::new(&by, &[])?).await?;
    let field = |group: &Fields, name: &str| group.text(name).to_owned();
    let mut days: BTreeMap<String, usize> = BTreeMap::new();
    let mut first_day: HashMap<String, String> = HashMap::new();
    for row in &groups {
        let (day, kernel) = (field(&row.group, "day"), field(&row.group, "kernel"));
        days.insert(day.clone(), 0);
        let first = first_day.entry(kernel).or_insert_with(|| day.clone());
        *first = day.min(first.clone());
    }
    (0..).zip(days.values_mut()).for_each(|(place, value)| *value = place);
    let mut kernels: Vec<String> = first_day.keys().cloned().collect();
    kernels.sort_by_key(|kernel| (first_day[kernel].clone(), kernel.clone()));
    let places: HashMap<&str, usize> = kernels.iter().enumerate().map(|(i, kernel)| (kernel.as_str(), i)).collect();
    let mut kinds: BTreeMap<(String, String), Kind> = BTreeMap::new();
    for row in &groups {
        let (hardware, time_base) = (field(&row.group, "hardware"), field(&row.group, "time_base"));
        let kind = kinds.entry((hardware.clone(), time_base.clone())).or_insert_with(|| Kind {
            hardware,
            time_base,
            boots: 0,
            machines: 0,
            cells: Vec::new(),
        });
        kind.boots += row.boots + row.not_ended;
        kind.cells.push(Cell {
            day: days[&field(&row.group, "day")],
            kernel: places[field(&row.group, "kernel").as_str()],
            boots: row.boots + row.not_ended,
            not_ended: row.not_ended,
            p50_ns: row.p50_ns,
            p95_ns: row.p95_ns,
        });
    }
    let sql = format!(
        "SELECT hardware, time_base, count(DISTINCT machine) FROM boots WHERE {} GROUP BY hardware, time_base",
        filter.sql()
    );
    each(engine, &sql, |part| {
        let (hardware, time_base, machines) = (part.texts(0)?, part.texts(1)?, part.integers(2)?);
        for row in 0..part.rows() {
            let kind = (at(&hardware, row).to_owned(), at(&time_base, row).to_owned());
            if let Some(kind) = kinds.get_mut(&kind) {
                kind.machines = u64::try_from(machines.value(row)).unwrap_or(0);
                kind.cells.sort_by_key(|cell| (cell.day, cell.kernel));
            }
        }
        Ok(())
    })
    .await?;
    Ok((days.into_keys().collect(), kernels, kinds.into_values().collect()))
}

/// Adds to each regression the boots after the change that spend the most time in the row.
async fn behind(engine: &Engine, filter: &FilterArgs, regressions: &mut [Fields]) -> anyhow::Result<()> {
    let of = |row: &Fields, field: &str| row.text(field).to_owned();
    let mut wanted: HashMap<(String, String, String), Vec<usize>> = HashMap::new();
    for (i, row) in regressions.iter().enumerate().filter(|(_, row)| row.get("name").is_string()) {
        wanted.entry((of(row, "hardware"), of(row, "time_base"), of(row, "name"))).or_default().push(i);
    }
    let mut most: Vec<Vec<Value>> = vec![Vec::new(); regressions.len()];
    if !wanted.is_empty() {
        let list = |texts: Vec<&String>| texts.into_iter().map(|one| text(one)).collect::<Vec<_>>().join(", ");
        let sql = format!(
            "SELECT r.hardware, r.time_base, r.name, r.kernel, r.day, r.boot_id, r.machine, b.total_ns, r.self_ns \
             FROM (SELECT * FROM rows WHERE ended AND {0} AND coalesce(hardware, '') IN ({1}) AND name IN ({2})) AS r \
             JOIN (SELECT boot_id, total_ns FROM boots WHERE {0}) AS b ON b.boot_id = r.boot_id",
            filter.sql(),
            list(wanted.keys().map(|(hardware, ..)| hardware).collect()),
            list(wanted.keys().map(|(.., name)| name).collect())
        );
        each(engine, &sql, |part| {
            let texts = (0..7).map(|i| part.texts(i)).collect::<anyhow::Result<Vec<_>>>()?;
            let (total, own) = (part.integers(7)?, part.integers(8)?);
            for row in 0..part.rows() {
                let text = |i: usize| at(&texts[i], row).to_owned();
                let Some(places) = wanted.get(&(text(0), text(1), text(2))) else { continue };
                for &place in places {
                    let regression = &regressions[place];
                    // Other kernels also run on the days after a kernel's first day, so compare the kernel, too.
                    let is_after = text(4) >= of(regression, "since")
                        && regression.get("kernel").as_str().is_none_or(|kernel| text(3) == kernel);
                    if is_after {
                        most[place].push(json!({
                            "boot_id": text(5), "day": text(4), "machine": text(6),
                            "total_ns": total.value(row), "self_ns": own.value(row),
                        }));
                        keep_most(&mut most[place]);
                    }
                }
            }
            Ok(())
        })
        .await?;
    }
    for (regression, boots) in regressions.iter_mut().zip(most) {
        regression.0.push(("boots".to_owned(), boots.into()));
    }
    Ok(())
}

/// Keeps the boots with the most time in the row.
fn keep_most(boots: &mut Vec<Value>) {
    boots.sort_by_key(|boot| std::cmp::Reverse(boot["self_ns"].as_i64()));
    boots.truncate(MAX_BOOTS);
}
