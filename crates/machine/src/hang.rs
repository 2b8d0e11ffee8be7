//! Tells a hang from a quiet boot.
//!
//! A machine is hung if nothing of it has moved for some time: no byte on any port, no new record in the kernel log, no disk request, no
//! code that ran for the first time. In addition, its CPUs must be halted or stay within one page of code. A busy CPU that moves through
//! code is progress, however quiet it is. The CPUs are looked at only in the second half of that time, because a look disturbs the guest. A
//! delay that the lab's command line requests is not a hang either (`lab.rs`).
//!
//! "Some time" must pass for the machine, not only on the clock. On a loaded host, a kernel that unpacks itself in one loop gets one second
//! of CPU in many seconds. So a busy CPU counts as standing still only once it also *ran* for that long. The same holds for a halted CPU if
//! idle time is skipped (`-icount sleep=off`). There, a machine that waits for something is halted at each look and busy in between. If
//! such a machine does not run at all, it is hung, because nothing will ever wake it.
//!
//! A board shows only its output: it is hung if it prints nothing for that time.
//!
//! This module decides from its arguments alone, and does no I/O.

use crate::cpu_time::CpuTimes;
use crate::vmm::Stand;

/// Signs of progress while a machine boots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Movement {
    /// Bytes that came on all ports, and that the plugin wrote about code that ran for the first time.
    pub(crate) bytes: u64,
    /// The newest record of the kernel log in memory, or of a recorder inside the kernel, if known.
    pub(crate) newest_record: Option<u64>,
    /// Requests to all disks so far.
    pub(crate) disk_requests: u64,
}

/// A CPU that stands still may be elsewhere in one look of five: a halted one still serves its timer.
const LOOKS: usize = 5;
const LOOKS_ALIKE: usize = 4;

/// A VMM that ran for less than 1/50 of the time does not run.
const ASLEEP_DIVISOR: i64 = 50;

/// A moment on the host's clock, and the CPU time of the VMM until then.
#[derive(Clone, Debug, Default)]
pub(crate) struct Now {
    /// Since time zero.
    pub(crate) ns: i64,
    pub(crate) cpu: CpuTimes,
}

/// The hang detector of one boot.
#[derive(Debug)]
pub(crate) struct HangDetector {
    after_ns: i64,
    skips_idle: bool,
    /// True if only the machine's output can be observed.
    is_output_only: bool,
    /// The last moment at which something moved.
    moved: Now,
    seen: Movement,
    looks: Vec<Vec<Stand>>,
}

/// Evidence of a hang.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hang {
    quiet_ns: i64,
    ran_ns: i64,
    cpus: Vec<Stand>,
}

impl HangDetector {
    /// `skips_idle`: the machine's clocks leap to the next timer when all its CPUs are halted. `is_output_only`: its CPUs cannot be looked
    /// at.
    pub(crate) fn new(after_ms: u64, skips_idle: bool, is_output_only: bool) -> HangDetector {
        let after_ns = i64::try_from(after_ms).unwrap_or(i64::MAX).saturating_mul(1_000_000);
        let (moved, seen) = (Now::default(), Movement::default());
        HangDetector { after_ns, skips_idle, is_output_only, moved, seen, looks: Vec::new() }
    }

    /// True if it has been quiet long enough that all of [`Movement`] and the CPUs should be looked at.
    pub(crate) fn doubtful(&mut self, now: &Now, bytes: u64) -> bool {
        if bytes != self.seen.bytes {
            self.seen.bytes = bytes;
            self.moved(now);
        }
        now.ns - self.moved.ns >= self.after_ns / 2
    }

    /// Takes a look. Returns `None` if it is not a hang yet.
    pub(crate) fn look(&mut self, now: &Now, movement: Movement, cpus: Vec<Stand>) -> Option<Hang> {
        // The first look with records or disk requests has nothing to compare them with.
        let is_first = self.looks.is_empty();
        let moved = movement != self.seen;
        self.seen = movement;
        if moved && !is_first {
            self.moved(now);
            return None;
        }
        if self.is_output_only {
            let quiet_ns = now.ns - self.moved.ns;
            return (quiet_ns >= self.after_ns).then_some(Hang { quiet_ns, ran_ns: 0, cpus: Vec::new() });
        }
        self.looks.push(cpus);
        if self.looks.len() > LOOKS {
            self.looks.remove(0);
        }
        let last = self.looks.last()?;
        let stands: Option<Vec<Stand>> = (0..last.len()).map(|cpu| self.stands_still(cpu)).collect();
        if self.looks.len() < LOOKS || last.is_empty() {
            return None;
        }
        let Some(stands) = stands else {
            self.moved(now);
            return None;
        };
        let quiet_ns = now.ns - self.moved.ns;
        let ran_ns = now.cpu.busiest_since(&self.moved.cpu);
        let hung = quiet_ns >= self.after_ns && self.had_time_to_move(&stands, quiet_ns, ran_ns);
        hung.then_some(Hang { quiet_ns, ran_ns, cpus: stands })
    }

