//! The boot waits for a thread that could run, and another thread has the CPU.

use crate::detector::{Detector, Draft, Left, Part};
use crate::facts::{Confidence, Figure, Stretch, Value};
use crate::remedy::Change;
use crate::{Need, Remedy, Seen};
use analysis::{Stay, Stays, StretchKind};
use std::collections::{BTreeMap, BTreeSet};
use timeline::{NameId, Ns, Os, TimeBase, TrackId, WaitedOn};

/// The detector.
pub const DETECTOR: Detector = Detector {
    id: "holder-without-cpu",
    title: "it has a CPU while the thread that the boot waits for has none",
    rule: "The boot waits for a thread that holds a lock, or has something to release. That thread could run, and has no CPU: \
           another thread has it. Its evidence are both, the one that had the CPU and the one that was on the run queue. A \
           boot on one CPU whose log says neither how long sleeps last nor which thread runs allows several boots: then the \
           price is a range.",
    source: "FreeBSD b16b4c22d2d1 (2024): the thread that initialises the rest of the pages has the lowest priority, so that \
             nobody waits for it",
    threshold: "one thread has the CPU so for 1 ms or more in all, and for half a per cent of the boot",
    price: "what the other thread did meanwhile is done later, or on another CPU. At the worst a tenth stays. Where others wait \
            for that thread too, or where one more CPU has to be started for it, nothing may be saved",
    needs: &[Need::BootPath, Need::Sleeps],
    look,
};

const SHORTEST: Ns = Ns(1_000_000);
const SHARE_MIN: f64 = 0.005;
/// The reference kernel's thread that nobody waits for, as its log names it, and the words that say whether it gives way.
const GIVES_WAY: (&str, &str, &str) = ("vm_rest", "vm_page=eager-thread", "vm_page=lazy");

fn look(seen: &Seen) -> Vec<Draft> {
    let mut by_owner: BTreeMap<TrackId, Vec<(Stretch, Stretch)>> = BTreeMap::new();
    for stay in Stays::new(seen.timeline).iter() {
        if let Some((had, queued)) = queued(seen, stay) {
            by_owner.entry(had.track).or_default().push((had, queued));
        }
    }
    by_owner.into_values().filter_map(|stretches| of_owner(seen, &stretches)).collect()
}

/// Who had the CPU, and who was ready for it while somebody waited for that one.
fn queued(seen: &Seen, stay: &Stay) -> Option<(Stretch, Stretch)> {
    // Where the owner does not go on, it is the one without a CPU: that was idle, and had to be woken up.
    if stay.kind != StretchKind::Runqueue || !stay.goes_on {
        return None;
    }
    let (waiters, owner) = stay.waiters_and_owner();
    let [.., _, ready] = waiters else { return None };
    let of = |track: TrackId| {
        let name = seen.timeline.tracks.get(track).name;
        Stretch { track, from: stay.from, to: stay.to, name, detail: NameId::EMPTY, purpose: "" }
    };
    Some((of(owner.track), of(ready.track)))
}

fn of_owner(seen: &Seen, stretches: &[(Stretch, Stretch)]) -> Option<Draft> {
    let total: Ns = stretches.iter().map(|(had, _)| had.length()).sum();
    if total < SHORTEST || (total.0 as f64) < seen.end.0 as f64 * SHARE_MIN {
        return None;
    }
    let (first, _) = stretches.first()?;
    let (remedy, mut left) = remedy(seen, first.name);
    if is_needed(seen, first) {
        left.most = 1.0;
    }
    let part =
        |&(had, queued): &(Stretch, Stretch)| [Part { stretch: had, left }, Part { stretch: queued, left: Left::ALL }];
    let kept_waiting: BTreeSet<TrackId> = stretches.iter().map(|(_, queued)| queued.track).collect();
    Some(Draft {
        about: (first.name, NameId::EMPTY),
        figures: vec![
            Figure { of: "threads on the run queue", value: Value::Count(kept_waiting.len() as u64) },
            Figure { of: "in all", value: Value::Time(total) },
        ],
        parts: stretches.iter().flat_map(part).collect(),
        confidence: Confidence::Medium,
        remedy,
    })
}

/// Whether others wait for what a thread does from a stretch on, or may: it then has to be done before the end.
fn is_needed(seen: &Seen, had: &Stretch) -> bool {
    let is_later = |at: Ns| at >= had.from && at <= seen.end;
    let releases = seen.timeline.holds.iter().any(|hold| hold.track == had.track && is_later(hold.to));
    releases || seen.timeline.waits.iter().any(|wait| wait.by == WaitedOn::Thread(had.track) && is_later(wait.woken))
}

