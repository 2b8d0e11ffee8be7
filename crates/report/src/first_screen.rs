//! The first screen of a page as an SVG without a script, for a README or a mail: the phases, the boot path as a flame chart, and its
//! largest rows and findings.
//!
//! It is shorter than [`MAX_BYTES`]: the shortest bars are drawn together, or left out, until it fits.

use crate::callouts::{Callout, callouts};
use crate::chart::{AXIS, CHARACTER, LINE, Layout, MARGIN, WIDTH, axis, plain_frames, x};
use crate::html::esc;
use crate::text::cut;
use crate::{Boot, harmless, phase_colour};
use std::fmt::Write as _;
use std::io::{self, Write};
use timeline::Ns;

/// The largest file, in bytes.
const MAX_BYTES: usize = 100_000;
/// The bars drawn one by one in the first attempt, and the narrowest in pixels. Each further attempt has half as many, twice as wide.
const MAX_BARS: usize = 1_200;
const MIN_WIDTH: f64 = 0.4;
/// The most rows of bars.
const MAX_ROWS: u32 = 16;
/// Pixels of the strip of phases.
const PHASES: f64 = 24.0;
/// Pixels from one line of labels to the next, and between labels in a line.
const LABEL: f64 = 18.0;
const APART: f64 = 10.0;
/// The most lines of warnings, and the most characters of a line.
const MAX_WARNINGS: usize = 3;
const MAX_CHARACTERS: usize = 160;

/// Writes the picture.
///
/// # Errors
/// If `out` cannot be written.
pub fn first_screen(boot: &Boot, out: &mut dyn Write) -> io::Result<()> {
    let slices = boot.path_slices();
    let (mut bars, mut narrowest) = (MAX_BARS, MIN_WIDTH);
    loop {
        let layout = Layout::with_most(slices.clone(), bars);
        let picture = picture(boot, &layout, narrowest);
        // With bars as wide as the picture there is one for each row.
        if picture.len() < MAX_BYTES || narrowest > WIDTH {
            return out.write_all(picture.as_bytes());
        }
        (bars, narrowest) = (bars / 2, narrowest * 2.0);
    }
}

fn picture(boot: &Boot, layout: &Layout, narrowest: f64) -> String {
    let heading = heading(boot);
    let strip = LINE * heading.len() as f64 + LINE / 2.0;
    let placed = placed(&callouts(boot), boot);
    let lines = placed.iter().map(|label| label.line + 1).max().unwrap_or(0);
    let labels = strip + PHASES + AXIS;
    let bars = labels + LABEL * lines as f64 + if lines > 0 { 6.0 } else { 0.0 };
    let rows = layout.rows().min(MAX_ROWS);
    let (mut drawn, colours) = plain_frames(boot, layout, (MAX_ROWS, narrowest), bars);
    if layout.rows() > MAX_ROWS {
        let (x, y) = (WIDTH - MARGIN, bars + crate::chart::ROW * f64::from(rows) + 13.0);
        let more = layout.rows() - MAX_ROWS;
        let _ =
            writeln!(drawn, "<text x=\"{x}\" y=\"{y}\" text-anchor=\"end\" fill=\"#5d5a54\">{more} more rows</text>");
    }
    let bottom = bars + crate::chart::ROW * f64::from(rows + u32::from(layout.rows() > MAX_ROWS));
    let height = bottom + LINE + MARGIN;
    let mut svg = format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" font-family=\"monospace\" font-size=\"12\" xml:space=\"preserve\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    for (i, line) in heading.iter().enumerate() {
        let (y, weight) = (LINE * (i + 1) as f64, if i == 0 { " font-weight=\"bold\"" } else { "" });
        let _ = writeln!(svg, "<text x=\"{MARGIN}\" y=\"{y}\"{weight}>{}</text>", esc(line));
    }
    phases(boot, strip, narrowest, &mut svg);
    let mut lines_of_time = Vec::new();
    axis(boot, strip + PHASES, bottom, &mut lines_of_time).expect("a vector takes all");
    svg.push_str(&String::from_utf8_lossy(&lines_of_time));
    svg.push_str(&drawn);
    // A line may cross a label of a lower line, so the labels come last.
    placed.iter().for_each(|label| label.draw_line(labels, bars, &mut svg));
    placed.iter().for_each(|label| label.draw_text(labels, &mut svg));
    legend(&colours, bottom + LINE, &mut svg);
    svg.push_str("</svg>\n");
    svg
}

/// The kernel with its total, the machine, and the warnings.
fn heading(boot: &Boot) -> Vec<String> {
    let subject = &boot.facts.subject;
    let kernel = format!("{} {}", subject.os, subject.kernel);
    let kernel = if kernel.trim().is_empty() { "A boot" } else { kernel.trim() };
    let outcome = if boot.facts.outcome.is_empty() { "outcome unknown" } else { &boot.facts.outcome };
    let title = format!("{kernel}: {}, {outcome}", boot.timeline.unit.show_cost(boot.cost()));
    let cpus = match subject.cpus {
        0 => String::new(),
        1 => "1 CPU".to_owned(),
        cpus => format!("{cpus} CPUs"),
    };
    let machine = [subject.machine.clone(), subject.accelerator.clone(), cpus];
    let machine = machine.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ");
    let warnings = crate::export::warnings(boot).take(MAX_WARNINGS).map(|warning| format!("Warning: {warning}"));
    let lines = [title, machine].into_iter().filter(|line| !line.is_empty()).chain(warnings);
    lines.map(|line| cut(&harmless(&line), MAX_CHARACTERS).into_owned()).collect()
}

