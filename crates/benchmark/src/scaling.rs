//! Scaling of a boot and its rows along each axis of a sweep's grid, with the other axes held.
//!
//! An axis has sizes if its values differ only in one number: `cpus=1,2,4`, `memory=256M,1G`,
//! `append=messages=100,messages=200`. The unit of a size is a CPU, a GiB, or the number itself.
//!
//! A row counts as growing only if its p-value, corrected for all rows and axes, is at most 5 % ([`max_t::growth`]). Rows add
//! up to the total, and so do scaling models of one kind. So a row gets the total's model if that predicts the row as well.
//! If it does not, the sum of the rows' models may differ from the total's prediction; both are reported.

use crate::head::{Axis, Head, Setting, Variant};
use crate::runs::{Boot, counted};
use crate::samples::{parts, reached, rows_of, with_zeros};
use serde::{Deserialize, Serialize};
use statistics::scaling_model::{Fitted, ScalingModel, scaling_model, scaling_model_of_part};
use statistics::{CONFIDENCE, max_t};
use std::collections::{BTreeMap, BTreeSet};

/// Scaling of the boot along one axis of the grid with the others held.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "Slice")]
pub struct AxisScaling {
    /// The swept option: the axis' key.
    pub key: String,
    /// Unit of a size: `CPU`, `GiB`, or empty.
    pub unit: String,
    /// The values at which the other axes are held.
    pub held: Vec<Setting>,
    /// The total first, then the rows that grow, the fastest-growing first.
    pub rows: Vec<RowScaling>,
    /// Number of rows without proven growth, or with growth of less than a thousandth of the boot.
    pub level: usize,
    /// The test that distinguished growth from chance.
    #[serde(default, rename = "told_by")]
    pub test: GrowthTest,
}

/// A test that distinguishes growth from chance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "ToldBy")]
pub enum GrowthTest {
    /// All rows along all axes are tested together. The chance that any row is listed falsely is at most 5 %.
    #[default]
    AllTogether,
    /// There are too few boots to show that any row grows, so no row is listed.
    TooFew,
    /// The boots only repeat, so chance is not involved.
    Repeated,
}

/// The scaling model of one row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RowScaling {
    /// Name of the row; `total` is the whole boot.
    pub name: String,
    /// The chosen model.
    #[serde(rename = "law")]
    pub model: ScalingModel,
    /// Models that predict as well.
    pub alike: Vec<ScalingModel>,
    /// The part that does not grow, in ns.
    pub base: f64,
    /// Increase per unit of `n`, `n log₂ n` or `n²`, in ns.
    pub slope: f64,
    /// Half the 95 % interval of the slope. Null if there is no scatter from which to compute it.
    pub slope_error: Option<f64>,
    /// True if a linear model is 0 at a size of 1, within its error. For CPUs, a view then prints the cost of each application
    /// processor. `base` and `slope` still refer to `n` counted from 0.
    pub from_one: bool,
    /// Mean of the boots of each size.
    pub points: Vec<Point>,
    /// The model's values at the sizes of `--at`.
    pub predicted: Vec<Predicted>,
    /// Probability that by chance alone any row along any axis seems to grow as much. Null for the total, and if chance is not
    /// involved.
    #[serde(default)]
    pub p_corrected: Option<f64>,
}

/// The boots of one size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Point {
    /// The size, in the unit of the axis.
    pub size: f64,
    /// Number of boots.
    pub boots: usize,
    /// Mean of the boots, in ns.
    pub mean: f64,
}

/// Prediction of a scaling model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Predicted {
    /// The size, in the unit of the axis.
    pub size: f64,
    /// The predicted time, in ns.
    pub time: f64,
    /// Largest distance of one more boot from the prediction, with 95 % confidence, if the model holds there. Null if unknown. For
    /// the total it is at least the distance between `time` and `rows`.
    pub band: Option<f64>,
    /// For the total: the sum of all rows' models at this size. A row that does not grow counts with its mean.
    #[serde(default)]
    pub rows: Option<f64>,
}

