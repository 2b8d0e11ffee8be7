//! Builds spans, waits, holds and marks from one thread's records.
//!
//! An exit closes the innermost entry of its name and detail, and all entries inside that one. An exit without a detail
//! closes the innermost entry of its name: FreeBSD's loader logs a detail only on entry. A function that is never left
//! lasts to the end of the log; on the boot path it lasts no longer than the path stays there ([`PathEnd`]). A wait
//! ends with the innermost `UNWAIT` of its topic, or [without one](super::open_waits) when its thread is seen to go on.
//! A thread that takes a topic twice holds it until it has released it twice. A release without a hold counts as held
//! from the beginning, a hold without a release as held without end; code that charges waits to such holds must check
//! when the thread was created.

use super::boot::{Chain, Ending, Kind, Silent};
use super::hole::DEEP;
use super::line::What;
use super::occupancy;
use super::open_waits::{OpenWait, Waits};
use super::order::{Life, Order};
use super::stacks::Stacks;
use super::{Log, Record};
use crate::input::text::{lossy, word};
use std::collections::BTreeMap;
use timeline::{
    Clock, DiagnosticKind, Hold, Mark, NameId, Ns, SpanBuilder, SpanId, SpanKind, Ticks, Timeline, TrackId, Wait,
    WaitedOn,
};

/// A label's meaning, in the timeline's names.
#[derive(Clone, Copy)]
struct Meaning {
    name: NameId,
    detail: NameId,
    kind: SpanKind,
    event: Event,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Event {
    Wait,
    Unwait,
    Hold,
    Release,
    /// An event that [`occupancy`](super::occupancy) reads.
    Scheduler,
    Other,
}

/// Places the records of all lives on the timeline.
pub(super) struct Builder<'a> {
    log: &'a Log,
    order: &'a Order,
    clock: &'a Clock,
    timeline: &'a mut Timeline,
    meanings: Vec<Meaning>,
    builder: SpanBuilder,
    unmatched: BTreeMap<NameId, Unmatched>,
    process_1: Option<Process1>,
    path: PathEnd<'a>,
    left_open: LeftOpen,
    /// The function in which FreeBSD's threads sleep.
    sleep: Option<NameId>,
}

/// The end of the boot path, and the tracks that it goes through.
#[derive(Clone, Copy)]
pub(super) struct PathEnd<'a> {
    pub chain: Chain,
    pub ending: Option<&'a Ending>,
    /// The tick of process 1's first record: from then on the path is on its thread.
    pub init_begins: Option<u64>,
    /// The log's last tick.
    pub log_ends: u64,
}

/// Things that the log leaves open at the end of the boot path.
#[derive(Default)]
pub(super) struct LeftOpen {
    /// Functions that the path's last thread entered and never left, outermost first.
    pub names: Vec<String>,
    /// The tick of the last known activity of a path thread that logs nothing more while the path stays on it.
    pub unknown_from: Option<u64>,
    /// A stretch of which only the outermost function is known.
    pub silent: Option<Silent>,
}

/// Process 1 in user space, on the track of its thread. Its span contains what the kernel then does for it.
#[derive(Clone, Copy)]
pub(super) struct Process1 {
    pub track: TrackId,
    pub from: Ns,
    pub to: Ns,
    pub name: NameId,
}

/// Holds and releases of a topic that have no counterpart on their own thread: the number, and the place of the first.
#[derive(Default)]
struct Unmatched {
    holds: (u64, String),
    releases: (u64, String),
}

/// The number of functions named at each end of a stack.
const OPEN_NAMED: usize = 50;

/// A thread's open waits and holds, by topic.
#[derive(Default)]
struct Open {
    waits: Waits,
    holds: Stacks<(Ns, Record)>,
}

impl<'a> Builder<'a> {
    pub(super) fn new(
        log: &'a Log,
        order: &'a Order,
        clock: &'a Clock,
        process_1: Option<Process1>,
        path: PathEnd<'a>,
        timeline: &'a mut Timeline,
    ) -> Self {
        let mut not_utf8 = 0;
        timeline.names.reserve(log.labels.len());
        let meanings = log.labels.iter().map(|text| meaning(text, timeline, &mut not_utf8)).collect();
        timeline.diagnostics.note_many(DiagnosticKind::TslogNameNotUtf8, not_utf8, || place_not_utf8(log, order));
        // Every second record ends a span.
        timeline.spans.reserve(order.records.len() / 2);
        let (builder, unmatched) = (SpanBuilder::default(), BTreeMap::new());
        let (left_open, sleep) = (LeftOpen::default(), timeline.names.find("_sleep"));
        Builder { log, order, clock, timeline, meanings, builder, unmatched, process_1, path, left_open, sleep }
    }

