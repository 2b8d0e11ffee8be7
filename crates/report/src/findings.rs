//! Findings as documents list them. The crate `findings` decides what was found and what it costs; each rule brings its
//! own texts. `findings_text` shows findings on a terminal.
//!
//! `bootscope findings --json` prints the document `bootscope.findings/1`; `show --json` has the same list.

use crate::layout::cost;
use crate::past_tries::{Likeness, says};
use benchmark::history::PastTrial;
use benchmark::is_zero;
use benchmark::trial::{Proof, Saved};
use findings::{Change, Detector, Figure, Need, Stretch, Value};
use serde::{Deserialize, Serialize};
use timeline::{Cost, Ns, Timeline, Unit};

/// The name and version of the document.
pub const SCHEMA: &str = "bootscope.findings/1";

/// The whole document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Findings {
    /// `bootscope.findings/1`.
    pub schema: String,
    /// The unit of all fields in `_ns`, as in `show`.
    pub unit: String,
    /// The length of the boot.
    pub total_ns: i64,
    /// The timed waits in `total_ns`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waited_ns: i64,
    /// The findings, the most valuable first.
    pub findings: Vec<Finding>,
    /// The figures for all findings together.
    pub found: FoundLine,
}

/// A cause, its evidence, its cost and its remedy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Finding {
    /// The rule's stable name.
    pub id: String,
    /// The problem and its place, in a sentence.
    pub title: String,
    /// The cost on the boot path: by how much a replay shortens the boot.
    pub cost_ns: i64,
    /// The timed waits in `cost_ns`. In a deterministic boot, the rest is instructions.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cost_waited_ns: i64,
    /// The lowest plausible cost.
    #[serde(default)]
    pub cost_low_ns: i64,
    /// The highest plausible cost.
    #[serde(default)]
    pub cost_high_ns: i64,
    /// `high` or `medium`.
    pub confidence: String,
    /// Spans that show it, the longest first; at most twenty, or at most a thousand on a page.
    pub evidence: Vec<FindingEvidence>,
    /// The number of spans in all.
    #[serde(default)]
    pub evidence_count: u64,
    /// The remedy in a sentence.
    pub remedy: String,
    /// The remedy as changes that can be tried; empty if only a change of code helps.
    #[serde(default)]
    pub changes: Vec<ChangeLine>,
    /// The first description of this cause.
    pub seed: String,
    /// The last result of booting this remedy, or nearly this remedy, on this kernel and machine type. Left out if the
    /// history has no such result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tried: Option<PastProof>,
}

/// The result of an earlier try.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PastProof {
    /// The bench's number in the history.
    pub bench: i64,
    /// The start of the bench, RFC 3339, UTC.
    pub created: String,
    /// The changes that were booted, if they nearly match the finding's; left out if they are the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub booted: Vec<ChangeLine>,
    pub verdict: Option<Proof>,
    /// The saving that the finding claimed then.
    pub claimed: Option<Saved>,
    /// The saving that was measured.
    pub measured: Option<Saved>,
}

/// A span that shows a finding.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FindingEvidence {
    /// The thread.
    pub track: String,
    pub start_ns: i64,
    pub end_ns: i64,
    /// The timed waits in it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waited_ns: i64,
    pub name: String,
    /// The purpose of the span, if the rule has a table of purposes; else left out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub purpose: String,
}

/// A change to a boot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ChangeLine {
    /// `append-words`, `lab-switch`, `qemu-arguments`, `cpus`, `memory`, `patch`, `unpacked-kernel`, `unpacked-initrd` or `kernel-config`.
    pub kind: String,
    /// The words or values that the change removes.
    pub from: Vec<String>,
    /// The words or values that the change adds.
    pub to: Vec<String>,
}

/// The figures for all findings together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FoundLine {
    /// The saving of the listed findings together; time that several share counts once.
    pub together_ns: i64,
    /// The timed waits in `together_ns`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub together_waited_ns: i64,
    /// Findings below this cost are counted and not listed. It is 0.075 % of the boot, or the error of the end mark or
    /// of a clock if that is larger.
    pub noise_ns: i64,
    /// The number of findings below the noise.
    pub below_noise: u64,
    /// The number of findings beyond the requested number.
    pub more: u64,
    /// The rules that could not look, by the evidence that they lack.
    pub missing: Vec<MissingLine>,
}

/// Evidence that rules lack.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct MissingLine {
    pub rules: Vec<String>,
    /// The missing evidence, and what to record for it.
    pub record: String,
}

/// The most spans of evidence per finding in a document.
const MAX_EVIDENCE: usize = 20;

impl Findings {
    /// Makes the document for the findings of a boot.
    pub fn new(timeline: &Timeline, found: &findings::Found) -> Findings {
        Findings::with_evidence(timeline, found, MAX_EVIDENCE)
    }