/// Name of the whole boot.
pub const TOTAL: &str = "total";
/// Minimum growth of a listed row, as a share of the longest boot.
const MIN_GROWTH: f64 = 0.001;

/// An axis of the grid with the others held, before models are fitted.
struct Unfitted<'a> {
    axis: &'a Axis,
    unit: &'static str,
    held: Vec<Setting>,
    /// Its variants and their sizes.
    along: Vec<(usize, f64)>,
}

/// Scaling of a sweep's boots along each axis, once for each choice of the other axes' values. Empty if no axis has sizes.
pub fn along_axes(head: &Head, boots: &[Boot]) -> Vec<AxisScaling> {
    let mut unfitted: Vec<Unfitted> = Vec::new();
    for axis in &head.sweep {
        let Some((sizes, unit)) = sizes(axis) else { continue };
        let mut held: Vec<Vec<Setting>> = Vec::new();
        for others in head.variants.iter().map(|variant| others(variant, axis)) {
            if !held.contains(&others) {
                held.push(others);
            }
        }
        for held in held {
            let size = |variant: &Variant| {
                let setting = variant.settings.iter().find(|s| s.key == axis.key)?;
                sizes.get(axis.values.iter().position(|value| *value == setting.value)?).copied()
            };
            let along = head.variants.iter().enumerate().filter(|(_, v)| others(v, axis) == held);
            let along = along.filter_map(|(i, v)| Some((i, size(v)?))).collect();
            unfitted.push(Unfitted { axis, unit, held, along });
        }
    }
    let axes = unfitted.len();
    let fit = |line: Unfitted| {
        let (rows, level, test) = Fitter { head, boots, axes }.along(&line.along);
        AxisScaling { key: line.axis.key.clone(), unit: line.unit.to_owned(), held: line.held, rows, level, test }
    };
    unfitted.into_iter().map(fit).collect()
}

fn others(variant: &Variant, axis: &Axis) -> Vec<Setting> {
    variant.settings.iter().filter(|setting| setting.key != axis.key).cloned().collect()
}

/// An axis' sizes and their unit. `None` if a size is not a number above zero, or if all are the same.
fn sizes(axis: &Axis) -> Option<(Vec<f64>, &'static str)> {
    let (sizes, unit): (Option<Vec<f64>>, _) = match axis.key.as_str() {
        "memory" => (axis.values.iter().map(|value| gibibytes(value)).collect(), "GiB"),
        "cpus" => (numbers(&axis.values), "CPU"),
        _ => (numbers(&axis.values), ""),
    };
    let sizes = sizes?;
    let first = *sizes.first()?;
    (sizes.iter().all(|&size| size > 0.0) && sizes.iter().any(|&size| size != first)).then_some((sizes, unit))
}

/// Converts a size of memory, such as `256M`, to units of 2^30 bytes.
pub(crate) fn gibibytes(text: &str) -> Option<f64> {
    timeline::amount::bytes(text).ok().map(|bytes| bytes as f64 / f64::from(1 << 30))
}

/// The number in each value. `None` unless the values differ only in one number.
fn numbers(values: &[String]) -> Option<Vec<f64>> {
    let common = |length: fn(&str, &str) -> usize| {
        let first = values.first().map_or("", String::as_str);
        values.iter().map(|value| length(first, value)).min().unwrap_or(0)
    };
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let first = values.first()?;
    // Digits at the end of the common prefix belong to the number.
    let mut from = common(|a, b| a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count());
    while !first.is_char_boundary(from) || first[..from].ends_with(is_number) {
        from -= 1;
    }
    let after = |text: &str| text[from..].trim_start_matches(is_number).to_owned();
    if values.iter().any(|value| after(value) != after(first)) {
        return None;
    }
    values.iter().map(|value| value[from..value.len() - after(value).len()].parse().ok()).collect()
}

/// Fits scaling models along axes. `axes` is their number, counted once for each choice of the other axes' values.
struct Fitter<'a> {
    head: &'a Head,
    boots: &'a [Boot],
    axes: usize,
}

