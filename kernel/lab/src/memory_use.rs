//! The use of the kernel's memory, as the kernel prints it before it switches the machine off, and as the host reads it.

use core::fmt;

/// First words of the line.
const BEGINNING: &str = "memory in use: ";

/// The use of memory, in KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// All usable memory, including the kernel's.
    pub total_kib: u64,
    /// Memory that could still be allocated.
    pub available_kib: u64,
    /// Memory in the cache of the root image.
    pub cached_kib: u64,
}

impl fmt::Display for MemoryUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MemoryUse { total_kib, available_kib, cached_kib } = self;
        write!(f, "{BEGINNING}{total_kib} KiB in all, {available_kib} KiB available, {cached_kib} KiB of cache")
    }
}

impl MemoryUse {
    /// Finds the line in a console's text.
    pub fn find(console: &str) -> Option<MemoryUse> {
        let line = console.lines().rev().find_map(|line| line.trim_end().strip_prefix(BEGINNING))?;
        let mut numbers = line.split(", ").map(|part| part.split(' ').next().and_then(|word| word.parse().ok()));
        let mut next = || numbers.next().flatten();
        Some(MemoryUse { total_kib: next()?, available_kib: next()?, cached_kib: next()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    #[test]
    fn the_printed_line_is_found() {
        let memory = MemoryUse { total_kib: 130_555, available_kib: 99_000, cached_kib: 18_432 };
        assert_eq!(MemoryUse::find(&format!("init: done\r\n{memory}\r\nlater\n")), Some(memory));
        assert_eq!(MemoryUse::find("memory in use: 3 KiB in all, many"), None);
        assert_eq!(MemoryUse::find(""), None);
    }
}
