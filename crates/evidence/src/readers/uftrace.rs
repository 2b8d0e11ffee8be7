//! The reader of [`uftrace`](crate::formats::uftrace).

use crate::boot::{Found, Placing};
use crate::formats::uftrace::calls::{self, Calls, Edge};
use crate::formats::uftrace::names::{Functions, Tasks};
use crate::formats::uftrace::{ENTRY_COST, NAME, NAME_COST};
use crate::input::{Input, records_max};
use crate::readers::reader::{EndCandidate, EndRank, Evidence, Reader, Taken};
use hashbrown::HashMap;
use timeline::{
    DiagnosticKind, Diagnostics, EndEvidence, NameId, Ns, Phase, SpanBuilder, SpanKind, Timeline, TrackId, TrackKind,
};

/// The files of one directory.
#[derive(Default)]
pub(crate) struct Files {
    /// Each thread's number, file name and content.
    threads: Vec<(u64, String, Vec<u8>)>,
    functions: Functions,
    tasks: Tasks,
}

/// The kind of a file in such a directory.
enum Part {
    Calls(u64),
    Map,
    /// Functions of the file of that name.
    Symbols(String),
    Tasks,
    /// A file that has nothing about calls.
    Other,
}

/// Recognises a file by name and content: neither alone is enough.
fn part(name: &str, bytes: &[u8]) -> Option<Part> {
    let name = name.rsplit(['/', ':']).next()?;
    let (stem, ending) = name.rsplit_once('.').unwrap_or((name, ""));
    match ending {
        "dat" if calls::recognise(bytes) => stem.parse().ok().map(Part::Calls),
        "map" if stem.starts_with("sid-") => Some(Part::Map),
        "sym" if bytes.starts_with(b"# symbols: ") => Some(Part::Symbols(stem.to_owned())),
        "txt" if stem == "task" && bytes.starts_with(b"SESS timestamp=") => Some(Part::Tasks),
        _ if bytes.starts_with(b"Ftrace!\0") => Some(Part::Other),
        _ => None,
    }
}

impl Reader for Files {
    fn take(&mut self, name: &str, bytes: &[u8], _diagnostics: &mut Diagnostics) -> Taken {
        let kind = match part(name, bytes) {
            None => return Taken::Nothing,
            Some(Part::Calls(tid)) => {
                self.threads.push((tid, name.to_owned(), bytes.to_vec()));
                "calls of a thread (uftrace)"
            }
            Some(Part::Map) => {
                self.functions.add_map(bytes);
                "mapped files (uftrace)"
            }
            Some(Part::Symbols(file)) => {
                self.functions.add_symbols(&file, bytes);
                "functions (uftrace)"
            }
            Some(Part::Tasks) => {
                self.tasks.add(bytes);
                "threads (uftrace)"
            }
            Some(Part::Other) => "information (uftrace)",
        };
        Taken::All(kind.to_owned())
    }

    fn add(&mut self, _own: Option<usize>, _input: Input, _diagnostics: &mut Diagnostics) {}

    fn has_boot(&self) -> bool {
        !self.threads.is_empty()
    }

    fn read<'f>(&'f mut self, _found: &mut Found<'f>, _timeline: &mut Timeline) -> Option<Box<dyn Evidence + 'f>> {
        (!self.threads.is_empty())
            .then(|| Box::new(Traced { files: self, last: None, names: HashMap::new() }) as Box<dyn Evidence>)
    }
}

/// The calls of one directory.
struct Traced<'f> {
    files: &'f Files,
    /// The time and track of the last record.
    last: Option<(Ns, TrackId)>,
    /// The name of each address that was looked up.
    names: HashMap<u64, NameId>,
}

