//! Which variant is booted when, and when it is enough.
//!
//! Warm-up boots fill the host's caches and count for nothing. Then come rounds: each boots every variant once, in an order
//! that a seeded coin decides, because the comparison rests on that coin ([`statistics::pairs`]). A boot that fails is
//! kept and counted and never run again: a retry would favour the variant that fails when it is slow. Between rounds, and
//! only there, it is asked whether to stop. A bench that was cut off goes on with the same coin, from the boots that it has.

use crate::metrics::Values;
use serde::{Deserialize, Serialize};
use statistics::quantile::median_interval;
use statistics::{power, sorted};
use std::collections::BTreeMap;
use std::time::Duration;
use timeline::INDIRECT;

/// What is to be run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Plan {
    /// How many variants there are; the first is what the others are compared with.
    pub variants: usize,
    /// Boots of each variant before anything counts.
    pub warm_ups: u32,
    /// When it is enough.
    pub stop: Stop,
    /// Decides the order within rounds.
    pub seed: u64,
    /// Whether a variant that never reaches its end mark is left out of further rounds, and the others go on; else the bench
    /// ends there. The first is what the others are compared with, and is never left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub leaves_out: bool,
}

/// When it is enough: at the first that holds, after whole rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Stop {
    /// So many rounds.
    pub rounds: u32,
    /// Every interval (of each variant's median, or of each ratio) is at most so far from its estimate, relatively; not
    /// before ten rounds.
    pub width: Option<f64>,
    /// So much time has passed; a round that has begun is finished.
    pub budget_ns: Option<u64>,
}

/// A boot that is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Of all boots, warm-ups included, from 0.
    pub number: u32,
    /// The round, from 0; none for a warm-up.
    pub round: Option<u32>,
    /// Which variant.
    pub variant: usize,
    /// Boots that are at most still to come, this one included.
    pub left: u32,
    /// How long these will take, going by those that were; none before the first is over.
    pub left_ns: Option<u64>,
}

/// What was measured of a boot. Without a total it failed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Measured {
    /// How it ended, as one word (`reached`, `hang`, …).
    pub outcome: String,
    /// What shows how it ended.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// From time zero to the end mark; none unless that was reached.
    pub total_ns: Option<i64>,
    /// The phases in order; they sum to the total.
    #[serde(default)]
    pub phases: Vec<PhaseTime>,
    /// What the boot path was charged to (initcalls, functions, waits), the largest first; they sum to the total where
    /// there is a path.
    #[serde(default)]
    pub rows: Vec<PhaseTime>,
    /// Milestones that it passed, by the names that `--up-to` takes; `ns` is when, since time zero.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub milestones: Vec<PhaseTime>,
    /// What is measured beside the time.
    #[serde(flatten)]
    pub metrics: Values,
    /// What recording it took on the host's clock, until the last of its evidence was there; 0 if unknown.
    #[serde(default)]
    pub recorded_ns: u64,
    /// The host's load average over one minute when the boot began.
    #[serde(default)]
    pub host_load: f64,
}

/// A phase, a row or a milestone of one boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PhaseTime {
    /// Its name, as this version calls it.
    #[serde(deserialize_with = "name_of_today")]
    pub name: String,
    /// How long it took; of a milestone, when it was passed.
    pub ns: i64,
}

/// What a phase or row is called today that an earlier version wrote under another name.
pub(crate) fn of_today(name: String) -> String {
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

fn name_of_today<'de, D: serde::Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    String::deserialize(from).map(of_today)
}

/// A boot that is over: a raw sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Boot {
    /// Of all boots, warm-ups included, from 0, in order of time.
    pub number: u32,
    /// The round, from 0; none for a warm-up.
    pub round: Option<u32>,
    /// Which variant.
    pub variant: usize,
    /// When it began, since the bench did.
    pub began_ns: u64,
    /// What was measured.
    #[serde(flatten)]
    pub measured: Measured,
}

/// Why no more boots were done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// All rounds were done.
    Rounds,
    /// The intervals are as narrow as was asked.
    Width,
    /// The time was up.
    Budget,
    /// The user stopped it.
    Interrupted,
    /// A variant never reached its end mark.
    NeverReached(usize),
    /// Something that is no boot's failure.
    Error,
}

/// Who boots, keeps time and keeps the boots.
pub trait Boots {
    /// What stops a bench, other than a boot that fails.
    type Error;
    /// Boots once. `None` if the user stopped it: half a boot is none.
    fn boot(&mut self, turn: &Turn) -> Result<Option<Measured>, Self::Error>;
    /// Keeps a boot that is over; the next begins only then.
    fn keep(&mut self, boot: &Boot) -> Result<(), Self::Error>;
    /// How long the bench has been running.
    fn elapsed(&self) -> Duration;
}

/// A bench that is over, with all boots that are.
#[derive(Debug)]
pub struct Finished<E> {
    /// In order of time.
    pub boots: Vec<Boot>,
    /// Why there are no more.
    pub ended: Ended,
    /// What stopped it, if it was an error.
    pub error: Option<E>,
}

