//! Budgets as SARIF 2.1.0, which forges show beside the file of budgets (OASIS, "Static Analysis Results Interchange
//! Format").

use super::{CaseResult, Check, failed, result, sentence};
use benchmark::budgets::{OnUndecided, Status};
use serde_json::{Value, json};

/// Identifiers of the rules, with their texts.
const RULES: [(&str, &str); 4] = [
    ("over-budget", "The boots exceed a budget"),
    ("not-measured", "The boots measured nothing of a budget"),
    ("undecided", "The boots do not decide a budget"),
    ("boot-failed", "A boot did not reach its end mark"),
];

impl Check {
    pub fn sarif(&self, on_undecided: OnUndecided) -> Value {
        let finding = |rule: &str, level: &str, message: String, line: usize| {
            json!({
                "ruleId": rule,
                "level": level,
                "message": { "text": message },
                "locations": [{ "physicalLocation": {
                    "artifactLocation": { "uri": uri(&self.file) },
                    "region": { "startLine": line.max(1) },
                } }],
            })
        };
        let boots = self.boots.iter().filter(|b| b.failed > 0).map(|b| finding("boot-failed", "error", failed(b), 1));
        let budgets = self.budgets.iter().filter_map(|c| {
            let (rule, level) = match (result(c, on_undecided), c.status) {
                (CaseResult::Passed, _) => return None,
                (CaseResult::Failed, Status::Over) => ("over-budget", "error"),
                (CaseResult::Failed, _) => ("not-measured", "error"),
                (CaseResult::Skipped, _) => ("undecided", "warning"),
            };
            Some(finding(rule, level, sentence(c), c.line))
        });
        let results: Vec<Value> = boots.chain(budgets).collect();
        let rules = RULES.map(|(id, text)| json!({ "id": id, "shortDescription": { "text": text } }));
        json!({
            "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
            "version": "2.1.0",
            "runs": [{
                "tool": { "driver": { "name": "bootscope", "version": env!("CARGO_PKG_VERSION"), "rules": rules } },
                "results": results,
            }],
        })
    }
}

/// A path as a URI reference.
fn uri(path: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    path.bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
