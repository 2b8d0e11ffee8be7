//! A try as a document and as text: the claim for each remedy, the measured saving, and the verdict. `benchmark`
//! decides the verdicts and defines them ([`benchmark::trial`]).
//!
//! As a document it has the schema `bootscope.try/1`; fields are added, never renamed or removed.

use crate::paragraph::paragraph;
use crate::table::{Align, Column, Line, render};
use crate::text::{by_layout, counted};
use crate::{ChangeLine, Layout, harmless};
use benchmark::trial::{Cause, Failure, Proof, Remedy, Saved, Tried, Untried, tried};
use benchmark::{Document, Ended, Variant};
use serde::{Deserialize, Serialize};
use statistics::verdict::Basis;
use std::fmt::Write;
use timeline::{Ns, Unit};

/// The name and version of the document.
pub const SCHEMA: &str = "bootscope.try/1";

/// The whole document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Proofs {
    /// `bootscope.try/1`.
    pub schema: String,
    /// The recording whose findings were tried.
    pub recording: String,
    /// The folder of the boots.
    pub folder: String,
    /// Kernel release or file name.
    pub kernel: String,
    /// True if the boots were deterministic: one instruction is one nanosecond.
    pub deterministic: bool,
    /// The unit of all `_ns`, as in `show`.
    #[serde(default)]
    pub unit: String,
    /// The reason why the bench ended; `null` if it was killed, or if no boot ran.
    pub ended: Option<Ended>,
    /// The median length of the boot without a remedy, booted again.
    pub base_ns: Option<f64>,
    /// The number of memory layouts; `null` if all boots have the recording's layout.
    #[serde(default)]
    pub layouts: Option<u64>,
    /// Each remedy alone, in the order of the claims.
    pub remedies: Vec<ProofLine>,
    /// All confirmed remedies in one boot.
    pub together: Option<Together>,
    /// Findings without a boot, or without a part in the boot of all confirmed remedies.
    pub untried: Vec<Untried>,
}

/// A remedy and its result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ProofLine {
    /// The findings that it is for; empty for the user's own remedy.
    pub findings: Vec<Cause>,
    /// The changes that it makes.
    pub changes: Vec<ChangeLine>,
    /// The claimed saving.
    pub claimed: Option<Saved>,
    /// The measured saving.
    pub measured: Option<Saved>,
    /// The verdict; `null` if there were too few boots.
    pub verdict: Option<Proof>,
    /// The reason for the verdict, if the verdict alone is not clear.
    pub why: String,
    /// About how many rounds would decide.
    pub rounds_needed: Option<u32>,
    /// The number of boots with it that count.
    pub boots: u64,
    /// The number of those that did not reach the end mark.
    pub failed: u64,
    /// The first of the failed boots.
    pub failure: Option<Failure>,
    /// Options of the kernel's configuration that changed along with those of the remedy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub along: Vec<String>,
}

/// All confirmed remedies, in one boot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Together {
    /// The sum of their single savings.
    pub sum_ns: f64,
    /// Their joint saving.
    pub joint: ProofLine,
}

/// The most options that are named; the document has all.
const MAX_ALONG_NAMED: usize = 8;
/// The limit of a try whose claims and boots count the same.
const SAME_COUNTER: &str = "claims and boots count on the same guest clock: a confirmed claim proves bootscope's replay, and says nothing \
                            of a machine's milliseconds; a try without --deterministic measures those";
/// The name of the boot with all confirmed remedies.
const ALL: &str = "all confirmed";

impl Proofs {
    /// Makes the document from the boots of each remedy, and from those of all remedies together if there are any.
    /// `None` if the bench is not a try.
    pub fn of(folder: &str, single: &Document, joint: Option<&Document>) -> Option<Proofs> {
        let trial = single.head.trial.as_ref()?;
        let remedies = lines(single);
        let confirmed = remedies.iter().filter(|line| line.verdict == Some(Proof::Confirmed));
        let sum_ns = confirmed.filter_map(|line| Some(line.measured?.likely_ns)).sum();
        let left_out = joint.and_then(|joint| joint.head.trial.as_ref()).map_or(&[][..], |trial| &trial.untried);
        let untried = trial.untried.iter().chain(left_out).cloned().collect();
        let joint = joint.and_then(|joint| lines(joint).pop());
        Some(Proofs {
            schema: SCHEMA.to_owned(),
            recording: trial.recording.clone(),
            folder: folder.to_owned(),
            kernel: single.head.variants.first().map(Variant::kernel_name).unwrap_or_default(),
            deterministic: single.head.deterministic,
            unit: unit_of_boots(single).name().to_owned(),
            ended: single.ended,
            base_ns: base_ns(single),
            layouts: single.head.dithered.then(|| tried(single).first().map_or(0, |(_, tried)| tried.base.0 as u64)),
            remedies,
            together: joint.map(|joint| Together { sum_ns, joint }),
            untried,
        })
    }

