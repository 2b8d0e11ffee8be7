//! Past tries: which finding was tried on which kernel and machine type, and the verdict. The history stores the boots only;
//! the verdict is computed from them each time.

use super::{Document, History, HistoryError, Setup, schema};
use crate::Ended;
use crate::trial::{Cause, Remedy, Tried, tried};
use rusqlite::{Connection, params};

/// A remedy that was tried, as stored in the history.
#[derive(Clone, Debug, PartialEq)]
pub struct PastTrial {
    /// The bench's number in the database.
    pub bench: i64,
    /// Time when the bench began, RFC 3339, UTC.
    pub created: String,
    /// Kernel release or file name.
    pub kernel: String,
    /// The setup of the boots without the remedy.
    pub setup: Setup,
    /// True if the boots were deterministic, so that times are instructions.
    pub deterministic: bool,
    /// True if the recording that made the claims followed every call. `None` if the history does not have that.
    pub followed: Option<bool>,
    /// Median time of the boots without the remedy, in ns. `None` if none of them reached its end mark.
    pub base_ns: Option<f64>,
    /// The remedy, with what was claimed for it.
    pub remedy: Remedy,
    /// True if it combines all remedies that another try confirmed.
    pub together: bool,
    /// True if all rounds were done. An interrupted try does not replace a complete one.
    pub whole: bool,
    /// The measurement and the verdict.
    pub tried: Tried,
}

/// Adds the findings whose remedies a document tried; does nothing if the bench is not a try. A remedy that the user proposed
/// gets a row without a rule, and so do all remedies together, so that a query for tries finds them.
pub(super) fn add(add: &Connection, document: &Document, bench: i64) -> Result<(), HistoryError> {
    let Some(trial) = document.head.trial.as_ref() else { return Ok(()) };
    let (setup, kernel) = (Setup::of(document, 0), super::kernel_sha256(document, 0));
    let sql =
        "INSERT OR IGNORE INTO trial (bench, number, rule, about, kernel_sha256, machine) VALUES (?, ?, ?, ?, ?, ?)";
    let mut insert = add.prepare(sql)?;
    for (number, remedy) in (1_i64..).zip(&trial.remedies) {
        let without_finding = Cause::default();
        let findings = if trial.together { &[] } else { &remedy.findings[..] };
        for finding in if findings.is_empty() { std::slice::from_ref(&without_finding) } else { findings } {
            insert.execute(params![bench, number, finding.rule, finding.about, kernel, setup.machine])?;
        }
    }
    Ok(())
}

impl History {
    /// All tries, or those on a kernel (by its hash) and a machine type, oldest first.
    pub fn trials(&self, on: Option<(&str, &str)>) -> Result<Vec<PastTrial>, HistoryError> {
        let trials = || {
            let mut all = Vec::new();
            if !schema::has_trials(&self.db)? {
                return Ok(all);
            }
            let (kernel, machine) = on.unwrap_or_default();
            let sql = "SELECT DISTINCT bench FROM trial
                       WHERE ?1 OR (kernel_sha256 = ?2 AND machine = ?3) ORDER BY bench";
            let mut select = self.db.prepare(sql)?;
            let benches = select.query_map(params![on.is_none(), kernel, machine], |row| row.get::<_, i64>(0))?;
            for bench in benches.collect::<rusqlite::Result<Vec<i64>>>()? {
                let document = self.document_inside(bench)?;
                all.extend(document.iter().flat_map(|document| PastTrial::all_of(bench, document)));
            }
            Ok(all)
        };
        trials().map_err(|e: HistoryError| e.of(&self.path))
    }
}

impl PastTrial {
    /// The tried remedies of one bench. Empty if the bench is not a try.
    fn all_of(bench: i64, document: &Document) -> Vec<PastTrial> {
        let head = &document.head;
        let Some((trial, base)) = head.trial.as_ref().zip(head.variants.first()) else { return Vec::new() };
        let total = document.results.variants.first().and_then(|variant| variant.total.as_ref());
        let one = |(remedy, tried): (&Remedy, Tried)| PastTrial {
            bench,
            created: head.created.clone(),
            kernel: base.kernel_name(),
            setup: Setup::of(document, 0),
            deterministic: head.deterministic,
            followed: trial.followed.or_else(|| guess_followed(head.deterministic, &base.how)),
            base_ns: total.map(|total| total.median.estimate),
            remedy: remedy.clone(),
            together: trial.together,
            whole: document.ended == Some(Ended::Rounds),
            tried,
        };
        tried(document).into_iter().map(one).collect()
    }
}

