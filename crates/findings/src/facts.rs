//! The parts of findings: stretches of time, figures, prices and confidence.

use timeline::{NameId, Ns, TrackId};

/// A saving of boot time, computed by replaying the boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Price {
    /// In the worst case.
    pub low: Ns,
    /// Most likely.
    pub likely: Ns,
    /// In the best case.
    pub high: Ns,
    /// The timed waits in `likely`.
    pub waited: Ns,
}

/// Confidence in a finding's cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// The evidence shows it: the calls themselves are there.
    High,
    /// The evidence allows another cause too: delays that may poll for something.
    Medium,
}

impl Confidence {
    /// The word that documents use.
    pub fn as_str(self) -> &'static str {
        match self {
            Confidence::High => "high",
            Confidence::Medium => "medium",
        }
    }
}

/// A stretch of a track, to open in a viewer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stretch {
    pub track: TrackId,
    pub from: Ns,
    pub to: Ns,
    pub name: NameId,
    /// Detail of the name, such as a device; may be empty.
    pub detail: NameId,
    /// Its purpose, if a rule has a table with purposes; else empty.
    pub purpose: &'static str,
}

impl Stretch {
    pub fn length(&self) -> Ns {
        self.to - self.from
    }
}

/// A number that shows a finding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// The name of the number, in a word or two.
    pub of: &'static str,
    pub value: Value,
}

/// An amount with its unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A number of items.
    Count(u64),
    /// A duration.
    Time(Ns),
    /// A part of a whole, 0 to 1.
    Share(f64),
    /// The probability that chance alone shows as much.
    Chance(f64),
    /// A factor.
    Times(f64),
}
