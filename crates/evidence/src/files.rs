//! A recording's files, each read once, sorted by what they are.
//!
//! A recording of our own names its files; in one that was imported, what a file is is told by its
//! content.

use crate::calls;
use crate::detect::{self, Format};
use crate::first_run::{self, FirstRun, symbols::Symbols};
use crate::ftrace::Trace;
use crate::guest_words::{self, Said};
use crate::guestfs;
use crate::index::Index;
use crate::kernel_log::KernelLog;
use crate::text::Lines;
use crate::tslog;
use recording::Recording;
use std::io::Read;
use timeline::{DiagnosticKind, Diagnostics, Ns};

/// The most that a compressed file may become.
pub const UNPACKED_BYTES_MAX: u64 = 256 << 20;

/// A file and its name.
#[derive(Clone)]
pub struct File {
    pub name: String,
    pub bytes: Vec<u8>,
}

/// A stream: bytes, and when each line of them arrived.
pub struct Stream {
    pub file: File,
    pub index: Index,
}

/// What a recording holds.
#[derive(Default)]
pub struct Files {
    pub console: Option<Stream>,
    pub firmware: Option<Stream>,
    pub vmm_marks: Option<File>,
    pub first_run: Option<File>,
    pub calls: Option<File>,
    /// Lists of functions: the kernel's own first.
    symbols: Vec<File>,
    guest: Option<Stream>,
    traces: Vec<File>,
    /// Kernel logs other than the console, the best one first.
    logs: Vec<File>,
    /// What libguestfs reported of a launch.
    guestfs: Vec<File>,
    /// What there is of a kernel's event log.
    pub tslog: tslog::Log,
    /// What the kernel that unpacked itself was compressed with; empty where that is not known.
    pub compression: String,
}

impl Files {
    /// Reads everything that a timeline is made of.
    pub fn read(recording: &Recording, diagnostics: &mut Diagnostics) -> Result<Files, recording::Error> {
        let mut files = Files {
            console: stream(recording, "console", diagnostics)?,
            firmware: stream(recording, "firmware", diagnostics)?,
            guest: stream(recording, "guest", diagnostics)?,
            vmm_marks: file(recording, "vmm.json")?,
            first_run: file(recording, "first-run.bin")?,
            calls: file(recording, "calls.bin")?,
            symbols: symbols(recording, diagnostics)?,
            compression: recording.manifest().inputs.iter().map(|input| input.compression.clone()).collect(),
            ..Files::default()
        };
        files.traces.extend(file(recording, "trace.txt")?);
        files.logs.extend(file(recording, "kmsg.log")?);
        files.logs.extend(file(recording, "kmsg-memory.log")?);
        for name in ["tslog.txt", "tslog_user.txt"] {
            if let Some(file) = file(recording, name)? {
                files.tslog.read(name, &file.bytes, diagnostics);
            }
        }
        if let Some(file) = file(recording, "tslog.bin")? {
            files.tslog.read_memory(&file.name, &file.bytes, diagnostics);
        }
        for name in imported(recording) {
            let Some(found) = file(recording, &name)? else { continue };
            files.add_imported(found, diagnostics);
        }
        Ok(files)
    }

    /// One capture can hold several kinds of evidence, each for its own reader.
    fn add_imported(&mut self, mut file: File, diagnostics: &mut Diagnostics) {
        if is_gzip(&file.bytes) {
            file.bytes = gunzip(&file.name, &file.bytes, diagnostics);
        }
        if first_run::recognise(&file.bytes) {
            self.first_run = self.first_run.take().or(Some(file));
            return;
        }
        if calls::recognise(&file.bytes) {
            self.calls = self.calls.take().or(Some(file));
            return;
        }
        if may_be_memory(&file.bytes) && self.tslog.read_memory(&file.name, &file.bytes, diagnostics) > 0 {
            return;
        }
        // It knows its own lines; only the others can be anything else.
        let logged = self.tslog.read(&file.name, &file.bytes, diagnostics);
        let kinds = detect::detect_in(&file.bytes, &logged.others);
        let kinds: Vec<Format> = kinds.iter().map(|found| found.format).collect();
        let has = |kind| kinds.contains(&kind);
        if has(Format::Trace) {
            self.traces.push(file.clone());
        }
        if has(Format::Guestfs) {
            self.guestfs.push(file.clone());
        }
        if has(Format::Kmsg) || has(Format::KernelLog) {
            self.logs.push(file);
        } else if has(Format::Kallsyms) {
            self.symbols.push(file);
        } else if !has(Format::Trace) && !has(Format::Guestfs) && logged.is_nothing() {
            diagnostics.note(DiagnosticKind::FormatUnknown, || file.name);
        }
    }

