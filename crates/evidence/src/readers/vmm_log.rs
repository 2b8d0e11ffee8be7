//! Places the log of a virtual machine monitor: its steps until the vCPUs run, and the end of the guest's boot where the guest reports it.
//!
//! The guest's kernel begins when the vCPUs start. Without evidence of the guest, the time from there is one phase.

use crate::boot::offers::Offers;
use crate::boot::{Found, Placing};
use crate::formats::vmm_log::{Start, is_line, read};
use crate::input::text::Line;
use crate::input::{FirstOf, Input};
use crate::readers::before_kernel::BeforeKernel;
use crate::readers::reader::{EndCandidate, EndRank, Evidence, Reader};
use timeline::{DiagnosticKind, Diagnostics, EndEvidence, Mark, Ns, Phase, Timeline, TrackId, TrackKind};

/// The error of the guest's report: it leaves the guest before the line is stamped.
const ERROR: Ns = Ns::from_us(100);
const GUEST: &str = "guest";

/// Only the first file is used.
#[derive(Default)]
pub(crate) struct Files(FirstOf);

impl Reader for Files {
    fn kinds(&self) -> &'static [&'static str] {
        &["log of a VMM"]
    }

    fn is_line(&self, line: Line<'_>) -> Option<usize> {
        is_line(line.bytes).then_some(0)
    }

    fn add(&mut self, _own: Option<usize>, input: Input, _diagnostics: &mut Diagnostics) {
        self.0.add(input);
    }

    fn has_boot(&self) -> bool {
        !self.0.is_empty()
    }

    fn read<'f>(&'f mut self, found: &mut Found<'f>, timeline: &mut Timeline) -> Option<Box<dyn Evidence + 'f>> {
        // The recorder's own file has the same steps by the clock of the other evidence.
        if !found.is_imported() {
            return None;
        }
        let diagnostics = &mut timeline.diagnostics;
        let first = self.0.used_about(DiagnosticKind::SecondStatement, self.kinds()[0], diagnostics)?;
        let start = read(&first.name, &first.bytes, diagnostics)?;
        let before = BeforeKernel::new(start.steps.clone());
        Some(Box::new(Machine { start, before, guest: None }))
    }
}

struct Machine {
    start: Start,
    before: BeforeKernel,
    /// The guest's track, if nothing else is known of the guest.
    guest: Option<TrackId>,
}

impl Machine {
    /// A time of the log's on the timeline.
    fn at(&self, boot: &Placing<'_>, since_first: Ns) -> Ns {
        boot.kernel_clock_zero() - self.start.steps.last() + since_first
    }
}

impl Evidence for Machine {
    fn offer<'e>(&'e self, offers: &mut Offers<'e>) {
        self.before.offer(offers);
    }

    fn phases(&mut self, boot: &mut Placing<'_>) {
        let began = self.at(boot, self.start.steps.last());
        let is_alone = !BeforeKernel::goes_on(boot);
        self.before.phases(boot);
        if is_alone && self.start.booted.is_some() {
            let timeline = &mut boot.timeline;
            let name = timeline.names.intern(GUEST);
            self.guest = Some(timeline.tracks.add(name, TrackKind::Thread, 0));
            timeline.boundary(Phase::Other(name), began, self.start.steps.error, "the VMM has started the vCPUs");
        }
    }

    fn around(&mut self, boot: &mut Placing<'_>) {
        self.before.around(boot);
        let reports: Vec<_> = self.start.reports.iter().map(|(at, text)| (self.at(boot, *at), text)).collect();
        let began = self.at(boot, self.start.steps.last());
        let timeline = &mut boot.timeline;
        if let (Some(guest), Some(monitor)) = (self.guest, self.before.track()) {
            timeline.tracks.get_mut(guest).created = Some((began, monitor));
        }
        for (at, text) in reports {
            let name = timeline.names.intern(text);
            let track = timeline.tracks.named(timeline.names.intern(GUEST), TrackKind::Console);
            timeline.marks.push(Mark { at, name, track });
        }
    }

    fn end(&self, boot: &mut Placing<'_>) -> Option<EndCandidate> {
        let Some(booted) = self.start.booted else { return self.before.end(boot) };
        let (rank, evidence, at) = (EndRank::BootDone, EndEvidence::BootTimer, self.at(boot, booted));
        Some(EndCandidate { rank, at, error: ERROR, evidence, track: self.guest })
    }
}
