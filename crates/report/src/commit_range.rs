//! Ranges of commits: the cost of each commit, and the search for the first slow one.
//!
//! As documents they have the schemas `bootscope.range/1` and `bootscope.bisect/1`; fields are added, never renamed or
//! removed.

use crate::bench::of_time;
use crate::diff::{Diff, DiffLine, changed_lines};
use crate::paragraph::paragraph;
use crate::table::{Align, Column, Line, render};
use crate::text::{counted, percent};
use crate::trial::{time, unit_of};
use crate::{Layout, harmless};
pub use benchmark::range::Failed;
use benchmark::range::{Commit, Found, Verdict};
use serde::{Deserialize, Serialize};
use statistics::Interval;
use statistics::verdict::{Basis, Change, Comparison};
use std::fmt::Write;
use timeline::Unit;

/// The cost of each commit of a range.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CommitRange {
    /// `bootscope.range/1`.
    pub schema: String,
    pub repo: String,
    /// The bench, whose folder has every boot.
    pub bench: String,
    /// True if boots were deterministic: all `_ns` are then guest time, one for each instruction.
    #[serde(default)]
    pub deterministic: bool,
    /// The commits, the oldest first. The first is the parent of the range, if the range has one parent.
    pub commits: Vec<RangeCommit>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RangeCommit {
    /// The full commit id.
    pub commit: String,
    /// The first line of its message.
    pub subject: String,
    /// The reason why it could not be measured; `null` if it was.
    pub cannot_say: Option<String>,
    /// The hash of its kernel; `null` if it was not built. Commits with the same hash share their boots.
    #[serde(default)]
    pub image: Option<String>,
    /// True if its kernel is that of the last measured commit before it, byte for byte.
    #[serde(default)]
    pub is_same_image: bool,
    /// The median of its boots; `null` if no boot reached its end mark.
    pub median_ns: Option<Interval>,
    /// The comparison with the last measured commit before it.
    pub step: Option<Comparison>,
}

/// The first slow commit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Bisected {
    /// `bootscope.bisect/1`.
    pub schema: String,
    pub repo: String,
    /// The good end.
    pub good: String,
    /// The bad end.
    pub bad: String,
    /// The verdict of the search; `null` if it was stopped.
    pub verdict: Option<Verdict>,
    /// The first slow commit, or the commits that may be the first slow one.
    pub candidates: Vec<Named>,
    /// The probability that the first slow commit is among them.
    pub probability: f64,
    /// The ratio of the bad end to the good end; the other ratios have the same form.
    pub ends: Option<Interval>,
    /// The ratio measured just before the candidates.
    pub before: Option<Interval>,
    /// The ratio measured from the candidates on.
    pub after: Option<Interval>,
    /// The merges that brought the commit in, outermost first. The ratios above are then of the innermost merge's own
    /// line.
    pub merges: Vec<Named>,
    /// True if boots were deterministic: each image is then booted once, or with several layouts if the step is small.
    #[serde(default)]
    pub deterministic: bool,
    /// The functions that differ between the first slow commit and the measured one before it, if calls were followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved: Option<Moved>,
    /// The number of kernels that were built.
    pub kernels: usize,
    /// For deterministic boots, the number of different images that were booted.
    #[serde(default)]
    pub images: usize,
    /// For deterministic boots, their number.
    #[serde(default)]
    pub boots: usize,
    /// The number of pairs of boots.
    pub pairs: usize,
    /// Commits that could not be measured.
    pub cannot_say: Vec<Failed>,
    /// The folder of every boot.
    pub evidence: String,
}

/// The calls that differ between two boots: the functions and the call paths that moved the boot path most.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Moved {
    /// The recordings before and after the step: `bootscope diff` compares all of them.
    pub before: String,
    pub after: String,
    /// The functions, the greatest effect on the boot path first.
    pub functions: Vec<DiffLine>,
    /// Their call paths, in the same order.
    pub paths: Vec<DiffLine>,
}

/// The most functions, and the most paths, that a search names.
const MAX_MOVED: usize = 5;

impl Moved {
    /// Takes the greatest changes of a comparison.
    pub fn of(diff: Diff) -> Moved {
        let first = |lines: Vec<DiffLine>| lines.into_iter().take(MAX_MOVED).collect();
        let (before, after) = (diff.before.recording, diff.after.recording);
        Moved { before, after, functions: first(diff.functions), paths: first(diff.paths) }
    }

    fn text(&self, layout: Layout, out: &mut String) {
        let layout = Layout { unit: Unit::GuestTime, ..layout };
        out.push('\n');
        for (title, lines) in [("function that moved", &self.functions), ("path, function first", &self.paths)] {
            changed_lines(title, lines, layout, out);
        }
        let command = format!("bootscope diff {} {}", self.before, self.after);
        let _ = writeln!(out, "all of it: {}", harmless(&command));
    }
}

/// A commit with its subject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Named {
    /// The full commit id.
    pub commit: String,
    /// The first line of its message.
    pub subject: String,
}

impl Named {
    pub fn of(commit: &Commit) -> Named {
        Named { commit: commit.id.clone(), subject: commit.subject.clone() }
    }

    fn id_and_subject(&self) -> String {
        format!("{} {}", short(&self.commit), self.subject)
    }
}

