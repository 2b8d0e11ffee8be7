//! Evidence transfer, the host's half: takes a guest's files from its memory or from the port.
//!
//! A [`Delivery`] lasts for one boot. It puts the pieces of each file together in order. It passes every piece to the
//! caller's [`Sink`] exactly once, and only if its checksum is right. It also counts damaged and repeated pieces. One
//! round bounds the memory ([`ROUND_BYTES_MAX`]), and the caller's limit bounds the total. The work is bounded too: a
//! guest can offer the same damaged round forever, and each offer is 64 MiB to read ([`READS_FOR_EACH`]).
//!
//! For each `H` line, call [`Delivery::take_round`], then write the answer (that of [`Error::answer`] on failure) at
//! the header's address + [`ANSWER_OFFSET`](crate::round::ANSWER_OFFSET). For each chunk received on the port, call
//! [`Delivery::take_chunk`]; the port cannot be answered.

use crate::round::{Answer, Chunk, Header, HeaderError, PAGE_BYTES, ROUND_BYTES_MAX, decode_lists, sum};
use std::collections::BTreeMap;
use std::io;

/// The number of bytes that the host reads in all for each byte that may be transferred: damaged rounds are offered
/// again a few times.
pub const READS_FOR_EACH: u64 = 4;

/// The destination of files. Each file's bytes come in order, from its first to its last.
pub trait Sink {
    /// Writes the next bytes of the file `name`; with `last`, the file is complete.
    fn write(&mut self, name: &'static str, bytes: &[u8], last: bool) -> io::Result<()>;
}

impl<F: FnMut(&'static str, &[u8], bool) -> io::Result<()>> Sink for F {
    fn write(&mut self, name: &'static str, bytes: &[u8], last: bool) -> io::Result<()> {
        self(name, bytes, last)
    }
}

/// The reason why a round or a chunk was refused, or only partly taken.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The memory at the guest's address cannot be read.
    #[error("guest memory at {phys:#x} cannot be read: {source}")]
    Memory {
        /// The guest-physical address.
        phys: u64,
        /// The reader's error.
        source: io::Error,
    },
    /// The header of the round is malformed.
    #[error("round: {0}")]
    Header(#[from] HeaderError),
    /// The bytes differ from those that were sent.
    #[error("{name}: the {bytes} bytes at {offset} are damaged (checksum)")]
    Damaged {
        /// The file.
        name: &'static str,
        /// The offset in the file.
        offset: u64,
        /// The number of bytes.
        bytes: usize,
    },
    /// A piece before this one is missing.
    #[error("{name}: bytes {have} to {offset} are missing")]
    Gap {
        /// The file.
        name: &'static str,
        /// The number of bytes received.
        have: u64,
        /// The offset of the piece that came instead.
        offset: u64,
    },
    /// The guest sends more than the host's limit.
    #[error("{name}: the guest sends more than {bytes_max} bytes in all")]
    TooMuch {
        /// The file that would exceed it.
        name: &'static str,
        /// The limit.
        bytes_max: u64,
    },
    /// The guest has caused more reads than the host's limit.
    #[error("{bytes_max} bytes of guest memory were read for evidence, and no more are")]
    TooOften {
        /// The limit.
        bytes_max: u64,
    },
    /// The caller's sink failed.
    #[error("{name} cannot be written: {source}")]
    Sink {
        /// The file.
        name: &'static str,
        /// The sink's error.
        source: io::Error,
    },
}

impl Error {
    /// The answer for the guest: another attempt helps only against damage.
    pub fn answer(&self) -> Answer {
        match self {
            Error::Header(HeaderError::Damaged) | Error::Damaged { .. } => Answer::Retry,
            _ => Answer::GiveUp,
        }
    }
}

/// The result of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    pub round: u32,
    /// True if no other round follows.
    pub last: bool,
    pub bytes: u64,
}

#[derive(Clone, Copy, Default)]
struct State {
    bytes: u64,
    whole: bool,
}

/// The state of all transfers.
pub struct Delivery {
    files: BTreeMap<&'static str, State>,
    bytes: u64,
    bytes_max: u64,
    repeats: u64,
    /// The number of bytes of guest memory that were read, with any content.
    read: u64,
    /// Kept between rounds, because the guest uses the same pages again and again.
    buffer: Vec<u8>,
}

impl Delivery {
    /// Accepts at most `bytes_max` bytes in all.
    pub fn new(bytes_max: u64) -> Delivery {
        Delivery { files: BTreeMap::new(), bytes: 0, bytes_max, repeats: 0, read: 0, buffer: Vec::new() }
    }

    /// The number of bytes passed to the sink.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The number of pieces that came again and were skipped.
    pub fn repeats(&self) -> u64 {
        self.repeats
    }

    /// True if no further round is read, because the guest has reached the limit of reads.
    pub fn is_spent(&self) -> bool {
        self.read >= self.max_read()
    }

