//! The steps that firmware and boot loaders stamp, counted from reset: what the formats of coreboot, U-Boot and UEFI have in common.

use crate::input::text::shorten;
use timeline::{DiagnosticKind, Diagnostics, Ns, Phase};

/// Far more than any firmware stamps.
const STEPS_MAX: usize = 1 << 12;

/// Where a step begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Since reset.
    pub at: Ns,
    /// What the program calls it.
    pub name: String,
    /// The phase of the boot that begins with it.
    pub begins: Option<Phase>,
}

/// The steps of one program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steps {
    /// Who stamped them.
    pub program: &'static str,
    /// In order of time.
    pub steps: Vec<Step>,
    /// What the program's stamps are rounded to.
    pub error: Ns,
    /// Whether the last stamp is the hand-over to the kernel.
    pub hands_over: bool,
}

impl Steps {
    /// None yet, with stamps in whole units of `error`.
    pub fn new(program: &'static str, error: Ns) -> Steps {
        Steps { program, steps: Vec::new(), error, hands_over: false }
    }

    /// Adds a step; one that is stamped earlier than the one before counts as stamped with it.
    pub fn add(&mut self, step: Step, diagnostics: &mut Diagnostics, place: impl FnOnce() -> String) {
        let last = self.steps.last().map_or(Ns::ZERO, |last| last.at);
        if self.steps.len() == STEPS_MAX {
            diagnostics.note_about(DiagnosticKind::EntriesBeyondBound, self.program, place);
            return;
        }
        if step.at < last {
            diagnostics.note(DiagnosticKind::ClockBack, place);
        }
        self.steps.push(Step { at: step.at.max(last), name: shorten(&step.name), ..step });
    }

    /// How long after reset the last stamp was taken.
    pub(crate) fn last(&self) -> Ns {
        self.steps.last().map_or(Ns::ZERO, |last| last.at)
    }
}
