//! The application in a page, and the data that it shows, as elements of an HTML file.
//!
//! The application is written in TypeScript (`page/`) and built before this crate (`make build`). Without it, as after
//! a plain `cargo build`, a page has its tables and says how to build the charts. Each part of the data is one element.
//! The application stands before most parts, so it draws the first picture before the last byte is read. It reads a
//! part when the next one has begun.

mod bench;
mod boot;
mod for_a_browser;
mod lake;
mod parts;

pub use boot::{ConsoleLine, PageBoot, embedded};
pub use page_data::{Column, MAX_BYTES, Malformed, Table};

use crate::lake::LakePage;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use benchmark::Document;
use parts::Needed;
use std::io::{self, Write};

include!(concat!(env!("OUT_DIR"), "/application.rs"));

/// The type of an element that is a part of the data. No browser runs such a script.
const TYPE: &str = "application/x-bootscope";

/// The application's style sheet; empty if there is no application.
pub fn style() -> &'static str {
    APPLICATION.map_or("", |(_, style)| style)
}

/// The type of the element with the compressed program that runs a boot again.
const WHAT_IF_TYPE: &str = "application/x-bootscope-what-if";

/// True if a page can run its boots again without the server.
pub fn can_run_again() -> bool {
    WHAT_IF.is_some()
}

/// Writes the application and its data, or the reason why there are no charts. Its script carries `nonce`. The program
/// that runs boots again comes last, if the page has it.
///
/// # Errors
/// If `out` cannot be written.
pub fn write(boots: &[PageBoot], nonce: &str, runs_again: bool, out: &mut dyn Write) -> io::Result<()> {
    let parts =
        |mut part: Take| boots.iter().try_for_each(|boot| parts::each_part(boot, boots.len(), runs_again, &mut part));
    written(nonce, out, parts)?;
    if let Some(program) = WHAT_IF.filter(|_| runs_again) {
        writeln!(out, "<script type=\"{WHAT_IF_TYPE}\">{}</script>", BASE64_STANDARD.encode(program))?;
    }
    Ok(())
}

/// Writes the application with a bench as its data, and with the boots that are the median of a variant.
///
/// # Errors
/// If `out` cannot be written.
pub fn write_bench(document: &Document, medians: &[PageBoot], nonce: &str, out: &mut dyn Write) -> io::Result<()> {
    written(nonce, out, |part| bench::each_part(document, medians, part))
}

/// Writes the application with a lake as its data.
///
/// # Errors
/// If `out` cannot be written.
pub fn write_lake(document: &LakePage, nonce: &str, out: &mut dyn Write) -> io::Result<()> {
    written(nonce, out, |part| lake::each_part(document, part))
}

/// A callback that takes each part, with the time at which it is needed.
type Take<'a> = &'a mut dyn FnMut(Needed, &Table) -> io::Result<()>;

fn written(nonce: &str, out: &mut dyn Write, parts: impl FnOnce(Take) -> io::Result<()>) -> io::Result<()> {
    if APPLICATION.is_none() {
        writeln!(
            out,
            "<p class=\"faint\">This bootscope was built without the page's application, so there are tables and no charts: \
             <code>make build</code> builds both.</p>"
        )?;
    }
    // The parts for the first picture stand before the application, which looks for them when it starts.
    let mut script = APPLICATION.map(|(script, _)| script);
    let mut part = |needed: Needed, table: &Table| {
        if let Some(script) = script.take_if(|_| needed == Needed::Later) {
            writeln!(out, "<script nonce=\"{nonce}\">\n{script}</script>")?;
        }
        writeln!(out, "<script type=\"{TYPE}\">{}</script>", BASE64_STANDARD.encode(table.packed()))
    };
    parts(&mut part)
}

/// The parts of a page that [`write()`] wrote, in order: for tests, and for programs that read a page without a browser.
///
/// # Errors
/// If an element is not a part of a page.
pub fn read(page: &str) -> Result<Vec<Table<'static>>, Malformed> {
    let begin = format!("<script type=\"{TYPE}\">");
    let parts = page.split(&begin).skip(1);
    parts
        .map(|part| {
            let text = part.split_once("</script>").ok_or(Malformed::CutOff)?.0;
            Table::read(&BASE64_STANDARD.decode(text).map_err(|_| Malformed::Zlib)?)
        })
        .collect()
}
