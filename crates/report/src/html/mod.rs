//! One self-contained page of a boot: it opens from disk and uses no network.
//!
//! It has the boot twice: as HTML tables, for paper and for a browser without scripts, and as columns that its
//! application ([`mod@crate::page`]) shows. These rules hold:
//!
//! * Every text passes [`esc`].
//! * The only scripts are the page's own. They carry a nonce that the page's content policy demands, so unescaped text
//!   that got through would still not run.
//! * The policy forbids every load, and every worker that the application does not make.
//! * The tables have at most [`MAX_ROWS`] rows and [`MAX_LINES`] console lines, and say how much is left out.
//! * The application's summary has at most ten thousand rows per table, and says so if there are more.

mod findings;
mod sampled;
mod sections;

use crate::page::{PageBoot, embedded};
use crate::{ConsoleLine, Summary, harmless};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Write};

/// The most rows of a table in the page.
pub(crate) const MAX_ROWS: usize = 300;

/// The most console lines in the page: half from the start, half from the end.
pub(crate) const MAX_LINES: usize = 6_000;

/// The party that a page may query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// No party: the page has all that it shows, and no boot.
    Nobody,
    /// The page itself: a file that runs its boots again, to compute savings.
    Itself,
    /// The program that serves the page, which computes savings.
    Server,
}

/// Writes the page of a boot, or of several to compare. The tables are those of the first.
///
/// # Errors
/// If `out` cannot be written.
///
/// # Panics
/// If `boots` is empty.
pub fn page(boots: &[PageBoot], asks: Asks, out: &mut dyn Write) -> io::Result<()> {
    let PageBoot { boot, console, .. } = boots[0];
    // The tables are written from the boot's own rows.
    let summary = Summary::with_rows(boot, 0);
    let nonce = nonce();
    let subject = format!("{} {}", summary.subject.os, summary.subject.kernel);
    let title = if subject.trim().is_empty() { "A boot".to_owned() } else { subject };
    begin(title.trim(), &nonce, asks, out)?;
    sections::warnings(&summary, out)?;
    sections::header(&summary, title.trim(), out)?;
    writeln!(out, "<main>")?;
    sections::phases(&summary, out)?;
    findings::section(boot.findings.as_ref(), summary.time_unit(), out)?;
    sections::tables(boot, &summary, out)?;
    sampled::section(&summary, out)?;
    sections::initcalls(&summary, out)?;
    sections::deferred_probes(&summary, out)?;
    sections::processes(&summary, out)?;
    sections::console(console, summary.time_unit(), out)?;
    sections::run(boot, &summary, out)?;
    drop(summary);
    if let (_, Some(cut)) = embedded(boot) {
        writeln!(out, "<p class=\"faint\">{}.</p>", esc(&cut))?;
    }
    if boots.len() > 1 {
        let others = boots[1..].iter().map(|other| esc(other.name)).collect::<Vec<_>>().join(", ");
        writeln!(out, "<p>These are the tables of one boot. The charts also have: {others}.</p>")?;
    }
    writeln!(out, "</main>\n</div>")?;
    crate::page::write(boots, &nonce, asks == Asks::Itself, out)?;
    writeln!(out, "</body>\n</html>")
}

/// Begins a page, up to its tables. Only scripts with this nonce run in it.
pub(crate) fn begin(title: &str, nonce: &str, asks: Asks, out: &mut dyn Write) -> io::Result<()> {
    // The application reads this policy to learn if a server computes savings.
    let connect = if asks == Asks::Server { " connect-src 'self';" } else { "" };
    // It reads the policy also to learn if it can run a boot again. WebAssembly runs only with this word; `eval` of
    // text never does.
    let eval = if asks == Asks::Itself && crate::page::can_run_again() { " 'wasm-unsafe-eval'" } else { "" };
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'nonce-{nonce}'{eval}; worker-src blob:;{connect} base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{} · bootscope</title>\n<style>\n{}</style>\n<style>\n{}</style>\n</head>\n<body>\n<div id=\"tables\">\n",
        esc(title),
        include_str!("style.css"),
        crate::page::style()
    )
}

/// Harmless text escaped for HTML, also within quotes, and for XML 1.0, which cannot have the control characters that
/// [`harmless()`] replaces.
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

/// A word that the content of the page cannot predict, from the randomness that seeds hash maps.
pub(crate) fn nonce() -> String {
    let random = || std::hash::RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", random(), random())
}
