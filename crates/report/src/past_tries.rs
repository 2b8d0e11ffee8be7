//! Selects the earlier try that applies to a finding: the last that booted its remedy, or else the last that booted
//! nearly its remedy.
//!
//! The list of initcalls to leave out differs in nearly every boot, because an initcall is just above or below the
//! limit. A verdict on another list is shown with that list, so that a refuted remedy stays visible. The result of
//! another remedy for the same cause says nothing about this one.

use benchmark::history::PastTrial;
use benchmark::trial::Cause;
use findings::{Change, Piece};

/// The least common share of pieces of two remedies that are nearly the same.
const MIN_COMMON: f64 = 0.5;
/// The number of common pieces from which two remedies share their cause. A list is named after its longest piece,
/// which may differ.
const MIN_COMMON_PIECES: usize = 2;

/// The similarity between a finding's remedy and a booted one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Likeness {
    /// The same, up to the order of names in a list.
    Same,
    /// Most pieces are the same.
    Nearly,
}

/// The try that applies to a finding. `past` is in order of time, the oldest first.
pub fn says<'a>(
    past: &'a [PastTrial],
    rule: &str,
    about: &str,
    changes: &[Change],
) -> Option<(&'a PastTrial, Likeness)> {
    let alike: Vec<(&PastTrial, Likeness)> =
        past.iter().filter_map(|past| Some((past, likeness(past, rule, about, changes)?))).collect();
    let last_of = |likeness: Likeness| {
        let tries = alike.iter().filter(|(_, other)| *other == likeness).map(|&(past, _)| past);
        last(tries).map(|past| (past, likeness))
    };
    last_of(Likeness::Same).or_else(|| last_of(Likeness::Nearly))
}

/// The similarity between the finding's remedy and the one that a try booted alone. `None` if the try does not apply to
/// the finding.
fn likeness(past: &PastTrial, rule: &str, about: &str, changes: &[Change]) -> Option<Likeness> {
    let is_of = |cause: &&Cause| cause.rule == rule;
    if past.tried.proof.is_none() || past.together || !past.remedy.findings.iter().any(|cause| is_of(&cause)) {
        return None;
    }
    let [booted, proposed] = [past.remedy.changes.as_slice(), changes].map(pieces);
    let common = booted.iter().filter(|piece| proposed.iter().any(|other| other.is_nearly(piece))).count();
    let same_cause = past.remedy.findings.iter().filter(is_of).any(|cause| cause.about == about);
    if !same_cause && common < MIN_COMMON_PIECES {
        return None;
    }
    let all = booted.len() + proposed.len() - common.min(proposed.len());
    match booted == proposed {
        true => Some(Likeness::Same),
        false => (common as f64 >= all as f64 * MIN_COMMON && common > 0).then_some(Likeness::Nearly),
    }
}

fn pieces(changes: &[Change]) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = changes.iter().flat_map(Change::pieces).collect();
    pieces.sort();
    pieces.dedup();
    pieces
}

