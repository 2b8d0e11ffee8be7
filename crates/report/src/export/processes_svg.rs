//! A drawing of a boot's processes in the style of bootchart: time from left to right, a row for each process below its
//! parent, from its fork to its end, darker while it had a CPU.
//!
//! It needs no script, so any viewer shows it whole. If there are more than [`MAX_PROCESSES`] processes, those that last
//! longest are drawn.

use super::Export;
use crate::chart::{AXIS, LINE, MARGIN, WIDTH, axis, x};
use crate::html::esc;
use crate::{Boot, harmless};
use hashbrown::HashMap;
use std::io::{self, Write};
use timeline::{Ns, Process, Running, TrackId, TrackKind};

/// Pixels from one row to the next, and of the bar in it.
const ROW: f64 = 16.0;
const BAR: f64 = 13.0;
/// The most rows of a readable picture.
const MAX_PROCESSES: usize = 400;
/// Pixels of a character. A name stands left of its bar if there is no room behind it.
const CHARACTER: f64 = 6.6;
/// The narrowest stretch on a CPU that is drawn alone, in pixels. A narrower one joins the next.
const MIN_WIDTH: f64 = 0.25;

pub struct ProcessesSvg;

impl Export for ProcessesSvg {
    fn name(&self) -> &'static str {
        "processes-svg"
    }

    fn extension(&self) -> &'static str {
        "processes.svg"
    }

    fn about(&self) -> &'static str {
        "the tree of processes over time, in the manner of bootchart"
    }

    fn write(&self, boot: &Boot, out: &mut dyn Write) -> io::Result<()> {
        if boot.timeline.processes.is_empty() {
            let why = "there are no processes to draw: record a guest's own init with events of the scheduler, or import a \
                       trace or a boot chart";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        let all: Vec<&Process> = boot.timeline.processes.iter().filter(|process| process.start <= boot.total).collect();
        let kept = longest(boot, &all);
        draw(boot, &kept, all.len() - kept.len(), out)
    }
}

/// The processes that last longest, in the order of the tree.
fn longest<'p>(boot: &Boot, all: &[&'p Process]) -> Vec<&'p Process> {
    let length = |process: &Process| process.end.unwrap_or(boot.total) - process.start;
    let mut lengths: Vec<Ns> = all.iter().map(|process| length(process)).collect();
    lengths.sort_unstable_by(|a, b| b.cmp(a));
    let shortest = lengths.get(MAX_PROCESSES).map_or(Ns::MIN, |first_left_out| Ns(first_left_out.0 + 1));
    all.iter().filter(|process| length(process) >= shortest).copied().collect()
}

fn draw(boot: &Boot, rows: &[&Process], left_out: usize, out: &mut dyn Write) -> io::Result<()> {
    let heading = heading(boot, left_out);
    let top = LINE * heading.len() as f64 + LINE / 2.0;
    let bottom = top + AXIS + ROW * rows.len() as f64;
    let height = bottom + MARGIN;
    writeln!(
        out,
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" \
         height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"monospace\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fbfaf8\"/>"
    )?;
    for (i, line) in heading.iter().enumerate() {
        let (y, weight) = (LINE * (i + 1) as f64, if i == 0 { " font-weight=\"bold\"" } else { "" });
        writeln!(out, "<text x=\"{MARGIN}\" y=\"{y}\"{weight}>{}</text>", esc(line))?;
    }
    axis(boot, top, bottom, out)?;
    let running = running(boot);
    // The last row of each depth: a line leads from a child to its parent.
    let mut parents: Vec<(u32, f64, f64)> = Vec::new();
    for (i, process) in rows.iter().enumerate() {
        let y = top + AXIS + ROW * i as f64;
        parents.retain(|(depth, ..)| *depth < process.depth);
        if let Some((_, left, above)) = parents.last() {
            let (middle, to) = (y + BAR / 2.0, x(boot, shown_from(process)));
            let from = left.min(to);
            writeln!(out, "<path d=\"M{from:.1} {above:.1}V{middle:.1}H{to:.1}\" fill=\"none\" stroke=\"#b9b4aa\"/>")?;
        }
        bar(boot, process, running.get(&process.pid).map_or(&[][..], Vec::as_slice), y, out)?;
        parents.push((process.depth, x(boot, shown_from(process)), y + BAR));
    }
    writeln!(out, "</svg>")
}

/// The title, the warnings, and the number of processes that are left out.
fn heading(boot: &Boot, left_out: usize) -> Vec<String> {
    let subject = &boot.facts.subject;
    let title = harmless(format!("Processes {} {}", subject.os, subject.kernel).trim()).into_owned();
    let warnings = super::warnings(boot).map(|warning| format!("Warning: {warning}"));
    let mut lines: Vec<String> = std::iter::once(title).chain(warnings).collect();
    let dark = if boot.timeline.running.is_empty() { "" } else { " Dark: it had a CPU." };
    let left_out = if left_out > 0 { format!(" {left_out} shorter ones are not drawn.") } else { String::new() };
    lines.push(format!("A bar lasts from a process' fork to its end.{dark}{left_out}"));
    lines
}

