//! Follows threads and CPUs through a trace: which thread ran where, and what each waited for.
//!
//! A thread stops running at a switch, can run again at a waking, and runs again at the next switch to it. The stretch
//! between is a wait. A CPU's events may be lost, or a thread may appear without a switch to it. Then no running time
//! is invented: the running stretch ends at the last event seen on that CPU, and the gap is a wait for something
//! unknown.

use super::event::Task;
use crate::input::text::lossy;
use hashbrown::HashMap;
use timeline::{DiagnosticKind, NameId, Ns, Running, Timeline, TrackId, TrackKind, Wait, WaitedOn};

/// A thread in [`Sched`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ThreadNo(usize);

#[derive(Debug)]
pub(super) struct Thread<'a> {
    pub track: TrackId,
    comm: &'a [u8],
    /// True if the name comes from the trace's own column, which has a thread's last name. Arguments have the name at
    /// that time.
    named_by_column: bool,
    /// The program that it became. The trace's column may lack that name: it learns names at switches.
    program: Option<&'a [u8]>,
    pid: u32,
    /// The CPU that it runs on, and since when.
    running: Option<(u32, Ns)>,
    /// The time since which it does not run; and the time and cause of its becoming runnable.
    out: Option<(Ns, Option<(Ns, WaitedOn)>)>,
    /// True if it sleeps uninterruptibly.
    uninterruptible: bool,
    ran: bool,
    /// True if it has stopped running at least once.
    left: bool,
    gone: bool,
    /// For process id 0: true if it was seen in the kernel's own initialisation.
    boots: bool,
}

#[derive(Debug, Default)]
struct Cpu {
    current: Option<ThreadNo>,
    /// The time of the last event seen on it.
    last: Ns,
}

/// All threads and CPUs of a trace.
#[derive(Debug)]
pub(super) struct Sched<'a> {
    threads: Vec<Thread<'a>>,
    /// Threads by process id. The idle threads share id 0 and are kept by CPU.
    known: HashMap<(u32, u32), ThreadNo>,
    cpus: HashMap<u32, Cpu>,
    /// True if the trace has switches. Without them, running and waiting are unknown.
    switches: bool,
}

/// The way in which a thread's time on a CPU ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    Blocked,
    Uninterruptible,
    Preempted,
    Gone,
}

impl Leaving {
    fn from_state(state: &[u8]) -> Leaving {
        match state.first() {
            Some(b'R') => Leaving::Preempted,
            _ if state.iter().any(|b| b"XZ".contains(b)) => Leaving::Gone,
            Some(b'D') => Leaving::Uninterruptible,
            _ => Leaving::Blocked,
        }
    }
}

impl<'a> Sched<'a> {
    pub(super) fn new(switches: bool) -> Self {
        Sched { threads: Vec::new(), known: HashMap::new(), cpus: HashMap::new(), switches }
    }

    pub(super) fn track(&self, thread: ThreadNo) -> TrackId {
        self.threads[thread.0].track
    }

    /// Returns the thread that an event's line shows as running, and makes it the running one if it was not.
    pub(super) fn current(
        &mut self,
        task: Task<'a>,
        cpu: u32,
        now: Ns,
        timeline: &mut Timeline,
        place: impl Fn() -> String,
    ) -> ThreadNo {
        let no = self.thread(task, cpu, timeline);
        let thread = &mut self.threads[no.0];
        if !is_placeholder(task.comm) {
            thread.named_by_column = true;
            thread.comm = task.comm;
        }
        let on = self.cpus.entry(cpu).or_default();
        let (before, last) = (on.current, on.last);
        on.last = now;
        if self.switches && before != Some(no) {
            if let Some(other) = before {
                timeline.diagnostics.note(DiagnosticKind::ThreadSwitchMissing, place);
                self.leave_unseen(other, cpu, last, timeline);
            }
            self.enter(no, cpu, now, timeline);
        }
        no
    }

    /// Returns the thread of that id, new or known.
    pub(super) fn thread(&mut self, task: Task<'a>, cpu: u32, timeline: &mut Timeline) -> ThreadNo {
        let key = (task.pid, if task.pid == 0 { cpu } else { 0 });
        match self.known.get(&key) {
            Some(&no) => {
                let thread = &mut self.threads[no.0];
                if !thread.named_by_column && !is_placeholder(task.comm) {
                    thread.comm = task.comm;
                }
                no
            }
            None => self.add(key, task, timeline),
        }
    }

