//! Work of the boot's thread that other threads could do beside it: the time that the boot still takes for it.

use crate::phases::phases;
use timeline::{MilestoneKind, Ns, Phase, SpanKind, TimeBase, Timeline, TrackId};

/// The number of CPUs to reckon with if it is unknown: more than one CPU is the rule, and how many more is open.
const CPUS_IF_UNKNOWN: u32 = 2;
/// At most this number of stretches is reckoned with, the longest: the time for it grows with the square.
const MAX_STRETCHES: usize = 1024;

/// A stretch of the boot's thread that another thread could run from the same instant on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Aside {
    pub from: Ns,
    pub to: Ns,
    /// The part of it in which the thread has a CPU, 0 to 1.
    pub busy: f64,
}

/// The number of CPUs on which threads of a boot run at once. `known` is 0 if the number is unknown.
#[must_use]
pub fn cpus_at_once(timeline: &Timeline, known: u32) -> u32 {
    match (timeline.time_base, known) {
        // QEMU runs the CPUs of a deterministic boot in turn.
        (TimeBase::GuestVirtual, _) => 1,
        (_, 0) => CPUS_IF_UNKNOWN,
        (_, known) => known,
    }
}

/// The instant at which Linux waits for all asynchronous probes: before the kernel itself mounts the root, or else before
/// it frees the memory of its initcalls. `None` if the evidence has neither.
#[must_use]
pub fn probes_awaited_at(timeline: &Timeline) -> Option<Ns> {
    let phases = phases(timeline);
    // A phase that begins at the end of the boot has no length, and is not among its phases.
    let last = |phase: Phase| timeline.boundaries.iter().filter(|b| b.phase == phase).map(|b| b.at).max();
    let begins = |phase: Phase| phases.iter().find(|known| known.what == phase).map(|known| known.start);
    let at = |phase: Phase| begins(phase).or_else(|| last(phase));
    let handed_over = at(Phase::HandOver).or(at(Phase::Process1))?;
    let is_mount = |kind| kind == MilestoneKind::RootMounted;
    let mounted = timeline.passed.iter().filter(|passed| is_mount(passed.kind)).map(|passed| passed.at).min();
    let Some(mounted) = mounted.filter(|&mounted| mounted < handed_over) else { return Some(handed_over) };
    // The kernel waits for probes right after its last initcall, and then mounts.
    let initcalls = timeline.spans.iter().map(|(_, row)| row).filter(|row| row.kind == SpanKind::Initcall);
    initcalls.map(|row| row.end).filter(|&end| end <= mounted).max().or(Some(mounted))
}

/// The part of a stretch in which a track had a CPU, 0 to 1. `None` if no evidence shows when it did.
#[must_use]
pub fn busy(timeline: &Timeline, track: TrackId, from: Ns, to: Ns) -> Option<f64> {
    let running = &timeline.running;
    let of_track = &running[running.partition_point(|ran| ran.track < track)..];
    let of_track = &of_track[..of_track.partition_point(|ran| ran.track == track)];
    of_track.first()?;
    let within = of_track[of_track.partition_point(|ran| ran.to <= from)..].iter().take_while(|ran| ran.from < to);
    let ran: Ns = within.map(|ran| ran.to.min(to) - ran.from.max(from)).sum();
    Some(if from < to { (ran.0 as f64 / (to - from).0 as f64).clamp(0.0, 1.0) } else { 0.0 })
}

/// The time that the boot still takes for stretches of its thread that other threads run beside it. The boot goes on
/// where each begins, and waits for all of them at `until`. Threads that need more CPUs than there are share them
/// equally. Stretches must not overlap.
#[must_use]
pub fn still_takes(asides: &[Aside], until: Ns, cpus: u32) -> Ns {
    let mut asides: Vec<Aside> = asides.iter().copied().filter(|aside| aside.from < aside.to.min(until)).collect();
    asides.sort_by_key(|aside| std::cmp::Reverse(aside.to - aside.from));
    let left_out: Ns = asides.iter().skip(MAX_STRETCHES).map(|aside| aside.to.min(until) - aside.from).sum();
    asides.truncate(MAX_STRETCHES);
    asides.sort_by_key(|aside| aside.from);
    let (Some(first), whole) = (asides.first(), asides.iter().map(|aside| aside.to.min(until) - aside.from).sum())
    else {
        return left_out;
    };
    let without = (until - first.from) - whole;
    let took = run_beside(&asides, first.from, until, f64::from(cpus.max(1)));
    left_out + (Ns::rounded(took) - without).clamp(Ns::ZERO, whole)
}

