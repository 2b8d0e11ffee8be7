//! The prefixes that kernels of some vendors print between the stamp and a message's text.
//!
//! ```text
//! [    6.09]  [0:           init:    1] text      Samsung, Rockchip: CPU, thread, its id; also `I[0: …]`
//! [    6.09] <0>.(0)[1:init]text                  MediaTek: CPU, thread's id, thread
//! [    6.09] [pid:1,cpu0,init]text                Huawei
//! [    0.47] [    0.46]@0 text                    a second stamp of the vendor's, and the CPU
//! [   14.12] 001: text                            Linux with the real-time patches, before 5.10: the CPU
//! [    2.04][ 3] text                             Phytium: the CPU
//! ```

use super::Caller;
use super::stamp::stamp;
use crate::input::text::{number, skip_spaces};

/// Takes the prefix off. Returns the thread that printed, if it says so, and the text.
pub(super) fn strip(text: &[u8]) -> Option<(Option<Caller>, &[u8])> {
    if let Some(found) = cpu_in_brackets(text) {
        return Some(found);
    }
    let text = skip_spaces(text);
    match text.first()? {
        b'0'..=b'9' => cpu_and_colon(text),
        b'[' => samsung(text).or_else(|| huawei(text)).or_else(|| second_stamp(text)),
        b'<' | b'(' | b'-' | b'.' => mediatek(text),
        // The level as a letter.
        b'D' | b'I' | b'W' | b'E' | b'F' if text.get(1) == Some(&b'[') => samsung(&text[1..]),
        _ => None,
    }
}

fn thread(id: u64) -> Option<Caller> {
    u32::try_from(id).ok().map(Caller::Thread)
}

/// `[0:           init:    1] text`
fn samsung(text: &[u8]) -> Option<(Option<Caller>, &[u8])> {
    let (_, rest) = number(skip_spaces(text.strip_prefix(b"[")?))?;
    let inside = rest.strip_prefix(b":")?;
    let end = memchr::memchr(b']', &inside[..inside.len().min(MAX_NAME_BYTES)])?;
    let colon = memchr::memrchr(b':', &inside[..end])?;
    let (id, after) = number(skip_spaces(&inside[colon + 1..end]))?;
    after.is_empty().then(|| (thread(id), one_space(&inside[end + 1..])))
}

/// `<0>.(0)[1:init]text`, also without the first two.
fn mediatek(text: &[u8]) -> Option<(Option<Caller>, &[u8])> {
    let mut rest = text;
    if let Some(level) = rest.strip_prefix(b"<") {
        rest = number(level)?.1.strip_prefix(b">")?;
    }
    rest = rest.strip_prefix(b".").or(rest.strip_prefix(b"-")).unwrap_or(rest);
    rest = number(rest.strip_prefix(b"(")?)?.1.strip_prefix(b")[")?;
    let (id, rest) = number(rest)?;
    let inside = rest.strip_prefix(b":")?;
    let end = memchr::memchr(b']', &inside[..inside.len().min(MAX_NAME_BYTES)])?;
    Some((thread(id), one_space(&inside[end + 1..])))
}

/// `[pid:1,cpu0,init]text`
fn huawei(text: &[u8]) -> Option<(Option<Caller>, &[u8])> {
    let (id, rest) = number(text.strip_prefix(b"[pid:")?)?;
    let inside = rest.strip_prefix(b",cpu")?;
    let end = memchr::memchr(b']', &inside[..inside.len().min(MAX_NAME_BYTES)])?;
    Some((thread(id), one_space(&inside[end + 1..])))
}

/// `[    0.479414]@0 text`
fn second_stamp(text: &[u8]) -> Option<(Option<Caller>, &[u8])> {
    let (_, rest) = stamp(text)?;
    let (_, rest) = number(rest.strip_prefix(b"@")?)?;
    Some((None, one_space(rest)))
}

/// `001: text`: three digits.
fn cpu_and_colon(text: &[u8]) -> Option<(Option<Caller>, &[u8])> {
    const DIGITS: usize = 3;
    let (digits, rest) = text.split_at_checked(DIGITS)?;
    digits.iter().all(u8::is_ascii_digit).then(|| rest.strip_prefix(b": ")).flatten().map(|rest| (None, rest))
}

/// `[ 3] text`, right behind the stamp: at least two characters.
fn cpu_in_brackets(text: &[u8]) -> Option<(Option<Caller>, &[u8])> {
    let inside = text.strip_prefix(b"[")?;
    let (_, rest) = number(skip_spaces(inside))?;
    let width = inside.len() - rest.len();
    let rest = rest.strip_prefix(b"] ")?;
    (2..=3).contains(&width).then_some((None, rest))
}

/// A thread's name has 15 bytes, and the fields around it are padded.
const MAX_NAME_BYTES: usize = 48;

fn one_space(text: &[u8]) -> &[u8] {
    text.strip_prefix(b" ").unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_of_vendors_are_no_text() {
        let check = |line: &str, caller: Option<u32>, text: &str| {
            let found = strip(line.as_bytes()).unwrap_or_else(|| panic!("{line}"));
            assert_eq!((found.0, found.1), (caller.map(Caller::Thread), text.as_bytes()), "{line}");
        };
        check(" [0:           init:    1] init: no such service", Some(1), "init: no such service");
        check(" [3:  kworker/3:1:   77] x", Some(77), "x");
        check("I[0:      swapper:    0] Booting Linux", Some(0), "Booting Linux");
        check("<0>.(0)[1:swapper/0]Booting", Some(1), "Booting");
        check("-(2)[0:swapper]Linux version", Some(0), "Linux version");
        check("[pid:1,cpu0,swapper/0]x", Some(1), "x");
        check(" 001: devtmpfs: mounted", None, "devtmpfs: mounted");
        check("[ 3] VFS: Mounted root", None, "VFS: Mounted root");
        check("[    0.479414]@0 audit: initialized", None, "audit: initialized");
        for text in ["[drm] x", "[1] y", "(efi) z", "<x>", "I[x", "[0: a] b", "Initmem", "[0:", "(0)[1:", ""] {
            assert_eq!(strip(text.as_bytes()), None, "{text}");
        }
    }
}