    /// Makes the document for a page, whose reader can open the rest of a list.
    pub fn of_page(timeline: &Timeline, found: &findings::Found) -> Findings {
        Findings::with_evidence(timeline, found, usize::MAX)
    }

    fn with_evidence(timeline: &Timeline, found: &findings::Found, max_evidence: usize) -> Findings {
        let list = found.findings.iter().map(|finding| Finding::of(timeline, finding, max_evidence));
        Findings {
            schema: SCHEMA.to_owned(),
            unit: timeline.unit.name().to_owned(),
            total_ns: analysis::total(timeline).0,
            waited_ns: timeline.cost(Ns::ZERO, analysis::total(timeline)).waited.0,
            findings: list.collect(),
            found: FoundLine::of(found),
        }
    }

    /// Adds the last result of trying each finding. `past` are tries on the same kernel and machine type, the oldest
    /// first.
    #[must_use]
    pub fn with_tried(mut self, found: &findings::Found, past: &[PastTrial]) -> Findings {
        for (line, finding) in self.findings.iter_mut().zip(&found.findings) {
            let (rule, changes) = (finding.rule.id, &finding.remedy.changes);
            line.tried = says(past, rule, &finding.about, changes).map(|(past, likeness)| PastProof {
                bench: past.bench,
                created: past.created.clone(),
                booted: match likeness {
                    Likeness::Same => Vec::new(),
                    Likeness::Nearly => past.remedy.changes.iter().map(ChangeLine::of).collect(),
                },
                verdict: past.tried.proof,
                claimed: past.remedy.claimed,
                measured: past.tried.measured,
            });
        }
        self
    }
}

impl FoundLine {
    fn of(found: &findings::Found) -> FoundLine {
        let missing = found.missing.iter().map(|lack| MissingLine {
            rules: lack.rules.iter().map(|&rule| rule.to_owned()).collect(),
            record: match (&found.no_prices, lack.need) {
                (Some(why), _) => format!("no prices: {why}"),
                (None, need) => record(need).to_owned(),
            },
        });
        FoundLine {
            together_ns: found.together.length.0,
            together_waited_ns: found.together.waited.0,
            noise_ns: found.noise.0,
            below_noise: found.below_noise as u64,
            more: found.not_priced as u64,
            missing: missing.collect(),
        }
    }
}

impl Finding {
    fn of(timeline: &Timeline, finding: &findings::Finding, most_evidence: usize) -> Finding {
        let evidence = finding.evidence.iter().take(most_evidence);
        Finding {
            id: finding.rule.id.to_owned(),
            title: finding_title(timeline, finding),
            cost_ns: finding.price.likely.0,
            cost_waited_ns: finding.price.waited.0,
            cost_low_ns: finding.price.low.0,
            cost_high_ns: finding.price.high.0,
            confidence: finding.confidence.as_str().to_owned(),
            evidence: evidence.map(|stretch| FindingEvidence::of(timeline, stretch)).collect(),
            evidence_count: finding.evidence_count as u64,
            remedy: finding.remedy.what.to_owned(),
            changes: finding.remedy.changes.iter().map(ChangeLine::of).collect(),
            seed: finding.rule.source.to_owned(),
            tried: None,
        }
    }
}

/// The problem and its place, in a sentence.
pub fn finding_title(timeline: &Timeline, finding: &findings::Finding) -> String {
    // A figure is of some stretches of the evidence, and nothing shows of which.
    let waits = finding.evidence.iter().any(|stretch| timeline.cost(stretch.from, stretch.to).waited > Ns::ZERO);
    let unit = if waits { timeline.unit.with_waits() } else { timeline.unit };
    let figures: Vec<String> = finding.figures.iter().map(|figure| figure_text(*figure, unit)).collect();
    let figures = if figures.is_empty() { String::new() } else { format!(" ({})", figures.join(", ")) };
    format!("{}: {}{figures}", finding.about.trim_end_matches(':'), finding.rule.title)
}

impl FindingEvidence {
    /// Its length in its parts.
    pub(crate) fn cost(&self) -> Cost {
        cost(self.end_ns - self.start_ns, self.waited_ns)
    }

    fn of(timeline: &Timeline, stretch: &Stretch) -> FindingEvidence {
        let names = &timeline.names;
        let name = match (names.get(stretch.name), names.get(stretch.detail)) {
            (name, "") => name.to_owned(),
            (name, detail) => format!("{name} {detail}"),
        };
        FindingEvidence {
            track: names.get(timeline.tracks.get(stretch.track).name).to_owned(),
            start_ns: stretch.from.0,
            end_ns: stretch.to.0,
            waited_ns: timeline.cost(stretch.from, stretch.to).waited.0,
            name,
            purpose: stretch.purpose.to_owned(),
        }
    }
}

