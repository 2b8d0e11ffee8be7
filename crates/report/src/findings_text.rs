//! Findings on a terminal: the list at the end of `show`, and the full list with evidence.

use crate::findings::what;
use crate::layout::cost;
use crate::paragraph::paragraph;
use crate::text::counted;
use crate::{ChangeLine, Finding, FindingEvidence, Findings, FoundLine, Layout, PastProof, harmless};
use findings::Detector;
use std::fmt::Write;
use timeline::{Cost, Ns, Unit};

impl Findings {
    /// The list for a terminal, with evidence.
    pub fn text(&self, layout: Layout) -> String {
        let unit = Unit::named(&self.unit);
        let layout = Layout { unit, ..layout };
        let mut out = String::new();
        for finding in &self.findings {
            finding.head(layout, &mut out);
            for (label, text) in finding.paragraphs(cost(self.total_ns, self.waited_ns), unit) {
                paragraph(&harmless(&text), &format!("    {label:<9} "), layout, &mut out);
            }
            out.push('\n');
        }
        self.found.text(&self.findings, layout, &mut out);
        for lack in self.found.not_looked_for() {
            paragraph(&harmless(&lack), NOT_LOOKED_FOR, layout, &mut out);
        }
        out
    }
}

impl FoundLine {
    fn text(&self, findings: &[Finding], layout: Layout, out: &mut String) {
        self.remarks(findings, layout.unit).iter().for_each(|text| paragraph(text, "", layout, out));
    }

    /// The remarks after a list of findings: what they save together, and how many more there are.
    pub(crate) fn remarks(&self, findings: &[Finding], unit: Unit) -> Vec<String> {
        let time = |ns| unit.show_at(Ns(ns));
        let (count, is_at_best) = (findings.len(), findings.iter().any(Finding::is_at_best));
        let mut remarks = Vec::new();
        if count == 0 && self.missing.is_empty() {
            let rules: Vec<&str> = findings::DETECTORS.iter().map(|rule| rule.id).collect();
            remarks.push(format!(
                "no rule found anything that costs more than {}; there are {} rules, which look for nothing else: {}",
                time(self.noise_ns),
                rules.len(),
                rules.join(", ")
            ));
        }
        if count > 0 && unit == Unit::Instructions {
            let waits = findings.iter().any(|finding| finding.cost_waited_ns != 0);
            remarks.push(if waits { BY_GUEST_TIME } else { BY_INSTRUCTIONS }.to_owned());
        }
        if count > 1 {
            let up_to = if is_at_best { "up to " } else { "" };
            remarks.push(format!(
                "together: {up_to}{} (what they share counts once)",
                unit.show_cost(cost(self.together_ns, self.together_waited_ns))
            ));
        }
        let mut besides = Vec::new();
        if self.more > 0 {
            besides.push(format!("{} not listed", counted(self.more, "further finding")));
        }
        if self.below_noise > 0 {
            besides.push(format!(
                "{} of less than {} left out",
                counted(self.below_noise, "finding"),
                time(self.noise_ns)
            ));
        }
        if !besides.is_empty() {
            remarks.push(besides.join(", "));
        }
        remarks
    }

    /// The evidence that rules lack, and what to record for it.
    pub(crate) fn not_looked_for(&self) -> impl Iterator<Item = String> + '_ {
        self.missing.iter().map(|lack| format!("{} (for {})", lack.record, lack.rules.join(", ")))
    }
}

/// The order of a deterministic boot's findings, and its limit.
const BY_INSTRUCTIONS: &str = "ranked by instructions; on a machine an access of a device costs more than the one instruction that it counts here";

/// The same, if findings save timed waits.
const BY_GUEST_TIME: &str = "ranked by guest time: an instruction counts as 1 ns, and timed waits as long as they last; on a machine an \
     access of a device costs more";

/// The text before each item of [`FoundLine::not_looked_for`].
pub(crate) const NOT_LOOKED_FOR: &str = "not looked for: ";

/// Writes the findings at the end of `show`.
pub(crate) fn advice(findings: &[Finding], found: &FoundLine, layout: Layout, out: &mut String) {
    if findings.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{}", layout.style.heading(HEADING));
    for finding in findings {
        finding.head(layout, out);
        paragraph(&harmless(&finding.remedy), &" ".repeat(PRICE + 2), layout, out);
        if let Some(tried) = &finding.tried {
            paragraph(&harmless(&tried.text(layout.unit)), &" ".repeat(PRICE + 2), layout, out);
        }
    }
    found.text(findings, layout, out);
}

/// The heading of a list of findings.
pub(crate) const HEADING: &str = "what to do, most valuable first";

/// Characters of a price column, enough for `up to 1.60 s`.
const PRICE: usize = 13;

impl Finding {
    /// Writes the finding's price and title.
    fn head(&self, layout: Layout, out: &mut String) {
        let price = format!("{:>PRICE$}  ", self.price(layout.unit));
        paragraph(&harmless(&self.title), &price, layout, out);
    }

    /// The paragraphs below the title, each with its label: what it saves, its evidence, its remedy.
    pub fn paragraphs(&self, total: Cost, unit: Unit) -> Vec<(&'static str, String)> {
        let purposes = self.purposes(unit).map(|purpose| ("", purpose));
        let changes = self.changes.iter().map(|change| ("to try", change.text()));
        let tried = self.tried.iter().map(|tried| ("tried", tried.text(unit)));
        let evidence = [("saves", self.saves(total, unit)), ("evidence", self.evidence_text(unit))];
        let all = evidence.into_iter().chain(purposes).chain([("remedy", self.remedy.clone())]);
        all.chain(changes).chain(tried).chain([("rule", format!("{} ({})", self.id, self.seed))]).collect()
    }

