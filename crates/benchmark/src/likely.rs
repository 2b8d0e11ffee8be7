//! Rows that are likely to be why a phase moved, where no row is proven to be.
//!
//! Hundreds of rows tested together ask more of each than one phase among eight is asked. So a phase can be proven to move
//! while none of its rows is. A row is *likely* where, tested alone, its 95 % interval excludes 0 on the side to which the
//! phase moved. That is weaker: of rows that did not move, chance alone makes one in forty look so. How many that is of the
//! rows that were tested is said with them. This gives no verdict.

use serde::{Deserialize, Serialize};
use statistics::CONFIDENCE;
use statistics::verdict::Comparison;
use statistics::verdict::{Basis, Change};

/// How a phase, a row or a metric changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Moved {
    /// Its name.
    pub name: String,
    /// By how much.
    pub by: Comparison,
}

/// The likeliest rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Likely {
    /// The phase that changed most, of those proven to move.
    pub phase: String,
    /// By how much, in ns: the estimate.
    pub phase_ns: f64,
    /// How many rows were tested, each alone.
    pub tested: usize,
    /// How many of so many rows chance alone makes look likely, on average.
    pub by_chance: f64,
    /// The rows, the largest difference first; `by.p` and `by.difference` are of each tested alone.
    pub rows: Vec<Moved>,
}

/// Rows that may explain what phases are proven to have done; none where a row is proven, or no phase is, or where no chance
/// is involved.
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
        // They come with the largest difference first.
        rows: rows.iter().filter(alone).cloned().collect(),
    })
}
