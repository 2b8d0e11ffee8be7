//! The application in a page, and the data that it shows: elements of an HTML file.
//!
//! The application is written in TypeScript (`page/`) and built before this crate is (`make build`). Where it was not, as with
//! a plain `cargo build`, a page has its tables and says what builds the charts. Each part of the data is one element after
//! the application's: so the first picture is there before the last byte is read. The page reads a part
//! when the next one has begun.

mod bench;
mod boot;
mod lake;
mod parts;

pub use boot::{ConsoleLine, PageBoot, embedded};
pub use page_data::{Column, MOST_BYTES, Malformed, Table};

use crate::lake::LakePage;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use benchmark::Document;
use parts::Needed;
use std::io::{self, Write};

include!(concat!(env!("OUT_DIR"), "/application.rs"));

/// What marks an element as a part of the data. No browser runs such a script.
const TYPE: &str = "application/x-bootscope";

/// How the application looks; empty if there is none.
pub fn style() -> &'static str {
    APPLICATION.map_or("", |(_, style)| style)
}

/// What marks the element that has the program which runs a boot again, compressed.
const WHAT_IF_TYPE: &str = "application/x-bootscope-what-if";

/// Whether a page can run its boots again by itself.
pub fn can_run_again() -> bool {
    WHAT_IF.is_some()
}

/// Writes the application and its data; without an application, why there are no charts. Its script carries `nonce`. Where the
/// page runs its boots again by itself, what does that comes last.
///
/// # Errors
/// What `out` says.
pub fn write(boots: &[PageBoot], nonce: &str, runs_again: bool, out: &mut dyn Write) -> io::Result<()> {
    let parts =
        |mut part: Take| boots.iter().try_for_each(|boot| parts::each_part(boot, boots.len(), runs_again, &mut part));
    written(nonce, out, parts)?;
    if let Some(program) = WHAT_IF.filter(|_| runs_again) {
        writeln!(out, "<script type=\"{WHAT_IF_TYPE}\">{}</script>", BASE64_STANDARD.encode(program))?;
    }
    Ok(())
}

/// The same with a bench as its data.
///
/// # Errors
/// What `out` says.
pub fn write_bench(document: &Document, nonce: &str, out: &mut dyn Write) -> io::Result<()> {
    written(nonce, out, |part| bench::each_part(document, part))
}

/// The same with a lake as its data.
///
/// # Errors
/// What `out` says.
pub fn write_lake(document: &LakePage, nonce: &str, out: &mut dyn Write) -> io::Result<()> {
    written(nonce, out, |part| lake::each_part(document, part))
}

/// Takes a part when it is needed.
type Take<'a> = &'a mut dyn FnMut(Needed, &Table) -> io::Result<()>;

fn written(nonce: &str, out: &mut dyn Write, parts: impl FnOnce(Take) -> io::Result<()>) -> io::Result<()> {
    if APPLICATION.is_none() {
        writeln!(
            out,
            "<p class=\"faint\">This bootscope was built without the page's application, so there are tables and no charts: \
             <code>make build</code> builds both.</p>"
        )?;
    }
    // What the first picture needs stands before the application, which looks for it when it starts.
    let mut script = APPLICATION.map(|(script, _)| script);
    let mut part = |needed: Needed, table: &Table| {
        if let Some(script) = script.take_if(|_| needed == Needed::Later) {
            writeln!(out, "<script nonce=\"{nonce}\">\n{script}</script>")?;
        }
        writeln!(out, "<script type=\"{TYPE}\">{}</script>", BASE64_STANDARD.encode(table.packed()))
    };
    parts(&mut part)
}

/// The parts of a page that [`write`] wrote, in order: for tests, and for programs that read a page without a browser.
///
/// # Errors
/// What is no part of a page.
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
