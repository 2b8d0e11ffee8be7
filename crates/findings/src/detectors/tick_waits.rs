//! Waits that last until the timer ticks, not as long as the awaited event takes.

use crate::detector::{Detector, Draft, Left, Part};
use crate::facts::{Confidence, Figure, Stretch, Value};
use crate::statistics::at_least;
use crate::{Need, Remedy, Seen};
use std::collections::BTreeMap;
use timeline::{DiagnosticKind, NameId, Ns, SpanKind, SpanRow, WaitedOn, rounded, rounded_count};

pub const DETECTOR: Detector = Detector {
    id: "tick-waits",
    title: "waits end with the timer's tick",
    rule: "One function sleeps several times, for less than three ticks each. All of these sleeps end at the same moment of \
           the timer's tick, so the tick ended them. Where a log has no sleeps, the rule looks at initcalls: their returns \
           lie one or two ticks apart. The rule finds the tick from these moments, and knows no configuration. It asks how \
           likely so many of them would lie within a fortieth of a tick by chance, for the best of all places, for 100, 250, \
           300 and 1000 ticks a second, and for each function. Sleeps of one length that follow each other at once are a loop \
           that polls, and no evidence; nor is a clock that itself counts ticks, or a worker that has nothing to do.",
    source: "Behme and Raza, linux-embedded: Boot time: Optimize CPU bring up? Four initcalls sleep one or two ticks each \
             to bind a thread; 55 ms with HZ=100, 4 ms with HZ=1000",
    threshold: "at least four sleeps, at least half of all that one function makes, and a chance below 0.001",
    price: "a sleep of n ticks becomes n ticks of 1 ms, at the best nothing; at the worst 2 n ms where the function is known \
            to sleep for a tick, else all of it stays: it may have asked for that long",
    needs: &[Need::BootPath, Need::Sleeps],
    look,
};

/// 100, 250, 300 and 1000 ticks a second; of equal results the longest tick counts.
const TICKS: [Ns; 4] = [Ns(10_000_000), Ns(4_000_000), Ns(3_333_333), Ns(1_000_000)];
/// Duration of a faster timer's tick.
const FAST: Ns = Ns(1_000_000);
/// Ends are at the same moment of the tick if they lie within this part of it.
const WINDOW: f64 = 1.0 / 40.0;
/// In ticks: others wake shorter sleeps, and longer ones were requested.
const SHORTEST: f64 = 0.35;
const LONGEST: f64 = 2.6;
const MIN_SLEEPS: usize = 4;
const MAX_CHANCE: f64 = 0.001;
/// Functions that let time pass asleep. Others that let time pass are busy meanwhile.
const SLEEPS: &[&str] =
    &["_sleep", "pause_sbt", "msleep", "msleep_interruptible", "usleep_range_state", "usleep_range"];
/// Functions of the scheduler through which a thread sleeps; their caller is the sleeper.
const SCHEDULER: &[&str] = &[
    "__schedule",
    "schedule",
    "schedule_idle",
    "preempt_schedule_common",
    "schedule_timeout",
    "schedule_timeout_interruptible",
    "schedule_timeout_uninterruptible",
    "schedule_hrtimeout",
    "schedule_hrtimeout_range",
    "schedule_hrtimeout_range_clock",
    "io_schedule",
    "io_schedule_timeout",
    "__wait_for_common",
    "wait_for_common",
    "wait_for_completion",
    "wait_for_completion_timeout",
    "do_wait_intr",
];
/// Main loops in which a thread sleeps until it gets work, without a time limit.
const IDLE: &[&str] = &["worker_thread", "rescuer_thread", "kthread_worker_fn", "smpboot_thread_fn"];
/// Functions that sleep for one tick, and then look again.
const KNOWN: &[&str] = &["kthread_bind", "wait_task_inactive"];

/// A stretch that ended with a sleep.
struct Sleep {
    stretch: Stretch,
    /// The instant at which its sleep was over.
    end: Ns,
    sleeper: SpanRow,
}

