//! Parses the bytes received on port 0xe9: lines, and between them the files of a guest whose memory the host cannot
//! read.
//!
//! After a `P` line, exactly its number of bytes of the file follow, with any content, then a newline. So the recording
//! need not keep a file twice: [`PortEvent::Output`] has all other bytes, to be kept unchanged, and
//! [`PortEvent::Chunk`] has the file's bytes.
//!
//! A line longer than [`LINE_BYTES_MAX`], or a missing newline after a file's bytes, is counted as malformed. Lines
//! begin again after the next newline.

use crate::messages::{LINE_BYTES_MAX, Message};
use crate::round::Chunk;

/// An event in the port's bytes.
#[derive(Debug, PartialEq)]
pub enum PortEvent<'a> {
    /// Bytes of lines, with `P` lines and newlines, in pieces as they arrive.
    Output(&'a [u8]),
    /// A line has ended, with this message (a `P` line is reported only when its bytes are there).
    Message(Message),
    /// A line has ended that is not a message.
    Malformed(&'a str),
    /// A piece of a file is complete. Its checksum is not checked here.
    Chunk(Chunk, &'a [u8]),
}

/// Splits the port's bytes into events. Holds at most one line and one chunk.
#[derive(Default)]
pub struct PortReader {
    line: Vec<u8>,
    line_cut: bool,
    payload: Vec<u8>,
    awaited: Option<Chunk>,
}

impl PortReader {
    /// A reader that has received nothing yet.
    pub fn new() -> PortReader {
        PortReader::default()
    }

    /// Takes the bytes that just arrived, in pieces of any size, and reports their events.
    pub fn feed(&mut self, mut bytes: &[u8], on_event: &mut dyn FnMut(PortEvent<'_>)) {
        while !bytes.is_empty() {
            let used = match self.awaited {
                Some(chunk) => self.feed_chunk(chunk, bytes, on_event),
                None => self.feed_line(bytes, on_event),
            };
            bytes = &bytes[used..];
        }
    }

    /// An incomplete chunk, and the number of its bytes received: the part that is lost if the guest is gone.
    pub fn cut_off(&self) -> Option<(Chunk, usize)> {
        self.awaited.map(|chunk| (chunk, self.payload.len()))
    }

    /// Reads up to the end of the line or of `bytes`. Returns the number of bytes used.
    fn feed_line(&mut self, bytes: &[u8], on_event: &mut dyn FnMut(PortEvent<'_>)) -> usize {
        let end = bytes.iter().position(|&byte| byte == b'\n');
        let used = end.map_or(bytes.len(), |end| end + 1);
        let text = &bytes[..end.unwrap_or(used)];
        let room = LINE_BYTES_MAX - self.line.len();
        self.line.extend_from_slice(&text[..text.len().min(room)]);
        self.line_cut |= text.len() > room;
        on_event(PortEvent::Output(&bytes[..used]));
        if end.is_some() {
            self.end_line(on_event);
        }
        used
    }

    fn end_line(&mut self, on_event: &mut dyn FnMut(PortEvent<'_>)) {
        let line = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&line);
        match Message::parse(&text).filter(|_| !self.line_cut) {
            Some(Message::Chunk(chunk)) => self.awaited = Some(chunk),
            Some(message) => on_event(PortEvent::Message(message)),
            None => on_event(PortEvent::Malformed(&text)),
        }
        self.line_cut = false;
    }

    /// Reads up to the newline after the chunk's bytes, or to the end of `bytes`. Returns the number of bytes used.
    fn feed_chunk(&mut self, chunk: Chunk, bytes: &[u8], on_event: &mut dyn FnMut(PortEvent<'_>)) -> usize {
        let missing = chunk.bytes as usize - self.payload.len();
        if missing > 0 {
            let used = missing.min(bytes.len());
            self.payload.extend_from_slice(&bytes[..used]);
            return used;
        }
        self.awaited = None;
        on_event(PortEvent::Chunk(chunk, &std::mem::take(&mut self.payload)));
        // If another byte replaces the newline, it begins a malformed line. It is then output, and is reported as
        // malformed.
        usize::from(bytes[0] == b'\n')
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reads everything, in a form that does not depend on how the bytes are split; the output is separate.
    fn read_all(pieces: &[&[u8]]) -> (Vec<u8>, Vec<String>, PortReader) {
        let (mut output, mut rest, mut reader) = (Vec::new(), Vec::new(), PortReader::new());
        for piece in pieces {
            reader.feed(piece, &mut |event| match event {
                PortEvent::Output(bytes) => output.extend_from_slice(bytes),
                PortEvent::Message(message) => rest.push(message.to_string()),
                PortEvent::Malformed(text) => rest.push(format!("malformed {text}")),
                PortEvent::Chunk(chunk, bytes) => rest.push(format!("{} {bytes:?}", Message::Chunk(chunk))),
            });
        }
        (output, rest, reader)
    }

    const SAMPLE: &[u8] = b"I 17\nP kmsg.log 0 4 00000001 more\nI 1\n\nP trace.txt 0 0 00000000 last\n\nE poweroff\n";

    #[test]
    fn files_are_separated_from_lines() {
        let (output, rest, reader) = read_all(&[SAMPLE]);
        assert_eq!(
            rest,
            ["I 17", "P kmsg.log 0 4 00000001 more [73, 32, 49, 10]", "P trace.txt 0 0 00000000 last []", "E poweroff"]
        );
        let lines = "I 17\nP kmsg.log 0 4 00000001 more\nP trace.txt 0 0 00000000 last\nE poweroff\n";
        assert_eq!(String::from_utf8(output).as_deref(), Ok(lines));
        assert_eq!(reader.cut_off(), None);
    }

    #[test]
    fn the_first_byte_of_a_line_is_passed_on_at_once() {
        let mut events = Vec::new();
        PortReader::new().feed(b"I", &mut |event| events.push(format!("{event:?}")));
        assert_eq!(events, ["Output([73])"]);
    }

    #[test]
    fn malformed_lines_are_counted_and_skipped() {
        let long = [&b"T "[..], &[b'1'; 5000], b"\nT 5\n"].concat();
        let (output, rest, _) = read_all(&[&long]);
        assert_eq!(output, long);
        assert!(rest[0].starts_with("malformed T 111") && rest[0].len() == 10 + LINE_BYTES_MAX);
        assert_eq!(rest[1], "T 5");
        let (_, rest, _) = read_all(&[b"P kmsg.log 0 1 00000000 last\nab\nT 5\n\xff\n"]);
        assert_eq!(rest, ["P kmsg.log 0 1 00000000 last [97]", "malformed b", "T 5", "malformed \u{fffd}"]);
    }

    #[test]
    fn a_guest_that_is_gone_leaves_an_incomplete_chunk() {
        let (_, rest, reader) = read_all(&[b"P kmsg.log 0 10 00000000 last\nabc"]);
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
            let (output, rest, _) = read_all(&pieces);
            let (output_at_once, rest_at_once, _) = read_all(&[SAMPLE]);
            prop_assert_eq!((output, rest), (output_at_once, rest_at_once));
        }

        #[test]
        fn any_bytes_are_taken_without_panic(noise in proptest::collection::vec(any::<u8>(), 0..200), cut in 0usize..200) {
            let all = [SAMPLE, &noise, b"\n", SAMPLE].concat();
            let cut = cut.min(all.len());
            read_all(&[&all[..cut], &all[cut..]]);
        }
    }
}
