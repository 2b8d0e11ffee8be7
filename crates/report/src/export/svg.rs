//! A flame chart of the boot path as SVG, drawn by inferno: time runs to the right, callees hang below their callers.
//!
//! A click zooms, `Search` marks frames by regular expression. A chart of everything would be too
//! large to open, so beyond the [`MOST_FRAMES`] longest, neighbours are drawn as one, and the chart says so.

use super::{Export, folded};
use crate::Boot;
use crate::lanes::{Edge, Label, Slice, edges};
use crate::text::counted;
use inferno::flamegraph::color::{Color, PaletteMap};
use inferno::flamegraph::{Direction, Options, TextTruncateDirection, from_lines};
use std::io::{self, Write};
use timeline::{Ns, SpanKind, Unit};

/// The `svg` format.
pub struct Svg;

impl Export for Svg {
    fn name(&self) -> &'static str {
        "svg"
    }

    fn extension(&self) -> &'static str {
        "svg"
    }

    fn about(&self) -> &'static str {
        "a flame chart of the boot path in order of time, for any browser"
    }

    fn write(&self, boot: &Boot, out: &mut dyn Write) -> io::Result<()> {
        let chart = chart(boot, true)?.ok_or_else(|| {
            let why = "there is no boot path to draw, because no evidence says which thread reached the end mark: record \
                       or import a trace with scheduler events, or a log with initcall_debug";
            io::Error::new(io::ErrorKind::InvalidData, why)
        })?;
        out.write_all(&chart.svg)
    }
}

/// About 300 bytes each in the SVG, and what a browser still zooms at once.
const MOST_FRAMES: usize = 6_000;

/// A drawn chart.
pub struct Chart {
    /// A whole SVG document.
    pub svg: Vec<u8>,
    /// What it does not show one by one, in a sentence; empty if nothing.
    pub left_out: String,
}

/// Draws the boot path, with a heading if it is to stand `alone`; `None` if there is no path.
pub fn chart(boot: &Boot, alone: bool) -> io::Result<Option<Chart>> {
    let slices = boot.path_slices();
    if slices.is_empty() {
        return Ok(None);
    }
    let (shortest, short) = threshold(&slices);
    let unit = boot.timeline.unit;
    let together = format!("(frames under {})", unit.show(shortest));
    let left_out = match short {
        0 => String::new(),
        n => format!("{} shorter than {} are drawn together.", counted(n as u64, "frame"), unit.show(shortest)),
    };
    let mut palette = PaletteMap::default();
    let mut names = folded::Names::new(boot);
    for slice in slices.iter().filter(|slice| slice.end - slice.start >= shortest) {
        let name = names.text(slice.label);
        palette.insert(name, colour(slice, name));
    }
    // The root frame, which stands for everything, has no name.
    palette.insert("", Color { r: 222, g: 220, b: 214 });
    palette.insert(&together, Color { r: 232, g: 230, b: 226 });
    let mut options = options(boot);
    options.subtitle = alone.then(|| subtitle(boot, &left_out));
    options.palette_map = Some(&mut palette);
    let lines = lines(&mut names, &slices, shortest, &together)?;
    let lines: Vec<String> = lines.iter().map(|(stack, length)| format!("{stack} {}", length.0)).collect();
    let mut svg = Vec::new();
    // inferno puts the last line leftmost.
    from_lines(&mut options, lines.iter().rev().map(String::as_str), &mut svg)?;
    Ok(Some(Chart { svg, left_out }))
}

/// Of a chart that stands alone: warnings first, as every view has them.
fn subtitle(boot: &Boot, left_out: &str) -> String {
    let warnings: String =
        boot.timeline.warnings.iter().map(|w| format!("Warning: {}. ", crate::harmless(w))).collect();
    format!("{warnings}{} in order of time. {left_out}", boot.timeline.unit.show(boot.total))
}