fn look(seen: &Seen) -> Vec<Draft> {
    let mut sleeps = sleeps(seen);
    if sleeps.is_empty() && seen.timeline.waits.is_empty() {
        sleeps = returns(seen);
    }
    // Steps of the boot are examined together, because each sleeps only a few times.
    let mut by_sleeper: BTreeMap<Option<(NameId, NameId)>, Vec<Sleep>> = BTreeMap::new();
    for sleep in sleeps {
        let SpanRow { kind, name, detail, .. } = sleep.sleeper;
        by_sleeper.entry((kind != SpanKind::Initcall).then_some((name, detail))).or_default().push(sleep);
    }
    by_sleeper.retain(|_, sleeps| TICKS.iter().any(|&tick| sleeps_of_tick(sleeps, tick).len() >= MIN_SLEEPS));
    let tests = (by_sleeper.len() * TICKS.len()) as f64;
    by_sleeper.values().filter_map(|sleeps| draft_of_sleeper(seen, sleeps, tests)).collect()
}

/// Sleeps that no other thread ended.
fn sleeps(seen: &Seen) -> Vec<Sleep> {
    let names = seen.names(SLEEPS);
    let asleep = seen.delays().filter(|(delay, _)| names.contains(&delay.name));
    let calls = asleep.filter_map(|(delay, _)| {
        let sleeper = seen.at_work(delay.track, delay.start)?;
        Some(Sleep { stretch: seen.stretch(&delay), end: delay.end, sleeper })
    });
    let timers = seen.timeline.waits.iter().filter(|wait| wait.until <= seen.end && wait.from < wait.until);
    let timers = timers.filter(|wait| matches!(wait.by, WaitedOn::Interrupt(_) | WaitedOn::Unknown));
    let [scheduler, idle] = [SCHEDULER, IDLE].map(|functions| seen.names(functions));
    let waits = timers.filter_map(|wait| {
        let in_a_sleep = |row: SpanRow| names.contains(&row.name);
        let spans = &seen.timeline.spans;
        let mut open = spans.open_at(wait.track, wait.from).0;
        while let Some(scheduler) = open.filter(|&id| scheduler.contains(&spans.get(id).name)) {
            open = spans.parent(scheduler);
        }
        let sleeper = spans.get(open?);
        if in_a_sleep(sleeper) || idle.contains(&sleeper.name) {
            return None;
        }
        let SpanRow { name, detail, .. } = sleeper;
        let stretch = Stretch { track: wait.track, from: wait.from, to: wait.until, name, detail, purpose: "" };
        Some(Sleep { stretch, end: wait.woken, sleeper })
    });
    calls.chain(waits).collect()
}

/// Initcalls, if a log has no sleeps: an initcall that slept last returns just after the sleep.
fn returns(seen: &Seen) -> Vec<Sleep> {
    // Without stamps, initcalls are placed end to end by their durations, which may be whole ticks.
    if seen.timeline.diagnostics.count(DiagnosticKind::InitcallsEndToEnd) > 0 {
        return Vec::new();
    }
    let initcalls = seen.spans().map(|(_, row)| row).filter(|row| row.kind == SpanKind::Initcall);
    initcalls.map(|row| Sleep { stretch: seen.stretch(&row), end: row.end, sleeper: row }).collect()
}

/// Sleeps whose length is that of a few such ticks.
fn sleeps_of_tick(sleeps: &[Sleep], tick: Ns) -> Vec<&Sleep> {
    let ticks = |sleep: &Sleep| sleep.stretch.length().0 as f64 / tick.0 as f64;
    sleeps.iter().filter(|sleep| (SHORTEST..=LONGEST).contains(&ticks(sleep))).collect()
}

/// The moment of an instant in its tick, 0 to 1.
fn moment(at: Ns, tick: Ns) -> f64 {
    at.0.rem_euclid(tick.0) as f64 / tick.0 as f64
}

/// The probability that one end is in a window by chance. If all ends are at one moment of a finer tick, they can be only at a few moments
/// of a coarser tick.
fn chance_of_one(sleeps: &[&Sleep], tick: Ns) -> f64 {
    let is_at_one_moment = |fine: &Ns| {
        let moments: Vec<f64> = sleeps.iter().map(|sleep| moment(sleep.end, *fine)).collect();
        best_window(&moments).1 * 10 >= moments.len() * 9
    };
    let finer = TICKS.into_iter().filter(|&fine| tick.0 % fine.0 == 0 && fine < tick).filter(is_at_one_moment);
    finer.map(|fine| fine.0 as f64 / tick.0 as f64).fold(WINDOW, f64::max)
}

