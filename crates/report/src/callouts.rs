//! The labels of a chart of the boot path: its largest rows, and the first findings, each with its place in time.

use crate::Boot;
use crate::text::{cut, percent};
use timeline::Ns;

/// The number of rows, and of findings, that have a label.
const LABELLED: usize = 3;
/// The most columns of a name in a label.
const MAX_NAME: usize = 48;

/// A label, and the stretch of time that it is about.
#[derive(Clone, Debug, PartialEq)]
pub struct Callout {
    pub text: String,
    pub from: Ns,
    pub to: Ns,
    pub is_finding: bool,
}

/// The labels of a boot, those of rows first.
pub fn callouts(boot: &Boot) -> Vec<Callout> {
    let unit = boot.timeline.unit;
    let rows = boot.tables().wheres.iter().take(LABELLED).enumerate().filter_map(|(i, row)| {
        let (from, to) = boot.place_of(i)?;
        let text =
            format!("{}  {}  {}, {}", i + 1, cut(&row.name, MAX_NAME), unit.show(row.self_time), percent(row.share));
        Some(Callout { text, from, to, is_finding: false })
    });
    let findings = boot.findings.iter().flat_map(|found| &found.findings).take(LABELLED).filter_map(|finding| {
        let longest = finding.evidence.iter().max_by_key(|span| span.end_ns - span.start_ns)?;
        let text = format!("!  {}  {}", cut(&finding.title, MAX_NAME), finding.price(unit));
        Some(Callout { text, from: Ns(longest.start_ns), to: Ns(longest.end_ns), is_finding: true })
    });
    rows.chain(findings).collect()
}