/// A variant that fails so often at first, without ever reaching its end mark, is given up.
const FAILURES_MOST: usize = 3;
/// Narrow intervals come by chance in the first rounds.
const ROUNDS_FOR_WIDTH: u32 = 10;

/// Follows the plan. Whatever happens, the boots that are over are in the result.
pub fn run<B: Boots>(plan: &Plan, by: &mut B) -> Finished<B::Error> {
    resume(plan, Vec::new(), by)
}

/// Follows the plan from where these boots leave it, which are over and kept, and which [`follow`] it.
pub fn resume<B: Boots>(plan: &Plan, over: Vec<Boot>, by: &mut B) -> Finished<B::Error> {
    let random = fastrand::Rng::with_seed(plan.seed);
    let mut bench = Bench { plan, by, over: over.into_iter(), boots: Vec::new(), random };
    let (ended, error) = match bench.all() {
        Ok(ended) => (ended, None),
        Err(error) => (Ended::Error, Some(error)),
    };
    Finished { boots: bench.boots, ended, error }
}

/// Whether boots are those that the plan begins with, in its order; if not, the number of the first that is another.
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

/// Whether a variant has failed so often, and never done anything else.
fn hopeless(boots: &[Boot], variant: usize) -> bool {
    let mut own = boots.iter().filter(|b| b.variant == variant);
    own.clone().count() >= FAILURES_MOST && own.all(|b| b.measured.total_ns.is_none())
}

/// Whether a variant is booted no more after these boots.
fn left_out(plan: &Plan, boots: &[Boot], variant: usize) -> bool {
    plan.leaves_out && variant > 0 && hopeless(boots, variant)
}

struct Bench<'a, B: Boots> {
    plan: &'a Plan,
    by: &'a mut B,
    /// Boots of an earlier run that take their turns again.
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
            // It was not enough before those rounds that there are boots of.
            if let Some(ended) = Some(round + 1).filter(|_| self.over.len() == 0).and_then(|done| self.enough(done)) {
                return Ok(ended);
            }
        }
        Ok(Ended::Rounds)
    }

    /// Boots every variant once, in random order; why to stop, if so.
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
            let began_ns = ns(self.by.elapsed());
            let Some(measured) = self.by.boot(&turn)? else { return Ok(Some(Ended::Interrupted)) };
            let boot = Boot { number: turn.number, round, variant, began_ns, measured };
            let kept = self.by.keep(&boot);
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
        let each_ns = ns(self.by.elapsed()).checked_div(u64::from(number));
        let left_ns = each_ns.map(|each| each.saturating_mul(left));
        let budget_left = self.plan.stop.budget_ns.map(|budget| budget.saturating_sub(ns(self.by.elapsed())));
        Turn {
            number,
            round,
            variant,
            left: u32::try_from(left).unwrap_or(u32::MAX),
            left_ns: left_ns.map(|left| budget_left.map_or(left, |budget| left.min(budget))),
        }
    }

    /// Whether a variant that never reached its end mark ends the bench.
    fn ends_with(&self, variant: usize) -> bool {
        hopeless(&self.boots, variant) && !left_out(self.plan, &self.boots, variant)
    }

    /// Whether it is enough after so many rounds.
    fn enough(&self, rounds: u32) -> Option<Ended> {
        let stop = &self.plan.stop;
        if stop.budget_ns.is_some_and(|budget| ns(self.by.elapsed()) >= budget) {
            return Some(Ended::Budget);
        }
        let width = stop.width.filter(|_| rounds >= ROUNDS_FOR_WIDTH)?;
        narrow(&self.boots, self.plan.variants, width).then_some(Ended::Width)
    }
}

