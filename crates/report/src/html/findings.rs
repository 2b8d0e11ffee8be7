//! The findings as a section of the page: what is slow, what it costs, and what to do. It has what `show` prints at its
//! end, and the evidence.

use super::esc;
use crate::findings_text::{HEADING, NOT_LOOKED_FOR};
use crate::layout::cost;
use crate::text::counted;
use crate::{ChangeLine, Finding, Findings};
use std::io::{self, Write};
use timeline::{Cost, Ns, Unit};

/// Writes the findings, the most valuable first. Writes nothing if no rules ran.
pub fn section(found: Option<&Findings>, unit: Unit, out: &mut dyn Write) -> io::Result<()> {
    let Some(Findings { total_ns, waited_ns, findings, found, .. }) = found else { return Ok(()) };
    writeln!(
        out,
        "<section aria-labelledby=\"h-findings\" class=\"findings\"><h2 id=\"h-findings\">{}{}</h2>\n\
         <p>Each price is how much shorter the boot becomes, worked out by running it again without that time.</p>",
        HEADING[..1].to_uppercase(),
        &HEADING[1..]
    )?;
    if !findings.is_empty() {
        writeln!(out, "<ol>")?;
        findings.iter().try_for_each(|finding| one(finding, cost(*total_ns, *waited_ns), unit, out))?;
        writeln!(out, "</ol>")?;
    }
    let remarks = found.remarks(findings, unit);
    remarks.iter().try_for_each(|text| writeln!(out, "<p>{}</p>", esc(text)))?;
    let missing = found.not_looked_for();
    missing.into_iter().try_for_each(|lack| writeln!(out, "<p>{NOT_LOOKED_FOR}{}</p>", esc(&lack)))?;
    writeln!(out, "</section>")
}

fn one(finding: &Finding, total: Cost, unit: Unit, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "<li><p><strong>{}</strong> {}</p>\n<p>{}</p>\n<dl class=\"run\">",
        esc(&finding.price(unit)),
        esc(&finding.title),
        esc(&finding.remedy)
    )?;
    let mut item = |label: &str, text: &str| writeln!(out, "<dt>{label}</dt><dd>{}</dd>", esc(text));
    item("saves", &finding.saves(total, unit))?;
    finding.changes.iter().map(ChangeLine::text).try_for_each(|change| item("to try", &change))?;
    if let Some(tried) = &finding.tried {
        item("tried", &tried.text(unit))?;
    }
    item("rule", &format!("{} ({})", finding.id, finding.seed))?;
    writeln!(
        out,
        "</dl>\n<details><summary>evidence <span class=\"faint\">{}</span></summary>",
        counted(finding.evidence_count, "span")
    )?;
    evidence(finding, unit, out)?;
    writeln!(out, "</details></li>")
}

/// Writes the longest spans that show the finding.
fn evidence(finding: &Finding, unit: Unit, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "<div class=\"wide tall\" tabindex=\"0\"><table class=\"sortable\"><thead><tr><th scope=\"col\">span</th>\
         <th scope=\"col\" class=\"n\" aria-sort=\"descending\">length</th><th scope=\"col\" class=\"n\">start</th>\
         <th scope=\"col\">thread</th><th scope=\"col\">what it is for</th></tr></thead><tbody>"
    )?;
    for span in &finding.evidence {
        let length = span.end_ns - span.start_ns;
        writeln!(
            out,
            "<tr><th scope=\"row\">{}</th><td class=\"n\" data-v=\"{length}\">{}</td><td class=\"n\" data-v=\"{}\">{}</td>\
             <td>{}</td><td>{}</td></tr>",
            esc(&span.name),
            unit.show_cost(span.cost()),
            span.start_ns,
            unit.show_at(Ns(span.start_ns)),
            esc(&span.track),
            esc(&span.purpose)
        )?;
    }
    writeln!(out, "</tbody></table></div>")?;
    let more = usize::try_from(finding.evidence_count).unwrap_or(usize::MAX).saturating_sub(finding.evidence.len());
    if more > 0 { writeln!(out, "<p>{} not listed</p>", counted(more as u64, "shorter span")) } else { Ok(()) }
}
