//! The scaling model of each row: a line for its time over boots of several sizes.
//!
//! Each row is fitted by itself with ordinary least squares (Draper & Smith, Applied Regression Analysis, chapters 1
//! and 2). A slope that does not exceed its error counts as zero: the row has a mean. A constant that does not exceed
//! its error also counts as zero: the line is fitted again through zero, or through one CPU. Errors are half the 95 %
//! interval, from the scatter about the line. Two sizes have no scatter, so their error is unknown. A row that a boot
//! lacks takes no time there.
//!
//! A row whose points [bend](bends) follows no line. Its forecast is its time at the nearest size. The whole boot is
//! the sum of its rows, and so are its line and its forecast.

use statistics::student_t::half_width;
use std::collections::HashMap;
use timeline::Ns;

/// The dimension in which the boots differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// The number of CPUs.
    Cpus,
    /// The size of the memory, in GB of 2^30 bytes.
    Memory,
}

/// A boot of some size.
#[derive(Clone, Debug, PartialEq)]
pub struct SizedBoot {
    pub size: f64,
    pub total: Ns,
    /// The time of each row.
    pub rows: Vec<(String, Ns)>,
}

/// The unit of size that a slope is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Per {
    /// Any CPU, including the first.
    Cpu,
    /// Any CPU except the first, which costs nothing.
    Ap,
    /// A GB of 2^30 bytes.
    Gb,
}

/// The arrangement of a row's points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// It does not visibly grow.
    Level,
    /// It grows or shrinks along a line, by more than the error of its slope.
    Line,
    /// It changes, but not along a line.
    Neither,
}

/// The scaling model of one row.
#[derive(Clone, Debug, PartialEq)]
pub struct Growth {
    /// The row. [`TOTAL`] for the whole boot.
    pub name: String,
    /// The row's line, or its mean if it follows no line.
    pub line: Line,
    /// The unit of the slope.
    pub per: Per,
    /// The arrangement of its points. For the whole boot: [`Shape::Line`] if any row follows a line.
    pub shape: Shape,
    /// The size of each boot, and the row's time in it.
    pub points: Vec<(f64, Ns)>,
}

/// The name of the model of the whole boot.
pub const TOTAL: &str = "total";

/// A straight line by least squares: times in nanoseconds, per unit of size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// The value at size zero.
    pub base_ns: f64,
    /// The time that a unit of size adds.
    pub slope_ns: f64,
    /// The source of its errors. `None` for two points.
    scatter: Option<Scatter>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Scatter {
    /// Half the 95 % interval of one residual.
    half_ns: f64,
    /// The errors of the height and of the slope, in units of `half_ns`, squared.
    height: f64,
    slope: f64,
    /// The size at which the two are independent.
    middle: f64,
}

impl Line {
    /// Returns the line through points of two sizes or more. `None` if there is only one size.
    pub fn through(points: &[(f64, Ns)]) -> Option<Line> {
        let straight = Straight::through(points.iter().map(|p| (p.0, p.1.0 as f64)))?;
        let Straight { base, slope, middle, spread } = straight;
        let line = Line { base_ns: base, slope_ns: slope, scatter: None };
        Some(line.with_scatter(points, 2, (1.0 / points.len() as f64, 1.0 / spread, middle)))
    }

    /// Returns the line that is zero at a size.
    fn zero_at(size: f64, points: &[(f64, Ns)]) -> Line {
        let spread: f64 = points.iter().map(|p| (p.0 - size).powi(2)).sum();
        let slope_ns = points.iter().map(|p| (p.0 - size) * p.1.0 as f64).sum::<f64>() / spread;
        let line = Line { base_ns: -slope_ns * size, slope_ns, scatter: None };
        line.with_scatter(points, 1, (0.0, 1.0 / spread, size))
    }

    /// Returns the mean as a line without slope.
    fn level(points: &[(f64, Ns)]) -> Line {
        let line = Line { base_ns: mean(points), slope_ns: 0.0, scatter: None };
        line.with_scatter(points, 1, (1.0 / points.len() as f64, 0.0, 0.0))
    }

