//! Evidence transfer: takes the evidence that guest-init gathered, from guest memory or through the port, and writes it into the recording.
//!
//! A file is `NAME.partial` until its last piece has arrived undamaged, so a truncated file can be recognised. The kernel's symbol table is
//! the only file that is large and compresses well; it is kept as `kallsyms.gz`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use guest_init::delivery::{self, Delivery, Taken};
use guest_init::round::{ANSWER_OFFSET, Answer, Chunk};
use recording::{Partial, Writer};

use crate::Error;
use crate::memory::{GuestRam, PhysicalMemory};

/// Upper bound for all evidence of a guest.
const MAX_BYTES: u64 = 1 << 30;

/// State of the transfer so far.
pub(crate) struct EvidenceTransfer {
    delivery: Delivery,
    open: BTreeMap<&'static str, Out>,
    /// Names of files that are complete.
    whole: Vec<&'static str>,
    /// The number of pieces that could not be taken.
    refused: u64,
    first_refusal: Option<String>,
    by_port: bool,
}

enum Out {
    Plain(Partial),
    /// The encoder's output stays in memory only until it is appended to the file.
    Gzip(GzEncoder<Vec<u8>>, Partial),
}

impl EvidenceTransfer {
    pub(crate) fn new() -> EvidenceTransfer {
        EvidenceTransfer {
            delivery: Delivery::new(MAX_BYTES),
            open: BTreeMap::new(),
            whole: Vec::new(),
            refused: 0,
            first_refusal: None,
            by_port: false,
        }
    }

    /// Takes a round that lies ready in memory, and answers the guest.
    pub(crate) fn take_round(&mut self, phys: u64, ram: &GuestRam, writer: &mut Writer) -> Result<(), Error> {
        let mut keeper = Keeper { open: &mut self.open, whole: &mut self.whole, writer, failed: None };
        let mut read_at = |phys, buffer: &mut [u8]| ram.read_at(phys, buffer);
        let taken = self.delivery.take_round(phys, &mut read_at, &mut keeper);
        let failed = keeper.failed.take();
        let answer = match &taken {
            Ok(Taken { .. }) => Answer::Taken,
            Err(error) => error.answer(),
        };
        if let Err(error) = taken {
            self.refuse(&error);
        }
        if let Err(error) = ram.write_u32(phys.saturating_add(ANSWER_OFFSET), answer as u32) {
            self.note(format!("the guest could not be answered: {error}"));
        }
        failed.map_or(Ok(()), Err)
    }

    /// Takes a piece that came through the port.
    pub(crate) fn take_chunk(&mut self, chunk: &Chunk, bytes: &[u8], writer: &mut Writer) -> Result<(), Error> {
        self.by_port = true;
        let mut keeper = Keeper { open: &mut self.open, whole: &mut self.whole, writer, failed: None };
        let taken = self.delivery.take_chunk(chunk, bytes, &mut keeper);
        let failed = keeper.failed.take();
        if let Err(error) = taken {
            self.refuse(&error);
        }
        failed.map_or(Ok(()), Err)
    }

    /// Counts a round that is not read, because others wait already.
    pub(crate) fn pass_over(&mut self) {
        self.note("the guest offers them faster than they can be read".to_owned());
    }

    /// True if no more rounds are read: the guest has had more read than any guest needs.
    pub(crate) fn is_spent(&self) -> bool {
        self.delivery.is_spent()
    }

    /// True if this file was transferred completely.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.whole.contains(&name)
    }

    /// The number of bytes that have arrived.
    pub(crate) fn bytes(&self) -> u64 {
        self.delivery.bytes()
    }

    /// Remarks about the transfer for a reader of the recording, in sentences.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.by_port {
            notes.push("process 1 sent its evidence through a port, which is slower than through memory; the boot itself is the same".to_owned());
        }
        if let Some(first) = &self.first_refusal {
            notes.push(format!("{} pieces of evidence were not taken, the first because {first}", self.refused));
        }
        let unfinished: Vec<&str> = self.delivery.unfinished().map(|(name, _)| name).collect();
        if !unfinished.is_empty() {
            notes.push(format!("evidence that came only in part: {}", unfinished.join(", ")));
        }
        notes
    }

    fn refuse(&mut self, error: &delivery::Error) {
        self.note(error.to_string());
    }

    fn note(&mut self, why: String) {
        self.refused = self.refused.saturating_add(1);
        self.first_refusal.get_or_insert(why);
    }
}

/// Writes pieces into files. The delivery handles only `io::Error`; the original error is kept here.
struct Keeper<'a> {
    open: &'a mut BTreeMap<&'static str, Out>,
    whole: &'a mut Vec<&'static str>,
    writer: &'a mut Writer,
    failed: Option<Error>,
}

impl delivery::Sink for Keeper<'_> {
    fn write(&mut self, name: &'static str, bytes: &[u8], last: bool) -> io::Result<()> {
        self.keep(name, bytes, last).map_err(|error| {
            let text = error.to_string();
            self.failed = Some(error);
            io::Error::other(text)
        })
    }
}

impl Keeper<'_> {
    fn keep(&mut self, name: &'static str, bytes: &[u8], last: bool) -> Result<(), Error> {
        let mut out = match self.open.remove(name) {
            Some(out) => out,
            None => Out::create(name, self.writer)?,
        };
        out.append(bytes)?;
        if last {
            out.commit()?;
            self.whole.push(name);
        } else {
            self.open.insert(name, out);
        }
        Ok(())
    }
}

impl Out {
    fn create(name: &str, writer: &mut Writer) -> Result<Out, Error> {
        const ORIGIN: &str = "guest-init";
        Ok(match name {
            "kallsyms" => {
                let partial = writer.partial("kallsyms.gz", "guest-init, compressed")?;
                Out::Gzip(GzEncoder::new(Vec::new(), Compression::fast()), partial)
            }
            _ => Out::Plain(writer.partial(name, ORIGIN)?),
        })
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        match self {
            Out::Plain(partial) => partial.append(bytes)?,
            Out::Gzip(gzip, partial) => {
                gzip.write_all(bytes).map_err(compressed)?;
                partial.append(gzip.get_ref())?;
                gzip.get_mut().clear();
            }
        }
        Ok(())
    }

    fn commit(self) -> Result<(), Error> {
        match self {
            Out::Plain(partial) => Ok(partial.commit()?),
            Out::Gzip(gzip, mut partial) => {
                partial.append(&gzip.finish().map_err(compressed)?)?;
                Ok(partial.commit()?)
            }
        }
    }
}

fn compressed(why: io::Error) -> Error {
    Error::Host { doing: "compress kallsyms", why }
}
