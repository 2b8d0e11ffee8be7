//! Writes reference values: what boots on one kind of hardware took, and the margin that later boots may take beyond it.
//!
//! A file of references is a file of budgets with `[[reference]]` entries alone, one for each quantity and hardware. The
//! values come from boots, so a machine's limits need not be invented. Entries for other hardware stay as they are.

use super::{Budget, Budgets, Kind, Noise, Observed, What, amount};
use serde::{Deserialize, Serialize};
use statistics::quantile::quantile;
use statistics::sorted;
use toml::{Table, Value};

/// The head of each file.
const HEAD: &str = "\
# Reference values, written by `bootscope check --write-reference`. To check boots on the same hardware:
#   bootscope check THIS-FILE BOOTS
";

/// Boots by the clock without which a median says little.
const MIN_BOOTS: usize = 5;

/// Margins where neither the budget nor the noise asks for more, in percent: of boots by the clock, and of others.
const MARGIN: f64 = 5.0;
const COUNTED_MARGIN: f64 = 1.0;

/// A reference value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    /// The quantity: `total`, `phase kernel`, `function initcall acpi_init`.
    pub name: String,
    /// The median of the boots.
    pub value: String,
    /// The excess that is allowed: `5%`, `2ms`.
    pub margin: String,
    /// The hardware of the boots.
    pub hardware: String,
    /// Their kernel.
    pub kernel: String,
    /// Their number.
    pub boots: usize,
}

/// A reason why no reference can be written.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ReferenceError {
    /// The boots are too few.
    #[error("{of}: {boots} boots by the clock have no median to rely on: give {MIN_BOOTS} or more")]
    TooFew {
        /// Name of the boots.
        of: String,
        /// Their number.
        boots: usize,
    },
    /// The boots do not have the quantity.
    #[error("{of} has no {what}: it can have no reference")]
    Missing {
        /// Name of the boots.
        of: String,
        /// The quantity.
        what: What,
    },
    /// The hardware is not known.
    #[error("{0} does not say on which machine it booted: a reference would be for any")]
    NoHardware(String),
    /// The file holds something else.
    #[error("it is no file of references: {0}")]
    NotOne(String),
}

/// The reference values of boots, for the quantities that budgets limit. A limit such as `+5%` gives the margin.
///
/// # Errors
/// If the boots are too few, or lack a quantity.
pub fn references(budgets: &Budgets, observed: &Observed) -> Result<Vec<Reference>, ReferenceError> {
    let of = || observed.name.clone();
    let hardware = observed.about.hardware();
    if hardware.is_empty() {
        return Err(ReferenceError::NoHardware(of()));
    }
    if observed.boots < MIN_BOOTS && observed.noise == Noise::Clock || observed.boots == 0 {
        return Err(ReferenceError::TooFew { of: of(), boots: observed.boots });
    }
    let mut all: Vec<Reference> = Vec::new();
    for budget in budgets.for_boots(&observed.about) {
        let values = observed.of(&budget.what, &[]).filter(|values| !values.is_empty());
        let Some(values) = values else { return Err(ReferenceError::Missing { of: of(), what: budget.what.clone() }) };
        let values = sorted(&values.into_values().collect::<Vec<f64>>());
        let name = name(&budget.what);
        // If a quantity has several limits, the last relative one has the margin.
        all.retain(|other| other.name != name || !budget.limit.is_relative());
        if all.iter().any(|other| other.name == name) {
            continue;
        }
        all.push(Reference {
            name,
            value: value(budget.what.kind, observed.noise, quantile(&values, 0.5)),
            margin: margin(budget, observed.noise, &values),
            hardware: hardware.clone(),
            kernel: observed.about.kernel.clone(),
            boots: values.len(),
        });
    }
    Ok(all)
}

/// The text of a file that has these references, and those of `old` that are of other quantities or other hardware.
///
/// # Errors
/// If `old` is no file of references.
pub fn file(old: Option<&str>, references: &[Reference]) -> Result<String, ReferenceError> {
    let not_one = |why: String| ReferenceError::NotOne(why.replace('\n', "; "));
    let table: Table = old.unwrap_or_default().parse().map_err(|e: toml::de::Error| not_one(e.message().to_owned()))?;
    if let Some(other) = table.keys().find(|key| *key != "reference") {
        return Err(not_one(format!("it has {other}")));
    }
    let old: Vec<Value> = table.get("reference").and_then(Value::as_array).cloned().unwrap_or_default();
    let is_replaced = |entry: &Value| {
        let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
        references.iter().any(|new| new.name == text("name") && new.hardware == text("hardware"))
    };
    let new = references.iter().map(Value::try_from).collect::<Result<Vec<Value>, _>>();
    let mut all: Vec<Value> = old.into_iter().filter(|entry| !is_replaced(entry)).collect();
    all.extend(new.map_err(|e| not_one(e.to_string()))?);
    let table = Table::from_iter([("reference".to_owned(), Value::Array(all))]);
    Ok(format!("{HEAD}\n{table}"))
}

/// The name of a quantity in a file of references.
fn name(what: &What) -> String {
    match what.kind {
        Kind::Function => format!("function {}", what.name),
        _ => what.to_string(),
    }
}

