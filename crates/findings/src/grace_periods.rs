//! Waits of Linux that end with a tick of the timer, and so last longer or shorter when the boot comes to them at another moment.
//!
//! A saving moves what comes after it. All other waits move with it; one for RCU's readers does not.

use crate::Seen;
use analysis::{Cut, StretchKind, boot_path};
use timeline::{Ns, SpanKind, TrackId};

/// Functions that wait until all readers of before are done, which the timer's tick looks up.
const WAITS: &[&str] = &[
    "rcu_barrier",
    "synchronize_rcu",
    "synchronize_rcu_expedited",
    "synchronize_rcu_tasks",
    "synchronize_rcu_tasks_rude",
    "synchronize_srcu",
];
/// So long it may take, in two ticks at 250 Hz. Of Debian's 5.10 cloud kernel, whose one such wait took between 1.5 and 7.8 ms,
/// depending on what was saved before it. A kernel with 100 Hz may take 20 ms: its intervals are too narrow by that.
const LONGEST: Ns = Ns(8_000_000);

/// Those on the boot path.
pub struct GracePeriods(Vec<Wait>);

struct Wait {
    track: TrackId,
    from: Ns,
    to: Ns,
    /// How much of it the boot waited for nobody else.
    idle: Ns,
}

impl GracePeriods {
    /// All of a boot. `O(n)` where no call lies in another thread's, and nothing where no function is known.
    pub fn of(seen: &Seen) -> GracePeriods {
        let calls = seen.outermost(SpanKind::Call, WAITS);
        if calls.is_empty() {
            return GracePeriods(Vec::new());
        }
        let path = boot_path(seen.timeline);
        let is_idle = |kind: StretchKind| matches!(kind, StretchKind::Interrupt(_) | StretchKind::Wait);
        let idle = path.stretches.iter().filter(|stretch| is_idle(stretch.kind));
        let idle: Vec<(TrackId, Ns, Ns)> = idle.map(|s| (s.owner().track, s.from, s.to)).collect();
        let waits = calls.iter().map(|call| {
            // The path's stretches follow one another.
            let first = idle.partition_point(|&(_, _, to)| to <= call.start);
            let within = idle[first..].iter().take_while(|&&(_, from, _)| from < call.end);
            let of_it = within.filter(|&&(track, _, _)| track == call.track);
            let idle = of_it.map(|&(_, from, to)| to.min(call.end) - from.max(call.start)).sum();
            Wait { track: call.track, from: call.start, to: call.end, idle }
        });
        GracePeriods(waits.filter(|wait| wait.idle > Ns::ZERO).collect())
    }

    /// How much these waits may add to what cuts save, and how much they may take from it. Waits that the cuts make shorter
    /// themselves are priced already.
    pub fn around(&self, cuts: &[Cut]) -> (Ns, Ns) {
        let Some(first) = cuts.iter().map(|cut| cut.from).min() else { return (Ns::ZERO, Ns::ZERO) };
        let is_cut =
            |wait: &Wait| cuts.iter().any(|cut| cut.track == wait.track && cut.from < wait.to && wait.from < cut.to);
        let moved = self.0.iter().filter(|wait| wait.from >= first && !is_cut(wait));
        moved.fold((Ns::ZERO, Ns::ZERO), |(more, less), wait| {
            (more + wait.idle.min(LONGEST), less + (LONGEST - wait.idle).max(Ns::ZERO))
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::detectors::named;
    use crate::seen::testing::{Log, ms};
    use timeline::{Ns, WaitedOn};

    /// A function that takes 20 ms, and a wait that a timer ends.
    fn price(function: &str, waits: i64, first: bool) -> (Ns, Ns, Ns) {
        let mut log = Log::linux();
        let by = WaitedOn::Unknown;
        if first {
            log.sleep(function, ms(waits), by);
        }
        log.call("timer_irq_works", ms(20));
        if !first {
            log.sleep(function, ms(waits), by);
        }
        log.call("works", ms(400));
        let found = log.found_by(Vec::leak(vec![*named("timer-setup").unwrap()]));
        let price = found.findings[0].price;
        (price.low, price.likely, price.high)
    }

    #[test]
    fn a_wait_for_readers_may_take_longer_or_shorter() {
        assert_eq!(price("rcu_barrier", 6, false), (ms(17), ms(20), ms(26)));
        assert_eq!(price("synchronize_rcu", 50, false), (ms(19), ms(20), ms(28)), "more ticks, and one of them");
        assert_eq!(price("rcu_barrier", 6, true), (ms(19), ms(20), ms(20)), "before what is saved");
        assert_eq!(price("reads", 6, false), (ms(19), ms(20), ms(20)), "another wait moves with the boot");
    }
}