    /// The text for a terminal.
    pub fn text(&self, layout: Layout) -> String {
        let mut out = String::new();
        if let Some(base) = self.base_ns {
            let _ = writeln!(out, "{} as recorded: {}", harmless(&self.kernel), time(self.unit(), base));
            if let Some(layouts) = self.layouts {
                let layouts = counted(layouts, "memory layout");
                let _ = writeln!(out, "the median of {layouts}; the recording has another length");
            }
            out.push('\n');
        }
        if !self.remedies.is_empty() {
            self.table(layout, &mut out);
            out.push('\n');
        }
        if self.deterministic && self.remedies.iter().any(|line| line.claimed.is_some() && line.measured.is_some()) {
            paragraph(SAME_COUNTER, "", layout, &mut out);
        }
        // One line each, without breaks, so that a user can copy them.
        for line in &self.remedies {
            let _ = writeln!(out, "{}: {}", self.name_of(line), line.remedy());
        }
        for line in &self.remedies {
            if let Some(along) = line.along_text() {
                paragraph(&harmless(&format!("{}: {along}", self.name_of(line))), "", layout, &mut out);
            }
        }
        for line in self.remedies.iter().chain(self.together.iter().map(|all| &all.joint)) {
            let name = if line.findings.is_empty() { line.name() } else { self.name_of(line) };
            line.remark(&name, &self.folder, layout, &mut out);
        }
        if let Some(Together { sum_ns, joint }) = &self.together {
            let time = |ns| time(self.unit(), ns);
            let joint = joint.measured.map_or_else(|| "not known".to_owned(), |saved| time(saved.likely_ns));
            let text = format!("{ALL}: one by one they save {} in all; together in one boot, {joint}", time(*sum_ns));
            paragraph(&text, "", layout, &mut out);
        }
        for (why, findings) in self.untried_by_reason() {
            let text = format!("{}: {why}", findings.join(", "));
            paragraph(&harmless(&text), "not tried: ", layout, &mut out);
        }
        if self.remedies.is_empty() {
            out.push_str("nothing was booted: there is no remedy that bootscope can make\n");
        }
        out
    }

    /// The unit of its lengths.
    fn unit(&self) -> Unit {
        if self.unit.is_empty() { unit_of(self.deterministic) } else { Unit::named(&self.unit) }
    }

    /// A remedy's name in the tables: its rules. If another remedy has the same rules, the subject of its findings is
    /// added.
    fn name_of(&self, line: &ProofLine) -> String {
        let name = line.name();
        if line.findings.is_empty() || self.remedies.iter().filter(|other| other.name() == name).count() < 2 {
            return name;
        }
        let about: Vec<&str> = line.findings.iter().map(|finding| finding.about.as_str()).collect();
        format!("{name}: {}", harmless(&about.join(", ")))
    }

    fn untried_by_reason(&self) -> Vec<(&str, Vec<String>)> {
        let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
        for Untried { finding, why } in &self.untried {
            let name = format!("{} ({})", finding.rule, finding.about);
            match reasons.iter_mut().find(|(known, _)| known == why) {
                Some((_, findings)) => findings.push(name),
                None => reasons.push((why, vec![name])),
            }
        }
        reasons
    }

    fn table(&self, layout: Layout, out: &mut String) {
        let titles = [
            ("finding", Align::Left, Some(40)),
            ("claimed", Align::Right, Some(40)),
            ("measured", Align::Right, Some(40)),
            ("verdict", Align::Left, Some(20)),
        ];
        let mut columns: Vec<Column> =
            titles.into_iter().map(|(title, align, most)| Column::new(title, align, most)).collect();
        if let Some(verdict) = columns.last_mut() {
            verdict.paint = |style, text| match text.trim_end() {
                text if text == word(Some(Proof::Confirmed)) => style.good(text),
                text if text == word(Some(Proof::TooNoisy)) || text == word(None) => text.to_owned(),
                text => style.bad(text),
            };
        }
        let joint = self.together.iter().map(|all| &all.joint);
        let cells =
            |line: &ProofLine, name: String| Line { cells: line.cells(name, self.unit()).to_vec(), faint: false };
        let mut lines: Vec<Line> = self.remedies.iter().map(|line| cells(line, self.name_of(line))).collect();
        lines.extend(joint.map(|line| cells(line, ALL.to_owned())));
        render(&columns, &lines, layout.table_width(), layout.style, out);
    }
}

