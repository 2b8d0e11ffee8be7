//! Draws the chart as SVG.
//!
//! The drawing is [`WIDTH`] pixels wide, so that it is complete without a script, as in a preview. `chart.js` lays it
//! out again for the actual width. The markup has what the script needs: the length of the chart, and the exact start
//! and length of each frame. All text must pass [`crate::harmless`] before it is escaped here.

use super::{Frame, Layout, SCRIPT, What};
use crate::Boot;
use crate::html::esc;
use crate::lanes::{Label, Slice};
use hashbrown::HashMap;
use std::io::{self, Write};
use timeline::{Ns, SpanKind, Unit};

/// Pixels of the drawing without a script.
pub(crate) const WIDTH: f64 = 1200.0;
/// Pixels left and right of the frames.
pub(crate) const MARGIN: f64 = 10.0;
/// Pixels from one row to the next, and the coloured height within a row.
pub(crate) const ROW: f64 = 18.0;
const FRAME: i64 = 17;
/// Pixels of the time axis above the frames.
pub(crate) const AXIS: f64 = 24.0;
/// Pixels of a character of the monospace type at 12 pixels.
pub(crate) const CHARACTER: f64 = 7.25;
/// The fewest characters of a name that are worth showing in a frame.
const MIN_CHARACTERS: usize = 3;
/// Pixels of a line of the heading.
pub(crate) const LINE: f64 = 19.0;

/// The text above the frames of a chart that stands alone.
pub(crate) struct Heading {
    /// The title, already harmless.
    pub title: String,
    /// A sentence about the chart's content, already harmless.
    pub about: String,
    /// Warnings to read before any figure, each already harmless.
    pub warnings: Vec<String>,
    /// The label of the control that shows the whole chart again.
    pub whole: &'static str,
    pub positions: Positions,
}

/// The meaning of a frame's position from left to right.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Positions {
    /// Its start.
    Time,
    /// None: equal stacks are one frame, in the order of their names.
    Merged,
    /// None, for samples. Shares have an error, by the effective number of samples.
    Sampled { effective: f64 },
}

impl Heading {
    /// The heading of a chart of the boot path.
    pub(crate) fn of_boot_path(boot: &Boot) -> Heading {
        let s = &boot.facts.subject;
        Heading {
            title: crate::harmless(format!("Boot path {} {}", s.os, s.kernel).trim()).into_owned(),
            about: format!(
                "{} in order of time",
                boot.timeline.unit.show_cost(boot.timeline.cost(Ns::ZERO, boot.total))
            ),
            warnings: crate::export::warnings(boot).collect(),
            whole: "whole boot",
            positions: Positions::Time,
        }
    }
}

/// Writes a complete document with heading, warnings first, and script.
pub(crate) fn alone(boot: &Boot, layout: &Layout, heading: &Heading, out: &mut dyn Write) -> io::Result<()> {
    let title = heading.title.clone();
    let about = format!("{}. {} A click zooms.", heading.about, layout.left_out(boot));
    let warnings = heading.warnings.iter().map(|warning| format!("Warning: {warning}"));
    let lines: Vec<String> = std::iter::once(title).chain(warnings).chain([about]).collect();
    let top = LINE * lines.len() as f64 + LINE / 2.0;
    writeln!(out, "<?xml version=\"1.0\" encoding=\"utf-8\"?>")?;
    open(boot, layout, top, out)?;
    writeln!(out, "<rect width=\"100%\" height=\"100%\" fill=\"#fbfaf8\"/>")?;
    for (i, line) in lines.iter().enumerate() {
        let (y, weight) = (LINE * (i + 1) as f64, if i == 0 { " font-weight=\"bold\"" } else { "" });
        writeln!(out, "<text x=\"{MARGIN}\" y=\"{y}\"{weight}>{}</text>", esc(line))?;
    }
    // The script makes the tools visible: without it they would do nothing.
    writeln!(
        out,
        "<g class=\"tools\" display=\"none\" text-anchor=\"end\" cursor=\"pointer\" fill=\"#2b6cb0\">\
         <text class=\"whole\" y=\"{LINE}\">{}</text><text class=\"mark\" y=\"{}\">mark…</text></g>",
        heading.whole,
        2.0 * LINE
    )?;
    frames(boot, layout, heading.positions, top, out)?;
    // The script cannot contain `]]>`; a test checks that.
    writeln!(out, "<script><![CDATA[\n{SCRIPT}\nstandAlone(document.documentElement);\n]]></script>\n</svg>")
}

