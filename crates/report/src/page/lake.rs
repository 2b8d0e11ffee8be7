//! The data of a lake's page: the tables `lake` and `cells`, and `end`. All text has passed [`crate::harmless`].
//!
//! ```text
//! lake     json                                        one text: the document `bootscope.lake-page/1` without its cells
//! cells    kind day kernel boots not_ended p50 p95     kind: place in `kinds`; p50 and p95 in ns, 0 if no boot ended
//! end      (no columns)                                the page is complete
//! ```

use super::for_a_browser::for_a_browser;
use super::parts::Needed;
use crate::lake::{LakeCell, LakePage};
use page_data::{Column, Table};
use std::io;
use timeline::Ns;

/// Passes the parts to `each` in order.
///
/// # Errors
/// Those of `each`.
pub fn each_part(document: &LakePage, each: &mut dyn FnMut(Needed, &Table) -> io::Result<()>) -> io::Result<()> {
    let mut shown = document.clone();
    shown.kinds.iter_mut().for_each(|kind| kind.cells.clear());
    let json = for_a_browser(serde_json::to_value(shown)?).to_string();
    each(Needed::First, &Table::new("lake", 1).with("json", Column::Texts(vec![json.into()])))?;
    each(Needed::First, &cells(document))?;
    each(Needed::Later, &Table::new("end", 0))
}

fn cells(document: &LakePage) -> Table<'_> {
    let kinds = document.kinds.iter().enumerate();
    let all: Vec<(usize, &LakeCell)> =
        kinds.flat_map(|(i, kind)| kind.cells.iter().map(move |cell| (i, cell))).collect();
    let deltas = |value: &dyn Fn(&LakeCell) -> i64| Column::Deltas(all.iter().map(|(_, cell)| value(cell)).collect());
    let counts = |value: &dyn Fn(&LakeCell) -> u64| Column::Counts(all.iter().map(|(_, cell)| value(cell)).collect());
    Table::new("cells", all.len())
        .with("kind", Column::Deltas(all.iter().map(|&(kind, _)| place(kind)).collect()))
        .with("day", deltas(&|cell| place(cell.day)))
        .with("kernel", deltas(&|cell| place(cell.kernel)))
        .with("boots", counts(&|cell| cell.boots))
        .with("not_ended", counts(&|cell| cell.not_ended))
        .with("p50", deltas(&|cell| length(cell.p50_ns)))
        .with("p95", deltas(&|cell| length(cell.p95_ns)))
}

fn length(ns: Option<f64>) -> i64 {
    Ns::rounded(ns.unwrap_or(0.0)).0.max(0)
}

/// A place in a list, as a column's number.
fn place(place: usize) -> i64 {
    i64::try_from(place).unwrap_or(i64::MAX)
}
