//! Finds the first slow commit of a line from boots with noisy times.
//!
//! A commit is measured in pairs with the line's good end: one boot of each in turn, so that the host's noise affects both.
//! Before the slow commit the logarithm of their ratio scatters around zero, from it on around one other value. The place of
//! the change is inferred by Smith's method ("A Bayesian approach to inference about a change-point in a sequence of random
//! variables", Biometrika 62, 1975), without assumptions about size and noise. The next commit measured is the one that
//! halves the probability (probabilistic bisection: Horstein 1963; Waeber, Frazier and Henderson, "Bisection search with
//! noisy responses", SIAM Journal on Control and Optimization 51, 2013). A build is expensive and a boot is cheap. So a built
//! commit is measured until its side is clear, or until it has the maximum number of pairs. It is measured again if later
//! results make it doubtful.
//!
//! Commits with the same image are never compared: the first slow commit does not lie between them.
//!
//! A commit that does not build is skipped, as with `git bisect skip`. Then several candidates may be left. The search assumes
//! a single slow commit. If there are several, it finds the most expensive one, and the levels before and after it show the
//! rest.

use analysis::floor;
use serde::{Deserialize, Serialize};
use statistics::quantile::median;
use statistics::verdict::Ask;
use statistics::{Interval, pairs, sorted};
use std::collections::{BTreeMap, BTreeSet};

/// Number of pairs in one step.
const BATCH: u32 = 6;
/// Maximum number of pairs of a commit. The bad end gets twice as many, because its level is compared with all others.
const MAX_PAIRS: usize = 60;
/// Minimum number of pairs before a commit can be clear or the ends can differ: the noise must be known first.
const MIN_PAIRS: usize = 12;
/// Maximum p-value for a difference of the ends. They are tested up to nine times.
const ENDS_P: f64 = 0.005;
/// A commit is clear if the other side is less likely than this.
const CLEAR: f64 = 0.01;
/// A commit is clear even before the noise is known if the other side is less likely than this.
const CERTAIN: f64 = 1e-6;
/// The search ends when the candidates are as likely as this.
const ENOUGH: f64 = 0.97;
/// Approximate maximum number of pairs from which a level is computed, sampled evenly from all.
const MAX_LEVEL_PAIRS: usize = 300;
/// Distance from the median, in standard deviations, to which outlying pairs are clamped.
const FAR: f64 = 3.0;

/// State of a search in a line of commits, numbered from the good end, 0, to the bad end.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    last: usize,
    /// Logarithms of commit ÷ good end of each pair.
    pairs: BTreeMap<usize, Vec<f64>>,
    skipped: BTreeSet<usize>,
    /// The image of each commit that was built.
    images: BTreeMap<usize, String>,
}

/// The next step of a search.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Measure pairs of a commit with the good end.
    Measure {
        /// Number of the commit in the line.
        commit: usize,
        /// Number of pairs.
        pairs: u32,
    },
    /// The search is over.
    Done(Found),
}

/// Result of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Found {
    /// The answer.
    pub verdict: Verdict,
    /// Numbers of the commits that may be the first slow one: a commit that builds, and the commits directly before it that do
    /// not.
    pub candidates: Vec<usize>,
    /// Probability that the first slow commit is among the candidates.
    pub probability: f64,
    /// Ratio of the bad end to the good end.
    pub ends: Option<Interval>,
    /// Ratio of the commits before the candidates to the good end: 1 if nothing else changed.
    pub before: Option<Interval>,
    /// Ratio of the commits from the last candidate on to the good end.
    pub after: Option<Interval>,
}

/// The answer of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The first slow commit is among the candidates.
    Slow,
    /// The bad end is faster than the good end.
    Faster,
    /// The boots show no difference between the ends.
    NoDifference,
    /// Every commit has its maximum number of boots, and no candidate is likely enough.
    Unsure,
    /// An end cannot be measured.
    CannotSay,
}

impl Search {
    /// A search in a line with this number of commits after the good end.
    pub fn new(commits: usize) -> Search {
        Search { last: commits, pairs: BTreeMap::new(), skipped: BTreeSet::new(), images: BTreeMap::new() }
    }

