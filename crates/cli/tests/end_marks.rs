//! What ends a boot is a kind of event, not its words: a line may read as anything.

mod support;

use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use support::{list, ns, shown, text};
use tempfile::TempDir;

/// A real boot to process 1, unpacked, with its manifest.
fn unpacked(folder: &TempDir) -> (PathBuf, Value) {
    let packed = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kept/linux-first-run-cut.tar.zst");
    let archive = zstd::Decoder::new(fs::File::open(packed).unwrap()).unwrap();
    tar::Archive::new(archive).unpack(folder.path()).unwrap();
    let recording = fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    let manifest = serde_json::from_slice(&fs::read(recording.join("recording.json")).unwrap()).unwrap();
    (recording, manifest)
}

#[test]
fn a_line_that_reads_init_is_not_process_1() {
    let folder = TempDir::new().unwrap();
    let (recording, mut manifest) = unpacked(&folder);
    let to_process_1 = ns(&shown(&recording)["total_ns"]);
    let mut end_with = |end: Value| {
        manifest["outcome"]["detail"] = end["what"].clone();
        manifest["end"] = end;
        fs::write(recording.join("recording.json"), manifest.to_string()).unwrap();
        let document = shown(&recording);
        (
            ns(&document["total_ns"]),
            text(&document["outcome_detail"]).to_owned(),
            text(&document["end"]["evidence"]).to_owned(),
        )
    };
    let line = end_with(json!({"mark": "line", "what": "init", "at_ns": 1_000_000_000, "error_ns": 100_000}));
    assert_eq!(line, (1_000_000_000, "init".to_owned(), "init".to_owned()));
    let init = end_with(json!({"mark": "init", "what": "init", "at_ns": 1_000_000_000}));
    assert_eq!((init.0, init.1.as_str()), (to_process_1, ""));
    // Who recorded it did not say which: the words have to do.
    assert_eq!(end_with(json!({"what": "init", "at_ns": 1_000_000_000})).0, to_process_1);
}

#[test]
fn a_vmm_mark_that_nobody_knows_is_counted() {
    let folder = TempDir::new().unwrap();
    let (recording, _) = unpacked(&folder);
    let of_vmm = |document: &Value| {
        let found = list(&document["diagnostics"]).iter().find(|d| d["code"] == "vmm-mark-unknown").cloned();
        found.map(|d| (ns(&d["count"]), text(&d["about"]).to_owned()))
    };
    assert_eq!(of_vmm(&shown(&recording)), None);
    let marks = fs::read_to_string(recording.join("vmm.json")).unwrap();
    assert!(marks.contains("\"machine complete\""), "{marks}");
    fs::write(recording.join("vmm.json"), marks.replace("machine complete", "machine made")).unwrap();
    assert_eq!(of_vmm(&shown(&recording)), Some((1, "machine made".to_owned())));
}
