//! Rows that probably explain why a phase moved, if no row is proven to have moved.
//!
//! The correction for hundreds of rows is stricter than the one for eight phases. So a phase can be proven to move
//! although no row is. A row is *likely* if, tested alone, its 95 % interval excludes 0 on the side to which the
//! phase moved. That is weaker evidence: one in forty rows that did not move looks likely by chance. The result says how
//! many of the tested rows that is. This module gives no verdict.

use serde::{Deserialize, Serialize};
use statistics::CONFIDENCE;
use statistics::verdict::Comparison;
use statistics::verdict::{Basis, Change};

/// Change of a phase, a row or a metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Moved {
    /// Name of the phase, row or metric.
    pub name: String,
    /// The comparison that shows the change.
    pub by: Comparison,
}

/// Rows that are likely to explain the phase that changed most.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Likely {
    /// The phase that changed most among those proven to move.
    pub phase: String,
    /// Estimated change of the phase, in ns.
    pub phase_ns: f64,
    /// Number of rows tested, each alone.
    pub tested: usize,
    /// Number of rows that look likely by chance alone, on average, among as many as were tested.
    pub by_chance: f64,
    /// The rows, largest difference first. `by.p` and `by.difference` are those of each row tested alone.
    pub rows: Vec<Moved>,
}

/// Rows that may explain why phases are proven to have moved. Returns `None` if a row is proven to have moved, if no phase
/// is, or if the boots only repeat, so that chance is not involved.
pub fn likely(phases: &[Moved], rows: &[Moved]) -> Option<Likely> {
    let proven = |m: &&Moved| matches!(m.by.change, Change::Less | Change::More);
    let phase = phases.iter().find(proven)?;
    if matches!(phase.by.basis, Basis::Repeated(_)) || rows.iter().any(|row| proven(&row)) {
        return None;
    }
    let toward = phase.by.difference.estimate;
    let alone = |m: &&Moved| {
        let d = &m.by.difference;
        let one_side = if toward < 0.0 { d.high < 0.0 } else { d.low > 0.0 };
        one_side && m.by.p.is_some_and(|p| p <= 1.0 - CONFIDENCE)
    };
    Some(Likely {
        phase: phase.name.clone(),
        phase_ns: toward,
        tested: rows.len(),
        by_chance: rows.len() as f64 * (1.0 - CONFIDENCE) / 2.0,
        // The caller's rows have the largest difference first.
        rows: rows.iter().filter(alone).cloned().collect(),
    })
}