    /// Adds pairs of a commit, as logarithms of commit ÷ good end.
    pub fn tell(&mut self, commit: usize, logarithms: impl IntoIterator<Item = f64>) {
        let pairs = self.pairs.entry(commit).or_default();
        pairs.extend(logarithms.into_iter().filter(|log| log.is_finite()));
    }

    /// Excludes a commit that cannot be built or booted.
    pub fn skip(&mut self, commit: usize) {
        self.skipped.insert(commit);
        self.pairs.remove(&commit);
    }

    /// Records the image of a commit that was built.
    pub fn learn_image(&mut self, commit: usize, image: String) {
        self.images.insert(commit, image);
    }

    /// Another commit with the same image that is the good end or has pairs. Such a commit needs no pairs.
    fn twin(&self, commit: usize) -> Option<usize> {
        let image = self.images.get(&commit)?;
        let has_pairs = |other: &usize| *other == 0 || self.pairs.contains_key(other);
        let mut twins = self.images.iter().filter(|(_, other)| *other == image).map(|(&other, _)| other);
        twins.find(|other| *other != commit && has_pairs(other))
    }

    /// True if commits before and from this one have the same image, so it is not the first slow one.
    fn is_between_twins(&self, commit: usize) -> bool {
        let before: BTreeSet<&String> = self.images.range(..commit).map(|(_, image)| image).collect();
        self.images.range(commit..).any(|(_, image)| before.contains(image))
    }

    /// Number of measured commits, the good end included.
    pub fn measured(&self) -> usize {
        self.pairs.len() + 1
    }

    /// The next step. The cost is proportional to the number of commits times the number of measured ones.
    pub fn next(&self) -> Step {
        // Without one of its ends there is no search.
        if self.last == 0 || [0, self.last].iter().any(|end| self.skipped.contains(end)) {
            return Step::Done(self.found(Verdict::CannotSay, Vec::new(), 0.0));
        }
        if let Some(step) = self.ends() {
            return step;
        }
        let below = self.below();
        let (candidates, probability) = self.likeliest(&below);
        if probability >= ENOUGH {
            return Step::Done(self.found(Verdict::Slow, candidates, probability));
        }
        match self.most_wanted(&below) {
            Some(commit) => Step::Measure { commit: self.or_the_end(commit), pairs: BATCH },
            None => Step::Done(self.found(Verdict::Unsure, candidates, probability)),
        }
    }

    /// The step that is needed until the ends are known to differ. `None` if the bad end is slower.
    fn ends(&self) -> Option<Step> {
        if self.twin(self.last) == Some(0) {
            return Some(Step::Done(self.found(Verdict::NoDifference, Vec::new(), 0.0)));
        }
        let logs = self.pairs.get(&self.last).map_or(&[][..], Vec::as_slice);
        let more = Some(Step::Measure { commit: self.last, pairs: BATCH });
        if logs.len() < MIN_PAIRS {
            return more;
        }
        let ones = vec![1.0; logs.len()];
        let compared = pairs::estimate(&ones, &ratios(logs), &Ask::default())?;
        let differ = compared.p.is_some_and(|p| p <= ENDS_P);
        match compared.ratio {
            _ if !differ && logs.len() < MAX_PAIRS => more,
            _ if !differ => Some(Step::Done(self.found(Verdict::NoDifference, Vec::new(), 0.0))),
            Some(ratio) if ratio.estimate < 1.0 => Some(Step::Done(self.found(Verdict::Faster, Vec::new(), 0.0))),
            _ => None,
        }
    }

    /// For each commit, the probability that the first slow one is this commit or an earlier one.
    fn below(&self) -> Vec<f64> {
        let likelihood = self.likelihoods();
        let most = likelihood.iter().skip(1).copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = likelihood.iter().map(|l| (l - most).exp()).collect();
        let all: f64 = weights.iter().skip(1).sum();
        let mut sum = 0.0;
        let add = |(commit, weight): (usize, &f64)| {
            sum += if commit == 0 { 0.0 } else { weight / all };
            sum
        };
        weights.iter().enumerate().map(add).collect()
    }

