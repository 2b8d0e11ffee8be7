//! Finds the parts of a `trace.dat`: unpacked sections, and the pages of each CPU.

use super::MAGIC;
use super::formats::{Formats, fields, find};
use crate::input::UNPACKED_BYTES_MAX;
use crate::input::bytes::Bytes;
use crate::input::text::{lossy, number};
use std::borrow::Cow;
use std::io::Read;

/// More sections of options than a file has. The bound is needed because they may refer to each other in a circle.
const OPTIONS_MAX: usize = 64;
/// More CPUs than any machine has.
const CPUS_MAX: u32 = 8192;
/// The longest page of records.
const PAGE_BYTES_MAX: u32 = 1 << 20;

/// The numbers of the options. Version 7's sections have the same numbers.
mod option {
    pub(super) const DONE: u16 = 0;
    pub(super) const CPUSTAT: u16 = 2;
    pub(super) const BUFFER: u16 = 3;
    pub(super) const TRACECLOCK: u16 = 4;
    pub(super) const TSC2NSEC: u16 = 14;
    pub(super) const HEADER_INFO: u16 = 16;
    pub(super) const FTRACE_EVENTS: u16 = 17;
    pub(super) const EVENT_FORMATS: u16 = 18;
    pub(super) const KALLSYMS: u16 = 19;
    pub(super) const CMDLINES: u16 = 21;
    pub(super) const BUFFER_TEXT: u16 = 22;
}

/// A CPU and its pages.
pub(super) struct Cpu<'a> {
    pub number: u32,
    pub pages: Cow<'a, [u8]>,
}

/// The rule that converts a counter's ticks to nanoseconds.
#[derive(Clone, Copy)]
pub(super) struct TscToNs {
    pub multiplier: u32,
    pub shift: u32,
    pub offset: u64,
}

/// The places in a page of the number of used bytes and of its records.
#[derive(Clone, Copy)]
pub(super) struct PageHead {
    pub used_at: usize,
    pub used_bytes: usize,
    pub data_at: usize,
}

/// The parts of a file.
pub(super) struct Parts<'a> {
    pub long_bytes: u8,
    pub page_bytes: usize,
    pub head: PageHead,
    pub formats: Formats,
    pub kallsyms: Cow<'a, [u8]>,
    /// Names of threads, in the format of `saved_cmdlines`.
    pub threads: Cow<'a, [u8]>,
    pub cpus: Vec<Cpu<'a>>,
    pub clock: String,
    pub tsc_to_ns: Option<TscToNs>,
    /// Records that the kernel reports as overwritten.
    pub overwritten: u64,
    /// True if a part is missing that the file refers to.
    pub is_cut: bool,
    /// Parts that are not read: all but the first trace.
    pub unused: Vec<String>,
    /// The bytes that may still be unpacked.
    budget: u64,
    compression: &'a [u8],
    has_buffer: bool,
}

impl<'a> Parts<'a> {
    /// Reads a file. If it cannot be read: the reason.
    pub(super) fn read(file: &'a [u8]) -> Result<Parts<'a>, &'static str> {
        let mut bytes = Bytes(file);
        let (version, mut parts) = Parts::begun(&mut bytes)?;
        let whole = if version == b"6" { parts.version_6(file, bytes) } else { parts.version_7(file, bytes) };
        parts.is_cut |= whole.is_none();
        if parts.cpus.is_empty() {
            return Err("it has no records of any CPU");
        }
        Ok(parts)
    }

