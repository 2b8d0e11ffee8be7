//! Finds the first slow commit of a line from boots that count instructions.
//!
//! Such a boot repeats exactly, so an image is booted once, and commits with the same image share its boot. The count
//! of an image still depends a little on the layout of its code and data, which any change moves. If a difference is
//! larger than any layout has made ([`floor::LAYOUT_MOST`]), one boot of each image decides. If not, the two ends are
//! booted with several layouts, and the scatter of their counts decides about the other images.
//!
//! The search halves the line as `git bisect` does. The half with the larger part of the difference is searched next,
//! so of several slow commits it finds a large one. It does no I/O.

use super::search::{Found, Image, Verdict};
use crate::runs::Measured;
use analysis::floor;
use statistics::{CONFIDENCE, Interval, describe, student_t};
use std::collections::{BTreeMap, BTreeSet};

/// Numbers of layouts of an image, one after the other until a difference is clear.
pub const LAYOUTS: [usize; 4] = [1, 6, 12, 24];
/// Maximum p-value of a clear difference. A search looks at some twenty, most of them once.
const CLEAR_P: f64 = 1e-4;
/// Maximum distance of a commit with a single layout from the nearer of the two levels, in standard deviations.
const MAX_DISTANCE: f64 = 4.0;

/// The count of a boot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Counted {
    /// Instructions from time zero to the end mark.
    Instructions(f64),
    /// It does not reach its end mark.
    CannotSay,
    /// The user stopped the search.
    Stopped,
}

impl Counted {
    /// The count of a boot that is over.
    pub fn of(measured: &Measured) -> Counted {
        measured.total_ns.map_or(Counted::CannotSay, |total| Counted::Instructions(total as f64))
    }
}

/// The caller's actions: builds and boots commits.
pub trait Count {
    /// An error that ends the search. A commit that cannot be measured is not one.
    type Error;
    /// Builds a commit, numbered from the good end, 0.
    fn image(&mut self, commit: usize) -> Result<Image, Self::Error>;
    /// Boots a commit with one of the layouts, numbered from 0.
    fn boot(&mut self, commit: usize, layout: usize) -> Result<Counted, Self::Error>;
}

/// The first slow commit among those after the good end, 0, to `last`. Builds at most about log2(`last`) + 2 commits.
/// Returns `None` if the user stopped the search.
///
/// # Errors
/// As the caller's actions.
pub fn run<C: Count>(last: usize, actions: &mut C) -> Result<Option<Found>, C::Error> {
    let mut search = Exact {
        actions,
        images: BTreeMap::new(),
        counts: BTreeMap::new(),
        wanted: BTreeMap::new(),
        failed: BTreeSet::new(),
        doubt: 0.0,
    };
    match search.search(last) {
        Ok(found) => Ok(Some(found)),
        Err(End::Stopped) => Ok(None),
        Err(End::Error(error)) => Err(error),
    }
}

/// A reason to end the search without a result.
enum End<E> {
    Stopped,
    Error(E),
}

struct Exact<'a, C: Count> {
    actions: &'a mut C,
    /// The image of each commit that was built; `None` if it does not build or boot.
    images: BTreeMap<usize, Option<String>>,
    /// Logarithms of the counts of each image, by layout.
    counts: BTreeMap<String, Vec<f64>>,
    /// Number of layouts that each image needs, if it is more than one.
    wanted: BTreeMap<String, usize>,
    /// Images that do not boot.
    failed: BTreeSet<String>,
    /// Sum of the error probabilities of all decisions.
    doubt: f64,
}

/// A decision about a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    More,
    Less,
    Neither,
}

/// A weighted sum of the logarithms of commits' counts.
type Sum<'a> = &'a [(usize, f64)];

