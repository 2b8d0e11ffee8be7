//! One thread's records become spans, waits, holds and marks.
//!
//! An exit closes the innermost entry of its name and detail, and what was entered inside that one. A wait ends with the
//! innermost `UNWAIT` of its topic. A thread that holds a topic twice holds it until it released it twice. A release
//! without a hold counts from the beginning, a hold without a release to no end: who blames them has to look when the
//! thread was created.

use super::line::What;
use super::order::{Life, Order};
use super::{Log, Record};
use crate::text::{lossy, word};
use hashbrown::HashMap;
use std::collections::BTreeMap;
use timeline::{Clock, Hold, Mark, NameId, Ns, SpanBuilder, SpanKind, Ticks, Timeline, TrackId, Wait, WaitedOn};

/// What a label means, in the timeline's names.
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
    Other,
}

/// Lays the records of all lives. `tracks` are the lives' tracks.
pub struct Laying<'a> {
    log: &'a Log,
    order: &'a Order,
    clock: &'a Clock,
    timeline: &'a mut Timeline,
    meanings: Vec<Meaning>,
    builder: SpanBuilder,
    unmatched: BTreeMap<NameId, Unmatched>,
    process_1: Option<Process1>,
}

/// Process 1 once it is in user space, on the track of its thread: what the kernel then does for it lies in it.
#[derive(Clone, Copy)]
pub struct Process1 {
    pub track: TrackId,
    pub from: Ns,
    pub to: Ns,
    pub name: NameId,
}

/// Holds and releases of a topic that have no counterpart on their own thread: how many, and where the first is.
#[derive(Default)]
struct Unmatched {
    holds: (u64, String),
    releases: (u64, String),
}

/// What is open on a thread, by topic.
#[derive(Default)]
struct Open {
    waits: HashMap<NameId, Vec<(Ns, Record)>>,
    holds: HashMap<NameId, Vec<(Ns, Record)>>,
}

impl<'a> Laying<'a> {
    pub fn new(
        log: &'a Log,
        order: &'a Order,
        clock: &'a Clock,
        process_1: Option<Process1>,
        timeline: &'a mut Timeline,
    ) -> Self {
        let mut strange = 0;
        let meanings = log.labels.iter().map(|text| meaning(text, timeline, &mut strange)).collect();
        timeline.diagnostics.note_many(
            "TSLOG names that are not UTF-8: shown as far as they are",
            strange,
            String::new,
        );
        // Every second record ends a span.
        timeline.spans.reserve(order.records.len() / 2);
        let (builder, unmatched) = (SpanBuilder::default(), BTreeMap::new());
        Laying { log, order, clock, timeline, meanings, builder, unmatched, process_1 }
    }