/// The phases in a strip. A narrower phase is part of the edge of its neighbour.
fn phases(boot: &Boot, top: f64, narrowest: f64, svg: &mut String) {
    for phase in &boot.phases {
        let (from, to) = (x(boot, phase.start), x(boot, phase.end));
        if to - from < narrowest {
            continue;
        }
        let colour = phase_colour(phase.what, &phase.name);
        let _ = write!(
            svg,
            "<g><title>{} {}</title><rect x=\"{from:.1}\" y=\"{top}\" width=\"{:.1}\" height=\"{PHASES}\" fill=\"{colour}\"/>",
            esc(&cut(&harmless(&phase.name), MAX_CHARACTERS)),
            boot.timeline.unit.show_cost(boot.timeline.cost(phase.start, phase.end)),
            (to - from - 0.7).max(0.4)
        );
        name_in(&phase.name, from, to, top + 16.0, svg);
        svg.push_str("</g>\n");
    }
}

/// Writes as much of a name as fits between two places.
fn name_in(name: &str, from: f64, to: f64, y: f64, svg: &mut String) {
    let room = crate::text::places((to - from - 6.0) / CHARACTER - 0.5);
    if room >= 3 {
        let _ = write!(svg, "<text x=\"{:.1}\" y=\"{y}\">{}</text>", from + 4.0, esc(&cut(&harmless(name), room)));
    }
}

/// A label at its place.
struct Placed {
    text: String,
    is_finding: bool,
    /// The left end and the width of the label, and the moment that its line leads to.
    left: f64,
    width: f64,
    at: f64,
    /// The stretch that it is about.
    from: f64,
    to: f64,
    line: usize,
}

/// Labels side by side where they fit, else in further lines.
fn placed(callouts: &[Callout], boot: &Boot) -> Vec<Placed> {
    let mut ends: Vec<f64> = Vec::new();
    let mut sorted: Vec<&Callout> = callouts.iter().collect();
    sorted.sort_by_key(|callout| callout.from.0 / 2 + callout.to.0 / 2);
    let place = |callout: &Callout| {
        let text = cut(&harmless(&callout.text), MAX_CHARACTERS / 2).into_owned();
        let width = CHARACTER * crate::text::width(&text) as f64 + 10.0;
        let [from, to] = [callout.from, callout.to].map(|at| x(boot, at.max(Ns::ZERO).min(boot.total)));
        let at = f64::midpoint(from, to);
        let left = (at - 6.0).min(WIDTH - MARGIN - width).max(MARGIN);
        let line = ends.iter().position(|end| end + APART <= left).unwrap_or(ends.len());
        ends.resize(ends.len().max(line + 1), 0.0);
        ends[line] = left + width;
        Placed { text, is_finding: callout.is_finding, left, width, at, from, to, line }
    };
    sorted.into_iter().map(place).collect()
}

impl Placed {
    fn colour(&self) -> &'static str {
        if self.is_finding { "#b3261e" } else { "#1c1b19" }
    }

    fn top(&self, labels: f64) -> f64 {
        labels + LABEL * self.line as f64
    }

    /// The line from the label to its moment, and a bar over the stretch.
    fn draw_line(&self, labels: f64, bars: f64, svg: &mut String) {
        let (colour, y, at) = (self.colour(), self.top(labels) + 16.0, self.at);
        let (from, to, over) = (self.from, self.to.max(self.from + 2.0), bars - 2.0);
        let _ = writeln!(
            svg,
            "<path d=\"M{at:.1} {y:.1}V{bars:.1}\" stroke=\"{colour}\"/><path d=\"M{from:.1} {over:.1}H{to:.1}\" \
             stroke=\"{colour}\" stroke-width=\"2\"/>"
        );
    }

    fn draw_text(&self, labels: f64, svg: &mut String) {
        let (colour, y, left, width) = (self.colour(), self.top(labels), self.left, self.width);
        let _ = writeln!(
            svg,
            "<rect x=\"{left:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"16\" fill=\"#f6f5f2\" stroke=\"{colour}\" \
             stroke-width=\"0.6\"/><text x=\"{:.1}\" y=\"{:.1}\" fill=\"{colour}\">{}</text>",
            left + 5.0,
            y + 12.0,
            esc(&self.text)
        );
    }
}

/// A swatch for each kind of bar that is drawn.
fn legend(colours: &[(&str, &str)], y: f64, svg: &mut String) {
    let mut left = MARGIN;
    for (name, colour) in colours {
        let _ = write!(
            svg,
            "<rect x=\"{left:.1}\" y=\"{:.1}\" width=\"11\" height=\"11\" fill=\"{colour}\"/><text x=\"{:.1}\" y=\"{y:.1}\" fill=\"#5d5a54\">{name}</text>",
            y - 10.0,
            left + 15.0
        );
        left += 27.0 + CHARACTER * name.len() as f64;
    }
    svg.push('\n');
}
