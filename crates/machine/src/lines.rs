//! Lines out of a stream that arrives in pieces, for looking at while it boots. The recording keeps the bytes.

/// Of a line that never ends, this much of its end is looked at.
const LINE_BYTES_MAX: usize = 4096;

/// The line that is coming in.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    partial: Vec<u8>,
}

/// A line, or as much of it as there is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    /// Without its end.
    pub(crate) text: &'a [u8],
    /// Whether its end has come. A prompt's never does.
    pub(crate) whole: bool,
}

impl Lines {
    /// Takes bytes, and shows each line that they end, then what there is of the next.
    pub(crate) fn feed(&mut self, bytes: &[u8], see: &mut dyn FnMut(Line<'_>)) {
        for piece in bytes.split_inclusive(|&b| b == b'\n') {
            self.partial.extend_from_slice(piece);
            if self.partial.last() == Some(&b'\n') {
                let end = self.partial.iter().rposition(|b| !matches!(b, b'\r' | b'\n')).map_or(0, |last| last + 1);
                see(Line { text: &self.partial[..end], whole: true });
                self.partial.clear();
            } else if self.partial.len() > LINE_BYTES_MAX {
                // Half, so that it is not moved for each byte.
                self.partial.drain(..self.partial.len() - LINE_BYTES_MAX / 2);
            }
        }
        if !self.partial.is_empty() {
            see(Line { text: &self.partial, whole: false });
        }
    }
}

/// Text to show and to keep in the manifest: valid, without control characters, at most `chars_max` long.
pub(crate) fn shown(text: &[u8], chars_max: usize) -> String {
    let text = String::from_utf8_lossy(text);
    let plain = text.trim().chars().map(|c| if c.is_control() { '?' } else { c });
    plain.take(chars_max).collect()
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
            all.feed(&[b'x'; 1000], &mut |line| assert!(line.text.len() <= LINE_BYTES_MAX + 1000));
        }
    }

    #[test]
    fn hostile_text_is_shown_harmlessly() {
        assert_eq!(shown(b"\x1b[2J\xff<b>\r\n", 100), "?[2J\u{fffd}<b>");
        assert_eq!(shown("ää".as_bytes(), 1), "ä");
    }
}
