//! How a boot grows with its machine: a line through the time of each row over boots of several sizes.
//!
//! Ordinary least squares, each row by itself (Draper & Smith, Applied Regression Analysis, chapter 1). Errors are half
//! the 95 % interval, from the scatter about the line; two sizes have no scatter, and so no error is known. A row that a
//! boot does not have takes no time there.

use hashbrown::HashMap;
use timeline::Ns;

/// What the boots differ in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// How many CPUs there are.
    Cpus,
    /// How much memory there is, in GB of 2^30 bytes.
    Memory,
}

/// A boot of some size.
#[derive(Clone, Debug, PartialEq)]
pub struct SizedBoot {
    /// Its size.
    pub size: f64,
    /// How long it took.
    pub total: Ns,
    /// What each row took.
    pub rows: Vec<(String, Ns)>,
}

/// What one unit of size costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Per {
    /// A CPU, whichever.
    Cpu,
    /// A CPU other than the first: nothing is spent on that one.
    Ap,
    /// A GB of 2^30 bytes.
    Gb,
}

/// How one row grows.
#[derive(Clone, Debug, PartialEq)]
pub struct Growth {
    /// The row; of the whole boot, [`TOTAL`].
    pub name: String,
    /// The line.
    pub line: Line,
    /// What its slope is per.
    pub per: Per,
    /// Whether it grows (or shrinks) by more than the error of its slope.
    pub grows: bool,
    /// Of each boot, its size and the row's time.
    pub points: Vec<(f64, Ns)>,
}

/// The name of the growth of the whole boot.
pub const TOTAL: &str = "total";

/// A straight line by least squares: times in nanoseconds, per unit of size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Its value at size zero.
    pub base_ns: f64,
    /// What a unit of size adds.
    pub slope_ns: f64,
    /// What its errors come of; none for two points.
    scatter: Option<Scatter>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Scatter {
    /// Half the 95 % interval of one residual.
    half_ns: f64,
    count: f64,
    mean: f64,
    /// The sum of squared distances of the sizes from their mean.
    spread: f64,
}

impl Line {
    /// The line through points of two sizes or more; none if there is only one size.
    pub fn through(points: &[(f64, Ns)]) -> Option<Line> {
        let count = points.len() as f64;
        let mean = points.iter().map(|p| p.0).sum::<f64>() / count;
        let mean_ns = points.iter().map(|p| p.1.0 as f64).sum::<f64>() / count;
        let spread: f64 = points.iter().map(|p| (p.0 - mean).powi(2)).sum();
        if spread.is_nan() || spread <= 0.0 {
            return None;
        }
        let slope_ns = points.iter().map(|p| (p.0 - mean) * (p.1.0 as f64 - mean_ns)).sum::<f64>() / spread;
        let base_ns = mean_ns - slope_ns * mean;
        let freedom = points.len().saturating_sub(2);
        let off: f64 = points.iter().map(|p| (p.1.0 as f64 - base_ns - slope_ns * p.0).powi(2)).sum();
        let half_ns = student(freedom) * (off / freedom.max(1) as f64).sqrt();
        let scatter = (freedom > 0).then_some(Scatter { half_ns, count, mean, spread });
        Some(Line { base_ns, slope_ns, scatter })
    }

    /// The line's value at a size.
    pub fn at(&self, size: f64) -> Ns {
        Ns((self.base_ns + self.slope_ns * size).round() as i64)
    }

    /// How far off the line may be at a size; none where that is not known.
    pub fn error_at(&self, size: f64) -> Option<Ns> {
        let error = |s: Scatter| s.half_ns * (1.0 / s.count + (size - s.mean).powi(2) / s.spread).sqrt();
        self.scatter.map(|s| Ns(error(s).round() as i64))
    }

    /// How far off its slope may be; none where that is not known.
    pub fn slope_error(&self) -> Option<Ns> {
        self.scatter.map(|s| Ns((s.half_ns / s.spread.sqrt()).round() as i64))
    }
}

/// The growth of the whole and of each row, those that add the most per unit of size first. Empty where all boots have
/// one size.
pub fn growth(boots: &[SizedBoot], size: Size) -> Vec<Growth> {
    let mut rows: HashMap<&str, Vec<Ns>> = HashMap::new();
    for (i, boot) in boots.iter().enumerate() {
        for (name, time) in &boot.rows {
            rows.entry(name).or_insert_with(|| vec![Ns::ZERO; boots.len()])[i] += *time;
        }
    }
    let with_sizes = |times: Vec<Ns>| -> Vec<(f64, Ns)> { boots.iter().map(|b| b.size).zip(times).collect() };
    let whole = of_row(TOTAL, with_sizes(boots.iter().map(|b| b.total).collect()), size);
    let mut each: Vec<Growth> =
        rows.into_iter().filter_map(|(name, times)| of_row(name, with_sizes(times), size)).collect();
    each.sort_by(|a, b| {
        let adds = |g: &Growth| (g.grows, g.line.slope_ns.abs());
        let (a_adds, b_adds) = (adds(a), adds(b));
        b_adds.0.cmp(&a_adds.0).then(b_adds.1.total_cmp(&a_adds.1)).then_with(|| a.name.cmp(&b.name))
    });
    whole.into_iter().chain(each).collect()
}

