//! Runs a bench: decides the order of the boots and when to stop.
//!
//! Warm-up boots fill the host's caches and do not count. Then come rounds: each boots every variant once. A seeded random
//! generator decides the order in a round, because the comparison relies on that randomness ([`statistics::pairs`]). A failed
//! boot is kept and counted and never repeated: a retry would favour the variant that fails when it is slow. The conditions
//! to stop are checked only between rounds. An interrupted bench resumes after the boots that it has, with the same random
//! numbers.

use crate::looks::looks;
use crate::metrics::Values;
use serde::{Deserialize, Serialize};
use statistics::quantile::median_interval;
use statistics::verdict::{Ask, Change, Comparison, judge};
use statistics::{pairs, power, sorted};
use std::collections::BTreeMap;
use std::time::Duration;
use timeline::{Cost, INDIRECT};

/// The plan of a bench.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Plan {
    /// Number of variants. The others are compared with the first.
    pub variants: usize,
    /// Boots of each variant before anything counts.
    pub warm_ups: u32,
    /// Conditions to stop.
    pub stop: Stop,
    /// Seed of the random order within rounds.
    pub seed: u64,
    /// True if a variant that never reaches its end mark is left out of further rounds while the others go on. If false, the
    /// bench ends there. The first variant is never left out, because the others are compared with it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub leaves_out: bool,
    /// True if the first variant is left out like the others: none is compared with it alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub leaves_out_first: bool,
}

/// Conditions to stop. The bench stops after the first round in which one of them holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Stop {
    /// Maximum number of rounds.
    pub rounds: u32,
    /// Maximum relative distance of an interval's ends from its estimate, for each variant's median or each ratio. Checked only
    /// from ten rounds on.
    pub width: Option<f64>,
    /// True to stop as soon as every comparison with the first variant has a verdict. It is checked after the rounds of
    /// [`crate::looks`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sure: bool,
    /// Maximum time, in ns. A round that has begun is finished.
    pub budget_ns: Option<u64>,
}

/// The boot to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Number among all boots, warm-ups included, from 0.
    pub number: u32,
    /// The round, from 0. `None` for a warm-up.
    pub round: Option<u32>,
    /// Number of the variant.
    pub variant: usize,
    /// Maximum number of boots left, this one included.
    pub left: u32,
    /// Estimated time of the boots left, from the time of those that are over. `None` before the first is over.
    pub left_ns: Option<u64>,
}

/// The measurements of a boot. A boot without a total failed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Measured {
    /// The outcome as one word (`reached`, `hang`, …).
    pub outcome: String,
    /// The evidence of that outcome, such as a line of the log.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// Time from time zero to the end mark. Null unless the boot reached it.
    pub total_ns: Option<i64>,
    /// The timed waits in `total_ns`. Null if the evidence does not show them. In a deterministic boot, the rest is instructions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_ns: Option<i64>,
    /// The phases in order. They sum to the total.
    #[serde(default)]
    pub phases: Vec<PhaseTime>,
    /// The rows to which the boot path was charged (initcalls, functions, waits), largest first. They sum to the total if the
    /// boot has a path.
    #[serde(default)]
    pub rows: Vec<PhaseTime>,
    /// True if a trace shows its threads. Null in journals of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traced: Option<bool>,
    /// Milestones that it passed, by the names that `--up-to` takes; `ns` is the time since time zero.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub milestones: Vec<PhaseTime>,
    /// Metrics beside the time.
    #[serde(flatten)]
    pub metrics: Values,
    /// Time of the recording by the host's clock, until its last evidence had arrived. 0 if unknown.
    #[serde(default)]
    pub recorded_ns: u64,
    /// The host's load average over one minute at the beginning of the boot.
    #[serde(default)]
    pub host_load: f64,
}

/// A phase, a row or a milestone of one boot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PhaseTime {
    /// Name that this version uses.
    #[serde(deserialize_with = "deserialize_current_name")]
    pub name: String,
    /// Duration in ns; for a milestone, the time since time zero.
    pub ns: i64,
    /// The timed waits in `ns`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waited_ns: i64,
}

/// True for 0: documents leave the field out then.
pub fn is_zero(ns: &i64) -> bool {
    *ns == 0
}

impl PhaseTime {
    pub(crate) fn new(name: String, cost: Cost) -> PhaseTime {
        PhaseTime { name, ns: cost.length.0, waited_ns: cost.waited.0 }
    }

