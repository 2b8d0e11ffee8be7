//! The stamp of a message, and stamps in the middle of a line.
//!
//! ```text
//! [    1.234567] text                   printk on a console
//! [    1.234567 <    0.000012>] text    dmesg -d
//! ```

use crate::input::text::{number, seconds, skip_spaces};
use timeline::Ns;

/// `[    1.234567]`, also `[    1.234567@0]` and `[    1.234567 <    0.000012>]`: nanoseconds, and the rest.
#[inline]
pub(super) fn stamp(text: &[u8]) -> Option<(i64, &[u8])> {
    let (ns, digits, mut rest) = seconds(skip_spaces(text.strip_prefix(b"[")?))?;
    if let Some(cpu) = rest.strip_prefix(b"@") {
        rest = number(cpu)?.1;
    } else if let Some(delta) = skip_spaces(rest).strip_prefix(b"<") {
        // journalctl marks a delta from another boot by an asterisk.
        let after = seconds(skip_spaces(delta))?.2;
        rest = skip_spaces(after.strip_prefix(b"*").unwrap_or(after)).strip_prefix(b">")?;
    } else if rest.starts_with(b"   ") {
        // The first line of `journalctl -o short-delta` has blanks in place of the time since the line before.
        rest = skip_spaces(rest);
    }
    // Huawei's kernels print the unit.
    let rest = rest.strip_prefix(b"s").unwrap_or(rest);
    let rest = rest.strip_prefix(b"]")?;
    (digits >= 3).then_some((i64::try_from(ns).ok()?, rest))
}

/// The stamp that a line without a level begins with, and the rest of the line. A stamp of 0.000000 is 0.
pub(crate) fn after_stamp(text: &[u8]) -> Option<(Ns, &[u8])> {
    let (ns, rest) = stamp(text)?;
    Some((Ns(ns), rest.strip_prefix(b" ")?))
}

/// The shortest that printk prints is `[    1.234567]`; one cut a little still counts.
const GLUED_STAMP_BYTES_MIN: usize = 10;

/// The offset in a message's text at which another message begins, with its level.
pub(super) fn find_glued(text: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b'[', text)
        .find_map(|at| {
            let (_, rest) = stamp(&text[at..])?;
            let length = text.len() - at - rest.len();
            let follows = matches!(rest.first(), Some(b' ' | b'['));
            (length >= GLUED_STAMP_BYTES_MIN && follows).then(|| match text[..at] {
                [.., b'<', level, b'>'] if level.is_ascii_digit() => at - 3,
                _ => at,
            })
        })
        // At the very start it is the message's own text that looks like a stamp: no progress there.
        .filter(|&at| at > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_may_have_the_time_since_the_line_before() {
        for line in [
            "[    5.123456] text",
            "[    5.123456 <    0.000012>] text",
            "[    5.123456 <    0.000012 >] text",
            "[    5.123456  <   0.000012*>] text",
            "[    5.123456                ] text",
        ] {
            assert_eq!(after_stamp(line.as_bytes()), Some((Ns(5_123_456_000), &b"text"[..])), "{line}");
        }
        for line in ["[    5.123456 <0.1] text", "[    5.123456 <x>] text", "[    5.123456 ] text"] {
            assert_eq!(after_stamp(line.as_bytes()), None, "{line}");
        }
    }
}
