//! Evidence transfer, the guest's half: fills rounds with files and offers each to the host, through memory while that
//! works, otherwise by the port.
//!
//! No round is ever dropped. If the host does not answer in time, or cannot read the memory, the guest sends the same
//! round by the port. It then sends all later rounds by the port, too. The host skips data that it already has.

use crate::arch::Port;
use crate::memory::Area;
use guest_init::config::{Carry, Config};
use guest_init::messages::Message;
use guest_init::round::{Answer, CHUNKS_MAX, Chunk, Header, PAGE_BYTES, ROUND_BYTES_MAX, encode_lists, sum};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The smallest room for a read: one record of the kernel log takes up to 8 KiB and is never split.
const MIN_ROOM: usize = 8192;
/// The buffer's size if the host does not read it from memory.
const PORT_BUFFER_BYTES: usize = 256 << 10;
/// The number of times that a damaged round is offered again.
const MAX_RETRIES: u32 = 3;

/// The round that is being filled, and the way to send it.
pub struct Carrier<'a> {
    port: Port,
    config: &'a Config,
    /// The procfs that shows the physical addresses of pages; `None`: by the port.
    memory: Option<PathBuf>,
    area: Area,
    /// The size of the list pages at the start of the area; data follows.
    lists_bytes: usize,
    filled: usize,
    chunks: Vec<Chunk>,
    round: u32,
}

impl<'a> Carrier<'a> {
    /// Allocates memory: the host's requested size, but at most a quarter of the available memory.
    pub fn new(port: Port, config: &'a Config, procfs: Option<&Path>, available_bytes: Option<u64>) -> Carrier<'a> {
        let memory = procfs.filter(|_| config.carry == Carry::Auto).map(Path::to_path_buf);
        let wanted = if memory.is_some() { config.buffer_bytes } else { PORT_BUFFER_BYTES };
        let quarter = available_bytes.map_or(usize::MAX, |bytes| (bytes / 4) as usize);
        let data_bytes = wanted.min(quarter).clamp(4 * MIN_ROOM, ROUND_BYTES_MAX).next_multiple_of(PAGE_BYTES);
        let lists_bytes = Header::lists_for(data_bytes / PAGE_BYTES) * PAGE_BYTES;
        let area = Area::new(lists_bytes + data_bytes).expect("memory for the smallest buffer");
        let carrier = Carrier { port, config, memory, area, lists_bytes, filled: 0, chunks: vec![], round: 0 };
        if carrier.memory.is_some() {
            // Pages that are not locked mostly stay in place, and the host notices one that does not.
            carrier.area.lock().unwrap_or_else(|e| port.report_lack("mlock", e));
        }
        carrier
    }

    /// Transfers one file, read to its end.
    pub fn carry(&mut self, name: &'static str, source: &mut dyn Read) {
        let mut source = source.take(self.config.file_bytes_max);
        let mut offset = 0;
        loop {
            let (bytes, ended) = self.fill(name, &mut source);
            let data = &self.area.bytes()[self.lists_bytes..][self.filled..][..bytes];
            let sum = sum(data);
            self.chunks.push(Chunk { name, offset, bytes: bytes as u32, sum, last: ended });
            self.filled += bytes;
            offset += bytes as u64;
            if !ended || self.chunks.len() == CHUNKS_MAX {
                self.send(false);
            }
            if ended {
                break;
            }
        }
        let cut = offset == self.config.file_bytes_max && !matches!(source.into_inner().read(&mut [0]), Ok(0));
        if cut {
            self.port.report_lack(name, format_args!("cut at {offset} bytes (file_max)"));
        }
    }

    /// Sends the last round.
    pub fn finish(mut self) {
        self.send(true);
    }

    /// Reads into the free part of the round. Returns the number of bytes, and true at the file's end.
    fn fill(&mut self, name: &str, source: &mut dyn Read) -> (usize, bool) {
        let free = &mut self.area.bytes()[self.lists_bytes..][self.filled..];
        let mut bytes = 0;
        while free.len() - bytes >= MIN_ROOM {
            match source.read(&mut free[bytes..]) {
                Ok(0) => return (bytes, true),
                Ok(n) => bytes += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    self.port.report_lack(name, format_args!("cut in reading: {e}"));
                    return (bytes, true);
                }
            }
        }
        (bytes, false)
    }

    /// Sends the round through memory or by the port, and begins the next one.
    fn send(&mut self, last: bool) {
        if let Some(procfs) = self.memory.take() {
            match self.send_by_memory(&procfs, last) {
                Ok(()) => self.memory = Some(procfs),
                Err(e) => self.port.report_lack("memory", e),
            }
        }
        if self.memory.is_none() {
            self.send_by_port();
        }
        self.filled = 0;
        self.chunks.clear();
        self.round += 1;
    }

    fn send_by_memory(&mut self, procfs: &Path, last: bool) -> io::Result<()> {
        for _ in 0..=MAX_RETRIES {
            let header_phys = self.write_lists_and_header(procfs, last)?;
            self.port.send_message(&Message::Round { header_phys });
            match self.wait() {
                Some(Answer::Taken) => return Ok(()),
                Some(Answer::Retry) => {}
                Some(Answer::GiveUp) => return Err(io::Error::other("the host cannot take it")),
                None => return Err(io::Error::other(format!("no answer in {} ms", self.config.wait_ms))),
            }
        }
        Err(io::Error::other(format!("damaged {} times", MAX_RETRIES + 1)))
    }

    /// Writes the lists and the header from the current addresses of the pages. Returns the header's address.
    fn write_lists_and_header(&mut self, procfs: &Path, last: bool) -> io::Result<u64> {
        let lists = self.lists_bytes / PAGE_BYTES;
        let frames = self.filled.div_ceil(PAGE_BYTES);
        let addresses = self.area.frames(procfs, 1 + lists + frames)?;
        let (header_phys, rest) = addresses.split_first().ok_or(io::ErrorKind::UnexpectedEof)?;
        let (list_addresses, data_addresses) = rest.split_at(lists);
        let listed = &mut self.area.bytes()[..8 * frames];
        listed.iter_mut().zip(encode_lists(data_addresses)).for_each(|(to, byte)| *to = byte);
        let lists_sum = sum(listed);
        let header = Header {
            round: self.round,
            last,
            frames: frames as u32,
            lists: list_addresses[..Header::lists_for(frames)].to_vec(),
            lists_sum,
            chunks: self.chunks.clone(),
        };
        self.area.put_header(&header.encode());
        Ok(*header_phys)
    }

    /// Waits for the host's answer, at first without sleeping, because the answer mostly takes less time than a sleep.
    fn wait(&self) -> Option<Answer> {
        let start = Instant::now();
        loop {
            let answer = self.area.answer();
            let waited_ms = start.elapsed().as_millis() as u64;
            if answer.is_some() || waited_ms >= self.config.wait_ms {
                return answer;
            }
            if waited_ms < self.config.spin_ms {
                std::thread::yield_now();
            } else {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
    }

    fn send_by_port(&mut self) {
        let mut data = &self.area.bytes()[self.lists_bytes..][..self.filled];
        for chunk in &self.chunks {
            let (bytes, rest) = data.split_at(chunk.bytes as usize);
            self.port.send_message(&Message::Chunk(*chunk));
            self.port.send_bytes(bytes);
            self.port.send_bytes(b"\n");
            data = rest;
        }
    }
}
