//! Budgets as KTAP, the form in which tests of the Linux kernel report (Documentation/dev-tools/ktap.rst): a line for each
//! budget and for each set of boots, with the measured values in the diagnostic lines before it.

use super::{CaseResult, Check, failed, result, sentence};
use crate::harmless;
use benchmark::budgets::OnUndecided;
use std::fmt::Write;

impl Check {
    pub fn ktap(&self, on_undecided: OnUndecided) -> String {
        let mut out = format!("KTAP version 1\n1..{}\n", self.boots.len() + self.budgets.len());
        let mut number = 0;
        let mut case = |name: &str, result: CaseResult, message: &str, values: &str| {
            number += 1;
            let _ = writeln!(out, "# {}", line(message));
            if !values.is_empty() {
                let _ = writeln!(out, "# {values}");
            }
            let (word, directive) = match result {
                CaseResult::Passed => ("ok", ""),
                CaseResult::Failed => ("not ok", ""),
                CaseResult::Skipped => ("ok", " # SKIP undecided"),
            };
            let _ = writeln!(out, "{word} {number} {}{directive}", line(name));
        };
        for boots in &self.boots {
            let (result, message) = match boots.failed {
                0 => (CaseResult::Passed, format!("{} reached the end mark ({})", boots.reached, boots.of)),
                _ => (CaseResult::Failed, failed(boots)),
            };
            case("every boot reaches its end mark", result, &message, "");
        }
        for c in &self.budgets {
            let numbers = c.median.zip(c.limit_value).map_or_else(String::new, |(median, limit)| {
                format!("value {:.0} limit {limit:.0} unit {}", median.estimate, c.unit)
            });
            let name = format!("{} at most {}", c.what, c.limit);
            case(&name, result(c, on_undecided), &sentence(c), &numbers);
        }
        out
    }
}

/// A text on one line, without the sign that begins a directive.
fn line(text: &str) -> String {
    harmless(text).replace('\n', " ").replace('#', "_")
}