/// The time from the first stretch until the boot goes on after `until`.
fn run_beside(asides: &[Aside], from: Ns, until: Ns, cpus: f64) -> f64 {
    // Each thread's rest, and its share of a CPU.
    let mut beside: Vec<(f64, f64)> = Vec::new();
    let (mut at, mut rest, mut took) = (from.0 as f64, asides, 0.0);
    loop {
        if let Some((next, after)) = rest.split_first().filter(|(next, _)| next.from.0 as f64 <= at) {
            let length = (next.to.min(until) - next.from).0 as f64;
            beside.push((length, next.busy.clamp(0.0, 1.0)));
            (at, rest) = (at + length, after);
            continue;
        }
        let stop = rest.first().map_or(until, |next| next.from).0 as f64;
        let works = at < stop;
        if !works && beside.is_empty() {
            return took;
        }
        let slower = slower(works, &beside, cpus);
        let lasts = |&(left, busy): &(f64, f64)| left * (busy * slower + 1.0 - busy);
        let boot = if works { (stop - at) * slower } else { f64::INFINITY };
        let step = beside.iter().map(lasts).fold(boot, f64::min);
        took += step;
        at = if works && step >= boot { stop } else { at + if works { step / slower } else { 0.0 } };
        beside.iter_mut().for_each(|(left, busy)| *left -= step / (*busy * slower + 1.0 - *busy));
        // Rounding leaves less than a nanosecond.
        beside.retain(|&(left, _)| left > 0.5);
    }
}

/// The factor by which work takes longer, so that all threads together use no more CPUs than there are. Sleep does not.
fn slower(works: bool, beside: &[(f64, f64)], cpus: f64) -> f64 {
    /// Halvings of the interval: enough for nanoseconds in a boot of hours.
    const HALVINGS: usize = 50;
    let own = f64::from(u8::from(works));
    let used = |slower: f64| {
        let other = beside.iter().map(|&(_, busy)| busy / (busy * slower + 1.0 - busy));
        own / slower + other.sum::<f64>()
    };
    if used(1.0) <= cpus {
        return 1.0;
    }
    let (mut low, mut high) = (1.0, (own + beside.len() as f64) / cpus);
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if used(middle) > cpus { low = middle } else { high = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aside(from: i64, to: i64, busy: f64) -> Aside {
        Aside { from: Ns(from * 1000), to: Ns(to * 1000), busy }
    }

    fn takes(asides: &[(i64, i64, f64)], until: i64, cpus: u32) -> i64 {
        let asides: Vec<Aside> = asides.iter().map(|&(from, to, busy)| aside(from, to, busy)).collect();
        still_takes(&asides, Ns(until * 1000), cpus).0 / 1000
    }

    #[test]
    fn a_probe_that_is_done_in_time_takes_nothing() {
        assert_eq!(takes(&[(100, 300, 1.0)], 1000, 2), 0);
        assert_eq!(takes(&[(100, 300, 0.0)], 1000, 1), 0, "it sleeps");
        assert_eq!(takes(&[], 1000, 2), 0);
    }

    #[test]
    fn the_boot_waits_at_the_end_for_the_longest() {
        assert_eq!(takes(&[(100, 900, 1.0)], 1000, 2), 700, "100 are done meanwhile");
        // Two at once: the boot has 200 left to do, then waits until both are done.
        assert_eq!(takes(&[(100, 500, 0.0), (500, 800, 0.0)], 1000, 1), 200);
    }

    #[test]
    fn one_cpu_saves_only_sleep() {
        assert_eq!(takes(&[(100, 300, 1.0)], 1000, 1), 200);
        // While it sleeps for half of its time, the boot has the CPU.
        assert_eq!(takes(&[(100, 300, 0.5)], 1000, 1), 100);
    }

    #[test]
    fn threads_share_the_cpus() {
        // Three threads on two CPUs: 300 of work each for two of them, and 300 of the boot's.
        assert_eq!(takes(&[(0, 300, 1.0), (300, 600, 1.0)], 900, 2), 150);
        assert_eq!(takes(&[(0, 300, 1.0), (300, 600, 1.0)], 900, 3), 0);
    }

    #[test]
    fn a_board() {
        // 53 and 454 of the boot's own work lie before the last; then 700 until all are waited for.
        let board = [(1000, 1274, 1.0), (1274, 1546, 1.0), (2000, 2640, 1.0)];
        assert_eq!([2, 3].map(|cpus| takes(&board, 3340, cpus)), [136, 0]);
    }

    #[test]
    fn more_stretches_than_the_bound_stay_whole() {
        let many: Vec<Aside> = (0..3000).map(|i| aside(i * 10, i * 10 + 5, 0.0)).collect();
        let left = still_takes(&many, Ns(40_000_000), 2);
        assert_eq!(left, Ns((3000 - 1024) * 5000));
    }

    proptest::proptest! {
        #[test]
        fn it_is_never_longer_than_before(
            lengths in proptest::collection::vec((0i64..50, 1i64..50, 0u8..5), 0..20), cpus in 0u32..5,
        ) {
            let mut at = 0;
            let mut asides = Vec::new();
            for (gap, length, busy) in lengths {
                asides.push(aside(at + gap, at + gap + length, f64::from(busy) / 4.0));
                at += gap + length;
            }
            let whole: Ns = asides.iter().map(|aside| aside.to - aside.from).sum();
            let left = still_takes(&asides, Ns((at + 10) * 1000), cpus);
            proptest::prop_assert!(Ns::ZERO <= left && left <= whole);
            let more = still_takes(&asides, Ns((at + 10) * 1000), cpus + 1);
            proptest::prop_assert!(more <= left.max(Ns(left.0 + 100)), "more CPUs take no longer");
        }
    }
}
