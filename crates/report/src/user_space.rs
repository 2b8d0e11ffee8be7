//! User processes and units in the `show --json` document: each process with its times, each unit with its processes.

use std::collections::HashMap;

use crate::{Boot, MAX_LISTED};
use analysis::{BootPath, ProcessTimes, WaitFor, Waited, Waker, processes_end};
use serde::{Deserialize, Serialize};
use timeline::{Manager, NameId, Ns, Process, ServiceUnit, Timeline};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ProcessLine {
    /// The process number.
    pub pid: u64,
    /// The number of its parent.
    pub ppid: u64,
    /// The number of its ancestors that are listed.
    pub depth: u32,
    /// The program that it ran.
    pub name: String,
    /// The time of its fork.
    pub start_ns: i64,
    /// The time of its exit; `null` if it was alive when the evidence was taken.
    pub end_ns: Option<i64>,
    /// The number of its threads over its whole life; `null` if unknown.
    #[serde(default)]
    pub threads: Option<u64>,
    /// The unit that it belonged to.
    #[serde(default)]
    pub unit: Option<String>,
    /// The time of its threads on CPUs; `null` if unknown.
    #[serde(default)]
    pub cpu_ns: Option<i64>,
    /// The time in which its threads were runnable without a CPU; `null` if unknown.
    #[serde(default)]
    pub runqueue_ns: Option<i64>,
    /// The waits of its threads by kind, the longest first.
    #[serde(default)]
    pub waits: Vec<WaitedForLine>,
    /// The process, thread or interrupt that ended most of the time of the first kind of waits.
    #[serde(default)]
    pub woken_by: Option<WokenByLine>,
}

/// Waits of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct WaitedForLine {
    /// The kind of what they waited for.
    #[serde(rename = "for")]
    pub kind: AwaitedKind,
    /// Their length, summed over all threads.
    pub ns: i64,
    /// Their number.
    pub count: u64,
}

/// The kind of what a process waited for, judged by what ended the wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AwaitedKind {
    /// The end of a child process; for process 1, the end of any process.
    Child,
    /// Another process: a pipe, a socket or a lock.
    Process,
    /// Another thread of the same process.
    OwnThread,
    KernelThread,
    /// A block device.
    Disk,
    /// Another device.
    Device,
    /// A timer, or an interrupt without a name.
    Timer,
    /// Nothing woke it before the end mark, or the waker is unknown.
    #[default]
    Unknown,
}

impl From<WaitFor> for AwaitedKind {
    fn from(kind: WaitFor) -> AwaitedKind {
        match kind {
            WaitFor::Child => AwaitedKind::Child,
            WaitFor::Process => AwaitedKind::Process,
            WaitFor::OwnThread => AwaitedKind::OwnThread,
            WaitFor::KernelThread => AwaitedKind::KernelThread,
            WaitFor::Disk => AwaitedKind::Disk,
            WaitFor::Device => AwaitedKind::Device,
            WaitFor::Timer => AwaitedKind::Timer,
            WaitFor::Unknown => AwaitedKind::Unknown,
        }
    }
}

/// The process, thread or interrupt that ended waits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct WokenByLine {
    /// The program of the process, or the name of the kernel's thread, or of the interrupt.
    pub name: String,
    /// The number of the process; `null` for a thread of the kernel or an interrupt.
    pub pid: Option<u64>,
    /// The length of the waits.
    pub ns: i64,
    /// The number of waits.
    pub count: u64,
}

/// A service, a mount, a socket, a target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct UnitLine {
    pub name: String,
    /// The beginning of its start; `null` if the unit is active at once.
    pub start_ns: Option<i64>,
    /// The time at which it was active, or had failed; `null` if it was still starting when the evidence was taken.
    pub settled_ns: Option<i64>,
    /// True if it failed.
    pub failed: bool,
    /// The manager that started it.
    #[serde(default)]
    pub manager: ManagerName,
    /// The numbers of its processes, the first process first.
    #[serde(default)]
    pub pids: Vec<u64>,
    /// Their time on CPUs up to the end mark; `null` if the unit has no known process.
    #[serde(default)]
    pub cpu_ns: Option<i64>,
    /// Their part of the boot path: the boot waited for them, or for the CPU that one of them had. `null` as above.
    #[serde(default)]
    pub boot_path_ns: Option<i64>,
}

/// A service manager.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ManagerName {
    #[default]
    Systemd,
    /// sysvinit, or another program that runs scripts of `/etc/init.d`.
    SysvInit,
    /// OpenRC.
    Openrc,
    Runit,
    S6,
    Daemontools,
    /// Android's init.
    Android,
}

