//! Runs all detectors over a boot, prices their drafts, and sorts the findings.

use crate::blacklist;
use crate::claimed::Claimed;
use crate::detector::{Detector, Draft, Left, Part};
use crate::detectors::DETECTORS;
use crate::facts::{Price, Stretch};
use crate::finding::Finding;
use crate::grace_periods::GracePeriods;
use crate::lab_switch;
use crate::parallel;
use crate::{Need, Remedy, Seen};
use analysis::{Cannot, Cut, Prices, floor};
use std::cmp::Reverse;
use std::collections::VecDeque;
use timeline::{Cost, Ns, Timeline};

/// A finding keeps at most this number of stretches; documents list fewer.
const MAX_EVIDENCE: usize = 1000;
/// At most this number of drafts is priced, those with the largest bounds first: each price replays the boot.
const MAX_PRICED: usize = 64;

/// All findings of a boot.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Sorted by price, the most valuable first.
    pub findings: Vec<Finding>,
    /// Saving of all these findings together; what they share counts once.
    pub together: Cost,
    /// The number of drafts with a price below `noise`, which are not among the findings.
    pub below_noise: usize,
    /// The number of further drafts: their bounds are too small for the requested number of findings, or too many others can save more.
    pub not_priced: usize,
    /// The smallest price that is listed; see `noise`.
    pub noise: Ns,
    /// Rules that could not run, grouped by the evidence that they lack.
    pub missing: Vec<Missing>,
    /// The reason why no price can be computed, if there is one.
    pub no_prices: Option<Cannot>,
}

/// Rules that lack the same evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The evidence that they lack.
    pub need: Need,
    /// The ids of these rules.
    pub rules: Vec<&'static str>,
}

/// Finds the causes of slowness in a boot: the `most` most valuable findings.
pub fn find(seen: &Seen, most: usize) -> Found {
    find_by(DETECTORS, seen, most, parallel::workers())
}

/// As [`find`], but on one CPU, for a caller that looks at several boots at once.
pub fn find_alone(seen: &Seen, most: usize) -> Found {
    find_by(DETECTORS, seen, most, 1)
}

/// As [`find`], with the rules of `table` and at most `workers` threads.
pub(crate) fn find_by(table: &'static [Detector], seen: &Seen, most: usize, workers: usize) -> Found {
    let mut found = Found { noise: noise(seen.timeline), ..Found::default() };
    let all_lack = |need| vec![Missing { need, rules: table.iter().map(|d| d.id).collect() }];
    if !Need::Rate.is_met(seen) {
        found.missing = all_lack(Need::Rate);
        return found;
    }
    let prices = match Prices::new(seen.timeline) {
        Ok(prices) => prices,
        Err(why) => {
            found.missing = all_lack(Need::BootPath);
            found.no_prices = Some(why);
            return found;
        }
    };
    let mut drafts: Vec<(Ns, &'static Detector, Draft)> = drafts(table, seen, &mut found.missing);
    drafts.sort_by_key(|&(bound, ..)| Reverse(bound));
    let mut priced: Vec<Priced> = Vec::new();
    let mut tried = 0;
    // Prices are computed several at a time, although the first one may show that the next was not necessary.
    let mut ahead: VecDeque<(Vec<Cut>, Ns)> = VecDeque::new();
    for place in 0..drafts.len() {
        let bound = drafts[place].0;
        // A draft whose bound is below the last shown price cannot be shown.
        let cannot_be_shown = || priced.len() >= most && priced[..most].last().is_none_or(|last| bound <= last.saved);
        // Bounds fall: once one is below the noise, all later ones are.
        if bound < found.noise {
            found.below_noise += 1;
            continue;
        }
        if tried == MAX_PRICED || cannot_be_shown() {
            found.not_priced += 1;
            continue;
        }
        tried += 1;
        if ahead.is_empty() {
            let likely = |(_, _, draft): &(Ns, &Detector, Draft)| {
                let cuts = cuts(&draft.parts, |left| left.likely);
                let gross = prices.saved(&cuts);
                (cuts, gross)
            };
            ahead = parallel::each(workers, &drafts[place..drafts.len().min(place + workers)], likely).into();
        }
        let (cuts, gross) = ahead.pop_front().expect("the draft's own is among them");
        let (_, rule, draft) = &drafts[place];
        let costs = blacklist::lookup_cost(seen, draft.remedy.changes.iter());
        let saved = gross - costs.likely;
        if saved < found.noise {
            found.below_noise += 1;
            continue;
        }
        priced.push(Priced { rule, draft, cuts, gross, costs, saved });
        priced.sort_by_key(|priced| Reverse(priced.saved));
    }
    found.not_priced += priced.len().saturating_sub(most);
    priced.truncate(most);
    found.together = together(seen, &prices, &priced);
    let grace = GracePeriods::of(seen);
    let intervals =
        parallel::each(workers, &priced, |p| price(&prices, &grace, &p.draft.parts, &p.cuts, p.gross, p.costs));
    found.findings = priced.into_iter().zip(intervals).map(|(priced, price)| finding(seen, priced, price)).collect();
    found
}

/// The saving of all remedies together.
fn together(seen: &Seen, prices: &Prices, priced: &[Priced]) -> Cost {
    let all: Vec<Cut> = priced.iter().flat_map(|priced| priced.cuts.iter().copied()).collect();
    let changes = priced.iter().flat_map(|priced| &priced.draft.remedy.changes);
    match priced {
        [] => Cost::ZERO,
        [only] => Cost { length: only.saved, waited: prices.saved_waits(&all) },
        _ => Cost {
            length: prices.saved(&all) - blacklist::lookup_cost(seen, changes).likely,
            waited: prices.saved_waits(&all),
        },
    }
}

/// A draft, with the most likely saving of its cuts.
struct Priced<'a> {
    rule: &'static Detector,
    draft: &'a Draft,
    cuts: Vec<Cut>,
    /// Saving before the costs of the remedy are taken off.
    gross: Ns,
    costs: Price,
    /// Saving after the costs are taken off.
    saved: Ns,
}

