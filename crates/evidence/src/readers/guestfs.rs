//! libguestfs' events as evidence of a boot: the launch, and the kernel's messages with their arrival times.

use crate::boot::{Found, Placing};
use crate::formats::guestfs::{Events, is_event};
use crate::input::text::Line;
use crate::input::{FirstOf, Input};
use crate::readers::reader::{EndCandidate, EndRank, Evidence, Reader};
use timeline::{DiagnosticKind, Diagnostics, EndEvidence, Ns, Os, Timeline, TrackId};

/// Only the first file is used.
#[derive(Default)]
pub(crate) struct Files(FirstOf);

impl Reader for Files {
    fn kinds(&self) -> &'static [&'static str] {
        &["libguestfs events"]
    }

    /// These events quote lines of the kernel and the firmware.
    fn is_line(&self, line: Line<'_>) -> Option<usize> {
        is_event(line.bytes).then_some(0)
    }

    fn add(&mut self, _own: Option<usize>, input: Input, _diagnostics: &mut Diagnostics) {
        self.0.add(input);
    }

    fn has_boot(&self) -> bool {
        !self.0.is_empty()
    }

    fn read<'f>(&'f mut self, found: &mut Found<'f>, timeline: &mut Timeline) -> Option<Box<dyn Evidence + 'f>> {
        let diagnostics = &mut timeline.diagnostics;
        let first = self.0.used(DiagnosticKind::SecondLibguestfs, diagnostics)?;
        let events = Events::read(&first.name, &first.bytes, diagnostics).ok()?;
        *found.heard_messages = events.kernel_log(diagnostics);
        *found.is_heard = true;
        found.subject.os = Os::Linux; // the appliance runs Linux
        Some(Box::new(Launch { events, done: None }))
    }
}

struct Launch {
    events: Events,
    /// The end of the launch, and the track that the machine was busy with.
    done: Option<(Ns, TrackId)>,
}

impl Evidence for Launch {
    fn around(&mut self, boot: &mut Placing<'_>) {
        let init = boot.init();
        let placed = self.events.place(init, &mut boot.timeline);
        boot.before = placed.before;
        boot.kernel_heard = placed.kernel;
        self.done = placed.done;
    }

    fn end(&self, _boot: &mut Placing<'_>) -> Option<EndCandidate> {
        let (at, track) = self.done?;
        let (rank, evidence) = (EndRank::BootDone, EndEvidence::LibguestfsLaunched);
        Some(EndCandidate { rank, at, error: Ns::ZERO, evidence, track: Some(track) })
    }
}