    /// Places one life's records. The caller passes lives in the order of their tracks, so that spans are added sorted.
    pub(super) fn life(&mut self, life: &Life, track: TrackId) {
        let mut open = Open::default();
        let mut piece = 0;
        let mut process_1 = self.process_1.filter(|p| p.track == track);
        let mut entries = Entries { life: *life, first: timeline::number(self.timeline.spans.len()), process: None };
        let records = &self.order.records[life.begin..life.end];
        let Some(&last) = records.last() else { return };
        for &record in records {
            while piece < record.piece {
                self.cut(track, self.order.pieces[usize::from(piece)].1, entries);
                piece += 1;
            }
            let at = self.clock.to_ns(Ticks(record.ticks));
            if let Some(process) = process_1.take_if(|p| p.from < at) {
                entries.process = Some(self.begin_process(process));
            }
            let m = self.meanings[record.label as usize];
            let place = || self.log.place(self.order.pieces[record.piece as usize].0, record.line);
            let timeline = &mut *self.timeline;
            match record.what {
                What::Enter => {
                    let row = SpanBuilder::row(track, m.kind, m.name, m.detail, at);
                    self.builder.begin(&mut timeline.spans, row, &mut timeline.diagnostics, place);
                }
                What::Exit => {
                    let any_detail = m.detail == NameId::EMPTY;
                    let open_label = any_detail.then(|| self.builder.innermost_named(track, m.name)).flatten();
                    let (spans, label) = (&mut timeline.spans, open_label.unwrap_or((m.name, m.detail)));
                    let (log, order) = (self.log, self.order);
                    let place =
                        |begun: Option<SpanId>| begun.map_or_else(place, |span| entries.place(span, log, order));
                    let ended = self.builder.end(spans, track, label, at, &mut timeline.diagnostics, place);
                    if let Some(span) = ended.filter(|_| open.waits.any()) {
                        open.waits.leave(span, at, Some(m.name) == self.sleep);
                    }
                }
                What::Event => self.event(m, track, at, record, &mut open),
                // The life's name: its track has it already.
                What::Thread => {}
            }
        }
        if let Some(process) = process_1 {
            entries.process = Some(self.begin_process(process));
        }
        self.end(track, last, open, entries);
    }

    fn begin_process(&mut self, p: Process1) -> SpanId {
        let row = SpanBuilder::row(p.track, SpanKind::Process, p.name, NameId::EMPTY, p.from);
        self.builder.begin(&mut self.timeline.spans, row, &mut self.timeline.diagnostics, String::new)
    }

    /// Ends the spans that are still open on a thread at this tick, since nothing shows when they ended.
    fn cut(&mut self, track: TrackId, ticks: u64, entries: Entries) {
        let at = self.clock.to_ns(Ticks(ticks));
        let Timeline { spans, diagnostics, .. } = &mut *self.timeline;
        self.builder.close(spans, track, at, diagnostics, |span| entries.place(span, self.log, self.order));
    }

    /// Returns the tick at which a thread's open spans end. A thread of the boot path may log nothing more while others
    /// go on and the path leaves it later. Then it has left its functions at an unknown time, so the time after its
    /// last record is unknown. But if its outermost function never returns, that one [lasts](Silent) until process 1
    /// begins. If the log ends because the machine hangs or the buffer is full, the thread is still in its functions.
    fn open_until(&mut self, track: TrackId, last: Record, entries: Entries) -> u64 {
        let PathEnd { chain, ending, init_begins, log_ends } = self.path;
        let piece_ends = self.order.pieces[usize::from(last.piece)].1;
        let is_last = Some(track) == chain.last();
        let Some(ending) = ending.filter(|_| is_last || Some(track) == chain.main) else { return piece_ends };
        let names = self.open_names(track);
        let leaves = if is_last { ending.ticks } else { init_begins.unwrap_or(ending.ticks) };
        let lost = last.ticks < leaves && leaves < log_ends && names.len() >= if is_last { 1 } else { DEEP };
        if usize::from(last.piece) + 1 < self.order.pieces.len() {
            return piece_ends;
        }
        if lost && !is_last && ending.kind != Kind::Unknown {
            self.silent(track, names, (last.ticks, leaves), entries);
            return leaves;
        }
        if is_last {
            self.left_open.names = names;
        }
        let known_until = match &ending.kind {
            Kind::UserSpace(_) if is_last && log_ends < leaves => log_ends,
            Kind::UserSpace(_) | Kind::Reached if lost => last.ticks,
            _ => return piece_ends.min(ending.ticks),
        };
        self.left_open.unknown_from = Some(known_until);
        known_until
    }

