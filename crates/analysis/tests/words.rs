//! No decision compares text that a person reads: the sources of this crate do not know what phases are called.

use std::fs;
use std::path::{Path, PathBuf};

/// What the readers call the phases of a boot. The phases of a made-up boot in a unit test are no decision.
const PHASES: [&str; 8] =
    ["early kernel", "hand-over", "process 1", "modules and root", "initcalls: ", "VMM: ", "decompress", "boot loader"];

/// Where one is still compared: `diff` knows how a kernel is decompressed, by any method, by the words of that span.
const STILL: [(&str, &str); 1] = [("diff/kin.rs", "decompress")];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        match entry.is_dir() {
            true => sources(&entry, found),
            false => found.push(entry),
        }
    }
}

/// The code, without comments and without what `#[cfg(test)]` begins, which is last in a file.
fn code(text: &str) -> String {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    code.lines().filter(|line| !line.trim_start().starts_with("//")).map(|line| format!("{line}\n")).collect()
}

#[test]
fn no_source_knows_what_a_phase_is_called() {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    files.retain(|file| file.extension().is_some_and(|e| e == "rs") && !file.ends_with("tests.rs"));
    assert!(files.len() > 20, "the sources are not where they are looked for: {files:?}");
    for file in files {
        let code = code(&fs::read_to_string(&file).unwrap());
        for phase in PHASES {
            let still = STILL.iter().any(|(known, word)| file.ends_with(known) && *word == phase);
            assert_eq!(code.contains(&format!("\"{phase}")), still, "{}: \"{phase}", file.display());
        }
    }
}

#[test]
fn a_phase_in_code_is_found_and_one_in_a_comment_is_not() {
    let text = "// \"process 1\"\nlet a = \"b\";\n#[cfg(test)]\nlet c = \"process 1\";\n";
    assert_eq!(code(text), "let a = \"b\";\n");
    assert!(code("if name == \"process 1\" {").contains("\"process 1"));
}