    /// The part that is no timed wait: in a deterministic boot, instructions.
    pub fn busy_ns(&self) -> i64 {
        self.ns - self.waited_ns
    }
}

/// The current name of a phase or row that an earlier version may have written under another name.
pub(crate) fn current_name(name: String) -> String {
    let renamed = match name.as_str() {
        "VMM: CPUs let go" | "VMM: vCPUs started" => "VMM: start vCPUs",
        "load the kernel" => "loader",
        "real-mode setup" => "setup code",
        _ => "",
    };
    if !renamed.is_empty() {
        return renamed.to_owned();
    }
    match name.strip_suffix(" by pointer") {
        Some(function) => format!("{function} {INDIRECT}"),
        None => name,
    }
}

fn deserialize_current_name<'de, D: serde::Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    String::deserialize(from).map(current_name)
}

/// A boot that is over: a raw sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Boot {
    /// Number among all boots in order of time, warm-ups included, from 0.
    pub number: u32,
    /// The round, from 0. Null for a warm-up.
    pub round: Option<u32>,
    /// Number of the variant.
    pub variant: usize,
    /// Time from the bench's beginning to the boot's, in ns.
    pub began_ns: u64,
    /// Measurements.
    #[serde(flatten)]
    pub measured: Measured,
}

/// The reason why a bench ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// All rounds were done.
    Rounds,
    /// Every comparison with the first variant has a verdict.
    Sure,
    /// The intervals are as narrow as requested.
    Width,
    /// The time was up.
    Budget,
    /// The user stopped it.
    Interrupted,
    /// A variant never reached its end mark.
    NeverReached(usize),
    /// An error that is not a boot's failure.
    Error,
}

/// The actions that a bench needs from its caller: booting, keeping boots and keeping time.
pub trait Boots {
    /// An error that ends the bench. A failed boot is not one.
    type Error;
    /// Boots once. Returns `None` if the user stopped the boot: an incomplete boot does not count.
    fn boot(&mut self, turn: &Turn) -> Result<Option<Measured>, Self::Error>;
    /// Stores a boot that is over. The next boot begins after this returns.
    fn keep(&mut self, boot: &Boot) -> Result<(), Self::Error>;
    /// Time since the bench began.
    fn elapsed(&self) -> Duration;
}

/// A bench that has ended, with all boots that are over.
#[derive(Debug)]
pub struct Finished<E> {
    /// The boots, oldest first.
    pub boots: Vec<Boot>,
    /// The reason why it ended.
    pub ended: Ended,
    /// The error, if one ended it.
    pub error: Option<E>,
}

/// Number of failed boots after which a variant that never reached its end mark is given up.
const MAX_FAILURES: usize = 3;
/// Minimum number of rounds before the width is checked: in the first rounds, intervals may be narrow by chance.
const MIN_ROUNDS_FOR_WIDTH: u32 = 10;

/// Runs a plan that does not stop when verdicts are sure, from its beginning. The result has all boots that are over, also
/// if an error ended the bench.
pub fn run<B: Boots>(plan: &Plan, actions: &mut B) -> Finished<B::Error> {
    resume(plan, &Ask::default(), Vec::new(), actions)
}

/// Runs the rest of the plan after the boots `over`, which an earlier run did and stored. They must [`follow`] the plan.
///
/// `ask` has the requirements of the verdicts, in case the plan stops when they are sure.
pub fn resume<B: Boots>(plan: &Plan, ask: &Ask, over: Vec<Boot>, actions: &mut B) -> Finished<B::Error> {
    let random = fastrand::Rng::with_seed(plan.seed);
    let looks = if plan.stop.sure { looks(plan.stop.rounds, plan.variants.saturating_sub(1)) } else { Vec::new() };
    let mut bench = Bench { plan, ask, looks, actions, over: over.into_iter(), boots: Vec::new(), random };
    let (ended, error) = match bench.all() {
        Ok(ended) => (ended, None),
        Err(error) => (Ended::Error, Some(error)),
    };
    Finished { boots: bench.boots, ended, error }
}

