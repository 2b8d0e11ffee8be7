//! Lines of execution: the CPU of each over time, and the reasons why it did not run in between.

use crate::{NameId, Ns};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrackId(pub u32);

/// The kind of a line of execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrackKind {
    /// The virtual machine monitor, before and while the guest runs.
    Vmm,
    /// Code that runs before the kernel: firmware, option ROMs, loader, decompressor.
    Firmware,
    /// A thread of the kernel or a process.
    Thread,
    /// A CPU, where the evidence does not show which thread it ran.
    Cpu,
    /// A CPU's interrupts, where they are separate from the threads that they interrupt.
    Interrupts,
    /// The console: lines instead of work.
    Console,
}

/// A line of execution: a thread, or an item that stands for one.
#[derive(Clone, Debug, PartialEq)]
pub struct Track {
    /// The name; a thread's last known one.
    pub name: NameId,
    pub kind: TrackKind,
    /// The number that the evidence uses for it (a thread id).
    pub id: u64,
    /// Its creation time and the track that created it, if they are known.
    pub created: Option<(Ns, TrackId)>,
    /// True for a CPU's idle loop, whose running is not work.
    pub idle: bool,
    /// True if the kernel no longer had its name; `name` then only states that.
    pub is_unnamed: bool,
    /// The process of the thread, as an index into [`Timeline::processes`](crate::Timeline::processes).
    pub process: Option<u32>,
    /// The unit of a service manager that it belongs to.
    pub unit: Option<NameId>,
}

/// All tracks of a timeline.
#[derive(Clone, Debug, Default)]
pub struct Tracks(Vec<Track>);

impl Tracks {
    pub fn add(&mut self, name: NameId, kind: TrackKind, id: u64) -> TrackId {
        let track = TrackId(u32::try_from(self.0.len()).expect("fewer than 2^32 tracks"));
        let (created, process, unit) = (None, None, None);
        self.0.push(Track { name, kind, id, created, idle: false, is_unnamed: false, process, unit });
        track
    }

    /// The track of that kind and name, which is added if it is new. `O(number of tracks)`.
    pub fn named(&mut self, name: NameId, kind: TrackKind) -> TrackId {
        match self.0.iter().position(|t| t.kind == kind && t.name == name) {
            Some(known) => TrackId(crate::number(known)),
            None => self.add(name, kind, 0),
        }
    }

    /// The track of that kind and number, if there is one. `O(number of tracks)`.
    pub fn find(&self, kind: TrackKind, id: u64) -> Option<TrackId> {
        self.0.iter().position(|t| t.kind == kind && t.id == id).map(|i| TrackId(crate::number(i)))
    }

    pub fn get(&self, id: TrackId) -> &Track {
        &self.0[id.0 as usize]
    }

    /// One track, mutable.
    pub fn get_mut(&mut self, id: TrackId) -> &mut Track {
        &mut self.0[id.0 as usize]
    }

    /// All tracks with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (TrackId, &Track)> {
        self.0.iter().enumerate().map(|(i, t)| (TrackId(crate::number(i)), t))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A CPU ran a track from `from` to `to`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Running {
    pub track: TrackId,
    pub cpu: u32,
    pub from: Ns,
    pub to: Ns,
}

/// The event that ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitedOn {
    /// Another thread woke it.
    Thread(TrackId),
    /// An interrupt woke it: a timer or a device, not the interrupted thread.
    Interrupt(NameId),
    /// All holds of this topic ended. The tracks that [held](Hold) it are charged.
    Holders(NameId),
    /// It was preempted, and needed no wake-up.
    Nothing,
    /// Its CPU slept until an interrupt came; no other thread could run there.
    Halted,
    /// The evidence does not show it.
    Unknown,
}

/// The source of an interrupt that ends waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum InterruptKind {
    /// A device of unknown kind.
    #[default]
    Device,
    /// A timer, or an interrupt without a name, such as a CPU's own timer.
    Timer,
    /// A device that serves block requests.
    Disk,
}

/// A stretch in which a track did not run. It was blocked from `from` to `woken`, then runnable until `until`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wait {
    pub track: TrackId,
    /// The time at which it stopped running.
    pub from: Ns,
    /// The time at which it could run again; `from` itself if it was preempted.
    pub woken: Ns,
    /// The time at which it ran again ([`Ns::MAX`]: not in the evidence).
    pub until: Ns,
    /// The event that woke it.
    pub by: WaitedOn,
    /// True if only the event that it waited for could wake it, such as the release of a lock (Linux' state D). It was
    /// in the middle of an operation. A thread that waits for its next request does not sleep in this state.
    pub uninterruptible: bool,
}

/// A stretch in which a track kept all others waiting that wait for a topic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hold {
    /// The item that is held.
    pub topic: NameId,
    pub track: TrackId,
    /// The start of the hold ([`Ns::MIN`]: before the evidence begins).
    pub from: Ns,
    /// The release ([`Ns::MAX`]: not in the evidence).
    pub to: Ns,
}

/// The thread on each CPU, as a kernel's own log shows or implies it. [`Running`] comes from a scheduler's trace
/// instead, which also shows why each thread did not run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Occupancy {
    /// The stretches in which a thread had a CPU. Two stretches on one CPU never overlap. A CPU is idle between them.
    pub turns: Vec<Running>,
    /// Stretches in which a thread did not run.
    pub off: Vec<OffCpu>,
    /// True if the kernel logs its context switches. Else the turns are inferred, for a machine with one CPU.
    pub is_logged: bool,
    /// True if the kernel logs the timeouts of sleeps. A sleep without a timeout then lasts until another thread ends
    /// it.
    pub has_timeouts: bool,
}

/// A stretch in which a thread had no CPU: it slept, was new, or was preempted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OffCpu {
    pub track: TrackId,
    /// The time at which it left the CPU, or its creation.
    pub from: Ns,
    /// The time at which it became runnable; `None` if its wake-up is unknown.
    pub ready: Option<Ns>,
    /// The time at which it next had a CPU.
    pub until: Ns,
    /// The thread that made it runnable, if that is known.
    pub by: Option<TrackId>,
}

impl Occupancy {
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// True if all turns are on one CPU.
    pub fn is_of_one_cpu(&self) -> bool {
        self.turns.first().is_some_and(|first| self.turns.iter().all(|turn| turn.cpu == first.cpu))
    }

    /// For each turn, with one CPU: the end of the last idle stretch before it, or [`Ns::MIN`]. A thread that goes on
    /// at that time was not runnable earlier.
    pub fn idle_until(&self) -> Vec<Ns> {
        let (mut last, mut idle) = (Ns::MIN, Ns::MIN);
        let each = self.turns.iter().map(|turn| {
            idle = if turn.from > last { turn.from } else { idle };
            last = turn.to;
            idle
        });
        each.collect()
    }

    /// Sorts turns by CPU and time, and off-CPU stretches by track and time.
    pub fn sort(&mut self) {
        self.turns.sort_by_key(|turn| (turn.cpu, turn.from));
        self.off.sort_by_key(|off| (off.track, off.from));
    }
}
