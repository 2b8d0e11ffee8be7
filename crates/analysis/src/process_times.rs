//! The time of each user-space process on a CPU until the end mark, and what it waited for. The times are sums over all
//! threads, so they can exceed the process's lifetime.

use hashbrown::HashMap;
use timeline::{EndEvidence, InterruptKind, NameId, Ns, Timeline, TrackId, Wait, WaitedOn};

/// The event that a thread of a process waited for, by the waker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WaitFor {
    /// The end of a process that it had forked. For process 1: the end of any process.
    Child,
    /// Another process: for data through a pipe or a socket, or for a lock.
    Process,
    /// Another thread of the same process.
    OwnThread,
    /// A thread of the kernel itself.
    KernelThread,
    /// A block device.
    Disk,
    /// Another device.
    Device,
    /// A timer, or an interrupt without a name.
    Timer,
    /// No thread woke it before the end mark, or the evidence does not show the waker.
    Unknown,
}

/// The waker: the thread or interrupt that ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Waker {
    /// A process, by its index in the timeline's table.
    Process(u32),
    /// A kernel thread, by its name.
    KernelThread(NameId),
    /// An interrupt, by its name.
    Interrupt(NameId),
}

/// The sum and the number of waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waited {
    /// The sum of the waits.
    pub time: Ns,
    /// The number of waits.
    pub count: u64,
}

/// The times of a process until the end mark.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessTimes {
    /// The number of threads over its lifetime.
    pub threads: u64,
    /// The unit that it belonged to.
    pub unit: Option<NameId>,
    /// Time spent running.
    pub cpu: Ns,
    /// Time in a run queue: able to run, without a CPU.
    pub runqueue: Ns,
    /// Time asleep, by what it waited for, the longest first.
    pub waits: Vec<(WaitFor, Waited)>,
    /// The waker that ended most of the time in the first of `waits`.
    pub woken_by: Option<(Waker, Waited)>,
}

#[derive(Default)]
struct Sums {
    times: ProcessTimes,
    waits: HashMap<WaitFor, Waited>,
    wakers: HashMap<(WaitFor, Waker), Waited>,
}

/// Returns the end of the time that is summed: the end mark, or [`Ns::MAX`] if the boot ends when process 1 begins.
pub fn processes_end(timeline: &Timeline) -> Ns {
    use EndEvidence::{Process1Arrived, Process1Sent, Process1Started, UserSpaceRan};
    let end = timeline
        .end
        .filter(|end| !matches!(end.evidence, Process1Arrived | Process1Sent | Process1Started | UserSpaceRan));
    end.map_or(Ns::MAX, |end| end.at)
}

/// Returns the times for each process in the timeline's table. `None` if no thread is known to belong to it. Linear in
/// the waits and running stretches.
pub fn process_times(timeline: &Timeline) -> Vec<Option<ProcessTimes>> {
    let end = processes_end(timeline);
    let mut all: Vec<Option<Sums>> = timeline.processes.iter().map(|_| None).collect();
    let process_of = |track: TrackId| timeline.tracks.get(track).process.map(|process| process as usize);
    for (_, track) in timeline.tracks.iter() {
        let Some(sums) = track.process.and_then(|process| all.get_mut(process as usize)) else { continue };
        let sums = sums.get_or_insert_default();
        sums.times.threads += 1;
        sums.times.unit = track.unit.or(sums.times.unit);
    }
    for r in &timeline.running {
        if let Some(sums) = process_of(r.track).and_then(|process| all[process].as_mut()) {
            sums.times.cpu += length(r.from, r.to, end);
        }
    }
    let parents = parents(timeline);
    for wait in &timeline.waits {
        let Some(process) = process_of(wait.track) else { continue };
        let (kind, waker) = wait_and_waker(timeline, &parents, process, wait);
        let Some(sums) = all[process].as_mut() else { continue };
        sums.times.runqueue += length(wait.woken, wait.until, end);
        let slept = length(wait.from, wait.woken, end);
        if slept == Ns::ZERO {
            continue;
        }
        let ended_in_boot = wait.woken <= end;
        let kind = if ended_in_boot { kind } else { WaitFor::Unknown };
        sums.waits.entry(kind).or_default().add(slept);
        if let Some(waker) = waker.filter(|_| ended_in_boot) {
            sums.wakers.entry((kind, waker)).or_default().add(slept);
        }
    }
    all.into_iter().map(|sums| sums.map(Sums::times)).collect()
}

impl Waited {
    fn add(&mut self, time: Ns) {
        self.time += time;
        self.count += 1;
    }
}

impl Sums {
    fn times(self) -> ProcessTimes {
        let mut waits: Vec<(WaitFor, Waited)> = self.waits.into_iter().collect();
        waits.sort_by_key(|&(kind, waited)| (std::cmp::Reverse(waited.time), kind));
        let most = waits.first().map(|(kind, _)| *kind);
        let wakers = self.wakers.into_iter().filter(|((kind, _), _)| Some(*kind) == most);
        let wakers = wakers.map(|((_, waker), waited)| (waker, waited));
        let woken_by = wakers.max_by_key(|&(waker, waited)| (waited.time, std::cmp::Reverse(waker)));
        ProcessTimes { waits, woken_by, ..self.times }
    }
}

/// Returns the part of a stretch before the end mark.
fn length(from: Ns, to: Ns, end: Ns) -> Ns {
    (to.min(end) - from.min(end)).max(Ns::ZERO)
}

/// Returns the index of each process's parent.
fn parents(timeline: &Timeline) -> Vec<Option<usize>> {
    let mut above: Vec<usize> = Vec::new();
    let each = timeline.processes.iter().enumerate().map(|(place, process)| {
        above.truncate(process.depth as usize);
        let parent = above.last().copied();
        above.push(place);
        parent
    });
    each.collect()
}