/// Size and round of a boot along an axis.
type Sized = (f64, u32);

impl Fitter<'_> {
    /// The models of the total and of the rows that grow, the number of the other rows, and the test of growth.
    fn along(&self, along: &[(usize, f64)]) -> (Vec<RowScaling>, usize, GrowthTest) {
        let (mut totals, mut variants, mut boots) = (Vec::new(), Vec::new(), Vec::<Sized>::new());
        for &(variant, size) in along {
            totals.extend(counted(self.boots, variant).into_values().map(|total| (size, total)));
            let rounds: Vec<u32> = reached(self.boots, variant).map(|(round, _)| round).collect();
            boots.extend(rounds.iter().map(|&round| (size, round)));
            variants.push((rounds, parts(self.boots, variant, rows_of)));
        }
        let too_few = (Vec::new(), 0, GrowthTest::TooFew);
        let Some(total_fit) = scaling_model(&totals) else { return too_few };
        let names: BTreeSet<&str> = variants.iter().flat_map(|(_, parts)| parts.keys().copied()).collect();
        let values = |name: &&str| -> Vec<f64> {
            let of = |(rounds, parts): &(Vec<u32>, _)| with_zeros(BTreeMap::get(parts, *name), rounds).into_values();
            variants.iter().flat_map(of).collect()
        };
        let all: Vec<Vec<f64>> = names.iter().map(values).collect();
        let (p_values, test) = self.chances(&all, boots);
        let longest = totals.iter().map(|run| run.1).fold(0.0, f64::max);
        let row = |((name, values), p): ((&&str, &Vec<f64>), &Option<f64>)| {
            let runs: Vec<(f64, f64)> = totals.iter().map(|run| run.0).zip(values.iter().copied()).collect();
            let fit = scaling_model_of_part(&runs, total_fit.model)?;
            let row = row_scaling(name, &fit, &runs, &self.head.at);
            let seen = p.is_none_or(|p| p <= 1.0 - CONFIDENCE) && test != GrowthTest::TooFew;
            let grows = seen && fit.model != ScalingModel::Constant && row.growth() > MIN_GROWTH * longest;
            grows.then_some(RowScaling { p_corrected: *p, ..row })
        };
        let grown: Vec<Option<RowScaling>> = names.iter().zip(&all).zip(&p_values).map(row).collect();
        let mut total = row_scaling(TOTAL, &total_fit, &totals, &self.head.at);
        add_up(&mut total, &grown, &all);
        let level = grown.iter().filter(|row| row.is_none()).count();
        let mut rows: Vec<RowScaling> = grown.into_iter().flatten().collect();
        rows.sort_by(|a, b| b.growth().total_cmp(&a.growth()));
        rows.insert(0, total);
        (rows, level, test)
    }

    /// Probability that each row seems to grow by chance, corrected for all rows and axes.
    fn chances(&self, rows: &[Vec<f64>], mut boots: Vec<Sized>) -> (Vec<Option<f64>>, GrowthTest) {
        if self.head.deterministic {
            if !self.head.dithered {
                return (vec![None; rows.len()], GrowthTest::Repeated);
            }
            // Deterministic boots do not drift, so all boots are one block.
            boots.iter_mut().for_each(|boot| boot.1 = 0);
        }
        match max_t::growth(rows, &boots) {
            None => (vec![None; rows.len()], GrowthTest::TooFew),
            Some(p) => {
                (p.into_iter().map(|p| Some((p * self.axes as f64).min(1.0))).collect(), GrowthTest::AllTogether)
            }
        }
    }
}

/// Stores the sum of the rows' models at each predicted size. Widens the total's band to reach that sum.
fn add_up(total: &mut RowScaling, rows: &[Option<RowScaling>], values: &[Vec<f64>]) {
    for (i, predicted) in total.predicted.iter_mut().enumerate() {
        let one = |(row, values): (&Option<RowScaling>, &Vec<f64>)| match row {
            Some(row) => row.predicted[i].time,
            None => values.iter().sum::<f64>() / values.len().max(1) as f64,
        };
        let sum: f64 = rows.iter().zip(values).map(one).sum();
        if !rows.is_empty() {
            predicted.rows = Some(sum);
            predicted.band = predicted.band.map(|band| band.max((sum - predicted.time).abs()));
        }
    }
}

