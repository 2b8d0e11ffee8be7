//! A stream of bytes with an index of its lines, both written as the bytes come.
//!
//! `NAME.log` is the stream, byte for byte. `NAME.idx` is text, one line per line of the stream:
//! `<byte offset of its first byte> <ns since time zero>`. A line begins at the start and after each
//! `\n`; its stamp is that of the append that brought its first byte. The log is written before its
//! index, so a killed recorder leaves at most a few last lines without a stamp, never the reverse.
//!
//! Bounded: a guest can print for ever (and a line that is only `\n` costs more index than log), so
//! log and index together take at most `bytes_max`. The start of the stream is what a boot is about,
//! and is kept; of the rest the last 64 KiB are kept in memory and written at the end as
//! `NAME.tail.log` and `NAME.tail.idx`, with offsets in the whole stream, and everything between is
//! counted in [`StreamEnd::dropped_bytes`]. Never the reverse: nothing written is taken back. The tail
//! comes on top of `bytes_max`: 64 KiB, and at most a line of index for each byte of it.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::Error;

/// How much of the end of an overlong stream is kept.
const TAIL_BYTES_MAX: usize = 64 << 10;

/// What the names of the files with that end have before their ending.
pub(crate) const TAIL: &str = "tail";

/// A stream that is being recorded.
#[derive(Debug)]
pub struct Stream {
    log: Sink,
    idx: Sink,
    head: PathBuf,
    bytes_max: u64,
    /// Bytes of the whole stream, dropped ones too.
    total: u64,
    at_line_start: bool,
    overflow: Option<Tail>,
}

/// What became of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamEnd {
    /// Bytes that came.
    pub total_bytes: u64,
    /// Bytes that were not kept, because there were too many.
    pub dropped_bytes: u64,
}

#[derive(Debug)]
struct Sink {
    file: File,
    path: PathBuf,
    written: u64,
}

/// The last bytes of a stream that has outgrown its files.
#[derive(Debug, Default)]
struct Tail {
    bytes: VecDeque<u8>,
    /// Line starts among `bytes`: offset in the whole stream, stamp.
    lines: VecDeque<(u64, i64)>,
}

impl Stream {
    /// Begins `NAME.log` and `NAME.idx` beside each other; `head` is the common path without ending.
    pub(crate) fn create(head: PathBuf, bytes_max: u64) -> Result<Stream, Error> {
        Ok(Stream {
            log: Sink::create(with_ending(&head, "log"))?,
            idx: Sink::create(with_ending(&head, "idx"))?,
            head,
            bytes_max,
            total: 0,
            at_line_start: true,
            overflow: None,
        })
    }

    /// Adds bytes that arrived at `now_ns`, in ns since time zero.
    ///
    /// # Errors
    /// If the files cannot be written, a full disk above all. What was written before stays.
    pub fn append(&mut self, bytes: &[u8], now_ns: i64) -> Result<(), Error> {
        let mut index = Vec::new();
        let mut kept = 0;
        for line in bytes.split_inclusive(|&b| b == b'\n') {
            let is_indexed = self.at_line_start && self.overflow.is_none();
            let entry = if is_indexed { format!("{} {now_ns}\n", self.total) } else { String::new() };
            let room = self.room(kept, index.len());
            let keep = room.saturating_sub(entry.len()).min(line.len());
            if self.overflow.is_none() && keep > 0 {
                index.extend_from_slice(entry.as_bytes());
                kept += keep;
            }
            if self.overflow.is_some() || keep < line.len() {
                let from = if self.overflow.is_some() { 0 } else { keep };
                let starts_here = from == 0 && self.at_line_start;
                let tail = self.overflow.get_or_insert_with(Tail::default);
                let stamp = starts_here.then_some((self.total, now_ns));
                tail.push(&line[from..], stamp, self.total + from as u64);
            }
            self.total += line.len() as u64;
            self.at_line_start = line.ends_with(b"\n");
        }
        self.log.write(&bytes[..kept])?;
        self.idx.write(&index)
    }

    /// Bytes that came so far.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.total
    }

    /// Writes the tail, if the stream outgrew its files, and says what was lost.
    ///
    /// # Errors
    /// If the tail cannot be written.
    pub fn finish(self) -> Result<StreamEnd, Error> {
        let mut end = StreamEnd { total_bytes: self.total, dropped_bytes: self.total - self.log.written };
        if let Some(tail) = self.overflow {
            end.dropped_bytes -= tail.bytes.len() as u64;
            let (first, second) = tail.bytes.as_slices();
            let head = with_ending(&self.head, TAIL);
            let mut log = Sink::create(with_ending(&head, "log"))?;
            log.write(first)?;
            log.write(second)?;
            let index: String = tail.lines.iter().map(|(offset, ns)| format!("{offset} {ns}\n")).collect();
            Sink::create(with_ending(&head, "idx"))?.write(index.as_bytes())?;
        }
        Ok(end)
    }

    /// Bytes that still fit, with `log` and `idx` bytes about to be written.
    fn room(&self, log: usize, idx: usize) -> usize {
        let used = self.log.written + self.idx.written + (log + idx) as u64;
        usize::try_from(self.bytes_max.saturating_sub(used)).unwrap_or(usize::MAX)
    }
}

impl Sink {
    fn create(path: PathBuf) -> Result<Sink, Error> {
        let file = File::create_new(&path).map_err(Error::io("create", &path))?;
        Ok(Sink { file, path, written: 0 })
    }

    /// Like `write_all`, but knows how much was written when it fails.
    fn write(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        while !bytes.is_empty() {
            match self.file.write(bytes) {
                Ok(0) => return Err(Error::io("write", &self.path)(io::ErrorKind::WriteZero.into())),
                Ok(n) => {
                    self.written += n as u64;
                    bytes = &bytes[n..];
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::io("write", &self.path)(e)),
            }
        }
        Ok(())
    }
}

impl Tail {
    /// Adds bytes that begin at `offset` of the whole stream, dropping the oldest beyond the limit.
    fn push(&mut self, bytes: &[u8], line_start: Option<(u64, i64)>, offset: u64) {
        let end = offset + bytes.len() as u64;
        self.lines.extend(line_start);
        self.bytes.extend(bytes);
        let excess = self.bytes.len().saturating_sub(TAIL_BYTES_MAX);
        self.bytes.drain(..excess);
        let first = end - self.bytes.len() as u64;
        while self.lines.front().is_some_and(|&(at, _)| at < first) {
            self.lines.pop_front();
        }
    }
}

fn with_ending(head: &Path, ending: &str) -> PathBuf {
    let mut path = head.as_os_str().to_owned();
    path.push(".");
    path.push(ending);
    path.into()
}
