//! CPUs that are started one after the other.

use crate::detector::{Detector, Draft, Left, Part};
use crate::facts::{Confidence, Figure, Value};
use crate::{Need, Remedy, Seen};
use std::collections::BTreeMap;
use timeline::{NameId, Ns, SpanKind, SpanRow};

pub const DETECTOR: Detector = Detector {
    id: "cpu-start",
    title: "CPUs are started one after the other",
    rule: "The function that starts other CPUs waits about 10 ms after INIT, once for each CPU. INIT can be sent to all of them \
           first: one wait is then enough.",
    source: "Percival 2018, Profiling the FreeBSD kernel boot: SYSINIT cpu_mp DELAY, 10.4 ms per CPU",
    threshold: "at least two delays of 5 ms or more, each within 5 % of their median, in the function that starts CPUs",
    price: "all of these delays but the first go; at the worst a tenth of each stays",
    needs: &[Need::BootPath, Need::Functions],
    look,
};

const SHORTEST: Ns = Ns(5_000_000);
/// A delay that differs from the median by more than this part of it is another delay.
const MAX_SPREAD: f64 = 0.05;
const FUNCTIONS: &[&str] = &["wake_aps", "start_all_aps", "start_ap", "native_start_all_aps", "do_boot_cpu"];
/// The step of FreeBSD that calls one of these functions, if its log has no functions.
const STEPS: &[&str] = &["cpu_mp"];

fn look(seen: &Seen) -> Vec<Draft> {
    let (functions, steps) = (seen.names(FUNCTIONS), seen.names(STEPS));
    let starts = |row: &SpanRow| {
        functions.contains(&row.name) || (row.kind == SpanKind::Initcall && steps.contains(&row.detail))
    };
    let mut by_caller: BTreeMap<(NameId, NameId), Vec<(SpanRow, SpanRow)>> = BTreeMap::new();
    for (delay, caller) in seen.delays().filter(|(_, caller)| starts(caller)) {
        by_caller.entry((caller.name, caller.detail)).or_default().push((delay, caller));
    }
    by_caller.into_values().filter_map(|calls| draft(seen, calls)).collect()
}

fn draft(seen: &Seen, calls: Vec<(SpanRow, SpanRow)>) -> Option<Draft> {
    let mut lengths: Vec<Ns> = calls.iter().map(|(delay, _)| delay.length()).filter(|&l| l >= SHORTEST).collect();
    lengths.sort_unstable();
    let median = *lengths.get(lengths.len() / 2)?;
    let is_same = |delay: &SpanRow| (delay.length() - median).abs().0 as f64 <= median.0 as f64 * MAX_SPREAD;
    let (long, others): (Vec<_>, Vec<_>) = calls.into_iter().partition(|(delay, _)| is_same(delay));
    // With one other CPU there is one delay. Several delays of different lengths are no waits after INIT, and other rules may find them.
    if long.len() < 2 && lengths.len() > 1 {
        return None;
    }
    let (first, caller) = long.first()?;
    // One delay is needed.
    let left = |delay: &SpanRow| if delay == first { Left::ALL } else { Left { most: 0.1, ..Left::NOTHING } };
    let part = |(delay, _): &(SpanRow, SpanRow)| Part { stretch: seen.stretch(delay), left: left(delay) };
    // The polling after that is part of the same start, and its time stays.
    let polled = others.iter().map(|(delay, _)| Part { stretch: seen.stretch(delay), left: Left::ALL });
    Some(Draft {
        about: (caller.name, caller.detail),
        figures: vec![
            Figure { of: "delays", value: Value::Count(long.len() as u64) },
            Figure { of: "each", value: Value::Time(median) },
        ],
        parts: long.iter().map(part).chain(polled).collect(),
        confidence: Confidence::High,
        remedy: if long.len() > 1 {
            Remedy::code("change the code: send INIT to all CPUs, wait once, then STARTUP to all")
        } else {
            Remedy::NEEDED
        },
    })
}

#[cfg(test)]
mod tests {
    use crate::seen::testing::{Log, ms};
    use timeline::Ns;

    #[test]
    fn one_delay_for_all_cpus_is_none_too_many() {
        let boot = |cpus: usize| {
            let mut log = Log::new();
            log.call("works", ms(100));
            for _ in 0..cpus {
                log.within("wake_aps", |log| {
                    log.call("DELAY", ms(10));
                    (0..5).for_each(|_| log.call("DELAY", Ns(200_000)));
                });
            }
            log.found()
        };
        assert!(boot(1).findings.is_empty());
        let lengths = |lengths: &'static [i64]| {
            let mut log = Log::new();
            let each = |log: &mut Log| lengths.iter().for_each(|&us| log.call("DELAY", Ns::from_us(us)));
            log.within("wake_aps", each);
            log.found().findings.iter().map(|f| (f.rule.id, f.price.likely)).collect::<Vec<(&str, Ns)>>()
        };
        let one_is_longer = lengths(&[10_400, 10_400, 11_000, 10_400]);
        assert_eq!(one_is_longer, [("cpu-start", Ns::from_us(20_800))]);
        let none_alike = lengths(&[6_000, 8_000, 20_000, 1_000, 1_000, 1_000]);
        assert_eq!(none_alike, [("fixed-delays", ms(3))], "another rule's");
        let mut other = Log::new();
        other.initcall("cpu_mp", |log| {
            log.call("DELAY", ms(9));
            log.within("wake_aps", |log| log.call("DELAY", ms(10)));
        });
        assert!(other.found().findings.is_empty(), "another delay beside it");
        let found = boot(4);
        let [only] = &found.findings[..] else { panic!("{found:?}") };
        assert_eq!(
            (only.rule.id, only.price.low, only.price.likely, only.price.high),
            ("cpu-start", ms(27), ms(30), ms(30))
        );
    }
}