    /// Ends all spans inside a track's outermost function at the track's last record.
    fn silent(&mut self, track: TrackId, names: Vec<String>, (from, to): (u64, u64), entries: Entries) {
        let (Some(outer), Some(inner)) = (names.first().cloned(), names.last().cloned()) else { return };
        let at = self.clock.to_ns(Ticks(from));
        let Timeline { spans, diagnostics, .. } = &mut *self.timeline;
        self.builder.close_inside(spans, track, at, diagnostics, |span| entries.place(span, self.log, self.order));
        self.left_open.silent = Some(Silent { track, from, to, outer, inner });
    }

    /// Names the open functions of a track, outermost first. Names only both ends of a deep stack.
    fn open_names(&self, track: TrackId) -> Vec<String> {
        let Timeline { spans, names, .. } = &*self.timeline;
        let name = |span: SpanId| {
            let text = format!("{} {}", names.get(spans.get(span).name), names.get(spans.get(span).detail));
            text.trim_end().to_owned()
        };
        let innermost = self.builder.innermost(track);
        let open = || std::iter::successors(innermost, |&span| spans.parent(span));
        let count = open().count();
        let between = count.saturating_sub(2 * OPEN_NAMED);
        let mut named: Vec<String> = open().take(OPEN_NAMED).map(name).collect();
        named.extend((between > 0).then(|| format!("({between} others)")));
        named.extend(open().skip(OPEN_NAMED + between).map(name));
        named.reverse();
        named
    }

    fn end(&mut self, track: TrackId, last: Record, open: Open, entries: Entries) {
        if let Some(p) = self.process_1.filter(|p| p.track == track) {
            let Timeline { spans, diagnostics, .. } = &mut *self.timeline;
            let place = |begun: Option<SpanId>| begun.map_or(String::new(), |s| entries.place(s, self.log, self.order));
            self.builder.end(spans, track, (p.name, NameId::EMPTY), p.to, diagnostics, place);
        }
        let until = self.open_until(track, last, entries);
        self.cut(track, until, entries);
        let place = |r: &Record| self.log.place(self.order.pieces[r.piece as usize].0, r.line);
        for (topic, wait) in open.waits.without_end() {
            let (until, problem) = wait.until(|span| self.timeline.spans.get(span).start);
            self.timeline.diagnostics.note(problem, || place(&wait.record));
            let (from, by) = (wait.from, WaitedOn::Holders(topic));
            self.timeline.waits.push(Wait { track, from, woken: until, until, by, uninterruptible: false });
        }
        for (topic, (from, record)) in open.holds.into_sorted() {
            self.timeline.holds.push(Hold { topic, track, from, to: Ns::MAX });
            let unmatched = &mut self.unmatched.entry(topic).or_default().holds;
            if unmatched.0 == 0 {
                unmatched.1 = place(&record);
            }
            unmatched.0 += 1;
        }
    }

