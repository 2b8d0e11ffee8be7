//! Budgets as a Markdown table, for example for the summary of a CI job.

use super::{Check, between, failed, limit, rank, took, word};
use crate::harmless;
use benchmark::budgets::Checked;
use std::fmt::Write;

impl Check {
    /// The complete text: the outcome, and a table with the budgets that are over first.
    pub fn markdown(&self) -> String {
        let mut out = format!("### Boot budgets: {}\n\n{}\n\n", word(self.status), self.sentence());
        for boots in self.boots.iter().filter(|b| b.failed > 0) {
            let _ = writeln!(out, "**{}**\n", cell(&failed(boots)));
        }
        out.push_str("| | budget | limit | boots took | 95 % interval | boots |\n|:---|:---|:---|---:|:---|---:|\n");
        let mut in_order: Vec<&Checked> = self.budgets.iter().collect();
        in_order.sort_by_key(|c| rank(c.status));
        for c in in_order {
            let owner = if self.boots.len() > 1 { format!(" ({})", c.of) } else { String::new() };
            let _ = writeln!(
                out,
                "| {} | {}{} | {} | {} | {} | {} |",
                word(c.status),
                cell(&c.what.to_string()),
                cell(&owner),
                cell(&limit(c)),
                took(c),
                between(c),
                c.boots
            );
        }
        out
    }
}

/// The text escaped, so that it neither ends a table cell nor is read as markup.
fn cell(text: &str) -> String {
    let mut out = String::new();
    for c in harmless(text).chars() {
        if "\\|`*_[]<>&~#!".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