    /// True if the machine could have moved in this time, on a host that does other work too.
    fn had_time_to_move(&self, stands: &[Stand], quiet_ns: i64, ran_ns: i64) -> bool {
        let halted = stands.iter().all(|stand| stand.halted);
        let asleep = ran_ns < quiet_ns / ASLEEP_DIVISOR;
        ran_ns >= self.after_ns || halted && (!self.skips_idle || asleep)
    }

    fn moved(&mut self, now: &Now) {
        self.moved = now.clone();
        self.looks.clear();
    }

    /// The place of a CPU in nearly all looks, as the newest of these saw it. The last look may have found a halted CPU in its timer's
    /// interrupt.
    fn stands_still(&self, cpu: usize) -> Option<Stand> {
        let stands: Vec<Stand> = self.looks.iter().filter_map(|look| look.get(cpu)).copied().collect();
        let alike = |stand: &Stand| stands.iter().filter(|other| Place::of(**other) == Place::of(*stand)).count();
        stands.iter().copied().rev().find(|stand| alike(stand) >= LOOKS_ALIKE)
    }
}

/// Places that are distinguished: halted anywhere, or a page of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Halted,
    Page(u64),
}

impl Place {
    fn of(stand: Stand) -> Place {
        if stand.halted { Place::Halted } else { Place::Page(stand.address >> 12) }
    }
}