impl CommitRange {
    /// The text for a terminal.
    pub fn text(&self, layout: Layout) -> String {
        let layout = Layout { unit: unit_of(self.deterministic), ..layout };
        let columns = [
            Column::new("commit", Align::Left, Some(12)),
            Column::new("median", Align::Right, Some(layout.time_width())),
            Column::new("step", Align::Right, Some(layout.time_width() + 1)),
            Column::new("95 % interval", Align::Left, Some(2 * layout.time_width() + 6)),
            Column::new("verdict", Align::Left, Some(13)),
            Column::new("", Align::Left, None),
        ];
        let line = |c: &RangeCommit| {
            let median = c.median_ns.map_or_else(String::new, |m| time(layout.unit, m.estimate));
            let by = c.step.as_ref().map(|step| step.difference);
            let cells = [
                short(&c.commit).to_owned(),
                median,
                by.map_or_else(String::new, |d| signed(layout.unit, d.estimate)),
                by.filter(Interval::is_sure).map_or_else(String::new, |d| {
                    format!("{} to {}", signed(layout.unit, d.low), signed(layout.unit, d.high))
                }),
                c.verdict().to_owned(),
                c.subject.clone(),
            ];
            Line {
                cells: cells.iter().map(|cell| harmless(cell).into_owned()).collect(),
                faint: c.cannot_say.is_some(),
            }
        };
        let lines: Vec<Line> = self.commits.iter().map(line).collect();
        let mut out = String::new();
        render(&columns, &lines, layout.table_width(), layout.style, &mut out);
        if self.commits.iter().any(RangeCommit::may_be_layout) {
            let text = "\"too noisy\": no more than the layout of code and data may do to one boot; --runs 6 boots each \
                        kernel with six layouts";
            paragraph(text, "note: ", layout, &mut out);
        }
        for c in &self.commits {
            if let Some(why) = &c.cannot_say {
                paragraph(&harmless(&format!("{}: {why}", short(&c.commit))), "note: ", layout, &mut out);
            }
        }
        let _ = writeln!(out, "every boot is in {}", harmless(&self.bench));
        out
    }
}

impl RangeCommit {
    fn verdict(&self) -> &'static str {
        match (&self.cannot_say, self.is_same_image, &self.step) {
            (Some(_), ..) => "cannot say",
            (_, true, _) => "same kernel",
            (.., Some(step)) => of_time(step.change),
            _ => "",
        }
    }

    /// True if one boot of each kernel could not tell a step from an effect of layout.
    fn may_be_layout(&self) -> bool {
        let step = self.step.as_ref();
        step.is_some_and(|step| step.change == Change::TooNoisy && matches!(step.basis, Basis::Repeated(_)))
    }
}

impl Bisected {
    /// Takes over the result of a search.
    pub fn take(&mut self, found: &Found, candidates: Vec<Named>) {
        self.verdict = Some(found.verdict);
        self.candidates = candidates;
        self.probability = found.probability;
        (self.ends, self.before, self.after) = (found.ends, found.before, found.after);
    }

    /// The text for a terminal.
    pub fn text(&self, layout: Layout) -> String {
        let mut out = String::new();
        let _ = writeln!(out, "{}", layout.style.heading(&self.headline()));
        for candidate in &self.candidates {
            paragraph(&harmless(&candidate.id_and_subject()), "  ", layout, &mut out);
        }
        for merge in &self.merges {
            paragraph(&harmless(&merge.id_and_subject()), "it came in by the merge ", layout, &mut out);
        }
        for (what, ratio) in [("before it", self.before), ("from it on", self.after), ("the bad end", self.ends)] {
            if let Some(r) = ratio {
                let _ = writeln!(out, "{what:<12} ÷ the good end: {:.4} ({:.4} to {:.4})", r.estimate, r.low, r.high);
            }
        }
        for failed in &self.cannot_say {
            let text = format!("{} cannot say: {}", short(&failed.commit), failed.why);
            paragraph(&harmless(&text), "note: ", layout, &mut out);
        }
        if let Some(moved) = &self.moved {
            moved.text(layout, &mut out);
        }
        let kernels = counted(self.kernels as u64, "kernel");
        let boots = match self.deterministic {
            true => format!("{} of {}", counted(self.boots as u64, "boot"), counted(self.images as u64, "image")),
            false => format!("{} of boots", counted(self.pairs as u64, "pair")),
        };
        let _ = writeln!(out, "{kernels}, {boots}; all of it is in {}", harmless(&self.evidence));
        out
    }

    fn headline(&self) -> String {
        let sure = percent(self.probability);
        match (self.verdict, self.candidates.len()) {
            (None, _) => "stopped; the same command goes on from here".to_owned(),
            (Some(Verdict::Slow), 1) => format!("the first slow commit, with a probability of {sure}:"),
            (Some(Verdict::Slow), n) => {
                format!(
                    "the first slow commit is one of these {n}, with a probability of {sure}; nothing between them can be measured:"
                )
            }
            (Some(Verdict::Unsure), _) => format!("not found for sure; the likeliest, with a probability of {sure}:"),
            (Some(Verdict::Faster), _) => {
                "the bad end is faster than the good one: swap them to find what made it so".to_owned()
            }
            (Some(Verdict::NoDifference), _) => "the ends do not differ by what so many boots can show".to_owned(),
            (Some(Verdict::CannotSay), _) => "the bad end cannot be measured, so nothing can be found".to_owned(),
        }
    }
}

fn short(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}

fn signed(unit: Unit, ns: f64) -> String {
    format!("{}{}", if ns < 0.0 { "−" } else { "+" }, time(unit, ns.abs()))
}