/// What helps, and what it leaves.
fn remedy(seen: &Seen, owner: NameId) -> (Remedy, Left) {
    const WHAT: &str =
        "give the thread that nobody waits for a lower priority, or start it later; or boot with more CPUs";
    let left = Left { most: 0.1, ..Left::NOTHING };
    let (thread, takes, gives) = GIVES_WAY;
    if seen.machine.os == Os::Lab && seen.timeline.names.get(owner) == thread && seen.was_given(takes) {
        let [from, to] = [takes, gives].map(|word| vec![word.to_owned()]);
        return (Remedy { what: WHAT, changes: vec![Change::LabSwitch { from, to }] }, left);
    }
    // Where instructions are counted CPUs take turns: one more brings nothing.
    let takes_one_more = seen.machine.vmm.is_some()
        && seen.machine.cpus == 1
        && seen.timeline.time_base == TimeBase::Host
        && !seen.was_given("nosmp")
        && !seen.was_given("maxcpus=1");
    let changes = if takes_one_more { vec![Change::Cpus(2)] } else { Vec::new() };
    (Remedy { what: WHAT, changes }, if takes_one_more { Left { most: 1.0, ..left } } else { left })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Finding;
    use crate::find::Found;
    use crate::seen::testing::{Log, ms};

    /// On one CPU: the boot waits for a thread that could run at once, and another has the CPU for so long.
    fn boot(other: &str, had: Ns, prepare: impl FnOnce(&mut Log)) -> Found {
        let mut log = Log::new();
        log.machine.cpus = 1;
        log.machine.vmm = Some(crate::Vmm::default());
        prepare(&mut log);
        log.call("works", ms(100));
        log.waits_while_another_runs("config hooks", ms(5), (other, had));
        log.call("works", ms(100));
        log.found_by(&[DETECTOR])
    }

    fn only(found: &Found) -> &Finding {
        let [only] = &found.findings[..] else { panic!("{found:?}") };
        only
    }

    #[test]
    fn who_has_the_cpu_while_the_holder_could_run_is_found() {
        let found = boot("vm_rest", ms(30), |_| ());
        let only = only(&found);
        assert_eq!((only.rule.id, only.about.as_str()), ("holder-without-cpu", "vm_rest"));
        assert_eq!((only.price.low, only.price.likely, only.price.high), (ms(27), ms(30), ms(30)));
        assert_eq!(only.figures[1].value, Value::Time(ms(30)));
        assert_eq!(only.evidence_count, 2, "the holder on the run queue is evidence too");
        assert!(only.remedy.changes.is_empty(), "instructions are counted: another CPU brings nothing");
        assert!(boot("vm_rest", Ns(900_000), |_| ()).findings.is_empty(), "less than a millisecond");
    }

    #[test]
    fn the_remedy_is_what_this_boot_can_do() {
        let lab = |word: &str| {
            let found = boot("vm_rest", ms(30), |log| {
                log.machine.os = Os::Lab;
                log.machine.command_line = Some(vec![word.to_owned()]);
            });
            only(&found).remedy.changes.clone()
        };
        let words = |word: &str| vec![word.to_owned()];
        let switch = Change::LabSwitch { from: words("vm_page=eager-thread"), to: words("vm_page=lazy") };
        assert_eq!((lab("vm_page=eager-thread"), lab("vm_page=one-pass")), (vec![switch], Vec::new()));
        let timed = boot("kworker/0:1", ms(30), |log| log.timed_by_the_host());
        let timed = only(&timed);
        assert_eq!((&timed.remedy.changes[..], timed.price.low), (&[Change::Cpus(2)][..], Ns::ZERO));
    }

    #[test]
    fn who_is_waited_for_as_well_may_have_to_work_all_the_same() {
        let mut log = Log::new();
        log.call("works", ms(100));
        log.waits_while_another_runs("config hooks", ms(5), ("g_event", ms(30)));
        let (events, from) = (log.named("g_event"), log.now());
        log.holds(events, "events", Ns::ZERO, from);
        log.call("works", ms(100));
        let found = log.found_by(&[DETECTOR]);
        assert_eq!((only(&found).price.low, only(&found).price.likely), (Ns::ZERO, ms(30)));
    }

    #[test]
    fn the_boots_own_turn_and_what_nobody_waits_for_are_none() {
        let mut log = Log::new();
        log.call("works", ms(100));
        log.is_ready_while_another_runs(("vm_rest", ms(30)));
        log.call("works", ms(100));
        assert!(log.found_by(&[DETECTOR]).findings.is_empty(), "nobody waits for the boot's own thread");
    }
}
