//! The detector type, and the drafts that detectors make.

use crate::facts::{Confidence, Figure, Stretch, Value};
use crate::{Need, Remedy, Seen};
use std::cmp::Reverse;
use timeline::{NameId, Ns};

/// A rule that finds one kind of slowness: its description, and the function that looks for it.
#[derive(Clone, Copy, Debug)]
pub struct Detector {
    /// The stable name, which documents and `--explain` use.
    pub id: &'static str,
    /// A short name of the cause; a finding's title begins with it.
    pub title: &'static str,
    /// The rule, in sentences.
    pub rule: &'static str,
    /// The first description of the cause: a talk, a mail, the kernel's documentation.
    pub source: &'static str,
    /// The smallest effect that the rule reports, in words.
    pub threshold: &'static str,
    /// The assumptions of the price, in words.
    pub price: &'static str,
    /// The evidence that the rule needs.
    pub needs: &'static [Need],
    /// Looks for the cause. Is called only if all needs are met.
    pub look: fn(&Seen) -> Vec<Draft>,
}

/// The result of a detector, before it is priced.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// The subject: name and detail in the evidence (`DEVICE_PROBE`, `psm`).
    pub about: (NameId, NameId),
    /// The evidence in numbers.
    pub figures: Vec<Figure>,
    /// The stretches that become shorter; they are the draft's evidence too.
    pub parts: Vec<Part>,
    pub confidence: Confidence,
    pub remedy: Remedy,
}

/// A stretch, and the share of it that the remedy leaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    pub stretch: Stretch,
    pub left: Left,
}

/// Shares of a stretch that a remedy leaves, 0 to 1, the smallest first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Left {
    /// In the best case.
    pub least: f64,
    /// Most likely.
    pub likely: f64,
    /// In the worst case.
    pub most: f64,
    /// True if another thread does the work beside the boot: waits in it for other threads become shorter too.
    pub beside: bool,
}

impl Left {
    /// All of it goes.
    pub const NOTHING: Left = Left::of(0.0, 0.0, 0.0);
    /// All of it stays: it is shown as evidence, and saves nothing.
    pub const ALL: Left = Left::of(1.0, 1.0, 1.0);

    /// These shares.
    pub const fn of(least: f64, likely: f64, most: f64) -> Left {
        Left { least, likely, most, beside: false }
    }

    /// The shares of a stretch of length `length` that these times are.
    pub fn time(length: Ns, least: Ns, likely: Ns, most: Ns) -> Left {
        let share = |time: Ns| if length > time { time.0 as f64 / length.0 as f64 } else { 1.0 };
        Left::of(share(least), share(likely), share(most))
    }
}

impl Part {
    /// True if part of it may go.
    pub fn saves(&self) -> bool {
        self.left.least < 1.0
    }
}

impl Draft {
    /// True if part of a stretch may go.
    pub fn saves(&self) -> bool {
        self.parts.iter().any(Part::saves)
    }

    /// A draft about stretches of one cause, which the remedy removes completely. Its subject is the longest. `None` if there is no
    /// stretch.
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

    /// Sets the share of each stretch that is left in the worst case.
    #[must_use]
    pub fn leaving(mut self, most: f64) -> Draft {
        self.parts.iter_mut().for_each(|part| part.left.most = most);
        self
    }

    /// Adds the number of stretches as a figure with this name.
    #[must_use]
    pub fn counting(mut self, figure_name: &'static str) -> Draft {
        let stretches: Vec<Stretch> = self.parts.iter().map(|part| part.stretch).collect();
        self.figures = vec![
            Figure { of: figure_name, value: Value::Count(stretches.len() as u64) },
            Figure { of: "in all", value: Value::Time(whole(&stretches)) },
        ];
        self
    }

    /// Lowers the confidence: the evidence allows another cause, or the remedy has a cost.
    #[must_use]
    pub fn less_sure(mut self) -> Draft {
        self.confidence = Confidence::Medium;
        self
    }

    /// An upper bound of the saving: the parts that become shorter, with the whole of each wait that begins in them. A price is higher only
    /// if the threads then run in another order.
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
