//! Waits of process 1 for a unit: from the fork of the unit's first process to the end of its start.
//!
//! A service manager sleeps and is woken many times while a unit starts, mostly for other units. It may be woken by a
//! process of a unit, and then log that the unit has started or fork the unit's next process. Then it did not wait for
//! those other units: the path goes on in the unit's process, back to its fork.
//!
//! The same applies if a child without a unit wakes it and it forks the next child. This is how sysvinit waits for each
//! of its scripts, checking for work every five seconds. If no log mentions a unit, the unit has started when its
//! process that wakes process 1 ends.
//!
//! A process may end while process 1 works for another unit, or waits in the middle of that work. Then its end wakes no
//! thread. Process 1 waited for that process if, in the same run, it logs the unit's end and then forks or reaches the
//! boot's end.

use hashbrown::HashMap;
use timeline::{NameId, Ns, Timeline, TrackId, Wait, WaitedOn};

/// Maximum difference between the log and the trace for one event.
const TOLERANCE: Ns = Ns(1_000_000);

/// The events of process 1 that concern units.
#[derive(Default)]
pub struct UnitStarts {
    /// The threads of process 1.
    managers: Vec<TrackId>,
    /// The times at which each unit had started or failed.
    settled: HashMap<NameId, Vec<Ns>>,
    /// The times at which process 1 forked for each unit, and for no unit.
    forks: HashMap<Option<NameId>, Vec<Ns>>,
    /// All forks, in order of time.
    all_forks: Vec<Ns>,
    /// Units whose start ended with a process, by the time at which process 1 logged it.
    ended_starts: Vec<EndedStart>,
    /// Sleeps of the threads of process 1 until an event, in order of time.
    sleeps: HashMap<TrackId, Vec<Wait>>,
}

/// A process whose end was the end of its unit's start.
struct EndedStart {
    settled: Ns,
    exited: Ns,
    track: TrackId,
}

/// A unit that process 1 waited for although it did not sleep.
pub struct UnitWait {
    /// The fork of the unit's first process.
    pub forked: Ns,
    /// The end of the unit's process.
    pub exited: Ns,
    /// That process.
    pub track: TrackId,
}

impl UnitStarts {
    /// Linear in the tracks and units.
    pub fn new(timeline: &Timeline) -> UnitStarts {
        let is_process_1 = |process: u32| timeline.processes[process as usize].pid == 1;
        let managers = timeline.tracks.iter().filter(|(_, track)| track.process.is_some_and(is_process_1));
        let mut starts = UnitStarts { managers: managers.map(|(id, _)| id).collect(), ..UnitStarts::default() };
        for unit in &timeline.units {
            starts.settled.entry(unit.name).or_default().extend(unit.settled);
        }
        for (_, track) in timeline.tracks.iter() {
            if let Some((at, _)) = track.created.filter(|(_, by)| starts.managers.contains(by)) {
                starts.forks.entry(track.unit).or_default().push(at);
                starts.all_forks.push(at);
            }
        }
        starts.all_forks.sort_unstable();
        starts.ended_starts = ended_starts(timeline, &starts.settled);
        for wait in timeline.waits.iter().filter(|wait| starts.managers.contains(&wait.track) && is_sleep(wait)) {
            starts.sleeps.entry(wait.track).or_default().push(*wait);
        }
        starts
    }

    /// Returns the unit that process 1 waited for at a fork or at the boot's end. The unit's process must have ended in
    /// the same run of process 1. `O(log n)` in the forks, units and waits, plus the units of that run.
    pub fn unit_wait(&self, timeline: &Timeline, manager: TrackId, at: Ns) -> Option<UnitWait> {
        let is_end = timeline.end.is_some_and(|end| end.at == at);
        if self.ended_starts.is_empty() || !(is_end || self.all_forks.binary_search(&at).is_ok()) {
            return None;
        }
        let sleeps = self.sleeps.get(&manager)?;
        let sleep = sleeps[..sleeps.partition_point(|sleep| sleep.until <= at)].last()?;
        let within = &self.ended_starts[..self.ended_starts.partition_point(|ended| ended.settled <= at + TOLERANCE)];
        let mut in_run = within.iter().rev().take_while(|ended| ended.settled > sleep.woken);
        let EndedStart { settled, exited, track } =
            *in_run.find(|ended| sleep.woken < ended.exited && ended.exited < at)?;
        if !is_end && self.may_be_for_waker(timeline, sleep, settled) {
            return None;
        }
        let forked = self.fork(timeline, track, timeline.tracks.get(track).unit)?;
        Some(UnitWait { forked, exited, track })
    }