/// The detectors' drafts in the order of their table, each with an upper bound of its price. A stretch belongs to the first draft that
/// claims it.
fn drafts(table: &'static [Detector], seen: &Seen, missing: &mut Vec<Missing>) -> Vec<(Ns, &'static Detector, Draft)> {
    let mut claimed = Claimed::default();
    let mut drafts = Vec::new();
    for rule in table {
        if let Some(&need) = rule.needs.iter().find(|need| !need.is_met(seen)) {
            match missing.iter_mut().find(|lack| lack.need == need) {
                Some(lack) => lack.rules.push(rule.id),
                None => missing.push(Missing { need, rules: vec![rule.id] }),
            }
            continue;
        }
        // A draft that saves nothing is no finding, and claims nothing from later rules, unless its rule knows that all of the time is
        // needed.
        let is_claiming = |draft: &Draft| draft.saves() || draft.remedy == Remedy::NEEDED;
        let new = (rule.look)(seen).into_iter().filter(|draft| is_claiming(draft) && claimed.claim(draft));
        drafts.extend(new.map(|draft| (draft.bound(seen), rule, draft)).filter(|&(bound, ..)| bound > Ns::ZERO));
    }
    drafts
}

/// Prices below this are noise: the largest of three effects. They are another layout of the same code (on most kernels), the error of the
/// end mark, and the error of a clock.
fn noise(timeline: &Timeline) -> Ns {
    let end = timeline.end.map_or(Ns::ZERO, |end| end.error);
    let clocks = timeline.clocks.iter().map(|clock| clock.residual).max().unwrap_or_default();
    end.max(clocks).max(Ns::rounded(floor::VIRTUAL_TIME * analysis::total(timeline).0 as f64))
}

fn cuts(parts: &[Part], share_left: fn(Left) -> f64) -> Vec<Cut> {
    let cut = |part: &Part| {
        let Stretch { track, from, to, .. } = part.stretch;
        Cut { track, from, to, left: share_left(part.left), beside: part.left.beside }
    };
    parts.iter().filter(|part| share_left(part.left) < 1.0).map(cut).collect()
}