/// Checks that boots are the first ones of the plan, in its order. The error is the number of the first that differs.
pub fn follow(plan: &Plan, boots: &[Boot]) -> Result<(), u32> {
    let mut random = fastrand::Rng::with_seed(plan.seed);
    let mut rounds = (0..plan.warm_ups).map(|_| None).chain((0..plan.stop.rounds).map(Some));
    let (mut round, mut order) = (None, Vec::new());
    for (number, boot) in (0..).zip(boots) {
        let takes_turns = |variant: &usize| !left_out(plan, &boots[..number as usize], *variant);
        order.retain(takes_turns);
        if order.is_empty() {
            round = rounds.next().ok_or(number)?;
            order = (0..plan.variants).collect();
            random.shuffle(&mut order);
            order.reverse();
            order.retain(takes_turns);
        }
        if (Some(boot.variant), boot.number, boot.round) != (order.pop(), number, round) {
            return Err(number);
        }
    }
    Ok(())
}

/// True if a variant has at least [`MAX_FAILURES`] boots and all of them failed.
fn always_fails(boots: &[Boot], variant: usize) -> bool {
    let mut of_variant = boots.iter().filter(|b| b.variant == variant);
    of_variant.clone().count() >= MAX_FAILURES && of_variant.all(|b| b.measured.total_ns.is_none())
}

/// True if a variant is not booted any more after these boots.
fn left_out(plan: &Plan, boots: &[Boot], variant: usize) -> bool {
    plan.leaves_out && (variant > 0 || plan.leaves_out_first) && always_fails(boots, variant)
}

struct Bench<'a, B: Boots> {
    plan: &'a Plan,
    ask: &'a Ask,
    /// The rounds after which verdicts are computed.
    looks: Vec<u32>,
    actions: &'a mut B,
    /// Boots of an earlier run, which stand in for the first boots of the plan.
    over: std::vec::IntoIter<Boot>,
    boots: Vec<Boot>,
    random: fastrand::Rng,
}

impl<B: Boots> Bench<'_, B> {
    fn all(&mut self) -> Result<Ended, B::Error> {
        for _ in 0..self.plan.warm_ups {
            if let Some(ended) = self.round(None)? {
                return Ok(ended);
            }
        }
        for round in 0..self.plan.stop.rounds {
            if let Some(ended) = self.round(Some(round))? {
                return Ok(ended);
            }
            // The earlier run did not stop before its last boot, so the conditions did not hold in these rounds.
            if let Some(ended) =
                Some(round + 1).filter(|_| self.over.len() == 0).and_then(|done| self.reason_to_stop(done))
            {
                return Ok(ended);
            }
        }
        Ok(Ended::Rounds)
    }

    /// Boots every variant once, in random order. Returns the reason to stop, if there is one.
    fn round(&mut self, round: Option<u32>) -> Result<Option<Ended>, B::Error> {
        let mut order: Vec<usize> = (0..self.plan.variants).collect();
        self.random.shuffle(&mut order);
        for variant in order {
            if left_out(self.plan, &self.boots, variant) {
                continue;
            }
            if let Some(boot) = self.over.next() {
                self.boots.push(boot);
                if self.ends_with(variant) {
                    return Ok(Some(Ended::NeverReached(variant)));
                }
                continue;
            }
            let turn = self.turn(round, variant);
            let began_ns = ns(self.actions.elapsed());
            let Some(measured) = self.actions.boot(&turn)? else { return Ok(Some(Ended::Interrupted)) };
            let boot = Boot { number: turn.number, round, variant, began_ns, measured };
            let kept = self.actions.keep(&boot);
            self.boots.push(boot);
            kept?;
            if self.ends_with(variant) {
                return Ok(Some(Ended::NeverReached(variant)));
            }
        }
        Ok(None)
    }

    fn turn(&self, round: Option<u32>, variant: usize) -> Turn {
        let number = timeline::number(self.boots.len());
        let rounds = u64::from(self.plan.warm_ups) + u64::from(self.plan.stop.rounds);
        let left = (rounds * self.plan.variants as u64).saturating_sub(u64::from(number));
        let each_ns = ns(self.actions.elapsed()).checked_div(u64::from(number));
        let left_ns = each_ns.map(|each| each.saturating_mul(left));
        let budget_left = self.plan.stop.budget_ns.map(|budget| budget.saturating_sub(ns(self.actions.elapsed())));
        Turn {
            number,
            round,
            variant,
            left: u32::try_from(left).unwrap_or(u32::MAX),
            left_ns: left_ns.map(|left| budget_left.map_or(left, |budget| left.min(budget))),
        }
    }

    /// True if this variant never reached its end mark and so ends the bench.
    fn ends_with(&self, variant: usize) -> bool {
        always_fails(&self.boots, variant) && !left_out(self.plan, &self.boots, variant)
    }

    /// The condition to stop that holds after this number of rounds.
    fn reason_to_stop(&self, rounds: u32) -> Option<Ended> {
        let stop = &self.plan.stop;
        if stop.budget_ns.is_some_and(|budget| ns(self.actions.elapsed()) >= budget) {
            return Some(Ended::Budget);
        }
        if self.looks.contains(&rounds) && self.verdicts_are_sure() {
            return Some(Ended::Sure);
        }
        let width = stop.width.filter(|_| rounds >= MIN_ROUNDS_FOR_WIDTH)?;
        intervals_are_narrow(&self.boots, self.plan.variants, width).then_some(Ended::Width)
    }

    /// True if the totals of every variant are compared with the first one's, and no verdict needs more boots.
    fn verdicts_are_sure(&self) -> bool {
        let compared = (1..self.plan.variants).map(|variant| {
            let (first, second) = paired(&self.boots, 0, variant);
            pairs::estimate(&first, &second, self.ask)
        });
        let Some(mut family) = compared.collect::<Option<Vec<Comparison>>>() else { return false };
        judge(&mut family, self.ask);
        !family.iter().any(|comparison| matches!(comparison.change, Change::TooNoisy | Change::TooFew))
    }
}

