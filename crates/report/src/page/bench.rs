//! What a page carries of a bench: one table `bench`, whose column `json` is the document of `bench --json` (docs/json.md) as far
//! as the page shows it, and `end`.
//!
//! Left out are rows beyond the first [`MOST_ROWS`] of each table, and of the boots themselves all rows but those whose growth
//! is drawn. All text has passed [`crate::harmless`].

use super::parts::{Needed, for_a_browser};
use benchmark::Document;
use page_data::{Column, Table};
use std::collections::HashSet;
use std::io;

/// Rows of a variant, or of a comparison, that a page carries: the largest.
const MOST_ROWS: usize = 1_000;

/// Hands out the parts, in order.
///
/// # Errors
/// Those of `each`.
pub fn each_part(document: &Document, each: &mut dyn FnMut(Needed, &Table) -> io::Result<()>) -> io::Result<()> {
    let json = for_a_browser(serde_json::to_value(shortened(document.clone()))?).to_string();
    each(Needed::First, &Table::new("bench", 1).with("json", Column::Texts(vec![json.into()])))?;
    each(Needed::Later, &Table::new("end", 0))
}

fn shortened(mut document: Document) -> Document {
    let results = &mut document.results;
    results.variants.iter_mut().for_each(|variant| variant.rows.truncate(MOST_ROWS));
    results.comparisons.iter_mut().for_each(|against| against.rows.truncate(MOST_ROWS));
    let drawn: HashSet<&str> =
        results.scaling.iter().flat_map(|slice| &slice.rows).map(|row| row.name.as_str()).collect();
    for boot in &mut document.boots {
        boot.measured.rows.retain(|row| drawn.contains(row.name.as_str()));
    }
    document
}
