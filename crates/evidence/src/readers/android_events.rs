//! Places the events of Android's boot: each begins a step of user space that lasts until the next one.
//!
//! Nothing in them tells the kernel and init from each other, so the time before the first event has no row.

use crate::boot::offers::Offers;
use crate::boot::{Found, Placing};
use crate::formats::android_events::{Events, event};
use crate::input::text::Line;
use crate::input::{File, Input};
use crate::readers::reader::{EndCandidate, EndRank, Evidence, Reader};
use std::rc::Rc;
use timeline::{Diagnostics, EndEvidence, Mark, NameId, Ns, Phase, SpanKind, SpanRow, Timeline, TrackId, TrackKind};

/// Events are cut to whole milliseconds.
const ERROR: Ns = Ns::from_ms(1);
/// The track of the system's steps, and its number, which no process has.
const TRACK: (&str, u64) = ("Android", 1 << 42);

/// The files with such lines.
#[derive(Default)]
pub(crate) struct Files(Vec<Rc<File>>);

impl Reader for Files {
    fn kinds(&self) -> &'static [&'static str] {
        &["events of Android's boot"]
    }

    fn is_line(&self, line: Line<'_>) -> Option<usize> {
        event(line.bytes).map(|_| 0)
    }

    fn add(&mut self, _own: Option<usize>, input: Input, _diagnostics: &mut Diagnostics) {
        self.0.push(input.file);
    }

    fn has_boot(&self) -> bool {
        !self.0.is_empty()
    }

    fn read<'f>(&'f mut self, _found: &mut Found<'f>, timeline: &mut Timeline) -> Option<Box<dyn Evidence + 'f>> {
        let mut events = Events::default();
        for file in &self.0 {
            events.read(&file.name, &file.bytes, &mut timeline.diagnostics);
        }
        (!events.events.is_empty()).then(|| Box::new(Progress { events, track: None }) as Box<dyn Evidence>)
    }
}

struct Progress {
    events: Events,
    /// The track of the steps, after they have been placed.
    track: Option<TrackId>,
}

impl Evidence for Progress {
    fn offer<'e>(&'e self, offers: &mut Offers<'e>) {
        offers.kernel_after(Ns::ZERO);
    }

    fn place(&mut self, boot: &mut Placing<'_>) {
        let (zero, init) = (boot.monotonic_zero(), boot.init());
        let timeline = &mut boot.timeline;
        let name = timeline.names.intern(TRACK.0);
        let track = timeline.tracks.add(name, TrackKind::Thread, TRACK.1);
        self.track = Some(track);
        let all = &self.events.events;
        for (place, event) in all.iter().enumerate() {
            let (name, start) = (timeline.names.intern(&event.name), zero + event.at);
            if place == 0 {
                timeline.tracks.get_mut(track).created = Some((start, init));
            }
            match all.get(place + 1).map(|next| zero + next.at).filter(|end| *end > start) {
                Some(end) => {
                    let (detail, kind) = (NameId::EMPTY, SpanKind::Message);
                    timeline.spans.push(SpanRow { name, detail, start, end, track, kind }, None);
                }
                None => timeline.marks.push(Mark { at: start, name, track }),
            }
        }
    }

    fn phases(&mut self, boot: &mut Placing<'_>) {
        let Some(first) = self.events.events.first() else { return };
        let at = boot.monotonic_zero() + first.at;
        boot.timeline.boundary(Phase::UserSpace, at, ERROR, &format!("Android: {}", first.name));
    }

    fn end(&self, boot: &mut Placing<'_>) -> Option<EndCandidate> {
        let (at, is_done) = self.events.end()?;
        let (rank, evidence) = match is_done {
            true => (EndRank::BootDone, EndEvidence::AndroidShown),
            false => (EndRank::LastSign, EndEvidence::LastSign),
        };
        Some(EndCandidate { rank, at: boot.monotonic_zero() + at, error: ERROR, evidence, track: self.track })
    }
}
