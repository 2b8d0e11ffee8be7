//! The first screen of `show`: the phases as one bar, and the most important rows with explanations.
//!
//! The tables after it have the same figures in full.

use crate::Layout;
use crate::paragraph::paragraph;
use crate::row_explanations;
use crate::table::{Align, Column, Line, only, render};
use crate::text::{by_layout, cut, percent, places, width};
use crate::{PhaseLine, Style, Summary, WhereLine, harmless};
use timeline::{Cost, Ns, TimeBase};

/// The most rows that are listed.
const ROWS: usize = 5;

/// The widest bar; a wider one shows no more.
const MAX_BAR: usize = 100;

/// The longest phase name before it is cut.
const MAX_NAME: usize = 22;

/// The share below which phases are summed in the line under the bar.
const MIN_NAMED_SHARE: f64 = 0.01;

/// Writes the phases as a bar, and the most important rows.
pub fn overview(summary: &Summary, layout: Layout, out: &mut String) {
    if summary.total_ns <= 0 {
        return;
    }
    if let Some(noise) = noise(summary) {
        paragraph(&format!("noise: {noise}"), "", layout, out);
    }
    if summary.phases.len() > 1 {
        out.push('\n');
        bar(summary, layout, out);
    }
    if !summary.wheres.is_empty() {
        out.push('\n');
        rows(summary, layout, out);
    }
}

/// The likely distance between this total and the next boot's.
pub(crate) fn noise(summary: &Summary) -> Option<String> {
    match summary.zero()? {
        TimeBase::Host => Some("unknown from one boot; `bootscope bench` measures it".to_owned()),
        TimeBase::GuestVirtual => Some(format!(
            "none (instructions are counted), but any change of the command line moves the total by up to {}",
            by_layout()
        )),
        TimeBase::Evidence => None,
    }
}

/// Neighbouring phases of one family: `VMM: exec`, `VMM: linking`, … are the `VMM`.
struct Segment<'a> {
    family: &'a str,
    /// The shown name.
    name: String,
    cost: Cost,
}

fn segments(phases: &[PhaseLine]) -> Vec<Segment<'_>> {
    let mut segments: Vec<Segment> = Vec::new();
    for phase in phases {
        let name = if phase.family.is_empty() { &phase.name } else { &phase.family };
        let cost = phase.cost();
        match segments.last_mut() {
            Some(last) if last.family == name => last.cost += cost,
            _ => segments.push(Segment { family: name, name: cut(&harmless(name), MAX_NAME).into_owned(), cost }),
        }
    }
    segments
}

