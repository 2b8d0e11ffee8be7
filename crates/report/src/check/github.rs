//! Budgets as GitHub's workflow commands. GitHub shows them beside the file of budgets.
//!
//! The format: <https://docs.github.com/en/actions/reference/workflow-commands-for-github-actions>. Values are escaped
//! as in GitHub's toolkit (`packages/core/src/command.ts`): % and line ends, in properties also : and comma.

use super::{CaseResult, Check, failed, result, sentence};
use benchmark::budgets::{OnUndecided, Status};
use std::fmt::Write;

impl Check {
    /// A line for each budget that is over or cannot be decided, and for boots that failed.
    pub fn github(&self, on_undecided: OnUndecided) -> String {
        let mut out = String::new();
        let file = property(&self.file);
        for boots in self.boots.iter().filter(|b| b.failed > 0) {
            let _ = writeln!(out, "::error file={file},title=Boot failed::{}", value(&failed(boots)));
        }
        for c in &self.budgets {
            let (command, title) = match (result(c, on_undecided), c.status) {
                (CaseResult::Passed, _) => continue,
                (CaseResult::Failed, Status::Over) => ("error", "Over its budget"),
                (CaseResult::Failed, _) => ("error", "Budget not measured"),
                (CaseResult::Skipped, _) => ("warning", "Budget undecided"),
            };
            let _ = writeln!(out, "::{command} file={file},line={},title={title}::{}", c.line, value(&sentence(c)));
        }
        out
    }
}

fn value(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    value(text).replace(':', "%3A").replace(',', "%2C")
}
