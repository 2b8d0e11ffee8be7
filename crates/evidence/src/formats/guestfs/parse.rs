//! Reads one line of boot-analysis: the fields before the text, and the text without its escapes.

use super::Source;
use crate::input::text::{number, skip_spaces};
use memchr::memmem;
use std::borrow::Cow;
use timeline::Ns;

/// The fields before the text.
pub(super) struct Head<'a> {
    pub number: Option<u64>,
    pub at: Ns,
    pub source: Source,
    /// The rest of the line, from the opening quote on.
    pub rest: &'a [u8],
}

/// True if a line is one complete event.
pub(crate) fn is_event(line: &[u8]) -> bool {
    // The character after the first number rules out nearly every line of other formats.
    let spaced = skip_spaces(line);
    let after = spaced.iter().find(|byte| !byte.is_ascii_digit());
    matches!(after, Some(b'#' | b'.' | b' ' | 0xc2)) && head(&plain(line)).is_some_and(|head| text(head.rest).is_some())
}

/// Replaces non-breaking spaces: a web page shows lines with them. boot-analysis itself prints ASCII only.
pub(super) fn plain(line: &[u8]) -> Cow<'_, [u8]> {
    const NO_BREAK: &[u8] = "\u{a0}".as_bytes();
    if memmem::find(line, NO_BREAK).is_none() {
        return Cow::Borrowed(line);
    }
    let mut plain = Vec::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = memmem::find(rest, NO_BREAK) {
        plain.extend_from_slice(&rest[..at]);
        plain.push(b' ');
        rest = &rest[at + NO_BREAK.len()..];
    }
    plain.extend_from_slice(rest);
    Cow::Owned(plain)
}

/// Reads up to the opening quote.
pub(super) fn head(line: &[u8]) -> Option<Head<'_>> {
    let line = skip_spaces(line);
    let (number, at, rest) = numbered(line).or_else(|| in_ms(line))?;
    let rest = rest.strip_prefix(b" [")?;
    let end = memchr::memchr(b']', rest)?;
    let source = source(&rest[..end])?;
    let rest = rest[end + 1..].strip_prefix(b" ")?;
    rest.starts_with(b"\"").then_some(Head { number, at, source, rest })
}

type Stamp<'a> = (Option<u64>, Ns, &'a [u8]);

/// `#277: +416560057`. A web page's line number may stand before it.
fn numbered(line: &[u8]) -> Option<Stamp<'_>> {
    let line = match number(line) {
        Some((_, rest)) => skip_spaces(rest),
        None => line,
    };
    let (event, rest) = number(line.strip_prefix(b"#")?)?;
    let (at, rest) = number(rest.strip_prefix(b": +")?)?;
    Some((Some(event), Ns(i64::try_from(at).ok()?), rest))
}

/// `416.6ms (+1.1)`. A launch's first event has no difference.
fn in_ms(line: &[u8]) -> Option<Stamp<'_>> {
    let (at, rest) = tenths(line)?;
    let mut rest = rest.strip_prefix(b"ms")?;
    if let Some(after) = rest.strip_prefix(b" (+") {
        rest = tenths(after.strip_prefix(b"-").unwrap_or(after))?.1.strip_prefix(b")")?;
    }
    Some((None, Ns(i64::try_from(at.checked_mul(100_000)?).ok()?), rest))
}

/// Reads `416.6` as 4166.
fn tenths(text: &[u8]) -> Option<(u64, &[u8])> {
    let (whole, rest) = number(text)?;
    let [b'.', digit @ b'0'..=b'9', rest @ ..] = rest else { return None };
    Some((whole.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?, rest))
}

/// The source by its name: libguestfs' names of its events, and boot-analysis' name for libvirt's log.
fn source(name: &[u8]) -> Option<Source> {
    match name {
        b"appliance" => Some(Source::Appliance),
        b"launch_done" => Some(Source::LaunchDone),
        b"library" | b"trace" | b"libvirt" | b"warning" | b"close" | b"subprocess_quit" | b"enter" | b"progress" => {
            Some(Source::Library)
        }
        _ => None,
    }
}

/// The text between the first quote and the last, which ends the line. Only codes that boot-analysis writes for
/// unprintable bytes are escapes: a `\x41` was in the text itself.
pub(super) fn text(quoted: &[u8]) -> Option<Vec<u8>> {
    let quoted = quoted.trim_ascii_end();
    let mut rest = quoted.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let mut text = Vec::with_capacity(rest.len());
    while let Some(at) = memchr::memchr(b'\\', rest) {
        text.extend_from_slice(&rest[..at]);
        rest = &rest[at..];
        match escape(rest) {
            Some((byte, after)) => {
                text.push(byte);
                rest = after;
            }
            None => {
                text.push(b'\\');
                rest = &rest[1..];
            }
        }
    }
    text.extend_from_slice(rest);
    Some(text)
}

/// `\x1b`, or `\xffffffe2` from a signed `char`.
fn escape(text: &[u8]) -> Option<(u8, &[u8])> {
    let digits = text.strip_prefix(b"\\x")?;
    let (high, digits) = match digits.strip_prefix(b"ffffff") {
        Some(signed) if hex(signed).is_some_and(|byte| byte >= 0x80) => (true, signed),
        _ => (false, digits),
    };
    let byte = hex(digits)?;
    let printable = (b' '..=b'~').contains(&byte);
    (high || !printable).then_some((byte, &digits[2..]))
}

fn hex(digits: &[u8]) -> Option<u8> {
    let digit = |b: u8| char::from(b).to_digit(16);
    let (high, low) = (digit(*digits.first()?)?, digit(*digits.get(1)?)?);
    u8::try_from(high * 16 + low).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_escapes_of_boot_analysis_are_undone() {
        for (quoted, expected) in [
            (&br#""a\x1b[6n""#[..], Some(&b"a\x1b[6n"[..])),
            (br#""\xffffffe2\x82""#, Some(b"\xe2\x82")),
            (br#""\xffffff41 \x41 \x4""#, Some(b"\xffffff41 \\x41 \\x4")),
            (br#""C:\dir \" x""#, Some(b"C:\\dir \\\" x")),
            (br#""""#, Some(b"")),
            (br#"""#, None),
            (br#""cut"#, None),
        ] {
            assert_eq!(text(quoted).as_deref(), expected, "{}", String::from_utf8_lossy(quoted));
        }
    }

    #[test]
    fn the_fields_before_the_text_are_read() {
        let found = |line: &str| head(line.as_bytes()).map(|head| (head.number, head.at.0, head.source));
        assert_eq!(found("214     #277: +416 [appliance] \"x\""), Some((Some(277), 416, Source::Appliance)));
        assert_eq!(found("1.5ms (+0.1) [libvirt] \"x\""), Some((None, 1_500_000, Source::Library)));
        assert_eq!(found("#1: +5 [launch_done] \""), Some((Some(1), 5, Source::LaunchDone)));
        for other in
            ["#1: 5 [trace] \"", "#1: +5 [what] \"", "# tracer: nop", "1.55ms [trace] \"", "1 0 5 0 \"x\" \"\""]
        {
            assert_eq!(found(other), None, "{other}");
        }
    }
}