    /// The price that a finding's first line begins with.
    pub fn price(&self, unit: Unit) -> String {
        let up_to = if self.is_at_best() { "up to " } else { "" };
        format!("{up_to}{}", unit.show_cost(self.cost()))
    }

    /// The price as a range, against the whole boot, and the confidence in the cause.
    pub(crate) fn saves(&self, total: Cost, unit: Unit) -> String {
        let bounds = [self.cost_low_ns, self.cost_high_ns];
        let total_text = unit.show_cost(total);
        if self.cost_waited_ns == 0 || unit != Unit::Instructions {
            let [low, high] = bounds.map(|ns| unit.show(Ns(ns)));
            return format!("{low} to {high} of {total_text}; {} confidence", self.confidence);
        }
        let [low, high, length] = [bounds[0], bounds[1], total.length.0].map(|ns| unit.show_at(Ns(ns)));
        let cost = unit.show_cost(self.cost());
        format!("{cost} of {total_text} ({low} to {high} of {length} guest time); {} confidence", self.confidence)
    }

    fn cost(&self) -> Cost {
        cost(self.cost_ns, self.cost_waited_ns)
    }

    /// The purpose of each span of the evidence that has one.
    fn purposes(&self, unit: Unit) -> impl Iterator<Item = String> + '_ {
        let spans = self.evidence.iter().filter(|span| !span.purpose.is_empty());
        spans.map(move |span| format!("{}, {}: {}", span.name, unit.show_cost(span.cost()), span.purpose))
    }

    /// True if the price is the most that the remedy may save, and the least is not even half of that.
    fn is_at_best(&self) -> bool {
        self.cost_ns == self.cost_high_ns && self.cost_low_ns < self.cost_high_ns / 2
    }

    fn evidence_text(&self, unit: Unit) -> String {
        const SHOWN: usize = 3;
        let span = |e: &FindingEvidence| {
            let (length, start) = (unit.show_cost(e.cost()), unit.show_at(Ns(e.start_ns)));
            format!("{} {length} at {start} on {}", e.name, e.track)
        };
        let shown: Vec<String> = self.evidence.iter().take(SHOWN).map(span).collect();
        let all = self.evidence_count;
        let of_all =
            if all > SHOWN as u64 { format!("{}, the longest: ", counted(all, "span")) } else { String::new() };
        format!("{of_all}{}", shown.join("; "))
    }
}

impl ChangeLine {
    /// The kind of the change, what it adds and what it removes.
    pub(crate) fn text(&self) -> String {
        let (from, to) = (self.from.join(" "), self.to.join(" "));
        match (from.is_empty(), to.is_empty()) {
            (true, true) => self.kind.clone(),
            (true, _) => format!("{}: {to}", self.kind),
            (_, true) => format!("{}: without {from}", self.kind),
            _ => format!("{}: {to} instead of {from}", self.kind),
        }
    }
}

impl PastProof {
    /// The verdict, the measured range and the day.
    pub(crate) fn text(&self, unit: Unit) -> String {
        let day: String = self.created.chars().take(10).collect();
        let verdict = crate::trial::word(self.verdict);
        // The history does not keep timed waits apart.
        let unit = unit.with_waits();
        let claimed = crate::trial::range(unit, self.claimed);
        let outcome = match self.measured {
            Some(measured) => {
                format!("; it saved {}, where {claimed} was claimed", crate::trial::range(unit, Some(measured)))
            }
            None => String::new(),
        };
        let booted: Vec<String> = self.booted.iter().map(ChangeLine::text).collect();
        let nearly = if booted.is_empty() {
            String::new()
        } else {
            format!(", with nearly this remedy ({})", booted.join(", "))
        };
        format!(
            "{verdict} on this kernel and machine type{nearly} ({day}, bench {} of the history){outcome}",
            self.bench
        )
    }
}

impl ChangeLine {
    /// The change in short: the words that it adds, or those that it removes.
    pub(crate) fn short(&self) -> String {
        match (self.from.is_empty(), self.to.is_empty()) {
            (true, true) => self.kind.clone(),
            (_, true) => format!("without {}", self.from.join(" ")),
            _ => self.to.join(" "),
        }
    }
}

/// The text that `--explain` prints about a rule.
pub fn explain(rule: &Detector, layout: Layout) -> String {
    let mut out = format!("{}\n", layout.style.heading(rule.id));
    let needs: Vec<&str> = rule.needs.iter().map(|&need| what(need)).collect();
    for (label, text) in [
        ("finds", rule.title),
        ("rule", rule.rule),
        ("from", rule.threshold),
        ("price", rule.price),
        ("needs", &needs.join(", ")),
        ("source", rule.source),
    ] {
        paragraph(text, &format!("  {label:<7} "), layout, &mut out);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_on_nearly_the_same_remedy_says_which() {
        let change =
            |word: &str| ChangeLine { kind: "append-words".to_owned(), from: vec![], to: vec![word.to_owned()] };
        let tried = |booted: Vec<ChangeLine>| {
            let created = "2026-01-01T00:00:00Z".to_owned();
            PastProof {
                bench: 3,
                created,
                booted,
                verdict: Some(benchmark::trial::Proof::Refuted),
                ..PastProof::default()
            }
        };
        assert_eq!(
            tried(vec![]).text(Unit::Nanoseconds),
            "refuted on this kernel and machine type (2026-01-01, bench 3 of the history)"
        );
        assert_eq!(
            tried(vec![change("initcall_blacklist=a,b")]).text(Unit::Nanoseconds),
            "refuted on this kernel and machine type, with nearly this remedy (append-words: initcall_blacklist=a,b) \
             (2026-01-01, bench 3 of the history)"
        );
    }
}