/// Of what a unit adds, this share counts as nothing where no error is known.
const NOTHING: f64 = 0.02;

fn of_row(name: &str, points: Vec<(f64, Ns)>, size: Size) -> Option<Growth> {
    let line = Line::through(&points)?;
    let none_at = |size| {
        line.at(size).abs() <= line.error_at(size).unwrap_or_default().max(Ns((line.slope_ns.abs() * NOTHING) as i64))
    };
    let per = match size {
        Size::Memory => Per::Gb,
        Size::Cpus if none_at(1.0) => Per::Ap,
        Size::Cpus => Per::Cpu,
    };
    let grows =
        line.slope_ns.abs() >= 1.0 && line.slope_error().is_none_or(|error| line.slope_ns.abs() > error.0 as f64);
    Some(Growth { name: name.to_owned(), line, per, grows, points })
}

impl Growth {
    /// What the row takes besides what grows: at size zero, or, per AP, at one CPU. None if that is nothing.
    pub fn constant(&self) -> Option<Ns> {
        let from = if self.per == Per::Ap { 1.0 } else { 0.0 };
        let none = self.line.error_at(from).unwrap_or_default().max(Ns((self.line.slope_ns.abs() * NOTHING) as i64));
        Some(self.line.at(from)).filter(|constant| constant.abs() > none)
    }
}

/// Student's t of 97.5 %, by degrees of freedom (Abramowitz & Stegun, table 26.10).
fn student(freedom: usize) -> f64 {
    const T: [f64; 31] = [
        0.0, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
        2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
    ];
    // Beyond the table within a thousandth.
    T.get(freedom).copied().unwrap_or(1.96 + 2.4 / freedom as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: f64) -> Ns {
        Ns((ms * 1e6).round() as i64)
    }

    /// Boots of one row.
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
        assert_eq!((grown.per, grown.grows, grown.constant()), (Per::Ap, true, None));
        assert_eq!(grown.line.at(128.0), ms(5_207.0));
        let grown = row(&[(2.0, 2_750.0), (4.0, 2_820.0), (16.0, 3_240.0)], Size::Cpus);
        assert_eq!((grown.per, grown.constant()), (Per::Cpu, Some(ms(2_680.0))));
        assert_eq!(grown.line.slope_ns.round(), 35e6);
    }

    #[test]
    fn what_does_not_grow_says_so() {
        let grown = row(&[(1.0, 500.0), (2.0, 500.0), (8.0, 500.0)], Size::Cpus);
        assert_eq!((grown.grows, grown.constant()), (false, Some(ms(500.0))));
        let noisy = row(&[(1.0, 500.0), (2.0, 540.0), (4.0, 480.0), (8.0, 510.0)], Size::Cpus);
        assert!(!noisy.grows, "{noisy:?}");
    }

    /// Worked out by hand.
    #[test]
    fn errors_are_those_of_the_text_book() {
        let points: Vec<(f64, Ns)> =
            [(1.0, 2.0), (2.0, 4.0), (3.0, 5.0), (4.0, 4.0), (5.0, 5.0)].map(|(x, y)| (x, ms(y))).to_vec();
        let line = Line::through(&points).unwrap();
        // Slope 6/10, base 2.2; residual sum of squares 2.4, so 0.8 per degree of freedom, of which there are three.
        assert_eq!((line.slope_ns.round(), line.base_ns.round()), (0.6e6, 2.2e6));
        let slope_error = 3.182 * (0.8_f64 / 10.0).sqrt() * 1e6;
        assert_eq!(line.slope_error(), Some(Ns(slope_error.round() as i64)));
        let mean_error = 3.182 * (0.8_f64 / 5.0).sqrt() * 1e6;
        assert_eq!(line.error_at(3.0), Some(Ns(mean_error.round() as i64)));
    }

    #[test]
    fn two_sizes_have_no_error_and_one_has_no_line() {
        let two = row(&[(1.0, 15.0), (2.0, 30.0)], Size::Memory);
        assert_eq!((two.per, two.constant(), two.line.slope_error()), (Per::Gb, None, None));
        assert!(growth(&boots(&[(4.0, 1.0), (4.0, 2.0)]), Size::Cpus).is_empty());
        assert!(growth(&[], Size::Cpus).is_empty());
    }

    #[test]
    fn a_row_that_a_boot_does_not_have_takes_no_time_there() {
        let mut all = boots(&[(1.0, 10.0), (2.0, 20.0)]);
        all[0].rows.clear();
        let grown = growth(&all, Size::Cpus).into_iter().find(|g| g.name == "row").unwrap();
        assert_eq!(grown.points, [(1.0, Ns::ZERO), (2.0, ms(20.0))]);
        assert_eq!(grown.per, Per::Ap);
    }
}
