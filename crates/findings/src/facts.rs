//! What findings are made of: stretches of time, figures, prices, and how sure they are.

use timeline::{NameId, Ns, TrackId};

/// How much shorter a boot becomes, worked out by running it again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Price {
    /// At the worst.
    pub low: Ns,
    /// Most likely.
    pub likely: Ns,
    /// At the best.
    pub high: Ns,
}

/// How sure a finding's cause is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// The evidence shows it: the very calls are there.
    High,
    /// The evidence allows another cause too: delays that may poll for something.
    Medium,
}

impl Confidence {
    /// As documents have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Confidence::High => "high",
            Confidence::Medium => "medium",
        }
    }
}

/// A stretch of a track that one can open.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stretch {
    /// Whose time.
    pub track: TrackId,
    /// From when.
    pub from: Ns,
    /// Until when.
    pub to: Ns,
    /// What it is called.
    pub name: NameId,
    /// Which one, or empty.
    pub detail: NameId,
    /// What it is for, where a rule has a table that says so; else empty.
    pub purpose: &'static str,
}

impl Stretch {
    /// How long it is.
    pub fn length(&self) -> Ns {
        self.to - self.from
    }
}

/// A number that shows a finding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// What it is of, in a word or two of the rule's.
    pub of: &'static str,
    /// How much.
    pub value: Value,
}

/// An amount with its unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// So many.
    Count(u64),
    /// So long.
    Time(Ns),
    /// A part of a whole, 0 to 1.
    Share(f64),
    /// How likely it is that chance alone shows as much.
    Chance(f64),
    /// So many times as much.
    Times(f64),
}
