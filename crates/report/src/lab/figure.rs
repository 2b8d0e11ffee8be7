//! The timed part of an experiment: a function, or several under one name.

use super::measured_in;
use crate::Boot;
use analysis::Row;
use lab::experiments::{Experiment, Figure};
use serde::{Deserialize, Serialize};
use timeline::{Cost, Ns, Unit};

/// A timed function.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LabFigure {
    /// The function, or the name for several.
    pub of: String,
    /// The unit that the time is per; empty if it is per boot.
    pub per: String,
    /// The published time, slow.
    pub published_slow_ns: Option<i64>,
    /// The published time, with the remedy.
    pub published_fast_ns: Option<i64>,
    /// The measured time, slow.
    pub slow_ns: i64,
    /// The measured time, with the remedy.
    pub fast_ns: i64,
    /// True if a measured time has timed waits; else it is instructions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_waits: bool,
}

impl LabFigure {
    /// Measures a figure in both boots. The published figures are of the first remedy.
    pub(super) fn of(figure: &Figure, experiment: &Experiment, remedy: &str, slow: &Boot, fast: &Boot) -> LabFigure {
        let is_first = experiment.remedies.first() == Some(&remedy);
        let rows = |boot: &Boot| {
            let rows = boot.tables().functions.iter().filter(|row| figure.functions.contains(&row.name.as_str()));
            rows.map(Row::total_cost).sum::<Cost>()
        };
        let took = |boot: &Boot| rows(boot).length.0 / i64::from(figure.units);
        let ns = |us: u64| Ns::saturated(us.saturating_mul(1000)).0;
        LabFigure {
            of: figure.name.to_owned(),
            per: figure.per.to_owned(),
            published_slow_ns: figure.slow_us.map(ns),
            published_fast_ns: figure.fast_us.filter(|_| is_first).map(ns),
            slow_ns: took(slow),
            fast_ns: took(fast),
            has_waits: (rows(slow) + rows(fast)).waited > Ns::ZERO,
        }
    }

    /// The published and the measured times, each with its ratio.
    pub(super) fn cells(&self) -> [String; 5] {
        let timed = if self.per.is_empty() { self.of.clone() } else { format!("{}, per {}", self.of, self.per) };
        [
            timed,
            change(Unit::Nanoseconds, self.published_slow_ns, self.published_fast_ns),
            ratio(self.published_slow_ns, self.published_fast_ns),
            change(measured_in(self.has_waits), Some(self.slow_ns), Some(self.fast_ns)),
            ratio(Some(self.slow_ns), Some(self.fast_ns)),
        ]
    }
}

fn change(unit: Unit, slow_ns: Option<i64>, fast_ns: Option<i64>) -> String {
    match (slow_ns, fast_ns) {
        (Some(slow), Some(fast)) => format!("{} → {}", unit.show(Ns(slow)), unit.show(Ns(fast))),
        (Some(slow), None) => unit.show(Ns(slow)),
        _ => String::new(),
    }
}

fn ratio(slow_ns: Option<i64>, fast_ns: Option<i64>) -> String {
    match (slow_ns, fast_ns) {
        (Some(slow), Some(fast)) if slow > 0 && fast > 0 => {
            let ratio = slow as f64 / fast as f64;
            match ratio {
                ..100.0 => format!("{ratio:.1}"),
                ..1000.0 => format!("{ratio:.0}"),
                // The remaining time is of a function that checks a condition and returns.
                _ => "> 1000".to_owned(),
            }
        }
        _ => String::new(),
    }
}
