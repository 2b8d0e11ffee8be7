//! The reader of [`tracks`]: slices of a track become spans, instants become marks.
//!
//! Without other evidence of a boot, the boot path is the track of the category for it, else the one whose slices cover the most time:
//! nothing says which track waited for which.

use crate::boot::{Found, Placing};
use crate::formats::perfetto;
use crate::formats::perfetto::tracks::{self, Edge, Event, KIND, Role, Tracks};
use crate::input::{FirstOf, Input};
use crate::readers::reader::{EndCandidate, EndRank, Evidence, Reader};
use timeline::{
    DiagnosticKind, Diagnostics, EndEvidence, Mark, NameId, Ns, Phase, SpanId, SpanKind, SpanRow, Timeline, TrackId,
    TrackKind,
};

/// Distinguishes the number of a track without a thread from a thread's.
const NO_THREAD: u64 = 1 << 63;

/// The traces of a recording: the first of several counts.
#[derive(Default)]
pub(crate) struct Files(FirstOf);

impl Reader for Files {
    fn is_whole(&self, bytes: &[u8]) -> Option<String> {
        perfetto::has_tracks(bytes).then(|| KIND.to_owned())
    }

    fn add(&mut self, _own: Option<usize>, input: Input, _diagnostics: &mut Diagnostics) {
        self.0.add(input);
    }

    fn has_boot(&self) -> bool {
        !self.0.is_empty()
    }

    fn read<'f>(&'f mut self, _found: &mut Found<'f>, timeline: &mut Timeline) -> Option<Box<dyn Evidence + 'f>> {
        let file = self.0.used(DiagnosticKind::SecondTrace, &mut timeline.diagnostics)?;
        let mut tracks = tracks::read(&file.name, &file.bytes, &mut timeline.names, &mut timeline.diagnostics);
        // All of a trace is on one clock.
        tracks.is_on_the_kernels_clock |= perfetto::recognise(&file.bytes);
        (!tracks.events.is_empty())
            .then(|| Box::new(Placed { file: &file.name, tracks, end: None }) as Box<dyn Evidence>)
    }
}

/// The tracks of one file.
struct Placed<'f> {
    file: &'f str,
    tracks: Tracks,
    /// The end and the track of the boot path, if nothing else shows the boot.
    end: Option<(Ns, EndEvidence, TrackId)>,
}

/// The slices of one track while they are placed.
#[derive(Clone, Default)]
struct Open {
    /// The open slices, outermost first, each with its role.
    slices: Vec<(SpanId, Role)>,
    /// The time that its outermost slices cover.
    covered: Ns,
    /// The end of the last of them.
    end: Option<Ns>,
    has_boot_path: bool,
}

/// The phases of a trace: each one's name and start, and the end of the last.
#[derive(Default)]
struct Phases {
    begun: Vec<(NameId, Ns)>,
    end: Option<Ns>,
}

impl Placed<'_> {
    /// The times of the whole, if the trace has phases: from the first one's start.
    fn began(&self) -> Ns {
        let first = |role: Role| self.tracks.events.iter().find(|event| event.role == role).map(|event| event.at);
        first(Role::Phase).or_else(|| first(Role::BootPath)).unwrap_or(self.tracks.events[0].at)
    }

    /// The tracks on the timeline. A thread is the one that other evidence has by its number.
    fn track_ids(&self, is_alone: bool, timeline: &mut Timeline) -> Vec<TrackId> {
        let mut used = vec![false; self.tracks.tracks.len()];
        self.tracks.events.iter().for_each(|event| used[event.track as usize] = true);
        let number = |(place, track): (usize, &tracks::Track)| {
            let known = track.tid.filter(|_| !is_alone).and_then(|tid| timeline.tracks.find(TrackKind::Thread, tid));
            match known {
                Some(known) => known,
                None if !used[place] => TrackId(0),
                None => timeline.tracks.add(track.name, TrackKind::Thread, track.tid.unwrap_or(track.uuid | NO_THREAD)),
            }
        };
        self.tracks.tracks.iter().enumerate().map(number).collect()
    }
}

