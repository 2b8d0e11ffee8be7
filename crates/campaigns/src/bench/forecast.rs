//! The number of rounds that a bench will need for a verdict, from the noise of an earlier bench of the same setup.

use benchmark::history::Filter;
use benchmark::{Document, Head, History, HistoryError};
use statistics::power;
use std::path::Path;

/// Boots of the earlier bench below which their noise says little.
const MIN_BOOTS: usize = 8;

/// One sentence with the number of rounds for a difference of the margin. `None` if nothing is compared, or if the
/// history has no bench of this setup with enough boots.
pub fn rounds_needed(db: Option<&Path>, head: &Head) -> Option<String> {
    if head.variants.len() < 2 || head.deterministic {
        return None;
    }
    let path = db.map(Path::to_owned).map_or_else(benchmark::history::default_path, Ok);
    let (bench, totals) = path.and_then(|path| earlier_totals(&path, head)).ok()??;
    // Neighbouring boots differ as the two boots of a pair do without a change.
    let (first, second) = (&totals[..totals.len() - 1], &totals[1..]);
    let spread = power::spread(first, second, 1.0)?;
    let margin = 100.0 * head.ask.margin;
    let needed = match power::pairs_needed(&spread, head.ask.margin, &head.ask) {
        Some(rounds) => format!("needs about {rounds} rounds"),
        None => "would need more than a million rounds".to_owned(),
    };
    Some(format!("a difference of {margin:.3} % {needed}, by the noise of bench {bench} ({} boots)", totals.len()))
}

/// The newest bench of the first variant's setup with enough boots, and the totals of these in order of time.
fn earlier_totals(path: &Path, head: &Head) -> Result<Option<(i64, Vec<f64>)>, HistoryError> {
    let history = History::open_existing(path)?;
    let Some(setup) = history.setup_of(&Document::new(head.clone(), Vec::new(), None), 0)? else { return Ok(None) };
    let filter = Filter { setup: Some(setup), ..Filter::default() };
    let has_enough = |entry: &&benchmark::history::Entry| entry.boots.saturating_sub(entry.failed) >= MIN_BOOTS as u64;
    let entries = history.entries(&filter)?;
    let Some(entry) = entries.iter().rev().find(has_enough) else { return Ok(None) };
    let document = history.document(entry.bench)?;
    let boots = document.iter().flat_map(|document| &document.boots);
    let counted = boots.filter(|boot| boot.variant == entry.variant && boot.round.is_some());
    let totals: Vec<f64> = counted.filter_map(|boot| Some(boot.measured.total_ns? as f64)).collect();
    Ok(Some((entry.bench, totals)).filter(|(_, totals)| totals.len() >= MIN_BOOTS))
}
