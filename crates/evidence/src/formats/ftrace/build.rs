//! Builds tracks, running times, waits and spans from a trace's events.
//!
//! If an interrupt wakes a thread, the interrupted thread did not cause that. Such a waking is charged to the innermost
//! known activity of the interrupt: a timer's function, a device's handler, a softirq. If none is known, the name says
//! so.

mod interrupts;

use super::Trace;
use super::event::{Event, Socket, Task};
use super::line::{Context, Entry, Record};
use super::processes::Processes;
use super::sched::{Sched, ThreadNo};
use super::sockets::{PortEvent, SocketChange};
use crate::input::text::{Symbol, lossy};
use guest_init::cpio::{INIT_PATH, ROOT_PATH};
use hashbrown::HashMap;
use interrupts::Interrupts;
use timeline::{
    Clock, DiagnosticKind, Mark, NameId, Ns, Os, SpanBuilder, SpanId, SpanKind, SpanRow, Timeline, TrackId, WaitedOn,
};

/// The state in which an idle worker sleeps since Linux 4.14 (`TASK_IDLE`). Earlier workers sleep like other threads.
const WORKER_IDLE: u8 = b'I';

/// The results of placing a trace on the timeline.
#[derive(Clone, Debug)]
pub struct Built {
    /// The time of the first event.
    pub first: Ns,
    /// The time of the last event.
    pub last: Ns,
    threads: HashMap<u32, TrackId>,
    ports: Vec<PortEvent>,
}

impl Built {
    /// The track of a process id other than 0. If the id was reused: the track of its last owner.
    pub(crate) fn thread(&self, pid: u32) -> Option<TrackId> {
        self.threads.get(&pid).copied()
    }

    /// The changes of sockets, in order of time.
    pub(crate) fn ports(self) -> Vec<PortEvent> {
        self.ports
    }
}

/// The activities that a thread is in the middle of.
#[derive(Debug, Default)]
struct Doing {
    level: Option<Level>,
    /// The initcall that began last, until its return is seen.
    initcall: Option<NameId>,
    module: Option<(NameId, Ns)>,
    process: Option<(NameId, Ns)>,
    work: Vec<NameId>,
    /// The time at which the worker last went to sleep without work, if that was after its last work began.
    idle: Option<Ns>,
}

/// A level of initcalls. It lasts until its last initcall returns.
#[derive(Clone, Copy, Debug)]
struct Level {
    name: NameId,
    start: Ns,
    end: Ns,
}

/// If a thread other than its process's first started a program: that thread, and the process.
fn taken_over(event: Event<'_>) -> Option<(u32, u32)> {
    match event {
        Event::Exec { pid, by, .. } if by != pid => Some((by, pid)),
        _ => None,
    }
}

struct Layer<'a, 't> {
    trace: &'t Trace<'a>,
    clock: &'t Clock,
    timeline: &'t mut Timeline,
    sched: Sched<'a>,
    spans: SpanBuilder,
    interrupts: HashMap<u32, Interrupts>,
    doing: HashMap<TrackId, Doing>,
    words: Words,
    processes: Processes,
    ports: Vec<PortEvent>,
    /// True if the trace says when softirqs begin.
    has_softirqs: bool,
    now: Ns,
    line: u32,
}

/// Interned names of spans.
struct Words {
    initcall: NameId,
    level: NameId,
    module: NameId,
    process: NameId,
    work: NameId,
    irq: NameId,
    softirq: NameId,
    local_timer: NameId,
    unnamed: NameId,
}

pub(super) fn build(trace: &Trace<'_>, clock: &Clock, timeline: &mut Timeline) -> Built {
    if !timeline.os.is_known() {
        timeline.os = Os::Linux; // only Linux writes this format
    }
    let first = clock.to_ns(trace.first);
    let mut word = |name: &str| timeline.names.intern(name);
    let words = Words {
        initcall: word("initcall"),
        level: word("initcall level"),
        module: word("module"),
        process: word("process"),
        work: word("work"),
        irq: word("irq"),
        softirq: word("softirq"),
        local_timer: word("local timer"),
        unnamed: word("timer or unnamed interrupt"),
    };
    let mut layer = Layer {
        trace,
        clock,
        timeline,
        sched: Sched::new(trace.counts.switches > 0),
        spans: SpanBuilder::default(),
        interrupts: HashMap::new(),
        doing: HashMap::new(),
        words,
        processes: Processes::default(),
        ports: Vec::new(),
        has_softirqs: false,
        now: first,
        line: 0,
    };
    for (line, entry) in trace.entries() {
        layer.line = line.number;
        match entry {
            Entry::Event(record) if record.stamps == trace.stamps => layer.record(record),
            Entry::Lost { cpu, .. } => layer.sched.lost(cpu, layer.timeline),
            _ => {}
        }
    }
    layer.finish(first)
}