/// True for a loop that polls. Its sleeps both begin and end with the tick, and their lengths differ less than the moments of their ends:
/// each sleep requested that time, right after the one before. A tick makes ends equal, not lengths.
fn is_a_loop(ended: &[&Sleep], tick: Ns) -> bool {
    let begun: Vec<f64> = ended.iter().map(|sleep| moment(sleep.stretch.from, tick)).collect();
    let spread =
        |values: Vec<Ns>| values.iter().max().zip(values.iter().min()).map_or(Ns::ZERO, |(most, least)| *most - *least);
    let Some(first) = ended.first().map(|sleep| sleep.end) else { return false };
    let to_tick = |sleep: &&Sleep| {
        let later = (sleep.end - first).0.rem_euclid(tick.0);
        Ns(if later > tick.0 / 2 { later - tick.0 } else { later })
    };
    let lengths = spread(ended.iter().map(|sleep| sleep.stretch.length()).collect());
    best_window(&begun).1 * 2 > ended.len() && lengths < spread(ended.iter().map(to_tick).collect())
}

/// True if a moment of the tick is in the window that begins at another moment.
fn is_within(moment: f64, begin: f64) -> bool {
    (moment - begin).rem_euclid(1.0) <= WINDOW
}

/// The start of the window with most ends, and their number.
fn best_window(moments: &[f64]) -> (f64, usize) {
    let mut sorted = moments.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len();
    let around: Vec<f64> = sorted.iter().copied().chain(sorted.iter().map(|moment| moment + 1.0)).collect();
    let mut last = 0;
    let counted = (0..count).map(|first| {
        last = last.max(first);
        while last + 1 < first + count && around[last + 1] - around[first] <= WINDOW {
            last += 1;
        }
        (around[first], last + 1 - first)
    });
    // The first of equal windows counts.
    counted.reduce(|best, next| if next.1 > best.1 { next } else { best }).unwrap_or_default()
}

fn draft_of_sleeper(seen: &Seen, sleeps: &[Sleep], tests: f64) -> Option<Draft> {
    let known = seen.names(KNOWN);
    // A function that requests one tick did not request another time that a finer tick ended.
    let asks_for_ticks = sleeps.iter().all(|sleep| known.contains(&sleep.sleeper.name));
    let fit = |tick: Ns| {
        let all = sleeps_of_tick(sleeps, tick);
        let one_chance = if asks_for_ticks { WINDOW } else { chance_of_one(&all, tick) };
        let moments: Vec<f64> = all.iter().map(|sleep| moment(sleep.end, tick)).collect();
        let (begin, count) = best_window(&moments);
        // The probability that at least this number of other ends are beside one of them, whichever that one is.
        let chance =
            all.len() as f64 * at_least(count.saturating_sub(1), all.len().saturating_sub(1), one_chance) * tests;
        let all_count = all.len();
        let ended: Vec<&Sleep> = all.into_iter().filter(|sleep| is_within(moment(sleep.end, tick), begin)).collect();
        (chance, tick, all_count, ended)
    };
    let fits = TICKS
        .iter()
        .map(|&tick| fit(tick))
        .filter(|(_, _, all_count, ended)| ended.len() >= MIN_SLEEPS && ended.len() * 2 >= *all_count);
    let best = fits.reduce(|best, next| if next.0 < best.0 { next } else { best });
    let (chance, tick, all_count, ended) = best.filter(|&(chance, ..)| chance < MAX_CHANCE)?;
    if is_a_loop(&ended, tick) || counts_ticks(seen, &ended, tick) {
        return None;
    }
    let longest = ended.iter().max_by_key(|sleep| sleep.stretch.length())?.sleeper;
    let is_known = ended.iter().all(|sleep| known.contains(&sleep.sleeper.name));
    let per_second = Ns::from_ms(1000).0 as f64 / tick.0 as f64;
    Some(Draft {
        about: (longest.name, longest.detail),
        figures: vec![
            Figure { of: "waits", value: Value::Count(ended.len() as u64) },
            Figure { of: "of", value: Value::Count(all_count as u64) },
            Figure { of: "tick", value: Value::Time(tick) },
            Figure { of: "HZ", value: Value::Count(rounded_count(per_second)) },
            Figure { of: "p", value: Value::Chance(chance) },
        ],
        parts: ended
            .iter()
            .map(|sleep| Part { stretch: sleep.stretch, left: left(sleep.stretch.length(), tick, is_known) })
            .collect(),
        confidence: if is_known { Confidence::High } else { Confidence::Medium },
        remedy: Remedy::code(if tick > FAST {
            "build the kernel with HZ=1000; or change the code: yield the CPU instead of sleeping for a tick, or do not wait"
        } else {
            "change the code: yield the CPU instead of sleeping for a tick, or do not wait"
        }),
    })
}

