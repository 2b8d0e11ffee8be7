//! A finding: a cause with its evidence, its price and its remedy.

use crate::detector::Part;
use crate::facts::{Confidence, Figure, Price, Stretch};
use crate::{Detector, Remedy};

/// A cause of slowness in one boot.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The rule that found it.
    pub rule: &'static Detector,
    /// Who it is about, as the evidence calls it.
    pub about: String,
    /// What shows it, in numbers.
    pub figures: Vec<Figure>,
    /// What one can open to see it, the longest first, at most [`crate::find`]'s bound.
    pub evidence: Vec<Stretch>,
    /// How many stretches there are in all.
    pub evidence_count: usize,
    /// How much shorter the boot becomes.
    pub price: Price,
    /// How sure it is that this is the cause.
    pub confidence: Confidence,
    /// What helps.
    pub remedy: Remedy,
    /// What becomes shorter: a price of several findings is that of all their parts.
    pub(crate) parts: Vec<Part>,
}
