//! How a boot and its rows grow along each axis of a sweep's grid, all else held.
//!
//! An axis has sizes where each of its values holds one number and all else in them is equal: `cpus=1,2,4`,
//! `memory=256M,1G`, `append=messages=100,messages=200`. Sizes are counted in CPUs, in GiB, or in the number itself.
//!
//! A row is said to grow only if chance alone makes any of all rows, along all axes, look so at most 5 times of 100
//! ([`max_t::growth`]). Rows add up to the total, and so do scaling models of one kind. So a row gets the total's model where
//! that predicts it as well. Where it does not, the rows' sum may leave the total's own prediction: both are reported.

use crate::head::{Axis, Head, Setting, Variant};
use crate::runs::{Boot, counted};
use crate::samples::{parts, reached, rows_of, whole};
use serde::{Deserialize, Serialize};
use statistics::scaling_model::{Fitted, ScalingModel, scaling_model, scaling_model_of_part};
use statistics::{CONFIDENCE, max_t};
use std::collections::{BTreeMap, BTreeSet};

/// How the boot grows along one axis of the grid with the others held.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "Slice")]
pub struct AxisScaling {
    /// What grows: the axis' key.
    pub key: String,
    /// What a size is counted in: `CPU`, `GiB`, or empty.
    pub unit: String,
    /// The other axes' values.
    pub held: Vec<Setting>,
    /// The total first, then the rows that grow, those that grow most first.
    pub rows: Vec<RowScaling>,
    /// How many rows are not seen to grow, or by less than a thousandth of the boot.
    pub level: usize,
    /// How growth was distinguished from chance.
    #[serde(default, rename = "told_by")]
    pub test: GrowthTest,
}

/// How growth is distinguished from chance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "ToldBy")]
pub enum GrowthTest {
    /// All rows along all axes together: any false one at most 5 times of 100.
    #[default]
    AllTogether,
    /// Not at all: so few boots cannot show any row to grow, and none is listed.
    TooFew,
    /// The boots only repeat, and no chance is involved.
    Repeated,
}

/// The scaling model of one row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RowScaling {
    /// The row; `total` is the whole boot.
    pub name: String,
    /// How it grows.
    #[serde(rename = "law")]
    pub model: ScalingModel,
    /// Models that predict as well.
    pub alike: Vec<ScalingModel>,
    /// What does not grow, in ns.
    pub base: f64,
    /// What is added per unit of `n`, `n log₂ n` or `n²`, in ns.
    pub slope: f64,
    /// Half its 95 % interval; none where there is no scatter to tell it from.
    pub slope_error: Option<f64>,
    /// Whether a linear model costs nothing at a size of 1, as far as one can see: of CPUs, a view then says what each
    /// application processor costs. `base` and `slope` are of `n` from 0 all the same.
    pub from_one: bool,
    /// The mean of each size's boots.
    pub points: Vec<Point>,
    /// The model's values at the sizes of `--at`.
    pub predicted: Vec<Predicted>,
    /// How likely chance alone makes any row along any axis look as much like growing; none of the total, and where no chance is
    /// involved.
    #[serde(default)]
    pub p_corrected: Option<f64>,
}

/// The boots of one size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Point {
    /// The size.
    pub size: f64,
    /// How many boots.
    pub boots: usize,
    /// Their mean, in ns.
    pub mean: f64,
}

/// What a scaling model predicts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Predicted {
    /// The size.
    pub size: f64,
    /// The time, in ns.
    pub time: f64,
    /// One more boot lies no further from it, with 95 % confidence and if the model holds there; none where not known. That of
    /// the total is at least as wide as its distance from `rows`.
    pub band: Option<f64>,
    /// Of the total: the sum of all rows' models there; a row that does not grow counts with its mean.
    #[serde(default)]
    pub rows: Option<f64>,
}

/// The name of the whole boot.
pub const TOTAL: &str = "total";
/// Growth by a smaller share of the largest boot is not listed.
const SMALL: f64 = 0.001;

/// An axis of the grid with the others held, before its models are known.
struct Unfitted<'a> {
    axis: &'a Axis,
    unit: &'static str,
    held: Vec<Setting>,
    /// Its variants and their sizes.
    along: Vec<(usize, f64)>,
}

/// How a sweep's boots grow along each axis, once for each choice of the others' values; none where no axis has sizes.
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
                let own = variant.settings.iter().find(|s| s.key == axis.key)?;
                sizes.get(axis.values.iter().position(|value| *value == own.value)?).copied()
            };
            let along = head.variants.iter().enumerate().filter(|(_, v)| others(v, axis) == held);
            let along = along.filter_map(|(i, v)| Some((i, size(v)?))).collect();
            unfitted.push(Unfitted { axis, unit, held, along });
        }
    }
    let axes = unfitted.len();
    let fit = |line: Unfitted| {
        let (rows, level, test) = Grown { head, boots, axes }.along(&line.along);
        AxisScaling { key: line.axis.key.clone(), unit: line.unit.to_owned(), held: line.held, rows, level, test }
    };
    unfitted.into_iter().map(fit).collect()
}