    /// True if the unit of the thread that ended a sleep has also settled by then, and process 1 has forked nothing
    /// since. Then the evidence does not show for which of the two it forks the next process.
    fn may_be_for_waker(&self, timeline: &Timeline, sleep: &Wait, settled: Ns) -> bool {
        let WaitedOn::Thread(waker) = sleep.by else { return false };
        let settled_of_waker = timeline.tracks.get(waker).unit.and_then(|unit| self.settled.get(&unit));
        let in_run = |at: &&Ns| sleep.woken - TOLERANCE <= **at && **at < settled;
        let Some(waker_settled) = settled_of_waker.and_then(|all| all.iter().filter(in_run).max()) else {
            return false;
        };
        let next = self.all_forks.partition_point(|fork| fork <= waker_settled);
        self.all_forks.get(next).is_none_or(|fork| *fork > settled)
    }

    /// Returns since when process 1 has waited for the process that ended this wait, if it waited for a unit's process.
    /// The time is before the wait's start.
    pub fn since(&self, timeline: &Timeline, wait: &Wait) -> Option<Ns> {
        let WaitedOn::Thread(waker) = wait.by else { return None };
        if !self.managers.contains(&wait.track) {
            return None;
        }
        let unit = timeline.tracks.get(waker).unit;
        let fork = self.fork(timeline, waker, unit)?;
        let run = (wait.woken - TOLERANCE, awake_until(timeline, wait) + TOLERANCE);
        let within = |at: &Ns| run.0 <= *at && *at <= run.1;
        let any = |all: Option<&Vec<Ns>>| all.is_some_and(|all| all.iter().any(within));
        let settles = match unit.and_then(|unit| self.settled.get(&unit)) {
            // If no log mentions the unit, the end of its process is the only event to wait for.
            None if unit.is_some() => process_end(timeline, waker).is_some_and(|at| within(&at)),
            settled => any(settled),
        };
        (fork < wait.from && (settles || any(self.forks.get(&unit)))).then_some(fork)
    }

    /// Returns the fork of the first process of a unit: of this process or of its ancestor.
    fn fork(&self, timeline: &Timeline, mut track: TrackId, unit: Option<NameId>) -> Option<Ns> {
        /// More generations are a cycle in broken evidence.
        const MAX_GENERATIONS: usize = 64;
        for _ in 0..MAX_GENERATIONS {
            let (at, by) = timeline.tracks.get(track).created?;
            if self.managers.contains(&by) {
                return Some(at);
            }
            if unit.is_none() || timeline.tracks.get(by).unit != unit {
                return None;
            }
            track = by;
        }
        None
    }
}

/// Returns the end of a track's process.
fn process_end(timeline: &Timeline, track: TrackId) -> Option<Ns> {
    let process = timeline.tracks.get(track).process?;
    timeline.processes[process as usize].end
}

/// Returns, for each unit, the process that ended last before process 1 logged that the unit has started or failed.
fn ended_starts(timeline: &Timeline, settled: &HashMap<NameId, Vec<Ns>>) -> Vec<EndedStart> {
    let mut exits_by_unit: HashMap<NameId, Vec<(Ns, TrackId)>> = HashMap::new();
    for (track, data) in timeline.tracks.iter() {
        if let (Some(unit), Some(exited)) = (data.unit, process_end(timeline, track)) {
            exits_by_unit.entry(unit).or_default().push((exited, track));
        }
    }
    let mut starts = Vec::new();
    for (unit, exits) in &mut exits_by_unit {
        exits.sort_unstable();
        for &settled in settled.get(unit).into_iter().flatten() {
            let last = exits.partition_point(|exit| exit.0 <= settled + TOLERANCE).checked_sub(1);
            starts.extend(last.map(|last| EndedStart { settled, exited: exits[last].0, track: exits[last].1 }));
        }
    }
    starts.sort_unstable_by_key(|ended| (ended.settled, ended.exited, ended.track));
    starts
}

/// True if a track slept until an event. It did not just lose its CPU, and did not wait in the middle of its work, for
/// example for a lock in the kernel.
fn is_sleep(wait: &Wait) -> bool {
    wait.by != WaitedOn::Nothing && !wait.uninterruptible
}

/// Returns the time at which a track slept again after a wait.
fn awake_until(timeline: &Timeline, wait: &Wait) -> Ns {
    let after = timeline.waits.partition_point(|other| (other.track, other.from) < (wait.track, wait.until));
    let later = timeline.waits[after..].iter().take_while(|other| other.track == wait.track);
    later.filter(|other| is_sleep(other)).map(|other| other.from).next().unwrap_or(Ns::MAX - TOLERANCE)
}

