//! Times of a variant's phases and rows, by round.

use crate::runs::{Boot, Measured, PhaseTime};
use std::collections::BTreeMap;

/// Time per round, for the rounds whose boot reached its end mark.
pub(crate) type Lengths = BTreeMap<u32, f64>;

/// Boots of a variant that count and reached their end mark, with their rounds.
pub(crate) fn reached(boots: &[Boot], variant: usize) -> impl Iterator<Item = (u32, &Measured)> {
    let reached = boots.iter().filter(move |b| b.variant == variant && b.measured.total_ns.is_some());
    reached.filter_map(|b| Some((b.round?, &b.measured)))
}

/// Times of the phases or rows (as `select` chooses) of a variant's boots, by name. A round whose boot lacks the part has no
/// entry.
pub(crate) fn parts(boots: &[Boot], variant: usize, select: fn(&Measured) -> &[PhaseTime]) -> BTreeMap<&str, Lengths> {
    let mut parts: BTreeMap<&str, Lengths> = BTreeMap::new();
    for (round, measured) in reached(boots, variant) {
        for part in select(measured) {
            *parts.entry(&part.name).or_default().entry(round).or_default() += part.ns as f64;
        }
    }
    parts
}

pub(crate) fn phases_of(measured: &Measured) -> &[PhaseTime] {
    &measured.phases
}

pub(crate) fn rows_of(measured: &Measured) -> &[PhaseTime] {
    &measured.rows
}

/// Fills in 0 for the rounds that lack the part.
pub(crate) fn with_zeros(part: Option<&Lengths>, rounds: &[u32]) -> Lengths {
    rounds.iter().map(|round| (*round, part.and_then(|p| p.get(round)).copied().unwrap_or(0.0))).collect()
}