fn others(variant: &Variant, axis: &Axis) -> Vec<Setting> {
    variant.settings.iter().filter(|setting| setting.key != axis.key).cloned().collect()
}

/// An axis' sizes and their unit; none if one of them is no number above zero, or all are the same.
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

/// `256M` in units of 2^30 bytes.
pub(crate) fn gibibytes(text: &str) -> Option<f64> {
    timeline::amount::bytes(text).ok().map(|bytes| bytes as f64 / f64::from(1 << 30))
}

/// The one number in each value, where all else is the same in all.
fn numbers(values: &[String]) -> Option<Vec<f64>> {
    let common = |length: fn(&str, &str) -> usize| {
        let first = values.first().map_or("", String::as_str);
        values.iter().map(|value| length(first, value)).min().unwrap_or(0)
    };
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let first = values.first()?;
    // Digits that all begin with are still part of the number.
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

/// What grows along each axis: so many, counted once for each choice of the others' values.
struct Grown<'a> {
    head: &'a Head,
    boots: &'a [Boot],
    axes: usize,
}

/// A boot along an axis: its size, and its round.
type Sized = (f64, u32);

impl Grown<'_> {
    /// The models of the total and of the rows that grow, how many rows do not, and how growth was distinguished from chance.
    fn along(&self, along: &[(usize, f64)]) -> (Vec<RowScaling>, usize, GrowthTest) {
        let (mut totals, mut variants, mut boots) = (Vec::new(), Vec::new(), Vec::<Sized>::new());
        for &(variant, size) in along {
            totals.extend(counted(self.boots, variant).into_values().map(|total| (size, total)));
            let rounds: Vec<u32> = reached(self.boots, variant).map(|(round, _)| round).collect();
            boots.extend(rounds.iter().map(|&round| (size, round)));
            variants.push((rounds, parts(self.boots, variant, rows_of)));
        }
        let nothing = (Vec::new(), 0, GrowthTest::TooFew);
        let Some(of_total) = scaling_model(&totals) else { return nothing };
        let names: BTreeSet<&str> = variants.iter().flat_map(|(_, parts)| parts.keys().copied()).collect();
        let values = |name: &&str| -> Vec<f64> {
            let of = |(rounds, parts): &(Vec<u32>, _)| whole(BTreeMap::get(parts, *name), rounds).into_values();
            variants.iter().flat_map(of).collect()
        };
        let all: Vec<Vec<f64>> = names.iter().map(values).collect();
        let (p_values, test) = self.chances(&all, boots);
        let longest = totals.iter().map(|run| run.1).fold(0.0, f64::max);
        let row = |((name, values), p): ((&&str, &Vec<f64>), &Option<f64>)| {
            let runs: Vec<(f64, f64)> = totals.iter().map(|run| run.0).zip(values.iter().copied()).collect();
            let found = scaling_model_of_part(&runs, of_total.model)?;
            let row = row_scaling(name, &found, &runs, &self.head.at);
            let seen = p.is_none_or(|p| p <= 1.0 - CONFIDENCE) && test != GrowthTest::TooFew;
            let grows = seen && found.model != ScalingModel::Constant && row.growth() > SMALL * longest;
            grows.then_some(RowScaling { p_corrected: *p, ..row })
        };
        let grown: Vec<Option<RowScaling>> = names.iter().zip(&all).zip(&p_values).map(row).collect();
        let mut total = row_scaling(TOTAL, &of_total, &totals, &self.head.at);
        add_up(&mut total, &grown, &all);
        let level = grown.iter().filter(|row| row.is_none()).count();
        let mut rows: Vec<RowScaling> = grown.into_iter().flatten().collect();
        rows.sort_by(|a, b| b.growth().total_cmp(&a.growth()));
        rows.insert(0, total);
        (rows, level, test)
    }

    /// How likely chance makes each row look like growing, corrected for all rows and axes.
    fn chances(&self, rows: &[Vec<f64>], mut boots: Vec<Sized>) -> (Vec<Option<f64>>, GrowthTest) {
        if self.head.deterministic {
            if !self.head.dithered {
                return (vec![None; rows.len()], GrowthTest::Repeated);
            }
            // Nothing drifts: all boots are one block.
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

/// Notes what the rows' models sum to at each predicted size. Where that differs from the total's own, its band widens.
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

fn row_scaling(name: &str, found: &Fitted, runs: &[(f64, f64)], at: &[f64]) -> RowScaling {
    RowScaling {
        name: name.to_owned(),
        model: found.model,
        alike: found.alike.clone(),
        base: found.base,
        slope: found.slope,
        slope_error: found.slope_error,
        from_one: found.model == ScalingModel::Linear && nothing_at_one(found),
        points: points(runs),
        predicted: at.iter().map(|&size| predicted(found, size)).collect(),
        p_corrected: None,
    }
}

/// Of what a unit adds, this share counts as nothing.
const NOTHING: f64 = 0.02;

fn nothing_at_one(found: &Fitted) -> bool {
    found.at(1.0).abs() <= found.error_at(1.0).unwrap_or(0.0).max(NOTHING * found.slope.abs())
}

fn predicted(found: &Fitted, size: f64) -> Predicted {
    // No time is less than none.
    Predicted { size, time: found.at(size).max(0.0), band: found.band_at(size), rows: None }
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
    /// By how much the means of its sizes differ, in ns.
    fn growth(&self) -> f64 {
        let means = || self.points.iter().map(|point| point.mean);
        means().fold(f64::NEG_INFINITY, f64::max) - means().fold(f64::INFINITY, f64::min)
    }

    /// The model's value at a size, in ns.
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

    /// A grid of CPUs and memory: 40 ms per AP, 10 ms per GiB, and what does not grow.
    fn sweep() -> (Head, Vec<Boot>) {
        let (cpus, memory) = (["1", "2", "4", "8"], ["512M", "1G"]);
        let points = || cpus.iter().flat_map(|c| memory.iter().map(move |m| (*c, *m)));
        let variant = |(c, m): (&str, &str)| Variant {
            settings: vec![setting("cpus", c), setting("memory", m)],
            ..Variant::named(&format!("cpus={c} memory={m}"))
        };
        let stop = Stop { rounds: 10, width: None, budget_ns: None };
        let plan = Plan { leaves_out: false, variants: 8, warm_ups: 0, stop, seed: 1 };
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
    fn each_side_has_its_model() {
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
        let plan = Plan {
            leaves_out: false,
            variants: 4,
            warm_ups: 0,
            stop: Stop { rounds, width: None, budget_ns: None },
            seed: 1,
        };
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
                let rows: Vec<PhaseTime> =
                    rows.into_iter().map(|(name, ms)| PhaseTime { name, ns: (ms * 1e6) as i64 }).collect();
                let total_ns = Some(rows.iter().map(|r| r.ns).sum());
                let measured = Measured { outcome: "reached".to_owned(), total_ns, rows, ..Measured::default() };
                boots.push(Boot { number: 0, round: Some(round), variant, began_ns: 0, measured });
            }
        }
        along_axes(&head, &boots).remove(0)
    }

    #[test]
    fn of_many_rows_that_do_not_grow_none_is_said_to() {
        // 165 rows of 4 to 8 ms that scatter by 10 %: each by itself would be seen to grow in 5 of 100.
        let found = grown_rows(5, &|_, random| {
            (0..165).map(|i| (format!("row {i}"), (4.0 + f64::from(i) / 40.0) * (0.8 + 0.4 * random.f64()))).collect()
        });
        assert_eq!((found.rows.len(), found.level, found.test), (1, 165, GrowthTest::AllTogether), "{:?}", found.rows);
        let few = grown_rows(1, &|size, _| vec![("grows".to_owned(), size)]);
        assert_eq!((few.rows.len(), few.level), (2, 0), "four sizes in order come by chance in 1 of 24: {few:?}");
    }

    #[test]
    fn parts_lead_where_the_whole_does() {
        // Each row is a line with noise, and by itself would often look as if it bent.
        let found = grown_rows(5, &|size, random| {
            (0..8).map(|i| (format!("row {i}"), 20.0 + size * (1.0 + 0.8 * (random.f64() - 0.5)))).collect()
        });
        let total = &found.rows[0];
        let predicted = total.predicted[0];
        assert!(total.model == ScalingModel::Linear && found.rows.len() == 9, "{found:?}");
        assert!(
            found.rows[1..].iter().all(|row| row.model == ScalingModel::Linear && row.p_corrected.unwrap() <= 0.05)
        );
        assert!((predicted.rows.unwrap() / predicted.time - 1.0).abs() < 1e-6, "{predicted:?}");
        let sum: f64 = found.rows[1..].iter().map(|row| row.slope).sum();
        assert!((sum / total.slope - 1.0).abs() < 1e-6);
    }

    #[test]
    fn a_part_that_leads_beyond_the_whole_is_a_doubt_about_it() {
        // The total looks like a line, for what is curved is small in it yet.
        let found = grown_rows(5, &|size, random| {
            let line = 100.0 + 30.0 * size + 12.0 * (random.f64() - 0.5);
            vec![("line".to_owned(), line), ("curved".to_owned(), 0.3 * size * size + 0.1 * random.f64())]
        });
        let predicted = found.rows[0].predicted[0];
        assert!(found.rows.iter().any(|row| row.name == "curved" && row.model == ScalingModel::Quadratic), "{found:?}");
        let apart = (predicted.rows.unwrap() - predicted.time).abs();
        assert!(
            found.rows[0].model == ScalingModel::Linear && apart > 1e9 && predicted.band.unwrap() >= apart,
            "{predicted:?}"
        );
    }

    #[test]
    fn sizes_are_the_numbers_that_differ() {
        let check = |key: &str, values: &[&str], expected: Option<Vec<f64>>| {
            let axis = Axis { key: key.to_owned(), values: values.iter().map(|&v| v.to_owned()).collect() };
            assert_eq!(sizes(&axis).map(|found| found.0), expected, "{values:?}");
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
}