/// Places one event. Slices of phases are only in `phases`.
fn place_event(
    event: &Event,
    at: Ns,
    track: TrackId,
    open: &mut Open,
    phases: &mut Phases,
    boot: (&mut Timeline, &str),
) {
    let (timeline, file) = boot;
    let row =
        |end: Ns| SpanRow { name: event.name, detail: NameId::EMPTY, start: at, end, track, kind: SpanKind::Stage };
    open.has_boot_path |= event.role == Role::BootPath;
    match event.edge {
        Edge::Begin => {
            if event.role == Role::Phase {
                phases.begun.push((event.name, at));
            }
            open.slices.push((timeline.spans.push(row(at), None), event.role));
        }
        Edge::Whole(length) => {
            let end = at + length;
            timeline.spans.push(row(end), None);
            open.cover(at, end);
        }
        Edge::End => {
            let Some((slice, role)) = open.slices.pop() else {
                return timeline.diagnostics.note(DiagnosticKind::ExitWithoutEntry, || file.to_owned());
            };
            timeline.spans.set_end(slice, at);
            if role == Role::Phase {
                phases.end = phases.end.max(Some(at));
            }
            if open.slices.is_empty() {
                open.cover(timeline.spans.get(slice).start, at);
            }
        }
        Edge::Instant => timeline.marks.push(Mark { at, name: event.name, track }),
    }
}

impl Open {
    fn cover(&mut self, from: Ns, to: Ns) {
        let from = self.end.map_or(from, |end| end.max(from));
        self.covered += (to - from).max(Ns::ZERO);
        self.end = self.end.max(Some(to));
    }
}

impl Evidence for Placed<'_> {
    fn place(&mut self, boot: &mut Placing<'_>) {
        let clocks = &boot.clocks;
        let is_alone = clocks.printk.is_none() && clocks.trace.is_none() && clocks.counter.is_none();
        if !is_alone && !self.tracks.is_on_the_kernels_clock {
            let kind = DiagnosticKind::TracksOnAnUnknownClock;
            return boot.timeline.diagnostics.note(kind, || self.file.to_owned());
        }
        let zero = if is_alone { Ns::ZERO - self.began() } else { boot.monotonic_zero() };
        let timeline = &mut boot.timeline;
        let ids = self.track_ids(is_alone, timeline);
        let mut open = vec![Open::default(); ids.len()];
        let mut phases = Phases::default();
        for event in &self.tracks.events {
            let place = event.track as usize;
            let boot = (&mut *timeline, self.file);
            place_event(event, zero + event.at, ids[place], &mut open[place], &mut phases, boot);
        }
        let last = self.tracks.events.last().map_or(Ns::ZERO, |event| zero + event.at);
        for track in &mut open {
            for (slice, _) in std::mem::take(&mut track.slices) {
                timeline.spans.set_end(slice, last);
                track.cover(timeline.spans.get(slice).start, last);
                timeline.diagnostics.note(DiagnosticKind::EntryWithoutExit, || self.file.to_owned());
            }
        }
        if !is_alone {
            return;
        }
        // The first in the file, if several are equal.
        let main = open.iter().enumerate().rev().max_by_key(|(_, track)| (track.has_boot_path, track.covered));
        let Some((main, track)) = main else { return };
        let end = phases.end.map(|end| (end, EndEvidence::PhasesEnd));
        let (at, evidence) = end.unwrap_or((track.end.unwrap_or(last), EndEvidence::TracksEnd));
        self.end = Some((at, evidence, ids[main]));
        place_phases(&phases, timeline);
    }

    fn end(&self, _boot: &mut Placing<'_>) -> Option<EndCandidate> {
        let (at, evidence, track) = self.end?;
        let rank = if evidence.is_mark() { EndRank::BootDone } else { EndRank::LastSign };
        Some(EndCandidate { rank, at, error: Ns::ZERO, evidence, track: Some(track) })
    }
}

/// The phases that the trace names, else one for all of it.
fn place_phases(phases: &Phases, timeline: &mut Timeline) {
    if phases.begun.is_empty() {
        let phase = Phase::Other(timeline.names.intern("tracks of programs"));
        timeline.boundary(phase, Ns::ZERO, Ns::ZERO, "Perfetto: the first event");
    }
    for (name, at) in &phases.begun {
        // Not the phase of that name: what follows from one of Linux is not in this trace.
        timeline.boundary(Phase::Other(*name), *at, Ns::ZERO, "Perfetto: a slice of the category “phase”");
    }
}
