//! A stream of bytes with an index of its lines. Both are written as the bytes arrive.
//!
//! `NAME.log` is the stream, byte for byte. `NAME.idx` is text, one line per line of the stream: `<byte offset of its
//! first byte> <ns since time zero>`. A line begins at the start and after each `\n`. Its stamp is that of the append
//! that brought its first byte. The log is written before its index. So a killed recorder leaves at most a few last
//! lines without a stamp, and no stamp without its line.
//!
//! A guest can print for ever, and a line that is only `\n` costs more index than log. So log and index together take
//! at most `max_bytes`. The start of the stream shows the boot and is kept. The last 64 KiB of the rest are kept in
//! memory. At the end they are written as `NAME.tail.log` and `NAME.tail.idx`, with offsets in the whole stream.
//! Everything between is counted in [`StreamEnd::dropped_bytes`]. Written bytes are never taken back. The tail comes on
//! top of `max_bytes`: 64 KiB, and at most a line of index for each of its bytes.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::Error;

/// The most bytes kept of the end of an overlong stream.
const MAX_TAIL_BYTES: usize = 64 << 10;

/// The part before the ending in the names of the tail's files.
pub(crate) const TAIL: &str = "tail";

/// A stream that is being recorded.
#[derive(Debug)]
pub struct Stream {
    log: Sink,
    idx: Sink,
    stem: PathBuf,
    max_bytes: u64,
    /// The bytes of the whole stream, with the dropped ones.
    total: u64,
    at_line_start: bool,
    overflow: Option<Tail>,
}

/// The totals of a finished stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamEnd {
    /// Bytes that arrived.
    pub total_bytes: u64,
    /// Bytes that were dropped because of the limit.
    pub dropped_bytes: u64,
}

#[derive(Debug)]
struct Sink {
    file: File,
    path: PathBuf,
    written: u64,
}

/// The last bytes of a stream that has exceeded its limit.
#[derive(Debug, Default)]
struct Tail {
    bytes: VecDeque<u8>,
    /// The line starts in `bytes`: offset in the whole stream, stamp.
    lines: VecDeque<(u64, i64)>,
}

impl Stream {
    /// Creates `NAME.log` and `NAME.idx`. `stem` is their common path without the ending.
    pub(crate) fn create(stem: PathBuf, max_bytes: u64) -> Result<Stream, Error> {
        Ok(Stream {
            log: Sink::create(with_ending(&stem, "log"))?,
            idx: Sink::create(with_ending(&stem, "idx"))?,
            stem,
            max_bytes,
            total: 0,
            at_line_start: true,
            overflow: None,
        })
    }

    /// Adds bytes that arrived at `now_ns`, in ns since time zero.
    ///
    /// # Errors
    /// If the files cannot be written, for example because the disk is full. Earlier bytes stay written.
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

    /// Bytes that have arrived so far.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.total
    }

    /// Writes the tail, if the stream exceeded its limit. Returns how many bytes arrived and how many were dropped.
    ///
    /// # Errors
    /// If the tail cannot be written.
    pub fn finish(self) -> Result<StreamEnd, Error> {
        let mut end = StreamEnd { total_bytes: self.total, dropped_bytes: self.total - self.log.written };
        if let Some(tail) = self.overflow {
            end.dropped_bytes -= tail.bytes.len() as u64;
            let (first, second) = tail.bytes.as_slices();
            let stem = with_ending(&self.stem, TAIL);
            let mut log = Sink::create(with_ending(&stem, "log"))?;
            log.write(first)?;
            log.write(second)?;
            let index: String = tail.lines.iter().map(|(offset, ns)| format!("{offset} {ns}\n")).collect();
            Sink::create(with_ending(&stem, "idx"))?.write(index.as_bytes())?;
        }
        Ok(end)
    }

    /// The bytes that still fit after `log` and `idx` more bytes.
    fn room(&self, log: usize, idx: usize) -> usize {
        let used = self.log.written + self.idx.written + (log + idx) as u64;
        usize::try_from(self.max_bytes.saturating_sub(used)).unwrap_or(usize::MAX)
    }
}

impl Sink {
    fn create(path: PathBuf) -> Result<Sink, Error> {
        let file = File::create_new(&path).map_err(Error::io("create", &path))?;
        Ok(Sink { file, path, written: 0 })
    }

    /// As `write_all`, but counts the bytes written before an error.
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
    /// Adds bytes that begin at `offset` of the whole stream, and drops the oldest beyond the limit.
    fn push(&mut self, bytes: &[u8], line_start: Option<(u64, i64)>, offset: u64) {
        let end = offset + bytes.len() as u64;
        self.lines.extend(line_start);
        self.bytes.extend(bytes);
        let excess = self.bytes.len().saturating_sub(MAX_TAIL_BYTES);
        self.bytes.drain(..excess);
        let first = end - self.bytes.len() as u64;
        while self.lines.front().is_some_and(|&(at, _)| at < first) {
            self.lines.pop_front();
        }
    }
}

fn with_ending(stem: &Path, ending: &str) -> PathBuf {
    let mut path = stem.as_os_str().to_owned();
    path.push(".");
    path.push(ending);
    path.into()
}
