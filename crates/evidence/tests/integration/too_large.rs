//! A recording with files above the size limit: they are named in warnings, and the rest is evidence as before.

use recording::Recording;
use std::fs::{self, File};
use timeline::{DiagnosticKind, FileLoss, Warning};

const BYTES: u64 = 3 << 30;
const LOG: &str = "6,0,0,-;Linux version 6.1.0\n6,1,1000,-;Booting\n6,2,900000,-;Run /init as init process\n";

#[test]
fn files_that_are_too_large_are_named_and_the_rest_is_read() {
    let folder = std::env::temp_dir().join(format!("bootscope-too-large-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("recording.json"), r#"{"schema": "bootscope.recording/1", "state": "finished"}"#).unwrap();
    fs::write(folder.join("kmsg.log"), LOG).unwrap();
    let load = || evidence::load(&Recording::open(&folder).unwrap()).unwrap();
    let before = load();
    assert!(!before.marks.is_empty() && before.warnings.is_empty(), "{:?}", before.warnings);

    let enlarge =
        |name: &str| File::options().create(true).append(true).open(folder.join(name)).unwrap().set_len(BYTES);
    // The recorder had not finished one of them.
    for name in ["calls.bin", "first-run.bin.partial", "console.log", "console.idx", "kallsyms.gz", "00-other.log"] {
        enlarge(name).unwrap();
    }
    let with = load();
    assert_eq!(with.marks.len(), before.marks.len());
    let warned: Vec<(&str, u64, u64, FileLoss)> = with
        .warnings
        .iter()
        .filter_map(|warning| match warning {
            Warning::FileTooLarge { file, bytes, limit_bytes, loss } => {
                Some((file.as_str(), *bytes, *limit_bytes, *loss))
            }
            _ => None,
        })
        .collect();
    let expected = [
        ("00-other.log", FileLoss::ImportedEvidence),
        ("calls.bin", FileLoss::Calls),
        ("console.idx", FileLoss::ArrivalTimes),
        ("console.log", FileLoss::KernelMessages),
        ("first-run.bin", FileLoss::FirstExecutions),
        ("kallsyms.gz", FileLoss::FunctionNames),
    ];
    assert_eq!(warned, expected.map(|(file, loss)| (file, BYTES, 1 << 30, loss)));
    let counted: Vec<&str> =
        with.diagnostics.iter().filter(|d| d.kind == DiagnosticKind::FileTooLarge).map(|d| d.about.as_str()).collect();
    assert_eq!(counted, expected.map(|(file, _)| file), "each once");

    // The kernel log itself is too large.
    enlarge("kmsg.log").unwrap();
    assert!(load().marks.is_empty() && evidence::meminfo(&Recording::open(&folder).unwrap()).is_ok());
    fs::remove_dir_all(&folder).unwrap();
}