impl<C: Count> Exact<'_, C> {
    fn search(&mut self, last: usize) -> Result<Found, End<C::Error>> {
        let without = |verdict| Found {
            verdict,
            candidates: Vec::new(),
            probability: 0.0,
            ends: None,
            before: None,
            after: None,
        };
        if last == 0 || !self.is_measured(0)? || !self.is_measured(last)? {
            return Ok(without(Verdict::CannotSay));
        }
        let sign = self.sign(&[(last, 1.0), (0, -1.0)])?;
        if sign != Sign::More {
            let verdict = if sign == Sign::Less { Verdict::Faster } else { Verdict::NoDifference };
            return Ok(Found { ends: self.ratio(last), ..without(verdict) });
        }
        let (mut low, mut high) = (0, last);
        while let Some(middle) = self.middle(low, high)? {
            // Over half of the difference lies before the commit if it is above the middle of the two levels.
            let sum = [(middle, 1.0), (low, -0.5), (high, -0.5)];
            let is_slow = match self.sign(&sum)? {
                Sign::More => true,
                Sign::Less => false,
                Sign::Neither => {
                    // Neither half has clearly more. Take the one that has more as far as is known.
                    self.doubt += 0.5;
                    self.mean(&sum) > 0.0
                }
            };
            *(if is_slow { &mut high } else { &mut low }) = middle;
        }
        self.confirm(low, high)?;
        let is_sure = self.doubt < 0.5;
        Ok(Found {
            verdict: if is_sure { Verdict::Slow } else { Verdict::Unsure },
            candidates: (low + 1..=high).collect(),
            probability: (1.0 - self.doubt).max(0.0),
            ends: self.ratio(last),
            before: if low > 0 { self.ratio(low) } else { None },
            after: self.ratio(high),
        })
    }

    /// Compares the two commits beside the found step once more, with several layouts of each if layouts matter.
    fn confirm(&mut self, low: usize, high: usize) -> Result<(), End<C::Error>> {
        if self.scatter(&[]).is_some() {
            self.want(&[low, high], LAYOUTS[1]);
        }
        if self.sign(&[(high, 1.0), (low, -1.0)])? != Sign::More {
            self.doubt += 0.5;
        }
        Ok(())
    }

    /// The commit nearest to the middle between two that can be measured, if there is one. The nearer it is, the fewer
    /// steps are left.
    fn middle(&mut self, low: usize, high: usize) -> Result<Option<usize>, End<C::Error>> {
        let mut inside: Vec<usize> = (low + 1..high).collect();
        inside.sort_by_key(|commit| commit.abs_diff(low + (high - low) / 2));
        for commit in inside {
            if self.is_measured(commit)? {
                return Ok(Some(commit));
            }
        }
        Ok(None)
    }

    /// True if the commit builds and boots with all layouts that its image needs.
    fn is_measured(&mut self, commit: usize) -> Result<bool, End<C::Error>> {
        if !self.images.contains_key(&commit) {
            let image = match self.actions.image(commit).map_err(End::Error)? {
                Image::Hash(hash) => Some(hash),
                Image::CannotSay => None,
                Image::Stopped => return Err(End::Stopped),
            };
            self.images.insert(commit, image);
        }
        let Some(hash) = self.images[&commit].clone() else { return Ok(false) };
        while !self.failed.contains(&hash) && self.counts_of(commit).len() < self.wanted(&hash) {
            let layout = self.counts_of(commit).len();
            match self.actions.boot(commit, layout).map_err(End::Error)? {
                Counted::Instructions(count) if count > 0.0 => {
                    self.counts.entry(hash.clone()).or_default().push(count.ln())
                }
                Counted::Instructions(_) | Counted::CannotSay => drop(self.failed.insert(hash.clone())),
                Counted::Stopped => return Err(End::Stopped),
            }
        }
        Ok(!self.failed.contains(&hash))
    }

    fn wanted(&self, image: &str) -> usize {
        self.wanted.get(image).copied().unwrap_or(LAYOUTS[0])
    }

    /// Requests a number of layouts of these commits' images.
    fn want(&mut self, commits: &[usize], layouts: usize) {
        for hash in commits.iter().filter_map(|commit| self.images.get(commit)?.clone()) {
            let wanted = self.wanted.entry(hash).or_insert(layouts);
            *wanted = layouts.max(*wanted);
        }
    }

    /// The sign of a weighted sum. Boots more layouts until it is clear.
    fn sign(&mut self, sum: Sum) -> Result<Sign, End<C::Error>> {
        loop {
            if self.is_one_image(sum) {
                return Ok(Sign::Neither);
            }
            for &(commit, _) in sum {
                if !self.is_measured(commit)? {
                    return Ok(Sign::Neither);
                }
            }
            let p = self.p(sum);
            if p <= CLEAR_P {
                self.doubt += p;
                return Ok(if self.mean(sum) > 0.0 { Sign::More } else { Sign::Less });
            }
            let fewest = sum.iter().map(|(commit, _)| self.counts_of(*commit).len()).min().unwrap_or(0);
            let Some(&more) = LAYOUTS.iter().find(|&&layouts| layouts > fewest) else { return Ok(Sign::Neither) };
            let commits: Vec<usize> = sum.iter().map(|(commit, _)| *commit).collect();
            self.want(&commits, more);
        }
    }

    /// Probability that layouts alone move a weighted sum as far from zero. 1 if it is not known yet.
    fn p(&self, sum: Sum) -> f64 {
        let commits: Vec<usize> = sum.iter().map(|(commit, _)| *commit).collect();
        let mean = self.mean(sum).abs();
        let Some((sd, freedom)) = self.scatter(&commits) else {
            // A sum has the scatter of the layouts of its commits.
            let scale = sum.iter().map(|(_, weight)| weight.abs()).sum::<f64>();
            return if mean > scale * floor::LAYOUT_MOST { 0.0 } else { 1.0 };
        };
        if self.is_outlier(sum, sd) {
            return 1.0;
        }
        let variance = |&(commit, weight): &(usize, f64)| weight * weight / self.counts_of(commit).len() as f64;
        student_t::two_sided(mean / (sd * sum.iter().map(variance).sum::<f64>().sqrt()), freedom)
    }

    /// True if the first commit of a sum has a single layout and lies far from all the others. It then has a level of
    /// its own, or a layout that is a rare exception.
    fn is_outlier(&self, sum: Sum, sd: f64) -> bool {
        let [(first, _), others @ ..] = sum else { return false };
        let level = |commit: usize| describe::mean(self.counts_of(commit));
        let distance = |&(other, _): &(usize, f64)| (level(*first) - level(other)).abs();
        let nearest = others.iter().map(distance).fold(f64::INFINITY, f64::min);
        others.len() > 1 && self.counts_of(*first).len() < LAYOUTS[1] && nearest > MAX_DISTANCE * sd
    }

    /// The standard deviation of an image's counts by layout, and its degrees of freedom: of all images together, or of
    /// these commits' if theirs is larger. `None` if no image has several layouts.
    fn scatter(&self, commits: &[usize]) -> Option<(f64, f64)> {
        let pooled = |images: &mut dyn Iterator<Item = &[f64]>| {
            let (mut squares, mut freedom) = (0.0, 0.0);
            for counts in images.filter(|counts| counts.len() > 1) {
                let mean = describe::mean(counts);
                squares += counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>();
                freedom += counts.len() as f64 - 1.0;
            }
            (freedom > 0.0).then(|| ((squares / freedom).sqrt().max(floor::PAIR), freedom))
        };
        let all = pooled(&mut self.counts.values().map(Vec::as_slice))?;
        let own = pooled(&mut commits.iter().map(|commit| self.counts_of(*commit)));
        Some(own.filter(|own| own.0 > all.0).unwrap_or(all))
    }

    fn is_one_image(&self, sum: Sum) -> bool {
        let mut images = sum.iter().map(|(commit, _)| self.images.get(commit).and_then(Option::as_ref));
        let first = images.next().flatten();
        first.is_some() && images.all(|image| image == first)
    }

    fn mean(&self, sum: Sum) -> f64 {
        sum.iter().map(|&(commit, weight)| weight * describe::mean(self.counts_of(commit))).sum()
    }

    fn counts_of(&self, commit: usize) -> &[f64] {
        self.images
            .get(&commit)
            .and_then(Option::as_ref)
            .and_then(|hash| self.counts.get(hash))
            .map_or(&[], Vec::as_slice)
    }

    /// The ratio of a commit to the good end. If no image has several layouts, the interval is as wide as layouts have
    /// made it on any kernel.
    fn ratio(&self, commit: usize) -> Option<Interval> {
        let sides = [self.counts_of(commit), self.counts_of(0)];
        if sides.iter().any(|counts| counts.is_empty()) {
            return None;
        }
        let half = match self.scatter(&[commit, 0]) {
            _ if self.is_one_image(&[(commit, 1.0), (0, -1.0)]) => 0.0,
            Some((sd, freedom)) => {
                let error = sd * sides.iter().map(|counts| 1.0 / counts.len() as f64).sum::<f64>().sqrt();
                student_t::half_width(freedom) * error
            }
            None => floor::LAYOUT_MOST,
        };
        let mean = describe::mean(sides[0]) - describe::mean(sides[1]);
        let [estimate, low, high] = [mean, mean - half, mean + half].map(f64::exp);
        Some(Interval { estimate, low, high, confidence: CONFIDENCE })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// A line of kernels. Each layout moves each image's count by chance.
    struct Kernels {
        /// The count of each commit, and the number of its image.
        commits: Vec<(f64, usize)>,
        scatter: f64,
        /// Probability of a layout whose count is 3 % larger.
        rare: f64,
        seed: u64,
        broken: BTreeSet<usize>,
        built: BTreeSet<usize>,
        boots: Vec<(usize, usize)>,
    }

    impl Kernels {
        fn new(counts: &[f64], scatter: f64) -> Kernels {
            let commits = counts.iter().copied().enumerate().map(|(image, count)| (count, image)).collect();
            Kernels {
                commits,
                scatter,
                rare: 0.0,
                seed: 0,
                broken: BTreeSet::new(),
                built: BTreeSet::new(),
                boots: Vec::new(),
            }
        }

        /// Equal counts before the slow commit, and equal ones from it on, each group with one image.
        fn two_images(commits: usize, slow: usize, step: f64) -> Kernels {
            let of = |commit| if commit < slow { (1e9, 0) } else { (1e9 * (1.0 + step), 1) };
            Kernels { commits: (0..=commits).map(of).collect(), ..Kernels::new(&[], 0.0) }
        }

        fn found(&mut self) -> Found {
            run(self.commits.len() - 1, self).unwrap().unwrap()
        }
    }

    impl Count for Kernels {
        type Error = ();
        fn image(&mut self, commit: usize) -> Result<Image, ()> {
            self.built.insert(commit);
            let hash = format!("{}", self.commits[commit].1);
            Ok(if self.broken.contains(&commit) { Image::CannotSay } else { Image::Hash(hash) })
        }
        fn boot(&mut self, commit: usize, layout: usize) -> Result<Counted, ()> {
            let (count, image) = self.commits[commit];
            assert!(!self.boots.contains(&(image, layout)), "image {image} with layout {layout} is booted twice");
            self.boots.push((image, layout));
            // The same layout of the same image always has the same count.
            let mut random = fastrand::Rng::with_seed((image * 1000 + layout) as u64 ^ self.seed);
            let normal = (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
            let rare = if random.f64() < self.rare { 0.03 } else { 0.0 };
            Ok(Counted::Instructions(count * (1.0 + self.scatter * normal + rare)))
        }
    }

    #[test]
    fn two_kernels_that_differ_by_much_are_booted_once_each() {
        for slow in 1..=10 {
            let mut kernels = Kernels::two_images(10, slow, 0.4);
            let found = kernels.found();
            assert_eq!((found.verdict, found.candidates.as_slice()), (Verdict::Slow, &[slow][..]));
            assert_eq!(kernels.boots.len(), 2, "{:?}", kernels.boots);
            let ends = found.ends.unwrap();
            assert!(ends.low < 1.4 && ends.high > 1.4, "{ends:?}");
        }
    }

    #[test]
    fn identical_ends_are_booted_once() {
        let mut kernels = Kernels::two_images(8, 9, 0.4);
        assert_eq!(kernels.found().verdict, Verdict::NoDifference);
        assert_eq!(kernels.boots.len(), 1);
    }

    /// Steps of 0.2 to 40 %, with other commits that move the count a little.
    #[test]
    fn the_slow_commit_is_found_with_few_images() {
        let mut random = fastrand::Rng::with_seed(43);
        let (mut right, mut images_max) = (0, 0);
        for _ in 0..100 {
            let (last, step) = (random.usize(16..=1000), 0.002 * 200_f64.powf(random.f64()));
            let slow = random.usize(1..=last);
            let mut count = 1e9;
            let mut next = |commit: usize| {
                count *= 1.0 + 2e-6 * (random.f64() - 0.5) + if commit == slow { step } else { 0.0 };
                count
            };
            let counts: Vec<f64> = (0..=last).map(&mut next).collect();
            let mut kernels = Kernels::new(&counts, 0.0005);
            right += usize::from(kernels.found().candidates == [slow]);
            let booted: BTreeSet<usize> = kernels.boots.iter().map(|boot| boot.0).collect();
            let most = (last as f64).log2().ceil() as usize + 3;
            assert!(booted.len() <= most, "{} of {most} images in {last} commits", booted.len());
            images_max = images_max.max(booted.len());
        }
        println!("{right} of 100 right, at most {images_max} images");
        assert!(right >= 95, "{right} of 100");
    }

    /// A step within the effect of layouts costs several boots of the images beside it and of the ends, one of others.
    #[test]
    fn a_small_step_costs_few_boots() {
        let counts: Vec<f64> = (0..=1000).map(|commit| if commit < 700 { 1e9 } else { 1.01e9 }).collect();
        let mut kernels = Kernels::new(&counts, 0.0005);
        assert_eq!(kernels.found().candidates, [700]);
        assert!(kernels.boots.len() <= 4 * 6 + 10, "{}", kernels.boots.len());
    }

    /// One layout of one image in fifty has a count 3 % larger, as on a kernel that then schedules its threads otherwise.
    #[test]
    fn a_rare_layout_does_not_mislead() {
        let mut random = fastrand::Rng::with_seed(44);
        let mut right = 0;
        for _ in 0..200 {
            let slow = random.usize(1..=64);
            let counts: Vec<f64> = (0..=64).map(|commit| if commit < slow { 1e9 } else { 1.02e9 }).collect();
            let mut kernels = Kernels::new(&counts, 0.0005);
            (kernels.rare, kernels.seed) = (0.02, random.u64(..));
            let found = kernels.found();
            assert!(found.verdict != Verdict::Slow || found.candidates == [slow], "{found:?} and not {slow}");
            right += usize::from(found.verdict == Verdict::Slow);
        }
        assert!(right >= 180, "{right} of 200");
    }

    #[test]
    fn an_image_that_does_not_boot_is_tried_once() {
        let mut kernels = Kernels::two_images(100, 57, 0.2);
        for commit in 40..57 {
            kernels.commits[commit] = (0.0, 2);
        }
        let found = kernels.found();
        assert_eq!((found.verdict, found.candidates), (Verdict::Slow, (40..=57).collect::<Vec<usize>>()));
        assert_eq!(kernels.boots.len(), 3);
    }

    #[test]
    fn layouts_alone_are_no_difference() {
        let mut alarms = 0;
        for seed in 0..200 {
            let mut kernels = Kernels::new(&[1e9; 9], 0.01);
            kernels.commits.iter_mut().for_each(|commit| commit.1 += seed * 100);
            alarms += usize::from(kernels.found().verdict != Verdict::NoDifference);
        }
        assert!(alarms <= 2, "{alarms} of 200");
    }

    #[test]
    fn commits_that_do_not_build_are_left_together() {
        let mut kernels = Kernels::two_images(100, 57, 0.2);
        kernels.broken.extend([55, 56, 57]);
        let found = kernels.found();
        assert_eq!((found.verdict, found.candidates), (Verdict::Slow, vec![55, 56, 57, 58]));
        let mut kernels = Kernels::two_images(10, 3, 0.2);
        kernels.broken.insert(10);
        assert_eq!(kernels.found().verdict, Verdict::CannotSay);
        let mut faster = Kernels::two_images(10, 3, -0.2);
        assert_eq!((faster.found().verdict, faster.built.len()), (Verdict::Faster, 2));
    }
}
