//! A bench as one page that opens from disk: its text, every boot as a dot, the plots of a sweep, and the application
//! that shows them.
//!
//! All text must pass [`esc`]. The content policy is that of a boot's page: no script but the application.

use super::tables::{time, unit};
use super::{plot, scaling};
use crate::html::{Asks, begin, esc, nonce};
use crate::{Layout, PageBoot};
use benchmark::{Document, RowScaling};
use std::fmt::Write as _;
use std::io::{self, Write};
use timeline::Unit;

/// The most rows per slice whose growth is drawn.
const MAX_DRAWN: usize = 12;

/// Writes the page. It shows the boot paths of `medians`, each the median boot of a variant.
///
/// # Errors
/// If `out` cannot be written.
pub fn bench_page(document: &Document, medians: &[PageBoot], out: &mut dyn Write) -> io::Result<()> {
    let kernel = document.head.variants.first().map_or("", |v| v.booted.kernel.as_str());
    let title = if kernel.is_empty() { "Bench".to_owned() } else { format!("Bench of {kernel}") };
    let nonce = nonce();
    begin(&title, &nonce, Asks::Nobody, out)?;
    writeln!(out, "<main>\n<h1>{}</h1>", esc(&title))?;
    let mut plots = String::new();
    dots(document, &mut plots);
    for slice in &document.results.scaling {
        let _ = writeln!(plots, "<h2>{}</h2>", esc(&scaling::title(slice)));
        slice.rows.iter().take(MAX_DRAWN).for_each(|row| grown(row, &slice.unit, unit(document), &mut plots));
    }
    out.write_all(plots.as_bytes())?;
    let text = super::bench(document, true, Layout { width: 120, top: 100, ..Layout::default() });
    writeln!(out, "<h2>In figures</h2>\n<pre>{}</pre>", lines(&text))?;
    writeln!(
        out,
        "<p class=\"faint\">{}, bootscope {}</p>",
        esc(&document.head.created),
        esc(&document.head.tool_version)
    )?;
    writeln!(out, "</main>\n</div>")?;
    crate::page::write_bench(document, medians, &nonce, out)?;
    writeln!(out, "</body>\n</html>")
}

fn grown(row: &RowScaling, unit: &str, counts: Unit, out: &mut String) {
    let _ = writeln!(out, "<h3>{}: {}</h3>", esc(&row.name), esc(&scaling::takes(row, unit, counts)));
    plot::svg(row, counts, out);
}

/// The text with each line escaped.
fn lines(text: &str) -> String {
    text.lines().map(esc).collect::<Vec<_>>().join("\n")
}

/// Writes each counted boot as a dot on the line of its variant, and the median as a bar.
fn dots(document: &Document, out: &mut String) {
    const WIDTH: f64 = 960.0;
    const NAME: f64 = 260.0;
    const LINE: f64 = 26.0;
    let unit = unit(document);
    let totals = |variant: usize| {
        let boots = document.boots.iter().filter(move |b| b.variant == variant && b.round.is_some());
        boots.filter_map(|b| Some((b.number, b.measured.total_ns? as f64)))
    };
    let variants = &document.results.variants;
    let most = (0..variants.len()).flat_map(|v| totals(v).map(|t| t.1)).fold(0.0, f64::max);
    if most <= 0.0 {
        return;
    }
    let x = |ns: f64| NAME + ns / most * (WIDTH - NAME - 80.0);
    let height = LINE * (variants.len() + 1) as f64;
    let _ = writeln!(out, "<h2>Every boot</h2>");
    let _ = writeln!(out, "<svg viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" role=\"img\" font-size=\"12\">");
    for (i, runs) in variants.iter().enumerate() {
        let y = LINE * (i as f64 + 0.7);
        let name: String = runs.name.chars().take(38).collect();
        let _ = writeln!(out, "<text x=\"0\" y=\"{:.1}\">{}</text>", y + 4.0, esc(&name));
        let _ = writeln!(out, "<path d=\"M{NAME} {y:.1}H{}\" stroke=\"currentColor\" opacity=\".2\"/>", x(most));
        for (number, total) in totals(i) {
            let _ = writeln!(
                out,
                "<circle cx=\"{:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"#2b6cb0\" opacity=\".5\"><title>boot {number}: {}</title></circle>",
                x(total),
                time(unit, total)
            );
        }
        if let Some(total) = &runs.total {
            let at = x(total.median.estimate);
            let _ = writeln!(out, "<path d=\"M{at:.1} {:.1}v18\" stroke=\"#c05621\" stroke-width=\"3\"/>", y - 9.0);
        }
    }
    let base = height - 6.0;
    let _ = writeln!(
        out,
        "<text x=\"{NAME}\" y=\"{base}\">0</text><text x=\"{}\" y=\"{base}\">{}</text>\n</svg>",
        x(most),
        time(unit, most)
    );
}