/// The price with its interval, over all boots that the log allows. `gross` is the most likely saving of the cuts in the recorded boot;
/// `costs` are those that the remedies add.
fn price(prices: &Prices, grace: &GracePeriods, parts: &[Part], likely: &[Cut], gross: Ns, costs: Price) -> Price {
    let (least, most) = (cuts(parts, |left| left.least), cuts(parts, |left| left.most));
    let saved = gross - costs.likely;
    let (low, high) = prices.saved_in_any(likely, gross);
    let in_any = |cuts: &[Cut]| prices.saved_in_any(cuts, prices.saved(cuts));
    let low = if most == likely { low } else { in_any(&most).0 };
    let high = if least == likely { high } else { in_any(&least).1 };
    // The remedy does not cause the variation of a wait for the timer's tick, so that cannot turn a saving into a loss.
    let (more, less) = grace.variation(likely);
    let low = (low - less).max(low.min(Ns::ZERO));
    let waited = prices.saved_waits(likely);
    Price { low: (low - costs.high).min(saved), likely: saved, high: (high + more - costs.low).max(saved), waited }
}

/// Saving of several findings of a boot together; what they share counts once. `None` if no prices can be computed.
pub fn joint_price(seen: &Seen, findings: &[&Finding]) -> Option<Price> {
    if let [only] = findings {
        return Some(only.price);
    }
    let prices = Prices::new(seen.timeline).ok()?;
    let parts: Vec<Part> = findings.iter().flat_map(|finding| finding.parts.iter().copied()).collect();
    let likely = cuts(&parts, |left| left.likely);
    let costs = blacklist::lookup_cost(seen, findings.iter().flat_map(|finding| &finding.remedy.changes));
    let gross = prices.saved(&likely);
    Some(price(&prices, &GracePeriods::of(seen), &parts, &likely, gross, costs))
}

