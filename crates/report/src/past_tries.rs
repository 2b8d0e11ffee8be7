//! Which earlier try says something of a finding: the last that booted its remedy, else the last that booted nearly its remedy.
//!
//! The list of initcalls to leave out is another one in nearly every boot, as an initcall is just long enough or just too
//! short. A verdict on the other list is shown with that list, so that what was refuted stays visible. What came out of
//! another remedy for the same cause says nothing of this one.

use benchmark::history::PastTrial;
use benchmark::trial::Cause;
use findings::{Change, Piece};

/// Remedies are nearly the same if they have this part of all their pieces in common.
const COMMON_MIN: f64 = 0.5;
/// So many common pieces say that the cause is the same, too: a list is about its longest, which may be another one.
const SAY_THE_CAUSE: usize = 2;

/// How like a finding's remedy the one is that was booted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Likeness {
    /// It is the same: the order of names in a list says nothing.
    Same,
    /// Most of it is.
    Nearly,
}

/// Of tries, the oldest first, the one that says something of a finding.
pub fn says<'a>(
    past: &'a [PastTrial],
    rule: &str,
    about: &str,
    changes: &[Change],
) -> Option<(&'a PastTrial, Likeness)> {
    let alike: Vec<(&PastTrial, Likeness)> =
        past.iter().filter_map(|past| Some((past, likeness(past, rule, about, changes)?))).collect();
    let last_of = |likeness: Likeness| {
        let of = alike.iter().filter(|(_, of)| *of == likeness).map(|&(past, _)| past);
        last(of).map(|past| (past, likeness))
    };
    last_of(Likeness::Same).or_else(|| last_of(Likeness::Nearly))
}

/// How like the finding's remedy the one is that a try booted with no other; none if the try says nothing of the finding.
fn likeness(past: &PastTrial, rule: &str, about: &str, changes: &[Change]) -> Option<Likeness> {
    let is_of = |cause: &&Cause| cause.rule == rule;
    if past.tried.proof.is_none() || past.together || !past.remedy.findings.iter().any(|cause| is_of(&cause)) {
        return None;
    }
    let [booted, proposed] = [past.remedy.changes.as_slice(), changes].map(pieces);
    let common = booted.iter().filter(|piece| proposed.iter().any(|of| of.is_nearly(piece))).count();
    let same_cause = past.remedy.findings.iter().filter(is_of).any(|cause| cause.about == about);
    if !same_cause && common < SAY_THE_CAUSE {
        return None;
    }
    let all = booted.len() + proposed.len() - common.min(proposed.len());
    match booted == proposed {
        true => Some(Likeness::Same),
        false => (common as f64 >= all as f64 * COMMON_MIN && common > 0).then_some(Likeness::Nearly),
    }
}

fn pieces(changes: &[Change]) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = changes.iter().flat_map(Change::pieces).collect();
    pieces.sort();
    pieces.dedup();
    pieces
}

/// Of tries, the oldest first, the one that counts: one that was cut off only where none was finished, then the one with most
/// boots, then the newest.
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
    fn what_was_cut_off_counts_only_alone() {
        let whole = past("calibration", "6.1", 99.0, Proof::Confirmed);
        let cut = PastTrial { whole: false, ..past("calibration", "6.1", 0.0, Proof::TooNoisy) };
        assert_eq!(last([&whole, &cut].into_iter()), Some(&whole));
        assert_eq!(last([&cut].into_iter()), Some(&cut));
    }

    #[test]
    fn a_verdict_is_of_the_remedy_that_was_booted() {
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
        let of = |names: &str| says(&tries, "calibration", "f", &list(names)).map(|(past, like)| (&past.remedy, like));
        assert_eq!(of("b,a"), Some((&tries[0].remedy, Likeness::Same)));
        assert_eq!(of("a,b,d"), Some((&tries[1].remedy, Likeness::Nearly)));
        assert_eq!(of("y"), None);
    }
}