    /// From now on there is no trace.
    pub fn forget_traces(&mut self) {
        self.traces.clear();
    }

    pub fn trace(&self, diagnostics: &mut Diagnostics) -> Option<Trace<'_>> {
        let trace = self.traces.first()?;
        for further in &self.traces[1..] {
            diagnostics.note(DiagnosticKind::SecondTrace, || further.name.clone());
        }
        match Trace::read(&trace.name, &trace.bytes, diagnostics) {
            Ok(trace) => Some(trace),
            Err(not) => {
                diagnostics.note(DiagnosticKind::TraceEmpty, || not.to_string());
                None
            }
        }
    }

    /// Whether there is a trace, or a kernel's log beside the console.
    pub fn has_linux_evidence(&self) -> bool {
        !self.traces.is_empty() || !self.logs.is_empty() || !self.guestfs.is_empty()
    }

    /// What libguestfs reported of a launch.
    pub fn guestfs(&self, diagnostics: &mut Diagnostics) -> Option<guestfs::Events> {
        let file = self.guestfs.first()?;
        for further in &self.guestfs[1..] {
            diagnostics.note(DiagnosticKind::SecondLibguestfs, || further.name.clone());
        }
        guestfs::Events::read(&file.name, &file.bytes, diagnostics).ok()
    }

    pub fn guest_words(&self, diagnostics: &mut Diagnostics) -> Vec<Said> {
        let Some(guest) = &self.guest else { return Vec::new() };
        guest_words::read(&guest.file.name, &guest.file.bytes, &guest.index, diagnostics)
    }

    /// The kernel's log, from the best source that has it: the kernel's own records, then a log taken elsewhere.
    pub fn kernel_log(
        &self,
        heard: Option<&guestfs::Events>,
        diagnostics: &mut Diagnostics,
    ) -> Option<(String, KernelLog)> {
        if let Some(log) = heard.and_then(|heard| heard.kernel_log(diagnostics)) {
            for further in &self.logs {
                diagnostics.note(DiagnosticKind::KernelLogBesideLibguestfs, || further.name.clone());
            }
            return Some(log);
        }
        let log = self.logs.first()?;
        for further in &self.logs[1..] {
            diagnostics.note(DiagnosticKind::SecondKernelLog, || further.name.clone());
        }
        read_log(log, diagnostics)
    }

    /// The console as a kernel log: with the arrival of each line.
    pub fn console_log(&self, diagnostics: &mut Diagnostics) -> Option<(KernelLog, &Index)> {
        let console = self.console.as_ref()?;
        read_log(&console.file, diagnostics).map(|(_, log)| (log, &console.index))
    }

    pub fn first_run(&self, diagnostics: &mut Diagnostics) -> Option<FirstRun> {
        let file = self.first_run.as_ref()?;
        Some(first_run::read(&file.name, &file.bytes, diagnostics))
    }

    pub fn calls(&self, diagnostics: &mut Diagnostics) -> Option<calls::Calls> {
        let file = self.calls.as_ref()?;
        Some(calls::read(&file.name, &file.bytes, diagnostics))
    }

    /// The names of what was called; the kernel's image was loaded at `physical`.
    pub fn symbols(
        &self,
        called: impl Iterator<Item = u64>,
        entered: Option<u64>,
        diagnostics: &mut Diagnostics,
    ) -> Symbols {
        if self.symbols.is_empty() {
            return Symbols::default();
        }
        let lists: Vec<(&str, &[u8])> = self.symbols.iter().map(|file| (&*file.name, &*file.bytes)).collect();
        Symbols::read_all(&lists, &called.collect::<Vec<u64>>(), entered, diagnostics)
    }
}

