//! Lines of initcalls with their length in front, as people sort them.
//!
//! ```text
//! 1490 msecs [    8.290606] initcall ip_auto_config+0x0/0xd70 returned 0
//! ```
//! A recipe that many pages repeat moves what stands behind "after" to the beginning of the line.

use crate::input::text::{number, skip_spaces};

/// The line as the kernel printed it; `None` for any other line.
pub(super) fn restored(text: &[u8]) -> Option<Vec<u8>> {
    let text = skip_spaces(text);
    text.first().filter(|byte| byte.is_ascii_digit())?;
    let (figure, rest) = number(text)?;
    let (unit, rest) = [(1000, &b" msecs "[..]), (1, b" usecs ")]
        .into_iter()
        .find_map(|(unit, word)| Some((unit, rest.strip_prefix(word)?)))?;
    let rest = skip_spaces(rest);
    let is_initcall =
        memchr::memmem::find(rest, b"initcall ").is_some() && memchr::memmem::find(rest, b" returned ").is_some();
    let us = figure.checked_mul(unit).filter(|_| is_initcall)?;
    let mut line = rest.trim_ascii_end().to_vec();
    line.extend_from_slice(format!(" after {us} usecs").as_bytes());
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::restored;

    #[test]
    fn a_length_in_front_is_put_back() {
        let line = b"1490 msecs [ 8.290606] initcall ip_auto_config+0x0/0xd70 returned 0";
        let expected = b"[ 8.290606] initcall ip_auto_config+0x0/0xd70 returned 0 after 1490000 usecs";
        assert_eq!(restored(line).as_deref(), Some(&expected[..]));
        let line = b" 28 usecs [    0.763503] initcall a+0x0/0x1 returned 0 ";
        assert_eq!(
            restored(line).as_deref(),
            Some(&b"[    0.763503] initcall a+0x0/0x1 returned 0 after 28 usecs"[..])
        );
        for other in
            [&b"28 usecs later"[..], b"3 msecs [    1.0] x", b"[    1.000000] initcall a returned 0 after 3 usecs"]
        {
            assert_eq!(restored(other), None);
        }
    }
}