fn row_scaling(name: &str, fitted: &Fitted, runs: &[(f64, f64)], at: &[f64]) -> RowScaling {
    RowScaling {
        name: name.to_owned(),
        model: fitted.model,
        alike: fitted.alike.clone(),
        base: fitted.base,
        slope: fitted.slope,
        slope_error: fitted.slope_error,
        from_one: fitted.model == ScalingModel::Linear && nothing_at_one(fitted),
        points: points(runs),
        predicted: at.iter().map(|&size| predicted(fitted, size)).collect(),
        p_corrected: None,
    }
}

/// Share of the slope that counts as 0.
const NEGLIGIBLE_SHARE: f64 = 0.02;

fn nothing_at_one(fitted: &Fitted) -> bool {
    fitted.at(1.0).abs() <= fitted.error_at(1.0).unwrap_or(0.0).max(NEGLIGIBLE_SHARE * fitted.slope.abs())
}

fn predicted(fitted: &Fitted, size: f64) -> Predicted {
    // A time is never negative.
    Predicted { size, time: fitted.at(size).max(0.0), band: fitted.band_at(size), rows: None }
}

fn points(runs: &[(f64, f64)]) -> Vec<Point> {
    let mut points: Vec<Point> = Vec::new();
    for &(size, ns) in runs {
        match points.iter_mut().find(|point| point.size == size) {
            Some(point) => {
                point.mean = (point.mean * point.boots as f64 + ns) / (point.boots + 1) as f64;
                point.boots += 1;
            }
            None => points.push(Point { size, boots: 1, mean: ns }),
        }
    }
    points.sort_by(|a, b| a.size.total_cmp(&b.size));
    points
}

impl RowScaling {
    /// Difference between the largest and the smallest mean of its sizes, in ns.
    fn growth(&self) -> f64 {
        let means = || self.points.iter().map(|point| point.mean);
        means().fold(f64::NEG_INFINITY, f64::max) - means().fold(f64::INFINITY, f64::min)
    }

