//! What a detector is, and what it drafts.

use crate::facts::{Confidence, Figure, Stretch, Value};
use crate::{Need, Remedy, Seen};
use std::cmp::Reverse;
use timeline::{NameId, Ns};

/// A rule that finds one kind of slowness: what it says of itself, and the function that looks.
#[derive(Clone, Copy, Debug)]
pub struct Detector {
    /// Its stable name, as documents and `--explain` have it.
    pub id: &'static str,
    /// What it finds, in a few words; a finding's title begins with it.
    pub title: &'static str,
    /// The rule, in sentences.
    pub rule: &'static str,
    /// Where the cause was described first: a talk, a mail, the kernel's documentation.
    pub source: &'static str,
    /// From how much on it finds something, in words.
    pub threshold: &'static str,
    /// What its price assumes, in words.
    pub price: &'static str,
    /// What it has to see.
    pub needs: &'static [Need],
    /// Looks. Is called only where all its needs are met.
    pub look: fn(&Seen) -> Vec<Draft>,
}

/// What a detector found, before it has a price.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// Who it is about: its name and detail in the evidence (`DEVICE_PROBE`, `psm`).
    pub about: (NameId, NameId),
    /// What shows it, in numbers.
    pub figures: Vec<Figure>,
    /// Which stretches become shorter; they are its evidence too.
    pub parts: Vec<Part>,
    /// How sure.
    pub confidence: Confidence,
    /// What helps.
    pub remedy: Remedy,
}

/// A stretch, and what the remedy leaves of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// The stretch.
    pub stretch: Stretch,
    /// What is left of it.
    pub left: Left,
}

/// What a remedy leaves of a stretch: shares, 0 to 1, the smallest first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Left {
    /// At the best.
    pub least: f64,
    /// Most likely.
    pub likely: f64,
    /// At the worst.
    pub most: f64,
}

impl Left {
    /// All of it goes.
    pub const NOTHING: Left = Left { least: 0.0, likely: 0.0, most: 0.0 };
    /// All of it stays: it is shown as evidence and saves nothing.
    pub const ALL: Left = Left { least: 1.0, likely: 1.0, most: 1.0 };

    /// Of a stretch that is `length` long, so much time.
    pub fn time(length: Ns, least: Ns, likely: Ns, most: Ns) -> Left {
        let share = |time: Ns| if length > time { time.0 as f64 / length.0 as f64 } else { 1.0 };
        Left { least: share(least), likely: share(likely), most: share(most) }
    }
}

impl Part {
    /// Whether any of it may go.
    pub fn saves(&self) -> bool {
        self.left.least < 1.0
    }
}

impl Draft {
    /// Whether any of its parts may go.
    pub fn saves(&self) -> bool {
        self.parts.iter().any(Part::saves)
    }

    /// One about stretches of one cause, all of which the remedy makes shorter alike: it is about the longest. Nothing of them
    /// is left. None if there is no stretch.
    pub fn of(stretches: &[Stretch], remedy: Remedy) -> Option<Draft> {
        let longest = stretches.iter().max_by_key(|stretch| (stretch.length(), Reverse(stretch.from)))?;
        Some(Draft {
            about: (longest.name, longest.detail),
            figures: vec![Figure { of: "takes", value: Value::Time(whole(stretches)) }],
            parts: stretches.iter().map(|&stretch| Part { stretch, left: Left::NOTHING }).collect(),
            confidence: Confidence::High,
            remedy,
        })
    }

    /// At the worst, this share of each stretch is left.
    #[must_use]
    pub fn leaving(mut self, most: f64) -> Draft {
        self.parts.iter_mut().for_each(|part| part.left.most = most);
        self
    }

    /// How many stretches there are is a figure of its own, called so.
    #[must_use]
    pub fn counting(mut self, of: &'static str) -> Draft {
        let stretches: Vec<Stretch> = self.parts.iter().map(|part| part.stretch).collect();
        self.figures = vec![
            Figure { of, value: Value::Count(stretches.len() as u64) },
            Figure { of: "in all", value: Value::Time(whole(&stretches)) },
        ];
        self
    }

    /// The evidence allows another cause, or the remedy has a price of its own.
    #[must_use]
    pub fn less_sure(mut self) -> Draft {
        self.confidence = Confidence::Medium;
        self
    }

    /// What it can save: what becomes shorter, with all of each wait that begins there and so becomes shorter as a whole. A
    /// price is higher only where the threads then run in another order.
    pub(crate) fn bound(&self, seen: &Seen) -> Ns {
        let saved = |part: &Part| {
            let Stretch { track, from, to, .. } = part.stretch;
            Ns::rounded((seen.waits_until(track, from, to) - from).0 as f64 * (1.0 - part.left.least))
        };
        self.parts.iter().map(saved).sum()
    }
}

fn whole(stretches: &[Stretch]) -> Ns {
    stretches.iter().map(Stretch::length).sum()
}