fn open(boot: &Boot, layout: &Layout, top: f64, out: &mut dyn Write) -> io::Result<()> {
    let height = top + AXIS + ROW * f64::from(layout.rows()) + MARGIN;
    let unit = boot.timeline.unit.name();
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"flame\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" font-family=\"monospace\" font-size=\"12\" data-total=\"{}\" \
         data-unit=\"{unit}\" data-top=\"{top}\">",
        boot.total.0
    )
}

fn frames(boot: &Boot, layout: &Layout, positions: Positions, top: f64, out: &mut dyn Write) -> io::Result<()> {
    axis(boot, top, top + AXIS + ROW * f64::from(layout.rows()), out)?;
    let shortest = boot.timeline.unit.show_at(layout.shortest);
    let names = HashMap::with_capacity(layout.frames.len());
    let rows = (0..layout.rows()).map(|row| Row::at(top + AXIS + ROW * f64::from(row))).collect();
    let mut pen = Pen { boot, positions, shortest, rows, names, text: Text::default() };
    writeln!(out, "<g class=\"frames\">")?;
    for frame in &layout.frames {
        out.write_all(pen.frame(frame).as_bytes())?;
    }
    writeln!(out, "</g>")
}

/// The horizontal position of a moment, in pixels.
pub(crate) fn x(boot: &Boot, at: Ns) -> f64 {
    MARGIN + at.0 as f64 / boot.total.0.max(1) as f64 * (WIDTH - 2.0 * MARGIN)
}

/// Writes vertical lines at round times, at least `MIN_GAP` pixels apart.
pub(crate) fn axis(boot: &Boot, top: f64, bottom: f64, out: &mut dyn Write) -> io::Result<()> {
    const MIN_GAP: f64 = 90.0;
    let least = boot.total.0.max(1) as f64 / (WIDTH - 2.0 * MARGIN) * MIN_GAP;
    let decade = 10_f64.powf(least.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|n| n * decade).into_iter().find(|&step| step >= least);
    let step = step.unwrap_or(10.0 * decade).max(1.0);
    let step = timeline::truncated(step);
    write!(out, "<g class=\"axis\" fill=\"#6a6d70\" stroke=\"none\">")?;
    for at in (0..=boot.total.0 / step).map(|n| Ns(n * step)) {
        let (x, label) = (x(boot, at), if at == Ns::ZERO { "0".to_owned() } else { boot.timeline.unit.show_at(at) });
        // A label that the edge cuts would be another number.
        let fits = x + 3.0 + CHARACTER * label.len() as f64 <= WIDTH;
        let label = if fits { label } else { String::new() };
        write!(
            out,
            "<path d=\"M{x:.2} {}V{bottom}\" stroke=\"#dcd9d3\"/><text x=\"{:.2}\" y=\"{}\">{label}</text>",
            top + 6.0,
            x + 3.0,
            top + 16.0
        )?;
    }
    writeln!(out, "</g>")
}

/// The frames of the first rows that are not too narrow, as SVG without tools; and the legend of those drawn: each word with its
/// colour.
pub(crate) fn plain_frames(
    boot: &Boot,
    layout: &Layout,
    (max_rows, narrowest): (u32, f64),
    top: f64,
) -> (String, Vec<(&'static str, &'static str)>) {
    let mut out = Text::default();
    let mut legend: Vec<(&'static str, &'static str)> = Vec::new();
    for frame in layout.frames.iter().filter(|frame| frame.depth < max_rows) {
        let (from, to) = (x(boot, frame.start), x(boot, frame.end));
        if to - from < narrowest {
            continue;
        }
        let (name, (word, colour)) = match frame.what {
            What::Slice(slice) => (boot.text(slice.label), swatch(&slice)),
            What::Together(count) => (format!("{count} short ones"), (None, "#e8e6e2")),
        };
        let y = top + ROW * f64::from(frame.depth);
        out.put("<g><title>").put(&esc(&cut(&name, MAX_TITLE))).put(" ");
        out.put(&boot.timeline.unit.show_cost(boot.timeline.cost(frame.start, frame.end)));
        out.put("</title><rect x=\"").hundredths(from).put("\" y=\"").hundredths(y).put("\" width=\"");
        out.hundredths((to - from - 0.5).max(0.4)).put("\" height=\"").integer(FRAME);
        out.put("\" fill=\"").put(colour).put("\"/>");
        let room = usize::try_from(timeline::truncated((to - from - 4.0) / CHARACTER)).unwrap_or(0);
        if room >= MIN_CHARACTERS {
            out.put("<text x=\"").hundredths(from + 3.0).put("\" y=\"").hundredths(y + 13.0);
            out.put("\">").put(&esc(&cut(&name, room))).put("</text>");
        }
        out.put("</g>\n");
        if let Some(word) = word.filter(|word| legend.iter().all(|(known, _)| known != word)) {
            legend.push((word, colour));
        }
    }
    (out.0, legend)
}

