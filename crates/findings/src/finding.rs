//! A finding: a cause with its evidence, its price and its remedy.

use crate::detector::Part;
use crate::facts::{Confidence, Figure, Price, Stretch};
use crate::{Detector, Remedy};

/// A cause of slowness in one boot.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The rule that found it.
    pub rule: &'static Detector,
    /// The subject, by its name in the evidence.
    pub about: String,
    /// The evidence in numbers.
    pub figures: Vec<Figure>,
    /// Stretches to open in a viewer, the longest first, at most [`crate::find`]'s bound.
    pub evidence: Vec<Stretch>,
    /// The number of all stretches.
    pub evidence_count: usize,
    /// The saving of boot time.
    pub price: Price,
    /// Confidence that this is the cause.
    pub confidence: Confidence,
    pub remedy: Remedy,
    /// Parts that become shorter: a price of several findings is computed from all their parts.
    pub(crate) parts: Vec<Part>,
}
