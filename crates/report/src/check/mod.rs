//! The result of checking budgets, for a reader and for CI systems: text, JUnit XML, KTAP, SARIF, a KCIDB report, GitHub
//! annotations, Markdown.
//!
//! As a document it has the schema `bootscope.check/1`; fields are added, never renamed or removed.

mod github;
mod junit;
mod kcidb;
mod ktap;
mod markdown;
mod sarif;

use crate::paragraph::paragraph;
use crate::table::{Align, Column, Line, render};
use crate::text::{bytes, counted, percent, thousands};
use crate::{Layout, Style, harmless};
use benchmark::budgets::{Checked, Kind, Observed, OnUndecided, Status, Undecided};
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use timeline::{Ns, Unit, rounded_count};

/// The name and version of the document.
const SCHEMA: &str = "bootscope.check/1";

/// The whole document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Check {
    /// `bootscope.check/1`.
    pub schema: String,
    /// The file of budgets.
    pub file: String,
    /// The worst status of all: `over`, `cannot-tell`, `within`. A boot that failed counts as over.
    pub status: Status,
    /// False if the boots measured nothing of a budget: they are too few, or have no evidence of it, or are of another kernel.
    #[serde(default)]
    pub is_measured: bool,
    /// The sets of boots that were checked.
    pub boots: Vec<CheckedBoots>,
    /// Every budget of each set, in the order of the file.
    pub budgets: Vec<Checked>,
}

/// A set of boots that was checked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CheckedBoots {
    /// The recording or bench that the boots belong to.
    pub of: String,
    /// The number of boots that reached their end mark.
    pub reached: usize,
    /// The number of boots that did not.
    pub failed: usize,
}

impl Check {
    /// Makes the document from the boots and the results for their budgets.
    pub fn new<'a>(file: &str, observed: impl Iterator<Item = &'a Observed>, budgets: Vec<Checked>) -> Check {
        let boots = observed.map(|o| CheckedBoots { of: o.name.clone(), reached: o.boots, failed: o.failed });
        let boots: Vec<CheckedBoots> = boots.collect();
        let has = |status| budgets.iter().any(|c| c.status == status);
        let status = match () {
            () if has(Status::Over) || boots.iter().any(|b| b.failed > 0) => Status::Over,
            () if has(Status::CannotTell) => Status::CannotTell,
            () => Status::Within,
        };
        let is_measured = budgets.iter().filter_map(|c| c.undecided).all(Undecided::is_measured);
        Check { schema: SCHEMA.to_owned(), file: file.to_owned(), status, is_measured, boots, budgets }
    }

    /// True if the check fails: a budget is over, a boot failed, or a budget is undecided and the user wants that to fail.
    pub fn fails(&self, on_undecided: OnUndecided) -> bool {
        self.status == Status::Over || self.budgets.iter().any(|c| result(c, on_undecided) == CaseResult::Failed)
    }

    /// The text for a terminal, with the budgets that are over first.
    pub fn text(&self, layout: Layout) -> String {
        let mut out = String::new();
        for boots in self.boots.iter().filter(|b| b.failed > 0) {
            let label = layout.style.bad("failed");
            let _ = writeln!(out, "{label}  {}", harmless(&failed(boots)));
        }
        let several = self.boots.len() > 1;
        let mut columns = vec![
            Column { paint: paint_status, ..Column::new("", Align::Left, Some(11)) },
            Column::new("budget", Align::Left, None),
            Column::new("limit", Align::Left, Some(22)),
            Column::new("boots took", Align::Right, Some(16)),
            Column::new("95 % interval", Align::Left, Some(38)),
        ];
        if several {
            columns.push(Column::new("of", Align::Left, Some(30)));
        }
        let mut in_order: Vec<&Checked> = self.budgets.iter().collect();
        in_order.sort_by_key(|c| rank(c.status));
        let line = |c: &&Checked| {
            let mut cells = vec![word(c.status).to_owned(), c.what.to_string(), limit(c), took(c), between(c)];
            cells.extend(several.then(|| c.of.clone()));
            Line { cells: cells.iter().map(|cell| harmless(cell).into_owned()).collect(), faint: false }
        };
        let lines: Vec<Line> = in_order.iter().map(line).collect();
        render(&columns, &lines, layout.table_width(), layout.style, &mut out);
        for c in in_order.iter().filter(|c| c.status == Status::CannotTell) {
            paragraph(&harmless(&format!("{}: {}", c.what, why_not(c))), "note: ", layout, &mut out);
        }
        out.push_str(&self.sentence());
        out.push('\n');
        out
    }

    /// The outcome in a sentence.
    fn sentence(&self) -> String {
        let count = |status| self.budgets.iter().filter(|c| c.status == status).count();
        let all = counted(self.budgets.len() as u64, "budget");
        let mut parts = vec![format!("{} within", count(Status::Within)), format!("{} over", count(Status::Over))];
        if count(Status::CannotTell) > 0 {
            parts.push(format!("{} that these boots cannot tell", count(Status::CannotTell)));
        }
        format!("{all}: {}", parts.join(", "))
    }
}