    /// Log-likelihood of the pairs for each commit as the first slow one. The level before it is zero. The level after it and the
    /// noise are unknown, and both are integrated out: `n₂^(-1/2) (S₁ + S₂)^(-(n-1)/2)`.
    fn likelihoods(&self) -> Vec<f64> {
        let clamped = self.clamped();
        let n: usize = clamped.values().map(Vec::len).sum();
        let squares = |logs: &[f64], around: f64| logs.iter().map(|log| (log - around).powi(2)).sum::<f64>();
        let one = |first_slow: usize| {
            let before: f64 = clamped.range(..first_slow).map(|(_, logs)| squares(logs, 0.0)).sum();
            let after: Vec<f64> = clamped.range(first_slow..).flat_map(|(_, logs)| logs.iter().copied()).collect();
            let level = after.iter().sum::<f64>() / after.len() as f64;
            // The commit must be slower, so a level below zero does not explain the pairs.
            let spread = before + squares(&after, level.max(0.0)) + n as f64 * floor::PAIR.powi(2);
            -0.5 * (after.len() as f64).ln() - 0.5 * (n as f64 - 1.0) * spread.ln()
        };
        let mut likelihoods = vec![f64::NEG_INFINITY; self.last + 1];
        let mut from = 1;
        // All commits between two measured ones are equally likely.
        for &measured in clamped.keys() {
            let same = one(from);
            likelihoods[from..=measured].fill(same);
            from = measured + 1;
        }
        for commit in (1..=self.last).filter(|&commit| self.is_between_twins(commit)) {
            likelihoods[commit] = f64::NEG_INFINITY;
        }
        likelihoods
    }

    /// The pairs with outliers clamped, so that a single outlier does not decide.
    fn clamped(&self) -> BTreeMap<usize, Vec<f64>> {
        let middles: BTreeMap<usize, f64> = self.pairs.iter().map(|(&c, logs)| (c, median(&sorted(logs)))).collect();
        let apart = self.pairs.iter().flat_map(|(c, logs)| logs.iter().map(|log| (log - middles[c]).abs()));
        // The median distance of normal noise is 0.6745 standard deviations.
        let sd = (median(&sorted(&apart.collect::<Vec<f64>>())) / 0.6745).max(floor::PAIR);
        let clamp = |(&c, logs): (&usize, &Vec<f64>)| {
            let clamped = logs.iter().map(|log| log.clamp(middles[&c] - FAR * sd, middles[&c] + FAR * sd));
            (c, clamped.collect())
        };
        self.pairs.iter().filter(|(_, logs)| !logs.is_empty()).map(clamp).collect()
    }

    /// The likeliest candidates with their probability: a commit together with the skipped commits before it.
    fn likeliest(&self, below: &[f64]) -> (Vec<usize>, f64) {
        let mut best = (Vec::new(), -1.0);
        let mut first = 1;
        while first <= self.last {
            let mut end = first;
            while end < self.last && self.skipped.contains(&end) {
                end += 1;
            }
            let probability = below[end] - below[first - 1];
            if probability > best.1 {
                best = ((first..=end).collect(), probability);
            }
            first = end + 1;
        }
        best
    }

    /// The commit to measure next: a built one that is not clear yet; else the one that halves the probability; else any built one
    /// that may have more pairs.
    fn most_wanted(&self, below: &[f64]) -> Option<usize> {
        let halves = |commit: &usize| below[*commit].min(1.0 - below[*commit]);
        let by = |a: &usize, b: &usize| halves(a).total_cmp(&halves(b));
        let inside = || (1..self.last).filter(|c| !self.skipped.contains(c) && self.twin(*c).is_none());
        let built = || inside().filter(|c| self.pairs.get(c).is_some_and(|logs| logs.len() < MAX_PAIRS));
        let begun = built().find(|c| self.pairs[c].len() < MIN_PAIRS && halves(c) > CERTAIN);
        if begun.is_some() {
            return begun;
        }
        let doubtful = built().filter(|c| halves(c) >= CLEAR).max_by(by);
        let fresh = || inside().filter(|c| !self.pairs.contains_key(c) && halves(c) > 1.0 - ENOUGH).max_by(by);
        doubtful.or_else(fresh).or_else(|| built().max_by(by))
    }