/// Guesses the missing field `followed` of a try of an older version. Boots timed by the clock were followed if their
/// recording was, as `how` says. For deterministic boots, whose calls are never followed, it is not known.
fn guess_followed(deterministic: bool, how: &serde_json::Value) -> Option<bool> {
    if deterministic { None } else { how["calls"].as_bool() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Proof, Saved, Trial};
    use crate::{Boot, Head, InputFile, Measured, Plan, Stop, Variant};

    #[test]
    fn a_try_is_found_again_by_kernel_and_machine_type() {
        let folder = tempfile::tempdir().unwrap();
        let mut history = History::open(&folder.path().join("history.db")).unwrap();
        let stop = Stop { rounds: 1, ..Stop::default() };
        let plan = Plan { leaves_out: true, variants: 2, warm_ups: 0, stop, seed: 1, ..Plan::default() };
        let mut base = Variant::named("as recorded");
        base.how = serde_json::json!({"machine": "q35"});
        let kernel = InputFile { role: "kernel".to_owned(), sha256: "abc".to_owned(), ..InputFile::default() };
        base.booted.inputs = vec![kernel];
        let finding = Cause { rule: "calibration".to_owned(), about: "SYSINIT cpu".to_owned(), title: String::new() };
        let claimed = Some(Saved { low_ns: 80.0, likely_ns: 90.0, high_ns: 100.0 });
        let remedy = Remedy { findings: vec![finding], claimed, ..Remedy::default() };
        let trial = Some(Trial { remedies: vec![remedy.clone()], ..Trial::default() });
        let head = Head { trial, deterministic: true, ..Head::of(plan, vec![base, Variant::named("remedy")]) };
        let boot = |variant: usize, ns| {
            let measured = Measured { total_ns: Some(ns), outcome: "reached".to_owned(), ..Measured::default() };
            Boot { number: variant as u32, round: Some(0), variant, began_ns: 0, measured }
        };
        let other = |remedy: Remedy, together| {
            let trial = Some(Trial { remedies: vec![remedy], together, ..Trial::default() });
            Document::new(Head { trial, ..head.clone() }, vec![boot(0, 1000), boot(1, 900)], Some(Ended::Rounds))
        };
        let others = [other(Remedy::default(), false), other(remedy.clone(), true)];
        history.add(&Document::new(head.clone(), vec![boot(0, 1000), boot(1, 1000)], None)).unwrap();
        let [found] = &history.trials(Some(("abc", "q35"))).unwrap()[..] else { panic!() };
        assert_eq!((&found.remedy, found.tried.proof, found.base_ns), (&remedy, Some(Proof::Refuted), Some(1000.0)));
        assert_eq!(found.followed, None, "a document of an older version");
        assert_eq!(history.trials(None).unwrap().len(), 1);
        assert_eq!(history.trials(Some(("abc", "pc"))).unwrap(), []);
        assert_eq!(history.trials(Some(("abd", "q35"))).unwrap(), []);
        // A remedy without a finding, and all remedies together.
        for document in &others {
            history.add(document).unwrap();
        }
        let all = history.trials(None).unwrap();
        let marks: Vec<(bool, bool)> = all.iter().map(|past| (past.together, past.whole)).collect();
        assert_eq!(marks, [(false, false), (false, true), (true, true)]);
        // The history keeps with a claim how its recording was made.
        for followed in [true, false] {
            let trial = Trial { followed: Some(followed), remedies: vec![remedy.clone()], ..Trial::default() };
            let head = Head { trial: Some(trial), ..head.clone() };
            history.add(&Document::new(head, vec![boot(0, 1000), boot(1, 900)], None)).unwrap();
            assert_eq!(history.trials(None).unwrap().last().unwrap().followed, Some(followed));
        }
        let by_clock = serde_json::json!({"calls": true});
        assert_eq!((guess_followed(false, &by_clock), guess_followed(true, &by_clock)), (Some(true), None));
    }
}
