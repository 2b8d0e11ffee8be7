//! Names of files that a recorder writes for people: no reader of evidence takes them, and no figure rests on them.

use crate::PARTIAL_SUFFIX;
use crate::stream::TAIL;
use std::borrow::Cow;

/// Where the CPUs of a machine stood when it was given up.
pub const REGISTERS: &str = "registers.txt";
/// What a variable was where functions were entered.
pub const WATCH: &str = "watch.txt";
/// The sources that a capture could not read, and its times. Only captures have it.
pub const CAPTURE: &str = "capture.txt";
/// The stream of what the virtual machine monitor prints.
pub const VMM_STREAM: &str = "vmm";

/// Whether a file is one that the recorder keeps for people alone.
#[must_use]
pub fn is_for_people(name: &str) -> bool {
    let of_the_vmm = name.strip_prefix(VMM_STREAM).is_some_and(|ending| [".log", ".idx"].contains(&ending));
    name == REGISTERS || of_the_vmm
}

/// The name of the file that one is a part of: the tail of a stream, or a file that was not whole yet, is of the whole one.
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
    fn what_the_vmm_printed_is_for_people_and_the_console_is_not() {
        assert!(["registers.txt", "vmm.log", "vmm.idx"].into_iter().all(is_for_people));
        assert!(!["vmm.json", "watch.txt", "console.log", "vmm", "trace.txt"].into_iter().any(is_for_people));
    }
}
