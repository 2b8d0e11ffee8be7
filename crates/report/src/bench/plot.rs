//! A scaling model and its points, drawn in characters for a terminal and in SVG for a page.

use super::tables::time;
use crate::plot::scaled;
use crate::text::places;
use benchmark::RowScaling;
use std::fmt::Write;
use timeline::Unit;

/// Lines of a plot on a terminal.
const LINES: usize = 12;
/// Columns of the plot's scale.
const SCALE: usize = 9;

/// A plot of the points (`●`) and the scaling model (`·`), from zero to the largest, `width` columns wide.
pub fn plot(row: &RowScaling, unit: Unit, width: usize) -> String {
    let Some(bounds) = Bounds::of(row) else { return String::new() };
    let columns = width.saturating_sub(SCALE + 3).max(16);
    let mut cells = vec![vec![' '; columns]; LINES];
    let mut put = |size: f64, ns: f64, mark: char| {
        let (x, y) = (bounds.x(size) * (columns - 1) as f64, bounds.y(ns) * (LINES - 1) as f64);
        if (0.0..columns as f64).contains(&x) && (-0.5..LINES as f64 - 0.5).contains(&y) {
            cells[LINES - 1 - places(y)][places(x).min(columns - 1)] = mark;
        }
    };
    for column in 0..columns {
        let size = bounds.size_at(column as f64 / (columns - 1) as f64);
        put(size, row.at(size), '·');
    }
    row.points.iter().for_each(|point| put(point.size, point.mean, '●'));
    let mut out = String::new();
    for (i, line) in cells.iter().enumerate() {
        let label = match i {
            0 => time(unit, bounds.most_ns),
            i if i + 1 == LINES => "0".to_owned(),
            _ => String::new(),
        };
        scaled(&mut out, &label, SCALE, '┤', &String::from_iter(line));
    }
    scaled(&mut out, "", SCALE, '└', &"─".repeat(columns));
    let (least, most) = (bounds.least.to_string(), bounds.most.to_string());
    let gap = columns.saturating_sub(least.len() + most.len());
    scaled(&mut out, "", SCALE, ' ', &format!("{least}{}{most}", " ".repeat(gap)));
    out
}

/// Writes the same plot as SVG, for a page.
pub fn svg(row: &RowScaling, unit: Unit, out: &mut String) {
    const WIDTH: f64 = 640.0;
    const HEIGHT: f64 = 240.0;
    const LEFT: f64 = 80.0;
    const BELOW: f64 = 24.0;
    let Some(bounds) = Bounds::of(row) else { return };
    let x = |size: f64| LEFT + 10.0 + bounds.x(size) * (WIDTH - LEFT - 30.0);
    let y = |ns: f64| HEIGHT - BELOW - bounds.y(ns) * (HEIGHT - BELOW - 20.0);
    let _ = writeln!(out, "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" role=\"img\" font-size=\"12\">");
    let (bottom, right) = (HEIGHT - BELOW, WIDTH - 10.0);
    let _ = writeln!(out, "<path d=\"M{LEFT} 10V{bottom}H{right}\" fill=\"none\" stroke=\"currentColor\"/>");
    let top = y(bounds.most_ns);
    let _ = writeln!(
        out,
        "<text x=\"{}\" y=\"{top:.1}\" text-anchor=\"end\">{}</text>",
        LEFT - 6.0,
        time(unit, bounds.most_ns)
    );
    let _ = writeln!(out, "<text x=\"{}\" y=\"{bottom}\" text-anchor=\"end\">0</text>", LEFT - 6.0);
    let line: Vec<String> = (0..=100)
        .map(|i| bounds.size_at(f64::from(i) / 100.0))
        .map(|size| format!("{:.1},{:.1}", x(size), y(row.at(size).max(0.0))))
        .collect();
    let _ = writeln!(out, "<polyline points=\"{}\" fill=\"none\" stroke=\"#2b6cb0\"/>", line.join(" "));
    for point in &row.points {
        let (x, y) = (x(point.size), y(point.mean));
        let about = format!("{}: {} ({} boots)", point.size, time(unit, point.mean), point.boots);
        let _ = writeln!(
            out,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"#c05621\"><title>{about}</title></circle>"
        );
        let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>", HEIGHT - 8.0, point.size);
    }
    let _ = writeln!(out, "</svg>");
}

/// The bounds of a plot: sizes from the smallest to the largest, times from zero.
struct Bounds {
    least: f64,
    most: f64,
    most_ns: f64,
}

impl Bounds {
    fn of(row: &RowScaling) -> Option<Bounds> {
        // Predictions for far larger sizes are left out, or the points would be squeezed into a corner.
        let sizes = || row.points.iter().map(|p| p.size);
        let (least, most) = (sizes().fold(f64::INFINITY, f64::min), sizes().fold(0.0, f64::max));
        let most_ns = row.points.iter().map(|p| p.mean).chain([row.at(most)]).fold(0.0, f64::max);
        (most > least && most_ns > 0.0 && most_ns.is_finite()).then_some(Bounds { least, most, most_ns })
    }

    fn x(&self, size: f64) -> f64 {
        (size - self.least) / (self.most - self.least)
    }

    fn y(&self, ns: f64) -> f64 {
        ns / self.most_ns
    }

    fn size_at(&self, share: f64) -> f64 {
        self.least + share * (self.most - self.least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use benchmark::{Point, Predicted, ScalingModel};

    #[test]
    fn points_lie_on_their_model() {
        let point = |size: f64| Point { size, boots: 3, mean: 10e6 * size };
        let row = RowScaling {
            name: "total".to_owned(),
            model: ScalingModel::Linear,
            alike: Vec::new(),
            base: 0.0,
            slope: 10e6,
            slope_error: Some(0.0),
            from_one: false,
            points: vec![point(1.0), point(4.0), point(8.0)],
            predicted: vec![Predicted { size: 1000.0, time: 10e9, band: None, rows: None }],
            p_corrected: None,
        };
        let text = plot(&row, Unit::Nanoseconds, 60);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), LINES + 2);
        assert!(lines[0].starts_with("  80.0 ms ┤") && lines[0].ends_with('●'), "{text}");
        assert_eq!(text.matches('●').count(), 3, "{text}");
        assert!(lines.iter().all(|line| line.chars().count() <= 60), "{text}");
        // A prediction for a far larger size does not squeeze the points.
        assert!(lines[LINES + 1].ends_with('8') && !text.contains("1000"), "{text}");
        let mut drawn = String::new();
        svg(&row, Unit::Nanoseconds, &mut drawn);
        assert_eq!(drawn.matches("<circle").count(), 3);
        assert_eq!(plot(&RowScaling { points: Vec::new(), ..row }, Unit::Nanoseconds, 60), "");
    }
}
