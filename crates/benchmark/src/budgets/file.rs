//! Parses a file of budgets.

use super::{Budget, BudgetError, Budgets, Kind, Limit, Scope, TOTAL, What, amount};
use crate::metrics::{Metric, Unit};
use crate::runs::current_name;
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::{Spanned, Value};

type Named = BTreeMap<String, Spanned<Value>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    baseline: Option<String>,
    kernel: Option<String>,
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
    #[serde(default)]
    machine: BTreeMap<String, Section>,
    #[serde(default)]
    reference: Vec<ReferenceEntry>,
}

/// The limits for one machine type.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReferenceEntry {
    name: Spanned<String>,
    value: Spanned<String>,
    margin: Spanned<String>,
    hardware: String,
    /// For the reader of the file.
    #[serde(rename = "kernel")]
    _kernel: Option<String>,
    /// For the reader of the file.
    #[serde(rename = "boots")]
    _boots: Option<u32>,
}

/// Converts places in a text to lines.
struct Lines<'a>(&'a str);

impl Lines<'_> {
    fn of(&self, at: usize) -> usize {
        1 + self.0.get(..at).unwrap_or(self.0).matches('\n').count()
    }

    fn error<T>(&self, spanned: &Spanned<T>, why: String) -> BudgetError {
        BudgetError { line: self.of(spanned.span().start), why }
    }
}

impl Budgets {
    /// Parses the text of a file.
    pub fn parse(text: &str) -> Result<Budgets, BudgetError> {
        let lines = Lines(text);
        let file: File = toml::from_str(text).map_err(|e| BudgetError {
            line: e.span().map_or(1, |span| lines.of(span.start)),
            why: e.message().replace('\n', "; "),
        })?;
        let File { baseline, kernel, total, phase, function, milestone, memory, metric, instructions, .. } = file;
        let general = Section { total, phase, function, milestone, memory, metric, instructions };
        let mut all = budgets(general, None, &lines)?;
        for (machine, section) in file.machine {
            all.extend(budgets(section, Some(Scope::Machine(machine)), &lines)?);
        }
        for entry in file.reference {
            all.push(reference(&entry, &lines)?);
        }
        if all.is_empty() {
            let why = "there is no budget in it: write one, as total = \"1.2s\"".to_owned();
            return Err(BudgetError { line: 1, why });
        }
        all.sort_by_key(|budget| budget.what.kind);
        Ok(Budgets { baseline, kernel, all })
    }
}

/// The budgets of a section, by kind and name.
fn budgets(section: Section, scope: Option<Scope>, lines: &Lines) -> Result<Vec<Budget>, BudgetError> {
    let total = section.total.map(|limits| (TOTAL.to_owned(), limits));
    let kinds = [
        (Kind::Total, total.into_iter().collect()),
        (Kind::Phase, section.phase),
        (Kind::Function, section.function),
        (Kind::Milestone, section.milestone),
        (Kind::Memory, section.memory),
        (Kind::Metric, section.metric),
        (Kind::Instructions, section.instructions),
    ];
    let mut all = Vec::new();
    for (kind, named) in kinds {
        for (name, limits) in named {
            let line = lines.of(limits.span().start);
            let failed = |why| BudgetError { line, why };
            let what = what(kind, name).map_err(failed)?;
            for text in texts(limits.into_inner()).map_err(failed)? {
                let (limit, unit) = amount::limit(kind, &text).map_err(failed)?;
                all.push(Budget { what: what.clone(), limit, unit, text, line, scope: scope.clone() });
            }
        }
    }
    Ok(all)
}

/// The quantity of a kind with this name.
fn what(kind: Kind, name: String) -> Result<What, String> {
    match kind {
        Kind::Memory | Kind::Metric => metric(kind, &name),
        _ => Ok(What { kind, name: current_name(name) }),
    }
}

/// The budget of a reference value: the value and its margin.
fn reference(entry: &ReferenceEntry, lines: &Lines) -> Result<Budget, BudgetError> {
    let what = named(entry.name.get_ref()).map_err(|why| lines.error(&entry.name, why))?;
    let (value, unit) =
        amount::limit(what.kind, entry.value.get_ref()).map_err(|why| lines.error(&entry.value, why))?;
    let margin_text = format!("+{}", entry.margin.get_ref().trim_start_matches('+'));
    let (margin, _) = amount::limit(what.kind, &margin_text).map_err(|why| lines.error(&entry.margin, why))?;
    let Limit::AtMost(value) = value else {
        return Err(lines.error(&entry.value, "a reference's value has no +: the margin has".to_owned()));
    };
    let limit = match margin {
        Limit::OverShare(share) => Limit::AtMost(value * (1.0 + share)),
        Limit::Over(more) | Limit::AtMost(more) => Limit::AtMost(value + more),
    };
    let text = format!("{} + {}", entry.value.get_ref(), margin_text.trim_start_matches('+'));
    let line = lines.of(entry.name.span().start);
    Ok(Budget { what, limit, unit, text, line, scope: Some(Scope::Hardware(entry.hardware.clone())) })
}

/// The quantity that a reference names: `total`, `phase kernel`, `function initcall acpi_init`.
fn named(name: &str) -> Result<What, String> {
    let words = [
        ("phase ", Kind::Phase),
        ("milestone ", Kind::Milestone),
        ("memory ", Kind::Memory),
        ("metric ", Kind::Metric),
        ("instructions of ", Kind::Instructions),
        ("function ", Kind::Function),
    ];
    if name == TOTAL {
        return Ok(What::total());
    }
    if name == "instructions" {
        return Ok(What::new(Kind::Instructions, TOTAL));
    }
    let split = words.iter().find_map(|(word, kind)| Some((*kind, name.strip_prefix(word)?)));
    match split {
        Some((kind, name)) => what(kind, name.to_owned()),
        None => Err(format!(
            "no quantity is called {name:?}: write total, phase NAME, function ROW, milestone NAME, memory NAME, metric NAME \
             or instructions"
        )),
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