/// Whether every interval is at most `width` from its estimate, relatively: that of the median, or those of the ratios.
fn narrow(boots: &[Boot], variants: usize, width: f64) -> bool {
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

/// The totals of a variant's boots that count, by round.
pub(crate) fn counted(boots: &[Boot], variant: usize) -> BTreeMap<u32, f64> {
    let own = boots.iter().filter(|b| b.variant == variant);
    own.filter_map(|b| Some((b.round?, b.measured.total_ns? as f64))).collect()
}

/// The totals of two variants in rounds that both reached their end mark in.
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
    fn a_boot_that_an_earlier_version_wrote_has_the_names_of_today() {
        let name = |text: &str| serde_json::from_str::<PhaseTime>(text).unwrap().name;
        assert_eq!(name(r#"{"name": "VMM: CPUs let go", "ns": 1}"#), "VMM: start vCPUs");
        assert_eq!(name(r#"{"name": "VMM: vCPUs started", "ns": 1}"#), "VMM: start vCPUs");
        assert_eq!(name(r#"{"name": "real-mode setup", "ns": 1}"#), "setup code");
        assert_eq!(name(r#"{"name": "f by pointer", "ns": 1}"#), "f (indirect call)");
        assert_eq!(name(r#"{"name": "initcall by pointers", "ns": 1}"#), "initcall by pointers");
    }

    /// Boots by a function of the turn; each takes a second.
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
        Plan { leaves_out: false, variants, warm_ups: 1, stop: Stop { rounds, width: None, budget_ns: None }, seed: 7 }
    }

    fn reached(total_ns: i64) -> Option<Measured> {
        Some(Measured { outcome: "reached".to_owned(), total_ns: Some(total_ns), ..Measured::default() })
    }

    fn failed() -> Option<Measured> {
        Some(Measured { outcome: "hang".to_owned(), ..Measured::default() })
    }

    #[test]
    fn warm_up_then_rounds_of_every_variant_in_random_order() {
        let mut by = mock(|turn| reached(100 + turn.variant as i64));
        let found = run(&plan(3, 200), &mut by);
        assert_eq!((found.ended, found.boots.len()), (Ended::Rounds, 603));
        assert!(found.boots[..3].iter().all(|b| b.round.is_none()) && found.boots[3].round == Some(0));
        assert_eq!(found.boots, by.kept);
        for (round, boots) in found.boots.chunks(3).enumerate() {
            let mut variants: Vec<_> = boots.iter().map(|b| b.variant).collect();
            variants.sort_unstable();
            assert_eq!(variants, [0, 1, 2]);
            assert_eq!(boots[0].round, (round as u32).checked_sub(1));
        }
        // Each of the six orders about as often: 33 of 200, standard deviation 5.
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
        let mut by = mock(|turn| if turn.round == Some(1) && turn.variant == 1 { failed() } else { reached(5) });
        let found = run(&plan(2, 3), &mut by);
        assert_eq!(found.boots.len(), 8, "none is run again");
        assert_eq!((counted(&found.boots, 0).len(), counted(&found.boots, 1).len()), (3, 2));
        assert_eq!(paired(&found.boots, 0, 1).0.len(), 2);
    }

    #[test]
    fn a_variant_that_never_boots_is_given_up() {
        let found = run(&plan(2, 100), &mut mock(|turn| if turn.variant == 1 { failed() } else { reached(5) }));
        assert_eq!(found.ended, Ended::NeverReached(1));
        assert!((5..=6).contains(&found.boots.len()));
        // One that boots sometimes is not.
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
            let mut by = Mock { seconds: cut as u64, ..mock(measure) };
            assert_eq!(resume(&plan, over, &mut by).boots, found.boots, "{cut}");
        }
        // What the others are compared with is not.
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
    fn a_bench_that_was_cut_off_anywhere_goes_on_as_if_it_had_not_been() {
        let measure = |turn: &Turn| reached(1000 + i64::from(turn.number % 7));
        let mut plan = plan(3, 12);
        plan.stop.width = Some(0.01);
        let whole = run(&plan, &mut mock(measure));
        assert_eq!((whole.ended, whole.boots.len()), (Ended::Width, 33));
        for cut in 0..=whole.boots.len() {
            let over = whole.boots[..cut].to_vec();
            assert_eq!(follow(&plan, &over), Ok(()));
            let mut by = Mock { seconds: cut as u64, ..mock(measure) };
            let found = resume(&plan, over, &mut by);
            assert_eq!((found.ended, &found.boots), (whole.ended, &whole.boots), "cut at {cut}");
            assert_eq!(by.kept, whole.boots[cut..], "none is booted again");
        }
        // Time that is used up is, but no boot that is over gets lost.
        plan.stop.budget_ns = Some(20_000_000_000);
        let found = resume(&plan, whole.boots[..19].to_vec(), &mut Mock { seconds: 20, ..mock(measure) });
        assert_eq!((found.ended, found.boots.len()), (Ended::Budget, 21));
    }

    #[test]
    fn boots_of_another_plan_are_seen() {
        let boots = run(&plan(3, 4), &mut mock(|_| reached(1))).boots;
        assert_eq!(follow(&Plan { seed: 8, ..plan(3, 4) }, &boots).map_err(|at| at < 9), Err(true));
        assert_eq!(follow(&plan(3, 3), &boots), Err(12), "more than there are rounds");
        let mut gap = boots.clone();
        gap.remove(5);
        assert_eq!(follow(&plan(3, 4), &gap), Err(5));
    }

    #[test]
    fn what_is_over_is_kept_when_it_is_stopped_or_cannot_go_on() {
        let found = run(&plan(2, 9), &mut mock(|turn| if turn.number == 5 { None } else { reached(1) }));
        assert_eq!((found.ended, found.boots.len()), (Ended::Interrupted, 5));
        let found = run(&plan(2, 9), &mut Mock { kept_most: 3, ..mock(|_| reached(1)) });
        assert_eq!((found.ended, found.error, found.boots.len()), (Ended::Error, Some("disk full"), 4));
    }
}