    /// The bad end if it has no more pairs than the commit, else the commit: the size of the change must be known as well.
    fn or_the_end(&self, commit: usize) -> usize {
        let pairs = |commit: usize| self.pairs.get(&commit).map_or(0, Vec::len);
        let end_first = pairs(commit) >= pairs(self.last) && pairs(self.last) < 2 * MAX_PAIRS;
        if end_first { self.last } else { commit }
    }

    fn found(&self, verdict: Verdict, candidates: Vec<usize>, probability: f64) -> Found {
        let level = |range: std::ops::RangeInclusive<usize>| {
            let all: Vec<f64> = self.pairs.range(range).flat_map(|(_, logs)| logs.iter().copied()).collect();
            // The cost of the interval is quadratic in the number of pairs.
            let logs: Vec<f64> = all.iter().step_by(1 + all.len() / MAX_LEVEL_PAIRS).copied().collect();
            pairs::estimate(&vec![1.0; logs.len()], &ratios(&logs), &Ask::default())?.ratio
        };
        let (first, last) = (candidates.first().copied(), candidates.last().copied());
        Found {
            verdict,
            probability,
            ends: level(self.last..=self.last),
            before: first.filter(|&first| first > 1).and_then(|first| level(1..=first - 1)),
            after: last.and_then(|last| level(last..=self.last)),
            candidates,
        }
    }
}

fn ratios(logs: &[f64]) -> Vec<f64> {
    logs.iter().map(|log| log.exp()).collect()
}

/// The image of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Image {
    /// The hash of what is booted. Commits with the same hash are the same.
    Hash(String),
    /// The commit does not build.
    CannotSay,
    /// The user stopped the search.
    Stopped,
}

/// Result of measuring a commit.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Logarithms of commit ÷ good end of each pair.
    Pairs(Vec<f64>),
    /// The commit does not build or boot.
    CannotSay,
    /// The user stopped the measurement. The pairs so far are kept.
    Stopped(Vec<f64>),
}

/// The caller's actions: builds and boots commits.
pub trait Measure {
    /// An error that ends the search. A commit that cannot be measured is not one.
    type Error;
    /// Builds a commit.
    fn image(&mut self, commit: usize) -> Result<Image, Self::Error>;
    /// Measures pairs of a commit with the good end.
    fn measure(&mut self, commit: usize, pairs: u32) -> Result<Answer, Self::Error>;
}

