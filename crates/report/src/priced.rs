//! A boot at the prices of a machine model, as documents have it: what was counted, and the range of each figure.

use crate::boot::Boot;
use crate::text::{counted, thousands};
use crate::where_line::WhereLine;
use crate::{FunctionLine, PhaseLine};
use analysis::{Counted, Row};
use hashbrown::HashMap;
use serde::{Deserialize, Serialize};
use timeline::{Ns, Unit};

/// A boot's length on the machine of a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PricedLine {
    /// The model.
    pub model: String,
    /// The machine of the model, and how its prices were found.
    pub source: String,
    /// The counted instructions.
    pub instructions: u64,
    /// The timed waits. They last equally long on any machine.
    pub waited_ns: i64,
    /// The accesses that left the guest outside of timed waits; `null` if the recording did not count them. The boot is then
    /// priced by its instructions and waits alone, and takes longer than that.
    pub accesses: Option<u64>,
    /// The first touches of pages; `null` if they were not counted.
    pub pages: Option<u64>,
    /// Accesses without a price, because their time or function was not recorded.
    pub not_placed: u64,
    /// The total with the low ends of all prices.
    pub low_ns: i64,
    /// The total with the high ends of all prices.
    pub high_ns: i64,
}

/// The same boot at the low or the high ends of all prices.
#[derive(Clone, Debug, Default)]
struct Limit {
    total: Ns,
    phases: Vec<(String, Ns)>,
    /// The self time of each row.
    wheres: HashMap<String, Ns>,
    functions: HashMap<String, Ns>,
}

/// The counts and ranges that a priced boot shows beside its times.
#[derive(Clone, Debug, Default)]
pub struct Priced {
    model: String,
    source: String,
    counted: Counted,
    limits: [Limit; 2],
}

impl Priced {
    /// `low` and `high` are the same boot at the ends of the prices' ranges.
    pub fn new(model: (&str, &str), counted: Counted, [low, high]: [&Boot; 2]) -> Priced {
        let (model, source) = model;
        Priced {
            model: model.to_owned(),
            source: source.to_owned(),
            counted,
            limits: [Limit::of(low), Limit::of(high)],
        }
    }

    pub(crate) fn line(&self) -> PricedLine {
        let Counted { instructions, waited, accesses } = self.counted;
        let [low, high] = [0, 1].map(|limit| self.limits[limit].total.0);
        PricedLine {
            model: self.model.clone(),
            source: self.source.clone(),
            instructions,
            waited_ns: waited.0,
            accesses: accesses.map(|accesses| accesses.left_guest),
            pages: accesses.map(|accesses| accesses.pages),
            not_placed: accesses.map_or(0, |accesses| accesses.not_placed),
            low_ns: low,
            high_ns: high,
        }
    }

    pub(crate) fn add_to_phases(&self, phases: &mut [PhaseLine]) {
        let range = |number: usize, name: &str| {
            let of = |limit: &Limit| limit.phases.get(number).filter(|phase| phase.0 == name).map(|phase| phase.1.0);
            Some((of(&self.limits[0])?, of(&self.limits[1])?))
        };
        for (number, phase) in phases.iter_mut().enumerate() {
            (phase.low_ns, phase.high_ns) = range(number, &phase.name).unzip();
        }
    }

    pub(crate) fn add_to_rows(&self, rows: &mut [WhereLine]) {
        for row in rows {
            (row.self_low_ns, row.self_high_ns) = self.range(&row.name, |limit| &limit.wheres);
        }
    }

    pub(crate) fn add_to_functions(&self, functions: &mut [FunctionLine]) {
        for line in functions {
            let name =
                if line.detail.is_empty() { line.name.clone() } else { format!("{} {}", line.name, line.detail) };
            (line.self_low_ns, line.self_high_ns) = self.range(&name, |limit| &limit.functions);
        }
    }

    /// The range of a row. A row that a limit lacks takes no time there.
    fn range(&self, name: &str, rows: impl Fn(&Limit) -> &HashMap<String, Ns>) -> (Option<i64>, Option<i64>) {
        let [low, high] = [0, 1].map(|limit| rows(&self.limits[limit]).get(name).map_or(0, |ns| ns.0));
        (Some(low), Some(high))
    }
}

impl Limit {
    fn of(boot: &Boot) -> Limit {
        let by_name = |rows: &[Row]| rows.iter().map(|row| (row.name.clone(), row.self_time)).collect();
        Limit {
            total: boot.total,
            phases: boot.phases.iter().map(|phase| (phase.name.clone(), phase.end - phase.start)).collect(),
            wheres: by_name(&boot.tables().wheres),
            functions: by_name(&boot.tables().functions),
        }
    }
}

impl PricedLine {
    /// A sentence: the counts, and the length on the machine of the model.
    pub(crate) fn text(&self, total_ns: i64) -> String {
        let instructions = Unit::Instructions.show(Ns(i64::try_from(self.instructions).unwrap_or(i64::MAX)));
        let mut parts = vec![instructions.replace("instr", "instructions")];
        if let Some(accesses) = self.accesses {
            let plural = if accesses == 1 { "" } else { "es" };
            parts.push(format!("{} device access{plural}", thousands(accesses)));
        }
        if let Some(pages) = self.pages {
            parts.push(format!("{} first touched", counted(pages, "page")));
        }
        if self.waited_ns > 0 {
            parts.push(format!("{} timed waits", Ns(self.waited_ns)));
        }
        let at_least = if self.is_at_least() { "at least " } else { "" };
        format!(
            "{}; on {} {at_least}{} ({})",
            parts.join(", "),
            self.model,
            Ns(total_ns),
            range(self.low_ns, self.high_ns)
        )
    }

    /// True if something that was executed has no price.
    fn is_at_least(&self) -> bool {
        self.accesses.is_none() || self.not_placed > 0
    }
}

/// A range of times, with its unit once if both ends have the same.
pub(crate) fn range(low_ns: i64, high_ns: i64) -> String {
    let (low, high) = (Ns(low_ns).to_string(), Ns(high_ns).to_string());
    match (low.split_once(' '), high.split_once(' ')) {
        (Some((value, unit)), Some((_, same))) if unit == same => format!("{value} to {high}"),
        _ => format!("{low} to {high}"),
    }
}