/// True if each interval's ends are within `width` of its estimate, relatively: the median's for one variant, else the ratios'.
fn intervals_are_narrow(boots: &[Boot], variants: usize, width: f64) -> bool {
    if variants == 1 {
        let totals: Vec<f64> = counted(boots, 0).into_values().collect();
        let interval = median_interval(&sorted(&totals));
        return interval.is_some_and(|i| i.half_width() <= width * i.estimate);
    }
    (1..variants).all(|variant| {
        let (first, second) = paired(boots, 0, variant);
        power::half_width(&first, &second).is_some_and(|half| half <= width)
    })
}

/// Totals of a variant's boots that count, by round.
pub(crate) fn counted(boots: &[Boot], variant: usize) -> BTreeMap<u32, f64> {
    let of_variant = boots.iter().filter(|b| b.variant == variant);
    of_variant.filter_map(|b| Some((b.round?, b.measured.total_ns? as f64))).collect()
}

/// Totals of two variants, for the rounds in which both reached their end mark.
pub(crate) fn paired(boots: &[Boot], first: usize, second: usize) -> (Vec<f64>, Vec<f64>) {
    let second = counted(boots, second);
    counted(boots, first).into_iter().filter_map(|(round, a)| Some((a, *second.get(&round)?))).unzip()
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boots_of_an_earlier_version_get_the_current_names() {
        let name = |text: &str| serde_json::from_str::<PhaseTime>(text).unwrap().name;
        assert_eq!(name(r#"{"name": "VMM: CPUs let go", "ns": 1}"#), "VMM: start vCPUs");
        assert_eq!(name(r#"{"name": "VMM: vCPUs started", "ns": 1}"#), "VMM: start vCPUs");
        assert_eq!(name(r#"{"name": "real-mode setup", "ns": 1}"#), "setup code");
        assert_eq!(name(r#"{"name": "f by pointer", "ns": 1}"#), "f (indirect call)");
        assert_eq!(name(r#"{"name": "initcall by pointers", "ns": 1}"#), "initcall by pointers");
    }

    /// Simulates boots by a function of the turn; each takes a second.
    struct Mock<F> {
        boot: F,
        seconds: u64,
        kept: Vec<Boot>,
        kept_most: usize,
    }

    impl<F: FnMut(&Turn) -> Option<Measured>> Boots for Mock<F> {
        type Error = &'static str;
        fn boot(&mut self, turn: &Turn) -> Result<Option<Measured>, &'static str> {
            self.seconds += 1;
            Ok((self.boot)(turn))
        }
        fn keep(&mut self, boot: &Boot) -> Result<(), &'static str> {
            if self.kept.len() == self.kept_most {
                return Err("disk full");
            }
            self.kept.push(boot.clone());
            Ok(())
        }
        fn elapsed(&self) -> Duration {
            Duration::from_secs(self.seconds)
        }
    }

    fn mock<F: FnMut(&Turn) -> Option<Measured>>(boot: F) -> Mock<F> {
        Mock { boot, seconds: 0, kept: Vec::new(), kept_most: usize::MAX }
    }

    fn plan(variants: usize, rounds: u32) -> Plan {
        Plan { variants, warm_ups: 1, stop: Stop { rounds, ..Stop::default() }, seed: 7, ..Plan::default() }
    }

    fn reached(total_ns: i64) -> Option<Measured> {
        Some(Measured { outcome: "reached".to_owned(), total_ns: Some(total_ns), ..Measured::default() })
    }

    fn failed() -> Option<Measured> {
        Some(Measured { outcome: "hang".to_owned(), ..Measured::default() })
    }

    #[test]
    fn warm_up_then_rounds_of_every_variant_in_random_order() {
        let mut simulated = mock(|turn| reached(100 + turn.variant as i64));
        let found = run(&plan(3, 200), &mut simulated);
        assert_eq!((found.ended, found.boots.len()), (Ended::Rounds, 603));
        assert!(found.boots[..3].iter().all(|b| b.round.is_none()) && found.boots[3].round == Some(0));
        assert_eq!(found.boots, simulated.kept);
        for (round, boots) in found.boots.chunks(3).enumerate() {
            let mut variants: Vec<_> = boots.iter().map(|b| b.variant).collect();
            variants.sort_unstable();
            assert_eq!(variants, [0, 1, 2]);
            assert_eq!(boots[0].round, (round as u32).checked_sub(1));
        }
        // Each of the six orders comes up about equally often: 33 of 200, standard deviation 5.
        let mut orders: BTreeMap<Vec<usize>, u32> = BTreeMap::new();
        for boots in found.boots[3..].chunks(3) {
            *orders.entry(boots.iter().map(|b| b.variant).collect()).or_default() += 1;
        }
        assert!(orders.len() == 6 && orders.values().all(|n| (15..=55).contains(n)), "{orders:?}");
    }

    #[test]
    fn the_forecast_counts_down() {
        let mut seen = Vec::new();
        run(
            &plan(2, 2),
            &mut mock(|turn| {
                seen.push((turn.left, turn.left_ns.map(|ns| ns / 1_000_000_000)));
                reached(1)
            }),
        );
        assert_eq!(seen, [(6, None), (5, Some(5)), (4, Some(4)), (3, Some(3)), (2, Some(2)), (1, Some(1))]);
    }

    #[test]
    fn failed_boots_are_kept_and_their_pairs_left_out() {
        let mut simulated = mock(|turn| if turn.round == Some(1) && turn.variant == 1 { failed() } else { reached(5) });
        let found = run(&plan(2, 3), &mut simulated);
        assert_eq!(found.boots.len(), 8, "none is run again");
        assert_eq!((counted(&found.boots, 0).len(), counted(&found.boots, 1).len()), (3, 2));
        assert_eq!(paired(&found.boots, 0, 1).0.len(), 2);
    }

    #[test]
    fn a_variant_that_never_boots_is_given_up() {
        let found = run(&plan(2, 100), &mut mock(|turn| if turn.variant == 1 { failed() } else { reached(5) }));
        assert_eq!(found.ended, Ended::NeverReached(1));
        assert!((5..=6).contains(&found.boots.len()));
        // A variant that boots sometimes is not given up.
        let found = run(&plan(1, 10), &mut mock(|turn| if turn.number == 0 { reached(5) } else { failed() }));
        assert_eq!((found.ended, found.boots.len()), (Ended::Rounds, 11));
    }

    #[test]
    fn a_variant_that_never_boots_can_be_left_out() {
        let measure = |turn: &Turn| if turn.variant == 1 { failed() } else { reached(5) };
        let plan = Plan { leaves_out: true, ..plan(3, 6) };
        let found = run(&plan, &mut mock(measure));
        assert_eq!((found.ended, found.boots.len()), (Ended::Rounds, 3 * 7 - 4), "a warm-up and two rounds of it");
        for cut in 0..=found.boots.len() {
            let over = found.boots[..cut].to_vec();
            assert_eq!(follow(&plan, &over), Ok(()), "{cut}");
            let mut simulated = Mock { seconds: cut as u64, ..mock(measure) };
            assert_eq!(resume(&plan, &Ask::default(), over, &mut simulated).boots, found.boots, "{cut}");
        }
        // The first variant is never left out.
        let found = run(&plan, &mut mock(|turn| if turn.variant == 0 { failed() } else { reached(5) }));
        assert_eq!(found.ended, Ended::NeverReached(0));
    }

    #[test]
    fn it_stops_when_it_is_narrow_enough_or_time_is_up() {
        let noisy = |turn: &Turn| reached(1000 + i64::from(turn.number % 7));
        let mut narrow = plan(2, 1000);
        narrow.stop.width = Some(0.01);
        let found = run(&narrow, &mut mock(noisy));
        assert_eq!((found.ended, found.boots.len()), (Ended::Width, 22));
        narrow.variants = 1;
        assert_eq!(run(&narrow, &mut mock(noisy)).boots.len(), 11);
        narrow.stop.width = Some(1e-9);
        narrow.stop.budget_ns = Some(50_000_000_000);
        let found = run(&narrow, &mut mock(noisy));
        assert_eq!((found.ended, found.boots.len()), (Ended::Budget, 50));
    }

    #[test]
    fn it_stops_at_the_first_look_at_which_the_verdict_is_sure() {
        let mut plan = plan(2, 100);
        plan.stop.sure = true;
        let ask = Ask { looks: timeline::number(looks(100, 1).len()), ..Ask::default() };
        let ended = |measure: fn(&Turn) -> Option<Measured>| {
            let found = resume(&plan, &ask, Vec::new(), &mut mock(measure));
            (found.ended, found.boots.len() as u32 / 2 - plan.warm_ups)
        };
        let first = looks(100, 1)[0];
        assert_eq!(ended(|turn| reached(1000 + 500 * turn.variant as i64)), (Ended::Sure, first));
        assert_eq!(ended(|_| reached(1000)), (Ended::Sure, first), "no difference is a verdict");
        // The noise is ten times the margin, so no verdict is possible.
        let (end, rounds) = ended(|turn| reached(1000 + 100 * i64::from(turn.number * 7 % 11)));
        assert!(end == Ended::Rounds && rounds == 100, "{end:?} {rounds}");
    }

    #[test]
    fn an_interrupted_bench_resumes_as_if_it_had_not_been_interrupted() {
        let measure = |turn: &Turn| reached(1000 + i64::from(turn.number % 7));
        let mut plan = plan(3, 12);
        plan.stop.width = Some(0.01);
        let whole = run(&plan, &mut mock(measure));
        assert_eq!((whole.ended, whole.boots.len()), (Ended::Width, 33));
        for cut in 0..=whole.boots.len() {
            let over = whole.boots[..cut].to_vec();
            assert_eq!(follow(&plan, &over), Ok(()));
            let mut simulated = Mock { seconds: cut as u64, ..mock(measure) };
            let found = resume(&plan, &Ask::default(), over, &mut simulated);
            assert_eq!((found.ended, &found.boots), (whole.ended, &whole.boots), "cut at {cut}");
            assert_eq!(simulated.kept, whole.boots[cut..], "none is booted again");
        }
        // The time already used is lost for the budget, but no boot that is over is lost.
        plan.stop.budget_ns = Some(20_000_000_000);
        let found =
            resume(&plan, &Ask::default(), whole.boots[..19].to_vec(), &mut Mock { seconds: 20, ..mock(measure) });
        assert_eq!((found.ended, found.boots.len()), (Ended::Budget, 21));
    }

    #[test]
    fn boots_of_another_plan_are_detected() {
        let boots = run(&plan(3, 4), &mut mock(|_| reached(1))).boots;
        assert_eq!(follow(&Plan { seed: 8, ..plan(3, 4) }, &boots).map_err(|at| at < 9), Err(true));
        assert_eq!(follow(&plan(3, 3), &boots), Err(12), "more than there are rounds");
        let mut gap = boots.clone();
        gap.remove(5);
        assert_eq!(follow(&plan(3, 4), &gap), Err(5));
    }

    #[test]
    fn boots_that_are_over_are_kept_after_a_stop_or_an_error() {
        let found = run(&plan(2, 9), &mut mock(|turn| if turn.number == 5 { None } else { reached(1) }));
        assert_eq!((found.ended, found.boots.len()), (Ended::Interrupted, 5));
        let found = run(&plan(2, 9), &mut Mock { kept_most: 3, ..mock(|_| reached(1)) });
        assert_eq!((found.ended, found.error, found.boots.len()), (Ended::Error, Some("disk full"), 4));
    }
}
