//! Makes a machine's text safe to show: a guest's names and lines may contain codes that a terminal or a browser obeys.
#![forbid(unsafe_code)]

use serde::Serialize;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};

/// Writes escapes in place of everything that a terminal or a browser would obey or hide: control characters, and
/// characters that turn the direction of text, end lines or are invisible. Everything else stays.
pub fn harmless(text: &str) -> Cow<'_, str> {
    // Nearly all text is printable ASCII, and this check is several times as fast.
    if text.bytes().all(|b| (b' '..=b'~').contains(&b)) {
        return Cow::Borrowed(text);
    }
    let Some(first) = text.find(is_harmful) else { return Cow::Borrowed(text) };
    let mut shown = text[..first].to_owned();
    for c in text[first..].chars() {
        if is_harmful(c) {
            escape(c, &mut shown);
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// Like [`harmless`], for bytes that may not be text. Bytes that are not UTF-8 are shown as `\xNN`.
pub fn harmless_bytes(bytes: &[u8]) -> String {
    let mut shown = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        shown.push_str(&harmless(chunk.valid()));
        for byte in chunk.invalid() {
            let _ = write!(shown, "\\x{byte:02x}");
        }
    }
    shown
}

/// True if a terminal or a browser would obey or hide this character.
pub fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}' | '\u{e0000}'..='\u{e007f}')
}

fn escape(c: char, out: &mut String) {
    let _ = match c {
        '\n' => write!(out, "\\n"),
        '\r' => write!(out, "\\r"),
        '\t' => write!(out, "\\t"),
        _ if c.is_ascii() => write!(out, "\\x{:02x}", u32::from(c)),
        _ => write!(out, "\\u{{{:x}}}", u32::from(c)),
    };
}

/// The JSON text of a value. The characters that [`harmless`] escapes are escaped in JSON's way. The value stays the
/// same, and a terminal obeys no part of the text.
pub fn json<T: Serialize>(value: &T, indented: bool) -> serde_json::Result<String> {
    let mut text = Vec::new();
    write_json(&mut text, value, indented)?;
    String::from_utf8(text).map_err(|error| serde_json::Error::io(io::Error::other(error)))
}

/// Writes [`json`] piece by piece, because a document may be much larger than the boot.
pub fn write_json<T: Serialize>(out: impl Write, value: &T, indented: bool) -> serde_json::Result<()> {
    let out = HarmlessStrings(out);
    if indented { serde_json::to_writer_pretty(out, value) } else { serde_json::to_writer(out, value) }
}

/// Escapes harmful characters in the strings that `serde_json` writes: each in one piece, up to the next escape.
struct HarmlessStrings<W>(W);

impl<W: Write> Write for HarmlessStrings<W> {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        // Outside of strings, JSON contains no such character except the newline, and in strings it escapes the
        // newline.
        let harmful = |c: char| c != '\n' && is_harmful(c);
        let text = std::str::from_utf8(piece).map_err(io::Error::other)?;
        let mut done = 0;
        for (at, c) in text.char_indices().filter(|(_, c)| harmful(*c)) {
            self.0.write_all(&piece[done..at])?;
            c.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(self.0, "\\u{unit:04x}"))?;
            done = at + c.len_utf8();
        }
        self.0.write_all(&piece[done..])?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_codes_are_shown_as_escapes() {
        assert_eq!(harmless("acpi_init"), "acpi_init");
        assert_eq!(harmless("µs “ok” ·"), "µs “ok” ·");
        assert_eq!(harmless("\x1b[2J\x07 \u{9b}31m\r\n"), "\\x1b[2J\\x07 \\u{9b}31m\\r\\n");
        assert_eq!(
            harmless("a\u{202e}b\u{2066}c\u{200b}d\u{2028}\u{feff}"),
            "a\\u{202e}b\\u{2066}c\\u{200b}d\\u{2028}\\u{feff}"
        );
    }

    #[test]
    fn bytes_that_are_not_utf_8_are_shown_as_escapes() {
        assert_eq!(harmless_bytes(b"ok \xff\xfe\x1b \xc2\xb5s"), "ok \\xff\\xfe\\x1b µs");
    }

    #[test]
    fn json_keeps_its_value() {
        let value = "a\u{202e}\u{9b}\u{7f}\u{e0041}\n\u{1b}µ";
        for indented in [false, true] {
            let text = json(&[value], indented).unwrap();
            assert!(!text.contains(|c: char| c != '\n' && is_harmful(c)), "{text:?}");
            assert_eq!(serde_json::from_str::<[String; 1]>(&text).unwrap()[0], value);
        }
    }
}
