//! One self-contained page of a boot: it opens from disk and asks nothing of the network.
//!
//! Rules: every text passes [`esc`]; the only scripts are `page.js` and the chart's, marked by a nonce that
//! the page's content policy demands, so that text which got through unescaped would still not
//! run; the policy forbids every load. Without scripts the page shows all it has but zoom, search and sorting.
//! Size is bounded: the longest frames of the chart, [`MOST_ROWS`] rows of a table, [`MOST_LINES`] console
//! lines; what is left out is counted where it would be. The embedded summary has [`MOST_EMBEDDED`] rows of each of its
//! tables and says so where that is not all.

mod chart;
mod findings;
mod sampled;
mod sections;

use crate::{Boot, Summary, harmless};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Write};
use timeline::Ns;

/// Rows of a table that the page shows.
pub(crate) const MOST_ROWS: usize = 300;

/// Rows of a table that the embedded summary has: some hundred bytes each. A boot has hundreds; a log can have a name in
/// each line.
const MOST_EMBEDDED: usize = 10_000;

/// Console lines that the page shows: half from the start, half from the end.
pub(crate) const MOST_LINES: usize = 6_000;

/// A line of the console.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsoleLine<'a> {
    /// When its first byte arrived, if that is known.
    pub at: Option<Ns>,
    /// The line as it came, without its end.
    pub text: &'a [u8],
}

/// Writes the page.
///
/// # Errors
/// What `out` says.
pub fn page(boot: &Boot, console: &[ConsoleLine], out: &mut dyn Write) -> io::Result<()> {
    let summary = Summary::of(boot);
    let nonce = nonce();
    let subject = format!("{} {}", summary.subject.os, summary.subject.kernel);
    let title = if subject.trim().is_empty() { "A boot".to_owned() } else { subject };
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'nonce-{nonce}'; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{} · bootscope</title>\n<style>\n{}</style>\n</head>\n<body>\n",
        esc(title.trim()),
        include_str!("style.css")
    )?;
    sections::warnings(&summary, out)?;
    sections::header(&summary, title.trim(), out)?;
    writeln!(out, "<main>")?;
    sections::phases(&summary, out)?;
    findings::section(boot.findings.as_ref(), summary.time_unit(), out)?;
    let charted = chart::section(boot, out)?;
    sections::tables(&summary, out)?;
    sampled::section(&summary, out)?;
    sections::initcalls(&summary, out)?;
    sections::processes(&summary, out)?;
    sections::console(console, out)?;
    sections::run(boot, &summary, out)?;
    let (summary, cut) = embedded(summary);
    if let Some(cut) = cut {
        writeln!(out, "<p class=\"faint\">{}.</p>", esc(&cut))?;
    }
    writeln!(out, "</main>")?;
    // In a script element only `<` can end the data, and JSON can do without it.
    let json = crate::json(&summary, false)?.replace('<', "\\u003c");
    writeln!(out, "<script type=\"application/json\" id=\"summary-data\">{json}</script>")?;
    if charted {
        writeln!(out, "<script nonce=\"{nonce}\">\n{}</script>", crate::chart::SCRIPT)?;
    }
    writeln!(out, "<script nonce=\"{nonce}\">\n{}</script>\n</body>\n</html>", include_str!("page.js"))
}

/// What the page embeds of a summary, and what that leaves out.
fn embedded(mut summary: Summary) -> (Summary, Option<String>) {
    let mut cut = Vec::new();
    let s = &mut summary;
    first(&mut s.phases, "phases", &mut cut);
    first(&mut s.wheres, "where", &mut cut);
    first(&mut s.initcalls, "initcalls", &mut cut);
    first(&mut s.functions, "functions", &mut cut);
    first(&mut s.where_all_threads, "where_all_threads", &mut cut);
    first(&mut s.processes, "processes", &mut cut);
    for event in s.sampled.iter_mut().flat_map(|sampled| &mut sampled.events) {
        first(&mut event.functions, "sampled functions", &mut cut);
        first(&mut event.tracks, "sampled tracks", &mut cut);
    }
    let cut = (!cut.is_empty()).then(|| {
        let cut = cut.join(", ");
        format!("of these tables the summary in this page has the first rows, `bootscope show --json` has all: {cut}")
    });
    s.notes.extend(cut.clone());
    (summary, cut)
}

/// Keeps the first rows of a table.
fn first<T>(rows: &mut Vec<T>, table: &str, cut: &mut Vec<String>) {
    if rows.len() > MOST_EMBEDDED {
        cut.push(format!("{table} ({MOST_EMBEDDED} of {})", rows.len()));
        rows.truncate(MOST_EMBEDDED);
    }
}

/// Harmless text as HTML, also within quotes; and as XML 1.0, which cannot have what [`harmless`] shows as what it is.
pub(crate) fn esc(text: &str) -> String {
    let text = harmless(text);
    if !text.bytes().any(|b| matches!(b, b'&' | b'<' | b'>' | b'"' | b'\'')) {
        return text.into_owned();
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// A word that nothing which is in the page can have known: from the randomness that seeds hash maps.
fn nonce() -> String {
    let random = || std::hash::RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", random(), random())
}