fn finding(seen: &Seen, priced: Priced, price: Price) -> Finding {
    let Priced { rule, draft, .. } = priced;
    let mut evidence: Vec<Stretch> = draft.parts.iter().map(|part| part.stretch).collect();
    evidence.sort_by_key(|stretch| (Reverse(stretch.length()), stretch.from));
    let evidence_count = evidence.len();
    evidence.truncate(MAX_EVIDENCE);
    let Draft { about, figures, confidence, remedy, parts } = draft.clone();
    let remedy = lab_switch::of(seen.machine, seen.texts(about), remedy);
    let about = seen.called(about);
    Finding { rule, about, figures, evidence, evidence_count, price, confidence, remedy, parts }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Confidence;
    use crate::seen::testing::{Log, ms};
    use timeline::{Unit, WaitedOn};

    #[test]
    fn a_bounded_number_is_priced_and_the_others_are_counted() {
        let boot = |most: usize| {
            let mut log = Log::new();
            for i in 0..100 {
                log.initcall(&format!("driver{i}"), |log| (0..3).for_each(|_| log.call("DELAY", ms(100 + i))));
            }
            log.found_at_most(most)
        };
        let (found, five) = (boot(usize::MAX), boot(5));
        assert_eq!((found.findings.len(), found.not_priced), (MAX_PRICED, 100 - MAX_PRICED));
        assert_eq!(found.findings.last().unwrap().about, "SYSINIT driver36", "those that save most");
        assert_eq!(
            (five.findings.len(), five.not_priced, five.together.length),
            (5, 95, ms(3 * (199 + 198 + 197 + 196 + 195)))
        );
        assert_eq!((boot(0).not_priced, five.below_noise), (100, 0));
    }

    #[test]
    fn a_wait_that_a_part_begins_counts_whole_in_its_bound() {
        let mut log = Log::new();
        // A driver's own wait begins in the delay, and lasts longer.
        log.initcall("nvme", |log| {
            for _ in 0..3 {
                log.wait(ms(100));
                log.call("DELAY", ms(10));
                log.call("reads", ms(90));
            }
        });
        log.initcall("psm", |log| (0..3).for_each(|_| log.call("DELAY", ms(50))));
        let found = log.found_at_most(1);
        let [only] = &found.findings[..] else { panic!("{found:?}") };
        assert_eq!((only.about.as_str(), only.price.likely), ("SYSINIT nvme", ms(300)));
    }

    /// Finds the whole boot, and saves nothing of it.
    const SAVES_NOTHING: Detector = Detector {
        look: |seen| {
            let whole = |(_, row)| Part { stretch: seen.stretch(&row), left: Left::ALL };
            let parts: Vec<Part> = seen.spans().map(whole).collect();
            let about = (parts[0].stretch.name, parts[0].stretch.detail);
            vec![Draft { about, figures: Vec::new(), parts, confidence: Confidence::High, remedy: Remedy::code("-") }]
        },
        ..crate::detectors::DETECTORS[0]
    };
    const NEEDS_ALL: Detector = Detector {
        look: |seen| {
            let draft = |draft| Draft { remedy: Remedy::NEEDED, ..draft };
            (SAVES_NOTHING.look)(seen).into_iter().map(draft).collect()
        },
        ..SAVES_NOTHING
    };

    #[test]
    fn what_saves_nothing_takes_nothing_from_later_rules_unless_it_is_needed() {
        let boot = |table: &'static [Detector]| {
            let mut log = Log::new();
            log.initcall("psm", |log| (0..3).for_each(|_| log.call("DELAY", ms(50))));
            log.found_by(table).findings.len()
        };
        let fixed_delays = |rule: &&Detector| rule.id == "fixed-delays";
        let delays = *DETECTORS.iter().find(fixed_delays).unwrap();
        let with = |first: Detector| boot(Vec::leak(vec![first, delays]));
        assert_eq!((with(SAVES_NOTHING), with(NEEDS_ALL)), (1, 0));
    }

    #[test]
    fn a_list_of_initcalls_is_searched_once_however_many_remedies_need_it() {
        let mut log = Log::linux();
        for name in ["slab_sysfs_init", "blake2s_mod_init", "works"] {
            log.initcall(name, |log| log.call("works", ms(5)));
        }
        log.call("works", ms(400));
        let found = log.found();
        let [a, b] = &found.findings[..] else { panic!("{found:?}") };
        let search = Ns(3 * 2_300);
        assert_eq!([a.price.likely, b.price.likely], [ms(5) - search; 2]);
        assert_eq!(found.together.length, ms(10) - search);
    }

    #[test]
    fn a_thread_that_sleeps_in_a_call_of_linux_waits_for_work_of_the_boot() {
        let saved = |function: &str| {
            let mut log = Log::linux();
            let worker = log.thread("rcu_gp");
            log.call("timer_irq_works", ms(100));
            log.call("works", ms(50));
            match function {
                "" => log.asleep(worker, ms(0), ms(150)),
                function => log.asleep_in(worker, function, ms(0), ms(150)),
            }
            log.waits(ms(10), WaitedOn::Thread(worker));
            log.call("works", ms(300));
            log.found().findings[0].price.likely
        };
        assert_eq!((saved(""), saved("schedule")), (ms(100), ms(100)), "that QEMU saw the call says nothing");
    }

    #[test]
    fn rules_about_a_system_report_once_that_it_is_unknown() {
        let boot = |os: timeline::Os| {
            let mut log = Log::linux();
            log.machine.os = os;
            log.initcall("slab_sysfs_init", |log| log.call("works", ms(5)));
            log.initcall("works", |log| log.call("works", ms(100)));
            let found = log.found();
            let lacks = found.missing.into_iter().filter(|lack| lack.need == Need::System);
            (found.findings.len(), lacks.map(|lack| lack.rules).collect::<Vec<_>>())
        };
        let (none, lacks) = boot(timeline::Os::Unknown);
        let [rules] = &lacks[..] else { panic!("{lacks:?}") };
        assert!(none == 0 && rules.contains(&"long-tail") && rules.contains(&"self-tests"), "{rules:?}");
        assert_eq!(boot(timeline::Os::Linux), (1, vec![]));
        assert_eq!(boot(timeline::Os::FreeBsd), (0, vec![]), "it lacks nothing");
    }

    #[test]
    fn ticks_are_compared_with_no_time() {
        let boot = |unit: Unit| {
            let mut log = Log::new();
            log.unit(unit);
            log.initcall("psm", |log| (0..8).for_each(|_| log.call("DELAY", ms(200))));
            log.found()
        };
        let found = boot(Unit::Ticks);
        assert!(found.findings.is_empty(), "{found:?}");
        let [only] = &found.missing[..] else { panic!("{found:?}") };
        assert_eq!((only.need, only.rules.len()), (Need::Rate, DETECTORS.len()));
        // One instruction is one nanosecond.
        assert_eq!((boot(Unit::Instructions).findings.len(), boot(Unit::Nanoseconds).findings.len()), (1, 1));
    }
}