/// A value as a limit is written.
fn value(kind: Kind, noise: Noise, value: f64) -> String {
    match kind {
        Kind::Memory => format!("{:.0}K", (value / 1024.0).ceil()),
        Kind::Instructions => format!("{value:.0}"),
        Kind::Total | Kind::Phase | Kind::Function | Kind::Milestone if noise != Noise::Clock => {
            format!("{value:.0} {}", amount::INSTRUCTIONS)
        }
        _ => format!("{:.3}ms", value / 1e6),
    }
}

/// The margin of a relative limit; else the usual one, or more if the boots scatter more.
fn margin(budget: &Budget, noise: Noise, values: &[f64]) -> String {
    if budget.limit.is_relative() {
        return budget.text.trim_start_matches('+').trim().to_owned();
    }
    let (median, high) = (quantile(values, 0.5), quantile(values, 0.9));
    let usual = if noise == Noise::Clock { MARGIN } else { COUNTED_MARGIN };
    let scatter = if median > 0.0 { 200.0 * (high - median) / median } else { 0.0 };
    format!("{:.0}%", scatter.max(usual).ceil())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budgets::{About, Status, check};

    fn boots(noise: Noise, machine: &str, values: &[f64]) -> Observed {
        let mut boots = Observed::new("boots", noise);
        for (round, value) in (0..).zip(values) {
            let row = What::new(Kind::Function, "initcall acpi_init");
            boots.add(
                round,
                [(What::total(), *value), (row, value / 10.0), (What::new(Kind::Memory, "vmm_max_rss"), 1e8)],
            );
        }
        boots.about = About {
            machine: machine.to_owned(),
            cpus: 2,
            kernel: "6.1.0".to_owned(),
            deterministic: noise != Noise::Clock,
            ..About::default()
        };
        boots
    }

    const BUDGETS: &str =
        "total = [\"9s\", \"+10%\"]\n[function]\n\"initcall acpi_init\" = \"9s\"\n[memory]\nvmm_max_rss = \"+1M\"\n";

    #[test]
    fn what_is_written_is_read_and_kept_by_the_boots_that_it_is_of() {
        let budgets = Budgets::parse(BUDGETS).unwrap();
        let values: Vec<f64> = (0..10).map(|i| 1e9 + f64::from(i) * 1e6).collect();
        let observed = boots(Noise::Clock, "q35", &values);
        let all = references(&budgets, &observed).unwrap();
        let margins: Vec<(&str, &str)> = all.iter().map(|r| (r.name.as_str(), r.margin.as_str())).collect();
        assert_eq!(margins, [("total", "10%"), ("function initcall acpi_init", "5%"), ("memory vmm_max_rss", "1M")]);
        let text = file(None, &all).unwrap();
        let read = Budgets::parse(&text).unwrap();
        let checked = check(&read, &[(observed, None)]).unwrap();
        assert_eq!(checked.iter().map(|c| c.status).collect::<Vec<_>>(), [Status::Within; 3], "{text}");
        let slower = boots(Noise::Clock, "q35", &[1.2e9; 10]);
        let checked = check(&read, &[(slower, None)]).unwrap();
        assert_eq!(checked[0].status, Status::Over);
        let elsewhere = check(&read, &[(boots(Noise::Clock, "pc", &[1e9; 10]), None)]).unwrap_err().to_string();
        assert!(elsewhere.contains("pc, 2 CPUs") && elsewhere.contains("q35, 2 CPUs"), "{elsewhere}");
    }

    #[test]
    fn a_file_has_the_references_of_several_machines() {
        let budgets = Budgets::parse("total = \"+5%\"").unwrap();
        let of = |machine: &str, ns: f64| references(&budgets, &boots(Noise::Repeats, machine, &[ns])).unwrap();
        let first = file(None, &of("q35", 1e9)).unwrap();
        let second = file(Some(&first), &of("virt", 2e9)).unwrap();
        let third = file(Some(&second), &of("q35", 3e9)).unwrap();
        let values: Vec<String> = Budgets::parse(&third).unwrap().all.into_iter().map(|budget| budget.text).collect();
        assert_eq!(values, ["2000000000 instr + 5%", "3000000000 instr + 5%"], "{third}");
        for other in ["total = \"1s\"", "no TOML", "[[reference]]\nname ="] {
            assert!(matches!(file(Some(other), &of("q35", 1e9)), Err(ReferenceError::NotOne(_))), "{other}");
        }
    }

    #[test]
    fn a_reference_needs_boots_and_their_hardware() {
        let budgets = Budgets::parse("total = \"1s\"").unwrap();
        let refused = |boots: &Observed, text: &str| {
            let budgets = if text.is_empty() { &budgets } else { &Budgets::parse(text).unwrap() };
            references(budgets, boots).unwrap_err().to_string()
        };
        assert!(refused(&boots(Noise::Clock, "q35", &[1e9; 4]), "").contains("give 5"));
        let mut nowhere = boots(Noise::Clock, "q35", &[1e9; 5]);
        nowhere.about = About::default();
        assert!(refused(&nowhere, "").contains("which machine"));
        let lacking = "[phase]\nkernel = \"1s\"";
        assert!(refused(&boots(Noise::Clock, "q35", &[1e9; 5]), lacking).contains("no phase kernel"));
    }
}
