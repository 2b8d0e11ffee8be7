//! Takes out of a console's line what is for terminals: carriage returns, escape sequences, control characters.

/// Cleans lines one after the other; its buffer is used again.
#[derive(Debug, Default)]
pub(crate) struct Cleaner {
    buffer: Vec<u8>,
}

impl Cleaner {
    /// The line's text, and how many control characters (not counting carriage returns and escape
    /// sequences, which every console has) were taken out of it.
    pub(crate) fn clean<'a>(&'a mut self, line: &'a [u8]) -> (&'a [u8], u64) {
        let end = line.iter().rposition(|&b| b != b'\r').map_or(0, |last| last + 1);
        let line = &line[..end];
        if !is_unclean(line) {
            return (line, 0);
        }
        self.buffer.clear();
        let mut controls = 0;
        let mut rest = line;
        while let [first, after @ ..] = rest {
            rest = after;
            match first {
                0x1b => rest = after_escape(after),
                b'\r' => {}
                &b if is_control(b) => controls += 1,
                &b => self.buffer.push(b),
            }
        }
        (&self.buffer, controls)
    }
}

/// True if a text has characters that [`Cleaner`] takes out.
pub(crate) fn is_unclean(text: &[u8]) -> bool {
    // No short-circuit, so that this becomes a loop over vectors.
    text.iter().fold(false, |any, &b| any | is_control(b))
}

/// Tabs are text.
fn is_control(b: u8) -> bool {
    (b < 0x20 && b != b'\t') || b == 0x7f
}

/// The rest of `text` behind an escape sequence. `text` begins behind the escape character (ECMA-48: CSI ends with
/// 0x40..0x7e, a string such as OSC with BEL or the next escape, others are short).
fn after_escape(text: &[u8]) -> &[u8] {
    let length = match text.first() {
        Some(b'[') => 1 + text[1..].iter().take_while(|b| (0x20..0x40).contains(*b)).count() + 1,
        Some(b']' | b'P' | b'_' | b'^' | b'X') => {
            let end = text.iter().position(|&b| b == 0x07 || b == 0x1b);
            end.map_or(1, |at| at + usize::from(text[at] == 0x07))
        }
        Some(0x20..0x30) => 2,
        Some(0x30..0x7f) => 1,
        _ => 0,
    };
    &text[length.min(text.len())..]
}

#[cfg(test)]
mod tests {
    use super::Cleaner;

    #[track_caller]
    fn check(line: &[u8], text: &[u8], controls: u64) {
        assert_eq!(Cleaner::default().clean(line), (text, controls), "{:?}", line.escape_ascii().to_string());
    }

    #[test]
    fn only_text_is_left() {
        check(b"plain\ttext \xc3\xa4\r\r", b"plain\ttext \xc3\xa4", 0);
        check(b"\x1b[2J\x1b[01;32mok\x1b[0m\x1bc!", b"ok!", 0);
        check(b"\x1b]0;title\x07a\x1b(Bb\x1b]x\x1b\\c", b"abc", 0);
        check(b"a\0b\x7f\rc", b"abc", 2);
        check(b"cut\x1b", b"cut", 0);
        check(b"cut\x1b[1;", b"cut", 0);
        check(b"\x1b]no end", b"no end", 0);
        check(b"\r", b"", 0);
    }
}
