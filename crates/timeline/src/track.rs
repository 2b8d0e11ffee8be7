//! Lines of execution, when each ran on which CPU, and why it did not run in between.

use crate::{NameId, Ns};

/// A track in [`Tracks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrackId(pub u32);

/// What a track stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrackKind {
    /// The virtual machine monitor, before and while the guest runs.
    Vmm,
    /// What runs before the kernel: firmware, option ROMs, loader, decompressor.
    Firmware,
    /// A thread of the kernel or a process.
    Thread,
    /// A CPU, where the evidence does not say which thread it ran.
    Cpu,
    /// A CPU's interrupts, where they are known apart from the threads that they interrupt.
    Interrupts,
    /// The console: lines, not work.
    Console,
}

/// A line of execution: a thread, or what stands for one.
#[derive(Clone, Debug, PartialEq)]
pub struct Track {
    /// Its name: a thread's last known one.
    pub name: NameId,
    /// What it stands for.
    pub kind: TrackKind,
    /// The number that the evidence knows it by (a thread id).
    pub id: u64,
    /// When it was created and by whom, if that is known.
    pub created: Option<(Ns, TrackId)>,
    /// Whether this is a CPU's idle loop: its running is nobody's work.
    pub idle: bool,
    /// Whether the evidence has forgotten its name: `name` only says so.
    pub is_unnamed: bool,
    /// The process that it is a thread of: its place in [`Timeline::processes`](crate::Timeline::processes).
    pub process: Option<u32>,
    /// The unit of a manager of services that it belongs to.
    pub unit: Option<NameId>,
}

/// All tracks of a timeline.
#[derive(Clone, Debug, Default)]
pub struct Tracks(Vec<Track>);

impl Tracks {
    /// Adds a track.
    pub fn add(&mut self, name: NameId, kind: TrackKind, id: u64) -> TrackId {
        let track = TrackId(u32::try_from(self.0.len()).expect("fewer than 2^32 tracks"));
        let (created, process, unit) = (None, None, None);
        self.0.push(Track { name, kind, id, created, idle: false, is_unnamed: false, process, unit });
        track
    }

    /// The track of that kind and name, new or known. `O(number of tracks)`.
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

    /// One track.
    pub fn get(&self, id: TrackId) -> &Track {
        &self.0[id.0 as usize]
    }

    /// One track, to change it.
    pub fn get_mut(&mut self, id: TrackId) -> &mut Track {
        &mut self.0[id.0 as usize]
    }

    /// All tracks with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (TrackId, &Track)> {
        self.0.iter().enumerate().map(|(i, t)| (TrackId(crate::number(i)), t))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A CPU ran a track from `from` to `to`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Running {
    /// Who ran.
    pub track: TrackId,
    /// Where.
    pub cpu: u32,
    /// From when.
    pub from: Ns,
    /// Until when.
    pub to: Ns,
}

/// Who or what ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitedOn {
    /// Another thread woke it.
    Thread(TrackId),
    /// An interrupt woke it: a timer or a device, not whoever was interrupted.
    Interrupt(NameId),
    /// Nobody held this topic any more: whoever had [held](Hold) it is to blame.
    Holders(NameId),
    /// It was preempted: nobody had to wake it.
    Nothing,
    /// The CPU that it ran on slept until an interrupt came; nobody else could run there.
    Halted,
    /// The evidence does not say.
    Unknown,
}

/// What an interrupt that ends waits is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum InterruptKind {
    /// A device, of which no more is known.
    #[default]
    Device,
    /// A timer, or an interrupt that nothing names: a CPU's own timer is one.
    Timer,
    /// A device that does block requests.
    Disk,
}

/// A stretch in which a track did not run: blocked from `from` to `woken`, then runnable until `until`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wait {
    /// Who waited.
    pub track: TrackId,
    /// When it stopped running.
    pub from: Ns,
    /// When it could have run again; `from` itself if it was preempted.
    pub woken: Ns,
    /// When it ran again ([`Ns::MAX`]: never seen to).
    pub until: Ns,
    /// Who or what woke it.
    pub by: WaitedOn,
    /// Whether nothing but what it waited for could wake it, such as a lock (Linux' state D): it was in the middle of something. A
    /// thread that waits for whatever comes next does not sleep so.
    pub uninterruptible: bool,
}

/// A track kept everybody who waits for a topic waiting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hold {
    /// What is held.
    pub topic: NameId,
    /// Who held it.
    pub track: TrackId,
    /// Since when ([`Ns::MIN`]: before the evidence begins).
    pub from: Ns,
    /// When it was released ([`Ns::MAX`]: never seen to be).
    pub to: Ns,
}

/// Who had which CPU, by what a kernel's own log says or implies. It stands beside [`Running`], which a scheduler's trace
/// gives: such a trace also says of each thread why it did not run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Occupancy {
    /// Who had a CPU when. Two on one CPU never overlap; while nobody had it, it was idle.
    pub turns: Vec<Running>,
    /// Stretches in which a thread did not run.
    pub off: Vec<OffCpu>,
    /// Whether the kernel logs its context switches; else the turns are inferred from a machine with one CPU.
    pub is_logged: bool,
    /// Whether the kernel logs how long sleeps are to last: then a sleep without that lasts until another thread ends it.
    pub has_timeouts: bool,
}

/// A stretch in which a thread had no CPU: it slept, was just created, or was preempted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OffCpu {
    /// Who.
    pub track: TrackId,
    /// When it left the CPU, or was created.
    pub from: Ns,
    /// Since when it could have run; none where nothing says when it was woken.
    pub ready: Option<Ns>,
    /// When it had a CPU again.
    pub until: Ns,
    /// Which thread made it ready, where one did and that is known.
    pub by: Option<TrackId>,
}

impl Occupancy {
    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Whether it is of one CPU only.
    pub fn is_of_one_cpu(&self) -> bool {
        self.turns.first().is_some_and(|first| self.turns.iter().all(|turn| turn.cpu == first.cpu))
    }

    /// With one CPU, of each turn: when the CPU was idle last before it, or [`Ns::MIN`]. Who goes on then was ready no
    /// earlier.
    pub fn idle_until(&self) -> Vec<Ns> {
        let (mut last, mut idle) = (Ns::MIN, Ns::MIN);
        let each = self.turns.iter().map(|turn| {
            idle = if turn.from > last { turn.from } else { idle };
            last = turn.to;
            idle
        });
        each.collect()
    }

    /// Sorts turns by CPU and time, the others by track and time.
    pub fn sort(&mut self) {
        self.turns.sort_by_key(|turn| (turn.cpu, turn.from));
        self.off.sort_by_key(|off| (off.track, off.from));
    }
}
