//! The steps that firmware and boot loaders stamp, counted from reset: what the formats of coreboot, U-Boot and UEFI have in common.

use crate::input::text::shorten;
use timeline::{DiagnosticKind, Diagnostics, Ns, Phase};

/// Far more than any firmware stamps.
const STEPS_MAX: usize = 1 << 12;

/// A time in all is long from this part of the program's time on.
const LONG_SHARE: i64 = 100;

/// The beginning of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Time since reset.
    pub at: Ns,
    /// The program's name for it.
    pub name: String,
    /// The phase of the boot that begins with it.
    pub begins: Option<Phase>,
}

/// The steps of one program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steps {
    /// The program that stamped them.
    pub program: &'static str,
    /// The steps, in order of time.
    pub steps: Vec<Step>,
    /// The unit that the program's stamps are rounded to.
    pub error: Ns,
    /// True if the last stamp is the hand-over to the kernel.
    pub hands_over: bool,
    /// The times that the program spent in one kind of work in all, within the steps: the name and the place of each.
    pub(crate) sums: Vec<(String, Ns, String)>,
}

impl Steps {
    /// An empty list, for stamps in whole units of `error`.
    pub(crate) fn new(program: &'static str, error: Ns) -> Steps {
        Steps { program, steps: Vec::new(), error, hands_over: false, sums: Vec::new() }
    }

    /// Adds a step. A stamp earlier than the previous one counts as equal to it.
    pub(crate) fn add(&mut self, step: Step, diagnostics: &mut Diagnostics, place: impl FnOnce() -> String) {
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

    /// Adds a time in all.
    pub(crate) fn add_sum(&mut self, name: &str, sum: Ns, diagnostics: &mut Diagnostics, place: impl Fn() -> String) {
        if self.sums.len() == STEPS_MAX {
            return diagnostics.note_about(DiagnosticKind::EntriesBeyondBound, self.program, place);
        }
        self.sums.push((shorten(name), sum, place()));
    }

    /// Reports the times in all, each by its name if it is worth it. Nothing says in which steps they were.
    pub(crate) fn report_sums(&self, diagnostics: &mut Diagnostics) {
        for (name, sum, place) in &self.sums {
            let is_long = sum.0.saturating_mul(LONG_SHARE) >= self.last().0;
            let (kind, about) = match is_long {
                true => (DiagnosticKind::LongSumWithoutPlace, format!("{}: {name}", self.program)),
                false => (DiagnosticKind::SumWithoutPlace, self.program.to_owned()),
            };
            diagnostics.add(kind, &about, 1, Some(*sum), || format!("{place} {name}"));
        }
    }

    /// The time of the last stamp since reset.
    pub(crate) fn last(&self) -> Ns {
        self.steps.last().map_or(Ns::ZERO, |last| last.at)
    }
}
