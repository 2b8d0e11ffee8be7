//! The phases of a log's boot, its end, and the warnings that a reader must see first.

use super::labels::Role;
use super::order::Order;
use super::{BUFFER_RECORDS, Log, Record};
use crate::input::text::lossy;
use timeline::{
    Clock, End, EndEvidence, LogEnd, Mark, Ns, Os, Phase, ProcessNamed, ProcessOf, Ticks, Timeline, TrackId, Wait,
    WaitedOn, Warning,
};

/// The tracks that the boot path goes through, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Chain {
    pub loader: Option<TrackId>,
    pub main: Option<TrackId>,
    /// Process 1.
    pub init: Option<TrackId>,
}

impl Chain {
    /// Returns the last of these that the log has.
    pub(super) fn last(&self) -> Option<TrackId> {
        self.init.or(self.main).or(self.loader)
    }
}

/// A stretch of the path whose thread logs nothing more. Its outermost function does not return, so the thread still
/// ran; what ran inside that function is unknown.
pub(super) struct Silent {
    pub track: TrackId,
    pub from: u64,
    pub to: u64,
    /// The outermost function, and the last that was entered.
    pub outer: String,
    pub inner: String,
}

/// Adds the phases, the links between the chain's threads, the end of the kernel's part, and the warnings.
pub(super) struct Boot<'a> {
    pub log: &'a Log,
    pub order: &'a Order,
    pub clock: &'a Clock,
    /// The error of the whole log's place on the timeline. Within the log, times are exact.
    pub error: Ns,
    pub chain: Chain,
    pub timeline: &'a mut Timeline,
}