    fn with_scatter(self, points: &[(f64, Ns)], fitted: usize, (height, slope, middle): (f64, f64, f64)) -> Line {
        let freedom = points.len().saturating_sub(fitted);
        let squares: f64 = points.iter().map(|p| self.distance(p).powi(2)).sum();
        let half_ns = half_width(freedom as f64) * (squares / freedom.max(1) as f64).sqrt();
        let scatter = (points.len() > 2).then_some(Scatter { half_ns, height, slope, middle });
        Line { scatter, ..self }
    }

    /// Returns the height of a point above the line.
    fn distance(&self, point: &(f64, Ns)) -> f64 {
        point.1.0 as f64 - self.value(point.0)
    }

    fn value(&self, size: f64) -> f64 {
        self.base_ns + self.slope_ns * size
    }

    /// Returns the line's value at a size.
    pub fn at(&self, size: f64) -> Ns {
        Ns::rounded(self.value(size))
    }

    /// Returns the error of the line at a size, if it is known.
    pub fn error_at(&self, size: f64) -> Option<Ns> {
        let error = |s: Scatter| s.half_ns * (s.height + s.slope * (size - s.middle).powi(2)).sqrt();
        self.scatter.map(|s| Ns::rounded(error(s)))
    }

    /// Returns the error of its slope, if it is known.
    pub fn slope_error(&self) -> Option<Ns> {
        self.scatter.map(|s| Ns::rounded(s.half_ns * s.slope.sqrt()))
    }

    /// True if it rises or falls by more than the error of its slope.
    fn has_slope(&self) -> bool {
        self.slope_ns.abs() >= 1.0 && self.slope_error().is_none_or(|error| self.slope_ns.abs() > error.0 as f64)
    }

    /// True if it is zero at a size, within its error.
    fn is_zero_at(&self, size: f64) -> bool {
        let negligible = Ns::truncated(self.slope_ns.abs() * NEGLIGIBLE_SHARE);
        self.at(size).abs() <= self.error_at(size).unwrap_or_default().max(negligible)
    }
}

/// A line by least squares, and the spread of the sizes about their mean.
struct Straight {
    base: f64,
    slope: f64,
    middle: f64,
    spread: f64,
}

impl Straight {
    fn through(points: impl Iterator<Item = (f64, f64)> + Clone) -> Option<Straight> {
        let count = points.clone().count() as f64;
        let middle = points.clone().map(|p| p.0).sum::<f64>() / count;
        let mean = points.clone().map(|p| p.1).sum::<f64>() / count;
        let spread: f64 = points.clone().map(|p| (p.0 - middle).powi(2)).sum();
        if spread.is_nan() || spread <= 0.0 {
            return None;
        }
        let slope = points.map(|p| (p.0 - middle) * (p.1 - mean)).sum::<f64>() / spread;
        Some(Straight { base: mean - slope * middle, slope, middle, spread })
    }
}

fn mean(points: &[(f64, Ns)]) -> f64 {
    points.iter().map(|p| p.1.0 as f64).sum::<f64>() / points.len() as f64
}

/// If no error is known, this share of the time that a unit adds counts as zero.
const NEGLIGIBLE_SHARE: f64 = 0.02;

/// Changes smaller than this share of the longest boot are not examined.
const SMALL_SHARE: f64 = 0.01;

/// Returns the models of the whole and of each row, those that add the most per unit of size first. Empty if all boots
/// have one size.
pub fn growth(boots: &[SizedBoot], size: Size) -> Vec<Growth> {
    let mut rows: HashMap<&str, Vec<Ns>> = HashMap::new();
    for (i, boot) in boots.iter().enumerate() {
        let rest = (NO_PATH, boot.total - boot.rows.iter().map(|row| row.1).sum());
        let named = boot.rows.iter().map(|(name, time)| (name.as_str(), *time));
        for (name, time) in named.chain(Some(rest).filter(|rest| rest.1 != Ns::ZERO)) {
            rows.entry(name).or_insert_with(|| vec![Ns::ZERO; boots.len()])[i] += time;
        }
    }
    let with_sizes = |times: Vec<Ns>| -> Vec<(f64, Ns)> { boots.iter().map(|b| b.size).zip(times).collect() };
    let small = boots.iter().map(|b| b.total).max().unwrap_or_default().0 as f64 * SMALL_SHARE;
    let mut each: Vec<Growth> =
        rows.into_iter().filter_map(|(name, times)| fit_row(name, with_sizes(times), size, small)).collect();
    let adds = |g: &Growth| match g.shape {
        Shape::Line => (2, g.line.slope_ns.abs()),
        Shape::Neither => (1, range(&g.points)),
        Shape::Level => (0, g.line.base_ns),
    };
    each.sort_by(|a, b| {
        let (a_adds, b_adds) = (adds(a), adds(b));
        b_adds.0.cmp(&a_adds.0).then(b_adds.1.total_cmp(&a_adds.1)).then_with(|| a.name.cmp(&b.name))
    });
    let whole = fit_whole(&each, with_sizes(boots.iter().map(|b| b.total).collect()), size);
    whole.into_iter().chain(each).collect()
}