impl From<Manager> for ManagerName {
    fn from(manager: Manager) -> ManagerName {
        match manager {
            Manager::Systemd => ManagerName::Systemd,
            Manager::SysvInit => ManagerName::SysvInit,
            Manager::OpenRc => ManagerName::Openrc,
            Manager::Runit => ManagerName::Runit,
            Manager::S6 => ManagerName::S6,
            Manager::Daemontools => ManagerName::Daemontools,
            Manager::Android => ManagerName::Android,
        }
    }
}

impl UnitLine {
    /// The length of its start.
    pub(crate) fn took_ns(&self) -> Option<i64> {
        Some(self.settled_ns? - self.start_ns?)
    }
}

/// The latest time at which a process can begin and belong to the boot.
fn last_start(timeline: &Timeline) -> Ns {
    Ns(processes_end(timeline).0.saturating_add(timeline.end.map_or(0, |end| end.error.0)))
}

pub(crate) fn process_lines(boot: &Boot) -> Vec<ProcessLine> {
    let (timeline, end) = (boot.timeline, last_start(boot.timeline));
    let traced = timeline.processes.iter().zip(boot.process_times());
    // If the evidence shows when each thread ran, processes that began after the end mark are not part of the boot.
    let listed = traced.filter(|(process, times)| times.is_none() || process.start <= end);
    listed.take(MAX_LISTED).map(|(process, times)| process_line(timeline, process, times.as_ref(), end)).collect()
}

pub(crate) fn unit_lines(boot: &Boot) -> Vec<UnitLine> {
    let (timeline, end) = (boot.timeline, last_start(boot.timeline));
    let traced = timeline.processes.iter().zip(boot.process_times());
    let mut units: Vec<(NameId, UnitLine)> =
        units_at_the_end(timeline, end).map(|unit| (unit.name, unit_line(timeline, &unit))).collect();
    let starts = Starts::of(&units);
    add_processes(&mut units, &starts, traced.filter(|(process, _)| process.start <= end));
    add_path(&mut units, &starts, timeline, boot.path());
    units.into_iter().map(|(_, line)| line).collect()
}

fn process_line(timeline: &Timeline, p: &Process, times: Option<&ProcessTimes>, end: Ns) -> ProcessLine {
    let name = |id: NameId| timeline.names.get(id).to_owned();
    let waited = |&(kind, waited): &(WaitFor, Waited)| WaitedForLine {
        kind: kind.into(),
        ns: waited.time.0,
        count: waited.count,
    };
    ProcessLine {
        pid: p.pid,
        ppid: p.parent,
        depth: p.depth,
        name: name(p.name),
        start_ns: p.start.0,
        end_ns: p.end.filter(|&at| times.is_none() || at <= end).map(|end| end.0),
        threads: times.map(|times| times.threads),
        unit: times.and_then(|times| times.unit).map(name),
        cpu_ns: times.map(|times| times.cpu.0),
        runqueue_ns: times.map(|times| times.runqueue.0),
        waits: times.map_or_else(Vec::new, |times| times.waits.iter().map(waited).collect()),
        woken_by: times.and_then(|times| times.woken_by).map(|(waker, waited)| woken_by(timeline, waker, waited)),
    }
}

fn woken_by(timeline: &Timeline, waker: Waker, waited: Waited) -> WokenByLine {
    let (name, pid) = match waker {
        Waker::Process(place) => {
            let process = &timeline.processes[place as usize];
            (process.name, Some(process.pid))
        }
        Waker::KernelThread(name) | Waker::Interrupt(name) => (name, None),
    };
    WokenByLine { name: timeline.names.get(name).to_owned(), pid, ns: waited.time.0, count: waited.count }
}

/// The units as of the end of the boot. Later changes are not part of it.
fn units_at_the_end(timeline: &Timeline, end: Ns) -> impl Iterator<Item = ServiceUnit> + '_ {
    let started = timeline.units.iter().filter(move |unit| unit.start.or(unit.settled).is_some_and(|at| at <= end));
    started.map(move |unit| match unit.settled {
        Some(at) if at > end => ServiceUnit { settled: None, failed: false, ..unit.clone() },
        _ => unit.clone(),
    })
}

fn unit_line(timeline: &Timeline, unit: &ServiceUnit) -> UnitLine {
    UnitLine {
        name: timeline.names.get(unit.name).to_owned(),
        start_ns: unit.start.map(|at| at.0),
        settled_ns: unit.settled.map(|at| at.0),
        failed: unit.failed,
        manager: timeline.unit_managers.get(&unit.name).copied().unwrap_or_default().into(),
        pids: Vec::new(),
        cpu_ns: None,
        boot_path_ns: None,
    }
}

