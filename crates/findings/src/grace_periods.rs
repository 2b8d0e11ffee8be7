//! Waits of Linux that end with a tick of the timer. They last longer or shorter if the boot begins them at another moment.
//!
//! A saving moves everything that comes after it. Other waits move with it; a wait for RCU's readers does not.

use crate::Seen;
use analysis::{Cut, StretchKind, boot_path};
use timeline::{Ns, SpanKind, TrackId};

/// Functions that wait until all earlier readers are done, which the timer's tick checks.
const WAIT_FUNCTIONS: &[&str] = &[
    "rcu_barrier",
    "synchronize_rcu",
    "synchronize_rcu_expedited",
    "synchronize_rcu_tasks",
    "synchronize_rcu_tasks_rude",
    "synchronize_srcu",
];
/// Longest duration of such a wait: two ticks at 250 Hz. In Debian's 5.10 cloud kernel, the only such wait took between 1.5 and 7.8 ms,
/// depending on the savings before it. A kernel with 100 Hz may take 20 ms: its intervals are too narrow by that.
const MAX_WAIT: Ns = Ns(8_000_000);

/// Such waits on the boot path.
pub struct GracePeriods(Vec<Wait>);

struct Wait {
    track: TrackId,
    from: Ns,
    to: Ns,
    /// Time of the wait in which the boot waited for no other thread.
    idle: Ns,
}

impl GracePeriods {
    /// Finds all of a boot. `O(n)` if no call lies in another thread's, and no work if no function is known.
    pub fn of(seen: &Seen) -> GracePeriods {
        let calls = seen.outermost(SpanKind::Call, WAIT_FUNCTIONS);
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

    /// Returns how much these waits may add to the saving of the cuts, and how much they may take from it. Waits that the cuts themselves
    /// shorten are already priced.
    pub fn variation(&self, cuts: &[Cut]) -> (Ns, Ns) {
        let Some(first) = cuts.iter().map(|cut| cut.from).min() else { return (Ns::ZERO, Ns::ZERO) };
        let is_cut =
            |wait: &Wait| cuts.iter().any(|cut| cut.track == wait.track && cut.from < wait.to && wait.from < cut.to);
        let moved = self.0.iter().filter(|wait| wait.from >= first && !is_cut(wait));
        moved.fold((Ns::ZERO, Ns::ZERO), |(more, less), wait| {
            (more + wait.idle.min(MAX_WAIT), less + (MAX_WAIT - wait.idle).max(Ns::ZERO))
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::detectors::named;
    use crate::seen::testing::{Log, ms};
    use timeline::{Ns, WaitedOn};

    /// The price of a function that takes 20 ms, beside a wait that a timer ends.
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
