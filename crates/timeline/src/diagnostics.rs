//! What did not add up in the evidence: counted by kind of problem, with the place where each was first seen, what that
//! does to the answers, and how long it lasts.
//!
//! A [`Problem`] cannot be made without its severity and its effect. It says nothing about how any of this is shown.

use crate::Ns;

/// Which answers a problem may have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figures {
    /// The boot's length and its end mark.
    Total,
    /// When something happened.
    Times,
    /// The boundaries of phases.
    Phases,
    /// Which function had the time.
    Functions,
    /// The list of initcalls.
    Initcalls,
    /// Who waited for whom.
    Waits,
    /// Which thread ran when.
    Threads,
    /// The list of processes.
    Processes,
    /// The kernel's messages.
    Messages,
    /// Whatever the file in question shows.
    OfThisFile,
}

impl Figures {
    /// In words.
    pub fn as_str(self) -> &'static str {
        match self {
            Figures::Total => "total",
            Figures::Times => "times",
            Figures::Phases => "phases",
            Figures::Functions => "functions",
            Figures::Initcalls => "initcalls",
            Figures::Waits => "waits",
            Figures::Threads => "threads",
            Figures::Processes => "processes",
            Figures::Messages => "messages",
            Figures::OfThisFile => "all that this file shows",
        }
    }
}

/// What a problem does to the answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// No figure is different because of it.
    Harmless,
    /// These figures may be.
    Affects(Figures),
    /// A whole piece of evidence is not used.
    Unusable,
}

impl Severity {
    /// As `--json` says it.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Harmless => "harmless",
            Severity::Affects(_) => "figures affected",
            Severity::Unusable => "unusable",
        }
    }

    /// The figures affected, if it is known which.
    pub fn affects(self) -> Option<Figures> {
        match self {
            Severity::Affects(figures) => Some(figures),
            Severity::Harmless | Severity::Unusable => None,
        }
    }
}

/// One kind of problem: what it is, what that does to the result and what to do, and how bad it is.
///
/// What it is stands behind a count, so both numbers are written: `call[s] crossing another` or `entr[y|ies]`: what is
/// in brackets is for many; before a bar, for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem<'a> {
    severity: Severity,
    what: &'a str,
    effect: &'a str,
}

impl<'a> Problem<'a> {
    /// The clock of one line of execution went back.
    pub const CLOCK_BACK: Problem<'static> =
        Problem::affects(Figures::Times, "step[s] back of a clock", "counted as no time until it catches up");

    /// A problem that changes no figure.
    pub const fn harmless(what: &'a str, effect: &'a str) -> Problem<'a> {
        Problem { severity: Severity::Harmless, what, effect }
    }

    /// A problem that may change these figures.
    pub const fn affects(figures: Figures, what: &'a str, effect: &'a str) -> Problem<'a> {
        Problem { severity: Severity::Affects(figures), what, effect }
    }

    /// A piece of evidence that is not used at all.
    pub const fn unusable(what: &'a str, effect: &'a str) -> Problem<'a> {
        Problem { severity: Severity::Unusable, what, effect }
    }

    /// What [`Diagnostics::count`] knows it by.
    pub fn kind(&self) -> String {
        worded(self.what, u64::MAX)
    }
}

/// One kind of problem, counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// What was wrong, for many.
    pub kind: String,
    /// The same with its brackets.
    what: String,
    /// What that does to the result, with its brackets.
    effect: String,
    /// How bad it is.
    pub severity: Severity,
    /// How often.
    pub count: u64,
    /// How much time it is about, if that is known.
    pub cost: Option<Ns>,
    /// Where it was seen first, usually `file:line`; empty if there is no place.
    pub first: String,
}

impl Diagnostic {
    /// What was wrong, as it stands behind the count: singular or plural.
    pub fn what(&self) -> String {
        worded(&self.what, self.count)
    }

    /// What that does to the result, and what to do.
    pub fn effect(&self) -> String {
        worded(&self.effect, self.count)
    }
}

/// All problems, in order of first appearance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics(Vec<Diagnostic>);

