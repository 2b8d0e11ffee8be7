//! Reads finished benches: from a bench's folder, its journal, or a document.

use crate::Notes;
use anyhow::{Context, bail};
pub use benchmark::JOURNAL;
use benchmark::{Boot, Document, JournalError};
use std::path::{Path, PathBuf};

/// The most bytes of a document. No bench writes a larger one.
const MAX_BYTES: u64 = 1 << 30;

/// The most median boots: a page has this many boots.
const MAX_MEDIANS: usize = 8;

/// True if a path is a bench and not a recording, judged by its name and its files.
pub fn is_bench(path: &Path) -> bool {
    let named = path.extension().is_some_and(|e| e == "json" || e == "jsonl");
    path.join(JOURNAL).is_file() || (path.is_file() && named)
}

/// The journal in a bench's folder; `None` if the folder is not a bench.
pub fn journal_path(folder: &Path) -> Option<PathBuf> {
    Some(folder.join(JOURNAL)).filter(|journal| journal.is_file())
}

/// Reads a bench. A killed bench gives its finished boots. Returns the document and the number of damaged lines.
pub fn read(path: &Path) -> anyhow::Result<(Document, usize)> {
    let file = if path.is_dir() { path.join(JOURNAL) } else { path.to_owned() };
    let bytes = std::fs::metadata(&file).with_context(|| format!("cannot read {}", file.display()))?.len();
    if bytes > MAX_BYTES {
        bail!("{} has {bytes} bytes: it is no bench", file.display());
    }
    if file.extension().is_some_and(|e| e == "json") {
        let text = std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        if let Some(found) = benchmark::later_schema(&text) {
            return Err(JournalError::Later { path: file, found }.into());
        }
        let document: Document =
            serde_json::from_slice(&text).with_context(|| format!("{} is no bench", file.display()))?;
        if document.head.schema != benchmark::SCHEMA {
            bail!("{} has the schema {:?}, not {}", file.display(), document.head.schema, benchmark::SCHEMA);
        }
        return Ok((document.computed_again(), 0));
    }
    let read = benchmark::read(&file)?;
    Ok((read.document, read.damaged.len()))
}

/// The path of a boot's recording in the folder of all recordings.
pub fn recording_of(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!("{number:04}"))
}

/// The recordings of the median boots, one for each of the first variants, as far as the bench kept them.
pub fn median_recordings(bench: &Path, document: &Document) -> Vec<PathBuf> {
    let medians = (0..document.head.variants.len()).filter_map(|variant| median_boot(&document.boots, variant));
    let recordings = medians.map(|number| recording_of(&bench.join("boots"), number));
    recordings.filter(|recording| recording.is_dir()).take(MAX_MEDIANS).collect()
}

/// The number of a variant's boot with the median total, warm-ups left out. If their number is even, it is the faster one of
/// the two in the middle.
fn median_boot(boots: &[Boot], variant: usize) -> Option<u32> {
    let counts = boots.iter().filter(|boot| boot.round.is_some() && boot.variant == variant);
    let mut totals: Vec<_> = counts.filter_map(|boot| Some((boot.measured.total_ns?, boot.number))).collect();
    totals.sort_unstable();
    Some(totals.get(totals.len().checked_sub(1)? / 2)?.1)
}

/// As [`read`], with a remark about damaged lines.
pub fn read_noting_damage(path: &Path, notes: &dyn Notes) -> anyhow::Result<Document> {
    let (document, damaged) = read(path)?;
    if damaged > 0 {
        notes.note(&format!("{}: lines that are no boots, and are left out: {damaged}", path.display()));
    }
    Ok(document)
}

#[cfg(test)]
mod tests {
    use super::*;
    use benchmark::Measured;

    #[test]
    fn the_median_boot_is_one_that_counts() {
        let boot = |number, round, variant, total_ns| Boot {
            number,
            round,
            variant,
            began_ns: 0,
            measured: Measured { total_ns, ..Measured::default() },
        };
        let boots = [
            boot(0, None, 0, Some(1)), // a warm-up
            boot(1, Some(0), 0, Some(30)),
            boot(2, Some(0), 1, Some(7)),
            boot(3, Some(1), 0, None), // it failed
            boot(4, Some(2), 0, Some(10)),
            boot(5, Some(3), 0, Some(20)),
        ];
        assert_eq!(median_boot(&boots, 0), Some(5));
        assert_eq!(median_boot(&boots[..5], 0), Some(4), "the faster one of two");
        assert_eq!(median_boot(&boots, 1), Some(2));
        assert_eq!(median_boot(&boots, 2), None);
    }
}