    fn add(&mut self, key: (u32, u32), task: Task<'a>, timeline: &mut Timeline) -> ThreadNo {
        let track = timeline.tracks.add(NameId::EMPTY, TrackKind::Thread, u64::from(task.pid));
        let no = ThreadNo(self.threads.len());
        self.threads.push(Thread {
            track,
            comm: task.comm,
            named_by_column: false,
            program: None,
            pid: task.pid,
            running: None,
            out: None,
            uninterruptible: false,
            ran: false,
            left: false,
            gone: false,
            boots: false,
        });
        self.known.insert(key, no);
        no
    }

    /// Notes that a thread is created or first made runnable. If the id belonged to another thread, a new thread
    /// begins.
    pub(super) fn born(
        &mut self,
        child: Task<'a>,
        by: TrackId,
        cpu: u32,
        now: Ns,
        timeline: &mut Timeline,
    ) -> ThreadNo {
        let key = (child.pid, if child.pid == 0 { cpu } else { 0 });
        let reused = self.known.get(&key).is_some_and(|no| self.threads[no.0].ran || self.threads[no.0].gone);
        if reused {
            self.known.remove(&key);
        }
        let no = self.thread(child, cpu, timeline);
        let track = self.threads[no.0].track;
        if track != by {
            timeline.tracks.get_mut(track).created = Some((now, by));
        }
        no
    }

    /// Notes that a thread can run from now on. Only the first of several wakings counts.
    pub(super) fn runnable(&mut self, thread: ThreadNo, by: WaitedOn, now: Ns) {
        let thread = &mut self.threads[thread.0];
        match &mut thread.out {
            Some((_, woken)) => *woken = woken.or(Some((now, by))),
            // It was never seen to stop: all that is known is that it did not run just before.
            None if thread.running.is_none() => thread.out = Some((now, Some((now, by)))),
            // It was woken while it still ran, so it does not stop.
            None => {}
        }
    }

    /// Notes that this thread of process id 0 does the kernel's own initialisation.
    pub(super) fn boots(&mut self, thread: ThreadNo) {
        let thread = &mut self.threads[thread.0];
        // A thread that was left before is a CPU's idle loop, and does not initialise the kernel.
        thread.boots |= thread.pid == 0 && !thread.left;
    }

    /// Notes that a thread becomes a program and takes its name: the last part of the path.
    pub(super) fn execs(&mut self, thread: ThreadNo, file: &'a [u8]) {
        self.threads[thread.0].program = file.rsplit(|&b| b == b'/').next();
    }

    /// Notes that a thread that becomes a program takes its process's number. The process's first thread is gone.
    pub(super) fn takes_over(&mut self, by: u32, pid: u32, cpu: u32, now: Ns, timeline: &mut Timeline) {
        let Some(no) = self.known.remove(&(by, 0)) else { return };
        let first = self.known.insert((pid, 0), no);
        let thread = &mut self.threads[no.0];
        (thread.pid, thread.named_by_column) = (pid, false);
        timeline.tracks.get_mut(thread.track).id = u64::from(pid);
        // The thread seen here under the process's number since then was this one.
        let current = self.cpus.get(&cpu).and_then(|on| on.current);
        if let Some(first) = first.filter(|&first| current == Some(first) && self.switches) {
            self.leave(first, Leaving::Gone, cpu, now, timeline);
            self.enter(no, cpu, now, timeline);
        }
    }

    /// Notes that a thread is about to end.
    pub(super) fn ends(&mut self, thread: ThreadNo) {
        self.threads[thread.0].gone = true;
    }

    /// Notes that a CPU goes from one thread to another.
    pub(super) fn switch(
        &mut self,
        prev: ThreadNo,
        state: &[u8],
        next: Task<'a>,
        cpu: u32,
        now: Ns,
        timeline: &mut Timeline,
    ) {
        let leaving = if self.threads[prev.0].gone { Leaving::Gone } else { Leaving::from_state(state) };
        self.leave(prev, leaving, cpu, now, timeline);
        if self.threads[prev.0].boots {
            // From here on, process id 0 is the CPU's idle loop, which has another track.
            self.threads[prev.0].gone = true;
            self.known.remove(&(0, cpu));
        }
        let next = self.thread(next, cpu, timeline);
        self.enter(next, cpu, now, timeline);
    }

    /// Notes that events of a CPU were lost: from here on, its running thread is unknown.
    pub(super) fn lost(&mut self, cpu: u32, timeline: &mut Timeline) {
        let Some(on) = self.cpus.get_mut(&cpu) else { return };
        let last = on.last;
        if let Some(thread) = on.current.take() {
            self.leave_unseen(thread, cpu, last, timeline);
        }
    }

