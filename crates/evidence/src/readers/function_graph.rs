//! The reader of [`function_graph`](crate::formats::function_graph).

use crate::boot::offers::Offers;
use crate::boot::{Found, Placing};
use crate::formats::function_graph::{Call, Entry, HEADING, Runner, entries};
use crate::input::text::lossy;
use crate::input::{FirstOf, Input};
use crate::readers::reader::{EndCandidate, EndRank, Evidence, Reader};
use hashbrown::HashMap;
use timeline::{DiagnosticKind, Diagnostics, EndEvidence, NameId, Ns, Os, SpanBuilder, SpanKind, Timeline, TrackId};

/// For each entry: the time of its track's next entry.
fn next_of_each(entries: &[Entry<'_>]) -> Vec<Option<Ns>> {
    let mut next: HashMap<u64, Ns> = HashMap::new();
    let mut all: Vec<Option<Ns>> =
        entries.iter().rev().map(|entry| next.insert(entry.runner.key(), entry.at)).collect();
    all.reverse();
    all
}

/// The first file counts.
#[derive(Default)]
pub(crate) struct Files(FirstOf);

impl Reader for Files {
    fn is_whole(&self, bytes: &[u8]) -> Option<String> {
        bytes.starts_with(HEADING).then(|| "calls of a kernel (function_graph)".to_owned())
    }

    fn add(&mut self, _own: Option<usize>, input: Input, _diagnostics: &mut Diagnostics) {
        self.0.add(input);
    }

    fn has_boot(&self) -> bool {
        !self.0.is_empty()
    }

    fn read<'f>(&'f mut self, found: &mut Found<'f>, timeline: &mut Timeline) -> Option<Box<dyn Evidence + 'f>> {
        let file = self.0.used(DiagnosticKind::SecondTrace, &mut timeline.diagnostics)?;
        let entries = entries(&file.name, &file.bytes, &mut timeline.diagnostics);
        if entries.is_empty() {
            return None;
        }
        found.subject.os = Os::Linux;
        Some(Box::new(Graph { file: &file.name, entries, last: None }))
    }
}

/// All calls of a file.
struct Graph<'f> {
    file: &'f str,
    entries: Vec<Entry<'f>>,
    /// The time and track of the last call's start or end.
    last: Option<(Ns, TrackId)>,
}

impl Evidence for Graph<'_> {
    fn offer<'e>(&'e self, offers: &mut Offers<'e>) {
        offers.kernel_after(Ns::ZERO);
    }

    fn place(&mut self, boot: &mut Placing<'_>) {
        let origin = boot.kernel_clock_zero();
        let timeline = &mut boot.timeline;
        let tracks_before = timeline.tracks.iter().count();
        let mut spans = SpanBuilder::default();
        // Each track is looked up only once: a look-up goes through all tracks.
        let mut tracks: HashMap<u64, TrackId> = HashMap::new();
        for (entry, next) in self.entries.iter().zip(next_of_each(&self.entries)) {
            let (kind, id) = entry.runner.track();
            let track = *tracks.entry(entry.runner.key()).or_insert_with(|| {
                if let Some((track, _)) =
                    timeline.tracks.iter().take(tracks_before).find(|(_, t)| (t.kind, t.id) == (kind, id))
                {
                    return track;
                }
                let name = match entry.runner {
                    Runner::Thread(name, _) => timeline.names.intern(&lossy(name)),
                    Runner::Cpu(cpu) => timeline.names.intern(&format!("CPU {cpu}")),
                };
                timeline.tracks.add(name, kind, id)
            });
            let (at, place) = (origin + entry.at, || self.file.to_owned());
            let mut until = at;
            let begin = |name: &[u8], names: &mut timeline::Names| {
                let name = names.intern(&lossy(name));
                (name, SpanBuilder::row(track, SpanKind::Call, name, NameId::EMPTY, at))
            };
            match entry.call {
                Call::Begins(name) => {
                    let (_, row) = begin(name, &mut timeline.names);
                    spans.begin(&mut timeline.spans, row, &mut timeline.diagnostics, place);
                }
                Call::Leaf(name, length) => {
                    let (name, row) = begin(name, &mut timeline.names);
                    // Stamps are cut to microseconds, lengths are not. So this call ends at the latest where the next
                    // one begins.
                    until = next.map_or(at + length, |next| (at + length).min(origin + next).max(at));
                    spans.begin(&mut timeline.spans, row, &mut timeline.diagnostics, place);
                    let named = (name, NameId::EMPTY);
                    spans.end(&mut timeline.spans, track, named, until, &mut timeline.diagnostics, |_| place());
                }
                Call::Ends => {
                    let innermost = spans.innermost(track).map(|id| timeline.spans.get(id));
                    // No call is open if the tracer was switched on inside this one.
                    let Some(open) = innermost else { continue };
                    let named = (open.name, open.detail);
                    spans.end(&mut timeline.spans, track, named, at, &mut timeline.diagnostics, |_| place());
                }
            }
            if self.last.is_none_or(|(last, _)| until > last) {
                self.last = Some((until, track));
            }
        }
        let last = self.last.map_or(origin, |(at, _)| at);
        spans.finish(&mut timeline.spans, last, &mut timeline.diagnostics);
    }

    /// The last call, for a boot without other evidence.
    fn end(&self, _boot: &mut Placing<'_>) -> Option<EndCandidate> {
        let (at, track) = self.last?;
        let (rank, evidence) = (EndRank::LastSign, EndEvidence::LastSign);
        Some(EndCandidate { rank, at, error: Ns::ZERO, evidence, track: Some(track) })
    }
}