/// The row for the time of boots that have no path.
const NO_PATH: &str = "(no boot path)";

fn fit_row(name: &str, points: Vec<(f64, Ns)>, size: Size, small: f64) -> Option<Growth> {
    let full = Line::through(&points)?;
    let per = match size {
        Size::Memory => Per::Gb,
        Size::Cpus if full.is_zero_at(1.0) => Per::Ap,
        Size::Cpus => Per::Cpu,
    };
    let (line, shape) = match (full.has_slope(), per) {
        (false, _) => (Line::level(&points), Shape::Level),
        (true, Per::Ap) => (Line::zero_at(1.0, &points), Shape::Line),
        (true, _) if full.is_zero_at(0.0) => (Line::zero_at(0.0, &points), Shape::Line),
        (true, _) => (full, Shape::Line),
    };
    let (line, shape) = match range(&points) > small && bends(&points, &full, &line) {
        true => (Line::level(&points), Shape::Neither),
        false => (line, shape),
    };
    Some(Growth { name: name.to_owned(), line, per, shape, points })
}

/// Returns the model of the whole: the sum of the lines and means of its rows. Rows that follow neither are left out.
/// If no row follows a line and some follow neither, the whole follows neither. Its errors are from the scatter of the
/// totals.
fn fit_whole(rows: &[Growth], points: Vec<(f64, Ns)>, size: Size) -> Option<Growth> {
    let full = Line::through(&points)?;
    let fitted = || rows.iter().filter(|row| row.shape != Shape::Neither);
    let sum = |part: fn(&Line) -> f64| fitted().map(|row| part(&row.line)).sum::<f64>();
    let (base_ns, slope_ns) = (sum(|line| line.base_ns), sum(|line| line.slope_ns));
    let grows = rows.iter().any(|row| row.shape == Shape::Line);
    if !grows && rows.iter().any(|row| row.shape == Shape::Neither) {
        // A row that changes along no line changes the whole in the same way. The mean of the other rows would not
        // describe the whole.
        let per = if size == Size::Memory { Per::Gb } else { Per::Cpu };
        return Some(Growth { name: TOTAL.to_owned(), line: Line::level(&points), per, shape: Shape::Neither, points });
    }
    let scatter = if grows { full.scatter } else { Line::level(&points).scatter };
    let per = match size {
        Size::Memory => Per::Gb,
        Size::Cpus if base_ns < 0.0 => Per::Ap,
        Size::Cpus => Per::Cpu,
    };
    let shape = if grows { Shape::Line } else { Shape::Level };
    Some(Growth { name: TOTAL.to_owned(), line: Line { base_ns, slope_ns, scatter }, per, shape, points })
}

/// True if points do not lie along the chosen line. Either one point is off it by a fifth of the range of the points.
/// Or the square of the size explains, at 95 %, the rest that the straight line leaves, and that is a twentieth of the
/// range. A level line is doubted only if the points differ by more than their mean.
fn bends(points: &[(f64, Ns)], full: &Line, chosen: &Line) -> bool {
    let range = range(points);
    let distance = |line: &Line| points.iter().map(|p| line.distance(p).abs()).fold(0.0, f64::max);
    let far = distance(chosen) * 5.0 > range && (chosen.slope_ns != 0.0 || range > mean(points));
    far || distance(full) * 20.0 > range && is_curved(points, full)
}

