//! Reads perf's own file of samples, `perf.data`, or the output of `perf record -o -` into a pipe.
//!
//! ```text
//! "PERFILE2"  a header with the places of the attributes (events), the records, and the features behind them
//! attribute   struct perf_event_attr: the contents of an event's records
//! record      type, mode, length, and a sample, a thread's new name, a fork, a mapped file, a loss, or packed records
//! feature     EVENT_DESC: names of events; TRACING_DATA: formats of tracepoints, as in a `trace.dat`
//! ```
//! (Linux, tools/perf/Documentation/perf.data-file-format.txt; perf_event_open(2).) Samples are placed like those of a
//! `perf script` text. perf names functions only when it prints; the file has addresses. The recording's lists of
//! functions name kernel addresses; other addresses get the name of the file that was mapped there. Samples of
//! tracepoints are records of a kernel trace, and are placed like those of a `trace.dat`.
//!
//! The file's places and lengths are checked before use. [`UNPACKED_BYTES_MAX`] bounds the unpacked records.

pub(crate) mod attributes;
pub(crate) mod records;
pub(crate) mod sample;
pub(crate) mod threads;

use crate::formats::symbols::Symbols;
use crate::formats::trace_dat::{self, Formats};
use attributes::Attributes;
use records::{Kind, Record};
use sample::{Frame, Sample};
use threads::Threads;
use timeline::{DiagnosticKind, Diagnostics, Names, Sampled, SampledFrame, SampledThread};

const MAGIC: &[u8] = b"PERFILE2";
/// The magic number in a big-endian machine's file.
const MAGIC_SWAPPED: &[u8] = b"2ELIFREP";

/// The contents of a file.
#[derive(Default)]
pub struct PerfData {
    /// Samples in order of time.
    samples: Vec<Sample>,
    /// Records of tracepoints, as text of a kernel trace; empty without tracepoints.
    trace: Vec<u8>,
    lost: u64,
    threads: Threads,
    events: Vec<String>,
}

impl PerfData {
    /// True if there is any sample.
    pub(crate) fn has_samples(&self) -> bool {
        !self.samples.is_empty()
    }

    /// The records of tracepoints, as text of a kernel trace.
    pub(crate) fn trace(&self) -> &[u8] {
        &self.trace
    }

    /// Reads a file. Counts cut and unreadable records.
    pub fn read(file: &str, bytes: &[u8], diagnostics: &mut Diagnostics) -> PerfData {
        let mut unreadable =
            |why: &str| diagnostics.note(DiagnosticKind::SamplesUnreadable, || format!("{file}: {why}"));
        if bytes.starts_with(MAGIC_SWAPPED) {
            unreadable("it is of a big-endian machine, which bootscope does not read");
            return PerfData::default();
        }
        let Some(parts) = attributes::Parts::of(bytes) else {
            unreadable("it ends in its own header");
            return PerfData::default();
        };
        let mut attributes = parts.attributes;
        let read = records::read(parts.records, &mut attributes);
        if attributes.all.is_empty() {
            unreadable("it describes no event");
            return PerfData::default();
        }
        if parts.is_cut || read.is_cut {
            diagnostics.note_about(DiagnosticKind::FileCut, file, || file.to_owned());
        }
        let mut data = PerfData { events: attributes.names(), ..PerfData::default() };
        let mut tracepoints = Vec::new();
        let (records, beyond) = read.in_order(&attributes);
        diagnostics.add(DiagnosticKind::EntriesBeyondBound, file, beyond, None, || file.to_owned());
        for record in records {
            let is_read = data.record(&record, &attributes, &parts.formats, &mut tracepoints);
            if is_read.is_none() {
                diagnostics.note(DiagnosticKind::SampleUnreadable, || format!("{file}: byte {}", record.at));
            }
        }
        if !tracepoints.is_empty() {
            data.trace = trace_dat::lines_of(&parts.formats, &tracepoints, &data.threads.names());
        }
        data
    }

    /// Reads a record; `None` if it is malformed.
    fn record(
        &mut self,
        record: &Record,
        attributes: &Attributes,
        formats: &Formats,
        tracepoints: &mut Vec<(Vec<u8>, u32, u64)>,
    ) -> Option<()> {
        match record.kind {
            Kind::Lost => self.lost = self.lost.saturating_add(record.lost()?),
            Kind::Thread => self.threads.named(record.body)?,
            Kind::Fork => self.threads.forked(record.body)?,
            Kind::Mapped { second_form } => self.threads.mapped(record.body, second_form)?,
            Kind::Sample => {
                let sample = Sample::read(record, attributes, &self.threads)?;
                match (sample.raw, sample.at) {
                    (Some(raw), Some(at)) if attributes.all[sample.event].is_tracepoint && formats.has_any() => {
                        tracepoints.push((raw.to_vec(), u32::try_from(sample.sample.cpu.unwrap_or(0)).ok()?, at));
                    }
                    _ => self.samples.push(sample.sample),
                }
            }
        }
        Some(())
    }

    /// Moves the samples to the timeline. `symbols` name the kernel's functions. Each sample is freed once it is moved:
    /// they take several times the memory of the file.
    pub(crate) fn take_sampled(&mut self, symbols: &Symbols, names: &mut Names) -> Sampled {
        let mut sampled = Sampled::default();
        sampled.lost = Some(self.lost);
        for sample in std::mem::take(&mut self.samples) {
            let mut stack = Vec::with_capacity(sample.stack.len());
            for (depth, frame) in sample.stack.iter().enumerate().rev() {
                let (name, is_named) = self.function(*frame, depth, symbols);
                stack.push(SampledFrame { address: frame.address, name: sampled.intern(&name, names), is_named });
            }
            let thread = SampledThread { name: names.intern(self.threads.name(sample.name)), tid: sample.tid };
            let event = names.intern(self.events.get(sample.event).map_or("", String::as_str));
            sampled.add(timeline::Sample {
                at: sample.at,
                cpu: sample.cpu,
                thread,
                event,
                is_user: sample.is_user,
                period: sample.period,
                stack: stack.into(),
            });
        }
        sampled
    }

    /// The name of an entry's function, and true if a symbol names it.
    fn function(&self, frame: Frame, depth: usize, symbols: &Symbols) -> (String, bool) {
        // The return address of a call at a function's end is the next function's first byte.
        let address = frame.address - u64::from(depth > 0 && frame.address > 0);
        let function = symbols.find(address).map(|place| place.name.to_owned());
        let is_named = function.is_some();
        let mapped = || frame.file.map(|file| format!("[{}]", self.threads.file(file)));
        (function.or_else(mapped).unwrap_or_else(|| format!("{:#x}", frame.address)), is_named)
    }
}

/// True if the bytes begin with the magic number.
pub(crate) fn recognise(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC) || bytes.starts_with(MAGIC_SWAPPED)
}