/// The most characters of the title of a plain frame.
const MAX_TITLE: usize = 100;

/// The word for a slice in a legend, and its colour: those of the page (charts/colours.ts).
fn swatch(slice: &Slice) -> (Option<&'static str>, &'static str) {
    let (word, colour) = match (slice.label, slice.kind) {
        (Label::Thread(_), _) => ("thread", "#e9e7e1"),
        (Label::WaitFor(_) | Label::Wait, _) => ("waiting", "#98938a"),
        (Label::Runqueue, _) => ("run queue", "#e0a100"),
        (_, Some(SpanKind::Stage)) => ("stage", "#92c8e8"),
        (_, Some(SpanKind::Level)) => ("level", "#a9c2d1"),
        (_, Some(SpanKind::Initcall)) => ("initcall", "#f8c981"),
        (_, Some(SpanKind::Module)) => ("module", "#d7a2c0"),
        (_, Some(SpanKind::Process)) => ("process", "#e198c2"),
        (_, Some(SpanKind::Probe)) => ("probe", "#8eebd2"),
        (_, Some(SpanKind::Attach)) => ("attach", "#9fdbcb"),
        (_, Some(SpanKind::Mount)) => ("mount", "#ebe58e"),
        (_, Some(SpanKind::Work)) => ("work", "#88cbf2"),
        (_, Some(SpanKind::Interrupt)) => ("interrupt", "#eea28b"),
        (_, Some(SpanKind::Message)) => ("message", "#b7bdc2"),
        (_, Some(SpanKind::Call)) => ("function", "#e1c498"),
        _ => return (None, "#d3d0ca"),
    };
    (Some(word), colour)
}

/// Writes frames. The text and colour of each name are computed once.
struct Pen<'a> {
    boot: &'a Boot<'a>,
    positions: Positions,
    /// The length below which slices are drawn together, as text.
    shortest: String,
    rows: Vec<Row>,
    names: HashMap<Named, Name>,
    /// A buffer for the frame being written.
    text: Text,
}

/// The vertical positions of a row's frames and of their text, as written.
struct Row {
    frame: String,
    text: String,
}

impl Row {
    fn at(y: f64) -> Row {
        let [frame, text] = [y, y + 13.0].map(|y| {
            let mut text = Text::default();
            text.hundredths(y);
            text.0
        });
        Row { frame, text }
    }
}

/// The key of a name: a slice, or a number of short slices.
#[derive(PartialEq, Eq, Hash)]
enum Named {
    Slice(Label),
    Together(u64),
}

#[derive(Clone, Debug)]
struct Name {
    plain: String,
    escaped: String,
    /// Selects the shade of the colour, so that neighbours are distinguishable at any width.
    hash: u32,
}

impl Name {
    fn new(plain: String) -> Name {
        let hash = plain.bytes().fold(7_u32, |h, b| h.wrapping_mul(31).wrapping_add(b.into()));
        Name { escaped: esc(&plain), plain, hash }
    }
}

impl Pen<'_> {
    fn frame(&mut self, frame: &Frame) -> &str {
        let named = match frame.what {
            What::Slice(slice) => Named::Slice(slice.label),
            What::Together(count) => Named::Together(count),
        };
        let name = self.names.entry(named).or_insert_with_key(|named| {
            Name::new(match named {
                Named::Slice(label) => self.boot.text(*label),
                Named::Together(count) => format!("{count} under {}", self.shortest),
            })
        });
        let colour = match frame.what {
            What::Slice(slice) => colour(&slice, name.hash),
            What::Together(_) => (232, 230, 226),
        };
        self.text.0.clear();
        place(&mut self.text, self.boot, self.positions, frame, name, colour, &self.rows[frame.depth as usize]);
        &self.text.0
    }
}

