//! The input of a page: boots, each with its console; and the part of a summary that a page embeds.

use crate::{Boot, Summary};
use timeline::Ns;

/// The most rows per table of the embedded summary, with some hundred bytes each. A boot has hundreds of rows, but a
/// log can have a new name in each line.
const MAX_EMBEDDED: usize = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsoleLine<'a> {
    /// The arrival of its first byte, if known.
    pub at: Option<Ns>,
    /// The line as received, without its end.
    pub text: &'a [u8],
}

#[derive(Clone, Copy)]
pub struct PageBoot<'a> {
    /// Its name beside others: its recording.
    pub name: &'a str,
    pub boot: &'a Boot<'a>,
    pub console: &'a [ConsoleLine<'a>],
}

/// The part of a boot's summary that the page embeds, and a sentence about the rest.
pub fn embedded(boot: &Boot) -> (Summary, Option<String>) {
    let mut cut = Vec::new();
    let mut summary = Summary::with_rows(boot, MAX_EMBEDDED);
    let (s, tables) = (&mut summary, boot.tables());
    first(&mut s.phases, "phases", &mut cut);
    first_of(&mut s.wheres, tables.wheres.len(), "where", &mut cut);
    first(&mut s.initcalls, "initcalls", &mut cut);
    first_of(&mut s.functions, tables.functions.len(), "functions", &mut cut);
    first_of(&mut s.where_all_threads, tables.all_threads.len(), "where_all_threads", &mut cut);
    first(&mut s.processes, "processes", &mut cut);
    first(&mut s.units, "units", &mut cut);
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
    first_of(rows, rows.len(), table, cut);
}

/// Keeps the first rows of a table that has this number of rows. `rows` may have fewer.
fn first_of<T>(rows: &mut Vec<T>, all: usize, table: &str, cut: &mut Vec<String>) {
    if all > MAX_EMBEDDED {
        cut.push(format!("{table} ({MAX_EMBEDDED} of {all})"));
        rows.truncate(MAX_EMBEDDED);
    }
}