    fn max_read(&self) -> u64 {
        self.bytes_max.saturating_mul(READS_FOR_EACH).saturating_add(ROUND_BYTES_MAX as u64)
    }

    /// Files without an end, with the number of bytes received.
    pub fn unfinished(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.files.iter().filter(|(_, state)| !state.whole).map(|(name, state)| (*name, state.bytes))
    }

    /// Takes the round whose header is at `header_phys`. `read_at` reads guest-physical memory, and fails outside RAM.
    /// The sink receives a round only if all of it is undamaged.
    pub fn take_round(
        &mut self,
        header_phys: u64,
        read_at: &mut dyn FnMut(u64, &mut [u8]) -> io::Result<()>,
        sink: &mut dyn Sink,
    ) -> Result<Taken, Error> {
        if self.is_spent() {
            return Err(Error::TooOften { bytes_max: self.max_read() });
        }
        let read_bytes = &mut self.read;
        let mut read = |phys, buffer: &mut [u8]| {
            *read_bytes = read_bytes.saturating_add(buffer.len() as u64);
            read_at(phys, buffer).map_err(|source| Error::Memory { phys, source })
        };
        let mut page = [0; PAGE_BYTES];
        read(header_phys, &mut page)?;
        let header = Header::decode(&page)?;
        let mut lists = vec![0; header.lists.len() * PAGE_BYTES];
        for (list, &phys) in lists.chunks_exact_mut(PAGE_BYTES).zip(&header.lists) {
            read(phys, list)?;
        }
        let frames = decode_lists(&header, &lists)?;

        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(header.data_bytes() as usize, 0);
        let result = read_frames(&frames, &mut buffer, &mut read).and_then(|()| self.take_data(&header, &buffer, sink));
        self.buffer = buffer;
        result
    }

    fn take_data(&mut self, header: &Header, data: &[u8], sink: &mut dyn Sink) -> Result<Taken, Error> {
        pieces(header, data).try_for_each(|(chunk, bytes)| check(chunk, bytes))?;
        pieces(header, data).try_for_each(|(chunk, bytes)| self.keep(chunk, bytes, sink))?;
        Ok(Taken { round: header.round, last: header.last, bytes: data.len() as u64 })
    }

    /// Takes one whole piece from the port.
    pub fn take_chunk(&mut self, chunk: &Chunk, bytes: &[u8], sink: &mut dyn Sink) -> Result<(), Error> {
        check(chunk, bytes)?;
        self.keep(chunk, bytes, sink)
    }

    /// Passes an undamaged piece to the sink, if it is the next one of its file.
    fn keep(&mut self, chunk: &Chunk, bytes: &[u8], sink: &mut dyn Sink) -> Result<(), Error> {
        let (name, offset) = (chunk.name, chunk.offset);
        let state = self.files.entry(name).or_default();
        // A guest that did not see the answer in time sends the same pieces again, by the port.
        if state.whole || offset < state.bytes {
            self.repeats += 1;
            return Ok(());
        }
        if offset > state.bytes {
            return Err(Error::Gap { name, have: state.bytes, offset });
        }
        let total = self.bytes.saturating_add(bytes.len() as u64);
        if total > self.bytes_max {
            return Err(Error::TooMuch { name, bytes_max: self.bytes_max });
        }
        sink.write(name, bytes, chunk.last).map_err(|source| Error::Sink { name, source })?;
        self.bytes = total;
        state.bytes += bytes.len() as u64;
        state.whole = chunk.last;
        Ok(())
    }
}

/// Each chunk with its bytes. The header's checks ensure that `data` is as long as the chunks together.
fn pieces<'a>(header: &'a Header, mut data: &'a [u8]) -> impl Iterator<Item = (&'a Chunk, &'a [u8])> {
    header.chunks.iter().map(move |chunk| {
        let (bytes, rest) = data.split_at(chunk.bytes as usize);
        data = rest;
        (chunk, bytes)
    })
}

fn check(chunk: &Chunk, bytes: &[u8]) -> Result<(), Error> {
    let right = bytes.len() == chunk.bytes as usize && sum(bytes) == chunk.sum;
    right.then_some(()).ok_or(Error::Damaged { name: chunk.name, offset: chunk.offset, bytes: bytes.len() })
}

/// Fills `data` from the frames; adjacent frames are read at once.
fn read_frames(
    frames: &[u64],
    mut data: &mut [u8],
    mut read: impl FnMut(u64, &mut [u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    for run in frames.chunk_by(|a, b| a.checked_add(PAGE_BYTES as u64) == Some(*b)) {
        let (now, later) = data.split_at_mut((run.len() * PAGE_BYTES).min(data.len()));
        if !now.is_empty() {
            read(run[0], now)?;
        }
        data = later;
    }
    Ok(())
}
