//! Recorded boots whose files are damaged afterwards: the rest is shown with its original lengths, and a stretch with
//! lost evidence has no owner.

use crate::support::boots::{QUIET, Scratch, kernel, record, recorded};
use crate::support::{list, ns, shown, text};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// The phases from the trace: name, start and end.
fn levels(document: &Value) -> Vec<(String, i64, i64)> {
    let phase = |p: &Value| (text(&p["name"]).to_owned(), ns(&p["start_ns"]), ns(&p["end_ns"]));
    list(&document["phases"]).iter().map(phase).filter(|p| p.0.starts_with("initcalls: ")).collect()
}

fn copy(of: &Path, to: PathBuf) -> PathBuf {
    fs::create_dir(&to).unwrap();
    for file in fs::read_dir(of).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
    to
}

/// The trace's clock is the guest's counter. The recorder writes its rate into the manifest. Process 1's messages
/// contain it too, and so does the kernel's log. A deterministic boot's seconds are not the host's.
#[test]
#[ignore = "9 s: in make test-all"]
fn without_a_manifest_lengths_are_as_they_were() {
    let Some(kernel) = kernel() else { return };
    let scratch = Scratch::new();
    for how in ["", "--deterministic"] {
        let whole = scratch.path(&format!("whole{how}"));
        let mut command = record(&kernel, &whole);
        command.args(["--trace", "events", "--append", QUIET]).args(Some(how).filter(|how| !how.is_empty()));
        recorded(&mut command, &whole, "reached");
        let expected = levels(&shown(&whole));
        assert_eq!(expected.len(), 9, "{expected:?}");
        for damage in ["missing", "empty"] {
            let damaged = copy(&whole, scratch.path(&format!("{damage}{how}")));
            match damage {
                "missing" => fs::remove_file(damaged.join("recording.json")).unwrap(),
                _ => fs::write(damaged.join("recording.json"), "").unwrap(),
            }
            let document = shown(&damaged);
            assert!(text(&document["warnings"][0]).starts_with("state unknown"), "{}", document["warnings"]);
            let found = levels(&document);
            assert_eq!(found.len(), expected.len(), "{found:?}");
            for (had, has) in expected.iter().zip(&found) {
                let (was, is) = (had.2 - had.1, has.2 - has.1);
                assert_eq!(had.0, has.0);
                assert!((is - was).abs() <= was / 100 + 100_000, "{how} {damage}: {} was {was} ns, is {is} ns", had.0);
            }
        }
    }
}