impl Traced<'_> {
    /// The zero of the programs' clock, which counts from the machine's start. Without other evidence of a boot, time zero is
    /// the beginning of the trace.
    fn origin(&self, boot: &mut Placing<'_>) -> Ns {
        let clocks = &boot.clocks;
        if clocks.printk.is_some() || clocks.trace.is_some() || clocks.counter.is_some() {
            return boot.kernel_clock_zero();
        }
        let called = self.files.threads.iter().filter_map(|(.., bytes)| calls::first(bytes)).min();
        let began = called.into_iter().chain(self.files.tasks.began).min().unwrap_or_default();
        let phase = Phase::Other(boot.timeline.names.intern("calls of programs"));
        boot.timeline.boundary(phase, Ns::ZERO, Ns::ZERO, "uftrace: the session began");
        Ns::ZERO - began
    }

    /// Returns a thread's track, known or new.
    fn track(&self, tid: u64, origin: Ns, boot: &mut Placing<'_>) -> TrackId {
        let timeline = &mut boot.timeline;
        let existing = timeline.tracks.find(TrackKind::Thread, tid);
        let track = existing.unwrap_or_else(|| {
            let name = timeline.names.intern(self.files.tasks.name(tid));
            timeline.tracks.add(name, TrackKind::Thread, tid)
        });
        let parent = self.files.tasks.forked(tid);
        let parent = parent.and_then(|(at, by)| Some((at, timeline.tracks.find(TrackKind::Thread, by)?)));
        if let Some((at, by)) = parent.filter(|(_, by)| *by != track) {
            timeline.tracks.get_mut(track).created.get_or_insert((origin + at, by));
        }
        track
    }
}

impl Evidence for Traced<'_> {
    fn place(&mut self, boot: &mut Placing<'_>) {
        let origin = self.origin(boot);
        let mut spans = SpanBuilder::default();
        let mut last = Ns::ZERO;
        let bytes = self.files.threads.iter().map(|(.., bytes)| bytes.len()).sum();
        let mut room = records_max(bytes, 1);
        for (tid, file, bytes) in &self.files.threads {
            let track = self.track(*tid, origin, boot);
            let mut calls = Calls::of(bytes);
            for call in calls.by_ref() {
                let is_new = !self.names.contains_key(&call.address);
                let cost = ENTRY_COST * usize::from(call.edge == Edge::Entry) + NAME_COST * usize::from(is_new);
                if room < cost {
                    let diagnostics = &mut boot.timeline.diagnostics;
                    diagnostics.note_about(DiagnosticKind::EntriesBeyondBound, NAME, || file.clone());
                    continue;
                }
                room -= cost;
                let name = *self.names.entry(call.address).or_insert_with(|| {
                    let name = self.files.functions.name(call.address);
                    boot.timeline.names.intern(&name)
                });
                let at = origin + call.at;
                place_call((call.edge, name), at, track, file, &mut spans, boot);
                last = last.max(at);
                if self.last.is_none_or(|(known, _)| at > known) {
                    self.last = Some((at, track));
                }
            }
            calls.count_unreadable(file, &mut boot.timeline.diagnostics);
        }
        spans.finish(&mut boot.timeline.spans, last, &mut boot.timeline.diagnostics);
    }

    /// The last record, for a boot without other evidence.
    fn end(&self, _boot: &mut Placing<'_>) -> Option<EndCandidate> {
        let (at, track) = self.last?;
        let (rank, evidence) = (EndRank::LastSign, EndEvidence::LastSign);
        Some(EndCandidate { rank, at, error: Ns::ZERO, evidence, track: Some(track) })
    }
}

fn place_call(
    (edge, name): (Edge, NameId),
    at: Ns,
    track: TrackId,
    file: &str,
    spans: &mut SpanBuilder,
    boot: &mut Placing<'_>,
) {
    let timeline = &mut boot.timeline;
    let place = || file.to_owned();
    match edge {
        Edge::Entry => {
            let row = SpanBuilder::row(track, SpanKind::Call, name, NameId::EMPTY, at);
            spans.begin(&mut timeline.spans, row, &mut timeline.diagnostics, place);
        }
        Edge::Exit => {
            spans.end(&mut timeline.spans, track, (name, NameId::EMPTY), at, &mut timeline.diagnostics, |_| place());
        }
        Edge::Lost => timeline.diagnostics.note_about(DiagnosticKind::LinesUnreadable, NAME, place),
    }
}