/// True if a square term has a coefficient that exceeds its error.
fn is_curved(points: &[(f64, Ns)], line: &Line) -> bool {
    let Some(freedom) = points.len().checked_sub(3).filter(|&freedom| freedom > 0) else { return false };
    // The part of the squares that no line explains. The square term's coefficient is the slope of the residuals over
    // this part.
    let Some(straight) = Straight::through(points.iter().map(|p| (p.0, p.0 * p.0))) else { return false };
    let bent: Vec<f64> = points.iter().map(|p| p.0 * p.0 - straight.base - straight.slope * p.0).collect();
    let left: Vec<f64> = points.iter().map(|p| line.distance(p)).collect();
    let spread: f64 = bent.iter().map(|b| b * b).sum();
    let slope = bent.iter().zip(&left).map(|(b, l)| b * l).sum::<f64>() / spread;
    let rest: f64 = bent.iter().zip(&left).map(|(b, l)| (l - slope * b).powi(2)).sum();
    slope.abs() > half_width(freedom as f64) * (rest / freedom as f64 / spread).sqrt()
}

/// Returns the difference between the longest and the shortest time.
fn range(points: &[(f64, Ns)]) -> f64 {
    let times = || points.iter().map(|p| p.1);
    (times().max().unwrap_or_default() - times().min().unwrap_or_default()).0 as f64
}

impl Growth {
    /// Returns the part that does not grow: the time at size zero, or, per AP, at one CPU.
    pub fn constant(&self) -> Ns {
        self.line.at(if self.per == Per::Ap { 1.0 } else { 0.0 })
    }

    /// Returns the slope of a line fitted to its points alone, with its error. `None` if it does not exceed its error,
    /// or if it agrees with the line's slope within that error.
    pub fn slope_apart(&self) -> Option<(f64, Option<Ns>)> {
        let full = Line::through(&self.points)?;
        let apart = (full.slope_ns - self.line.slope_ns).abs();
        let error = full.slope_error();
        (full.has_slope() && apart > error.unwrap_or_default().0.max(1) as f64).then_some((full.slope_ns, error))
    }
}

/// The forecast for a row at some size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// Never negative.
    pub time: Ns,
    /// Half the 95 % interval of the line there, if it is known.
    pub error: Option<Ns>,
    /// True if the row's line falls below zero there.
    pub cut: bool,
}

/// Returns the forecasts for the whole and each of its rows at a size, in the order of [`growth`]. The whole is the
/// sum.
pub fn forecast(growths: &[Growth], size: f64) -> Vec<Forecast> {
    let mut all: Vec<Forecast> = growths.iter().map(|g| g.forecast(size)).collect();
    if let Some((whole, rows)) = all.split_first_mut() {
        whole.time = rows.iter().map(|row| row.time).sum();
        whole.cut = false;
    }
    all
}