fn read_log(file: &File, diagnostics: &mut Diagnostics) -> Option<(String, KernelLog)> {
    if file.bytes.trim_ascii().is_empty() {
        return None;
    }
    let log = KernelLog::read(&file.name, &file.bytes, diagnostics).ok()?;
    Some((file.name.clone(), log))
}

/// The kernel's own list, then those that the recording was given: `symbols-1.gz`, in this order; then the one out of the
/// kernel's image, where it could not tell its own.
fn symbols(recording: &Recording, diagnostics: &mut Diagnostics) -> Result<Vec<File>, recording::Error> {
    let given = (1..).map(|n| format!("symbols-{n}.gz")).take_while(|name| recording.names().any(|has| has == name));
    let names: Vec<String> = std::iter::once("kallsyms.gz".to_owned())
        .chain(given)
        .chain(std::iter::once("image-symbols.gz".to_owned()))
        .collect();
    let lists = names.iter().filter_map(|name| unpacked(recording, name, diagnostics).transpose());
    lists.collect()
}

/// Imported files are numbered: `00-serial.log`.
pub(crate) fn is_imported(name: &str) -> bool {
    let digits = name.bytes().take_while(u8::is_ascii_digit).count();
    digits >= 2 && name.as_bytes().get(digits) == Some(&b'-')
}

fn file(recording: &Recording, name: &str) -> Result<Option<File>, recording::Error> {
    Ok(recording.read(name)?.map(|bytes| File { name: name.to_owned(), bytes }))
}

fn stream(
    recording: &Recording,
    name: &str,
    diagnostics: &mut Diagnostics,
) -> Result<Option<Stream>, recording::Error> {
    let Some(file) = file(recording, &format!("{name}.log"))? else { return Ok(None) };
    let idx = format!("{name}.idx");
    let index = Index::read(&idx, &recording.read(&idx)?.unwrap_or_default(), diagnostics);
    Ok(Some(Stream { file, index }))
}

fn unpacked(
    recording: &Recording,
    name: &str,
    diagnostics: &mut Diagnostics,
) -> Result<Option<File>, recording::Error> {
    let Some(packed) = recording.read(name)? else { return Ok(None) };
    Ok(Some(File { name: name.to_owned(), bytes: gunzip(name, &packed, diagnostics) }))
}

fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b])
}

/// What a compressed file holds, as far as it can be read.
fn gunzip(name: &str, packed: &[u8], diagnostics: &mut Diagnostics) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut unpacking = flate2::read::MultiGzDecoder::new(packed).take(UNPACKED_BYTES_MAX + 1);
    if let Err(e) = unpacking.read_to_end(&mut bytes) {
        diagnostics.note(DiagnosticKind::GzipDamaged, || format!("{name}: {e}"));
    }
    if bytes.len() as u64 > UNPACKED_BYTES_MAX {
        bytes.truncate(UNPACKED_BYTES_MAX as usize);
        diagnostics.note(DiagnosticKind::GzipTooLarge, || name.to_owned());
    }
    bytes
}

/// What the beginning of a file holds: itself, or as much as can be unpacked of it, which is no more than `most` bytes.
pub(crate) fn beginning(head: Vec<u8>, most: u64) -> Vec<u8> {
    if !is_gzip(&head) {
        return head;
    }
    let mut bytes = Vec::new();
    // The rest of the file is missing, so the end of the stream is too: what came before it counts.
    let _ = flate2::read::MultiGzDecoder::new(&head[..]).take(most).read_to_end(&mut bytes);
    bytes
}

