//! The steps of a line of images that were booted once each, counting instructions.
//!
//! A count depends a little on the layout of an image's code and data, and each image has its own. The scatter of layouts
//! is inferred from the differences of neighbours, of which most are no steps, and from images that were booted with
//! several layouts. A difference is a step if layouts hardly explain it and if it lasts: a rare layout can move one image
//! by percents, so the boots on either side of a step must agree. Neighbours are such boots. Where there are too few,
//! [`again`] names the image to boot with another layout.

use analysis::floor;
use statistics::quantile::median;
use statistics::verdict::{Ask, Basis, Change, Comparison};
use statistics::{CONFIDENCE, Interval, describe, sorted, student_t};

/// Maximum p-value of a step, corrected for the number of steps.
const STEP_P: f64 = 0.01;
/// Largest difference that layouts have made between two boots.
const MOST: f64 = 2.0 * floor::LAYOUT_MOST;
/// Median distance of normal noise from zero, in standard deviations.
const MEDIAN_DISTANCE: f64 = 0.6745;
/// Degrees of freedom of the scatter that one difference of neighbours adds. A median uses about a third of what the
/// values tell.
const FREEDOM: f64 = 0.33;
/// Boots on either side of a step that must agree.
const AGREE: usize = 2;

/// Comparison of each image of a line with the one before it; `None` for the first one. `counts` are each image's
/// instructions, by layout; no image is without a boot.
pub fn steps(counts: &[Vec<f64>]) -> Vec<Option<Comparison>> {
    let line = Line::new(counts);
    (0..counts.len()).map(|image| (image > 0).then(|| line.comparison(image))).collect()
}

/// The image to boot with one more layout, so that the largest step that rests on a single boot is confirmed or refuted.
pub fn again(counts: &[Vec<f64>]) -> Option<usize> {
    let line = Line::new(counts);
    let mut doubtful: Vec<usize> = (1..counts.len()).filter(|&image| line.lasts(image).is_none()).collect();
    doubtful.sort_by(|a, b| line.difference(*b).abs().total_cmp(&line.difference(*a).abs()));
    let image = *doubtful.first()?;
    let [before, after] = line.sides(image);
    Some(if after.len() < AGREE { image } else { image - 1 }).filter(|_| before.len().min(after.len()) < AGREE)
}

struct Line {
    /// Logarithms of the counts of each image, by layout.
    logs: Vec<Vec<f64>>,
    /// Standard deviation of a layout, and its degrees of freedom.
    scatter: (f64, f64),
}

impl Line {
    fn new(counts: &[Vec<f64>]) -> Line {
        let logs: Vec<Vec<f64>> =
            counts.iter().map(|counts| counts.iter().map(|count| count.max(1.0).ln()).collect()).collect();
        let mut line = Line { logs, scatter: (0.0, 0.0) };
        line.scatter = line.scatter_of_layouts();
        line
    }

    fn difference(&self, image: usize) -> f64 {
        describe::mean(&self.logs[image]) - describe::mean(&self.logs[image - 1])
    }

    fn scatter_of_layouts(&self) -> (f64, f64) {
        let distances: Vec<f64> = (1..self.logs.len()).map(|image| self.difference(image).abs()).collect();
        // A difference has the scatter of two boots.
        let neighbours = median(&sorted(&distances)) / MEDIAN_DISTANCE / 2.0_f64.sqrt();
        let mut freedom = FREEDOM * distances.len() as f64;
        let mut squares = if distances.is_empty() { 0.0 } else { freedom * neighbours.powi(2) };
        for logs in self.logs.iter().filter(|logs| logs.len() > 1) {
            let mean = describe::mean(logs);
            squares += logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>();
            freedom += logs.len() as f64 - 1.0;
        }
        let sd = if freedom > 0.0 { (squares / freedom).sqrt() } else { 0.0 };
        (sd.max(floor::PAIR / 2.0_f64.sqrt()), freedom)
    }

    /// Standard error of a difference.
    fn error(&self, image: usize) -> f64 {
        let boots = |image: usize| self.logs[image].len().max(1) as f64;
        self.scatter.0 * (1.0 / boots(image) + 1.0 / boots(image - 1)).sqrt()
    }

    /// Probability of so large a difference by layouts alone, corrected for the number of steps.
    fn p(&self, image: usize) -> f64 {
        let difference = self.difference(image).abs();
        if difference > MOST {
            return 0.0;
        }
        let alone = student_t::two_sided(difference / self.error(image), self.scatter.1);
        (alone * (self.logs.len() - 1) as f64).min(1.0)
    }

    fn is_clear(&self, image: usize) -> bool {
        self.p(image) <= STEP_P
    }

    /// The boots on either side of a step, up to the next clear one.
    fn sides(&self, image: usize) -> [Vec<f64>; 2] {
        let mut after = self.logs[image].clone();
        for next in (image + 1..self.logs.len()).take_while(|next| !self.is_clear(*next)).take(AGREE) {
            after.extend(&self.logs[next]);
        }
        let mut before = self.logs[image - 1].clone();
        for next in (1..image).rev().take_while(|next| !self.is_clear(*next)).take(AGREE) {
            before.extend(&self.logs[next - 1]);
        }
        [before, after]
    }

    /// True if a difference is a step, and false if not. `None` if it is clear and rests on a single boot.
    fn lasts(&self, image: usize) -> Option<bool> {
        let difference = self.difference(image);
        if !self.is_clear(image) {
            return Some(false);
        }
        if difference.abs() > MOST {
            return Some(true);
        }
        let [before, after] = self.sides(image);
        if before.len().min(after.len()) < AGREE {
            return None;
        }
        let sign = difference.signum();
        let nearest = |side: &[f64], sign: f64| side.iter().map(|log| log * sign).fold(f64::INFINITY, f64::min);
        // Every boot after the step must lie beyond every boot before it, by at least half of the step.
        Some(nearest(&after, sign) + nearest(&before, -sign) > difference.abs() / 2.0)
    }