impl Diagnostics {
    /// Counts one more of a problem; `place` is only asked for the first time.
    pub fn note(&mut self, problem: Problem<'_>, place: impl FnOnce() -> String) {
        self.note_many(problem, 1, place);
    }

    /// Counts `count` more of a problem.
    pub fn note_many(&mut self, problem: Problem<'_>, count: u64, place: impl FnOnce() -> String) {
        self.add(problem, count, None, place);
    }

    /// Counts one more of a problem that is about this much time.
    pub fn note_time(&mut self, problem: Problem<'_>, cost: Ns, place: impl FnOnce() -> String) {
        self.add(problem, 1, Some(cost), place);
    }

    fn add(&mut self, problem: Problem<'_>, count: u64, cost: Option<Ns>, place: impl FnOnce() -> String) {
        if count == 0 {
            return;
        }
        let Problem { severity, what, effect } = problem;
        match self.0.iter_mut().find(|d| d.what == what && d.effect == effect) {
            Some(known) => {
                known.count = known.count.saturating_add(count);
                known.cost = sum(known.cost, cost);
            }
            None => {
                let (kind, first) = (problem.kind(), place());
                let (what, effect) = (what.to_owned(), effect.to_owned());
                self.0.push(Diagnostic { kind, what, effect, severity, count, cost, first });
            }
        }
    }

    /// Takes over all of another list.
    pub fn extend(&mut self, other: Diagnostics) {
        for d in other.0 {
            let problem = Problem { severity: d.severity, what: &d.what, effect: &d.effect };
            self.add(problem, d.count, d.cost, || d.first.clone());
        }
    }

    /// How often problems of this kind were seen.
    pub fn count(&self, kind: &str) -> u64 {
        self.0.iter().filter(|d| d.kind == kind).map(|d| d.count).sum()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.0.iter()
    }

    /// Whether everything added up.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn sum(a: Option<Ns>, b: Option<Ns>) -> Option<Ns> {
    match (a, b) {
        (Some(a), Some(b)) => Some(Ns(a.0.saturating_add(b.0))),
        (some, None) | (None, some) => some,
    }
}

/// A text with the endings in its brackets for so many.
fn worded(text: &str, count: u64) -> String {
    let mut worded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, from)) = rest.split_once('[') {
        let Some((inside, after)) = from.split_once(']') else { break };
        let (one, many) = inside.split_once('|').unwrap_or(("", inside));
        worded.push_str(before);
        worded.push_str(if count == 1 { one } else { many });
        rest = after;
    }
    worded.push_str(rest);
    worded
}

#[cfg(test)]
mod tests {
    use super::*;

    const CROSSING: Problem = Problem::harmless("call[s] crossing another", "not drawn");
    const OPEN: Problem = Problem::affects(Figures::Functions, "entr[y|ies] without an exit", "closed with the caller");

    #[test]
    fn what_stands_behind_a_count_is_for_one_or_for_many() {
        let mut all = Diagnostics::default();
        all.note(OPEN, || "a:1".to_owned());
        assert_eq!(all.iter().next().unwrap().what(), "entry without an exit");
        all.note(OPEN, || "a:2".to_owned());
        let open = all.iter().next().unwrap();
        assert_eq!((open.what().as_str(), open.first.as_str()), ("entries without an exit", "a:1"));
        assert_eq!((open.kind.as_str(), all.count("entries without an exit")), ("entries without an exit", 2));
        assert_eq!(worded("file[s] named a]b[", 1), "file named a]b[");
    }

    #[test]
    fn severity_effect_and_cost_are_kept() {
        let mut all = Diagnostics::default();
        all.note_time(CROSSING, Ns(300), String::new);
        let mut more = Diagnostics::default();
        more.note_time(CROSSING, Ns(100), String::new);
        more.note_many(OPEN, 0, String::new);
        more.note(OPEN, String::new);
        all.extend(more);
        let of = |d: &Diagnostic| (d.severity, d.count, d.cost);
        let found: Vec<_> = all.iter().map(of).collect();
        let functions = Severity::Affects(Figures::Functions);
        assert_eq!(found, [(Severity::Harmless, 2, Some(Ns(400))), (functions, 1, None)]);
        assert_eq!(functions.affects().map(Figures::as_str), Some("functions"));
    }
}
