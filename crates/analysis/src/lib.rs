//! Answers from a timeline: pure functions, no I/O, no text layout.
//!
//! * [`phases`]: the phases of the boot, contiguous, summing to the total exactly;
//! * [`boot_path`]: the thread or device that the boot waited for at each instant, walked back from the end mark;
//! * [`tables`]: the path charged to rows that a developer can fix ([`Tables::wheres`]), to functions, and, as a
//!   different view, the sum over all threads;
//! * [`diff`]: two boots side by side, each function and each call path;
//! * [`Spread`]: the owners of the time in a span, including calls too short to be spans;
//! * [`WhatIf`]: the boot replayed with some of its work made shorter; [`Prices`]: the same by stretches of time, not
//!   names;
//! * [`priced`]: a deterministic boot at the prices of a machine;
//! * [`growth`]: how each row grows with the machine, over boots of several sizes;
//! * [`process_times`]: what each user-space process did, and what it waited for;
//! * [`initcalls`]: each from its call to its return;
//! * [`deferred_probes`]: the attempts that the kernel put off, and what they waited for;
//! * [`OwnTimes`]: the path's time on a thread itself, in any stretch of time;
//! * [`impossible`]: figures that contradict each other;
//! * [`floor`]: how much the code's layout alone changes a boot's length.
//!
//! Every function takes a finalized timeline ([`timeline::Timeline::finalize`]).
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

mod chain;
mod charge;
mod cpu_occupants;
mod deferred_probes;
mod diff;
pub mod floor;
mod groups;
mod holds;
mod impossible;
mod initcalls;
mod machine_model;
mod overlap;
mod own_times;
mod path;
mod phases;
mod polls;
mod priced;
mod process_times;
mod replay;
mod segments;
mod spread;
mod stays;
mod stretch;
mod tables;
mod total_time;
mod unit_starts;
mod waits;
mod what_if;

pub use chain::{Chain, Frame};
pub use charge::Things;
pub use deferred_probes::{Attempt, DeferredProbe, deferred_probes};
pub use diff::{Amount, Change, Diff, RowChange, Side, diff, row_changes};
pub use groups::{Groups, NotARule};
pub use impossible::impossible;
pub use initcalls::{Initcall, initcalls};
pub use machine_model::{Bound, MachineModel, Price};
pub use own_times::OwnTimes;
pub use path::boot_path;
pub use phases::{Phase, phases};
pub use priced::{Accesses, Counted, NotPriced, counted, priced};
pub use process_times::{ProcessTimes, WaitFor, Waited, Waker, process_times, processes_end};
pub use spread::{Follow, Spread};
pub use stays::{Stay, Stays};
pub use stretch::{BootPath, CpuHeld, Stretch, StretchKind};
pub use tables::{Row, RowKey, RowStretch, RowStretches, Tables, TrackNames, tables};
pub use what_if::{
    Becomes, Cannot, Cut, Prices, Range, Rung, RungWaits, Saving, Target, WhatIf, probed, share_beside,
    synchronous_probes,
};

use timeline::{Ns, Timeline};

/// Returns the time from zero to the end mark. Without an end mark: to the last event in the timeline.
pub fn total(timeline: &Timeline) -> Ns {
    let last_event = || {
        let spans = timeline.spans.iter().map(|(_, s)| s.end);
        let marks = timeline.marks.iter().map(|m| m.at);
        let boundaries = timeline.boundaries.iter().map(|b| b.at);
        spans.chain(marks).chain(boundaries).max().unwrap_or_default()
    };
    timeline.end.map_or_else(last_event, |end| end.at).max(Ns::ZERO)
}