/// Folded stacks with their lengths in order of time, each cut at its first frame that is too short to draw: neighbours
/// that are cut at the same place then are one frame, called `together`, with what lies between them if that is as short.
fn lines(names: &mut folded::Names, slices: &[Slice], shortest: Ns, together: &str) -> io::Result<Vec<(String, Ns)>> {
    let mut lines: Vec<(String, Ns)> = Vec::new();
    let (mut stack, mut ends, mut below) = (String::new(), Vec::new(), 0_usize);
    let mut since = Ns::ZERO;
    edges(slices.iter().copied(), |edge| {
        let at = edge.at();
        if at > since && !stack.is_empty() {
            let caller = ends.last().filter(|_| below > 0).map(|&end: &usize| &stack[..end]);
            add(&mut lines, &stack, at - since, caller.map(|caller| (caller, shortest)));
        }
        since = at;
        match edge {
            Edge::Begin(_) if below > 0 => below += 1,
            Edge::Begin(slice) => {
                let short = slice.end - slice.start < shortest;
                below = usize::from(short);
                ends.push(stack.len());
                if !stack.is_empty() {
                    stack.push(';');
                }
                stack.push_str(if short { together } else { names.text(slice.label) });
            }
            // Ends within the short frame that was cut at; its own end takes it off.
            Edge::End(_) if below > 1 => below -= 1,
            Edge::End(_) => {
                below = 0;
                stack.truncate(ends.pop().unwrap_or_default());
            }
        }
        io::Result::Ok(())
    })?;
    Ok(lines)
}

/// Adds a stretch to the line before it where they are one; of a short frame the `caller` and the limit are known.
fn add(lines: &mut Vec<(String, Ns)>, stack: &str, length: Ns, short: Option<(&str, Ns)>) {
    if let ([.., before, between], Some((caller, limit))) = (lines.as_mut_slice(), short) {
        if before.0 == stack && between.0 == caller && between.1 < limit {
            before.1 += between.1 + length;
            lines.pop();
            return;
        }
    }
    match lines.last_mut() {
        Some(last) if last.0 == stack => last.1 += length,
        _ => lines.push((stack.to_owned(), length)),
    }
}

fn options(boot: &Boot) -> Options<'static> {
    let s = &boot.facts.subject;
    let mut options = Options::default();
    options.flame_chart = true;
    options.title = crate::harmless(format!("Boot path {} {}", s.os, s.kernel).trim()).into_owned();
    options.direction = Direction::Inverted;
    options.search_color = "#ffe500".parse().expect("a colour");
    options.font_type = "monospace".to_owned();
    options.frame_height = 18;
    options.text_truncate_direction = TextTruncateDirection::Right;
    // Shown in microseconds: more digits say nothing, fewer lose the short ones.
    options.factor = 1e-3;
    options.min_width = 0.0;
    options.count_name = match boot.timeline.unit {
        Unit::Nanoseconds => "µs".to_owned(),
        Unit::Ticks => "kticks".to_owned(),
    };
    options.name_type = String::new();
    options
}

/// The length that only [`MOST_FRAMES`] slices reach, and how many do not reach it.
fn threshold(slices: &[Slice]) -> (Ns, usize) {
    if slices.len() <= MOST_FRAMES {
        return (Ns::ZERO, 0);
    }
    let mut lengths: Vec<Ns> = slices.iter().map(|s| s.end - s.start).collect();
    let (_, &mut limit, _) = lengths.select_nth_unstable_by(MOST_FRAMES, |a, b| b.cmp(a));
    let shortest = limit + Ns(1);
    (shortest, slices.iter().filter(|s| s.end - s.start < shortest).count())
}

/// Light enough for black text, one hue per kind of thing, waiting is grey; a little lighter or darker by
/// name, so that neighbours can be told apart however narrow they are.
fn colour(slice: &Slice, name: &str) -> Color {
    let (r, g, b) = match (slice.label, slice.kind) {
        (Label::Thread(_), _) => (203, 197, 222),
        (Label::WaitFor(_) | Label::Wait, _) => (208, 208, 208),
        (Label::Runqueue, _) => (240, 170, 130),
        (_, Some(SpanKind::Initcall)) => (140, 190, 235),
        (_, Some(SpanKind::Level)) => (185, 212, 235),
        (_, Some(SpanKind::Module | SpanKind::Process)) => (150, 215, 190),
        (_, Some(SpanKind::Probe | SpanKind::Attach)) => (120, 205, 205),
        (_, Some(SpanKind::Work)) => (205, 175, 235),
        (_, Some(SpanKind::Interrupt)) => (240, 150, 160),
        (_, Some(SpanKind::Stage | SpanKind::Message)) => (240, 215, 140),
        _ => (245, 190, 120),
    };
    let hash = name.bytes().fold(7_u32, |h, b| h.wrapping_mul(31).wrapping_add(b.into()));
    let shade = |channel: u8| (u32::from(channel) * (92 + hash % 14) / 100).min(255) as u8;
    Color { r: shade(r), g: shade(g), b: shade(b) }
}