impl Hang {
    /// Describes the hang; `vmm` is the name of what ran the guest.
    pub(crate) fn text(&self, vmm: &str) -> String {
        let seconds = |ns: i64| ns / 1_000_000_000;
        let (quiet, ran) = (seconds(self.quiet_ns), seconds(self.ran_ns));
        if self.cpus.is_empty() {
            return format!("{vmm} said nothing for {quiet} s");
        }
        let cpus = self.cpus.iter().enumerate().take(8).map(|(number, cpu)| {
            let how = if cpu.halted { "halted" } else { "busy in one place" };
            format!("; CPU {number} {how} at {:#x}", cpu.address)
        });
        format!("nothing moved for {quiet} s, of which {vmm} ran {ran} s{}", cpus.collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn at(address: u64) -> Vec<Stand> {
        vec![Stand { halted: false, address }]
    }

    fn halted() -> Vec<Stand> {
        vec![Stand { halted: true, address: 0x1000 }]
    }

    /// A test boot, second by second.
    struct Boot {
        skips_idle: bool,
        /// Time that the VMM runs in each second, in ms.
        ran_ms: i64,
    }

    const ALONE: Boot = Boot { skips_idle: false, ran_ms: 1000 };

    impl Boot {
        /// Runs a detector with a limit of 10 s over a minute. Returns when it found a hang, in s.
        fn hung_at(&self, movement: impl Fn(i64) -> Movement, cpus: impl Fn(i64) -> Vec<Stand>) -> Option<i64> {
            let mut detector = HangDetector::new(10_000, self.skips_idle, false);
            (1..60).find(|&s| {
                let now = Now { ns: s * SECOND, cpu: CpuTimes::of_one_thread(s * self.ran_ms * 1_000_000) };
                detector.doubtful(&now, movement(s).bytes) && detector.look(&now, movement(s), cpus(s)).is_some()
            })
        }
    }

    fn hung_at(movement: impl Fn(i64) -> Movement, cpus: impl Fn(i64) -> Vec<Stand>) -> Option<i64> {
        ALONE.hung_at(movement, cpus)
    }

    fn silent_after(last: i64) -> impl Fn(i64) -> Movement {
        move |s| Movement { bytes: s.min(last) as u64, ..Movement::default() }
    }

    #[test]
    fn a_busy_cpu_on_a_loaded_host_gets_its_time() {
        let loaded = Boot { ran_ms: 400, ..ALONE };
        assert_eq!(loaded.hung_at(silent_after(0), |_| at(0x1000)), Some(25));
        // A halted CPU beside a busy one is judged like it.
        assert_eq!(loaded.hung_at(silent_after(0), |_| [halted(), at(0x1000)].concat()), Some(25));
        assert_eq!(Boot { ran_ms: 10, ..ALONE }.hung_at(silent_after(0), |_| at(0x1000)), None);
        // A hang needs both: time on the host's clock, and CPU time of the VMM.
        assert_eq!(Boot { ran_ms: 3000, ..ALONE }.hung_at(silent_after(0), |_| at(0x1000)), Some(10));
        assert_eq!(loaded.hung_at(silent_after(0), |_| halted()), Some(10));
    }

    #[test]
    fn a_halted_cpu_whose_idle_time_is_skipped_is_hung_when_it_ran_or_sleeps() {
        let hung_at = |ran_ms| Boot { skips_idle: true, ran_ms }.hung_at(silent_after(0), |_| halted());
        assert_eq!(hung_at(1000), Some(10));
        assert_eq!(hung_at(400), Some(25));
        assert_eq!(hung_at(1), Some(10));
    }

    #[test]
    fn a_machine_of_which_nothing_moves_is_hung() {
        assert_eq!(hung_at(silent_after(3), |_| halted()), Some(13));
        assert_eq!(hung_at(silent_after(0), |_| at(0xffff_ffff_8100_0123)), Some(10));
    }

    #[test]
    fn a_quiet_boot_is_not_a_hang() {
        assert_eq!(hung_at(silent_after(3), |s| at(0x1000 * s as u64)), None);
        let logging = |s: i64| Movement { newest_record: Some(s as u64 / 4), ..Movement::default() };
        assert_eq!(hung_at(logging, |_| halted()), None);
        let reading = |s: i64| Movement { disk_requests: s as u64 / 4, ..Movement::default() };
        assert_eq!(hung_at(reading, |_| halted()), None);
    }

    #[test]
    fn one_cpu_that_moves_is_enough() {
        let cpus = |s: i64| [halted(), at(0x1000 * s as u64)].concat();
        assert_eq!(hung_at(silent_after(0), cpus), None);
    }

    #[test]
    fn a_timer_tick_now_and_then_is_no_movement() {
        let cpus = |s: i64| if s % 5 == 0 { at(0xffff_ffff_8123_4567) } else { halted() };
        assert_eq!(hung_at(silent_after(0), cpus), Some(10));
    }

    #[test]
    fn a_hang_names_where_a_cpu_was_in_most_looks() {
        let mut detector = HangDetector::new(10_000, false, false);
        let tick = || at(0xffff_ffff_8123_4567);
        let hang = (1..=10).find_map(|s| {
            let now = Now { ns: s * SECOND, cpu: CpuTimes::of_one_thread(s * SECOND) };
            let cpus = if s == 10 { tick() } else { halted() };
            detector.doubtful(&now, 0).then(|| detector.look(&now, Movement::default(), cpus)).flatten()
        });
        assert_eq!(hang.unwrap().cpus, halted());
    }

    #[test]
    fn nothing_known_of_the_cpus_is_no_hang() {
        assert_eq!(hung_at(silent_after(0), |_| Vec::new()), None);
    }

    #[test]
    fn a_board_is_hung_when_it_is_silent() {
        let mut detector = HangDetector::new(10_000, false, true);
        let silent_at = (1..60).find_map(|s| {
            let now = Now { ns: s * SECOND, ..Now::default() };
            let movement = silent_after(3)(s);
            detector.doubtful(&now, movement.bytes).then(|| detector.look(&now, movement, Vec::new())).flatten()
        });
        assert_eq!(silent_at.map(|hang| hang.text("the board")).as_deref(), Some("the board said nothing for 10 s"));
    }

    #[test]
    fn a_hang_says_where_the_cpus_stand() {
        let hang = Hang { quiet_ns: 12 * SECOND, ran_ns: 10 * SECOND, cpus: [halted(), at(0x2000)].concat() };
        let text =
            "nothing moved for 12 s, of which QEMU ran 10 s; CPU 0 halted at 0x1000; CPU 1 busy in one place at 0x2000";
        assert_eq!(hang.text("QEMU"), text);
    }
}
