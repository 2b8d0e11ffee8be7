//! The formats in a file, by its content and never by its name.
//!
//! A capture of a serial line can hold several things one after the other (firmware, kernel, a
//! dump between markers), so every line is looked at and each kind that was found is reported, the
//! one with the most lines first. Containers are recognised by their first bytes.

use crate::assemble::reader_table::{Format, READERS};
use crate::input::text::{Line, Lines};
use crate::readers::reader::Reader;
use std::ops::Range;

/// The kind of a file, or of a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Lines that a reader knows.
    Evidence {
        /// Their format.
        format: Format,
        /// The kind's place among that reader's kinds.
        kind: usize,
        /// That kind, for people.
        what: &'static str,
    },
    /// Compressed by gzip.
    Gzip,
    /// Compressed by zstd, as a packed recording is.
    Zstd,
    /// Text of no kind that is known.
    Text,
    /// No text.
    Binary,
}

impl Content {
    /// The format of these lines.
    pub(crate) fn format(&self) -> Option<Format> {
        match self {
            Content::Evidence { format, .. } => Some(*format),
            _ => None,
        }
    }
}

impl std::fmt::Display for Content {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Content::Evidence { what, .. } => what,
            Content::Gzip => "compressed by gzip: unpack it first",
            Content::Zstd => "compressed by zstd: unpack it first",
            Content::Text => "text of no known kind",
            Content::Binary => "no text",
        })
    }
}

/// A kind that was found, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// What.
    pub content: Content,
    /// The number of its lines; 0 for a kind without lines.
    pub lines: u64,
    /// The start of its first line.
    pub start: usize,
    /// The end of its last line.
    pub end: usize,
}

/// The readers of one recording, or of one file that is looked at, in the order of the table.
pub(crate) type Readers = Vec<(Format, Box<dyn Reader>)>;

/// A reader for each format, without a file.
pub(crate) fn readers() -> Readers {
    READERS.iter().map(|row| (row.format, (row.open)())).collect()
}

/// The kinds in the bytes, most lines first; empty only for an empty file.
pub fn detect(bytes: &[u8]) -> Vec<Found> {
    detect_in(bytes, std::slice::from_ref(&(0..bytes.len())), &readers())
}

/// The same, of some whole lines of a file only: a reader took the others.
pub(crate) fn detect_in(bytes: &[u8], parts: &[Range<usize>], readers: &Readers) -> Vec<Found> {
    let whole = |content| Found { content, lines: 0, start: 0, end: bytes.len() };
    match bytes {
        [] => return Vec::new(),
        [0x1f, 0x8b, ..] => return vec![whole(Content::Gzip)],
        [0x28, 0xb5, 0x2f, 0xfd, ..] => return vec![whole(Content::Zstd)],
        _ => {}
    }
    let mut found: Vec<Found> = Vec::new();
    for (line, from) in parts.iter().flat_map(|part| Lines::new(&bytes[part.clone()]).map(|line| (line, part.start))) {
        let Some(content) = content_of(line, readers) else { continue };
        let (start, end) = (from + line.offset, from + line.offset + line.bytes.len());
        match found.iter_mut().find(|f| f.content == content) {
            Some(known) => (known.lines, known.end) = (known.lines + 1, end),
            None => found.push(Found { content, lines: 1, start, end }),
        }
    }
    if found.is_empty() {
        found.push(whole(if looks_binary(bytes) { Content::Binary } else { Content::Text }));
    }
    // Stable: of equals, what came first.
    found.sort_by_key(|f| std::cmp::Reverse(f.lines));
    found
}