#[cfg(test)]
mod tests {
    use crate::boot_path;
    use timeline::{
        End, EndEvidence, NameId, Ns, Process, Running, ServiceUnit, TimeBase, Timeline, TrackId, TrackKind, Wait,
        WaitedOn,
    };

    const MS: i64 = 1_000_000;

    /// Returns a boot in which process 1 forks for `a` at 10 ms and for `b` at 12 ms. It is woken by `b` at 40 ms and
    /// by `a` at 90 ms, and is at the end mark at 100 ms.
    fn boot(a_settles: i64) -> Timeline {
        let mut t = Timeline::new(TimeBase::Evidence);
        for (pid, forked) in [(1, None), (2, Some(10)), (3, Some(12))] {
            let name = t.names.intern(["init", "a.service", "b.service"][pid as usize - 1]);
            let start = Ns::from_ms(forked.unwrap_or(0));
            t.processes.push(Process { pid, parent: 1, depth: u32::from(pid > 1), name, start, end: None });
            let track = t.tracks.add(NameId::EMPTY, TrackKind::Thread, pid);
            let track = t.tracks.get_mut(track);
            track.process = Some(u32::try_from(pid - 1).unwrap());
            track.unit = (pid > 1).then_some(name);
            track.created = forked.map(|at| (Ns::from_ms(at), TrackId(0)));
        }
        let name = t.names.find("a.service").unwrap();
        let (start, settled) = (Some(Ns::from_ms(11)), Some(Ns::from_ms(a_settles)));
        t.units.push(ServiceUnit { name, start, settled, ..ServiceUnit::default() });
        let ran = |track, from, to| Running { track: TrackId(track), cpu: track, from: Ns(from * MS), to: Ns(to * MS) };
        t.running = vec![ran(0, 0, 15), ran(0, 40, 45), ran(0, 90, 100), ran(1, 10, 90), ran(2, 12, 40)];
        for (from, woken, by) in [(15, 40, 2), (45, 90, 1)] {
            let (from, woken, by) = (Ns(from * MS), Ns(woken * MS), WaitedOn::Thread(TrackId(by)));
            t.waits.push(Wait { track: TrackId(0), from, woken, until: woken, by, uninterruptible: false });
        }
        let (at, track) = (Ns::from_ms(100), Some(TrackId(0)));
        t.end = Some(End { at, error: Ns::ZERO, track, evidence: EndEvidence::PowerOff });
        t.finalize(Ns::ZERO);
        t
    }

    /// The same boot without units: `a` ends at 90 ms, and process 1 then forks another child at 95 ms.
    #[test]
    fn the_path_goes_on_in_the_child_after_which_process_1_forks_the_next() {
        let mut t = boot(30);
        t.units.clear();
        (0..3).for_each(|track| t.tracks.get_mut(TrackId(track)).unit = None);
        assert_eq!(owners(&t), [(0, 0), (2, 15), (0, 40), (1, 45), (0, 90)]);
        let next = t.tracks.add(NameId::EMPTY, TrackKind::Thread, 4);
        t.tracks.get_mut(next).created = Some((Ns::from_ms(95), TrackId(0)));
        assert_eq!(owners(&t), [(0, 0), (1, 10), (0, 90)]);
    }

    /// Returns the owners of the path, each with its start in ms.
    fn owners(t: &Timeline) -> Vec<(u32, i64)> {
        let mut owners: Vec<(u32, i64)> = Vec::new();
        for stretch in &boot_path(t).stretches {
            let owner = stretch.owner().track.0;
            if owners.last().is_none_or(|last| last.0 != owner) {
                owners.push((owner, stretch.from.0 / MS));
            }
        }
        owners
    }

    #[test]
    fn the_path_goes_on_in_the_process_of_the_unit_that_process_1_waited_for() {
        // The boot did not wait for the wake-up in between, which was for another unit.
        assert_eq!(owners(&boot(92)), [(0, 0), (1, 10), (0, 90)]);
    }

    /// From 92 to 96 ms, process 1 waits for a lock that `b` has, before it can log that `a` has started.
    #[test]
    fn a_wait_in_the_middle_of_its_work_is_not_the_end_of_it() {
        for (uninterruptible, since) in [(true, 10), (false, 45)] {
            let mut t = boot(98);
            let (from, woken, by) = (Ns::from_ms(92), Ns::from_ms(96), WaitedOn::Thread(TrackId(2)));
            t.waits.push(Wait { track: TrackId(0), from, woken, until: woken, by, uninterruptible });
            t.running.retain(|ran| ran.from < Ns::from_ms(90) || ran.track != TrackId(0));
            let ran = |from, to| Running { track: TrackId(0), cpu: 0, from: Ns::from_ms(from), to: Ns::from_ms(to) };
            t.running.extend([ran(90, 92), ran(96, 100)]);
            t.finalize(Ns::ZERO);
            assert!(owners(&t).contains(&(1, since)), "{uninterruptible}: {:?}", owners(&t));
        }
    }

