//! A check by the kernel that decides an experiment instead of a time.

use super::LabBoot;
use crate::harmless;
use lab::experiments::Experiment;
use lab::verdict::{self, Verdict};
use serde::{Deserialize, Serialize};

/// The kernel's check, in both boots.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LabCheck {
    /// The name of the check.
    pub of: String,
    /// `correct` or `broken`, with the words that should break it; empty if the kernel does not report a verdict.
    pub slow: String,
    /// The same with the remedy.
    pub fast: String,
    /// The kernel's counts in the slow boot.
    pub slow_counted: String,
    /// The kernel's counts in the other boot.
    pub fast_counted: String,
}

impl LabCheck {
    /// Returns `None` if a time decides.
    pub(super) fn of(experiment: &Experiment, slow: LabBoot, fast: LabBoot) -> Option<LabCheck> {
        let result = |boot: LabBoot| {
            let checked = verdict::find(boot.console, experiment.check);
            checked.map_or_else(Default::default, |c| (c.verdict.as_str().to_owned(), c.counted.to_owned()))
        };
        let ((slow, slow_counted), (fast, fast_counted)) = (result(slow), result(fast));
        let of = experiment.check.to_owned();
        (!of.is_empty()).then_some(LabCheck { of, slow, fast, slow_counted, fast_counted })
    }

    /// True if the check is broken as it should be, and the remedy corrects it.
    pub(super) fn is_right(&self) -> bool {
        (self.slow.as_str(), self.fast.as_str()) == (Verdict::Broken.as_str(), Verdict::Correct.as_str())
    }

    pub(super) fn cells(&self) -> [String; 5] {
        let shown =
            |verdict: &str| if verdict.is_empty() { "no verdict".to_owned() } else { harmless(verdict).into_owned() };
        let change = format!("{} → {}", shown(&self.slow), shown(&self.fast));
        [harmless(&self.of).into_owned(), String::new(), String::new(), change, String::new()]
    }
}
