//! The boot waits for a thread that could run, while another thread has the CPU.

use crate::detector::{Detector, Draft, Left, Part};
use crate::facts::{Confidence, Figure, Stretch, Value};
use crate::remedy::Change;
use crate::{Need, Remedy, Seen};
use analysis::{Stay, Stays, StretchKind};
use hashbrown::HashMap;
use std::collections::{BTreeMap, BTreeSet};
use timeline::{NameId, Ns, Os, SpanKind, TimeBase, TrackId, WaitedOn};

pub const DETECTOR: Detector = Detector {
    id: "holder-without-cpu",
    title: "it has a CPU while the thread that the boot waits for has none",
    rule: "The boot waits for a thread that holds a lock, or has something to release. That thread could run, and has no CPU: \
           another thread has it. Its evidence are both, the one that had the CPU and the one that was on the run queue. \
           Threads of a pool do unrelated work: each work item, or other step of the boot, counts by itself. A boot on one CPU whose log says neither how long sleeps last nor which thread runs allows several boots: then the \
           price is a range.",
    source: "FreeBSD b16b4c22d2d1 (2024): the thread that initialises the rest of the pages has the lowest priority, so that \
             nobody waits for it",
    threshold: "one thread has the CPU so for 1 ms or more in all, and for half a per cent of the boot",
    price: "what the other thread did meanwhile is done later, or on another CPU. At the worst a tenth stays. Where others wait \
            for that thread too before the end, most likely nothing is saved. Where one more CPU has to be started for it, \
            nothing may be saved",
    needs: &[Need::BootPath, Need::Sleeps],
    look,
};

const SHORTEST: Ns = Ns(1_000_000);
const MIN_SHARE: f64 = 0.005;
/// The reference kernel's thread that no thread waits for, by its name in the log. Then the words on the command line: the thread does not
/// give way, or it does.
const GIVES_WAY: (&str, &str, &str) = ("vm_rest", "vm_page=eager-thread", "vm_page=lazy");

/// Kinds of spans that are orders to a thread, in contrast to those that show only how an order is carried out.
const STEPS: [SpanKind; 6] =
    [SpanKind::Initcall, SpanKind::Module, SpanKind::Probe, SpanKind::Attach, SpanKind::Mount, SpanKind::Work];

fn look(seen: &Seen) -> Vec<Draft> {
    let (steps, needed) = (steps(seen), needed_until(seen));
    // A thread's time, by its steps.
    let mut by_step: BTreeMap<(TrackId, NameId, NameId), Vec<(Stretch, Stretch)>> = BTreeMap::new();
    for stay in Stays::new(seen.timeline).iter() {
        for (had, queued) in queued(seen, &steps, stay) {
            by_step.entry((had.track, had.name, had.detail)).or_default().push((had, queued));
        }
    }
    let until = |track: TrackId| needed.get(&track).copied();
    by_step.iter().filter_map(|((track, ..), stretches)| draft_of_step(seen, stretches, until(*track))).collect()
}

/// The outermost steps of each track, ordered by track and time.
fn steps(seen: &Seen) -> Vec<Stretch> {
    let mut steps: Vec<Stretch> = Vec::new();
    let rows = seen.timeline.spans.iter().map(|(_, row)| row);
    for row in rows.filter(|row| STEPS.contains(&row.kind) && row.start < row.end) {
        if steps.last().is_none_or(|last| last.track != row.track || last.to <= row.start) {
            steps.push(seen.stretch(&row));
        }
    }
    steps
}

