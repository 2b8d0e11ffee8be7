//! The data of a bench's page: a table `bench`, the parts of its median boots if their recordings were kept, and `end`. Its column `json` is the part of the `bench --json` document
//! (docs/json.md) that the page shows.
//!
//! It leaves out the rows of each table beyond the first [`MAX_ROWS`]. A boot keeps only the rows whose growth is
//! drawn. All text has passed [`crate::harmless`].

use super::PageBoot;
use super::for_a_browser::for_a_browser;
use super::parts::{self, Needed};
use benchmark::Document;
use page_data::{Column, Table};
use std::collections::HashSet;
use std::io;

/// The most rows of a variant, or of a comparison, in a page: the largest ones.
const MAX_ROWS: usize = 1_000;

/// Passes the parts to `each` in order.
///
/// # Errors
/// Those of `each`.
pub fn each_part(
    document: &Document,
    medians: &[PageBoot],
    each: &mut dyn FnMut(Needed, &Table) -> io::Result<()>,
) -> io::Result<()> {
    let json = for_a_browser(serde_json::to_value(shortened(document.clone()))?).to_string();
    each(Needed::First, &Table::new("bench", 1).with("json", Column::Texts(vec![json.into()])))?;
    if medians.is_empty() {
        return each(Needed::Later, &Table::new("end", 0));
    }
    let mut part = |needed: Needed, table: &Table| each(needed, table);
    medians.iter().try_for_each(|boot| parts::each_part(boot, medians.len(), false, &mut part))
}

fn shortened(mut document: Document) -> Document {
    let results = &mut document.results;
    results.variants.iter_mut().for_each(|variant| variant.rows.truncate(MAX_ROWS));
    results.comparisons.iter_mut().for_each(|against| against.rows.truncate(MAX_ROWS));
    let drawn: HashSet<&str> =
        results.scaling.iter().flat_map(|slice| &slice.rows).map(|row| row.name.as_str()).collect();
    for boot in &mut document.boots {
        boot.measured.rows.retain(|row| drawn.contains(row.name.as_str()));
    }
    document
}