impl<'a> Layer<'a, '_> {
    fn record(&mut self, record: Record<'a>) {
        let at = self.clock.to_ns(record.ticks);
        if at < self.now {
            let place = self.place();
            self.timeline.diagnostics.note(DiagnosticKind::ClockBack, place);
        }
        self.now = self.now.max(at);
        let task = Task { comm: record.comm, pid: record.pid };
        let place = self.place();
        if let Some((by, pid)) = taken_over(record.event) {
            self.sched.takes_over(by, pid, record.cpu, self.now, self.timeline);
        }
        let current = self.sched.current(task, record.cpu, self.now, self.timeline, place);
        if record.context == Context::Thread {
            self.leave_interrupts(record.cpu);
        }
        self.event(&record, current);
    }

    fn event(&mut self, record: &Record<'a>, current: ThreadNo) {
        let (track, cpu) = (self.sched.track(current), record.cpu);
        match record.event {
            Event::Switch { state, next, .. } => {
                self.note_idle(track, state);
                self.sched.switch(current, state, next, cpu, self.now, self.timeline);
            }
            Event::Waking(task) | Event::Wakeup(task) => {
                let by = self.waker(record, track);
                let thread = self.sched.thread(task, cpu, self.timeline);
                self.sched.runnable(thread, by, self.now);
            }
            Event::WakeupNew(task) => {
                self.kernel_boots(record, current);
                let thread = self.sched.born(task, track, cpu, self.now, self.timeline);
                self.sched.runnable(thread, WaitedOn::Thread(track), self.now);
            }
            Event::Fork { child } => {
                let child = self.new_task(record, track, child);
                self.processes.forked(child, record.pid, self.now);
            }
            Event::NewTask { child, is_thread, has_group } => {
                let child = self.new_task(record, track, Task { comm: record.comm, pid: child });
                self.processes.created(child, record.pid, is_thread, has_group, self.now);
            }
            Event::GroupPopulated(group) => self.processes.group_begins(record.pid, group, self.timeline),
            Event::GroupJoined { group, pid } => self.processes.joins(record.pid, pid, group, self.timeline),
            Event::Exec { file, by, .. } => {
                self.sched.execs(current, file);
                self.exec((record.pid, track), by, file);
            }
            Event::Exit(task) => self.exit(task, cpu),
            Event::Level(name) => {
                self.kernel_boots(record, current);
                self.level(track, name);
            }
            Event::InitcallStart(function) => {
                self.kernel_boots(record, current);
                self.initcall_start(track, function);
            }
            Event::InitcallFinish { function, .. } => self.initcall_finish(track, function),
            Event::ModuleLoad(name) => self.module_load(track, name),
            Event::WorkStart(function) => self.work_start(record, track, function),
            Event::WorkEnd => self.work_end(track),
            Event::IrqEntry(name) => self.interrupt(cpu, track, self.words.irq, name, false),
            Event::SoftirqEntry(action) => self.softirq(record, track, action),
            Event::LocalTimerEntry => self.interrupt(cpu, track, self.words.local_timer, b"", false),
            Event::IrqExit => self.interrupt_ends(cpu, track, self.words.irq),
            Event::SoftirqExit => self.interrupt_ends(cpu, track, self.words.softirq),
            Event::LocalTimerExit => self.interrupt_ends(cpu, track, self.words.local_timer),
            Event::TimerEntry(function) => {
                let name = self.intern(&[b"timer ", function].concat());
                self.interrupts.entry(cpu).or_default().timer = Some(name);
            }
            Event::TimerExit => self.interrupts.entry(cpu).or_default().timer = None,
            Event::BlockDone(device) => self.block_done(record, device),
            Event::Socket(socket) => self.socket(record, track, socket),
            Event::Console(_) | Event::Marker(_) | Event::Other(_) | Event::Damaged(_) => {}
        }
    }

    fn initcall_start(&mut self, track: TrackId, function: Symbol<'_>) {
        self.return_was_lost(track);
        let (detail, _) = self.initcall(track, function);
        self.begin(track, SpanKind::Initcall, self.words.initcall, detail);
        self.doing.entry(track).or_default().initcall = Some(detail);
    }

    fn work_start(&mut self, record: &Record<'_>, track: TrackId, function: &[u8]) {
        let detail = self.intern(function);
        if record.context == Context::Thread {
            self.work_ended_unseen(track);
        }
        self.doing.entry(track).or_default().work.push(detail);
        self.begin(track, SpanKind::Work, self.words.work, detail);
    }

    fn work_end(&mut self, track: TrackId) {
        let doing = self.doing.get_mut(&track);
        let detail = doing.and_then(|doing| {
            doing.idle = None;
            doing.work.pop()
        });
        self.end(track, self.words.work, detail.unwrap_or_default());
    }

    fn socket(&mut self, record: &Record<'_>, track: TrackId, socket: Socket) {
        let (at, Socket { port, is_loopback, change }) = (self.now, socket);
        // The kernel's own socket changes belong to no thread.
        let is_threads = record.context == Context::Thread;
        if is_threads || matches!(change, SocketChange::Connected) {
            self.ports.push(PortEvent { at, track, port, is_loopback, change });
        }
    }

    /// Notes the sleep of a worker that has no work.
    fn note_idle(&mut self, track: TrackId, state: &[u8]) {
        if state.first() == Some(&WORKER_IDLE) {
            let doing = self.doing.get_mut(&track).filter(|doing| !doing.work.is_empty());
            doing.into_iter().for_each(|doing| doing.idle = Some(self.now));
        }
    }

    /// Ends the work items whose end the trace lacks. A worker does one work item after the other, so each ended before
    /// the next one's start, and before the worker went to sleep without work. This happens at the start of a boot's
    /// trace: ends are traced a little later than starts.
    fn work_ended_unseen(&mut self, track: TrackId) {
        let idle = self.doing.get_mut(&track).and_then(|doing| doing.idle.take());
        while let Some(detail) = self.doing.get_mut(&track).and_then(|doing| doing.work.pop()) {
            let Some(span) = self.end(track, self.words.work, detail) else { continue };
            let place = self.place();
            self.timeline.diagnostics.note(DiagnosticKind::TracedWorkWithoutEnd, place);
            // Finalizing the timeline finds the spans inside it again.
            idle.into_iter().for_each(|at| self.timeline.spans.set_end(span, at));
        }
    }

    /// Notes that process id 0 does the kernel's own initialisation, before it becomes the idle loop.
    fn kernel_boots(&mut self, record: &Record<'_>, current: ThreadNo) {
        if record.pid == 0 && matches!(record.context, Context::Thread | Context::Unknown) {
            self.sched.boots(current);
        }
    }

    /// Ends an initcall whose return was not traced. A thread runs one initcall at a time: when it begins something
    /// else, the last initcall has ended at an unknown time.
    fn return_was_lost(&mut self, track: TrackId) {
        let Some(doing) = self.doing.get_mut(&track) else { return };
        let Some(detail) = doing.initcall.take() else { return };
        if let Some(level) = &mut doing.level {
            level.end = self.now;
        }
        let (words, now, place) = ((self.words.initcall, detail), self.now, self.place());
        let timeline = &mut *self.timeline;
        let ended = self.spans.end(&mut timeline.spans, track, words, now, &mut timeline.diagnostics, |_| place());
        let Some(span) = ended else { return };
        timeline.diagnostics.note(DiagnosticKind::TracedInitcallWithoutReturn, place);
        let detail = format!("{}, at most: its return was not traced", timeline.names.get(detail));
        let detail = timeline.names.intern(&detail);
        timeline.spans.set_what(span, SpanKind::Call, detail);
    }

    fn level(&mut self, track: TrackId, name: &[u8]) {
        self.return_was_lost(track);
        let name = self.intern(name);
        let next = Level { name, start: self.now, end: self.now };
        if let Some(level) = self.doing.entry(track).or_default().level.replace(next) {
            self.push(track, SpanKind::Level, self.words.level, level.name, level.start, level.end);
        }
    }

    /// Returns an initcall's name, and its module. A module's init function is freed when it is done. A trace that is
    /// printed later has only the function's address; then the module is the one that was being loaded.
    fn initcall(&mut self, track: TrackId, function: Symbol<'_>) -> (NameId, Option<NameId>) {
        let loading = self.doing.get(&track).and_then(|doing| doing.module).map(|(name, _)| name);
        match (function.module, loading) {
            (None, Some(module)) if function.name.starts_with(b"0x") => {
                let text = format!("[{}]", self.timeline.names.get(module));
                (self.intern(text.as_bytes()), Some(module))
            }
            (module, _) => (self.intern(function.text().as_bytes()), module.map(|module| self.intern(module))),
        }
    }

    fn initcall_finish(&mut self, track: TrackId, function: Symbol<'_>) {
        let (detail, module) = self.initcall(track, function);
        self.end(track, self.words.initcall, detail);
        let Some(doing) = self.doing.get_mut(&track) else { return };
        doing.initcall.take_if(|open| *open == detail);
        let Some(module) = module else {
            if let Some(level) = &mut doing.level {
                level.end = self.now;
            }
            return;
        };
        let loaded = doing.module.take_if(|(name, _)| *name == module);
        if let Some((name, start)) = loaded {
            self.push(track, SpanKind::Module, self.words.module, name, start, self.now);
        }
    }

    fn exec(&mut self, (pid, track): (u32, TrackId), by: u32, file: &[u8]) {
        let begun = self.timeline.tracks.get(track).created.map_or(self.now, |(at, _)| at);
        // bootscope's own process does not belong to the guest's user space.
        if ![INIT_PATH.as_bytes(), ROOT_PATH.as_bytes()].contains(&file) {
            let program = self.intern(file);
            self.processes.execs((pid, track), by, program, begun, self.now, &mut self.timeline.names);
        }
        self.return_was_lost(track);
        self.process_ends(track);
        // The kernel's own initcalls are over: later ones on this thread belong to modules that it loads.
        if let Some(level) = self.doing.get_mut(&track).and_then(|doing| doing.level.take()) {
            self.push(track, SpanKind::Level, self.words.level, level.name, level.start, level.end);
        }
        let name = self.intern(file);
        self.mark(track, "exec ", name);
        self.doing.entry(track).or_default().process = Some((name, self.now));
    }

    /// The process id and the track of a task that begins.
    fn new_task(&mut self, record: &Record<'a>, track: TrackId, child: Task<'a>) -> (u32, TrackId) {
        let born = self.sched.born(child, track, record.cpu, self.now, self.timeline);
        (child.pid, self.sched.track(born))
    }

    fn exit(&mut self, task: Task<'a>, cpu: u32) {
        self.processes.exits(task.pid, self.now);
        let thread = self.sched.thread(task, cpu, self.timeline);
        self.sched.ends(thread);
        let track = self.sched.track(thread);
        self.process_ends(track);
    }

    fn module_load(&mut self, track: TrackId, name: &[u8]) {
        let name = self.intern(name);
        self.mark(track, "module loaded: ", name);
        self.doing.entry(track).or_default().module = Some((name, self.now));
    }

    fn process_ends(&mut self, track: TrackId) {
        if let Some((name, start)) = self.doing.get_mut(&track).and_then(|doing| doing.process.take()) {
            self.push(track, SpanKind::Process, self.words.process, name, start, self.now);
        }
    }

    fn begin(&mut self, track: TrackId, kind: SpanKind, name: NameId, detail: NameId) {
        let row = SpanBuilder::row(track, kind, name, detail, self.now);
        let place = self.place();
        self.spans.begin(&mut self.timeline.spans, row, &mut self.timeline.diagnostics, place);
    }

    fn end(&mut self, track: TrackId, name: NameId, detail: NameId) -> Option<SpanId> {
        let place = self.place();
        let timeline = &mut *self.timeline;
        self.spans.end(&mut timeline.spans, track, (name, detail), self.now, &mut timeline.diagnostics, |_| place())
    }

    /// Adds a complete span; [`Timeline::finalize`] finds the spans inside it.
    fn push(&mut self, track: TrackId, kind: SpanKind, name: NameId, detail: NameId, start: Ns, end: Ns) {
        self.timeline.spans.push(SpanRow { name, detail, start, end, track, kind }, None);
    }

    fn mark(&mut self, track: TrackId, what: &str, name: NameId) {
        let text = format!("{what}{}", self.timeline.names.get(name));
        let name = self.timeline.names.intern(&text);
        self.timeline.marks.push(Mark { at: self.now, name, track });
    }

    fn intern(&mut self, name: &[u8]) -> NameId {
        self.timeline.names.intern(&lossy(name))
    }

    fn place(&self) -> impl Fn() -> String + use<'a> {
        let (file, line) = (self.trace.file, self.line);
        move || format!("{file}:{line}")
    }

    fn finish(mut self, first: Ns) -> Built {
        let last = self.now;
        let idle = self.doing.iter().filter(|(_, doing)| doing.idle.is_some());
        let mut idle: Vec<TrackId> = idle.map(|(&track, _)| track).collect();
        idle.sort_unstable();
        idle.into_iter().for_each(|track| self.work_ended_unseen(track));
        let doing: Vec<_> = self.doing.drain().collect();
        for (track, doing) in doing {
            if let Some(level) = doing.level {
                // The trace ends inside one of the level's initcalls, or after the last of them.
                let end = if self.spans.innermost(track).is_some() { last } else { level.end };
                self.push(track, SpanKind::Level, self.words.level, level.name, level.start, end);
            }
            if let Some((name, start)) = doing.process {
                self.push(track, SpanKind::Process, self.words.process, name, start, last);
            }
        }
        let timeline = self.timeline;
        self.spans.finish(&mut timeline.spans, last, &mut timeline.diagnostics);
        let threads = self.sched.finish(last, timeline);
        let file = self.trace.file;
        self.processes.build(timeline, || file.to_owned());
        Built { first, last, threads, ports: self.ports }
    }
}