fn base_ns(document: &Document) -> Option<f64> {
    Some(document.results.variants.first()?.total.as_ref()?.median.estimate)
}

fn lines(document: &Document) -> Vec<ProofLine> {
    tried(document).into_iter().map(|(remedy, tried)| ProofLine::of(remedy, &tried)).collect()
}

impl ProofLine {
    /// The line of a tried remedy.
    pub fn of(remedy: &Remedy, tried: &Tried) -> ProofLine {
        ProofLine {
            findings: remedy.findings.clone(),
            changes: remedy.changes.iter().map(ChangeLine::of).collect(),
            claimed: remedy.claimed,
            measured: tried.measured,
            verdict: tried.proof,
            why: why(remedy, tried),
            rounds_needed: tried.rounds_needed,
            boots: tried.boots as u64,
            failed: tried.failed as u64,
            failure: tried.failure.clone(),
            along: remedy.along.clone(),
        }
    }

    /// The options that changed along with those of the remedy, in a sentence; `None` if no other option changed.
    pub(crate) fn along_text(&self) -> Option<String> {
        if self.along.is_empty() {
            return None;
        }
        let named: Vec<&str> = self.along.iter().take(MAX_ALONG_NAMED).map(String::as_str).collect();
        let more = if self.along.len() > MAX_ALONG_NAMED { ", …" } else { "" };
        let changed = counted(self.along.len() as u64, "option");
        Some(format!("{changed} of the configuration changed too: {}{more}", named.join(", ")))
    }

    /// The rules that it is for.
    fn name(&self) -> String {
        let mut rules: Vec<&str> = self.findings.iter().map(|finding| finding.rule.as_str()).collect();
        rules.dedup();
        if rules.is_empty() { "(your own)".to_owned() } else { harmless(&rules.join(", ")).into_owned() }
    }

    /// The changes, in words.
    fn remedy(&self) -> String {
        let changes: Vec<String> = self.changes.iter().map(ChangeLine::short).collect();
        harmless(&changes.join(" ")).into_owned()
    }

    fn cells(&self, name: String, unit: Unit) -> [String; 4] {
        [name, range(unit, self.claimed), range(unit, self.measured), word(self.verdict).to_owned()]
    }

    fn remark(&self, name: &str, folder: &str, layout: Layout, out: &mut String) {
        if self.why.is_empty() {
            return;
        }
        let kept = match &self.failure {
            Some(failure) => format!("; its recording is {folder}/boots/{:04}", failure.boot),
            None => String::new(),
        };
        let text = format!("{name}: {}: {}{kept}", word(self.verdict), self.why);
        paragraph(&harmless(&text), "", layout, out);
    }
}

/// A verdict in words.
pub(crate) fn word(verdict: Option<Proof>) -> &'static str {
    match verdict {
        Some(Proof::Confirmed) => "confirmed",
        Some(Proof::Refuted) => "refuted",
        Some(Proof::TooNoisy) => "too noisy",
        Some(Proof::BreaksTheBoot) => "breaks the boot",
        None => "no verdict",
    }
}

fn why(remedy: &Remedy, tried: &Tried) -> String {
    let by_time = match tried.proof {
        Some(Proof::Confirmed) => String::new(),
        Some(Proof::Refuted) => refuted(remedy.claimed, tried.measured).to_owned(),
        Some(Proof::TooNoisy) => noisy(tried),
        Some(Proof::BreaksTheBoot) => return failures(tried),
        None if !tried.uncountable.is_empty() => format!(
            "{} changes what an instruction costs, and these boots count instructions: try it without --deterministic",
            tried.uncountable.join(" ")
        ),
        None if tried.base.0 == 0 || tried.boots == 0 => "it was stopped before there was a boot to compare".to_owned(),
        None if tried.base.0 == tried.base.1 => "the boot as recorded never reached its end mark".to_owned(),
        None => "no two boots of a round reached the end mark".to_owned(),
    };
    let failures = if tried.failed > 0 { failures(tried) } else { String::new() };
    [by_time, failures].into_iter().filter(|part| !part.is_empty()).collect::<Vec<String>>().join("; ")
}

/// The advice about boots that cannot decide.
fn noisy(tried: &Tried) -> String {
    match (tried.rounds_needed, tried.basis) {
        (Some(rounds), Some(Basis::Repeated(_))) => format!(
            "one round has one memory layout, and another layout alone moves the total by up to {}: --runs {rounds} may tell",
            by_layout()
        ),
        (Some(rounds), _) => format!("about {} would tell: --runs {rounds}", counted(rounds.into(), "round")),
        (None, Some(Basis::Pairs(_))) => {
            "more than 10 000 rounds would be needed: count instructions with --deterministic".to_owned()
        }
        (None, _) => "more than 10 000 rounds would be needed".to_owned(),
    }
}