    /// Reads the beginning, which both versions share. Returns the version, and the parts without content.
    fn begun(bytes: &mut Bytes<'a>) -> Result<(&'a [u8], Parts<'a>), &'static str> {
        const CUT: &str = "it ends in its own header";
        bytes.expect(MAGIC).ok_or(CUT)?;
        let version = bytes.text().ok_or(CUT)?;
        let [order, long_bytes] = *bytes.take(2).ok_or(CUT)?.first_chunk().ok_or(CUT)?;
        let page_bytes = bytes.u32().ok_or(CUT)?;
        if order != 0 {
            return Err("it is of a big-endian machine, which bootscope does not read");
        }
        let parts = Parts {
            long_bytes,
            page_bytes: page(page_bytes)?,
            head: PageHead {
                used_at: 8,
                used_bytes: if long_bytes == 4 { 4 } else { 8 },
                data_at: 8 + usize::from(long_bytes),
            },
            formats: Formats::default(),
            kallsyms: Cow::Borrowed(&[]),
            threads: Cow::Borrowed(&[]),
            cpus: Vec::new(),
            clock: String::new(),
            tsc_to_ns: None,
            overwritten: 0,
            is_cut: false,
            unused: Vec::new(),
            budget: UNPACKED_BYTES_MAX,
            compression: b"none",
            has_buffer: false,
        };
        Ok((version, parts))
    }

    /// Reads the parts of version 6, which follow each other.
    fn version_6(&mut self, file: &'a [u8], mut bytes: Bytes<'a>) -> Option<()> {
        self.header_info(&mut bytes)?;
        self.ftrace_events(&mut bytes)?;
        self.event_formats(&mut bytes)?;
        self.kallsyms = Cow::Borrowed(bytes.sized(4)?);
        bytes.sized(4)?; // printk formats
        self.threads = Cow::Borrowed(bytes.sized(8)?);
        let cpus = bytes.u32()?.min(CPUS_MAX);
        let mut kind = bytes.take(10)?;
        if kind == b"options  \0" {
            while let Some(id) = bytes.u16().filter(|id| *id != option::DONE) {
                let data = bytes.sized(4)?;
                match id {
                    option::BUFFER => {
                        let name = Bytes(data.get(8..)?).text()?;
                        self.unused.push(format!("instance {}", lossy(name)));
                    }
                    _ => self.small_option(id, data),
                }
            }
            kind = bytes.take(10)?;
        }
        if kind != b"flyrecord\0" {
            self.unused.push("text of a latency tracer".to_owned());
            return Some(());
        }
        for number in 0..cpus {
            let (at, length) = (bytes.u64()?, bytes.u64()?);
            let pages = Bytes::from(file, at)
                .map(|rest| &rest.0[..rest.0.len().min(usize::try_from(length).unwrap_or(usize::MAX))]);
            self.is_cut |= pages.is_none_or(|pages| (pages.len() as u64) < length);
            self.cpus.push(Cpu { number, pages: Cow::Borrowed(pages.unwrap_or_default()) });
        }
        Some(())
    }

    /// Reads the parts of version 7, whose options have the places of the sections.
    fn version_7(&mut self, file: &'a [u8], mut bytes: Bytes<'a>) -> Option<()> {
        self.compression = bytes.text()?;
        bytes.text()?;
        let mut at = bytes.u64()?;
        for _ in 0..OPTIONS_MAX {
            if at == 0 {
                break;
            }
            let options = self.section(file, at)?;
            let mut options = Bytes(&options);
            at = 0;
            while let Some((id, data)) = options.u16().and_then(|id| Some((id, options.sized(4)?))) {
                if id == option::DONE {
                    at = Bytes(data).u64().unwrap_or(0);
                    break;
                }
                self.is_cut |= self.option(file, id, data).is_none();
            }
        }
        Some(())
    }

    /// Reads one option, or the section that it refers to.
    fn option(&mut self, file: &'a [u8], id: u16, data: &[u8]) -> Option<()> {
        let mut bytes = Bytes(data);
        match id {
            option::HEADER_INFO..=option::CMDLINES => {
                let section = self.section(file, bytes.u64()?)?;
                let mut bytes = Bytes(&section);
                match id {
                    option::HEADER_INFO => self.header_info(&mut bytes)?,
                    option::FTRACE_EVENTS => self.ftrace_events(&mut bytes)?,
                    option::EVENT_FORMATS => self.event_formats(&mut bytes)?,
                    option::KALLSYMS => self.kallsyms = Cow::Owned(bytes.sized(4)?.to_vec()),
                    option::CMDLINES => self.threads = Cow::Owned(bytes.sized(8)?.to_vec()),
                    _ => {}
                }
            }
            option::BUFFER => self.buffer(file, bytes)?,
            option::BUFFER_TEXT => self.unused.push("text of a latency tracer".to_owned()),
            _ => self.small_option(id, data),
        }
        Some(())
    }

    /// Reads an option that means the same in both versions.
    fn small_option(&mut self, id: u16, data: &[u8]) {
        match id {
            option::CPUSTAT => {
                // Statistics have two spellings: `overrun: 12` and `dropped events: 3`.
                let after = |key: &[u8]| memchr::memmem::find(data, key).and_then(|at| number(&data[at + key.len()..]));
                let lost = [&b"\noverrun: "[..], b"\ncommit overrun: ", b"\ndropped events: "].map(after);
                let lost = lost.into_iter().flatten().fold(0u64, |sum, (lost, _)| sum.saturating_add(lost));
                self.overwritten = self.overwritten.saturating_add(lost);
            }
            option::TRACECLOCK if self.clock.is_empty() => {
                let text = lossy(data);
                let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
                self.clock = chosen.map_or_else(|| text.trim_matches(['\0', '\n', ' ']), |(name, _)| name).to_owned();
            }
            option::TSC2NSEC => {
                let mut bytes = Bytes(data);
                if let (Some(multiplier), Some(shift), Some(offset)) = (bytes.u32(), bytes.u32(), bytes.u64()) {
                    self.tsc_to_ns = Some(TscToNs { multiplier, shift, offset });
                }
            }
            _ => {}
        }
    }

    /// Reads the records of an instance. Only the first, the kernel's own, is used.
    fn buffer(&mut self, file: &'a [u8], mut bytes: Bytes<'_>) -> Option<()> {
        let (section, name, clock) = (bytes.u64()?, bytes.text()?, bytes.text()?);
        let (page_bytes, cpus) = (bytes.u32()?, bytes.u32()?.min(CPUS_MAX));
        if std::mem::replace(&mut self.has_buffer, true) {
            self.unused.push(format!("instance {}", lossy(name)));
            return Some(());
        }
        self.clock = lossy(clock).into_owned();
        self.page_bytes = page(page_bytes).ok()?;
        let mut head = Bytes::from(file, section)?;
        head.u16()?;
        let is_packed = head.u16()? & 1 != 0;
        for _ in 0..cpus {
            let (number, at, length) = (bytes.u32()?, bytes.u64()?, bytes.u64()?);
            // trace-cmd's length does not include the number of chunks in front of them.
            let length = if is_packed { length.saturating_add(4) } else { length };
            let mut rest = Bytes::from(file, at)?;
            let data = rest.take(length.min(rest.0.len() as u64))?;
            self.is_cut |= (data.len() as u64) < length;
            let pages = if is_packed { Cow::Owned(self.chunks(Bytes(data))) } else { Cow::Borrowed(data) };
            self.cpus.push(Cpu { number, pages });
        }
        Some(())
    }

    /// Unpacks the chunks of pages.
    fn chunks(&mut self, mut bytes: Bytes<'_>) -> Vec<u8> {
        let mut pages = Vec::new();
        let count = bytes.u32().unwrap_or(0);
        for _ in 0..count {
            let chunk = self.chunk(&mut bytes);
            self.is_cut |= chunk.is_none();
            let Some(chunk) = chunk else { break };
            pages.extend(chunk);
        }
        pages
    }

    /// Unpacks one chunk: its packed length, its length, and the packed bytes.
    fn chunk(&mut self, bytes: &mut Bytes<'_>) -> Option<Vec<u8>> {
        let (packed, length) = (bytes.u32()?, bytes.u32()?);
        let packed = bytes.take(packed.into())?;
        let length = Some(u64::from(length)).filter(|length| *length <= self.budget)?;
        let mut out = Vec::new();
        match self.compression {
            b"zstd" => zstd::stream::read::Decoder::new(packed).ok()?.take(length).read_to_end(&mut out),
            b"zlib" => flate2::read::ZlibDecoder::new(packed).take(length).read_to_end(&mut out),
            _ => return None,
        }
        .ok()?;
        self.budget -= out.len() as u64;
        Some(out)
    }

    /// Returns a section without its header, unpacked.
    fn section(&mut self, file: &'a [u8], at: u64) -> Option<Cow<'a, [u8]>> {
        let mut bytes = Bytes::from(file, at)?;
        let (_, flags, _, length) = (bytes.u16()?, bytes.u16()?, bytes.u32()?, bytes.u64()?);
        let data = bytes.take(length)?;
        if flags & 1 == 0 { Some(Cow::Borrowed(data)) } else { self.chunk(&mut Bytes(data)).map(Cow::Owned) }
    }

    /// Reads the layout of a page's header.
    fn header_info(&mut self, bytes: &mut Bytes<'_>) -> Option<()> {
        bytes.expect(b"header_page\0")?;
        let fields = fields(bytes.sized(8)?);
        if let (Some(used), Some(data)) = (find(&fields, "commit"), find(&fields, "data")) {
            self.head = PageHead { used_at: used.offset, used_bytes: used.bytes.min(8), data_at: data.offset };
        }
        bytes.expect(b"header_event\0")?;
        bytes.sized(8).map(|_| ())
    }

    fn ftrace_events(&mut self, bytes: &mut Bytes<'_>) -> Option<()> {
        for _ in 0..bytes.u32()? {
            self.formats.add(bytes.sized(8)?);
        }
        Some(())
    }

    fn event_formats(&mut self, bytes: &mut Bytes<'_>) -> Option<()> {
        for _ in 0..bytes.u32()? {
            bytes.text()?;
            self.ftrace_events(bytes)?;
        }
        Some(())
    }
}

/// Reads the formats of events from bytes that begin like version 6. `None` if they do not, or are cut before the
/// formats.
pub(super) fn formats(bytes: &[u8]) -> Option<Formats> {
    let mut bytes = Bytes(bytes);
    let (_, mut parts) = Parts::begun(&mut bytes).ok()?;
    parts.header_info(&mut bytes)?;
    parts.ftrace_events(&mut bytes)?;
    parts.event_formats(&mut bytes)?;
    Some(parts.formats)
}

/// Checks the length of a page.
fn page(bytes: u32) -> Result<usize, &'static str> {
    let fits = bytes.is_power_of_two() && (256..=PAGE_BYTES_MAX).contains(&bytes);
    usize::try_from(bytes).ok().filter(|_| fits).ok_or("its pages have a length that no kernel's have")
}
