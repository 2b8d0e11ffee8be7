//! Splits a stream that arrives in pieces into lines, to watch the boot. The recording keeps the bytes.

/// A line that never ends is cut: of its end, up to this number of bytes are kept.
const MAX_LINE_BYTES: usize = 4096;

/// The line that is arriving.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    partial: Vec<u8>,
}

/// A line, or the part of it that has arrived.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    /// The text without its line end.
    pub(crate) text: &'a [u8],
    /// True if the line's end has arrived. A prompt's never does.
    pub(crate) whole: bool,
}

impl Lines {
    /// Takes bytes, and passes on each line that they complete, then the part of the next one that has arrived.
    pub(crate) fn feed(&mut self, bytes: &[u8], see: &mut dyn FnMut(Line<'_>)) {
        for piece in bytes.split_inclusive(|&b| b == b'\n') {
            self.partial.extend_from_slice(piece);
            if self.partial.last() == Some(&b'\n') {
                let end = self.partial.iter().rposition(|b| !matches!(b, b'\r' | b'\n')).map_or(0, |last| last + 1);
                see(Line { text: &self.partial[..end], whole: true });
                self.partial.clear();
            } else if self.partial.len() > MAX_LINE_BYTES {
                // Half, so that the bytes are not moved for each new one.
                self.partial.drain(..self.partial.len() - MAX_LINE_BYTES / 2);
            }
        }
        if !self.partial.is_empty() {
            see(Line { text: &self.partial, whole: false });
        }
    }
}

/// Text to print and to keep in the manifest: valid UTF-8, without control characters, at most `max_chars` characters.
pub(crate) fn shown(text: &[u8], max_chars: usize) -> String {
    let text = String::from_utf8_lossy(text);
    let plain = text.trim().chars().map(|c| if c.is_control() { '?' } else { c });
    plain.take(max_chars).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pieces: &[&[u8]]) -> Vec<(String, bool)> {
        let (mut lines, mut seen) = (Lines::default(), Vec::new());
        for piece in pieces {
            lines.feed(piece, &mut |line| seen.push((String::from_utf8_lossy(line.text).into_owned(), line.whole)));
        }
        seen
    }

    #[test]
    fn lines_are_whole_and_a_prompt_is_seen_as_it_is_printed() {
        let seen = lines(&[b"one\r\ntw", b"o\n\nlogin: "]);
        let expected = [("one", true), ("tw", false), ("two", true), ("", true), ("login: ", false)];
        assert_eq!(seen, expected.map(|(text, whole)| (text.to_owned(), whole)));
    }

    #[test]
    fn a_line_without_end_stays_small() {
        let mut all = Lines::default();
        for _ in 0..100 {
            all.feed(&[b'x'; 1000], &mut |line| assert!(line.text.len() <= MAX_LINE_BYTES + 1000));
        }
    }

    #[test]
    fn hostile_text_is_shown_harmlessly() {
        assert_eq!(shown(b"\x1b[2J\xff<b>\r\n", 100), "?[2J\u{fffd}<b>");
        assert_eq!(shown("ää".as_bytes(), 1), "ä");
    }
}