/// The result of a budget for a CI system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CaseResult {
    Passed,
    /// It is over, or undecided and the user wants that to fail.
    Failed,
    /// It is undecided, and fails nothing.
    Skipped,
}

fn result(c: &Checked, on_undecided: OnUndecided) -> CaseResult {
    match (c.status, c.undecided) {
        (Status::Within, _) => CaseResult::Passed,
        (Status::Over, _) => CaseResult::Failed,
        (Status::CannotTell, Some(why)) if on_undecided.fails(why) => CaseResult::Failed,
        (Status::CannotTell, _) => CaseResult::Skipped,
    }
}

fn paint_status(style: Style, text: &str) -> String {
    let all = [Status::Over, Status::Within, Status::CannotTell];
    match all.into_iter().find(|status| word(*status) == text.trim()) {
        Some(Status::Over) => style.bad(text),
        Some(Status::Within) => style.good(text),
        Some(Status::CannotTell) | None => style.faint(text),
    }
}

fn rank(status: Status) -> u8 {
    match status {
        Status::Over => 0,
        Status::CannotTell => 1,
        Status::Within => 2,
    }
}

/// A status in a word or two.
fn word(status: Status) -> &'static str {
    match status {
        Status::Within => "within",
        Status::Over => "over",
        Status::CannotTell => "cannot tell",
    }
}

/// The limit as a budget states it, or `+5% (1.05 s)` over a baseline.
fn limit(c: &Checked) -> String {
    match (c.baseline, c.limit_value) {
        (Some(_), Some(value)) => format!("{} ({})", c.limit, amount(c, value)),
        _ => c.limit.clone(),
    }
}

/// An amount with its unit.
fn amount(c: &Checked, value: f64) -> String {
    match c.what.kind {
        _ if !value.is_finite() => String::new(),
        Kind::Total | Kind::Phase | Kind::Function | Kind::Milestone | Kind::Metric => {
            Unit::named(&c.unit).show(Ns::rounded(value))
        }
        Kind::Memory => bytes(rounded_count(value)),
        Kind::Instructions => thousands(rounded_count(value)),
    }
}

/// The median of the boots; empty if no boot has the quantity.
fn took(c: &Checked) -> String {
    c.median.map_or_else(String::new, |median| amount(c, median.estimate))
}

fn between(c: &Checked) -> String {
    let Some(median) = c.median.filter(|median| median.confidence > 0.0) else { return String::new() };
    // Five boots give only their range, with less than 95 % confidence.
    let less = if median.is_sure() { String::new() } else { format!(" ({})", percent(median.confidence)) };
    format!("{} to {}{less}", amount(c, median.low), amount(c, median.high))
}

/// One budget in a sentence.
fn sentence(c: &Checked) -> String {
    if c.median.is_none() {
        return format!("{} of at most {} is not measured: {}", c.what, limit(c), why_not(c));
    }
    let took = format!("{} took {} of at most {}", c.what, took(c), limit(c));
    match c.status {
        Status::CannotTell => format!("{took}: {}", why_not(c)),
        _ if between(c).is_empty() => took,
        _ => {
            let sure = if c.median.is_some_and(|median| median.is_sure()) { "95 % interval" } else { "interval" };
            format!("{took} ({sure} {}, {})", between(c), counted(c.boots as u64, "boot"))
        }
    }
}

/// The reason why these boots cannot decide the budget.
fn why_not(c: &Checked) -> String {
    let boots = counted(c.boots as u64, "boot");
    match c.undecided {
        Some(Undecided::NoBoots) => "there is no boot that reached its end mark".to_owned(),
        Some(Undecided::NoEvidence) => format!("the boots have no evidence of it{}", c.detail),
        Some(Undecided::TooFew) => format!("{boots} are too few to decide; five that agree are enough"),
        Some(Undecided::OtherKernel) => format!("the budgets are for kernel {}", c.detail),
        Some(Undecided::OtherSetup) => format!("the baseline is of other hardware: {}", c.detail),
        Some(Undecided::Noise) | None => {
            format!("{boots} lie on both sides of the limit: more boots, or --deterministic, may decide")
        }
        Some(Undecided::Layout) => "layout alone moves deterministic boots by as much: bench them dithered".to_owned(),
    }
}

fn failed(boots: &CheckedBoots) -> String {
    let all = boots.reached + boots.failed;
    format!("{} of {} did not reach the end mark ({})", boots.failed, counted(all as u64, "boot"), boots.of)
}