    /// Lays one life's records. Lives come in the order of their tracks, so that spans come sorted.
    pub fn life(&mut self, life: &Life, track: TrackId) {
        let mut open = Open::default();
        let mut piece = 0;
        let mut process_1 = self.process_1.filter(|p| p.track == track);
        let Some(&(mut last)) = self.order.records.get(life.begin) else { return };
        for &record in &self.order.records[life.begin..life.end] {
            while piece < record.piece {
                self.cut(track, piece, last);
                piece += 1;
            }
            last = record;
            let at = self.clock.to_ns(Ticks(record.ticks));
            if let Some(process) = process_1.take_if(|p| p.from < at) {
                self.begin_process(process);
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
                    let (spans, label) = (&mut timeline.spans, (m.name, m.detail));
                    self.builder.end(spans, track, label, at, &mut timeline.diagnostics, place);
                }
                What::Event => self.event(m, track, at, record, &mut open),
                // The life's name, which its track has.
                What::Thread => {}
            }
        }
        if let Some(process) = process_1 {
            self.begin_process(process);
        }
        self.end(track, last, open);
    }

    fn begin_process(&mut self, p: Process1) {
        let row = SpanBuilder::row(p.track, SpanKind::Process, p.name, NameId::EMPTY, p.from);
        self.builder.begin(&mut self.timeline.spans, row, &mut self.timeline.diagnostics, String::new);
    }

    /// A piece of the log is over: nothing says when what was entered in it ended. `last` is the thread's last record.
    fn cut(&mut self, track: TrackId, piece: u16, last: Record) {
        let at = self.clock.to_ns(Ticks(self.order.pieces[usize::from(piece)].1));
        let Timeline { spans, diagnostics, .. } = &mut *self.timeline;
        let place = || self.log.place(self.order.pieces[usize::from(last.piece)].0, last.line);
        self.builder.close(spans, track, at, diagnostics, place);
    }

    fn end(&mut self, track: TrackId, last: Record, open: Open) {
        if let Some(p) = self.process_1.filter(|p| p.track == track) {
            let Timeline { spans, diagnostics, .. } = &mut *self.timeline;
            self.builder.end(spans, track, (p.name, NameId::EMPTY), p.to, diagnostics, String::new);
        }
        self.cut(track, last.piece, last);
        let place = |r: &Record| self.log.place(self.order.pieces[r.piece as usize].0, r.line);
        for (topic, waits) in sorted(open.waits) {
            for (from, record) in waits {
                self.timeline.diagnostics.note("wait without an end", || place(&record));
                let (woken, by) = (Ns::MAX, WaitedOn::Holders(topic));
                self.timeline.waits.push(Wait { track, from, woken, until: Ns::MAX, by });
            }
        }
        for (topic, holds) in sorted(open.holds) {
            for (from, record) in holds {
                self.timeline.holds.push(Hold { topic, track, from, to: Ns::MAX });
                let unmatched = &mut self.unmatched.entry(topic).or_default().holds;
                if unmatched.0 == 0 {
                    unmatched.1 = place(&record);
                }
                unmatched.0 += 1;
            }
        }
    }

    fn event(&mut self, m: Meaning, track: TrackId, at: Ns, record: Record, open: &mut Open) {
        let place = || self.log.place(self.order.pieces[record.piece as usize].0, record.line);
        let topic = m.detail;
        match m.event {
            Event::Wait => open.waits.entry(topic).or_default().push((at, record)),
            Event::Hold => open.holds.entry(topic).or_default().push((at, record)),
            Event::Unwait => match open.waits.get_mut(&topic).and_then(Vec::pop) {
                Some((from, _)) => {
                    let until = at.max(from);
                    self.timeline.waits.push(Wait { track, from, woken: until, until, by: WaitedOn::Holders(topic) });
                }
                None => self.timeline.diagnostics.note("end of a wait without its beginning", place),
            },
            Event::Release => {
                let from = match open.holds.get_mut(&topic).and_then(Vec::pop) {
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
            Event::Other => {
                let name = self.timeline.names.intern(&lossy(self.log.labels.text(record.label)));
                self.timeline.marks.push(Mark { at, name, track });
            }
        }
    }

    /// All lives are laid.
    pub fn finish(self) {
        let diagnostics = &mut self.timeline.diagnostics;
        for unmatched in self.unmatched.into_values() {
            let Unmatched { holds: (holds, held_at), releases: (releases, released_at) } = unmatched;
            let passed_on = holds.min(releases);
            let kind = "holds that another thread released than took them, as GEOM events are";
            diagnostics.note_many(kind, passed_on, || held_at.clone());
            diagnostics.note_many("hold never released", holds - passed_on, || held_at);
            diagnostics.note_many("release without a hold", releases - passed_on, || released_at);
        }
    }
}

fn sorted(open: HashMap<NameId, Vec<(Ns, Record)>>) -> Vec<(NameId, Vec<(Ns, Record)>)> {
    let mut open: Vec<_> = open.into_iter().collect();
    open.sort_by_key(|(topic, _)| *topic);
    open
}

fn meaning(text: &[u8], timeline: &mut Timeline, strange: &mut u64) -> Meaning {
    let (name, detail) = word(text);
    *strange += u64::from(std::str::from_utf8(text).is_err());
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
        _ => Event::Other,
    };
    let (name, detail) = (timeline.names.intern(&lossy(name)), timeline.names.intern(&lossy(detail)));
    Meaning { name, detail, kind, event }
}
