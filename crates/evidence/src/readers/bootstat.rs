//! The reader of [`bootstat`](crate::formats::bootstat).

use crate::boot::offers::Offers;
use crate::boot::{Found, Placing};
use crate::formats::bootstat::{Events, LOGIN, NAME, TICK, named};
use crate::input::Input;
use crate::input::text::Line;
use crate::readers::reader::{EndCandidate, EndRank, Evidence, Reader, Taken};
use timeline::{Diagnostics, EndEvidence, Mark, Milestone, MilestoneKind, Ns, Phase, Timeline, TrackKind};

/// The files of one machine.
#[derive(Default)]
pub(crate) struct Files(Events);

impl Reader for Files {
    fn kinds(&self) -> &'static [&'static str] {
        &["events of Chrome OS (bootstat)"]
    }

    fn take(&mut self, name: &str, bytes: &[u8], diagnostics: &mut Diagnostics) -> Taken {
        match self.0.take(name, bytes, diagnostics) {
            true => Taken::All(self.kinds()[0].to_owned()),
            false => Taken::Nothing,
        }
    }

    fn is_line(&self, line: Line<'_>) -> Option<usize> {
        named(line.bytes).map(|_| 0)
    }

    fn add(&mut self, _own: Option<usize>, input: Input, diagnostics: &mut Diagnostics) {
        self.0.read(&input.file.name, &input.file.bytes, diagnostics);
    }

    fn has_boot(&self) -> bool {
        !self.0.events.is_empty()
    }

    fn read<'f>(&'f mut self, _found: &mut Found<'f>, _timeline: &mut Timeline) -> Option<Box<dyn Evidence + 'f>> {
        let mut events = std::mem::take(&mut self.0);
        events.events.sort_by_key(|event| event.at);
        (!events.events.is_empty()).then(|| Box::new(events) as Box<dyn Evidence>)
    }
}

impl Evidence for Events {
    fn offer<'e>(&'e self, offers: &mut Offers<'e>) {
        offers.kernel_after(Ns::ZERO);
    }

    fn place(&mut self, boot: &mut Placing<'_>) {
        let zero = boot.monotonic_zero();
        let timeline = &mut boot.timeline;
        let name = timeline.names.intern(NAME);
        let track = timeline.tracks.named(name, TrackKind::Console);
        for event in &self.events {
            let name = timeline.names.intern(&event.name);
            timeline.marks.push(Mark { at: zero + event.at, name, track });
        }
        if let Some(login) = self.events.iter().find(|event| event.name == LOGIN) {
            let (kind, at) = (MilestoneKind::LoginPrompt, zero + login.at);
            timeline.passed.push(Milestone { kind, at, error: TICK, track: None });
        }
    }

    fn phases(&mut self, boot: &mut Placing<'_>) {
        let zero = boot.kernel_clock_zero();
        boot.timeline.boundary(Phase::EarlyKernel, zero, TICK, "bootstat counts from the kernel's start");
    }

    /// If no other evidence shows the end, the boot lasted at least until the last event.
    fn end(&self, boot: &mut Placing<'_>) -> Option<EndCandidate> {
        let at = boot.monotonic_zero() + self.events.last()?.at;
        let (rank, evidence) = (EndRank::LastSign, EndEvidence::LastSign);
        Some(EndCandidate { rank, at, error: TICK, evidence, track: None })
    }
}