/// Writes one frame: a tooltip with its name, length and share, and as much of the name as fits. The tooltip also has the
/// start, where positions are times, and the error of a sampled share.
fn place(
    out: &mut Text,
    boot: &Boot,
    positions: Positions,
    frame: &Frame,
    name: &Name,
    (r, g, b): (u8, u8, u8),
    row: &Row,
) {
    let (timeline, length) = (boot.timeline, frame.end - frame.start);
    let unit = timeline.unit;
    let (from, to) = (x(boot, frame.start), x(boot, frame.end));
    let share = 100.0 * length.0 as f64 / boot.total.0.max(1) as f64;
    out.put("<g data-at=\"").integer(frame.start.0).put("\" data-for=\"").integer(length.0);
    out.put("\"><title>").put(&name.escaped).put("\n");
    match unit {
        Unit::Instructions if positions == Positions::Time => {
            out.put(&unit.show_cost(timeline.cost(frame.start, frame.end)));
        }
        _ => unit.show_in(length, &mut out.0),
    }
    out.put(", ").hundredths(share);
    match positions {
        Positions::Time => {
            out.put(" %, from ");
            unit.with_waits().show_in(frame.start, &mut out.0);
        }
        Positions::Merged => drop(out.put(" %")),
        Positions::Sampled { effective } => {
            let error = (share * (100.0 - share).max(0.0) / effective.max(1.0)).sqrt();
            out.put(" % ±").hundredths(error).put(", sampled");
        }
    }
    out.put("</title><rect x=\"").hundredths(from).put("\" y=\"").put(&row.frame);
    out.put("\" width=\"").hundredths(to - from).put("\" height=\"").integer(FRAME);
    out.put("\" fill=\"#").hexadecimal(r).hexadecimal(g).hexadecimal(b).put("\"/>");
    let room = usize::try_from(timeline::truncated((to - from - 4.0) / CHARACTER)).unwrap_or(0);
    if room >= MIN_CHARACTERS {
        out.put("<text x=\"").hundredths(from + 3.0).put("\" y=\"").put(&row.text);
        out.put("\">").put(&esc(&cut(&name.plain, room))).put("</text>");
    }
    out.put("</g>\n");
}

/// The markup of a frame. A large chart has half a million numbers, and `write!` would take half of the time.
#[derive(Default)]
struct Text(String);

impl Text {
    fn put(&mut self, text: &str) -> &mut Text {
        self.0.push_str(text);
        self
    }

    fn integer(&mut self, number: i64) -> &mut Text {
        self.put(itoa::Buffer::new().format(number))
    }

    /// Writes a number with two decimals: enough for a pixel and a per cent.
    fn hundredths(&mut self, number: f64) -> &mut Text {
        let hundredths = timeline::rounded(number * 100.0).max(0);
        self.integer(hundredths / 100).put(timeline::point_and_two_digits(hundredths.unsigned_abs()))
    }

    fn hexadecimal(&mut self, byte: u8) -> &mut Text {
        let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value)]);
        self.0.push(digit(byte >> 4));
        self.0.push(digit(byte & 15));
        self
    }
}

/// As much of the name as fits in `room` characters.
fn cut(name: &str, room: usize) -> String {
    if name.chars().nth(room).is_none() {
        return name.to_owned();
    }
    name.chars().take(room - 1).chain(['…']).collect()
}

/// The colour of a slice: light enough for black text, one hue per kind as on the page (page/src/charts/colours.ts), amber
/// for the run queue, grey for waits, the shade by name.
fn colour(slice: &Slice, hash: u32) -> (u8, u8, u8) {
    let (r, g, b) = match (slice.label, slice.kind) {
        (Label::Thread(_), _) => (233, 231, 225),
        (Label::WaitFor(_) | Label::Wait, _) => (208, 208, 208),
        (Label::Runqueue, _) => (224, 161, 0),
        (_, Some(SpanKind::Stage)) => (154, 204, 234),
        (_, Some(SpanKind::Level)) => (175, 199, 212),
        (_, Some(SpanKind::Initcall)) => (249, 205, 139),
        (_, Some(SpanKind::Module)) => (218, 169, 197),
        (_, Some(SpanKind::Process)) => (227, 160, 198),
        (_, Some(SpanKind::Probe)) => (151, 237, 214),
        (_, Some(SpanKind::Attach)) => (166, 221, 207),
        (_, Some(SpanKind::Mount)) => (237, 231, 151),
        (_, Some(SpanKind::Work)) => (145, 207, 243),
        (_, Some(SpanKind::Interrupt)) => (240, 169, 148),
        (_, Some(SpanKind::Message)) => (189, 194, 199),
        _ => (227, 201, 160),
    };
    let shade = |channel: u8| (u32::from(channel) * (92 + hash % 14) / 100).min(255) as u8;
    (shade(r), shade(g), shade(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_between_characters() {
        assert_eq!(cut("acpi_init", 9), "acpi_init");
        assert_eq!(cut("acpi_init", 5), "acpi…");
        assert_eq!(cut("ĝéß", 3), "ĝéß");
        assert_eq!(cut("ĝéßx", 3), "ĝé…");
    }

    #[test]
    fn nothing_in_the_script_ends_where_it_is_embedded() {
        assert!(!SCRIPT.contains("]]>") && !SCRIPT.contains("</script"));
    }
}