/// Whether it makes sense to look for a log in binary form: a TSLOG as text has none.
fn may_be_memory(bytes: &[u8]) -> bool {
    !tslog::is_record(bytes.split(|&b| b == b'\n').next().unwrap_or_default())
}

pub(crate) fn imported(recording: &Recording) -> Vec<String> {
    recording.names().filter(|name| is_imported(name)).map(str::to_owned).collect()
}

/// What of a file's content is evidence that is used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recognised {
    /// In words, each kind; nothing if none of it is.
    pub kinds: Vec<String>,
    /// Whether any of it tells of a boot. What only says how fast a counter runs, or what the machine is, does not.
    pub of_a_boot: bool,
    /// Whether it is compressed and would become more than [`UNPACKED_BYTES_MAX`]: the rest is not read.
    pub cut: bool,
}

/// Looks what of a file's content is evidence that is used.
pub fn recognise(bytes: &[u8]) -> Recognised {
    if is_gzip(bytes) {
        let mut damage = Diagnostics::default();
        let inside = gunzip("", bytes, &mut damage);
        let found = if is_gzip(&inside) { Recognised::default() } else { recognise(&inside) };
        return Recognised { cut: damage.count(DiagnosticKind::GzipTooLarge) > 0, ..found };
    }
    let boot = |kind: String| Recognised { kinds: vec![kind], of_a_boot: true, cut: false };
    if first_run::recognise(bytes) {
        return boot("when code ran for the first time".to_owned());
    }
    if calls::recognise(bytes) {
        return boot("every call of a boot".to_owned());
    }
    if may_be_memory(bytes) {
        let records = tslog::Log::default().read_memory("", bytes, &mut Diagnostics::default());
        if records > 0 {
            return boot(format!("TSLOG in an image of memory ({records} records)"));
        }
    }
    let logged = tslog::Log::default().read("", bytes, &mut Diagnostics::default());
    let found = detect::detect_in(bytes, &logged.others);
    let mut known = vec![
        (logged.records, "TSLOG dump"),
        (logged.processes, "TSLOG process table"),
        (logged.rates, "rate of the TSLOG's counter"),
        (logged.facts, "what the machine and its system are"),
    ];
    known.retain(|(lines, _)| *lines > 0);
    let used = [Format::Trace, Format::Kmsg, Format::KernelLog, Format::Guestfs, Format::Kallsyms];
    let found: Vec<_> = found.into_iter().filter(|found| used.contains(&found.format)).collect();
    let of_a_boot = logged.records + logged.processes > 0 || !found.is_empty();
    let known = known.into_iter().map(|(lines, what)| format!("{what} ({lines} lines)"));
    let kinds = known.chain(found.iter().map(|found| format!("{} ({} lines)", found.format, found.lines))).collect();
    Recognised { kinds, of_a_boot, cut: false }
}

/// The kernel's event log of a recording, as it was written.
///
/// # Errors
/// If a file cannot be read.
pub fn tslog_log(recording: &Recording) -> Result<tslog::Log, recording::Error> {
    let mut log = Files::read(recording, &mut Diagnostics::default())?.tslog;
    log.given_hz(recording.manifest().ticks_hz);
    Ok(log)
}

/// The console of a recording.
pub struct Console(Option<Stream>);

impl Console {
    /// Each line without its end, and when its first byte arrived.
    pub fn lines(&self) -> impl Iterator<Item = (Option<Ns>, &[u8])> {
        self.0.iter().flat_map(|stream| {
            Lines::new(&stream.file.bytes).map(|line| (stream.index.arrival(line.offset as u64), line.bytes))
        })
    }
}

/// Reads the console; empty where there is none.
///
/// # Errors
/// If the file cannot be read.
pub fn console(recording: &Recording) -> Result<Console, recording::Error> {
    stream(recording, "console", &mut Diagnostics::default()).map(Console)
}