/// Searches until there is a result. Returns `None` if the user stopped the search.
pub fn run<M: Measure>(search: &mut Search, actions: &mut M) -> Result<Option<Found>, M::Error> {
    'steps: loop {
        let (commit, pairs) = match search.next() {
            Step::Done(found) => return Ok(Some(found)),
            Step::Measure { commit, pairs } => (commit, pairs),
        };
        for commit in [0, commit] {
            if search.images.contains_key(&commit) {
                continue;
            }
            match actions.image(commit)? {
                Image::Hash(image) => search.learn_image(commit, image),
                Image::CannotSay => {
                    search.skip(commit);
                    continue 'steps;
                }
                Image::Stopped => return Ok(None),
            }
            if search.twin(commit).is_some() {
                continue 'steps;
            }
        }
        match actions.measure(commit, pairs)? {
            // Skip a commit that never gives a pair, or the search would measure it for ever.
            Answer::Pairs(logs) if logs.is_empty() => search.skip(commit),
            Answer::Pairs(logs) => search.tell(commit, logs),
            Answer::CannotSay => search.skip(commit),
            Answer::Stopped(logs) => {
                search.tell(commit, logs);
                return Ok(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A search whose folder says that the good end cannot be measured.
    struct NoGoodEnd(u32);

    impl Measure for NoGoodEnd {
        type Error = ();
        fn image(&mut self, commit: usize) -> Result<Image, ()> {
            self.0 += 1;
            assert!(self.0 < 100, "the search has no end");
            Ok(if commit == 0 { Image::CannotSay } else { Image::Hash(commit.to_string()) })
        }
        fn measure(&mut self, _: usize, _: u32) -> Result<Answer, ()> {
            Err(())
        }
    }

    #[test]
    fn a_search_without_its_good_end_is_over() {
        let found = run(&mut Search::new(3), &mut NoGoodEnd(0)).unwrap().unwrap();
        assert_eq!(found.verdict, Verdict::CannotSay);
    }

    /// Boots with noise, slower by `step` from one commit on.
    struct Simulated<F> {
        first_slow: usize,
        step: f64,
        noise: F,
        broken: BTreeSet<usize>,
        builds: BTreeSet<usize>,
        boots: u32,
        /// The image of each commit; empty: each has another one.
        images: Vec<usize>,
    }

    impl<F: FnMut() -> f64> Measure for Simulated<F> {
        type Error = ();
        fn image(&mut self, commit: usize) -> Result<Image, ()> {
            Ok(Image::Hash(self.images.get(commit).map_or(commit, |image| *image).to_string()))
        }
        fn measure(&mut self, commit: usize, pairs: u32) -> Result<Answer, ()> {
            self.builds.extend([0, commit]);
            if self.broken.contains(&commit) {
                return Ok(Answer::CannotSay);
            }
            self.boots += 2 * pairs;
            assert!(self.boots < 5_000, "the search has no end");
            let level = if commit >= self.first_slow { 1.0 + self.step } else { 1.0 };
            Ok(Answer::Pairs((0..pairs).map(|_| (level * (self.noise)() / (self.noise)()).ln()).collect()))
        }
    }

    fn simulated<F: FnMut() -> f64>(first_slow: usize, step: f64, noise: F) -> Simulated<F> {
        Simulated {
            first_slow,
            step,
            noise,
            broken: BTreeSet::new(),
            builds: BTreeSet::new(),
            boots: 0,
            images: Vec::new(),
        }
    }

    /// An approximately normal random number: the sum of twelve uniform ones.
    fn normal(random: &mut fastrand::Rng) -> f64 {
        (0..12).map(|_| random.f64()).sum::<f64>() - 6.0
    }

    fn found_in(commits: usize, host: &mut Simulated<impl FnMut() -> f64>) -> Found {
        run(&mut Search::new(commits), host).unwrap().unwrap()
    }

    #[test]
    fn one_slow_commit_of_a_thousand() {
        // `make bench` tests more.
        let trials = std::env::var("BOOTSCOPE_SIMULATIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(100);
        let mut random = fastrand::Rng::with_seed(40);
        let (mut right, mut builds, mut boots, mut sure) = (0, 0, 0, 0.0);
        for _ in 0..trials {
            let slow = random.usize(1..=1000);
            let mut noise = fastrand::Rng::with_seed(random.u64(..));
            let mut host = simulated(slow, 0.03, move || 1.0 + 0.02 * normal(&mut noise));
            let found = found_in(1000, &mut host);
            right += usize::from(found.candidates == [slow]);
            builds = builds.max(host.builds.len());
            boots += host.boots;
            sure += found.probability;
        }
        let each = f64::from(boots) / trials as f64;
        println!(
            "{right} of {trials} right, {:.3} expected; at most {builds} builds, {each:.0} boots",
            sure / trials as f64
        );
        assert!(right * 100 >= 95 * trials, "{right} of {trials}");
        assert!(builds <= 25, "{builds} builds");
    }

    #[test]
    fn noise_with_outliers_and_skew() {
        let mut random = fastrand::Rng::with_seed(41);
        let mut right = 0;
        for _ in 0..60 {
            let slow = random.usize(1..=200);
            let mut noise = fastrand::Rng::with_seed(random.u64(..));
            let draw = move || {
                let late = if noise.f64() < 0.05 { 0.3 } else { 0.0 };
                1.0 + 0.02 * -(1.0 - noise.f64()).ln() + late
            };
            right += usize::from(found_in(200, &mut simulated(slow, 0.03, draw)).candidates == [slow]);
        }
        println!("{right} of 60 right");
        assert!(right >= 55, "{right} of 60");
    }

    #[test]
    fn commits_that_do_not_build_are_left_together() {
        let mut random = fastrand::Rng::with_seed(42);
        let mut host = simulated(57, 0.05, move || 1.0 + 0.01 * normal(&mut random));
        host.broken.extend([55, 56, 57]);
        let found = found_in(100, &mut host);
        assert_eq!((found.verdict, found.candidates), (Verdict::Slow, vec![55, 56, 57, 58]));
        // If half of the commits do not build, the candidates are the slow one and its neighbours that do not build.
        let mut random = fastrand::Rng::with_seed(43);
        let mut host = simulated(31, 0.05, move || 1.0 + 0.01 * normal(&mut random));
        host.broken.extend((0..50).map(|i| 2 * i + 1));
        assert_eq!(found_in(100, &mut host).candidates, [31, 32]);
    }

    #[test]
    fn equal_ends_are_reported_before_anything_is_built() {
        let mut alarms = 0;
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut host = simulated(50, 0.0, move || 1.0 + 0.02 * normal(&mut random));
            alarms += usize::from(found_in(100, &mut host).verdict != Verdict::NoDifference);
        }
        assert!(alarms <= 8, "{alarms} of 200");
        let mut random = fastrand::Rng::with_seed(1);
        let mut host = simulated(50, -0.05, move || 1.0 + 0.02 * normal(&mut random));
        assert_eq!((found_in(100, &mut host).verdict, host.builds.len()), (Verdict::Faster, 2));
    }

    #[test]
    fn commits_with_one_image_are_not_compared() {
        // Two images: the ends alone are measured, and the others are built.
        let mut random = fastrand::Rng::with_seed(44);
        let mut host = simulated(57, 0.05, move || 1.0 + 0.01 * normal(&mut random));
        host.images = (0..=100).map(|commit| usize::from(commit >= 57)).collect();
        let found = found_in(100, &mut host);
        assert_eq!((found.verdict, found.candidates), (Verdict::Slow, vec![57]));
        assert_eq!(host.builds, BTreeSet::from([0, 100]));
        assert_eq!(found.probability, 1.0);
        // Three: one of those in the middle is measured for all of them.
        let mut random = fastrand::Rng::with_seed(45);
        let mut host = simulated(30, 0.05, move || 1.0 + 0.01 * normal(&mut random));
        host.images = (0..=100).map(|commit| usize::from(commit >= 30) + usize::from(commit >= 60)).collect();
        assert_eq!(found_in(100, &mut host).candidates, [30]);
        assert_eq!(host.builds.len(), 3, "{:?}", host.builds);
        let mut host = simulated(30, 0.05, || panic!("equal ends are not booted"));
        host.images = vec![7; 101];
        assert_eq!(found_in(100, &mut host).verdict, Verdict::NoDifference);
    }

    #[test]
    fn boots_that_repeat_exactly_find_the_commit() {
        for slow in [1, 2, 63, 64] {
            let mut host = simulated(slow, 0.01, || 1.0);
            let found = found_in(64, &mut host);
            assert_eq!(found.candidates, [slow]);
            assert!(host.builds.len() <= 9, "{:?}", host.builds);
        }
        let mut host = simulated(1, 0.01, || 1.0);
        assert_eq!(found_in(1, &mut host).candidates, [1]);
    }

    #[test]
    fn an_end_that_cannot_be_measured_and_a_stop() {
        let mut host = simulated(3, 0.1, || 1.0);
        host.broken.insert(9);
        assert_eq!(found_in(9, &mut host).verdict, Verdict::CannotSay);
        assert_eq!(Search::new(0).next(), Step::Done(Search::new(0).found(Verdict::CannotSay, Vec::new(), 0.0)));
        // A search that gets its pairs again resumes where it stopped.
        let mut search = Search::new(100);
        search.tell(100, vec![0.1; 12]);
        let Step::Measure { commit, .. } = search.next() else { panic!() };
        search.tell(commit, vec![0.1; 6]);
        let next = search.next();
        let mut again = Search::new(100);
        again.tell(commit, vec![0.1; 6]);
        again.tell(100, vec![0.1; 12]);
        assert_eq!(again.next(), next);
    }
}
