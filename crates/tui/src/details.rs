//! The paragraphs about the selected bar of the flame chart; without one, what the boot spent most on.

use crate::chart::instant;
use crate::flame::{Bar, Spot};
use crate::pen::Paragraph;
use crate::rows::{findings, percent};
use crate::shown::ShownBoot;
use report::Label;
use timeline::{Ns, SpanKind};

/// The most names in a list of them, and the most rows that are named without a selection.
const MAX_NAMES: usize = 4;
const MAX_ROWS: usize = 3;

/// The paragraphs below the chart. They are made once for a selection, because a boot may have a million bars.
pub fn about<'b>(boot: &'b mut ShownBoot) -> &'b [Paragraph] {
    if boot.details.as_ref().is_none_or(|(spot, _)| *spot != boot.spot) {
        let paragraphs = match boot.spot.and_then(|spot| boot.flame.get(spot).map(|bar| (spot, bar))) {
            Some((spot, bar)) => of_bar(boot, spot, bar),
            None => of_boot(boot),
        };
        boot.details = Some((boot.spot, paragraphs));
    }
    boot.details.as_ref().map_or(&[], |(_, paragraphs)| paragraphs)
}

/// The largest rows, and the first findings.
fn of_boot(boot: &ShownBoot) -> Vec<Paragraph> {
    let unit = boot.unit();
    let row = |(i, row): (usize, &report::WhereLine)| {
        ("", format!("{}  {} ({})  {}", i + 1, unit.show(Ns(row.self_ns)), percent(row.share), row.name))
    };
    let warnings = boot.summary.warnings.iter().map(|text| ("warning", text.clone()));
    let rows = boot.summary.wheres.iter().take(MAX_ROWS).enumerate().map(row);
    let found = findings(boot)
        .iter()
        .take(MAX_ROWS)
        .map(|finding| ("", format!("!  {}  {}", finding.price(unit), finding.title)));
    warnings.chain(rows).chain(found).collect()
}

fn of_bar(boot: &ShownBoot, spot: Spot, bar: &Bar) -> Vec<Paragraph> {
    let (unit, total) = (boot.unit(), boot.page.boot.total.0.max(1) as f64);
    let name = |bar: &Bar| boot.page.boot.text(bar.label);
    let at = |at| instant(at, bar.length(), unit);
    let own = boot.flame.own_time(spot);
    let length = format!("{} ({} of the boot)", unit.show(bar.length()), percent(bar.length().0 as f64 / total));
    let mut figures = format!("{length}, from {} to {}", at(bar.start), at(bar.end));
    if own < bar.length() {
        figures.push_str(&format!("; {} of it in nothing below", unit.show(own)));
    }
    let around = std::iter::successors(boot.flame.around(spot), |&spot| boot.flame.around(spot));
    let mut names: Vec<String> = around.take(2 * MAX_NAMES).filter_map(|spot| boot.flame.get(spot)).map(name).collect();
    if spot.row > names.len() {
        names.push("…".to_owned());
    }
    names.reverse();
    let (count, time) = same_name(boot, bar);
    let again =
        (count > 1).then(|| ("again", format!("{count} bars of this name have {} of the boot path", unit.show(time))));
    let mut inside: Vec<&Bar> = boot.flame.inside(spot).filter_map(|spot| boot.flame.get(spot)).collect();
    inside.sort_by_key(|bar| std::cmp::Reverse(bar.length()));
    let inside: Vec<String> =
        inside.iter().take(MAX_NAMES).map(|bar| format!("{} {}", name(bar), unit.show(bar.length()))).collect();
    let mut all = vec![("", format!("{}{}", name(bar), what(bar))), ("", figures)];
    all.extend((!names.is_empty()).then(|| ("in", names.join(" › "))));
    all.extend((!inside.is_empty()).then(|| ("most in", inside.join(", "))));
    all.extend(again);
    all
}

/// The number of bars with a bar's name, and their time without those that lie in others of them.
fn same_name(boot: &ShownBoot, bar: &Bar) -> (usize, Ns) {
    let mut same: Vec<&Bar> =
        boot.flame.bars().map(|(_, other)| other).filter(|other| other.label == bar.label).collect();
    same.sort_by_key(|bar| (bar.start, std::cmp::Reverse(bar.end)));
    let mut until = Ns(i64::MIN);
    let mut time = Ns::ZERO;
    for bar in &same {
        if bar.end > until {
            time += bar.end - bar.start.max(until);
            until = bar.end;
        }
    }
    (same.len(), time)
}

/// The kind of a bar, or how its time passed.
fn what(bar: &Bar) -> &'static str {
    match (bar.label, bar.kind) {
        (Label::Wait, _) => ": the evidence does not say for what",
        (Label::WaitFor(_), _) => ": no thread ran for it",
        (Label::Runqueue, _) => ": ready, and without a CPU",
        (Label::Thread(_), _) => " (thread)",
        (_, Some(SpanKind::Level)) => " (level of initcalls)",
        (_, Some(SpanKind::Module)) => " (module)",
        (_, Some(SpanKind::Probe)) => " (probe)",
        (_, Some(SpanKind::Attach)) => " (attach)",
        (_, Some(SpanKind::Mount)) => " (mount)",
        (_, Some(SpanKind::Work)) => " (work item)",
        (_, Some(SpanKind::Call)) => " (function)",
        (_, Some(SpanKind::Interrupt)) => " (interrupt)",
        (_, Some(SpanKind::Process)) => " (process)",
        (_, Some(SpanKind::Message)) => " (the time after this message)",
        _ => "",
    }
}
