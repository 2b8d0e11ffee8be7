//! Parses what arrives on port 0xe9: lines, and between them the files of a guest whose memory the host cannot read.
//!
//! After a `P` line come exactly as many bytes of the file as it says, whatever they are, then a newline. So the
//! recording need not keep a file twice: everything that is *not* such bytes is handed on as [`PortEvent::Output`], to be kept
//! byte for byte, and the file's own bytes only as [`PortEvent::Chunk`].
//!
//! A line longer than [`LINE_BYTES_MAX`], or a newline that is missing after a file's bytes, is counted as malformed; the
//! next newline is where lines begin again.

use crate::messages::{LINE_BYTES_MAX, Message};
use crate::round::Chunk;

/// What a piece of the port's bytes held.
#[derive(Debug, PartialEq)]
pub enum PortEvent<'a> {
    /// Bytes of lines, `P` lines and newlines included, in pieces as they arrive.
    Output(&'a [u8]),
    /// A line has ended and is this message (a `P` line is not reported before its bytes are there).
    Message(Message),
    /// A line has ended that is no message.
    Malformed(&'a str),
    /// A piece of a file is there. Its checksum is not looked at here.
    Chunk(Chunk, &'a [u8]),
}

/// Takes the port's bytes apart. Holds at most one line and one chunk.
#[derive(Default)]
pub struct PortReader {
    line: Vec<u8>,
    line_cut: bool,
    payload: Vec<u8>,
    awaited: Option<Chunk>,
}

impl PortReader {
    /// A port on which nothing was heard yet.
    pub fn new() -> PortReader {
        PortReader::default()
    }

    /// Takes what just arrived, in whatever pieces, and tells what it is.
    pub fn feed(&mut self, mut bytes: &[u8], heard: &mut dyn FnMut(PortEvent<'_>)) {
        while !bytes.is_empty() {
            let used = match self.awaited {
                Some(chunk) => self.feed_chunk(chunk, bytes, heard),
                None => self.feed_line(bytes, heard),
            };
            bytes = &bytes[used..];
        }
    }

    /// A chunk that began and whose bytes have not all come, and how many have: what is lost if the guest is gone.
    pub fn cut_off(&self) -> Option<(Chunk, usize)> {
        self.awaited.map(|chunk| (chunk, self.payload.len()))
    }

    /// Up to the end of the line or of `bytes`; how many were used.
    fn feed_line(&mut self, bytes: &[u8], heard: &mut dyn FnMut(PortEvent<'_>)) -> usize {
        let end = bytes.iter().position(|&byte| byte == b'\n');
        let used = end.map_or(bytes.len(), |end| end + 1);
        let text = &bytes[..end.unwrap_or(used)];
        let room = LINE_BYTES_MAX - self.line.len();
        self.line.extend_from_slice(&text[..text.len().min(room)]);
        self.line_cut |= text.len() > room;
        heard(PortEvent::Output(&bytes[..used]));
        if end.is_some() {
            self.end_line(heard);
        }
        used
    }

    fn end_line(&mut self, heard: &mut dyn FnMut(PortEvent<'_>)) {
        let line = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&line);
        match Message::parse(&text).filter(|_| !self.line_cut) {
            Some(Message::Chunk(chunk)) => self.awaited = Some(chunk),
            Some(word) => heard(PortEvent::Message(word)),
            None => heard(PortEvent::Malformed(&text)),
        }
        self.line_cut = false;
    }

    /// Up to the newline behind the chunk's bytes, or the end of `bytes`; how many were used.
    fn feed_chunk(&mut self, chunk: Chunk, bytes: &[u8], heard: &mut dyn FnMut(PortEvent<'_>)) -> usize {
        let missing = chunk.bytes as usize - self.payload.len();
        if missing > 0 {
            let used = missing.min(bytes.len());
            self.payload.extend_from_slice(&bytes[..used]);
            return used;
        }
        self.awaited = None;
        heard(PortEvent::Chunk(chunk, &std::mem::take(&mut self.payload)));
        // What stands in the place of the newline begins a malformed line: it is output, and reported as malformed.
        usize::from(bytes[0] == b'\n')
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Everything heard, in a form that does not depend on how the bytes were cut; what was said apart.
    fn hear(pieces: &[&[u8]]) -> (Vec<u8>, Vec<String>, PortReader) {
        let (mut said, mut rest, mut reader) = (Vec::new(), Vec::new(), PortReader::new());
        for piece in pieces {
            reader.feed(piece, &mut |heard| match heard {
                PortEvent::Output(bytes) => said.extend_from_slice(bytes),
                PortEvent::Message(word) => rest.push(word.to_string()),
                PortEvent::Malformed(text) => rest.push(format!("malformed {text}")),
                PortEvent::Chunk(chunk, bytes) => rest.push(format!("{} {bytes:?}", Message::Chunk(chunk))),
            });
        }
        (said, rest, reader)
    }

    const SAMPLE: &[u8] = b"I 17\nP kmsg.log 0 4 00000001 more\nI 1\n\nP trace.txt 0 0 00000000 last\n\nE poweroff\n";

    #[test]
    fn files_are_told_from_lines() {
        let (said, rest, reader) = hear(&[SAMPLE]);
        assert_eq!(
            rest,
            ["I 17", "P kmsg.log 0 4 00000001 more [73, 32, 49, 10]", "P trace.txt 0 0 00000000 last []", "E poweroff"]
        );
        let lines = "I 17\nP kmsg.log 0 4 00000001 more\nP trace.txt 0 0 00000000 last\nE poweroff\n";
        assert_eq!(String::from_utf8(said).as_deref(), Ok(lines));
        assert_eq!(reader.cut_off(), None);
    }

    #[test]
    fn the_first_byte_of_a_line_is_passed_on_at_once() {
        let mut heard = Vec::new();
        PortReader::new().feed(b"I", &mut |what| heard.push(format!("{what:?}")));
        assert_eq!(heard, ["Output([73])"]);
    }

    #[test]
    fn malformed_lines_are_counted_and_skipped() {
        let long = [&b"T "[..], &[b'1'; 5000], b"\nT 5\n"].concat();
        let (said, rest, _) = hear(&[&long]);
        assert_eq!(said, long);
        assert!(rest[0].starts_with("malformed T 111") && rest[0].len() == 10 + LINE_BYTES_MAX);
        assert_eq!(rest[1], "T 5");
        let (_, rest, _) = hear(&[b"P kmsg.log 0 1 00000000 last\nab\nT 5\n\xff\n"]);
        assert_eq!(rest, ["P kmsg.log 0 1 00000000 last [97]", "malformed b", "T 5", "malformed \u{fffd}"]);
    }

    #[test]
    fn a_guest_that_is_gone_leaves_a_chunk_that_says_so() {
        let (_, rest, reader) = hear(&[b"P kmsg.log 0 10 00000000 last\nabc"]);
        assert!(rest.is_empty());
        assert_eq!(reader.cut_off().map(|(chunk, have)| (chunk.name, have)), Some(("kmsg.log", 3)));
    }

    proptest! {
        #[test]
        fn it_does_not_matter_how_the_bytes_arrive(cuts in proptest::collection::vec(0usize..SAMPLE.len(), 0..8)) {
            let mut cuts = cuts;
            cuts.extend([0, SAMPLE.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|w| &SAMPLE[w[0]..w[1]]).collect();
            let (said, rest, _) = hear(&pieces);
            let (said_at_once, rest_at_once, _) = hear(&[SAMPLE]);
            prop_assert_eq!((said, rest), (said_at_once, rest_at_once));
        }

        #[test]
        fn any_bytes_are_taken_without_panic(noise in proptest::collection::vec(any::<u8>(), 0..200), cut in 0usize..200) {
            let all = [SAMPLE, &noise, b"\n", SAMPLE].concat();
            let cut = cut.min(all.len());
            hear(&[&all[..cut], &all[cut..]]);
        }
    }
}