/// The starts of each unit, by name: time and place. A unit that was started again has two entries, in order.
struct Starts(HashMap<NameId, Vec<(i64, usize)>>);

impl Starts {
    fn of(units: &[(NameId, UnitLine)]) -> Starts {
        let mut starts: HashMap<NameId, Vec<(i64, usize)>> = HashMap::new();
        for (place, (name, unit)) in units.iter().enumerate() {
            let began = unit.start_ns.or(unit.settled_ns).unwrap_or(i64::MIN);
            starts.entry(*name).or_default().push((began, place));
        }
        Starts(starts)
    }

    /// The place of the unit that a process belongs to, if it was forked at `forked`.
    fn place(&self, unit: Option<NameId>, forked: Ns) -> Option<usize> {
        /// The longest time from the fork to the manager's message that the unit starts.
        const MAX_MESSAGE_DELAY_NS: i64 = 500_000_000;
        let starts = self.0.get(&unit?)?;
        let last = starts.iter().rev().find(|(began, _)| *began <= forked.0 + MAX_MESSAGE_DELAY_NS);
        Some(last.unwrap_or(&starts[0]).1)
    }
}

/// Joins processes to units, by name. A unit that was started again has the processes forked since.
fn add_processes<'a>(
    units: &mut [(NameId, UnitLine)],
    starts: &Starts,
    processes: impl Iterator<Item = (&'a Process, &'a Option<ProcessTimes>)>,
) {
    for (process, times) in processes {
        let Some(times) = times else { continue };
        let Some(place) = starts.place(times.unit, process.start) else { continue };
        let line = &mut units[place].1;
        line.pids.push(process.pid);
        line.cpu_ns = Some(line.cpu_ns.unwrap_or(0) + times.cpu.0);
        line.boot_path_ns = Some(0);
    }
    units.iter_mut().for_each(|(_, line)| line.pids.dedup());
}

/// Charges the boot path to the units of the processes that it is charged to.
fn add_path(units: &mut [(NameId, UnitLine)], starts: &Starts, timeline: &Timeline, path: &BootPath) {
    for stretch in &path.stretches {
        let track = timeline.tracks.get(stretch.owner().track);
        let Some(process) = track.process else { continue };
        let Some(place) = starts.place(track.unit, timeline.processes[process as usize].start) else { continue };
        let charged = &mut units[place].1.boot_path_ns;
        *charged = Some(charged.unwrap_or(0) + stretch.length().0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use timeline::{End, EndEvidence, Running, TimeBase, TrackId, TrackKind};

    #[test]
    fn a_unit_that_starts_again_has_the_processes_of_its_second_start() {
        let mut t = Timeline::new(TimeBase::Evidence);
        let name = t.names.intern("a.service");
        for (pid, start) in [(7, 900), (8, 4_100), (9, 4_900)] {
            let (start, end) = (Ns::from_ms(start), None);
            t.processes.push(Process { pid, parent: 1, depth: 0, name, start, end });
            let track = t.tracks.add(name, TrackKind::Thread, pid);
            let track = t.tracks.get_mut(track);
            (track.process, track.unit) = (Some(timeline::number(t.processes.len() - 1)), Some(name));
        }
        for (start, settled) in [(1_000, 2_000), (4_200, 6_000)] {
            let (start, settled) = (Some(Ns::from_ms(start)), Some(Ns::from_ms(settled)));
            t.units.push(ServiceUnit { name, start, settled, ..ServiceUnit::default() });
        }
        let ran =
            |track, from, to| Running { track: TrackId(track), cpu: 0, from: Ns::from_ms(from), to: Ns::from_ms(to) };
        t.running = vec![ran(0, 900, 1_000), ran(2, 4_900, 5_000)];
        let (at, track) = (Ns::from_ms(5_000), Some(TrackId(2)));
        t.end = Some(End { at, error: Ns::ZERO, track, evidence: EndEvidence::PowerOff });
        let facts = crate::Facts::default();
        let boot = Boot::new(&t, &facts);
        let (processes, units) = (process_lines(&boot), unit_lines(&boot));
        assert_eq!((&*units[0].pids, &*units[1].pids), (&[7][..], &[8, 9][..]));
        assert_eq!((units[0].cpu_ns, processes[0].unit.as_deref()), (Some(100_000_000), Some("a.service")));
        // The path is charged only to the last process, which has no creator.
        assert_eq!((units[0].boot_path_ns, units[1].boot_path_ns), (Some(0), Some(5_000_000_000)));
    }
}
