//! The times of a variant's phases and rows, by round.

use crate::runs::{Boot, Measured, PhaseTime};
use std::collections::BTreeMap;

/// A length in each round whose boot reached its end mark.
pub(crate) type Lengths = BTreeMap<u32, f64>;

/// A variant's boots that count and reached their end mark.
pub(crate) fn reached(boots: &[Boot], variant: usize) -> impl Iterator<Item = (u32, &Measured)> {
    let own = boots.iter().filter(move |b| b.variant == variant && b.measured.total_ns.is_some());
    own.filter_map(|b| Some((b.round?, &b.measured)))
}

/// The parts of a variant's boots by name. A part that a boot does not have is not in its round.
pub(crate) fn parts(boots: &[Boot], variant: usize, of: fn(&Measured) -> &[PhaseTime]) -> BTreeMap<&str, Lengths> {
    let mut parts: BTreeMap<&str, Lengths> = BTreeMap::new();
    for (round, measured) in reached(boots, variant) {
        for part in of(measured) {
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

/// Adds the rounds in which a part took no time.
pub(crate) fn whole(part: Option<&Lengths>, rounds: &[u32]) -> Lengths {
    rounds.iter().map(|round| (*round, part.and_then(|p| p.get(round)).copied().unwrap_or(0.0))).collect()
}
