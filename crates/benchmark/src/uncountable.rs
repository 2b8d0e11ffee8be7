//! Options that change what an instruction costs: a count of instructions cannot judge them.

use crate::head::{Head, Variant};
use recording::GuestSpec;

/// Names of words on a kernel's command line: mitigations of CPU faults, sleeping, preemption, SMT, sizes of pages.
const WORDS: [&str; 24] = [
    "default_hugepagesz",
    "gather_data_sampling",
    "hugepages",
    "hugepagesz",
    "idle",
    "kpti",
    "l1tf",
    "mds",
    "mitigations",
    "mmio_stale_data",
    "nopti",
    "nosmt",
    "nospec_store_bypass_disable",
    "nospectre_bhb",
    "nospectre_v1",
    "nospectre_v2",
    "preempt",
    "pti",
    "retbleed",
    "spec_rstack_overflow",
    "spec_store_bypass_disable",
    "spectre_v2",
    "transparent_hugepage",
    "tsx_async_abort",
];

/// QEMU's option for the CPU model.
const CPU_MODEL: &str = "-cpu";

impl Head {
    /// The options in which a variant differs from the first one, and whose effect a count of instructions cannot show. Empty
    /// for boots by the clock.
    pub fn uncountable(&self, variant: usize) -> Vec<String> {
        let pair = self.variants.first().zip(self.variants.get(variant));
        let Some((first, second)) = pair.filter(|_| self.deterministic) else { return Vec::new() };
        let [first, second] = [first, second].map(|variant: &Variant| GuestSpec::of(&variant.how).unwrap_or_default());
        let mut options: Vec<String> = Vec::new();
        for (one, other) in [(&first, &second), (&second, &first)] {
            let others: Vec<&str> = other.append.split_ascii_whitespace().collect();
            let only_here = one.append.split_ascii_whitespace().filter(|word| !others.contains(word));
            let is_uncountable = |word: &&str| WORDS.contains(&word.split('=').next().unwrap_or_default());
            options.extend(only_here.filter(is_uncountable).map(str::to_owned));
        }
        let model = |guest: &GuestSpec| {
            let at = guest.extra.iter().position(|argument| argument == CPU_MODEL);
            at.and_then(|at| guest.extra.get(at + 1).cloned())
        };
        if model(&first) != model(&second) {
            options.push(model(&second).map_or_else(|| CPU_MODEL.to_owned(), |model| format!("{CPU_MODEL} {model}")));
        }
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::{Plan, Stop};

    #[track_caller]
    fn check(first: (&str, &[&str]), second: (&str, &[&str]), expected: &[&str]) {
        let variant = |(append, extra): (&str, &[&str])| {
            let extra = extra.iter().map(|&word| word.to_owned()).collect();
            let guest = GuestSpec { append: append.to_owned(), extra, ..GuestSpec::default() };
            Variant { how: serde_json::to_value(&guest).unwrap(), ..Variant::named("a variant") }
        };
        let stop = Stop { rounds: 5, ..Stop::default() };
        let plan = Plan { variants: 2, warm_ups: 0, stop, seed: 1, ..Plan::default() };
        let mut head = Head { deterministic: true, ..Head::of(plan, vec![variant(first), variant(second)]) };
        assert_eq!(head.uncountable(1), expected);
        head.deterministic = false;
        assert_eq!(head.uncountable(1), Vec::<String>::new(), "the clock shows them");
    }

    #[test]
    fn options_that_change_the_price_of_an_instruction_are_named() {
        check(("quiet", &[]), ("quiet mitigations=off", &[]), &["mitigations=off"]);
        check(("quiet nopti", &[]), ("quiet idle=poll", &[]), &["nopti", "idle=poll"]);
        check(("quiet", &["-cpu", "max"]), ("quiet", &["-cpu", "qemu64"]), &["-cpu qemu64"]);
        check(("quiet nopti", &[]), ("nopti cryptomgr.notests", &[]), &[]);
        check(("", &[]), ("mitigation=off preempted", &[]), &[]);
    }
}
