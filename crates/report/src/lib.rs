//! Views of one boot: the JSON summary, tables for a terminal, one HTML page, and exports for other tools.
//!
//! A view takes a [`Boot`] (a finalized timeline, its [`analysis`], and the [`Facts`] that no timeline holds) and
//! writes it. It must not open files or compute results. Only this crate decides the look of output. All text that came
//! from a machine passes [`harmless()`] (or the format's quoting) before it is written.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

mod bench;
mod boot;
mod callouts;
mod chart;
mod check;
mod commit_range;
mod diagnostics;
mod diff;
mod drivers_document;
mod exits_document;
mod exits_text;
mod export;
mod facts;
mod findings;
mod findings_text;
mod first_screen;
mod fit;
mod functions_document;
mod hardware;
mod history;
mod html;
mod kernel_log;
mod lab;
mod lake;
mod lanes;
mod layout;
mod ledger;
mod machine_boots;
mod milestones;
mod model_document;
mod overview;
pub mod page;
mod paragraph;
mod past_tries;
mod phase_colour;
mod places;
mod plot;
mod priced;
mod processes;
mod row_explanations;
mod sampled;
mod sampled_document;
mod schemas;
mod silences_document;
mod silences_text;
mod sources;
mod summary;
mod table;
mod terminal;
mod text;
mod trial;
mod trials_page;
mod units;
mod user_space;
mod warnings;
mod watched_document;
mod watched_text;
mod where_line;

pub use bench::{bench, bench_csv, bench_markdown, bench_page};
pub use boot::Boot;
pub use check::{Check, CheckedBoots};
pub use commit_range::{Bisected, CommitRange, Failed, Moved, Named, RangeCommit};
pub use diagnostics::DiagnosticLine;
pub use diff::{Compared, Diff, DiffAmount, DiffLine, DiffRow, DiffSide, Direction, Dither};
pub use drivers_document::{DeferredProbeLine, InitcallLine};
pub use exits_document::{ExitCounts, ExitFunctionLine, ExitKindLine, ExitPhaseLine, ExitWaitLine, ExitsLine};
pub use export::{Export, FORMATS, SampleFormat, format};
pub use facts::{Facts, Overhead, Subject, shell_words};
pub use findings::{
    ChangeLine, Finding, FindingEvidence, Findings, FoundLine, MissingLine, PastProof, Rule, finding_title,
};
pub use findings_text::explain;
pub use first_screen::first_screen;
pub use fit::{Fit, FitRecording, FitRow, Predicted};
pub use functions_document::{CallLine, Calls, FunctionLine};
pub use hardware::hardware;
pub use history::{LevelChange, Median, PastBenches, SCHEMA as HISTORY_SCHEMA};
pub use html::{Asks, page};
pub use kernel_log::kernel_log;
pub use lab::{Lab, LabAdded, LabAmount, LabBlame, LabBoot, LabCheck, LabFigure, LabTrial};
pub use lake::{
    LakeBoot, LakeCell, LakeKind, LakeMissing, LakeOutlier, LakePage, LakePageError, LakeRegression, LakeRow,
    LakeSaving, lake_page,
};
pub use lanes::{Label, Slice};
pub use layout::{Cutoff, Layout};
pub use ledger::{Ledger, LedgerPart, LedgerStep, StandsFor, State, StepKind};
pub use machine_boots::{
    BootPartLine, MachineBootLine, MachineBoots, MovedPart, SCHEMA as MACHINE_BOOTS_SCHEMA, StepLine, UpdateKind,
    UpdateLine,
};
pub use milestones::milestones;
pub use model_document::{MODEL_SCHEMA, ModelDocument, NotAModel, PriceLine, PricesLine};
pub use page::{ConsoleLine, PageBoot};
pub use paragraph::paragraph;
pub use phase_colour::{phase_colour, phase_tone};
pub use priced::{Priced, PricedLine};
pub use processes::processes;
pub use sampled_document::{SampledEventLines, SampledLine, SampledLines, SampledOnKind, SampledTrackLine};
pub use schemas::schemas;
pub use silences_document::{SilenceLine, SilencesLine, SilentEntry, SilentIn, SilentMoment, SilentWhere};
pub use summary::{ClockLine, EndLine, MilestoneLine, PhaseLine, Summary, summarize};
pub use terminal::{all_threads, calls, details, functions, headline, initcalls, rows, show};
pub use text::{Style, cut, harmless, harmless_bytes, json, write_json};
pub use trial::{ProofLine, Proofs, Together};
pub use trials_page::{PROOFS_NOTES, proofs_page};
pub use units::units;
pub use user_space::{AwaitedKind, ManagerName, ProcessLine, UnitLine, WaitedForLine, WokenByLine};
pub use warnings::WarningLine;
pub use watched_document::{ReadingLine, WatchedLine};
pub use where_line::WhereLine;

/// The most rows of a list whose length the evidence chooses. The rest is counted.
pub(crate) const MAX_LISTED: usize = timeline::SPAN_NAMES_MAX;