/// Draws a process: its bar, its stretches on a CPU, and its name.
fn bar(boot: &Boot, process: &Process, running: &[&Running], y: f64, out: &mut dyn Write) -> io::Result<()> {
    let end = process.end.unwrap_or(boot.total).min(boot.total);
    let (from, to) = (x(boot, shown_from(process)), x(boot, end.max(shown_from(process))));
    let name = harmless(boot.timeline.names.get(process.name)).into_owned();
    let name = format!("{name} [{}]", process.pid);
    let length = boot.timeline.unit.show_at(end - process.start);
    let lasts = if process.end.is_some() { length } else { format!("{length}, alive at the end") };
    writeln!(
        out,
        "<g><title>{}, child of {}: from {}, {lasts}</title><rect x=\"{from:.2}\" y=\"{y:.1}\" width=\"{:.2}\" height=\"{BAR}\" \
         fill=\"#cfdcea\" stroke=\"#8aa3bd\" stroke-width=\"0.5\"/>",
        esc(&name),
        process.parent,
        boot.timeline.unit.show_at(process.start),
        (to - from).max(0.5)
    )?;
    let mut dark = String::new();
    let mut last = f64::MIN;
    for stretch in running {
        let (a, b) = (stretch.from.max(process.start), stretch.to.min(end));
        let (a, b) = (x(boot, a).max(last), x(boot, b));
        if b - a >= MIN_WIDTH {
            dark.push_str(&format!("M{a:.2} {y:.1}H{b:.2}V{:.1}H{a:.2}Z", y + BAR));
            last = b;
        }
    }
    if !dark.is_empty() {
        writeln!(out, "<path d=\"{dark}\" fill=\"#3f73a8\"/>")?;
    }
    let width = name.chars().count() as f64 * CHARACTER;
    let (at, anchor) = match to + 4.0 + width < WIDTH - MARGIN {
        true => (to + 4.0, "start"),
        false if from - 4.0 - width > MARGIN => (from - 4.0, "end"),
        false => (from + 4.0, "start"),
    };
    writeln!(out, "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text></g>", y + BAR - 2.5, esc(&name))
}

/// The start of the drawn bar: time zero if the process began before.
fn shown_from(process: &Process) -> Ns {
    process.start.max(Ns::ZERO)
}

/// The stretches on a CPU by process number. Several tracks may have had a number one after the other.
fn running<'a>(boot: &'a Boot) -> HashMap<u64, Vec<&'a Running>> {
    let tracks = &boot.timeline.tracks;
    let pid = |track: TrackId| Some(tracks.get(track)).filter(|t| t.kind == TrackKind::Thread).map(|t| t.id);
    let mut all: HashMap<u64, Vec<&Running>> = HashMap::new();
    for stretch in &boot.timeline.running {
        if let Some(pid) = pid(stretch.track) {
            all.entry(pid).or_default().push(stretch);
        }
    }
    all.values_mut().for_each(|stretches| stretches.sort_by_key(|stretch| stretch.from));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Facts;
    use timeline::{End, EndEvidence, Timeline};

    #[test]
    fn a_process_is_a_bar_below_its_parent() {
        let mut timeline = Timeline::default();
        let init = timeline.names.intern("init");
        let shell = timeline.names.intern("sh <x>\u{1b}");
        let track = timeline.tracks.add(shell, TrackKind::Thread, 7);
        timeline.running.push(Running { track, cpu: 0, from: Ns::from_ms(50), to: Ns::from_ms(75) });
        let process = |pid, parent, depth, name, start, end| Process { pid, parent, depth, name, start, end };
        timeline.processes = vec![
            process(1, 0, 0, init, Ns::ZERO, None),
            process(7, 1, 1, shell, Ns::from_ms(25), Some(Ns::from_ms(75))),
        ];
        let evidence = EndEvidence::LastSign;
        timeline.end = Some(End { at: Ns::from_ms(100), error: Ns::ZERO, evidence, track: None });
        timeline.finalize(Ns::from_ms(100));
        let facts = Facts::default();
        let mut out = Vec::new();
        ProcessesSvg.write(&Boot::new(&timeline, &facts), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        // 1180 pixels are 100 ms.
        let wide = |x: f64, width: f64| format!("<rect x=\"{x:.2}\" y=\"{:.1}\" width=\"{width:.2}\"", top(&text));
        assert!(text.contains(&wide(10.0, 1180.0)), "{text}");
        assert!(text.contains("<rect x=\"305.00\"") && text.contains("width=\"590.00\""), "{text}");
        assert!(text.contains("fill=\"#3f73a8\"") && text.contains("M600.00 "), "{text}");
        assert!(text.contains("sh &lt;x&gt;\\x1b [7], child of 1: from 25.0 ms, 50.0 ms"), "{text}");
        assert!(!text.contains('\u{1b}'));
    }

    /// The vertical position of the first row.
    fn top(text: &str) -> f64 {
        let lines = text.matches("<text x=\"10\"").count();
        LINE * lines as f64 + LINE / 2.0 + AXIS
    }

    #[test]
    fn without_processes_there_is_nothing_to_draw() {
        let (timeline, facts) = (Timeline::default(), Facts::default());
        let refused = ProcessesSvg.write(&Boot::new(&timeline, &facts), &mut Vec::new()).unwrap_err();
        assert!(refused.to_string().contains("no processes"), "{refused}");
    }
}