/// A text such as `2 of 5 boots ended with panic (…); as recorded, 1 of 5 failed`.
fn failures(tried: &Tried) -> String {
    let failure = tried.failure.clone().unwrap_or_default();
    let detail = if failure.detail.is_empty() { String::new() } else { format!(" ({})", failure.detail) };
    let boots = counted(tried.boots as u64, "boot");
    let how = if tried.failed == 1 { "ended with" } else { "failed, the first with" };
    let base = match tried.base {
        (_, 0) => String::new(),
        (boots, failed) => format!("; as recorded, {failed} of {boots} failed"),
    };
    format!("{} of {boots} {how} {}{detail}{base}", tried.failed, failure.outcome)
}

fn refuted(claimed: Option<Saved>, measured: Option<Saved>) -> &'static str {
    let Some(measured) = measured else { return "" };
    let most = claimed.map_or(f64::INFINITY, |claimed| claimed.high_ns.max(claimed.likely_ns));
    if measured.high_ns < 0.0 {
        "it makes the boot slower"
    } else if measured.low_ns > most {
        "the claim is too low: it saves more"
    } else if measured.low_ns <= 0.0 || claimed.is_none() {
        "it saves nothing that these boots could tell"
    } else {
        "the claim is too high: it saves less"
    }
}

/// A saving with its interval, such as `60.0 ms (54.0 to 60.0 ms)`.
pub(crate) fn range(unit: Unit, saved: Option<Saved>) -> String {
    let Some(Saved { low_ns, likely_ns, high_ns }) = saved else { return "-".to_owned() };
    let time = |ns| time(unit, ns);
    format!("{} ({})", time(likely_ns), crate::text::range(&time(low_ns), &time(high_ns)))
}

/// A computed length.
pub(crate) fn time(unit: Unit, ns: f64) -> String {
    unit.show(Ns::rounded(ns))
}

/// The unit of the lengths of boots that were, or were not, deterministic, if their timed waits are unknown.
pub(crate) fn unit_of(deterministic: bool) -> Unit {
    if deterministic { Unit::GuestTime } else { Unit::Nanoseconds }
}

