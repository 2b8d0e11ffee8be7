//! Programs that ran before the kernel and stamped their steps: coreboot, U-Boot, UEFI firmware. Each is a track that
//! begins at reset.
//!
//! Their stamps count from reset, which is before the zero of the kernel's clock. A stamp begins a step that lasts
//! until the next one. The time between the last stamp and the kernel's zero is not measured and counts as 0. If the
//! program does not stamp the hand-over itself, that is counted, because the boot took longer than shown.
//!
//! It reads no format: its readers give it steps. It must not move the kernel's own times.

use crate::boot::Placing;
use crate::boot::offers::Offers;
use crate::formats::steps::Steps;
use crate::readers::reader::{EndCandidate, EndRank, Evidence};
use timeline::{DiagnosticKind, EndEvidence, Mark, NameId, Ns, Phase, SpanKind, SpanRow, TrackId, TrackKind};

/// The kernel's clock begins at most this long after its first instruction, unless unpacking the kernel is slow.
const CLOCK_LATE: Ns = Ns::from_ms(100);

/// Steps as evidence of a boot.
pub(crate) struct BeforeKernel {
    steps: Steps,
    /// The track and the end of the steps, after they have been placed.
    placed: Option<(TrackId, Ns)>,
}

impl BeforeKernel {
    /// The evidence; `None` if there are no steps.
    pub(crate) fn of<'e>(steps: Steps) -> Option<Box<dyn Evidence + 'e>> {
        (!steps.steps.is_empty()).then(|| Box::new(BeforeKernel::new(steps)) as Box<dyn Evidence>)
    }

    pub(crate) fn new(steps: Steps) -> BeforeKernel {
        BeforeKernel { steps, placed: None }
    }

    /// The program's track, after its steps have been placed.
    pub(crate) fn track(&self) -> Option<TrackId> {
        self.placed.map(|(track, _)| track)
    }

    /// True if the timeline has evidence from after these steps.
    pub(crate) fn goes_on(boot: &Placing<'_>) -> bool {
        let timeline = &boot.timeline;
        let is_later = |track: TrackId| timeline.tracks.get(track).kind != TrackKind::Firmware;
        timeline.spans.iter().any(|(_, span)| is_later(span.track))
            || timeline.marks.iter().any(|mark| is_later(mark.track))
    }

    /// The time of the machine's reset.
    fn reset(boot: &Placing<'_>) -> Ns {
        boot.kernel_clock_zero() - boot.kernel_clock_after
    }
}

impl Evidence for BeforeKernel {
    fn offer<'e>(&'e self, offers: &mut Offers<'e>) {
        offers.kernel_after(self.steps.last());
    }

    fn phases(&mut self, boot: &mut Placing<'_>) {
        let (reset, program) = (BeforeKernel::reset(boot), self.steps.program);
        if self.steps.steps.first().is_some_and(|first| first.begins.is_none()) {
            boot.timeline.boundary(Phase::Firmware, reset, self.steps.error, &format!("{program} counts from here"));
        }
        for step in &self.steps.steps {
            if let Some(phase) = step.begins {
                let evidence = format!("{program}: {}", step.name);
                boot.timeline.boundary(phase, reset + step.at, self.steps.error, &evidence);
            }
        }
        // The kernel's clock begins a little after the kernel: the code that unpacks it has no stamp.
        if self.steps.last() == boot.kernel_clock_after && BeforeKernel::goes_on(boot) {
            let error = if self.steps.hands_over { self.steps.error } else { CLOCK_LATE };
            let evidence = format!("the kernel's clock is 0, {program} is done");
            boot.timeline.boundary(Phase::EarlyKernel, boot.kernel_clock_zero(), error, &evidence);
        }
    }

    fn around(&mut self, boot: &mut Placing<'_>) {
        let reset = BeforeKernel::reset(boot);
        let timeline = &mut boot.timeline;
        let name = timeline.names.intern(self.steps.program);
        let track = timeline.tracks.named(name, TrackKind::Firmware);
        let steps = &self.steps.steps;
        for (place, step) in steps.iter().enumerate() {
            let (name, start) = (timeline.names.intern(&step.name), reset + step.at);
            match steps.get(place + 1).map(|next| reset + next.at).filter(|end| *end > start) {
                Some(end) => {
                    let (detail, kind) = (NameId::EMPTY, SpanKind::Message);
                    timeline.spans.push(SpanRow { name, detail, start, end, track, kind }, None);
                }
                None => timeline.marks.push(Mark { at: start, name, track }),
            }
        }
        let ends = reset + self.steps.last();
        self.placed = Some((track, ends));
        if self.steps.hands_over || boot.before.is_none() {
            boot.before = Some(track);
        }
    }

    /// If no evidence is later, these steps are the whole boot.
    fn end(&self, boot: &mut Placing<'_>) -> Option<EndCandidate> {
        let (track, at) = self.placed?;
        if BeforeKernel::goes_on(boot) {
            if !self.steps.hands_over && boot.before == Some(track) {
                boot.timeline.diagnostics.note_about(DiagnosticKind::HandOverUnknown, self.steps.program, String::new);
            }
            return None;
        }
        let (rank, evidence) = (EndRank::LastSign, EndEvidence::LastSign);
        Some(EndCandidate { rank, at, error: self.steps.error, evidence, track: Some(track) })
    }
}
