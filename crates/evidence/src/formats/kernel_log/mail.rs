//! A log in a mail: quoted with `> `, and its long lines wrapped.
//!
//! ```text
//! > [    0.270363] initcall init_workqueues+0x0/0x39c returned 0 after 9765
//! > usecs
//! ```
//! A line that goes on is one that has no room for the next line's first word, and ends in the space before it or in the
//! middle of an initcall's message. A console's lines end in a carriage return and are never joined.

use super::prefix::Prefix;
use crate::input::text::Lines;

/// Mail programs leave no line longer than this if they can, in characters.
const WRAPPED_AT: usize = 72;
/// A line longer than this was not wrapped.
const WIDEST: usize = 80;
/// The first line with a stamp is searched for in this number of lines.
const LINES_LOOKED_AT: usize = 1000;

/// True if the first line with a stamp is quoted.
pub(super) fn is_quoted(bytes: &[u8]) -> bool {
    let stamped = |line: &[u8]| Prefix::strip(unquote(line)).0.stamp.is_some();
    let mut lines = Lines::new(bytes).take(LINES_LOOKED_AT).map(|line| line.bytes);
    lines.find(|line| stamped(line)).is_some_and(|line| line.starts_with(b">"))
}

/// A line without the marks of a quotation.
pub(super) fn unquote(mut line: &[u8]) -> &[u8] {
    while let [b'>', rest @ ..] = line {
        line = rest.strip_prefix(b" ").unwrap_or(rest);
    }
    line
}

/// A line that may go on in the next one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wrap {
    /// The line's width, in bytes; `None` if it cannot go on.
    width: Option<usize>,
}

impl Wrap {
    /// After a line with a stamp, whose last message is `text`.
    pub(super) fn after(line: &[u8], text: &str) -> Wrap {
        let width = line.trim_ascii_end().len();
        let is_cut = || text.starts_with("initcall ") && text.contains(" returned ") && !text.contains(" usec");
        let open = !line.ends_with(b"\r") && (text.ends_with(' ') || is_cut());
        Wrap { width: (open && width <= WIDEST).then_some(width) }
    }

    /// True if the next line belongs to it: its first word had no room there.
    pub(super) fn goes_on(self, next: &[u8]) -> bool {
        let word = next.split(|&b| b == b' ').next().map_or(0, <[u8]>::len);
        self.width.is_some_and(|width| width + 1 + word > WRAPPED_AT)
            && !next.starts_with(b"[")
            && !next.starts_with(b"<")
    }
}
