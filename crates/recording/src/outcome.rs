//! The end of a recorded boot, as `recording.json` has it: the outcome and the end mark.

use serde::{Deserialize, Serialize};

/// The outcome of a boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Outcome {
    pub kind: OutcomeKind,
    /// The line, reason or message that shows it.
    #[serde(default)]
    pub detail: String,
    /// The time in ns since time zero, if known.
    #[serde(default)]
    pub at_ns: Option<i64>,
}

/// The ways in which a boot can end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OutcomeKind {
    /// The end mark was reached.
    Reached,
    /// The guest's kernel panicked.
    Panic,
    /// The guest reset itself before the end mark.
    Reset,
    /// The guest powered itself off before the end mark.
    PowerOff,
    /// No output appeared on the console, kernel log and disks did not change, and the CPUs stood still.
    Hang,
    /// The time limit passed.
    Timeout,
    /// The user stopped it.
    Interrupted,
    /// The virtual machine monitor failed.
    VmmFailed,
    /// A patch of the guest's code could not be applied, or the boot never reached its place. So this is not the
    /// requested boot.
    Unpatched,
    /// The unit at which the boot should have ended failed.
    UnitFailed,
    /// The connection to the board ended.
    LineLost,
}

impl OutcomeKind {
    /// The word in `recording.json`, and everywhere else.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            OutcomeKind::Reached => "reached",
            OutcomeKind::Panic => "panic",
            OutcomeKind::Reset => "reset",
            OutcomeKind::PowerOff => "power-off",
            OutcomeKind::Hang => "hang",
            OutcomeKind::Timeout => "timeout",
            OutcomeKind::Interrupted => "interrupted",
            OutcomeKind::VmmFailed => "vmm-failed",
            OutcomeKind::Unpatched => "unpatched",
            OutcomeKind::UnitFailed => "unit-failed",
            OutcomeKind::LineLost => "line-lost",
        }
    }
}

/// The kind of event that ends the measured boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EndMark {
    /// The kernel handed over to process 1, which reported it.
    Init,
    /// The guest powered the machine off.
    PowerOff,
    /// The guest reset the machine, because it cannot power it off.
    Reset,
    /// A line of output matched.
    Line,
    /// The guest answered the host on its network.
    Answer,
    /// A thread with the requested name ran.
    Process,
}

/// The event that ends the measured boot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct End {
    /// The kind of event; see [`End::mark`] for recordings without this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<EndMark>,
    /// The event as text: `init`, `power-off`, or the line that matched.
    #[serde(default)]
    pub what: String,
    /// The time when the recorder saw it, in ns since time zero.
    #[serde(default)]
    pub at_ns: i64,
    /// The most by which it may have been earlier, in ns: the interval between two polls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_ns: Option<i64>,
    /// The kernel's printk time stamp of the line that matched, if the line was found in the kernel log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub printk_ns: Option<i64>,
}

impl End {
    /// The kind of event. Recordings from before `mark` existed have only `what`. There, a line that is exactly `init`
    /// or `power-off` counts as the event of that name.
    #[must_use]
    pub fn mark(&self) -> EndMark {
        self.mark.unwrap_or(match self.what.as_str() {
            "init" => EndMark::Init,
            "power-off" => EndMark::PowerOff,
            _ => EndMark::Line,
        })
    }
}
