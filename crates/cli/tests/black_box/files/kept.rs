//! Recordings from earlier versions read as before: `show --json` of each equals the document kept beside it.
//!
//! `tests/kept/` has real boots and imports, complete and damaged; its README describes each one. `BLESS=1` rewrites
//! the expected documents. A missing one fails. A list of more than 12 rows is kept as its first 12, its length, and a
//! hash of the whole list. So the documents stay small enough to read, and every byte still counts.

use crate::support::{bootscope, run};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

const ROWS_KEPT: usize = 12;

/// FNV-1a: the same on every machine and in every version.
fn hash(text: &str) -> String {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}", text.bytes().fold(0xcbf2_9ce4_8422_2325, mix))
}

/// The document with its long lists shortened.
fn shortened(value: Value) -> Value {
    match value {
        Value::Array(rows) if rows.len() > ROWS_KEPT => {
            let whole = hash(&serde_json::to_string(&rows).unwrap());
            let first: Vec<Value> = rows.iter().take(ROWS_KEPT).cloned().map(shortened).collect();
            json!({ "rows": rows.len(), "hash": whole, "first": first })
        }
        Value::Array(rows) => rows.into_iter().map(shortened).collect(),
        Value::Object(fields) => fields.into_iter().map(|(name, value)| (name, shortened(value))).collect(),
        plain => plain,
    }
}

fn recordings() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kept");
    let inside = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> = inside.filter(|path| path.extension().is_some_and(|e| e == "zst")).collect();
    found.sort();
    found
}

#[test]
fn recordings_made_before_are_read_the_same() {
    let recordings = recordings();
    assert!(recordings.len() >= 10, "recordings are missing: {recordings:?}");
    let mut different = Vec::new();
    for recording in recordings {
        let shown = run(bootscope("show").arg("--json").arg(&recording)).exits(0).json();
        let shown = serde_json::to_string_pretty(&shortened(shown)).unwrap() + "\n";
        let expected = recording.with_extension("").with_extension("json");
        if std::env::var_os("BLESS").is_some() {
            fs::write(&expected, &shown).unwrap();
        }
        let kept = fs::read_to_string(&expected).unwrap_or_else(|e| panic!("{}: {e}", expected.display()));
        if let Some((line, (kept, shown))) = (1..).zip(kept.lines().zip(shown.lines())).find(|(_, (k, s))| k != s) {
            different.push(format!("{}:{line}: kept {}, shown {}", expected.display(), kept.trim(), shown.trim()));
        } else if kept != shown {
            different.push(format!("{}: of another length", expected.display()));
        }
    }
    assert!(different.is_empty(), "read otherwise than before:\n{}", different.join("\n"));
}

#[test]
fn the_same_boot_is_exported_the_same_each_time() {
    for recording in recordings() {
        for format in ["folded", "folded-all-threads", "perfetto", "speedscope", "chrome", "svg", "csv", "json"] {
            let export = || run(bootscope("export").arg(&recording).args(["--to", format])).stdout;
            assert!(export() == export(), "{}: {format}", recording.display());
        }
    }
}