/// The try that counts: a complete one before one that was cut off, then the one with most boots, then the newest.
/// `past` is in order of time, the oldest first.
fn last<'a>(past: impl Iterator<Item = &'a PastTrial>) -> Option<&'a PastTrial> {
    past.max_by_key(|past| (past.whole, past.tried.boots))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trials_page::testing::past;
    use benchmark::trial::Proof;

    fn words(words: &[&str]) -> Vec<Change> {
        vec![Change::AppendWords(words.iter().map(|&word| word.to_owned()).collect())]
    }

    fn tried(about: &str, changes: Vec<Change>) -> PastTrial {
        let mut tried = past("calibration", "6.1", 0.0, Proof::Refuted);
        tried.remedy.findings[0].about = about.to_owned();
        PastTrial { remedy: benchmark::trial::Remedy { changes, ..tried.remedy.clone() }, ..tried }
    }

    #[test]
    fn a_try_that_was_cut_off_counts_only_alone() {
        let whole = past("calibration", "6.1", 99.0, Proof::Confirmed);
        let cut = PastTrial { whole: false, ..past("calibration", "6.1", 0.0, Proof::TooNoisy) };
        assert_eq!(last([&whole, &cut].into_iter()), Some(&whole));
        assert_eq!(last([&cut].into_iter()), Some(&cut));
    }

    #[test]
    fn a_verdict_applies_to_the_booted_remedy() {
        let tried = past("calibration", "6.1", 99.0, Proof::Confirmed);
        let is_of = |tried: &PastTrial, rule: &str, about: &str, changes: &[Change]| {
            likeness(tried, rule, about, changes) == Some(Likeness::Same)
        };
        assert!(is_of(&tried, "calibration", "f", &words(&["a=1"])));
        assert!(!is_of(&tried, "calibration", "f", &words(&["a=1", "b"])), "another remedy for the same cause");
        let none = |tried: &PastTrial, rule: &str, about: &str, changes: &[Change]| {
            assert_eq!(likeness(tried, rule, about, changes), None, "{rule} {about} {changes:?}");
        };
        none(&tried, "calibration", "f", &[]);
        none(&tried, "calibration", "f", &words(&["b=1"]));
        none(&tried, "calibration", "g", &words(&["a=1"]));
        none(&tried, "tsc-check", "f", &words(&["a=1"]));
        // Other remedies were booted with it.
        let together = PastTrial { together: true, ..tried };
        none(&together, "calibration", "f", &words(&["a=1"]));
        none(&past("calibration", "6.1", 1.0, Proof::Refuted), "calibration", "f", &[Change::Cpus(2)]);
    }

    #[test]
    fn a_verdict_stays_when_a_list_changes_by_a_name() {
        let like = |about: &str, booted: &str, proposed: &str| {
            let list = |names: &str| words(&[&format!("initcall_blacklist={names}")]);
            likeness(&tried(about, list(booted)), "calibration", "f", &list(proposed))
        };
        assert_eq!(like("f", "a,b,c", "c,a,b"), Some(Likeness::Same));
        assert_eq!(like("f", "a,b,c", "a,b,c,d"), Some(Likeness::Nearly));
        assert_eq!(like("f", "a,b,c,d", "a,b,d"), Some(Likeness::Nearly));
        assert_eq!(like("longest", "a,b,c", "b,c"), Some(Likeness::Nearly), "it is about another one");
        assert_eq!(like("f", "a,b,c", "d,e"), None);
        assert_eq!(like("f", "a,b,c", "a,d,e"), None, "one of five");
        let lpj = |lpj: u64| words(&[&format!("lpj={lpj}")]);
        assert_eq!(likeness(&tried("f", lpj(4_990_464)), "calibration", "f", &lpj(4_990_470)), Some(Likeness::Nearly));
        let config =
            |options: &[&str]| vec![Change::KernelConfig(options.iter().map(|&option| option.to_owned()).collect())];
        let usb = tried("f", config(&["-USB", "-IMA"]));
        assert_eq!(likeness(&usb, "calibration", "f", &config(&["-IMA"])), Some(Likeness::Nearly));
    }

    #[test]
    fn the_very_remedy_comes_before_a_later_one_that_is_near() {
        let list = |names: &str| words(&[&format!("initcall_blacklist={names}")]);
        let tries = [tried("f", list("a,b")), tried("f", list("a,b,c")), tried("f", list("x"))];
        let selected =
            |names: &str| says(&tries, "calibration", "f", &list(names)).map(|(past, like)| (&past.remedy, like));
        assert_eq!(selected("b,a"), Some((&tries[0].remedy, Likeness::Same)));
        assert_eq!(selected("a,b,d"), Some((&tries[1].remedy, Likeness::Nearly)));
        assert_eq!(selected("y"), None);
    }
}
