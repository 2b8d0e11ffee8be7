//! The result of checking budgets, for a reader and for CI systems: text, JUnit XML, GitHub annotations, Markdown.
//!
//! As a document it has the schema `bootscope.check/1`; fields are added, never renamed or removed.

mod github;
mod junit;
mod markdown;

use crate::paragraph::paragraph;
use crate::table::{Align, Column, Line, render};
use crate::text::{bytes, counted, percent, thousands};
use crate::{Layout, Style, harmless};
use benchmark::budgets::{Checked, Kind, Observed, Status};
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
        Check { schema: SCHEMA.to_owned(), file: file.to_owned(), status, boots, budgets }
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
            let mut cells =
                vec![word(c.status).to_owned(), c.what.to_string(), limit(c), amount(c, c.median.estimate), between(c)];
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
    match c.baseline {
        Some(_) => format!("{} ({})", c.limit, amount(c, c.limit_value)),
        None => c.limit.clone(),
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

fn between(c: &Checked) -> String {
    if c.median.confidence == 0.0 {
        return String::new();
    }
    // Five boots give only their range, with less than 95 % confidence.
    let less = if c.median.is_sure() { String::new() } else { format!(" ({})", percent(c.median.confidence)) };
    format!("{} to {}{less}", amount(c, c.median.low), amount(c, c.median.high))
}

/// One budget in a sentence.
fn sentence(c: &Checked) -> String {
    let took = format!("{} took {} of at most {}", c.what, amount(c, c.median.estimate), limit(c));
    match c.status {
        Status::CannotTell => format!("{took}: {}", why_not(c)),
        _ if between(c).is_empty() => took,
        _ => {
            let sure = if c.median.is_sure() { "95 % interval" } else { "interval" };
            format!("{took} ({sure} {}, {})", between(c), counted(c.boots as u64, "boot"))
        }
    }
}

/// The reason why these boots cannot decide the budget.
fn why_not(c: &Checked) -> String {
    match c.p_over {
        Some(_) if c.boots < 5 => {
            format!("{} are too few to decide; five that agree are enough", counted(c.boots as u64, "boot"))
        }
        Some(_) => format!(
            "{} lie on both sides of the limit: more boots, or --deterministic, may decide",
            counted(c.boots as u64, "boot")
        ),
        None => "layout alone moves deterministic boots by as much: bench them dithered".to_owned(),
    }
}

fn failed(boots: &CheckedBoots) -> String {
    let all = boots.reached + boots.failed;
    format!("{} of {} did not reach the end mark ({})", boots.failed, counted(all as u64, "boot"), boots.of)
}