/// The unit of the lengths of a bench. They are instructions only if no boot has timed waits.
pub(crate) fn unit_of_boots(document: &Document) -> Unit {
    let lengths = || document.boots.iter().map(|boot| &boot.measured).filter(|measured| measured.total_ns.is_some());
    match document.head.deterministic {
        true if lengths().next().is_some() && lengths().all(|measured| measured.waited_ns == Some(0)) => {
            Unit::Instructions
        }
        deterministic => unit_of(deterministic),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use benchmark::trial::Trial;
    use benchmark::{Boot, Head, Measured, Plan, Stop};
    use findings::Change;

    fn document(totals: &[Option<i64>]) -> Document {
        let stop = Stop { rounds: 1, ..Stop::default() };
        let plan = Plan { leaves_out: true, variants: totals.len(), warm_ups: 0, stop, seed: 1, ..Plan::default() };
        let names = (0..totals.len()).map(|i| Variant::named(&i.to_string())).collect();
        let remedy = |i: usize| Remedy {
            findings: vec![Cause { rule: format!("rule-{i}"), about: "f".to_owned(), title: String::new() }],
            changes: vec![Change::AppendWords(vec![format!("word{i}")])],
            claimed: Some(Saved { low_ns: 90e6, likely_ns: 100e6, high_ns: 100e6 }),
            along: Vec::new(),
        };
        let trial = Trial { remedies: (1..totals.len()).map(remedy).collect(), ..Trial::default() };
        let head = Head { trial: Some(trial), deterministic: true, ..Head::of(plan, names) };
        let boot = |(i, total): (usize, &Option<i64>)| {
            let outcome = if total.is_some() { "reached" } else { "panic" }.to_owned();
            let detail = if total.is_some() { "" } else { "no init\u{1b}[31m found" }.to_owned();
            let measured = Measured {
                outcome,
                detail,
                total_ns: total.map(|ms| ms * 1_000_000),
                waited_ns: total.map(|_| 0),
                ..Measured::default()
            };
            Boot { number: i as u32, round: Some(0), variant: i, began_ns: 0, measured }
        };
        Document::new(head, totals.iter().enumerate().map(boot).collect(), Some(Ended::Rounds))
    }

    #[test]
    fn the_table_has_claimed_beside_measured_and_the_verdict() {
        let mut single = document(&[Some(1000), Some(900), Some(1000), None]);
        single.head.dithered = true;
        let joint = document(&[Some(1000), Some(895)]);
        let proofs = Proofs::of("boots/try", &single, Some(&joint)).unwrap();
        let text = proofs.text(Layout { wide_tables: true, ..Layout::default() });
        let line =
            |starts: &str| text.lines().find(|line| line.starts_with(starts)).unwrap_or_else(|| panic!("{text}"));
        assert!(line("rule-1 ").ends_with("confirmed") && line("rule-1: ") == "rule-1: word1", "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
        assert!(line("rule-1 ").contains("100 M instr (90.0 to 100 M instr)"), "{text}");
        assert!(line("the median of 1 memory layout;").contains("the recording"), "{text}");
        assert!(line("rule-2 ").ends_with("refuted") && line("rule-3 ").ends_with("breaks the boot"), "{text}");
        assert!(line("rule-2: refuted").contains("saves nothing"), "{text}");
        assert!(text.contains("panic") && text.contains("boots/try/boots/0003"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text:?}");
        assert!(line("all confirmed:").contains("save 100 M instr in all;") && text.contains("105 M instr"), "{text}");
        // If a boot has timed waits, or if nothing tells, no length is of instructions.
        for waited_ns in [Some(1), None] {
            single.boots[1].measured.waited_ns = waited_ns;
            let text = Proofs::of("boots/try", &single, Some(&joint)).unwrap().text(Layout::default());
            assert!(text.contains("100 ms (90.0 to 100 ms)") && !text.contains("instr ("), "{text}");
        }
    }

    #[test]
    fn why_says_which_way_a_claim_fails_and_what_to_do() {
        let saved = |low: f64, likely: f64, high: f64| {
            Some(Saved { low_ns: low * 1e6, likely_ns: likely * 1e6, high_ns: high * 1e6 })
        };
        let claimed = saved(95.0, 100.0, 101.0);
        assert!(refuted(claimed, saved(190.0, 200.0, 210.0)).contains("it saves more"));
        // The boot is slower, although the estimate lies within the lower end of the claim.
        assert!(refuted(saved(0.0, 100.0, 100.0), saved(-3.0, -1.0, -0.5)).contains("slower"));
        assert!(refuted(claimed, saved(10.0, 20.0, 30.0)).contains("it saves less"));
        assert!(refuted(claimed, saved(-1.0, 2.0, 5.0)).contains("saves nothing"));
        assert!(refuted(None, saved(-1.0, 0.0, 1.0)).contains("saves nothing"));
        let tried = |basis| Tried {
            measured: saved(-1.0, 0.0, 1.0),
            proof: Some(Proof::TooNoisy),
            rounds_needed: matches!(basis, Basis::Repeated(_)).then_some(6),
            basis: Some(basis),
            uncountable: Vec::new(),
            boots: 5,
            failed: 1,
            failure: Some(Failure { boot: 3, outcome: "hang".to_owned(), detail: String::new() }),
            base: (5, 0),
        };
        let text = |basis| why(&Remedy::default(), &tried(basis));
        let repeats = text(Basis::Repeated(0.000_75));
        assert!(repeats.contains("by up to 0.075 %, and on some kernels by 3 %: --runs 6 may tell"), "{repeats}");
        assert!(text(Basis::Pairs(10)).contains("--deterministic") && !text(Basis::Pairs(10)).contains("repeat"));
        assert!(!text(Basis::Dithered(5, 5)).contains("--deterministic"), "they are");
        assert!(text(Basis::Pairs(10)).contains("1 of 5 boots ended with hang"), "{}", text(Basis::Pairs(10)));
    }

    #[test]
    fn a_bench_without_a_try_has_no_proofs() {
        let mut single = document(&[Some(1000), Some(900)]);
        single.head.trial = None;
        assert_eq!(Proofs::of("a", &single, None), None);
    }

    #[test]
    fn options_that_changed_too_are_named() {
        let mut document = document(&[Some(1000), Some(900)]);
        let remedies = &mut document.head.trial.as_mut().unwrap().remedies;
        remedies[0].along = (0..10).map(|n| format!("-OPTION_{n}")).collect();
        let proofs = Proofs::of("try", &document, None).unwrap();
        assert_eq!(proofs.remedies[0].along.len(), 10, "the document has all");
        let text = proofs.text(Layout { wide_tables: true, ..Layout::default() });
        assert!(text.contains("10 options of the configuration changed too: -OPTION_0, "), "{text}");
        assert!(text.contains("-OPTION_7, …") && !text.contains("-OPTION_8"), "{text}");
    }
}
