//! What the names of a kernel's code are worth: which of several at one address is kept, which are the padding before a
//! function, and which are thunks that a call only passes through. The lists below are all there is of it, but for the
//! names of thunks, which the [architectures](crate::boot::arch) have; readers of symbols, first executions and calls ask here.
//!
//! # The rule
//! Of several names of one address the first by this order is kept:
//! 1. a name of a function, before one that another part of the build gave it ([`ALIASES`]), before the end of the code
//!    ([`ENDS`], behind which nothing has a name), before one that only marks where a section begins or ends ([`is_mark`]);
//! 2. one that is not weak, before a weak one;
//! 3. the one with fewer underscores in front;
//! 4. the one that comes first in its list.
//!
//! Steps 2 to 4 are those by which a kernel sorts its own table of symbols (Linux: `compare_symbols` in
//! scripts/kallsyms.c), so that most lists agree with it; 1 is what that table lacks.

/// What a list says of a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Code (types t, T).
    Code,
    /// Code that another symbol of its name may replace (types w, W).
    Weak,
}

/// What the build puts before the names of functions for code that runs before the kernel is at its address (`__pi_`, 6.2 and
/// later). Most have their own name beside it; what only such code calls has none in 7.2 (`__pi___startup_64`).
const ALIASES: [&str; 1] = ["__pi_"];

/// The padding before a function, in which calls may enter it: room for the accounting of calls (`__pfx_`, 6.2 and later)
/// and the check of an indirect call's type (`__cfi_`: kCFI, FineIBT). It is that function's.
const PADDING: [&str; 2] = ["__pfx_", "__cfi_"];

/// A function's padding is at most this long (`CONFIG_FUNCTION_PADDING_BYTES`, at most 59, aligned).
pub const PADDING_BYTES_MAX: u64 = 64;

/// What stands behind the last function of a part of an image.
const ENDS: [&str; 4] = ["_etext", "etext", "_einittext", "__etext"];

/// Where sections begin, by names without the usual ending.
const MARKS: [&str; 4] = ["_text", "_stext", "_sinittext", "__init_begin"];

/// How good a name is: the least is kept.
pub fn rank(kind: Kind, name: &str) -> (u8, bool, usize) {
    let class = match name {
        _ if is_mark(name) => 3,
        _ if is_end(name) => 2,
        _ if ALIASES.iter().any(|alias| name.starts_with(alias)) => 1,
        _ => 0,
    };
    (class, kind == Kind::Weak, name.bytes().take_while(|&b| b == b'_').count())
}

/// A name as the source has it, without what the build put before it.
pub fn plain(name: &str) -> &str {
    ALIASES.iter().find_map(|alias| name.strip_prefix(alias)).unwrap_or(name)
}

/// Whether a name only marks where a section or a table begins or ends. (`irq_entries_start` is code, and so begins
/// without underscores.)
fn is_mark(name: &str) -> bool {
    let name = plain(name);
    let ends = ["_start", "_begin", "_end", "_array"].iter().any(|end| name.ends_with(end));
    MARKS.contains(&name) || (name.starts_with("__") && ends)
}

/// Whether a name is that of the end of the code.
pub fn is_end(name: &str) -> bool {
    ENDS.contains(&name)
}

/// Whether a name is of the padding before the next function.
pub fn is_padding(name: &str) -> bool {
    PADDING.iter().any(|padding| name.starts_with(padding))
}
