//! The reasons why boots do not decide a budget, and the exit status that the user wants then.

use serde::{Deserialize, Serialize};

/// A reason why boots do not decide a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Undecided {
    /// There is no boot that reached its end mark.
    NoBoots,
    /// The boots have no evidence of the quantity, or the baseline's have not.
    NoEvidence,
    /// There are too few boots to decide, whatever they measure.
    TooFew,
    /// The boots are of another kernel than the budgets.
    OtherKernel,
    /// The boots are of other hardware than the baseline, or of other time.
    OtherSetup,
    /// The boots lie on both sides of the limit.
    Noise,
    /// The difference is no more than another layout of the code makes.
    Layout,
}

impl Undecided {
    /// True if the boots measured the quantity, and their noise alone leaves the budget open.
    pub fn is_measured(self) -> bool {
        matches!(self, Undecided::Noise | Undecided::Layout)
    }
}

/// The result of a check whose budgets are not exceeded, and not all decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnUndecided {
    /// It fails if a budget was not measured. Noise alone does not fail it.
    #[default]
    FailUnmeasured,
    Succeed,
    Fail,
    /// It ends with this exit status.
    Status(u8),
}

impl OnUndecided {
    /// Parses the user's choice: `ok`, `fail`, or an exit status.
    ///
    /// # Errors
    /// If it is another word. The error is a message for the user.
    pub fn parse(text: &str) -> Result<OnUndecided, String> {
        match text {
            "ok" => Ok(OnUndecided::Succeed),
            "fail" => Ok(OnUndecided::Fail),
            _ => match text.parse() {
                Ok(status) => Ok(OnUndecided::Status(status)),
                Err(_) => Err("write ok, fail, or an exit status up to 255".to_owned()),
            },
        }
    }

    /// True if a budget that is undecided for this reason fails the check.
    pub fn fails(self, why: Undecided) -> bool {
        match self {
            OnUndecided::FailUnmeasured => !why.is_measured(),
            OnUndecided::Succeed | OnUndecided::Status(0) => false,
            OnUndecided::Fail | OnUndecided::Status(_) => true,
        }
    }
}