/// The kind of a line. A reader that is sure comes before one that is not, then the order of the table counts.
fn content_of(line: Line<'_>, readers: &Readers) -> Option<Content> {
    let line = Line { bytes: line.bytes.strip_suffix(b"\r").unwrap_or(line.bytes), ..line };
    if line.bytes.is_empty() {
        return None;
    }
    let content = |(format, reader): &(Format, Box<dyn Reader>), kind: usize| {
        let what = reader.kinds().get(kind).copied().unwrap_or_default();
        Content::Evidence { format: *format, kind, what }
    };
    let sure = readers.iter().find_map(|row| row.1.is_line(line).map(|kind| content(row, kind)));
    sure.or_else(|| readers.iter().find_map(|row| row.1.may_be_line(line).map(|kind| content(row, kind))))
}

/// Text has no NULs to speak of; consoles have a few.
fn looks_binary(bytes: &[u8]) -> bool {
    const LOOKED_AT: usize = 4096;
    let start = &bytes[..bytes.len().min(LOOKED_AT)];
    memchr::memchr_iter(0, start).count() * 32 > start.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use Format::{Firmware, Guestfs, KernelLog, Symbols, Trace, Tslog};

    #[track_caller]
    fn check(bytes: &[u8], expected: &[(Format, usize, u64)]) -> Vec<Found> {
        let found = detect(bytes);
        let short = found.iter().map(|f| match f.content {
            Content::Evidence { format, kind, .. } => (format, kind, f.lines),
            other => panic!("no evidence: {other}"),
        });
        assert_eq!(short.collect::<Vec<_>>(), expected);
        found
    }

    #[test]
    fn dates_of_dmesg() {
        let text = b"[Sat Nov 21 07:17:05 2026] smp: up\n[Sat Nov 21 07:17:06 2026] x\n";
        check(text, &[(KernelLog, 0, 2)]);
        assert_eq!(detect(b"[Saturday] hello\n")[0].content, Content::Text);
    }

    #[test]
    fn each_format_by_a_line_or_two() {
        check(b"# tracer: nop\n#\n  init-1  [000] .....  1.5: initcall_level: level=early\n", &[(Trace, 0, 2)]);
        check(b"6,1,0,-;Linux version 6.1\n SUBSYSTEM=x\n7,2,1,-;b\n", &[(KernelLog, 1, 2)]);
        check(b"[    0.000000] a\r\n<6>[    0.100000] b\nlogin:\n", &[(KernelLog, 0, 2)]);
        check(b"[0.1 0.1] [    0.000000] a\n", &[(KernelLog, 0, 1)]);
        check(b"calling  a+0x0/0x1 @ 1\ninitcall a+0x0/0x1 returned 0 after 1 usecs\n", &[(KernelLog, 0, 2)]);
        check(b"ffffffff81000000 T _text\nffffffff81000001 t foo [mod]\n", &[(Symbols, 0, 2)]);
        check(b"0xfffff80 123 ENTER mi_startup\n0x0 124 EVENT WAIT x y\n", &[(Tslog, 0, 2)]);
        check(b"98 0 0 0 \"\" \"\"\n1 0 5 0 \"/sbin/init\" \"dev\"\n", &[(Tslog, 1, 2)]);
        check(b"    #1: +5 [appliance] \"[    0.000000] a\"\n0.1ms [trace] \"launch\"\n", &[(Guestfs, 0, 2)]);
        for (bytes, content) in [
            (&b"\x28\xb5\x2f\xfd...."[..], Content::Zstd),
            (b"\x1f\x8b\x08", Content::Gzip),
            (b"hello\n", Content::Text),
            (&[0; 64], Content::Binary),
        ] {
            let found = detect(bytes);
            assert_eq!(found.iter().map(|f| (f.content, f.lines)).collect::<Vec<_>>(), [(content, 0)]);
        }
        check(b"", &[]);
    }

    #[test]
    fn several_in_one_capture() {
        let bytes = b"SeaBIOS (version 1.16.2)\nBooting\n[    0.000000] Linux version 6.1\n[    0.100000] b\n";
        let found = check(bytes, &[(KernelLog, 0, 2), (Firmware, 0, 1)]);
        assert_eq!((found[0].start, found[0].end), (33, 82));
    }
}