impl Growth {
    fn forecast(&self, size: f64) -> Forecast {
        if self.shape == Shape::Neither {
            let nearest = self.points.iter().min_by(|a, b| (a.0 - size).abs().total_cmp(&(b.0 - size).abs()));
            return Forecast { time: nearest.map_or(Ns::ZERO, |p| p.1), error: None, cut: false };
        }
        let at = self.line.at(size);
        Forecast { time: at.max(Ns::ZERO), error: self.line.error_at(size), cut: at < Ns::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: f64) -> Ns {
        Ns::rounded(ms * 1e6)
    }

    /// Returns boots of one row.
    fn boots(points: &[(f64, f64)]) -> Vec<SizedBoot> {
        let boot =
            |&(size, time): &(f64, f64)| SizedBoot { size, total: ms(time), rows: vec![("row".to_owned(), ms(time))] };
        points.iter().map(boot).collect()
    }

    fn row(points: &[(f64, f64)], size: Size) -> Growth {
        growth(&boots(points), size).into_iter().find(|g| g.name == "row").unwrap()
    }

    #[test]
    fn per_ap_where_one_cpu_takes_nothing() {
        let grown = row(&[(2.0, 41.0), (4.0, 123.0), (16.0, 615.0)], Size::Cpus);
        assert_eq!((grown.per, grown.shape, grown.constant()), (Per::Ap, Shape::Line, Ns::ZERO));
        assert_eq!(grown.line.at(128.0), ms(5_207.0));
        let grown = row(&[(2.0, 2_750.0), (4.0, 2_820.0), (16.0, 3_240.0)], Size::Cpus);
        assert_eq!((grown.per, grown.constant()), (Per::Cpu, ms(2_680.0)));
        assert_eq!(grown.line.slope_ns.round(), 35e6);
    }

    #[test]
    fn a_row_that_does_not_grow_is_level() {
        let grown = row(&[(1.0, 500.0), (2.0, 500.0), (8.0, 500.0)], Size::Cpus);
        assert_eq!((grown.shape, grown.constant()), (Shape::Level, ms(500.0)));
        let noisy = row(&[(1.0, 500.0), (2.0, 540.0), (4.0, 480.0), (8.0, 510.0)], Size::Cpus);
        assert_eq!((noisy.shape, noisy.line.slope_ns), (Shape::Level, 0.0));
        // The mean of four points that are off by 25 ms each: 3.182446 × 25 / √4.
        assert_eq!((noisy.line.at(128.0), noisy.line.error_at(128.0)), (ms(507.5), Some(ms(39.780_579))));
    }

    /// Calculated by hand.
    #[test]
    fn errors_agree_with_the_textbook() {
        let points: Vec<(f64, Ns)> =
            [(1.0, 2.0), (2.0, 4.0), (3.0, 5.0), (4.0, 4.0), (5.0, 5.0)].map(|(x, y)| (x, ms(y))).to_vec();
        let line = Line::through(&points).unwrap();
        // Slope 6/10, base 2.2. The residual sum of squares is 2.4, so 0.8 per degree of freedom, of which there are
        // three.
        assert_eq!((line.slope_ns.round(), line.base_ns.round()), (0.6e6, 2.2e6));
        let slope_error = 3.182_446_305 * (0.8_f64 / 10.0).sqrt() * 1e6;
        assert_eq!(line.slope_error(), Some(Ns::rounded(slope_error)));
        let mean_error = 3.182_446_305 * (0.8_f64 / 5.0).sqrt() * 1e6;
        assert_eq!(line.error_at(3.0), Some(Ns::rounded(mean_error)));
    }

    #[test]
    fn two_sizes_have_no_error_and_one_has_no_line() {
        let two = row(&[(1.0, 15.0), (2.0, 30.0)], Size::Memory);
        assert_eq!((two.per, two.constant(), two.line.slope_error()), (Per::Gb, Ns::ZERO, None));
        assert!(growth(&boots(&[(4.0, 1.0), (4.0, 2.0)]), Size::Cpus).is_empty());
        assert!(growth(&[], Size::Cpus).is_empty());
    }

    /// The printed line is the used line: if a constant or a slope is dropped, the remaining line is fitted again.
    #[test]
    fn a_dropped_constant_or_slope_is_not_used() {
        let grown = row(&[(1.0, 2.1), (2.0, 3.9), (4.0, 8.0), (8.0, 16.0)], Size::Cpus);
        // Through zero: (2.1 + 7.8 + 32 + 128) / (1 + 4 + 16 + 64).
        let slope = 169.9 / 85.0;
        assert_eq!((grown.per, grown.constant(), grown.line.at(128.0)), (Per::Cpu, Ns::ZERO, ms(slope * 128.0)));
        let level = row(&[(1.0, 75.0), (2.0, 55.0), (4.0, 65.0), (8.0, 65.0)], Size::Cpus);
        assert_eq!((level.shape, level.line.at(128.0)), (Shape::Level, ms(65.0)));
    }

    #[test]
    fn a_row_without_a_line_keeps_its_nearest_time() {
        let sizes = [1.0, 2.0, 4.0, 8.0, 16.0];
        let row_over_sizes = |truth: &dyn Fn(f64) -> f64| row(&sizes.map(|n| (n, truth(n))), Size::Cpus);
        for (truth, at_16) in [
            (&(|n: f64| 40.0 / n) as &dyn Fn(f64) -> f64, 2.5),
            (&|n| 0.5 * n * n, 128.0),
            (&|n| if n < 4.0 { 0.0 } else { 6.0 }, 6.0),
            (&|n| 1000.0 + 0.5 * n * n, 1128.0),
        ] {
            let grown = row_over_sizes(truth);
            assert_eq!(grown.shape, Shape::Neither, "{grown:?}");
            assert_eq!(grown.forecast(128.0), Forecast { time: ms(at_16), error: None, cut: false });
            assert_eq!(grown.forecast(1.9).time, ms(truth(2.0)));
        }
        let noise = |n: f64| [0.3, -0.4, 0.2, -0.1, 0.5][n.log2() as usize];
        assert_eq!(row_over_sizes(&|n| 2.0 * n + 5.0 + noise(n)).shape, Shape::Line);
        assert_eq!(row_over_sizes(&|n| 7.0 + noise(n)).shape, Shape::Level);
        // Four boots whose noise is a third of their range still follow a line.
        assert_eq!(row(&[(1.0, 12.0), (2.0, 18.0), (4.0, 44.0), (8.0, 80.0)], Size::Cpus).shape, Shape::Line);
    }

    /// `vm_mem` as the reference kernel once had it over 1, 2 and 4 GiB, with 30 ms of other work.
    #[test]
    fn a_whole_that_changes_along_no_line_is_not_level() {
        let boot = |&(size, vm_mem): &(f64, f64)| {
            let rows = vec![("vm_mem".to_owned(), ms(vm_mem)), ("rest".to_owned(), ms(30.0))];
            SizedBoot { size, total: ms(30.0 + vm_mem), rows }
        };
        let all = growth(&[(1.0, 3.5), (2.0, 7.01), (4.0, 30.3)].map(|p| boot(&p)), Size::Memory);
        assert!(all.iter().any(|g| g.name == "vm_mem" && g.shape == Shape::Neither), "{all:?}");
        assert_eq!((all[0].name.as_str(), all[0].shape, all[0].per), (TOTAL, Shape::Neither, Per::Gb));
        let mean = all[0].constant();
        assert!(ms(33.5) < mean && mean < ms(60.3), "{mean:?} is no mean of the totals");
        assert_eq!(forecast(&all, 4096.0)[0], Forecast { time: ms(60.3), error: None, cut: false });
    }

    #[test]
    fn the_whole_is_the_sum_of_its_rows() {
        let boot = |n: f64| {
            let rows = [("aps", 4.0 * (n - 1.0)), ("cpus", n), ("usb", 63.0 - 5.0 * n), ("rest", 12.0)];
            let rows: Vec<(String, Ns)> = rows.map(|(name, time)| (name.to_owned(), ms(time))).to_vec();
            SizedBoot { size: n, total: rows.iter().map(|row| row.1).sum(), rows }
        };
        let all = growth(&[1.0, 2.0, 4.0, 8.0].map(boot), Size::Cpus);
        let whole = &all[0];
        assert_eq!((whole.line.at(0.0), whole.line.slope_ns.round(), whole.shape), (ms(71.0), 0.0, Shape::Line));
        let then: Vec<(&str, Ns, bool)> =
            all.iter().zip(forecast(&all, 128.0)).map(|(g, f)| (g.name.as_str(), f.time, f.cut)).collect();
        let expected = [
            (TOTAL, ms(508.0 + 128.0 + 12.0), false),
            ("usb", Ns::ZERO, true),
            ("aps", ms(508.0), false),
            ("cpus", ms(128.0), false),
            ("rest", ms(12.0), false),
        ];
        assert_eq!(then, expected);
        // Time without a row gets a row.
        let mut without = [1.0, 2.0, 4.0].map(boot);
        without[1].rows.clear();
        let all = growth(&without, Size::Cpus);
        assert!(all.iter().any(|g| g.name == NO_PATH), "{all:?}");
    }

    #[test]
    fn a_row_that_a_boot_does_not_have_takes_no_time_there() {
        let mut all = boots(&[(1.0, 10.0), (2.0, 20.0)]);
        all[0].rows.clear();
        let grown = growth(&all, Size::Cpus).into_iter().find(|g| g.name == "row").unwrap();
        assert_eq!(grown.points, [(1.0, Ns::ZERO), (2.0, ms(20.0))]);
        assert_eq!(grown.per, Per::Ap);
    }

    #[test]
    fn a_slope_apart_is_given_only_where_it_differs_from_the_line() {
        let grown = row(&[(1.0, 12.0), (2.0, 22.1), (4.0, 41.9), (8.0, 82.0)], Size::Cpus);
        let full = Line::through(&grown.points).unwrap();
        assert_eq!(grown.slope_apart(), None, "{grown:?}");
        // The sum of rows with half that slope.
        let line = Line { slope_ns: full.slope_ns / 2.0, ..grown.line };
        let less = Growth { line, ..grown };
        assert_eq!(less.slope_apart(), Some((full.slope_ns, full.slope_error())));
    }
}