    fn enter(&mut self, no: ThreadNo, cpu: u32, now: Ns, timeline: &mut Timeline) {
        if let Some((elsewhere, _)) = self.threads[no.0].running.filter(|&(on, _)| on != cpu) {
            // A thread cannot run on two CPUs: the event of its leaving the other was lost.
            let last = self.cpus.get(&elsewhere).map_or(now, |cpu| cpu.last);
            self.leave_unseen(no, elsewhere, last, timeline);
            self.cpus.entry(elsewhere).or_default().current = None;
        }
        let thread = &mut self.threads[no.0];
        if let Some((from, woken)) = thread.out.take().filter(|_| thread.pid != 0) {
            let (woken, by) = woken.unwrap_or((now, WaitedOn::Unknown));
            let (track, uninterruptible) = (thread.track, thread.uninterruptible);
            timeline.waits.push(Wait { track, from, woken, until: now, by, uninterruptible });
        }
        thread.running = thread.running.or(Some((cpu, now)));
        thread.ran = true;
        self.cpus.entry(cpu).or_default().current = Some(no);
    }

    fn leave(&mut self, no: ThreadNo, leaving: Leaving, cpu: u32, now: Ns, timeline: &mut Timeline) {
        let thread = &mut self.threads[no.0];
        if let Some((cpu, from)) = thread.running.take_if(|&mut (on, _)| on == cpu) {
            timeline.running.push(Running { track: thread.track, cpu, from, to: now });
        }
        thread.left = true;
        thread.out = match leaving {
            Leaving::Blocked | Leaving::Uninterruptible => Some((now, None)),
            Leaving::Preempted => Some((now, Some((now, WaitedOn::Nothing)))),
            Leaving::Gone => None,
        };
        thread.uninterruptible = leaving == Leaving::Uninterruptible;
        thread.gone |= leaving == Leaving::Gone;
    }

    /// Ends a thread's running time at `last`: it left some time later, for an unknown reason.
    fn leave_unseen(&mut self, no: ThreadNo, cpu: u32, last: Ns, timeline: &mut Timeline) {
        if self.threads[no.0].running.is_some_and(|(on, _)| on == cpu) {
            self.leave(no, Leaving::Blocked, cpu, last, timeline);
        }
    }

    /// Closes all that is open at the trace's end `last`, and names the tracks. Returns the tracks by process id.
    pub(super) fn finish(mut self, last: Ns, timeline: &mut Timeline) -> HashMap<u32, TrackId> {
        for thread in &mut self.threads {
            if let Some((cpu, from)) = thread.running {
                timeline.running.push(Running { track: thread.track, cpu, from, to: last });
            }
            if let Some((from, woken)) = thread.out.filter(|_| thread.pid != 0 && self.switches) {
                let (woken, by) = woken.unwrap_or((Ns::MAX, WaitedOn::Unknown));
                let (track, uninterruptible) = (thread.track, thread.uninterruptible);
                timeline.waits.push(Wait { track, from, woken, until: Ns::MAX, by, uninterruptible });
            }
            let name = timeline.names.intern(&thread.name());
            let track = timeline.tracks.get_mut(thread.track);
            track.name = name;
            track.is_unnamed = thread.pid != 0 && thread.comm == FORGOTTEN;
            track.idle = thread.pid == 0 && !thread.boots;
        }
        let tracks = self.known.iter().filter(|(key, _)| key.0 != 0);
        tracks.map(|(key, no)| (key.0, self.threads[no.0].track)).collect()
    }
}

/// The column's text for a thread whose name the kernel no longer has.
const FORGOTTEN: &[u8] = b"<...>";

/// True if the column has no name: `<idle>` for process id 0, or [`FORGOTTEN`].
fn is_placeholder(comm: &[u8]) -> bool {
    comm.starts_with(b"<")
}

impl Thread<'_> {
    /// The thread's name. Process 1 has its creator's name until it runs a program. A name that the kernel cut is
    /// completed from the program's path.
    fn name(&self) -> std::borrow::Cow<'_, str> {
        /// The bytes that the kernel keeps of a name.
        const COMM_MAX: usize = 15;
        let cut = |program: &&[u8]| program.len() > COMM_MAX && program[..COMM_MAX] == *self.comm;
        if let Some(program) = self.program.filter(cut) {
            return lossy(program);
        }
        match self.pid {
            0 if self.boots => "start_kernel".into(),
            0 if is_placeholder(self.comm) => "swapper".into(),
            1 if self.comm.starts_with(b"swapper") => self.program.map_or("kernel_init".into(), lossy),
            _ => lossy(self.comm),
        }
    }
}
