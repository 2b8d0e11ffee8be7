//! Evidence transfer, the host's half: takes what a guest offers, out of its memory or from the port.
//!
//! A [`Delivery`] lasts for one boot. It puts the pieces of each file together in order, hands every piece to the
//! caller's [`Sink`] exactly once and only when its checksum is right, and keeps count of what was damaged or came
//! twice. Memory is bounded by one round ([`ROUND_BYTES_MAX`]), the total by the caller's limit. So is the work: a guest can
//! offer the same damaged round for ever, and each offer is 64 MiB to read ([`READS_FOR_EACH`]).
//!
//! For each `H` line: [`Delivery::take_round`], then write the answer (that of [`Error::answer`] if it failed) at the
//! header's address + [`ANSWER_OFFSET`](crate::round::ANSWER_OFFSET). For each chunk heard on the port:
//! [`Delivery::take_chunk`]; the port cannot be answered.

use crate::round::{Answer, Chunk, Header, HeaderError, PAGE_BYTES, ROUND_BYTES_MAX, decode_lists, sum};
use std::collections::BTreeMap;
use std::io;

/// Bytes that the host reads in all for each byte that may be transferred: damaged rounds are offered again a few times.
pub const READS_FOR_EACH: u64 = 4;

/// Where files go. Each file's bytes come in order, from its first to its last.
pub trait Sink {
    /// The next bytes of the file called `name`; with `last` it is whole.
    fn write(&mut self, name: &'static str, bytes: &[u8], last: bool) -> io::Result<()>;
}

impl<F: FnMut(&'static str, &[u8], bool) -> io::Result<()>> Sink for F {
    fn write(&mut self, name: &'static str, bytes: &[u8], last: bool) -> io::Result<()> {
        self(name, bytes, last)
    }
}

/// Why a round or a chunk was not taken, or not all of it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The memory named by the guest cannot be read.
    #[error("guest memory at {phys:#x} cannot be read: {source}")]
    Memory {
        /// Guest-physical address.
        phys: u64,
        /// What the reader said.
        source: io::Error,
    },
    /// The header of the round is not one.
    #[error("round: {0}")]
    Header(#[from] HeaderError),
    /// The bytes are not those that were sent.
    #[error("{name}: the {bytes} bytes at {offset} are damaged (checksum)")]
    Damaged {
        /// Which file.
        name: &'static str,
        /// Where in it.
        offset: u64,
        /// How many.
        bytes: usize,
    },
    /// A piece before this one never came.
    #[error("{name}: bytes {have} to {offset} are missing")]
    Gap {
        /// Which file.
        name: &'static str,
        /// How much of it there is.
        have: u64,
        /// Where the piece begins that came instead.
        offset: u64,
    },
    /// The guest sends more than the host is willing to keep.
    #[error("{name}: the guest sends more than {bytes_max} bytes in all")]
    TooMuch {
        /// Which file would go over it.
        name: &'static str,
        /// The limit.
        bytes_max: u64,
    },
    /// The guest has had more read than the host is willing to.
    #[error("{bytes_max} bytes of guest memory were read for evidence, and no more are")]
    TooOften {
        /// The limit.
        bytes_max: u64,
    },
    /// The caller's sink failed.
    #[error("{name} cannot be written: {source}")]
    Sink {
        /// Which file.
        name: &'static str,
        /// What the sink said.
        source: io::Error,
    },
}

impl Error {
    /// What to tell the guest: another try helps against damage only.
    pub fn answer(&self) -> Answer {
        match self {
            Error::Header(HeaderError::Damaged) | Error::Damaged { .. } => Answer::Retry,
            _ => Answer::GiveUp,
        }
    }
}

/// What a round brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Number of the round.
    pub round: u32,
    /// No other will follow.
    pub last: bool,
    /// Bytes in it.
    pub bytes: u64,
}

#[derive(Clone, Copy, Default)]
struct State {
    bytes: u64,
    whole: bool,
}

/// What has been transferred so far.
pub struct Delivery {
    files: BTreeMap<&'static str, State>,
    bytes: u64,
    bytes_max: u64,
    repeats: u64,
    /// Bytes of guest memory that were read, whatever they held.
    read: u64,
    /// Kept between rounds: the same pages come again and again.
    buffer: Vec<u8>,
}

impl Delivery {
    /// Takes `bytes_max` in all.
    pub fn new(bytes_max: u64) -> Delivery {
        Delivery { files: BTreeMap::new(), bytes: 0, bytes_max, repeats: 0, read: 0, buffer: Vec::new() }
    }

    /// Bytes handed to the sink.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Pieces that came again and were passed over.
    pub fn repeats(&self) -> u64 {
        self.repeats
    }

    /// True if no round is read any more, because the guest has had enough read.
    pub fn is_spent(&self) -> bool {
        self.read >= self.read_max()
    }

    fn read_max(&self) -> u64 {
        self.bytes_max.saturating_mul(READS_FOR_EACH).saturating_add(ROUND_BYTES_MAX as u64)
    }

    /// Files whose end has not come, with the bytes there are.
    pub fn unfinished(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.files.iter().filter(|(_, state)| !state.whole).map(|(name, state)| (*name, state.bytes))
    }

    /// Takes the round whose header lies at `header_phys`. `read_at` reads guest-physical memory and fails outside RAM.
    /// Nothing of a round goes to the sink unless all of it is undamaged.
    pub fn take_round(
        &mut self,
        header_phys: u64,
        read_at: &mut dyn FnMut(u64, &mut [u8]) -> io::Result<()>,
        sink: &mut dyn Sink,
    ) -> Result<Taken, Error> {
        if self.is_spent() {
            return Err(Error::TooOften { bytes_max: self.read_max() });
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
        let taken = read_frames(&frames, &mut buffer, &mut read).and_then(|()| self.take_data(&header, &buffer, sink));
        self.buffer = buffer;
        taken
    }

    fn take_data(&mut self, header: &Header, data: &[u8], sink: &mut dyn Sink) -> Result<Taken, Error> {
        pieces(header, data).try_for_each(|(chunk, bytes)| check(chunk, bytes))?;
        pieces(header, data).try_for_each(|(chunk, bytes)| self.keep(chunk, bytes, sink))?;
        Ok(Taken { round: header.round, last: header.last, bytes: data.len() as u64 })
    }

    /// Takes one piece that came whole by the port.
    pub fn take_chunk(&mut self, chunk: &Chunk, bytes: &[u8], sink: &mut dyn Sink) -> Result<(), Error> {
        check(chunk, bytes)?;
        self.keep(chunk, bytes, sink)
    }

    /// Gives an undamaged piece to the sink, if it is the next one of its file.
    fn keep(&mut self, chunk: &Chunk, bytes: &[u8], sink: &mut dyn Sink) -> Result<(), Error> {
        let (name, offset) = (chunk.name, chunk.offset);
        let state = self.files.entry(name).or_default();
        // A guest that did not see the answer in time offers the same pieces again, by the port.
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

/// Each chunk with its bytes. The header's checks make sure that `data` is as long as the chunks together.
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

/// Fills `data` from the frames; those that follow one another in memory are read at once.
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
