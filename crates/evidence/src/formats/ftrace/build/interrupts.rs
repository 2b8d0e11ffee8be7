//! The interrupts that each CPU is handling, and what in them wakes threads.

use super::super::line::{Context, Record};
use super::Layer;
use timeline::{InterruptKind, NameId, SpanKind, TrackId, WaitedOn};

/// The threads of Linux that handle softirqs that took too long for an interrupt: `ksoftirqd/0`.
const SOFTIRQ_THREAD: &[u8] = b"ksoftirqd/";

/// An interrupt that is being handled on a CPU.
#[derive(Clone, Copy, Debug)]
struct Frame {
    name: NameId,
    detail: NameId,
    track: TrackId,
    kind: InterruptKind,
    /// True for a softirq that `ksoftirqd` runs as a thread.
    in_turn: bool,
}

/// The interrupts that a CPU is handling.
#[derive(Debug, Default)]
pub(super) struct Interrupts {
    frames: Vec<Frame>,
    /// The timer function that began there last, until it ends.
    pub(super) timer: Option<NameId>,
    /// The block device that finished a request there last.
    disk: Option<NameId>,
    /// The context that runs the softirqs there, until a thread is seen at its own work.
    softirqs: Option<RunBy>,
}

/// The context that runs softirqs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunBy {
    /// An interrupt, before it returns to the interrupted thread.
    Interrupt,
    /// The thread for softirqs that took too long for an interrupt.
    Thread,
}

impl Layer<'_, '_> {
    /// Returns the cause of a wake-up at an event on `track`.
    pub(super) fn waker(&mut self, record: &Record<'_>, track: TrackId) -> WaitedOn {
        let interrupts = self.interrupts.get(&record.cpu);
        let frame = interrupts.and_then(|i| i.frames.last()).copied();
        // ksoftirqd does the work that an interrupt left for later. But an interrupt can also run softirqs on top of
        // ksoftirqd: if the trace shows where the softirq began, that decides.
        let is_left_over = record.context == Context::Softirq && record.comm.starts_with(SOFTIRQ_THREAD);
        let in_turn = frame.map_or(!self.has_softirqs, |frame| frame.in_turn);
        match record.context {
            Context::Thread => return WaitedOn::Thread(track),
            _ if is_left_over && in_turn && interrupts.is_none_or(|i| i.timer.is_none()) => {
                return WaitedOn::Thread(track);
            }
            Context::Unknown if frame.is_none() => return WaitedOn::Thread(track),
            _ => {}
        }
        let timer = interrupts.and_then(|i| i.timer);
        let disk = interrupts.and_then(|i| i.disk);
        let (name, kind) = match (timer, frame, disk) {
            (Some(timer), ..) => (timer, InterruptKind::Timer),
            (_, Some(frame), _) => (self.name_of(frame), frame.kind),
            (_, _, Some(disk)) => (disk, InterruptKind::Disk),
            // The CPU's own timer has no named handler.
            (None, None, None) => (self.words.unnamed, InterruptKind::Timer),
        };
        self.timeline.interrupt_kinds.insert(name, kind.max(self.timeline.interrupt_kind(name)));
        WaitedOn::Interrupt(name)
    }

    /// Notes that a block device finished a request. A thread that this interrupt wakes then waited for the device.
    pub(super) fn block_done(&mut self, record: &Record<'_>, device: &[u8]) {
        if record.context == Context::Thread {
            return;
        }
        let frame = self.interrupts.get(&record.cpu).and_then(|i| i.frames.last()).copied();
        let name = match frame {
            Some(frame) => self.name_of(frame),
            None => self.intern(&[b"disk ", device].concat()),
        };
        self.timeline.interrupt_kinds.insert(name, InterruptKind::Disk);
        self.interrupts.entry(record.cpu).or_default().disk = Some(name);
    }

    /// Formats an interrupt's name: `irq ttyS0`, `softirq NET_RX`, `local timer`.
    fn name_of(&mut self, frame: Frame) -> NameId {
        if frame.detail.is_empty() {
            return frame.name;
        }
        let names = &mut self.timeline.names;
        let text = format!("{} {}", names.get(frame.name), names.get(frame.detail));
        names.intern(&text)
    }

    pub(super) fn softirq(&mut self, record: &Record<'_>, track: TrackId, action: &[u8]) {
        self.has_softirqs = true;
        let on = self.interrupts.entry(record.cpu).or_default();
        let is_thread = record.comm.starts_with(SOFTIRQ_THREAD);
        let by = on.softirqs.get_or_insert(if is_thread { RunBy::Thread } else { RunBy::Interrupt });
        let in_turn = *by == RunBy::Thread;
        self.interrupt(record.cpu, track, self.words.softirq, action, in_turn);
    }

    pub(super) fn interrupt(&mut self, cpu: u32, track: TrackId, name: NameId, detail: &[u8], in_turn: bool) {
        let detail = self.intern(detail);
        let kind = if name == self.words.local_timer { InterruptKind::Timer } else { InterruptKind::Device };
        self.interrupts.entry(cpu).or_default().frames.push(Frame { name, detail, track, kind, in_turn });
        self.begin(track, SpanKind::Interrupt, name, detail);
    }

    pub(super) fn interrupt_ends(&mut self, cpu: u32, track: TrackId, name: NameId) {
        let on = self.interrupts.entry(cpu).or_default();
        on.timer = None;
        match on.frames.iter().rposition(|f| f.name == name) {
            Some(at) => {
                let frame = on.frames[at];
                on.frames.truncate(at);
                self.end(frame.track, name, frame.detail);
            }
            None => {
                self.end(track, name, NameId::EMPTY);
            }
        }
        let on = self.interrupts.entry(cpu).or_default();
        if on.frames.is_empty() {
            // The interrupt runs the remaining softirqs before it returns.
            on.softirqs.get_or_insert(RunBy::Interrupt);
        }
    }

    /// Ends all interrupts on a CPU because a thread runs again, even if their ends were not traced.
    pub(super) fn leave_interrupts(&mut self, cpu: u32) {
        let Some(on) = self.interrupts.get_mut(&cpu) else { return };
        (on.timer, on.disk) = (None, None);
        on.softirqs = None;
        if let Some(&outermost) = on.frames.first() {
            on.frames.clear();
            self.end(outermost.track, outermost.name, outermost.detail);
        }
    }
}
