//! What samples say: where the CPUs were, so many times a second. Shares with an error, where spans have lengths.

use crate::{NameId, Ns};
use std::collections::HashMap;

/// Samples of a boot, by the stacks that they found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sampled {
    /// Samples that were not taken, as far as the evidence says.
    pub lost: u64,
    /// Of those taken, how many found user code.
    pub user: u64,
    /// When sampling began, on the samples' own clock; nothing samples what was before.
    pub began: Option<Ns>,
    /// The first sample's time and the last one's, on the samples' own clock.
    pub within: Option<(Ns, Ns)>,
    samples: u64,
    /// How many samples found each stack, outermost function first.
    stacks: HashMap<Vec<NameId>, u64>,
}

/// A function over all samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampledFunction {
    /// Its name.
    pub name: NameId,
    /// Samples that found it running.
    pub own: u64,
    /// Samples that found it on the stack; once for each.
    pub total: u64,
}

impl Sampled {
    /// Adds a sample: its functions, outermost first.
    pub fn add(&mut self, at: Ns, stack: Vec<NameId>) {
        self.samples += 1;
        let (first, last) = self.within.unwrap_or((at, at));
        self.within = Some((first.min(at), last.max(at)));
        *self.stacks.entry(stack).or_default() += 1;
    }

    /// How many there are.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Each stack, outermost function first, and how many samples found it; in no order.
    pub fn stacks(&self) -> impl Iterator<Item = (&[NameId], u64)> {
        self.stacks.iter().map(|(stack, &count)| (stack.as_slice(), count))
    }

    /// Each function, by name.
    pub fn functions(&self) -> Vec<SampledFunction> {
        let mut by_name: HashMap<NameId, SampledFunction> = HashMap::new();
        for (stack, count) in self.stacks() {
            let mut seen = stack.to_vec();
            seen.sort_unstable();
            seen.dedup();
            for name in seen {
                by_name.entry(name).or_insert(SampledFunction { name, own: 0, total: 0 }).total += count;
            }
            if let Some(function) = stack.last().and_then(|name| by_name.get_mut(name)) {
                function.own += count;
            }
        }
        let mut functions: Vec<SampledFunction> = by_name.into_values().collect();
        functions.sort_by_key(|function| function.name);
        functions
    }

    /// One standard error of a share that so many of the samples make up, as the binomial distribution has it.
    pub fn error_of(&self, count: u64) -> f64 {
        let share = count as f64 / self.samples.max(1) as f64;
        (share * (1.0 - share) / self.samples.max(1) as f64).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Names;

    #[test]
    fn functions_count_once_for_each_sample_and_shares_have_an_error() {
        let mut names = Names::default();
        let [a, b] = ["a", "b"].map(|name| names.intern(name));
        let mut sampled = Sampled::default();
        sampled.add(Ns(5), vec![a, b, a]);
        sampled.add(Ns(3), vec![a, b]);
        sampled.add(Ns(9), vec![]);
        sampled.add(Ns(4), vec![a]);
        let found = |name, own, total| SampledFunction { name, own, total };
        assert_eq!(sampled.functions(), [found(a, 2, 3), found(b, 1, 2)]);
        assert_eq!((sampled.samples(), sampled.within), (4, Some((Ns(3), Ns(9)))));
        // √(½ · ½ ÷ 4)
        assert!((sampled.error_of(2) - 0.25).abs() < 1e-12 && sampled.error_of(4) == 0.0);
        assert_eq!(Sampled::default().error_of(0), 0.0);
    }
}