/// One segment of each family, also if another family lies between two of its segments.
fn families(segments: Vec<Segment<'_>>) -> Vec<Segment<'_>> {
    let mut families: Vec<Segment> = Vec::new();
    for segment in segments {
        match families.iter_mut().find(|family| family.family == segment.family) {
            Some(family) => family.cost += segment.cost,
            None => families.push(segment),
        }
    }
    families
}

fn bar(summary: &Summary, layout: Layout, out: &mut String) {
    let segments = segments(&summary.phases);
    let columns = layout.width.min(MAX_BAR);
    let column = |ns: i64| places(ns as f64 / summary.total_ns as f64 * columns as f64);
    let (mut at_ns, mut shades) = (0, [Style::bar as fn(Style, &str) -> String, Style::faint].iter().cycle());
    let mut cells = 0;
    for segment in &segments {
        let from = column(at_ns);
        at_ns += segment.cost.length.0;
        let room = column(at_ns).saturating_sub(from);
        if room == 0 {
            continue;
        }
        let paint = shades.next().expect("a cycle never ends");
        out.push_str(&paint(layout.style, &cell(&segment.name, room, cells > 0)));
        cells += 1;
    }
    out.push('\n');
    let share = |ns: i64| ns as f64 / summary.total_ns as f64;
    let families = families(segments);
    let (long, short): (Vec<&Segment>, Vec<&Segment>) =
        families.iter().partition(|segment| share(segment.cost.length.0) >= MIN_NAMED_SHARE);
    let mut named: Vec<String> =
        long.iter().map(|segment| format!("{} {}", segment.name, layout.cost(segment.cost))).collect();
    let others: Cost = short.iter().map(|segment| segment.cost).sum();
    if others.length > Ns::ZERO {
        named.push(format!("others {}", layout.cost(others)));
    }
    paragraph(&named.join(" · "), "", layout, out);
}

/// A segment of the bar: its name if there is room for it, separated from the one before.
fn cell(name: &str, room: usize, edge: bool) -> String {
    let edge = if edge { "│" } else { "" };
    let room = room - edge.chars().count();
    let label = if width(name) <= room { name } else { "" };
    format!("{edge}{label}{}", "─".repeat(room - width(label)))
}

fn rows(summary: &Summary, layout: Layout, out: &mut String) {
    let columns = [
        Column::new("most of the boot went to", Align::Left, Some(34)),
        Column::new("self", Align::Right, Some(layout.time_width() + 2)),
        Column::new("waited", Align::Right, Some(9)),
        Column::new("share", Align::Right, Some(7)),
        Column::new("what it is", Align::Left, None),
    ];
    let listed = &summary.wheres[..summary.wheres.len().min(ROWS.min(layout.top))];
    let shown = [true, true, listed.iter().any(|row| row.self_waited_ns > 0), true, true];
    let lines: Vec<Line> = listed
        .iter()
        .map(|row| Line {
            cells: only(
                [
                    harmless(&row.name).into_owned(),
                    layout.at_least(row.first_calls_only, row.self_cost()),
                    layout.waited(row.self_cost()),
                    percent(row.share),
                    explanation(row),
                ],
                shown,
            ),
            faint: false,
        })
        .collect();
    render(&only(columns, shown), &lines, layout.table_width(), layout.style, out);
}

/// The explanation of a row, and whether only first calls have its time.
fn explanation(row: &WhereLine) -> String {
    let first_calls = row.first_calls_only.then(|| "first calls only".to_owned());
    let parts: Vec<String> = row_explanations::clause(&row.name).into_iter().chain(first_calls).collect();
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(name: &str, start_ns: i64, end_ns: i64) -> PhaseLine {
        let family = name.split(':').next().unwrap_or_default().to_owned();
        PhaseLine { name: name.to_owned(), family, start_ns, end_ns, ..PhaseLine::default() }
    }

    fn drawn(phases: Vec<PhaseLine>, width: usize) -> Vec<String> {
        let total_ns = phases.last().map_or(0, |last| last.end_ns);
        let wheres = vec![WhereLine { name: "initcall acpi_init".into(), self_ns: 1, ..WhereLine::default() }];
        let mut out = String::new();
        overview(
            &Summary { total_ns, phases, wheres, ..Summary::default() },
            Layout { width, ..Layout::default() },
            &mut out,
        );
        out.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_bar_is_as_wide_as_the_terminal_and_names_what_has_room() {
        let lines = drawn(
            vec![
                phase("VMM: exec", 0, 50_000_000),
                phase("VMM: devices", 50_000_000, 100_000_000),
                phase("firmware", 100_000_000, 500_000_000),
                phase("loader", 500_000_000, 500_100_000),
                phase("early kernel", 500_100_000, 1_000_000_000),
            ],
            40,
        );
        assert_eq!(lines[1], "VMM─│firmware───────│early kernel───────");
        assert_eq!(lines[2], "VMM 100 ms · firmware 400 ms · early");
        assert_eq!(lines[3], "kernel 500 ms · others 100 µs");
    }

    #[test]
    fn a_family_in_two_stretches_has_one_sum() {
        let ms = 1_000_000;
        let lines = drawn(
            vec![
                phase("initcalls: early", 0, 300 * ms),
                phase("start other CPUs", 300 * ms, 400 * ms),
                phase("initcalls: pure", 400 * ms, 1000 * ms),
            ],
            60,
        );
        assert_eq!(lines[1].matches("initcalls").count(), 2, "{lines:?}");
        assert_eq!(lines[2], "initcalls 900 ms · start other CPUs 100 ms");
    }

    #[test]
    fn a_row_has_its_explanation() {
        let lines = drawn(vec![phase("firmware", 0, 10)], 80);
        let row = lines.last().expect("a row");
        assert!(row.contains("initcall acpi_init") && row.contains("ACPI tables"), "{lines:?}");
    }

    #[test]
    fn a_bar_is_never_wider_than_the_terminal() {
        for width in 20..120 {
            let phases = (0..97).map(|i| phase(&format!("phase {i}"), i * i, (i + 1) * (i + 1))).collect();
            let lines = drawn(phases, width);
            assert_eq!(lines[1].chars().count(), width.min(MAX_BAR));
        }
    }

    #[test]
    fn a_boot_of_no_length_has_no_bar() {
        assert_eq!(drawn(vec![phase("firmware", 0, 0)], 80), Vec::<String>::new());
    }
}