/// Returns what a thread of a process waited for, and its waker.
fn wait_and_waker(
    timeline: &Timeline,
    parents: &[Option<usize>],
    waiter: usize,
    wait: &Wait,
) -> (WaitFor, Option<Waker>) {
    let waker = match wait.by {
        WaitedOn::Thread(waker) => timeline.tracks.get(waker),
        WaitedOn::Interrupt(name) => {
            let kind = match timeline.interrupt_kind(name) {
                InterruptKind::Device => WaitFor::Device,
                InterruptKind::Timer => WaitFor::Timer,
                InterruptKind::Disk => WaitFor::Disk,
            };
            return (kind, Some(Waker::Interrupt(name)));
        }
        _ => return (WaitFor::Unknown, None),
    };
    let Some(place) = waker.process else {
        return (WaitFor::KernelThread, Some(Waker::KernelThread(waker.name)));
    };
    let by = place as usize;
    // A process that wakes another after its recorded end does so because it ends.
    let ends = timeline.processes[by].end.is_some_and(|end| end <= wait.woken);
    let is_child = parents[by] == Some(waiter) || timeline.processes[waiter].pid == 1;
    let kind = match () {
        () if by == waiter => WaitFor::OwnThread,
        () if ends && is_child => WaitFor::Child,
        () => WaitFor::Process,
    };
    (kind, Some(Waker::Process(place)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use timeline::{End, Process, Running, TimeBase, TrackKind};

    /// Returns a boot of process 1 with a child 2, which has two threads and a child 3.
    fn boot() -> Timeline {
        let mut t = Timeline::new(TimeBase::Evidence);
        for (pid, depth, start, end) in [(1, 0, 0, None), (2, 1, 10, Some(90)), (3, 2, 20, Some(60))] {
            let name = t.names.intern(&format!("p{pid}"));
            t.processes.push(Process { pid, parent: pid - 1, depth, name, start: Ns(start), end: end.map(Ns) });
        }
        for process in [Some(0), Some(1), Some(1), Some(2), None] {
            let track = t.tracks.add(NameId::EMPTY, TrackKind::Thread, 0);
            t.tracks.get_mut(track).process = process;
        }
        t
    }

    fn wait(t: &mut Timeline, track: u32, (from, woken, until): (i64, i64, i64), by: WaitedOn) {
        t.waits.push(Wait {
            track: TrackId(track),
            from: Ns(from),
            woken: Ns(woken),
            until: Ns(until),
            by,
            uninterruptible: false,
        });
    }

    #[test]
    fn time_is_split_by_what_ended_the_wait() {
        let mut t = boot();
        let (disk, timer) = (t.names.intern("irq a"), t.names.intern("b"));
        t.interrupt_kinds.insert(disk, InterruptKind::Disk);
        t.interrupt_kinds.insert(timer, InterruptKind::Timer);
        let by = |track| WaitedOn::Thread(TrackId(track));
        wait(&mut t, 0, (10, 90, 91), by(1));
        wait(&mut t, 1, (20, 30, 30), by(3));
        wait(&mut t, 1, (30, 60, 62), by(3));
        wait(&mut t, 1, (62, 65, 65), WaitedOn::Interrupt(disk));
        wait(&mut t, 1, (70, 71, 75), WaitedOn::Nothing);
        wait(&mut t, 2, (20, 25, 25), by(1));
        wait(&mut t, 2, (30, 34, 34), by(4));
        wait(&mut t, 2, (40, 42, 42), WaitedOn::Interrupt(timer));
        t.running.push(Running { track: TrackId(1), cpu: 0, from: Ns(75), to: Ns(90) });
        t.running.push(Running { track: TrackId(2), cpu: 0, from: Ns(12), to: Ns(20) });
        let times: Vec<ProcessTimes> = process_times(&t).into_iter().map(Option::unwrap).collect();
        let waits = |process: usize| times[process].waits.iter().map(|(kind, w)| (*kind, w.time.0)).collect::<Vec<_>>();
        assert_eq!(waits(0), [(WaitFor::Child, 80)]);
        use WaitFor::{Child, Disk, KernelThread, OwnThread, Process, Timer, Unknown};
        let two = [(Child, 30), (Process, 10), (OwnThread, 5), (KernelThread, 4), (Disk, 3), (Timer, 2), (Unknown, 1)];
        assert_eq!(waits(1), two);
        assert_eq!((times[1].cpu, times[1].runqueue, times[1].threads), (Ns(23), Ns(6), 2));
        // The waker of the waits for a child only. Process 2 ended 10 ns more, in another kind of wait.
        assert_eq!(times[1].woken_by, Some((Waker::Process(2), Waited { time: Ns(30), count: 1 })));
    }

    #[test]
    fn time_after_the_end_mark_does_not_count() {
        let mut t = boot();
        wait(&mut t, 0, (10, 90, 91), WaitedOn::Thread(TrackId(1)));
        t.running.push(Running { track: TrackId(1), cpu: 0, from: Ns(40), to: Ns(90) });
        let (at, error, evidence) = (Ns(50), Ns::ZERO, EndEvidence::PowerOff);
        t.end = Some(End { at, error, track: None, evidence });
        let times = process_times(&t);
        let (one, two) = (times[0].as_ref().unwrap(), times[1].as_ref().unwrap());
        assert_eq!((one.waits[0].0, one.waits[0].1.time, one.woken_by), (WaitFor::Unknown, Ns(40), None));
        assert_eq!(two.cpu, Ns(10));
    }
}
