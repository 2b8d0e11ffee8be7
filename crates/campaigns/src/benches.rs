//! Reads finished benches: from a bench's folder, its journal, or a document.

use crate::Notes;
use anyhow::{Context, bail};
pub use benchmark::JOURNAL;
use benchmark::{Document, JournalError};
use std::path::{Path, PathBuf};

/// The most bytes of a document. No bench writes a larger one.
const MAX_BYTES: u64 = 1 << 30;

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

/// As [`read`], with a remark about damaged lines.
pub fn read_noting_damage(path: &Path, notes: &dyn Notes) -> anyhow::Result<Document> {
    let (document, damaged) = read(path)?;
    if damaged > 0 {
        notes.note(&format!("{}: lines that are no boots, and are left out: {damaged}", path.display()));
    }
    Ok(document)
}