fn left(length: Ns, tick: Ns, is_known: bool) -> Left {
    let ticks = rounded(length.0 as f64 / tick.0 as f64).max(1);
    let fast = if tick > FAST { Ns(ticks.saturating_mul(FAST.0)) } else { Ns::ZERO };
    let left = Left::time(length, Ns::ZERO, fast, fast + fast);
    if is_known { left } else { Left { most: 1.0, ..left } }
}

/// True if the clock itself counts ticks: then every event is at the same moment of a tick.
fn counts_ticks(seen: &Seen, ended: &[&Sleep], tick: Ns) -> bool {
    let Some(first) = ended.first().map(|sleep| sleep.end) else { return true };
    let is_same = |at: Ns| {
        let later = (at - first).0.rem_euclid(tick.0);
        later.min(tick.0 - later) <= STAMP.0
    };
    if !ended.iter().all(|sleep| is_same(sleep.end)) {
        return false;
    }
    // An event that directly follows a sleep is at the sleep's moment too.
    let mut ends: Vec<Ns> = ended.iter().map(|sleep| sleep.end).collect();
    ends.sort_unstable();
    let is_own = |at: Ns| ends.get(ends.partition_point(|&end| end < at - STAMP)).is_some_and(|&end| end <= at);
    let starts = seen.spans().map(|(_, row)| row.start);
    let instants = seen.lines().map(|line| line.at).take(MAX_OTHERS).chain(starts.take(MAX_OTHERS));
    let others = instants.filter(|&at| !is_own(at));
    let (mut count, mut same) = (0_u64, 0_u64);
    for at in others {
        count += 1;
        same += u64::from(is_same(at));
    }
    count < MIN_OTHERS || same * 2 > count
}