    /// Value of the model at a size, in ns.
    pub fn at(&self, size: f64) -> f64 {
        self.base + self.slope * self.model.of(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::{Measured, PhaseTime, Plan, Stop};

    fn setting(key: &str, value: &str) -> Setting {
        Setting { key: key.to_owned(), value: value.to_owned() }
    }

    /// A grid of CPUs and memory: 40 ms per AP, 10 ms per GiB, and a constant part.
    fn sweep() -> (Head, Vec<Boot>) {
        let (cpus, memory) = (["1", "2", "4", "8"], ["512M", "1G"]);
        let points = || cpus.iter().flat_map(|c| memory.iter().map(move |m| (*c, *m)));
        let variant = |(c, m): (&str, &str)| Variant {
            settings: vec![setting("cpus", c), setting("memory", m)],
            ..Variant::named(&format!("cpus={c} memory={m}"))
        };
        let stop = Stop { rounds: 10, ..Stop::default() };
        let plan = Plan { variants: 8, warm_ups: 0, stop, seed: 1, ..Plan::default() };
        let axis = |key: &str, values: &[&str]| Axis {
            key: key.to_owned(),
            values: values.iter().map(|&v| v.to_owned()).collect(),
        };
        let head = Head {
            sweep: vec![axis("cpus", &cpus), axis("memory", &memory)],
            at: vec![128.0],
            ..Head::of(plan, points().map(variant).collect())
        };
        let mut random = fastrand::Rng::with_seed(4);
        let mut boot = |(variant, (c, m)): (usize, (&str, &str)), round| {
            let (aps, gib) = (c.parse::<f64>().unwrap() - 1.0, gibibytes(m).unwrap());
            let mut row = |name: &str, ms: f64| PhaseTime {
                waited_ns: 0,
                name: name.to_owned(),
                ns: ((ms + if ms > 0.0 { random.f64() } else { 0.0 }) * 1e6) as i64,
            };
            let rows = vec![row("start_aps", 40.0 * aps), row("vm_page", 10.0 * gib), row("rest", 300.0)];
            let total_ns = Some(rows.iter().map(|r| r.ns).sum());
            let measured = Measured { outcome: "reached".to_owned(), total_ns, rows, ..Measured::default() };
            Boot { number: 0, round: Some(round), variant, began_ns: 0, measured }
        };
        let boots =
            (0..10).flat_map(|round| points().enumerate().map(|p| boot(p, round)).collect::<Vec<_>>()).collect();
        (head, boots)
    }

    #[test]
    fn each_axis_has_its_model() {
        let (head, boots) = sweep();
        let grown = along_axes(&head, &boots);
        let of = |key: &str| grown.iter().filter(|s| s.key == key).collect::<Vec<_>>();
        assert_eq!((of("cpus").len(), of("memory").len()), (2, 4));
        for axis in of("cpus") {
            let names: Vec<&str> = axis.rows.iter().map(|row| row.name.as_str()).collect();
            assert_eq!((names, axis.level, axis.unit.as_str()), (vec!["total", "start_aps"], 2, "CPU"));
            let aps = &axis.rows[1];
            assert!(
                aps.model == ScalingModel::Linear && aps.from_one && (aps.slope / 1e6 - 40.0).abs() < 0.5,
                "{aps:?}"
            );
            assert!(aps.slope_error.unwrap() < 0.5e6 && aps.points.len() == 4);
            let predicted = aps.predicted[0];
            let truth = 40e6 * 127.0;
            assert!((predicted.time - truth).abs() < 2.0 * predicted.band.unwrap() && predicted.size == 128.0);
        }
        let memory = &of("memory")[0].rows[1];
        assert!(memory.name == "vm_page" && (memory.slope / 1e6 - 10.0).abs() < 2.0, "{memory:?}");
    }

    /// Rows by name, in ms.
    type Rows = Vec<(String, f64)>;

    /// A sweep of CPUs whose boots have these rows, by size and a random number.
    fn grown_rows(rounds: u32, rows: &dyn Fn(f64, &mut fastrand::Rng) -> Rows) -> AxisScaling {
        let sizes = ["1", "2", "4", "8"];
        let variant = |c: &str| Variant { settings: vec![setting("cpus", c)], ..Variant::named(c) };
        let plan =
            Plan { variants: 4, warm_ups: 0, stop: Stop { rounds, ..Stop::default() }, seed: 1, ..Plan::default() };
        let values = sizes.map(str::to_owned).to_vec();
        let head = Head {
            sweep: vec![Axis { key: "cpus".to_owned(), values }],
            at: vec![128.0],
            ..Head::of(plan, sizes.map(variant).to_vec())
        };
        let mut random = fastrand::Rng::with_seed(6);
        let mut boots = Vec::new();
        for round in 0..rounds {
            for (variant, size) in sizes.iter().enumerate() {
                let rows = rows(size.parse().unwrap(), &mut random);
                let rows: Vec<PhaseTime> = rows
                    .into_iter()
                    .map(|(name, ms)| PhaseTime { name, ns: (ms * 1e6) as i64, waited_ns: 0 })
                    .collect();
                let total_ns = Some(rows.iter().map(|r| r.ns).sum());
                let measured = Measured { outcome: "reached".to_owned(), total_ns, rows, ..Measured::default() };
                boots.push(Boot { number: 0, round: Some(round), variant, began_ns: 0, measured });
            }
        }
        along_axes(&head, &boots).remove(0)
    }

    #[test]
    fn many_rows_that_do_not_grow_are_not_listed() {
        // 165 rows of 4 to 8 ms that scatter by 10 %: tested alone, each would seem to grow in 5 of 100 cases.
        let scaling = grown_rows(5, &|_, random| {
            (0..165).map(|i| (format!("row {i}"), (4.0 + f64::from(i) / 40.0) * (0.8 + 0.4 * random.f64()))).collect()
        });
        assert_eq!(
            (scaling.rows.len(), scaling.level, scaling.test),
            (1, 165, GrowthTest::AllTogether),
            "{:?}",
            scaling.rows
        );
        let few = grown_rows(1, &|size, _| vec![("grows".to_owned(), size)]);
        assert_eq!((few.rows.len(), few.level), (2, 0), "four sizes in order come by chance in 1 of 24: {few:?}");
    }

    #[test]
    fn rows_follow_the_model_of_the_total() {
        // Each row is a line with noise, and alone would often look curved.
        let scaling = grown_rows(5, &|size, random| {
            (0..8).map(|i| (format!("row {i}"), 20.0 + size * (1.0 + 0.8 * (random.f64() - 0.5)))).collect()
        });
        let total = &scaling.rows[0];
        let predicted = total.predicted[0];
        assert!(total.model == ScalingModel::Linear && scaling.rows.len() == 9, "{scaling:?}");
        assert!(
            scaling.rows[1..].iter().all(|row| row.model == ScalingModel::Linear && row.p_corrected.unwrap() <= 0.05)
        );
        assert!((predicted.rows.unwrap() / predicted.time - 1.0).abs() < 1e-6, "{predicted:?}");
        let sum: f64 = scaling.rows[1..].iter().map(|row| row.slope).sum();
        assert!((sum / total.slope - 1.0).abs() < 1e-6);
    }

    #[test]
    fn a_row_that_outgrows_the_total_widens_its_band() {
        // The total looks like a line, because its curved part is still small.
        let scaling = grown_rows(5, &|size, random| {
            let line = 100.0 + 30.0 * size + 12.0 * (random.f64() - 0.5);
            vec![("line".to_owned(), line), ("curved".to_owned(), 0.3 * size * size + 0.1 * random.f64())]
        });
        let predicted = scaling.rows[0].predicted[0];
        assert!(
            scaling.rows.iter().any(|row| row.name == "curved" && row.model == ScalingModel::Quadratic),
            "{scaling:?}"
        );
        let apart = (predicted.rows.unwrap() - predicted.time).abs();
        assert!(
            scaling.rows[0].model == ScalingModel::Linear && apart > 1e9 && predicted.band.unwrap() >= apart,
            "{predicted:?}"
        );
    }

    #[test]
    fn sizes_are_the_numbers_that_differ() {
        let check = |key: &str, values: &[&str], expected: Option<Vec<f64>>| {
            let axis = Axis { key: key.to_owned(), values: values.iter().map(|&v| v.to_owned()).collect() };
            assert_eq!(sizes(&axis).map(|(sizes, _)| sizes), expected, "{values:?}");
        };
        check("cpus", &["1", "2", "16"], Some(vec![1.0, 2.0, 16.0]));
        check("memory", &["512M", "2G"], Some(vec![0.5, 2.0]));
        check("append", &["quiet messages=100", "quiet messages=1000"], Some(vec![100.0, 1000.0]));
        check("append", &["a=10 b", "a=100 b"], Some(vec![10.0, 100.0]));
        check("append", &["quiet", "quiet acpi=off"], None);
        check("append", &["a=1 b=2", "a=2 b=1"], None);
        check("cpus", &["2", "2"], None);
        check("machine", &["pc", "q35"], None);
        check("append", &["µ1", "ö2"], None);
    }

    #[test]
    fn a_point_is_the_mean_of_all_boots_of_its_size() {
        let found = points(&[(2.0, 4.0), (1.0, 7.0), (2.0, 5.0), (2.0, 9.0)]);
        assert_eq!(found, [Point { size: 1.0, boots: 1, mean: 7.0 }, Point { size: 2.0, boots: 3, mean: 6.0 }]);
    }
}
