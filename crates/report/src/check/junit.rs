//! Budgets as JUnit's XML, the form that CI systems read: a test case for each budget, and one for all boots.
//!
//! There is no official schema; this is the part that Jenkins and GitLab read
//! (<https://github.com/testmoapp/junitxml>). A budget that cannot be decided is *skipped*: it neither passed nor
//! failed. One that fails the check because nothing was measured is an *error*.

use super::{CaseResult, Check, failed, result, sentence};
use crate::html::esc as escaped;
use benchmark::budgets::{OnUndecided, Status};
use std::fmt::Write;

impl Check {
    pub fn junit(&self, on_undecided: OnUndecided) -> String {
        let count = |is_it: &dyn Fn(CaseResult, Status) -> bool| {
            self.budgets.iter().filter(|c| is_it(result(c, on_undecided), c.status)).count()
        };
        let over = count(&|_, status| status == Status::Over);
        let errors = count(&|result, status| result == CaseResult::Failed && status != Status::Over);
        let skipped = count(&|result, _| result == CaseResult::Skipped);
        let failures = over + self.boots.iter().filter(|b| b.failed > 0).count();
        let tests = self.budgets.len() + self.boots.len();
        let counts = format!("tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"{skipped}\"");
        let mut out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned();
        let _ = writeln!(out, "<testsuites {counts}>\n  <testsuite name=\"{}\" {counts}>", escaped(&self.file));
        for boots in &self.boots {
            let inner = if boots.failed > 0 { failure(&failed(boots)) } else { String::new() };
            case(&boots.of, "every boot reaches its end mark", &inner, &mut out);
        }
        for c in &self.budgets {
            let message = sentence(c);
            let inner = match (result(c, on_undecided), c.status) {
                (CaseResult::Passed, _) => format!("<system-out>{}</system-out>", escaped(&message)),
                (CaseResult::Failed, Status::Over) => failure(&message),
                (CaseResult::Failed, _) => format!("<error message=\"{}\"/>", escaped(&message)),
                (CaseResult::Skipped, _) => format!("<skipped message=\"{}\"/>", escaped(&message)),
            };
            case(&c.of, &format!("{} at most {}", c.what, c.limit), &inner, &mut out);
        }
        out.push_str("  </testsuite>\n</testsuites>\n");
        out
    }
}

fn failure(message: &str) -> String {
    format!("<failure message=\"{}\"/>", escaped(message))
}

fn case(class: &str, name: &str, inner: &str, out: &mut String) {
    let _ =
        writeln!(out, "    <testcase classname=\"{}\" name=\"{}\">{inner}</testcase>", escaped(class), escaped(name));
}
