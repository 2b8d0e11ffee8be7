//! Names of files that a recorder writes for the user: no reader of evidence reads them, and no figure depends on them.

use crate::PARTIAL_SUFFIX;
use crate::stream::TAIL;
use std::borrow::Cow;

/// The registers of the CPUs at the time when the recorder gave up on a machine.
pub const REGISTERS: &str = "registers.txt";
/// The values of a watched variable at the entries of functions.
pub const WATCH: &str = "watch.txt";
/// The sources that a capture could not read, and its times. Only captures have this file.
pub const CAPTURE: &str = "capture.txt";
/// The name of the stream with the output of the virtual machine monitor.
pub const VMM_STREAM: &str = "vmm";

/// True if the recorder keeps the file only for the user to read.
#[must_use]
pub fn is_for_people(name: &str) -> bool {
    let is_vmm_stream = name.strip_prefix(VMM_STREAM).is_some_and(|ending| [".log", ".idx"].contains(&ending));
    name == REGISTERS || is_vmm_stream
}

/// The name of the complete file that a file is part of. The tail of a stream and a partial file belong to the complete
/// file.
#[must_use]
pub fn whole_name(name: &str) -> Cow<'_, str> {
    let name = name.strip_suffix(PARTIAL_SUFFIX).unwrap_or(name);
    let Some((head, ending)) = name.rsplit_once('.') else { return Cow::Borrowed(name) };
    match head.rsplit_once('.') {
        Some((head, TAIL)) => Cow::Owned(format!("{head}.{ending}")),
        _ => Cow::Borrowed(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_the_name_of_the_whole() {
        for (part, whole) in [
            ("console.tail.log", "console.log"),
            ("console.tail.idx", "console.idx"),
            ("trace.txt.partial", "trace.txt"),
            ("console.log", "console.log"),
            ("kallsyms", "kallsyms"),
        ] {
            assert_eq!(whole_name(part), whole);
        }
    }

    #[test]
    fn vmm_output_is_not_evidence_and_the_console_is() {
        assert!(["registers.txt", "vmm.log", "vmm.idx"].into_iter().all(is_for_people));
        assert!(!["vmm.json", "watch.txt", "console.log", "vmm", "trace.txt"].into_iter().any(is_for_people));
    }
}