/// The clock of the kernel's log has microseconds.
const STAMP: Ns = Ns(2_000);
/// With fewer other instants it is unknown how the clock counts.
const MIN_OTHERS: u64 = 2;
/// Enough other instants.
const MAX_OTHERS: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Finding;
    use crate::seen::testing::{Log, ms};

    fn us(us: i64) -> Ns {
        Ns::from_us(us)
    }

    /// Works for this long each time, then sleeps in a function until the tick after the next.
    fn sleeps_to_ticks(sleeper: &str, works: &[i64], tick: Ns) -> Vec<Finding> {
        let mut log = Log::new();
        for &work in works {
            log.call("works", us(work));
            log.within(sleeper, |log| {
                let from = log.now();
                let end = Ns((from.0 / tick.0 + 2) * tick.0);
                log.call("_sleep", end - from + us(30));
            });
        }
        log.call("works", ms(3));
        log.found().findings
    }

    const WORKS: [i64; 8] = [3_100, 700, 8_800, 12_345, 400, 5_050, 6_600, 1_010];

    #[test]
    fn sleeps_that_end_with_the_tick_are_found_with_the_tick() {
        for (tick, hz) in [(ms(10), 100), (ms(4), 250), (Ns(3_333_333), 300), (ms(1), 1000)] {
            let found = sleeps_to_ticks("kthread_bind", &[WORKS, WORKS].concat(), tick);
            let [only] = &found[..] else { panic!("{hz}: {found:?}") };
            assert_eq!((only.rule.id, only.about.as_str()), ("tick-waits", "kthread_bind"), "{hz}");
            let value = |of: &str| only.figures.iter().find(|figure| figure.of == of).unwrap().value;
            assert_eq!(
                (value("waits"), value("HZ"), value("tick")),
                (Value::Count(16), Value::Count(hz), Value::Time(tick))
            );
            assert!(matches!(value("p"), Value::Chance(p) if p < 1e-6), "{hz}: {:?}", only.figures);
        }
        let four = sleeps_to_ticks("kthread_bind", &WORKS[..4], ms(10));
        assert_eq!(four[0].rule.id, "tick-waits");
        assert_eq!(four[0].confidence, Confidence::High);
        let four = sleeps_to_ticks("looks_again", &WORKS[..4], ms(10));
        assert!(four.iter().all(|f| f.rule.id != "tick-waits"), "to the ns they end with a tick of 1 ms too");
        let other = sleeps_to_ticks("looks_again", &WORKS, ms(10));
        assert_eq!((other[0].price.low, other[0].confidence), (ms(0), Confidence::Medium), "it may want to sleep");
    }

    #[test]
    fn a_tick_of_a_millisecond_becomes_the_time() {
        let found = sleeps_to_ticks("kthread_bind", &WORKS, ms(10));
        let asleep: Ns = found[0].evidence.iter().map(Stretch::length).sum();
        let price = found[0].price;
        let ticks = (asleep.0 as f64 / 1e7).round() as i64;
        assert!((price.likely - (asleep - ms(ticks))).abs() <= ms(4), "{price:?} of {asleep:?}");
        assert_eq!(price.high, asleep);
        assert!(price.low > asleep - ms(3 * ticks) && price.low < price.likely, "{price:?}");
    }

    #[test]
    fn a_worker_that_has_nothing_to_do_waits_for_no_tick() {
        let boot = |sleeper: &str| {
            let mut log = Log::linux();
            for work in [WORKS, WORKS].concat() {
                log.call("works", us(work));
                log.within(sleeper, |log| {
                    let from = log.now();
                    let end = Ns((from.0 / ms(4).0 + 2) * ms(4).0);
                    log.sleep("schedule", end - from + us(30), WaitedOn::Unknown);
                });
            }
            log.call("works", ms(3));
            log.found_by(&[DETECTOR]).findings.len()
        };
        assert_eq!((boot("looks_again"), boot("worker_thread")), (1, 0));
    }

    #[test]
    fn an_outlier_hides_nothing() {
        let mut log = Log::new();
        for (i, &work) in WORKS.iter().enumerate() {
            log.call("works", us(work));
            log.within("kthread_bind", |log| {
                let end = Ns((log.now().0 / 10_000_000 + 2) * 10_000_000);
                // A device woke it.
                let early = if i == 3 { ms(4) } else { ms(0) };
                log.call("_sleep", end - log.now() - early);
            });
        }
        let found = log.found().findings;
        assert_eq!((found[0].rule.id, found[0].figures[0].value), ("tick-waits", Value::Count(7)), "{found:?}");
    }

    #[test]
    fn sleeps_of_any_length_are_none_and_neither_are_busy_delays() {
        let boot = |name: &'static str, lengths: &[i64]| {
            let mut log = Log::new();
            for (&length, &work) in lengths.iter().zip(&WORKS) {
                log.call("works", us(work));
                log.within("driver", |log| log.call(name, us(length)));
            }
            log.found().findings.iter().map(|finding| finding.rule.id).collect::<Vec<&str>>()
        };
        let any = [4_120, 8_310, 13_700, 9_990, 17_100, 6_450, 11_200, 15_900];
        assert!(boot("_sleep", &any).is_empty());
        assert_eq!(boot("_sleep", &[5_000; 8]), ["fixed-delays"], "as long as was asked for, wherever the tick is");
        assert!(!boot("DELAY", &[10_000; 8]).contains(&"tick-waits"));
        assert!(
            sleeps_to_ticks("kthread_bind", &WORKS[..3], ms(10)).iter().all(|f| f.rule.id != "tick-waits"),
            "three"
        );
    }

    #[test]
    fn a_loop_that_polls_has_no_tick() {
        let mut log = Log::new();
        for _ in 0..9 {
            log.within("polls", |log| {
                log.call("works", us(10));
                log.call("pause_sbt", us(10_005));
            });
        }
        log.call("works", ms(60));
        assert_eq!(log.found().findings.iter().map(|f| f.rule.id).collect::<Vec<_>>(), ["fixed-delays"]);
    }

    #[test]
    fn a_fine_tick_is_not_taken_for_a_coarse_one() {
        // Sleeps of 5 to 8 ms with HZ=1000: there are few moments of 4 and 10 ms ticks at which they can end.
        let found = |seed: u64| {
            let mut log = Log::new();
            let mut state = seed;
            for _ in 0..8 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                log.call("works", Ns((state >> 33) as i64 % 7_000_000));
                log.within("driver", |log| {
                    let ticks = 5 + (state >> 20) as i64 % 4;
                    let end = (log.now().0 / 1_000_000 + ticks) * 1_000_000;
                    log.call("msleep", Ns(end) - log.now());
                });
            }
            log.call("works", ms(3));
            log.found().findings.iter().any(|finding| finding.rule.id == "tick-waits")
        };
        let count = (0..400).filter(|&seed| found(seed)).count();
        assert!(count <= 2, "{count} of 400, each with a chance below 0.001");
    }

    #[test]
    fn random_ends_are_found_no_more_often_than_the_stated_chance() {
        // A generator that gives the same numbers everywhere (SplitMix64).
        let mut state = 1_u64;
        let mut random = |below: i64| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((z ^ (z >> 31)) >> 1) as i64 % below
        };
        let mut found = 0;
        for _ in 0..500 {
            let mut log = Log::new();
            for _ in 0..4 + random(16) {
                log.call("works", Ns(random(20_000_000)));
                log.within("driver", |log| log.call("_sleep", Ns(400_000 + random(24_000_000))));
            }
            found += log.found().findings.iter().filter(|finding| finding.rule.id == "tick-waits").count();
        }
        assert!(found <= 2, "{found} of 500, each with a chance below 0.001");
    }

    /// Initcalls of an i.MX6 from its log (Behme, linux-embedded): it shows no sleeps, only when lines were printed.
    #[test]
    fn returns_that_are_ticks_apart_are_found() {
        let mut log = Log::new();
        log.call("works", us(255_927));
        for (text, at) in [("hw perfevents: enabled", 106), ("Setting up static identity map", 0)] {
            log.line(text);
            log.call("works", us(at));
        }
        for (name, returned) in [("spawn_ksoftirqd", 260_204), ("init_workqueues", 270_363), ("cpu_stop_init", 290_265)]
        {
            let now = log.now();
            log.initcall(name, |log| log.call("works", us(returned) - now));
        }
        log.initcall("rcu_spawn_kthreads", |log| log.call("works", us(20_184)));
        log.call("works", us(250));
        log.line("Brought up 1 CPUs");
        let found = log.found().findings;
        let [only] = &found[..] else { panic!("{found:?}") };
        assert_eq!((only.rule.id, only.about.as_str()), ("tick-waits", "SYSINIT rcu_spawn_kthreads"));
        assert_eq!(
            only.figures[..3].iter().map(|f| f.value).collect::<Vec<_>>(),
            [Value::Count(4), Value::Count(4), Value::Time(ms(10))]
        );
        assert!(matches!(only.figures[4].value, Value::Chance(p) if (1e-4..3e-4).contains(&p)), "{:?}", only.figures);
        // Published: 55 ms become 4 ms.
        assert!((only.price.likely - us(48_000)).abs() < ms(1), "{:?}", only.price);
        assert_eq!(only.confidence, Confidence::Medium);
    }

    #[test]
    fn a_clock_that_counts_ticks_shows_nothing() {
        let boot = |stamp: i64| {
            let mut log = Log::new();
            for i in 0..8 {
                log.initcall(&format!("init{i}"), |log| log.call("works", ms(10)));
                log.initcall(&format!("short{i}"), |log| log.call("works", ms(stamp)));
                log.initcall(&format!("other{i}"), |_| ());
            }
            log.found().findings.len()
        };
        assert_eq!(boot(20), 0);
    }
}