    fn comparison(&self, image: usize) -> Comparison {
        let (difference, p) = (self.difference(image), self.p(image));
        let half = student_t::half_width(self.scatter.1) * self.error(image);
        // Layouts explain what is not a step, however large it is.
        let is_step = self.lasts(image) == Some(true);
        let floor = if is_step { half } else { half.max(difference.abs()) }.min(MOST);
        let change = match is_step {
            true if difference > 0.0 => Change::More,
            true => Change::Less,
            false if floor <= Ask::COUNTED_MARGIN => Change::NoDifference,
            false => Change::TooNoisy,
        };
        let count = describe::mean(&self.logs[image - 1]).exp();
        let interval = |value: fn(f64) -> f64, scale: f64| {
            let [estimate, low, high] = [0.0, -half.min(MOST), half.min(MOST)].map(|by| scale * value(difference + by));
            Interval { estimate, low, high, confidence: CONFIDENCE }
        };
        Comparison {
            basis: Basis::Repeated(floor),
            difference: interval(f64::exp_m1, count),
            ratio: Some(interval(f64::exp, 1.0)),
            p: Some(p),
            p_corrected: Some(p),
            p_least: 0.0,
            shown_from: Some(floor),
            pairs_for_margin: None,
            change,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line of images with a scatter of their layouts, and a rare layout that adds 3 %.
    struct Host {
        random: fastrand::Rng,
        scatter: f64,
        rare: f64,
    }

    impl Host {
        fn boot(&mut self, level: f64) -> f64 {
            let normal = (0..12).map(|_| self.random.f64()).sum::<f64>() - 6.0;
            let rare = if self.random.f64() < self.rare { 0.03 } else { 0.0 };
            level * (1.0 + self.scatter * normal + rare)
        }

        /// Boots a line as `range` does. Returns the verdicts and the number of boots.
        fn verdicts(&mut self, levels: &[f64]) -> (Vec<Option<Change>>, usize) {
            let mut counts: Vec<Vec<f64>> = levels.iter().map(|level| vec![self.boot(*level)]).collect();
            let mut more = levels.len() / 10;
            while let Some(image) = again(&counts).filter(|_| more > 0) {
                counts[image].push(self.boot(levels[image]));
                more -= 1;
            }
            let changes = steps(&counts).into_iter().map(|step| step.map(|step| step.change)).collect();
            (changes, counts.iter().map(Vec::len).sum())
        }
    }

    fn is_alarm(change: &Option<Change>) -> bool {
        matches!(change, Some(Change::More | Change::Less))
    }

    #[test]
    fn layouts_alone_raise_no_alarm() {
        for (rare, most) in [(0.0, 2), (0.02, 4)] {
            let mut alarms = 0;
            for seed in 0..200 {
                let mut host = Host { random: fastrand::Rng::with_seed(seed), scatter: 0.0005, rare };
                let images = host.random.usize(2..=60);
                let (changes, boots) = host.verdicts(&vec![1e9; images]);
                alarms += usize::from(changes.iter().any(is_alarm));
                assert!(boots <= images + images / 10);
            }
            println!("{alarms} of 200 lines with a rare layout in {rare}");
            assert!(alarms <= most, "{alarms} of 200");
        }
    }

    #[test]
    fn a_step_is_found_at_its_commit() {
        let mut found = 0;
        for seed in 0..200 {
            let mut host = Host { random: fastrand::Rng::with_seed(seed), scatter: 0.0005, rare: 0.005 };
            let (images, step) = (host.random.usize(20..=60), 0.01 + 0.1 * host.random.f64());
            let at = host.random.usize(1..images);
            let levels: Vec<f64> = (0..images).map(|i| if i < at { 1e9 } else { 1e9 * (1.0 + step) }).collect();
            let (changes, _) = host.verdicts(&levels);
            found += usize::from(changes[at] == Some(Change::More));
        }
        println!("{found} of 200 steps of 1 to 11 %");
        assert!(found >= 190, "{found} of 200");
    }

    #[test]
    fn two_images_tell_only_a_large_step() {
        let change = |by: f64| steps(&[vec![1e9], vec![1e9 * by]])[1].as_ref().unwrap().change;
        assert_eq!((change(1.4), change(0.6)), (Change::More, Change::Less));
        assert_eq!((change(1.03), change(1.0)), (Change::TooNoisy, Change::TooNoisy));
        assert!(steps(&[]).is_empty() && again(&[]).is_none() && steps(&[vec![1.0]])[0].is_none());
    }

    #[test]
    fn a_single_image_apart_is_booted_again() {
        let mut counts: Vec<Vec<f64>> = (0..20).map(|i| vec![1e9 + f64::from(i * 7919 % 20) * 1e4]).collect();
        counts[9][0] *= 1.03;
        assert_eq!(again(&counts), Some(9));
        assert!(!steps(&counts).iter().flatten().any(|step| step.change == Change::More));
        counts[9].push(1e9);
        assert_eq!(again(&counts), None, "it was a layout");
        counts[9][1] = 1.03e9;
        let changes: Vec<Change> = steps(&counts).iter().flatten().map(|step| step.change).collect();
        assert_eq!((changes[8], changes[9]), (Change::More, Change::Less), "a change and its revert");
    }
}
