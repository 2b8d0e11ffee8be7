//! A check whose verdict decides an experiment in the place of a time.

use super::LabBoot;
use crate::harmless;
use lab::experiments::Experiment;
use lab::verdict::{self, Verdict};
use serde::{Deserialize, Serialize};

/// A check of the kernel's, in both boots.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LabCheck {
    /// What was checked.
    pub of: String,
    /// `correct` or `broken`, with the words that are to break it; empty if the kernel does not say.
    pub slow: String,
    /// The same with the remedy.
    pub fast: String,
    /// What the kernel counted in the first.
    pub slow_counted: String,
    /// And in the other one.
    pub fast_counted: String,
}

impl LabCheck {
    /// None if a time decides.
    pub(super) fn of(experiment: &Experiment, slow: LabBoot, fast: LabBoot) -> Option<LabCheck> {
        let said = |boot: LabBoot| {
            let checked = verdict::find(boot.console, experiment.check);
            checked.map_or_else(Default::default, |c| (c.verdict.as_str().to_owned(), c.counted.to_owned()))
        };
        let ((slow, slow_counted), (fast, fast_counted)) = (said(slow), said(fast));
        let of = experiment.check.to_owned();
        (!of.is_empty()).then_some(LabCheck { of, slow, fast, slow_counted, fast_counted })
    }

    /// Broken as it is to be, and mended by the remedy.
    pub(super) fn is_right(&self) -> bool {
        (self.slow.as_str(), self.fast.as_str()) == (Verdict::Broken.as_str(), Verdict::Correct.as_str())
    }

    pub(super) fn cells(&self) -> [String; 5] {
        let said =
            |verdict: &str| if verdict.is_empty() { "no verdict".to_owned() } else { harmless(verdict).into_owned() };
        let change = format!("{} → {}", said(&self.slow), said(&self.fast));
        [harmless(&self.of).into_owned(), String::new(), String::new(), change, String::new()]
    }
}
