//! Rules about the names in a kernel's code: which of several names at one address is kept, which names are padding
//! before a function, and which are thunks that a call only passes through. All such names are in the lists below,
//! except those of thunks, which the [architectures](crate::boot::arch) have. Symbols, first executions and calls use these
//! rules.
//!
//! # The rule
//! If one address has several names, the first by this order is kept:
//! 1. a function's own name, before one that another part of the build gave it ([`ALIASES`]), before the end of the
//!    code ([`ENDS`]; nothing behind it has a name), before one that only marks where a section begins or ends
//!    ([`is_mark`]);
//! 2. a name that is not weak, before a weak one;
//! 3. the name with fewer underscores in front;
//! 4. the name that comes first in its list.
//!
//! Steps 2 to 4 are those by which a kernel sorts its own symbol table (Linux: `compare_symbols` in
//! scripts/kallsyms.c), so most lists agree with them. That table lacks step 1.

/// The type of a symbol in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Code (types t, T).
    Code,
    /// Code that another symbol of its name may replace (types w, W).
    Weak,
}

/// Prefixes that the build gives to functions that run before the kernel is at its address (`__pi_`, since 6.2). Most
/// of these functions have their plain name too. In 7.2, those that only such code calls do not (`__pi___startup_64`).
const ALIASES: [&str; 1] = ["__pi_"];

/// The padding before a function: room for the accounting of calls (`__pfx_`, since 6.2) and the check of an indirect
/// call's type (`__cfi_`: kCFI, FineIBT). Calls may enter it; it belongs to the function behind it.
const PADDING: [&str; 2] = ["__pfx_", "__cfi_"];

/// The greatest length of a function's padding (`CONFIG_FUNCTION_PADDING_BYTES`, at most 59, aligned).
pub(crate) const PADDING_BYTES_MAX: u64 = 64;

/// Symbols behind the last function of a part of an image.
const ENDS: [&str; 4] = ["_etext", "etext", "_einittext", "__etext"];

/// Symbols at the beginning of sections, without the usual ending.
const MARKS: [&str; 4] = ["_text", "_stext", "_sinittext", "__init_begin"];

/// The rank of a name: the least is kept.
pub(crate) fn rank(kind: Kind, name: &str) -> (u8, bool, usize) {
    let class = match name {
        _ if is_mark(name) => 3,
        _ if is_end(name) => 2,
        _ if ALIASES.iter().any(|alias| name.starts_with(alias)) => 1,
        _ => 0,
    };
    (class, kind == Kind::Weak, name.bytes().take_while(|&b| b == b'_').count())
}

/// Returns a name as the source has it, without the build's prefix.
pub(crate) fn plain(name: &str) -> &str {
    ALIASES.iter().find_map(|alias| name.strip_prefix(alias)).unwrap_or(name)
}

/// True if a name only marks where a section or a table begins or ends. (`irq_entries_start` is code: it has no
/// underscores in front.)
fn is_mark(name: &str) -> bool {
    let name = plain(name);
    let ends = ["_start", "_begin", "_end", "_array"].iter().any(|end| name.ends_with(end));
    MARKS.contains(&name) || (name.starts_with("__") && ends)
}

/// True if a name marks the end of the code.
pub(crate) fn is_end(name: &str) -> bool {
    ENDS.contains(&name)
}

/// True if a name is that of the padding before the next function.
pub(crate) fn is_padding(name: &str) -> bool {
    PADDING.iter().any(|padding| name.starts_with(padding))
}
