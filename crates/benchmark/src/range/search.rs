//! Which commit of a line is the first slow one, inferred from boots whose times are noisy.
//!
//! A commit is measured in pairs with the line's good end: one boot of each in turn, so that the host's noise is in both.
//! Before the slow commit the logarithm of their ratio scatters around zero, from it on around one other value; where the
//! change lies is inferred as Smith did it ("A Bayesian approach to inference about a change-point in a sequence of random
//! variables", Biometrika 62, 1975), with nothing assumed about size and noise. The next commit measured is the one that
//! halves the probability (probabilistic bisection: Horstein 1963; Waeber, Frazier and Henderson, "Bisection search with
//! noisy responses", SIAM Journal on Control and Optimization 51, 2013). A build is dear and a boot is cheap, so a commit
//! that is built is measured until it is clear, or has had its share; a later doubt brings it back.
//!
//! A commit that does not build is skipped, as with `git bisect skip`. Then several candidates may be left. The search assumes
//! one slow commit; if there are several, it finds the one that costs most, and the levels show what is left.

use analysis::floor;
use serde::{Deserialize, Serialize};
use statistics::quantile::median;
use statistics::{Interval, pairs, sorted};
use std::collections::{BTreeMap, BTreeSet};

/// Pairs of one step.
const BATCH: u32 = 6;
/// A commit has so many pairs at most, and the bad end twice as many: all others are held against its level.
const PAIRS_MOST: usize = 60;
/// A commit is not called clear, and the ends not different, before so many: the noise must be known first.
const PAIRS_MIN: usize = 12;
/// How unlikely a difference of the ends must be without any. They are looked at up to nine times.
const ENDS_P: f64 = 0.005;
/// A commit is clear when the other side is less likely than this.
const CLEAR: f64 = 0.01;
/// Or when it is so unlikely that no doubt about the noise matters.
const CERTAIN: f64 = 1e-6;
/// It is enough when the commit is as likely as this.
const ENOUGH: f64 = 0.97;
/// A level is computed from at most so many pairs, taken evenly from all.
const LEVEL_MOST: usize = 300;
/// A pair counts as no further out than so many standard deviations.
const FAR: f64 = 3.0;

/// What is known of a line of commits: 0 is the good end, and the last the bad one.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    last: usize,
    /// Logarithms of commit ÷ good end, of each pair.
    pairs: BTreeMap<usize, Vec<f64>>,
    skipped: BTreeSet<usize>,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Measure so many pairs of this commit.
    Measure {
        /// The commit.
        commit: usize,
        /// How many pairs.
        pairs: u32,
    },
    /// It is over.
    Done(Found),
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Found {
    /// The answer.
    pub verdict: Verdict,
    /// The commits that it may be, which nothing that builds lies between. One, if all could be built.
    pub candidates: Vec<usize>,
    /// How likely it is among these.
    pub probability: f64,
    /// The bad end ÷ the good one.
    pub ends: Option<Interval>,
    /// What was measured before the candidates ÷ the good end: 1, if nothing else changed.
    pub before: Option<Interval>,
    /// What was measured from the candidates on ÷ the good end.
    pub after: Option<Interval>,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The first slow commit is among the candidates.
    Slow,
    /// The bad end is faster than the good one.
    Faster,
    /// The ends do not differ by what so many boots can show.
    NoDifference,
    /// Every commit has had its share of boots, and it is still not sure.
    Unsure,
    /// An end cannot be measured.
    CannotSay,
}

impl Search {
    /// A line of so many commits after the good end.
    pub fn new(commits: usize) -> Search {
        Search { last: commits, pairs: BTreeMap::new(), skipped: BTreeSet::new() }
    }

    /// Takes pairs of a commit: the logarithms of commit ÷ good end.
    pub fn tell(&mut self, commit: usize, logarithms: impl IntoIterator<Item = f64>) {
        let known = self.pairs.entry(commit).or_default();
        known.extend(logarithms.into_iter().filter(|log| log.is_finite()));
    }

