//! What ran before the kernel and stamped its own steps: coreboot, U-Boot, UEFI firmware. Each is a track, from power-on on.
//!
//! Their stamps count from reset, which lies before the zero of the kernel's clock. A stamp begins a step that lasts until the
//! next one. Nothing measures the way from the last stamp to the kernel's zero: it counts as no time, and who does not stamp
//! the hand-over itself is counted, because the boot then took longer than it shows.
//!
//! It reads no format: its readers give it steps. It must not move what the kernel says of itself.

use crate::boot::Boot;
use crate::boot::offers::Offers;
use crate::formats::steps::Steps;
use crate::readers::reader::{EndCandidate, EndRank, Evidence};
use timeline::{DiagnosticKind, EndEvidence, Mark, NameId, Ns, Phase, SpanKind, SpanRow, TrackId, TrackKind};

/// A kernel's clock is 0 so much after its first instruction at most, where it is not unpacked slowly.
const CLOCK_LATE: Ns = Ns::from_ms(100);

/// Whether something is known of what came after the firmware.
fn goes_on(boot: &Boot<'_>) -> bool {
    let timeline = &boot.timeline;
    let is_later = |of: TrackId| timeline.tracks.get(of).kind != TrackKind::Firmware;
    timeline.spans.iter().any(|(_, span)| is_later(span.track))
        || timeline.marks.iter().any(|mark| is_later(mark.track))
}

/// Steps as evidence of a boot.
pub(crate) struct BeforeKernel {
    steps: Steps,
    /// Set where they were placed: their track, and when they end.
    placed: Option<(TrackId, Ns)>,
}

impl BeforeKernel {
    /// Evidence, if there is any step.
    pub fn of<'e>(steps: Steps) -> Option<Box<dyn Evidence + 'e>> {
        (!steps.steps.is_empty()).then(|| Box::new(BeforeKernel { steps, placed: None }) as Box<dyn Evidence>)
    }

    /// When the machine was reset.
    fn reset(boot: &Boot<'_>) -> Ns {
        boot.kernel_clock_zero() - boot.kernel_clock_after
    }
}

impl Evidence for BeforeKernel {
    fn offer<'e>(&'e self, offers: &mut Offers<'e>) {
        offers.kernel_after(self.steps.last());
    }

    fn phases(&mut self, boot: &mut Boot<'_>) {
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
        // The kernel's clock begins a little after the kernel: what unpacks it has no stamp.
        if self.steps.last() == boot.kernel_clock_after && goes_on(boot) {
            let error = if self.steps.hands_over { self.steps.error } else { CLOCK_LATE };
            let evidence = format!("the kernel's clock is 0, {program} is done");
            boot.timeline.boundary(Phase::EarlyKernel, boot.kernel_clock_zero(), error, &evidence);
        }
    }

    fn around(&mut self, boot: &mut Boot<'_>) {
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

    /// Where nothing came after it, it is all there is of the boot.
    fn end(&self, boot: &mut Boot<'_>) -> Option<EndCandidate> {
        let (track, at) = self.placed?;
        if goes_on(boot) {
            if !self.steps.hands_over && boot.before == Some(track) {
                boot.timeline.diagnostics.note_about(DiagnosticKind::HandOverUnknown, self.steps.program, String::new);
            }
            return None;
        }
        let (rank, evidence) = (EndRank::LastSign, EndEvidence::LastSign);
        Some(EndCandidate { rank, at, error: self.steps.error, evidence, track: Some(track) })
    }
}