impl Boot<'_> {
    fn time(&self, ticks: u64) -> Ns {
        self.clock.to_ns(Ticks(ticks))
    }

    /// Makes each thread of the chain the creator of the next one.
    pub(super) fn link(&mut self) {
        let known = &self.order.known;
        let Chain { loader, main, init } = self.chain;
        if let (Some(loader), Some(main), Some((ticks, _))) = (loader, main, known.kernel) {
            self.timeline.tracks.get_mut(main).created = Some((self.time(ticks), loader));
        }
        let started = known.init().map(|life| self.order.lives[life as usize]);
        if let (Some(main), Some(init), Some(life)) = (main, init.filter(|&init| Some(init) != main), started) {
            let first = self.order.records[life.begin].ticks;
            self.timeline.tracks.get_mut(init).created = Some((self.time(first), main));
            self.wait_for_main(main, init);
        }
    }

    /// Adds the wait of NetBSD's process 1: it starts early and waits until `main` returns (`sys/kern/init_main.c`).
    fn wait_for_main(&mut self, main: TrackId, init: TrackId) {
        let (Some((begun, _)), Some((done, _))) = (self.order.known.enter(Role::StartInit), self.main_done()) else {
            return;
        };
        if begun < done {
            let (from, until) = (self.time(begun), self.time(done));
            let by = WaitedOn::Thread(main);
            self.timeline.waits.push(Wait { track: init, from, woken: until, until, by, uninterruptible: false });
        }
    }

    /// The time at which NetBSD's `main` returns, which lets process 1 go on. In other kernels a function named `main`
    /// means nothing.
    fn main_done(&self) -> Option<(u64, u32)> {
        self.order.known.exit(Role::Main).filter(|_| self.is_netbsd())
    }

    fn is_netbsd(&self) -> bool {
        self.timeline.os == Os::NetBsd
    }

    /// Adds the phases' boundaries, each with the record that shows it. `unknown_from`: from then on nothing is known
    /// of the path's thread.
    pub(super) fn phases(&mut self, unknown_from: Option<u64>) {
        let known = &self.order.known;
        let mut phases = Vec::new();
        if let (Some(_), Some((ticks, _))) = (self.chain.loader, known.first) {
            phases.push((Phase::Loader, ticks, "the log's first record, by the loader"));
        }
        if let Some((ticks, _)) = known.kernel.filter(|_| known.enter(Role::MachineDependent).is_some()) {
            phases.push((Phase::MachineDependentInit, ticks, "the kernel's first record: hammer_time, initarm, …"));
        }
        match (known.enter(Role::MiStartup), known.enter(Role::Main), known.kernel) {
            (Some((ticks, _)), ..) => phases.push((Phase::Sysinits, ticks, "ENTER mi_startup")),
            (_, Some((ticks, _)), _) if self.is_netbsd() => phases.push((Phase::NetbsdMain, ticks, "ENTER main")),
            (None, _, Some((ticks, _))) if phases.last().is_none_or(|p| p.0 == Phase::Loader) => {
                phases.push((Phase::Kernel, ticks, "the kernel's first record"));
            }
            _ => {}
        }
        if let Some((ticks, _)) = known.enter(Role::StartInit) {
            let after_main = self.main_done().map_or(ticks, |(done, _)| done.max(ticks));
            phases.push((Phase::MountRoot, after_main, "ENTER start_init"));
        }
        for (i, pair) in self.order.pieces.windows(2).enumerate() {
            phases.push((Phase::Unexplained, pair[0].1, "a part of the log is missing"));
            let next = self.order.records.iter().filter(|r| usize::from(r.piece) == i + 1).map(|r| r.ticks).min();
            phases.extend(next.map(|ticks| (Phase::AfterTheMissingPart, ticks, "the log goes on")));
        }
        phases.extend(unknown_from.map(|ticks| (Phase::Unexplained, ticks, "nothing more is heard of the thread")));
        for (phase, ticks, evidence) in phases {
            let at = self.time(ticks);
            self.timeline.boundary(phase, at, self.error, evidence);
        }
    }

    /// Warns of a stretch of which only the outermost function is known.
    pub(super) fn silent(&mut self, silent: Silent) {
        let Silent { track, from, to, outer, inner } = silent;
        let (at, from, to) = (self.time(from), self.log_time(from), self.log_time(to));
        let timeline = &mut *self.timeline;
        let name = timeline.names.intern(&format!("{inner}: not left in the log, may have ended here"));
        timeline.marks.push(Mark { at, name, track });
        let thread = timeline.names.get(timeline.tracks.get(track).name).to_owned();
        timeline.warnings.push(Warning::ThreadSilent { thread, from, to, outer, inner });
    }

    /// Sets the end of the kernel's part, or the nearest thing known. `open`: functions that the path's thread never
    /// left.
    pub(super) fn end(&mut self, ending: &Ending, open: &[String]) {
        let at = self.time(ending.ticks);
        let evidence = self.shown_by(&ending.kind);
        self.timeline.end = Some(End { at, error: self.error, track: self.chain.last(), evidence });
        match &ending.kind {
            Kind::Reached => self.timeline.boundary(Phase::UserProcesses, at, self.error, "EXIT start_init"),
            Kind::UserSpace(_) | Kind::Unknown => self.no_end(ending, open),
        }
    }

    fn shown_by(&mut self, kind: &Kind) -> EndEvidence {
        match (kind, self.order.known.last) {
            (Kind::Reached, _) => EndEvidence::StartInitReturned,
            (Kind::UserSpace(child), _) => {
                let name = self.timeline.names.intern(child.name.as_deref().unwrap_or_default());
                EndEvidence::Forked(ProcessOf { pid: child.pid, name })
            }
            (Kind::Unknown, Some((_, record))) => {
                let record = self.record(&record);
                EndEvidence::LogEnds(self.timeline.names.intern(&record))
            }
            (Kind::Unknown, None) => EndEvidence::LastSign,
        }
    }

    /// Formats a record as the log has it: `ENTER _sleep`.
    fn record(&self, record: &Record) -> String {
        format!("{} {}", record.what.word(), lossy(self.log.labels.text(record.label)))
    }

    fn no_end(&mut self, ending: &Ending, open: &[String]) {
        if let Some((ticks, forked)) = &ending.too_early {
            let before = self.log_start() - self.time(*ticks);
            self.timeline.warnings.push(Warning::LogAfterBoot { forked: forked.clone(), before });
            return;
        }
        let Some((ticks, record)) = self.order.known.last else { return };
        let end = LogEnd {
            at: self.log_time(ticks),
            record: self.record(&record),
            thread: self.order.lives[record.thread as usize].thread,
            open: if ending.kind == Kind::Unknown { open.to_vec() } else { Vec::new() },
        };
        let is_loaders = self.chain.last() == self.chain.loader;
        self.timeline.warnings.push(if is_loaders {
            Warning::LogOfLoaderAlone(end)
        } else {
            Warning::LogWithoutEnd(end)
        });
    }

    /// Warns of a log that its buffer cut, or that lacks a part.
    pub(super) fn cut(&mut self) {
        let known = &self.order.known;
        let records = known.kernel_records.saturating_add(usize::try_from(self.order.damaged).unwrap_or(usize::MAX));
        let dropped = self.order.dropped;
        if dropped > 0 {
            self.timeline.warnings.push(Warning::LogRecordsDropped { records: dropped });
        }
        let is_round = records == BUFFER_RECORDS || (records >= SMALLEST_BUFFER && records.is_power_of_two());
        if self.order.pieces.len() < 2 && is_round && dropped == 0 {
            let last = known.last.map(|(ticks, _)| self.log_time(ticks));
            self.timeline.warnings.push(Warning::LogBufferFull { records, last });
        }
        for pair in self.order.pieces.windows(2) {
            let goes_on = self.order.records.iter().map(|r| r.ticks).filter(|&ticks| ticks > pair[0].1).min();
            let from = self.log_time(pair[0].1);
            let to = goes_on.map(|ticks| self.log_time(ticks));
            self.timeline.warnings.push(Warning::LogPartMissing { from, to });
        }
    }

    /// The time since the log's first record.
    fn log_time(&self, ticks: u64) -> Ns {
        self.time(ticks) - self.log_start()
    }

    fn log_start(&self) -> Ns {
        self.order.known.first.map_or(Ns::ZERO, |(first, _)| self.time(first))
    }
}