    /// A commit that cannot be built or booted.
    pub fn skip(&mut self, commit: usize) {
        self.skipped.insert(commit);
        self.pairs.remove(&commit);
    }

    /// How many commits were measured, the good end with them.
    pub fn measured(&self) -> usize {
        self.pairs.len() + 1
    }

    /// What to do next. Linear in the number of commits, times those that were measured.
    pub fn next(&self) -> Step {
        if self.last == 0 || self.skipped.contains(&self.last) {
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

    /// First it must be sure that the ends differ at all.
    fn ends(&self) -> Option<Step> {
        let logs = self.pairs.get(&self.last).map_or(&[][..], Vec::as_slice);
        let more = Some(Step::Measure { commit: self.last, pairs: BATCH });
        if logs.len() < PAIRS_MIN {
            return more;
        }
        let ones = vec![1.0; logs.len()];
        let compared = pairs::estimate(&ones, &ratios(logs))?;
        let differ = compared.p.is_some_and(|p| p <= ENDS_P);
        match compared.ratio {
            _ if !differ && logs.len() < PAIRS_MOST => more,
            _ if !differ => Some(Step::Done(self.found(Verdict::NoDifference, Vec::new(), 0.0))),
            Some(ratio) if ratio.estimate < 1.0 => Some(Step::Done(self.found(Verdict::Faster, Vec::new(), 0.0))),
            _ => None,
        }
    }

    /// For each commit, the probability that the first slow one is it or one before it.
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

    /// The logarithm of how likely the pairs are if each commit were the first slow one. With zero before it, one unknown
    /// level after it, and one unknown noise, both integrated out: `n₂^(-1/2) (S₁ + S₂)^(-(n-1)/2)`.
    fn likelihoods(&self) -> Vec<f64> {
        let tamed = self.tamed();
        let n: usize = tamed.values().map(Vec::len).sum();
        let squares = |logs: &[f64], around: f64| logs.iter().map(|log| (log - around).powi(2)).sum::<f64>();
        let one = |first_slow: usize| {
            let before: f64 = tamed.range(..first_slow).map(|(_, logs)| squares(logs, 0.0)).sum();
            let after: Vec<f64> = tamed.range(first_slow..).flat_map(|(_, logs)| logs.iter().copied()).collect();
            let level = after.iter().sum::<f64>() / after.len() as f64;
            // Slow is slow: a level below zero is no explanation.
            let spread = before + squares(&after, level.max(0.0)) + n as f64 * floor::PAIR.powi(2);
            -0.5 * (after.len() as f64).ln() - 0.5 * (n as f64 - 1.0) * spread.ln()
        };
        let mut likelihoods = vec![f64::NEG_INFINITY; self.last + 1];
        let mut from = 1;
        // Between two commits that were measured all are as likely.
        for &measured in tamed.keys() {
            let same = one(from);
            likelihoods[from..=measured].fill(same);
            from = measured + 1;
        }
        likelihoods
    }

    /// The pairs, the far ones drawn in: boots have outliers, and one must not decide.
    fn tamed(&self) -> BTreeMap<usize, Vec<f64>> {
        let middles: BTreeMap<usize, f64> = self.pairs.iter().map(|(&c, logs)| (c, median(&sorted(logs)))).collect();
        let apart = self.pairs.iter().flat_map(|(c, logs)| logs.iter().map(|log| (log - middles[c]).abs()));
        // The median distance of normal noise is 0.6745 of its standard deviation.
        let sd = (median(&sorted(&apart.collect::<Vec<f64>>())) / 0.6745).max(floor::PAIR);
        let tame = |(&c, logs): (&usize, &Vec<f64>)| {
            let tamed = logs.iter().map(|log| log.clamp(middles[&c] - FAR * sd, middles[&c] + FAR * sd));
            (c, tamed.collect())
        };
        self.pairs.iter().filter(|(_, logs)| !logs.is_empty()).map(tame).collect()
    }

    /// The commits that are likeliest together and that nothing that builds lies between.
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

    /// The commit whose boots would tell most: one that is built and not clear yet; else the one that halves the
    /// probability; else whatever is built and may have more.
    fn most_wanted(&self, below: &[f64]) -> Option<usize> {
        let halves = |commit: &usize| below[*commit].min(1.0 - below[*commit]);
        let by = |a: &usize, b: &usize| halves(a).total_cmp(&halves(b));
        let inside = || (1..self.last).filter(|c| !self.skipped.contains(c));
        let built = || inside().filter(|c| self.pairs.get(c).is_some_and(|logs| logs.len() < PAIRS_MOST));
        let begun = built().find(|c| self.pairs[c].len() < PAIRS_MIN && halves(c) > CERTAIN);
        if begun.is_some() {
            return begun;
        }
        let doubtful = built().filter(|c| halves(c) >= CLEAR).max_by(by);
        let fresh = || inside().filter(|c| !self.pairs.contains_key(c) && halves(c) > 1.0 - ENOUGH).max_by(by);
        doubtful.or_else(fresh).or_else(|| built().max_by(by))
    }

    /// The bad end, where it was measured no more than the commit: the size of the step has to be known as well.
    fn or_the_end(&self, commit: usize) -> usize {
        let pairs = |commit: usize| self.pairs.get(&commit).map_or(0, Vec::len);
        let end_first = pairs(commit) >= pairs(self.last) && pairs(self.last) < 2 * PAIRS_MOST;
        if end_first { self.last } else { commit }
    }

    fn found(&self, verdict: Verdict, candidates: Vec<usize>, probability: f64) -> Found {
        let level = |range: std::ops::RangeInclusive<usize>| {
            let all: Vec<f64> = self.pairs.range(range).flat_map(|(_, logs)| logs.iter().copied()).collect();
            // The interval is quadratic in them.
            let logs: Vec<f64> = all.iter().step_by(1 + all.len() / LEVEL_MOST).copied().collect();
            pairs::estimate(&vec![1.0; logs.len()], &ratios(&logs))?.ratio
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

/// What a commit's measurement came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The logarithms of commit ÷ good end, of each pair.
    Pairs(Vec<f64>),
    /// It does not build or boot.
    CannotSay,
    /// The user stopped it; what was measured is kept.
    Stopped(Vec<f64>),
}

/// Who builds and boots.
pub trait Measure {
    /// What ends the search, other than a commit that cannot say.
    type Error;
    /// Measures pairs of a commit with the good end.
    fn measure(&mut self, commit: usize, pairs: u32) -> Result<Answer, Self::Error>;
}

/// Searches until it is found; `None` if the user stopped it.
pub fn run<M: Measure>(search: &mut Search, by: &mut M) -> Result<Option<Found>, M::Error> {
    loop {
        let (commit, pairs) = match search.next() {
            Step::Done(found) => return Ok(Some(found)),
            Step::Measure { commit, pairs } => (commit, pairs),
        };
        match by.measure(commit, pairs)? {
            // What never gives a pair cannot say, or it would be asked for ever.
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

    /// Boots with noise; from one commit on slower by a step.
    struct Simulated<F> {
        first_slow: usize,
        step: f64,
        noise: F,
        broken: BTreeSet<usize>,
        builds: BTreeSet<usize>,
        boots: u32,
    }

    impl<F: FnMut() -> f64> Measure for Simulated<F> {
        type Error = ();
        fn measure(&mut self, commit: usize, pairs: u32) -> Result<Answer, ()> {
            self.builds.extend([0, commit]);
            if self.broken.contains(&commit) {
                return Ok(Answer::CannotSay);
            }
            self.boots += 2 * pairs;
            let level = if commit >= self.first_slow { 1.0 + self.step } else { 1.0 };
            Ok(Answer::Pairs((0..pairs).map(|_| (level * (self.noise)() / (self.noise)()).ln()).collect()))
        }
    }

    fn simulated<F: FnMut() -> f64>(first_slow: usize, step: f64, noise: F) -> Simulated<F> {
        Simulated { first_slow, step, noise, broken: BTreeSet::new(), builds: BTreeSet::new(), boots: 0 }
    }

    /// Normal, by the sum of twelve.
    fn normal(random: &mut fastrand::Rng) -> f64 {
        (0..12).map(|_| random.f64()).sum::<f64>() - 6.0
    }

    fn found_in(commits: usize, by: &mut Simulated<impl FnMut() -> f64>) -> Found {
        run(&mut Search::new(commits), by).unwrap().unwrap()
    }

    #[test]
    fn one_slow_commit_of_a_thousand() {
        // `make bench` has more.
        let trials = std::env::var("BOOTSCOPE_SIMULATIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(100);
        let mut random = fastrand::Rng::with_seed(40);
        let (mut right, mut builds, mut boots, mut sure) = (0, 0, 0, 0.0);
        for _ in 0..trials {
            let slow = random.usize(1..=1000);
            let mut noise = fastrand::Rng::with_seed(random.u64(..));
            let mut by = simulated(slow, 0.03, move || 1.0 + 0.02 * normal(&mut noise));
            let found = found_in(1000, &mut by);
            right += usize::from(found.candidates == [slow]);
            builds = builds.max(by.builds.len());
            boots += by.boots;
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
        let mut by = simulated(57, 0.05, move || 1.0 + 0.01 * normal(&mut random));
        by.broken.extend([55, 56, 57]);
        let found = found_in(100, &mut by);
        assert_eq!((found.verdict, found.candidates), (Verdict::Slow, vec![55, 56, 57, 58]));
        // Where half of them do not, the slow one and its neighbours are told as closely as can be.
        let mut random = fastrand::Rng::with_seed(43);
        let mut by = simulated(31, 0.05, move || 1.0 + 0.01 * normal(&mut random));
        by.broken.extend((0..50).map(|i| 2 * i + 1));
        assert_eq!(found_in(100, &mut by).candidates, [31, 32]);
    }

    #[test]
    fn ends_that_do_not_differ_are_told_before_anything_is_built() {
        let mut alarms = 0;
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut by = simulated(50, 0.0, move || 1.0 + 0.02 * normal(&mut random));
            alarms += usize::from(found_in(100, &mut by).verdict != Verdict::NoDifference);
        }
        assert!(alarms <= 8, "{alarms} of 200");
        let mut random = fastrand::Rng::with_seed(1);
        let mut by = simulated(50, -0.05, move || 1.0 + 0.02 * normal(&mut random));
        assert_eq!((found_in(100, &mut by).verdict, by.builds.len()), (Verdict::Faster, 2));
    }

    #[test]
    fn boots_that_repeat_exactly_need_no_luck() {
        for slow in [1, 2, 63, 64] {
            let mut by = simulated(slow, 0.01, || 1.0);
            let found = found_in(64, &mut by);
            assert_eq!(found.candidates, [slow]);
            assert!(by.builds.len() <= 9, "{:?}", by.builds);
        }
        let mut by = simulated(1, 0.01, || 1.0);
        assert_eq!(found_in(1, &mut by).candidates, [1]);
    }

    #[test]
    fn an_end_that_cannot_be_measured_and_a_stop() {
        let mut by = simulated(3, 0.1, || 1.0);
        by.broken.insert(9);
        assert_eq!(found_in(9, &mut by).verdict, Verdict::CannotSay);
        assert_eq!(Search::new(0).next(), Step::Done(Search::new(0).found(Verdict::CannotSay, Vec::new(), 0.0)));
        // What is told again is known again: a search goes on where it stopped.
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