    /// `b` ends at 92 ms, while process 1, woken by `a`, waits for a lock. Process 1 logs it at 97 ms, and is at the
    /// end mark at 100 ms.
    fn busy_when_b_ends() -> Timeline {
        let mut t = boot(91);
        let name = t.names.find("b.service").unwrap();
        let (start, settled) = (Some(Ns::from_ms(13)), Some(Ns::from_ms(97)));
        t.units.push(ServiceUnit { name, start, settled, ..ServiceUnit::default() });
        t.processes[2].end = Some(Ns::from_ms(92));
        let ran = |track, from, to| Running {
            track: TrackId(track),
            cpu: track,
            from: Ns::from_ms(from),
            to: Ns::from_ms(to),
        };
        t.running = vec![ran(0, 0, 15), ran(0, 90, 91), ran(0, 95, 100), ran(1, 10, 90), ran(2, 12, 92)];
        let wait = |from, woken, by, uninterruptible| {
            let (from, until) = (Ns::from_ms(from), Ns::from_ms(woken));
            Wait { track: TrackId(0), from, woken: until, until, by, uninterruptible }
        };
        let rcu = WaitedOn::Unknown;
        t.waits = vec![wait(15, 90, WaitedOn::Thread(TrackId(1)), false), wait(91, 95, rcu, true)];
        t
    }

    #[test]
    fn a_process_that_ends_while_process_1_is_busy_is_waited_for() {
        let mut t = busy_when_b_ends();
        t.finalize(Ns::ZERO);
        assert_eq!(owners(&t), [(0, 0), (2, 12), (0, 92)]);
        // A process that ended before process 1 was woken did not end in that run.
        t.processes[2].end = Some(Ns::from_ms(89));
        assert_eq!(owners(&t), [(0, 0), (1, 10), (0, 90)]);
    }

    #[test]
    fn the_next_fork_is_for_the_waker_unless_process_1_has_forked_for_it() {
        let mut t = busy_when_b_ends();
        let fork = |t: &mut Timeline, pid, at| {
            let child = t.tracks.add(NameId::EMPTY, TrackKind::Thread, pid);
            t.tracks.get_mut(child).created = Some((Ns::from_ms(at), TrackId(0)));
            child
        };
        let last = fork(&mut t, 4, 98);
        t.running.push(Running { track: last, cpu: 4, from: Ns::from_ms(98), to: Ns::from_ms(100) });
        t.end = t.end.map(|end| End { track: Some(last), ..end });
        t.finalize(Ns::ZERO);
        assert_eq!(owners(&t), [(0, 0), (1, 10), (0, 90), (3, 98)]);
        fork(&mut t, 5, 96);
        assert_eq!(owners(&t), [(0, 0), (2, 12), (0, 92), (3, 98)]);
    }

    #[test]
    fn without_a_log_the_end_of_a_units_process_counts() {
        let mut t = boot(92);
        t.units.clear();
        assert_eq!(owners(&t), [(0, 0), (2, 15), (0, 40), (1, 45), (0, 90)]);
        t.processes[1].end = Some(Ns::from_ms(90));
        assert_eq!(owners(&t), [(0, 0), (1, 10), (0, 90)]);
    }

    #[test]
    fn a_process_that_does_not_end_its_units_start_has_only_the_last_wait() {
        assert_eq!(owners(&boot(30)), [(0, 0), (2, 15), (0, 40), (1, 45), (0, 90)]);
    }

    #[test]
    fn a_process_that_ends_as_late_as_the_end_mark_is_not_waited_for() {
        for (exited, expected) in [(99, vec![(0, 0), (2, 12), (0, 99)]), (100, vec![(0, 0), (1, 10), (0, 90)])] {
            let mut t = busy_when_b_ends();
            t.processes[2].end = Some(Ns::from_ms(exited));
            let b = t.units.iter_mut().find(|unit| unit.settled == Some(Ns::from_ms(97))).unwrap();
            b.settled = Some(Ns::from_ms(exited));
            t.finalize(Ns::ZERO);
            assert_eq!(owners(&t), expected, "{exited}");
        }
    }
}