impl ChangeLine {
    pub(crate) fn of(change: &Change) -> ChangeLine {
        let (kind, from, to) = match change {
            Change::AppendWords(words) => ("append-words", Vec::new(), words.clone()),
            Change::LabSwitch { from, to } => ("lab-switch", from.clone(), to.clone()),
            Change::QemuArguments { from, to } => ("qemu-arguments", from.clone(), to.clone()),
            Change::Cpus(cpus) => ("cpus", Vec::new(), vec![cpus.to_string()]),
            Change::Memory(bytes) => ("memory", Vec::new(), vec!["--memory".to_owned(), format!("{}M", bytes >> 20)]),
            Change::Patch(patches) => ("patch", Vec::new(), patches.clone()),
            Change::UnpackedKernel => ("unpacked-kernel", Vec::new(), Vec::new()),
            Change::UnpackedInitrd => ("unpacked-initrd", Vec::new(), Vec::new()),
            Change::KernelConfig(options) => ("kernel-config", Vec::new(), options.clone()),
        };
        ChangeLine { kind: kind.to_owned(), from, to }
    }
}

fn figure_text(figure: Figure, unit: Unit) -> String {
    /// Labels of numbers that are not a count of the words in the label.
    const NO_COUNT: [&str; 3] = ["HZ", "of", "twice the least from call"];
    let value = match figure.value {
        Value::Count(count) if !NO_COUNT.contains(&figure.of) => return counted(count, figure.of),
        Value::Count(count) => count.to_string(),
        Value::Time(time) => unit.show(time),
        Value::Share(share) => format!("{:.1} %", share * 100.0),
        Value::Chance(chance) if chance < 1e-9 => "below 1e-9".to_owned(),
        Value::Chance(chance) => format!("{chance:.1e}"),
        Value::Times(times) => format!("{times:.1}"),
    };
    format!("{} {value}", figure.of)
}

/// A count with its noun: `21 tests`, `1 piece of work`.
fn counted(count: u64, of: &str) -> String {
    let (first, rest) = of.split_at(of.find(' ').unwrap_or(of.len()));
    let one = first.strip_suffix('s').filter(|_| count == 1);
    format!("{count} {}{rest}", one.unwrap_or(first))
}

/// The evidence that a rule lacks, and what to record for it.
fn record(need: Need) -> &'static str {
    match need {
        Need::Rate => "the times are in ticks, and nobody knows how long one is: import it with --tsc-frequency",
        Need::BootPath => "there is no boot path: record with --trace events",
        Need::System => {
            "nobody knows which system was booted: import its kernel's whole log, with the line that begins with \
             \u{201c}Linux version\u{201d}"
        }
        Need::Functions => "no function of the kernel is known: record with --trace events,calls",
        Need::Sleeps => {
            "nothing says when a thread slept, or when an initcall returned: record with --trace events, or boot with initcall_debug"
        }
        Need::Memory => "nobody knows how much memory the machine has: boot it with bootscope record",
        Need::MemoryLeft => {
            "nothing says how much memory the boot left unused: record it with bootscope's own process 1 (without --init)"
        }
        Need::Printing => {
            "nothing says when the kernel printed a line: import its log, or record with --trace events,calls"
        }
        Need::Initcalls => "no initcall is known: record with --trace events, or boot with initcall_debug",
        Need::BeforeTheKernel => {
            "nothing is known of what ran before the kernel: record under TCG, with the first-execution trace"
        }
    }
}

/// The kind of evidence, in words.
pub(crate) fn what(need: Need) -> &'static str {
    match need {
        Need::Rate => "times in nanoseconds",
        Need::BootPath => "a boot path",
        Need::System => "which system was booted",
        Need::Functions => "functions of the kernel, with their times",
        Need::Sleeps => "when threads slept, or when each initcall returned",
        Need::Printing => "when the kernel printed each line",
        Need::Initcalls => "initcalls, with their times",
        Need::BeforeTheKernel => "when firmware and decompressor ran",
        Need::Memory => "how much memory the machine has",
        Need::MemoryLeft => "how much memory was left unused",
    }
}

/// The document about a rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Rule {
    /// `bootscope.rule/1`.
    pub schema: String,
    /// The rule's stable name.
    pub id: String,
    /// The problem that it finds.
    pub title: String,
    /// The rule, in sentences.
    pub rule: String,
    /// The smallest amount that makes a finding.
    pub threshold: String,
    /// The assumption behind its price.
    pub price: String,
    /// The evidence that it needs.
    pub needs: Vec<String>,
    /// The first description of the cause.
    pub source: String,
}

impl Rule {
    /// Makes the document about a detector.
    pub fn of(rule: &Detector) -> Rule {
        Rule {
            schema: "bootscope.rule/1".to_owned(),
            id: rule.id.to_owned(),
            title: rule.title.to_owned(),
            rule: rule.rule.to_owned(),
            threshold: rule.threshold.to_owned(),
            price: rule.price.to_owned(),
            needs: rule.needs.iter().map(|&need| what(need).to_owned()).collect(),
            source: rule.source.to_owned(),
        }
    }
}