/// Pairs of stretches, by step: the thread that had the CPU, and the awaited thread that was on the run queue meanwhile.
fn queued(seen: &Seen, steps: &[Stretch], stay: &Stay) -> Vec<(Stretch, Stretch)> {
    // If the owner does not go on, it is the thread without a CPU: the CPU was idle, and had to be woken up.
    if stay.kind != StretchKind::Runqueue || !stay.goes_on {
        return Vec::new();
    }
    let (waiters, owner) = stay.waiters_and_owner();
    let [.., _, ready] = waiters else { return Vec::new() };
    let stretch_of = |track: TrackId, from: Ns, to: Ns| {
        let name = seen.timeline.tracks.get(track).name;
        Stretch { track, from, to, name, detail: NameId::EMPTY, purpose: "" }
    };
    let (mut at, mut had) = (stay.from, Vec::new());
    let first = steps.partition_point(|step| (step.track, step.to) <= (owner.track, stay.from));
    let within = steps[first..].iter().take_while(|step| step.track == owner.track && step.from < stay.to);
    for step in within {
        had.push(stretch_of(owner.track, at, step.from));
        at = step.to.min(stay.to);
        had.push(Stretch { from: step.from.max(stay.from), to: at, ..*step });
    }
    had.push(stretch_of(owner.track, at, stay.to));
    had.retain(|had| had.from < had.to);
    had.into_iter().map(|had| (had, stretch_of(ready.track, had.from, had.to))).collect()
}

/// A draft about one step of a thread. `needed` is the last instant at which others wait for that thread.
fn draft_of_step(seen: &Seen, stretches: &[(Stretch, Stretch)], needed: Option<Ns>) -> Option<Draft> {
    let total: Ns = stretches.iter().map(|(had, _)| had.length()).sum();
    if total < SHORTEST || (total.0 as f64) < seen.end.0 as f64 * MIN_SHARE {
        return None;
    }
    let (first, _) = stretches.first()?;
    // Work before that instant has to be done all the same.
    let is_needed = |had: &Stretch| needed.is_some_and(|until| until >= had.from);
    let in_vain: Ns = stretches.iter().map(|(had, _)| had).filter(|had| is_needed(had)).map(Stretch::length).sum();
    if in_vain == total {
        return None;
    }
    let (remedy, left) = remedy(seen, first.track, in_vain.0 * 2 >= total.0);
    let left = |had: &Stretch| if is_needed(had) { Left { least: left.least, ..Left::ALL } } else { left };
    let part = |&(had, queued): &(Stretch, Stretch)| {
        [Part { stretch: had, left: left(&had) }, Part { stretch: queued, left: Left::ALL }]
    };
    let kept_waiting: BTreeSet<TrackId> = stretches.iter().map(|(_, queued)| queued.track).collect();
    Some(Draft {
        about: (first.name, first.detail),
        figures: vec![
            Figure { of: "threads on the run queue", value: Value::Count(kept_waiting.len() as u64) },
            Figure { of: "in all", value: Value::Time(total) },
        ],
        parts: stretches.iter().flat_map(part).collect(),
        confidence: Confidence::Medium,
        remedy,
    })
}

/// For each thread, the last instant before the end at which others wait for its work, or may wait.
fn needed_until(seen: &Seen) -> HashMap<TrackId, Ns> {
    let releases = seen.timeline.holds.iter().map(|hold| (hold.track, hold.to));
    let wakes = seen.timeline.waits.iter().filter_map(|wait| match wait.by {
        WaitedOn::Thread(by) => Some((by, wait.woken)),
        _ => None,
    });
    let mut needed: HashMap<TrackId, Ns> = HashMap::new();
    for (track, at) in releases.chain(wakes).filter(|&(_, at)| at <= seen.end) {
        let until = needed.entry(track).or_insert(at);
        *until = at.max(*until);
    }
    needed
}

