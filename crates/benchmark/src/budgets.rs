//! Budgets: a TOML file with limits for a boot, and the check that boots keep them.
//!
//! ```toml
//! baseline = "history"              # the reference of limits with +: history, or a bench; `--baseline` replaces it
//! total = ["1.2s", "+5%"]           # one limit, or several
//! [phase]
//! initcalls = "300ms"               # of deterministic boots, which have no time: "300M instr"
//! [function]                        # rows and functions, as `show` names them
//! "initcall acpi_init" = "+2ms"
//! [milestone]                       # the time of a milestone, as `show --milestones` names it
//! "unit:ssh.service" = "8s"
//! [memory]
//! vmm_max_rss = "180M"              # also guest_used, and any metric in bytes if less is better
//! [metric]                          # any metric if less is better
//! vmm_cpu = "2s"
//! [instructions]                    # of deterministic boots
//! total = "1.9G"
//! ```
//! Every limit is a maximum: `1.2s` is absolute, `+5%` and `+2ms` are relative to the baseline. [`judge`] decides whether each
//! limit is kept, and takes the noise of the boots into account.

mod amount;
pub mod judge;
mod observed;

pub use judge::{Checked, Status, check};
pub use observed::{Noise, Observed, metrics};

use crate::metrics::{Metric, Unit};
use crate::runs::current_name;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use toml::{Spanned, Value};

/// The kind of quantity that has a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Time from time zero to the end mark, in ns.
    Total,
    /// Length of a phase, in ns.
    Phase,
    /// Time of a row or a function of the boot path, in ns.
    Function,
    /// Time of a milestone, in ns since time zero.
    Milestone,
    /// A metric in bytes.
    Memory,
    /// A metric in ns.
    Metric,
    /// Number of instructions of a deterministic boot.
    Instructions,
}

/// The quantity that has a budget.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
pub struct What {
    /// Kind of the quantity.
    pub kind: Kind,
    /// Name of the quantity; `total` for the whole boot.
    pub name: String,
}

impl What {
    /// The total of the boot.
    pub fn total() -> What {
        What { kind: Kind::Total, name: TOTAL.to_owned() }
    }

    pub fn metric(metric: &Metric) -> What {
        What::new(if metric.unit == Unit::Bytes { Kind::Memory } else { Kind::Metric }, metric.name)
    }

    pub fn new(kind: Kind, name: &str) -> What {
        What { kind, name: name.to_owned() }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Total => f.write_str("total"),
            Kind::Phase => write!(f, "phase {}", self.name),
            Kind::Function => f.write_str(&self.name),
            Kind::Milestone => write!(f, "milestone {}", self.name),
            Kind::Memory => write!(f, "memory {}", self.name),
            Kind::Metric => write!(f, "metric {}", self.name),
            Kind::Instructions if self.name == TOTAL => f.write_str("instructions"),
            Kind::Instructions => write!(f, "instructions of {}", self.name),
        }
    }
}

/// Name of the total.
const TOTAL: &str = "total";

/// The maximum that a budget allows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// An absolute maximum: ns, bytes or instructions.
    AtMost(f64),
    /// A maximum excess over the baseline, in the same units.
    Over(f64),
    /// A maximum excess over the baseline, as a share of it.
    OverShare(f64),
}

impl Limit {
    /// True if the limit needs a baseline.
    pub fn is_relative(self) -> bool {
        !matches!(self, Limit::AtMost(_))
    }
}

/// A limit of one quantity, as a line of the file gives it.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    /// The limited quantity.
    pub what: What,
    pub limit: Limit,
    /// The unit of an amount that is time or instructions; a share, or bytes, have none.
    pub unit: Option<timeline::Unit>,
    /// The limit as written in the file.
    pub text: String,
    /// Its line in the file, from 1.
    pub line: usize,
}

/// A file of budgets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Budgets {
    /// The baseline of relative limits, if the file names one.
    pub baseline: Option<String>,
    /// The budgets, ordered by kind and name.
    pub all: Vec<Budget>,
}

/// An error in a file of budgets, with its place.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct BudgetError {
    /// Number of the line, from 1.
    pub line: usize,
    /// The error and its remedy.
    pub why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    baseline: Option<String>,
    total: Option<Spanned<Value>>,
    #[serde(default)]
    phase: Named,
    #[serde(default)]
    function: Named,
    #[serde(default)]
    milestone: Named,
    #[serde(default)]
    memory: Named,
    #[serde(default)]
    metric: Named,
    #[serde(default)]
    instructions: Named,
}

type Named = BTreeMap<String, Spanned<Value>>;