    fn event(&mut self, m: Meaning, track: TrackId, at: Ns, record: Record, open: &mut Open) {
        let place = || self.log.place(self.order.pieces[record.piece as usize].0, record.line);
        let topic = m.detail;
        match m.event {
            Event::Wait => {
                let next = SpanId(timeline::number(self.timeline.spans.len()));
                open.waits.begin(topic, OpenWait::new(at, record, next), self.builder.innermost(track));
            }
            Event::Hold => open.holds.push(topic, (at, record)),
            Event::Unwait => match open.waits.end(topic) {
                Some(from) => {
                    let until = at.max(from);
                    self.timeline.waits.push(Wait {
                        track,
                        from,
                        woken: until,
                        until,
                        by: WaitedOn::Holders(topic),
                        uninterruptible: false,
                    });
                }
                None => self.timeline.diagnostics.note(DiagnosticKind::WaitWithoutBeginning, place),
            },
            Event::Release => {
                let from = match open.holds.pop(topic) {
                    Some((from, _)) => from.min(at),
                    None => {
                        let unmatched = &mut self.unmatched.entry(topic).or_default().releases;
                        if unmatched.0 == 0 {
                            unmatched.1 = place();
                        }
                        unmatched.0 += 1;
                        Ns::MIN
                    }
                };
                self.timeline.holds.push(Hold { topic, track, from, to: at });
            }
            Event::Scheduler => {}
            Event::Other => {
                let name = self.timeline.names.intern(&lossy(self.log.labels.text(record.label)));
                self.timeline.marks.push(Mark { at, name, track });
            }
        }
    }

    /// Counts unmatched holds and releases once all lives are placed.
    pub(super) fn finish(self) -> LeftOpen {
        let diagnostics = &mut self.timeline.diagnostics;
        for unmatched in self.unmatched.into_values() {
            let Unmatched { holds: (holds, held_at), releases: (releases, released_at) } = unmatched;
            let passed_on = holds.min(releases);
            diagnostics.note_many(DiagnosticKind::HoldPassedOn, passed_on, || held_at.clone());
            diagnostics.note_many(DiagnosticKind::HoldNeverReleased, holds - passed_on, || held_at);
            diagnostics.note_many(DiagnosticKind::ReleaseWithoutHold, releases - passed_on, || released_at);
        }
        self.left_open
    }
}

/// A life's entries, each of which begins a span: the first span's number, and the span of process 1 among them.
#[derive(Clone, Copy)]
struct Entries {
    life: Life,
    first: u32,
    process: Option<SpanId>,
}

impl Entries {
    /// Finds the place of the record that began a span. Slow, but only the first place of each kind of diagnostic is
    /// needed.
    fn place(&self, span: SpanId, log: &Log, order: &Order) -> String {
        let before = self.process.map_or(0, |process| u32::from(process < span));
        let number = (span.0 - self.first - before) as usize;
        let mut entered = order.records[self.life.begin..self.life.end].iter().filter(|r| r.what == What::Enter);
        let record = entered.nth(number).filter(|_| Some(span) != self.process);
        record.map_or(String::new(), |r| log.place(order.pieces[usize::from(r.piece)].0, r.line))
    }
}

/// The place of the first name that is not UTF-8: in a record, or else in the process table.
fn place_not_utf8(log: &Log, order: &Order) -> String {
    let is_not_utf8 = |label: u32| std::str::from_utf8(log.labels.text(label)).is_err();
    let in_records = order.records.iter().filter(|r| is_not_utf8(r.label)).map(|r| (r.piece, r.line)).min();
    let in_record = in_records.map(|(piece, line)| (order.pieces[usize::from(piece)].0, line));
    let in_users = || log.users.iter().find(|e| [e.exec, e.first_path].into_iter().flatten().any(is_not_utf8));
    let place = in_record.or_else(|| in_users().map(|e| (e.file, e.line)));
    place.map_or(String::new(), |(file, line)| log.place(file, line))
}

fn meaning(text: &[u8], timeline: &mut Timeline, not_utf8: &mut u64) -> Meaning {
    let (name, detail) = word(text);
    *not_utf8 += u64::from(std::str::from_utf8(text).is_err());
    let kind = match name {
        b"SYSINIT" | b"SYSUNINIT" => SpanKind::Initcall,
        b"DEVICE_PROBE" => SpanKind::Probe,
        b"DEVICE_ATTACH" => SpanKind::Attach,
        b"VFS_MOUNT" => SpanKind::Mount,
        _ => SpanKind::Call,
    };
    let event = match name {
        b"WAIT" => Event::Wait,
        b"UNWAIT" => Event::Unwait,
        b"HOLD" => Event::Hold,
        b"RELEASE" => Event::Release,
        _ if occupancy::is_scheduler_event(text) => Event::Scheduler,
        _ => Event::Other,
    };
    let (name, detail) = (timeline.names.intern(&lossy(name)), timeline.names.intern(&lossy(detail)));
    Meaning { name, detail, kind, event }
}