/// The remedy, and the share that it leaves if no thread waits for the owner.
fn remedy(seen: &Seen, owner: TrackId, is_needed: bool) -> (Remedy, Left) {
    const LATER: &str =
        "give the thread that nobody waits for a lower priority, or start it later; or boot with more CPUs";
    const LESS: &str = "let the thread do less, as others wait for it too: most of this it has to do before the end; or boot \
                        with more CPUs";
    let what = if is_needed { LESS } else { LATER };
    let left = Left { most: 0.1, ..Left::NOTHING };
    let (thread, takes, gives) = GIVES_WAY;
    let name = seen.timeline.names.get(seen.timeline.tracks.get(owner).name);
    if seen.machine.os == Os::Lab && name == thread && seen.was_given(takes) {
        let [from, to] = [takes, gives].map(|word| vec![word.to_owned()]);
        return (Remedy { what, changes: vec![Change::LabSwitch { from, to }] }, left);
    }
    // If instructions are counted, CPUs take turns: one more CPU saves nothing.
    let takes_one_more = seen.machine.vmm.is_some()
        && seen.machine.cpus == 1
        && seen.timeline.time_base == TimeBase::Host
        && !seen.was_given("nosmp")
        && !seen.was_given("maxcpus=1");
    let changes = if takes_one_more { vec![Change::Cpus(2)] } else { Vec::new() };
    (Remedy { what, changes }, if takes_one_more { Left { most: 1.0, ..left } } else { left })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Finding;
    use crate::find::Found;
    use crate::seen::testing::{Log, ms};

    /// On one CPU: the boot waits for a thread that could run at once, and another thread has the CPU for `had`.
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
    fn the_thread_that_has_the_cpu_instead_of_the_holder_is_found() {
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
    fn an_awaited_thread_has_to_work_all_the_same() {
        let boot = |later: &[i64]| {
            let mut log = Log::new();
            log.call("works", ms(100));
            log.waits_while_another_runs("config hooks", ms(5), ("g_event", ms(30)));
            let (events, from) = (log.named("g_event"), log.now());
            log.holds(events, "events", Ns::ZERO, from);
            for &had in later {
                log.call("works", ms(100));
                log.waits_while_another_runs("interrupts", ms(5), ("g_event", ms(had)));
            }
            log.call("works", ms(100));
            log.found_by(&[DETECTOR])
        };
        let found = boot(&[]);
        assert_eq!((found.findings.len(), found.below_noise), (0, 0), "nor does it hide others' findings");
        // No thread waits for its work after that.
        let (longer, shorter) = (boot(&[40]), boot(&[10]));
        assert_eq!((only(&longer).price.low, only(&longer).price.likely), (ms(36), ms(40)));
        assert_eq!((only(&shorter).price.low, only(&shorter).price.likely), (ms(9), ms(10)));
        let [longer, shorter] = [&longer, &shorter].map(|found| only(found).remedy.what);
        assert!(longer.starts_with("give the thread that nobody waits for"), "{longer}");
        assert!(shorter.starts_with("let the thread do less"), "{shorter}");
    }

    #[test]
    fn what_a_pools_thread_does_counts_by_itself() {
        let mut log = Log::linux();
        log.call("works", ms(100));
        let pool = log.thread("kworker/u2:0");
        // The third item is too short, and so is the pool's own part between the items.
        log.works_on(pool, &[("flush_disk", ms(20)), ("", Ns(500_000)), ("probe_disk", ms(9)), ("free", Ns(500_000))]);
        log.waits_while_another_runs("config hooks", ms(5), ("kworker/u2:0", ms(30)));
        log.call("works", ms(100));
        let found = log.found_by(&[DETECTOR]);
        let about: Vec<(&str, Ns)> = found.findings.iter().map(|one| (one.about.as_str(), one.price.likely)).collect();
        assert_eq!(about, [("work flush_disk", ms(20)), ("work probe_disk", ms(9))]);
    }

    #[test]
    fn what_a_rule_before_it_found_is_not_sold_again() {
        let mut log = Log::linux();
        log.initcall("works", |log| log.call("works", ms(100)));
        let pool = log.thread("kworker/u2:0");
        log.works_on(pool, &[("ftrace_check_work_func", ms(30))]);
        log.waits_while_another_runs("config hooks", ms(5), ("kworker/u2:0", ms(30)));
        log.call("works", ms(100));
        let rules: Vec<&str> = log.found().findings.iter().map(|finding| finding.rule.id).collect();
        assert_eq!(rules, ["tracer-start"]);
    }

    #[test]
    fn the_boots_own_turn_and_work_without_waiters_are_not_found() {
        let mut log = Log::new();
        log.call("works", ms(100));
        log.is_ready_while_another_runs(("vm_rest", ms(30)));
        log.call("works", ms(100));
        assert!(log.found_by(&[DETECTOR]).findings.is_empty(), "nobody waits for the boot's own thread");
    }
}