impl Budgets {
    /// Parses the text of a file.
    pub fn parse(text: &str) -> Result<Budgets, BudgetError> {
        let line_of = |at: usize| 1 + text.get(..at).unwrap_or(text).matches('\n').count();
        let file: File = toml::from_str(text).map_err(|e| BudgetError {
            line: e.span().map_or(1, |span| line_of(span.start)),
            why: e.message().replace('\n', "; "),
        })?;
        let total = file.total.map(|limits| (TOTAL.to_owned(), limits));
        let kinds = [
            (Kind::Total, total.into_iter().collect()),
            (Kind::Phase, file.phase),
            (Kind::Function, file.function),
            (Kind::Milestone, file.milestone),
            (Kind::Memory, file.memory),
            (Kind::Metric, file.metric),
            (Kind::Instructions, file.instructions),
        ];
        let mut all = Vec::new();
        for (kind, named) in kinds {
            for (name, limits) in named {
                let line = line_of(limits.span().start);
                let what = match kind {
                    Kind::Memory | Kind::Metric => metric(kind, &name).map_err(|why| BudgetError { line, why })?,
                    _ => What { kind, name: current_name(name) },
                };
                for text in texts(limits.into_inner()).map_err(|why| BudgetError { line, why })? {
                    let (limit, unit) = amount::limit(kind, &text).map_err(|why| BudgetError { line, why })?;
                    all.push(Budget { what: what.clone(), limit, unit, text, line });
                }
            }
        }
        if all.is_empty() {
            return Err(BudgetError {
                line: 1,
                why: "there is no budget in it: write one, as total = \"1.2s\"".to_owned(),
            });
        }
        Ok(Budgets { baseline: file.baseline, all })
    }

    /// True if any limit needs a baseline.
    pub fn needs_baseline(&self) -> bool {
        self.all.iter().any(|budget| budget.limit.is_relative())
    }
}

/// The metric with this name as a limited quantity. `[metric]` accepts all metrics, `[memory]` those in bytes.
fn metric(section: Kind, name: &str) -> Result<What, String> {
    let of_section = |metric: &&Metric| section == Kind::Metric || metric.unit == Unit::Bytes;
    let allowed: Vec<&Metric> = Metric::budgeted().filter(of_section).collect();
    match allowed.iter().find(|metric| metric.name == name) {
        Some(metric) => Ok(What::metric(metric)),
        None => {
            let what = if section == Kind::Memory { "memory" } else { "metric" };
            let names: Vec<&str> = allowed.iter().map(|metric| metric.name).collect();
            Err(format!("no {what} that can have a budget is called {name:?}; there are {}", names.join(", ")))
        }
    }
}

/// The texts of a value that is one limit or a list of limits.
fn texts(value: Value) -> Result<Vec<String>, String> {
    let wrong = || "a limit is a text or a list of texts, such as \"300ms\" or [\"300ms\", \"+5%\"]".to_owned();
    match value {
        Value::String(text) => Ok(vec![text]),
        Value::Array(all) => all.into_iter().map(|v| v.as_str().map(str::to_owned).ok_or_else(wrong)).collect(),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "\
baseline = \"history\"
total = [\"1.2s\", \"+5%\"]
[phase]
initcalls = \"300 ms\"
[function]
\"initcall acpi_init\" = \"+2ms\"
[memory]
vmm_max_rss = \"180M\"
[instructions]
total = \"1.9G\"
";

    #[test]
    fn a_file_is_read() {
        let found = Budgets::parse(WHOLE).unwrap();
        assert_eq!((found.baseline.as_deref(), found.needs_baseline()), (Some("history"), true));
        let all: Vec<(String, Limit, usize)> =
            found.all.iter().map(|b| (b.what.to_string(), b.limit, b.line)).collect();
        let expected = [
            ("total", Limit::AtMost(1.2e9), 2),
            ("total", Limit::OverShare(0.05), 2),
            ("phase initcalls", Limit::AtMost(3e8), 4),
            ("initcall acpi_init", Limit::Over(2e6), 6),
            ("memory vmm_max_rss", Limit::AtMost(f64::from(180 << 20)), 8),
            ("instructions", Limit::AtMost(1.9e9), 10),
        ];
        assert_eq!(all, expected.map(|(what, limit, line)| (what.to_owned(), limit, line)));
    }

    #[test]
    fn an_error_names_its_line() {
        for (text, line, words) in [
            ("total = \"fast\"", 1, "1.2s"),
            ("\ntotal = 7", 2, "text"),
            ("[phase]\n\na = \"5%\"", 3, "+5%"),
            ("[phase]\na = \"-5ms\"", 2, "-5ms"),
            ("[memory]\nvmm_max_rss = \"10ms\"", 2, "180M"),
            ("totl = \"1s\"", 1, "totl"),
            ("", 1, "no budget"),
            ("total = [\"1s\", 3]", 1, "text"),
            ("[phase", 1, ""),
            ("[instructions]\ntotal = \"1s\"", 2, "1.9G"),
        ] {
            let error = Budgets::parse(text).unwrap_err();
            assert!(error.line == line && error.why.contains(words) && !error.why.contains('\n'), "{text}: {error}");
        }
    }
}