/// The evidence for the end of the kernel's part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `EXIT start_init`.
    Reached,
    /// Process 1 forked this process: it was in user space by then.
    UserSpace(ProcessNamed),
    /// No evidence but the log's own end.
    Unknown,
}

/// The end of the boot path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ending {
    pub kind: Kind,
    pub ticks: u64,
    /// The first fork by process 1 (time and child), if it is before the log's first record: then process 1 was already
    /// in user space.
    pub too_early: Option<(u64, ProcessNamed)>,
}

/// Returns the best end that a log gives; `None` for an empty log.
pub(super) fn ending(log: &Log, order: &Order) -> Option<Ending> {
    let known = &order.known;
    if let Some((ticks, _)) = known.exit(Role::StartInit) {
        return Some(Ending { kind: Kind::Reached, ticks, too_early: None });
    }
    let children = log.users.iter().filter(|e| e.parent == 1 && e.forked > 0);
    let forked = children.min_by_key(|e| e.forked).map(|child| {
        let name = child.exec.map(|exec| lossy(log.labels.text(exec)).into_owned());
        (child.forked, ProcessNamed { pid: child.pid, name })
    });
    let before_the_log = |&(ticks, _): &(u64, ProcessNamed)| known.first.is_some_and(|(first, _)| first > ticks);
    let too_early = forked.clone().filter(before_the_log);
    if let Some((ticks, child)) = forked.filter(|_| too_early.is_none()) {
        return Some(Ending { kind: Kind::UserSpace(child), ticks, too_early });
    }
    let (ticks, _) = known.last?;
    Some(Ending { kind: Kind::Unknown, ticks, too_early })
}

/// Kernels are not built with smaller buffers. A smaller log may be whole even if its number of records is a power of
/// two.
const SMALLEST_BUFFER: usize = 1 << 12;
