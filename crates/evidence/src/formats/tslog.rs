//! TSLOG: the event log of FreeBSD (12 to 15) and NetBSD kernels, as their sysctls print it.
//!
//! ```text
//! 0x0 52000000 ENTER loader                              the boot loader: thread 0x0
//! 0xffffffff8251db00 14119002 ENTER hammer_time          <thread> <ticks> <what> <name>[ <detail>]
//! 0xffffffff8251db00 28488350 ENTER SYSINIT announce
//! 0xfffff80003a1c000 31000000 THREAD g_event             a new thread and its name
//! 0xffffffff8251db00 40000000 EVENT WAIT root mount      also UNWAIT, HOLD, RELEASE; any other two words
//! ```
//! This is the output of `sysctl -b debug.tslog`. The thread is an address (in NetBSD a number); ticks are the raw
//! counter. The kernel's source says which part writes what (`sys/kern/kern_tslog.c`, `sys/sys/tslog.h`,
//! `stand/libsa/tslog.c`):
//!
//! * The loader's records come first, as text that the loader handed over. The kernel's follow in the order in which
//!   their slots were reserved. The counter is read *before* the slot is reserved: if two CPUs log, or an interrupt
//!   comes in between, a record can stand behind one with a later tick.
//! * The buffer has a fixed size ([`BUFFER_RECORDS`] unless the kernel was built otherwise). Records that do not fit
//!   are dropped, and no count of them is kept. A missing name prints as `(null)`; a record of an unknown type has no
//!   type word.
//! * The creator of a thread logs `THREAD` with the *new* thread's address (`kthread_add`, `kproc_create`), so a
//!   thread's first record is its creation. The record does not name the creator. Later threads reuse addresses.
//!   Process 1 has no `THREAD` record: its first record is `ENTER start_init`, its last in the kernel
//!   `EXIT start_init`.
//! * A thread may release a hold that another took: the thread that posts a GEOM event holds `GEOM events`, `g_event`
//!   releases it.
//! * NetBSD numbers the first thread 0 (or 1), has no loader records, and begins with `ENTER main`.
//!
//! bootscope's own recorder (`kernel/tslog`) writes the same text. At the end it adds facts about the whole log, such
//! as `0x0 9 EVENT TSLOG dropped 17` or `hz 2445431964`, the counter's rate; [`memory`] reads its log in an image of
//! memory. [`Log::write`] writes the rate at the end too, and writes `gap` where a part of the log is missing.
//!
//! [`user`] reads `debug.tslog_user`; [`rate`] finds the counter's rate. Both, and the log, are found inside other
//! text: a console capture with or without markers, NULs, `\r\r\n`, other lines in between, cut lines.
//!
//! Percival charged waits to the threads that hold what is waited for (Profiling the FreeBSD kernel boot, 2018). The
//! analysis walks the path from the waits and holds that this module places.

mod boot;
mod build;
mod console;
mod cpu_count;
mod events;
mod hole;
mod labels;
mod late_names;
mod line;
mod memory;
mod occupancy;
mod open_waits;
mod order;
mod pieces;
mod processes;
mod rate;
mod stacks;
mod user;
mod user_part;

pub use build::{Built, Counter, build};
pub use rate::parse_frequency;

pub(crate) use console::Facts;

use crate::formats::kernel_log::{Cleaner, Loggers};
use crate::input::records_max;
use crate::input::text::{Line, Lines};
use hashbrown::HashMap;
use labels::{Labels, Role};
use line::{Entry, What};
use pieces::Piece;
use rate::Rate;
use std::io::{self, Write};
use std::ops::Range;
use timeline::{Clock, DiagnosticKind, Diagnostics, RateSource};

/// The number of records that a kernel keeps unless it was built with another `TSLOGSIZE`.
pub(crate) const BUFFER_RECORDS: usize = 262_144;

/// The log's name in diagnostics.
const NAME: &str = "TSLOG";
/// The bytes of memory that a record takes in the log, in its order and on the timeline.
const RECORD_COST: usize = 200;
/// The least bound on records, however short the file: twice FreeBSD's default buffer, which may be full of short
/// lines.
const MIN_RECORDS: usize = 2 * 262_144;
/// More threads than any boot has; more lines than any boot prints about the counter's rate or the machine.
const THREADS_MAX: usize = 1 << 18;
const LINES_MAX: usize = 1 << 12;
/// The number of processes in a boot that uses up all process numbers.
const PROCESSES_MAX: usize = 1 << 17;

/// The note that a part of the log is missing.
const GAP: &[u8] = b"TSLOG gap";

/// A record of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    ticks: u64,
    /// The index of its thread in [`Threads`].
    thread: u32,
    /// The index of its name in [`Labels`].
    label: u32,
    line: u32,
    /// The index of its piece in [`order::Order::pieces`], once that is known.
    piece: u16,
    what: What,
}

/// All TSLOG evidence of a recording, as the files have it.
#[derive(Debug, Default)]
pub struct Log {
    files: Vec<String>,
    labels: Labels,
    threads: Threads,
    records: Vec<Record>,
    /// Runs of consecutive records, in the order of the files.
    pieces: Vec<Piece>,
    users: Vec<user::Entry>,
    rates: Vec<Rate>,
    said: Vec<console::Said>,
    facts: Facts,
    /// Threads with a `THREAD` record that is not their first record.
    renamed: Vec<u32>,
    /// The counter's rate as the user gave it.
    given_hz: Option<f64>,
    /// The bytes read of all files together. They bound the number of records that are kept.
    bytes: usize,
}

/// The numbers of lines read from a file, and the lines that other readers may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub records: u64,
    /// Lines of the process table, including those of unused numbers.
    pub processes: u64,
    /// Lines that give the counter's rate.
    pub rates: u64,
    /// Lines about the machine or its system.
    pub facts: u64,
    /// The byte ranges of all other lines.
    pub others: Vec<Range<usize>>,
}

impl Log {
    /// Reads the evidence in a file. Counts the lines between records that are not records themselves.
    ///
    /// Linear in the bytes. Keeps 24 bytes a record and each different name once.
    pub fn read(&mut self, file: &str, bytes: &[u8], diagnostics: &mut Diagnostics) -> Counts {
        if !line::is_record(bytes) && Has::look(bytes).nothing() {
            return Counts {
                others: Vec::from_iter((!bytes.is_empty()).then_some(0..bytes.len())),
                ..Counts::default()
            };
        }
        let (cleaned, beyond) = (self.labels.cleaned(), self.labels.beyond());
        let mut reader = Reader::new(self, file, bytes, diagnostics);
        let mut lines = Lines::new(bytes);
        while let Some(line) = lines.next() {
            reader.line(line);
            reader.run(&mut lines);
        }
        let (counts, cleaned, beyond) = (reader.counts, self.labels.cleaned() - cleaned, self.labels.beyond() - beyond);
        diagnostics.note_many(DiagnosticKind::NamesBeyondBound, beyond, || file.to_owned());
        diagnostics.note_many(DiagnosticKind::TslogControlCharacters, cleaned, || file.to_owned());
        counts
    }

    /// True if there are no records and no processes.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty() && self.users.is_empty()
    }

    /// The facts about the machine that the console printed.
    pub(crate) fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Sets the rate that the user gave, if there is one.
    pub(crate) fn given_hz(&mut self, hz: Option<f64>) {
        self.given_hz = hz.filter(|hz| Clock::can_run_at(*hz));
    }

    /// Returns the counter's rate, if it is known. A rate that the user gave comes first.
    fn rate(&self) -> Option<f64> {
        self.given_hz.or_else(|| self.own_rate().map(|(hz, _)| hz))
    }

    /// Returns the rate that the evidence gives, and which evidence.
    pub(crate) fn own_rate(&self) -> Option<(f64, RateSource)> {
        let noted = self.noted_rate().filter(|rate| Clock::can_run_at(rate.hz));
        let rates: Vec<Rate> = self.rates.iter().cloned().chain(noted).collect();
        rate::choose(&rates, |rate| self.place(rate.file, rate.line)).filter(|(hz, _)| Clock::can_run_at(*hz))
    }

    /// The rate in the log's own note, even if it is implausible.
    fn noted_rate(&self) -> Option<Rate> {
        let noted = self.labels.iter().any(|text| rate::note(text).is_some());
        let at = noted.then(|| self.records.iter().position(|record| self.is_rate(record))).flatten()?;
        let hz = rate::note(self.labels.text(self.records[at].label))?;
        let file = self.pieces.iter().find(|piece| piece.records.contains(&at))?.file;
        Some(Rate { hz, source: rate::Source::Log, file, line: self.records[at].line })
    }

    /// Writes the chosen pieces' records as FreeBSD prints them, in their order and with their own ticks. Notes about a
    /// missing part and about the counter's rate have the form that bootscope's recorder writes.
    ///
    /// # Errors
    /// The error of writing to `out`.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut last_ticks = None;
        for piece in pieces::choose(&self.pieces, &mut Diagnostics::default(), |_| String::new()) {
            if let Some(ticks) = last_ticks {
                writeln!(out, "0x0 {ticks} EVENT TSLOG gap")?;
            }
            for record in self.records[self.pieces[piece].records.clone()].iter().filter(|r| !self.is_ours(r)) {
                let (thread, what) = (self.threads.ids[record.thread as usize], record.what.word());
                write!(out, "{thread:#x} {} {what} ", record.ticks)?;
                out.write_all(self.labels.text(record.label))?;
                out.write_all(b"\n")?;
                last_ticks = Some(record.ticks);
            }
        }
        match (last_ticks, self.rate()) {
            (Some(ticks), Some(hz)) => writeln!(out, "0x0 {ticks} EVENT TSLOG hz {}", hz.round()),
            _ => Ok(()),
        }
    }

    /// True if a record is a note that [`Log::write`] writes anew.
    fn is_ours(&self, record: &Record) -> bool {
        self.is_rate(record) || self.labels.text(record.label) == GAP
    }

    /// True if a record is the note of the rate.
    fn is_rate(&self, record: &Record) -> bool {
        self.labels.role(record.label) == Role::Note && rate::note(self.labels.text(record.label)).is_some()
    }

    fn place(&self, file: u32, line: u32) -> String {
        format!("{}:{line}", self.files[file as usize])
    }
}

/// True if a line is a record.
pub(crate) fn is_record(line: &[u8]) -> bool {
    line::is_record(line)
}

/// True if a line belongs to the process table.
pub(crate) fn is_process(line: &[u8]) -> bool {
    user::fields(line).is_some()
}

/// The log's threads, by their address in it.
#[derive(Debug, Default)]
struct Threads {
    ids: Vec<u64>,
    /// For each thread: the number of records before its first.
    first: Vec<usize>,
    numbers: HashMap<u64, u32>,
}

impl Threads {
    #[inline]
    fn number(&mut self, id: u64, records: usize) -> u32 {
        *self.numbers.entry(id).or_insert_with(|| {
            self.ids.push(id);
            self.first.push(records);
            timeline::number(self.ids.len() - 1)
        })
    }
}

/// The kinds of evidence that a file can have. Most imported files are something else altogether; testing each of their
/// lines for all kinds would cost more than reading them.
#[derive(Clone, Copy, Debug)]
struct Has {
    records: bool,
    rates: bool,
    processes: bool,
    facts: bool,
}

impl Has {
    const EVERYTHING: Has = Has { records: true, rates: true, processes: true, facts: true };

    fn look(bytes: &[u8]) -> Has {
        let any = |words: &[&[u8]]| words.iter().any(|word| memchr::memmem::find(bytes, word).is_some());
        Has {
            records: any(&[b" ENTER ", b" EXIT ", b" EVENT ", b" THREAD "]),
            rates: any(&[b"freq", b"-MHz"]),
            processes: any(&[b" \""]),
            facts: any(&[b"FreeBSD", b"NetBSD", b"hw.", b"ncpu=", b"real memory"]),
        }
    }

    fn nothing(self) -> bool {
        !(self.records || self.rates || self.processes || self.facts)
    }
}

/// Reads one file into a log.
struct Reader<'a> {
    log: &'a mut Log,
    diagnostics: &'a mut Diagnostics,
    file: u32,
    /// The loggers' stamps in the file, detected at the first line that is not a record.
    loggers: Option<Loggers>,
    counts: Counts,
    /// True while a piece is being read.
    open: bool,
    /// Other lines since the last record: how many, and the first. They are inside the log only if another record
    /// follows.
    between: Option<(u64, u32)>,
    /// For each thread: the piece it was last seen in and its ticks there.
    seen: Vec<(usize, u64)>,
    /// The beginning of the last record's line, up to the space behind the thread, and that thread: the next line
    /// mostly has the same.
    head: (&'a [u8], u32),
    bytes: &'a [u8],
    /// The most records that the log keeps.
    records_max: usize,
    /// `None` until the file has had many lines that are not records.
    has: Option<Has>,
    /// The number of lines that do not begin with a record.
    doubtful: u32,
    cleaner: Cleaner,
}

impl<'a> Reader<'a> {
    fn new(log: &'a mut Log, file: &str, bytes: &'a [u8], diagnostics: &'a mut Diagnostics) -> Self {
        log.files.push(file.to_owned());
        let file = timeline::number(log.files.len() - 1);
        log.bytes = log.bytes.saturating_add(bytes.len());
        let records_max = records_max(log.bytes, RECORD_COST).max(MIN_RECORDS);
        // A line has about 40 bytes. A guess that is too high costs no memory: untouched pages are not allocated.
        if line::is_record(bytes) {
            log.records.reserve((bytes.len() / 40).min(records_max));
        }
        let counts = Counts::default();
        Reader {
            log,
            diagnostics,
            file,
            loggers: None,
            counts,
            open: false,
            between: None,
            seen: Vec::new(),
            head: (b"", 0),
            bytes,
            records_max,
            has: None,
            doubtful: 0,
            cleaner: Cleaner::default(),
        }
    }

    /// Reads on while the records are of the same thread as the last one and their functions have no role: nearly all
    /// are so. The piece and the counts are brought up to date once, at the end of such a run.
    fn run(&mut self, lines: &mut Lines<'a>) {
        let (head, thread) = self.head;
        while self.open && self.between.is_none() && !head.is_empty() && !self.is_full() {
            let begin = self.log.records.len();
            let mut ticks_seen = (u64::MAX, 0);
            let room = self.records_max - begin;
            let next = loop {
                if self.log.records.len() - begin == room {
                    break None;
                }
                let Some(rest) = lines.rest().strip_prefix(head) else { break None };
                let read = line::next_after_thread(rest).filter(|&(_, what, ..)| what != What::Thread);
                let Some((ticks, what, tail, length)) = read else { break None };
                let label = self.log.labels.number(tail);
                let line = lines.take_line(head.len() + length).number;
                let record = Record { ticks, thread, label, line, piece: 0, what };
                if self.log.labels.role(label) != Role::None {
                    break Some(record);
                }
                ticks_seen = (ticks_seen.0.min(ticks), ticks_seen.1.max(ticks));
                self.log.records.push(record);
            };
            self.end_run(begin, ticks_seen);
            match next {
                Some(record) => self.labelled(record),
                None => return,
            }
        }
    }

    /// True if the log keeps no more records.
    fn is_full(&self) -> bool {
        self.log.records.len() >= self.records_max
    }

    /// Counts a thing that is not kept because its bound is reached.
    fn left_out(&mut self, about: &str, line: u32) {
        let place = || self.log.place(self.file, line);
        self.diagnostics.note_about(DiagnosticKind::EntriesBeyondBound, about, place);
    }

    /// Adds the records from `begin` on to the piece and the counts. `ticks_seen`: their least and greatest ticks.
    fn end_run(&mut self, begin: usize, ticks_seen: (u64, u64)) {
        let end = self.log.records.len();
        if let Some(last) = self.log.records[begin..].last() {
            self.seen[last.thread as usize] = (self.log.pieces.len(), last.ticks);
            self.counts.records += (end - begin) as u64;
            if let Some(piece) = self.log.pieces.last_mut() {
                piece.add(end, ticks_seen);
            }
        }
    }

    fn line(&mut self, line: Line<'a>) {
        match line::entry(line.bytes) {
            Entry::Record(record) => {
                let space = memchr::memchr(b' ', line.bytes).map_or(0, |space| space + 1);
                let Some(thread) = self.thread(record.thread, line.number) else { return };
                self.head = (&line.bytes[..space], thread);
                self.record(line, thread, record.ticks, record.what, record.tail);
            }
            _ => self.other(line),
        }
    }

    /// Reads a line that does not begin with a record.
    fn other(&mut self, line: Line<'a>) {
        let mut cleaner = std::mem::take(&mut self.cleaner);
        let (text, _) = cleaner.clean(line::trim(line.bytes));
        self.clean(line, text);
        self.cleaner = cleaner;
    }

    /// Reads such a line; `text` is the line without control characters.
    fn clean(&mut self, line: Line<'a>, text: &[u8]) {
        let loggers = self.loggers.get_or_insert_with(|| Loggers::detect(self.bytes));
        let (stamp, text) = loggers.strip(line::trim(text));
        let text = line::trim(text);
        let has = self.has();
        match line::entry(text) {
            Entry::Record(record) => return self.late_record(line, &record),
            Entry::Unknown if self.open => return self.damaged(line, DiagnosticKind::TslogTypeUnknown),
            Entry::Cut if self.open && line.whole => return self.damaged(line, DiagnosticKind::TslogLineUnreadable),
            Entry::Cut if self.open => return self.damaged(line, DiagnosticKind::TslogCut),
            _ if text.is_empty() => return,
            _ => {}
        }
        if let Some(record) = Some(text).filter(|_| has.records).and_then(line::behind_other_text) {
            self.diagnostics.note(DiagnosticKind::TslogBehindText, || self.log.place(self.file, line.number));
            return self.late_record(line, &record);
        }
        if let Some(fields) = Some(text).filter(|_| has.processes).and_then(user::fields) {
            self.counts.processes += 1;
            if self.log.users.len() == PROCESSES_MAX {
                return self.left_out("TSLOG's table of processes", line.number);
            }
            let entry = user::entry(&fields, &mut self.log.labels);
            self.log.users.extend(entry.map(|entry| user::Entry { file: self.file, line: line.number, ..entry }));
            return;
        }
        if let Some(rate) = Some(text).filter(|_| has.rates).and_then(rate::line) {
            self.counts.rates += 1;
            let rate = Rate { file: self.file, line: line.number, ..rate };
            match Clock::can_run_at(rate.hz) {
                true if self.log.rates.len() == LINES_MAX => {}
                true => self.log.rates.push(rate),
                false => self.diagnostics.note(DiagnosticKind::CounterRateImplausible, || {
                    format!("{}: {} Hz", self.log.place(rate.file, rate.line), rate.hz)
                }),
            }
        }
        if has.facts {
            self.counts.facts += u64::from(self.log.facts.line(text));
            let room = LINES_MAX.saturating_sub(self.log.said.len());
            self.log.said.extend(console::said(text, stamp).into_iter().take(room));
        }
        self.not_ours(line);
    }

    /// Returns the kinds of evidence to look for. The file is searched for them only after many lines that are not
    /// records; until then each line is tested for everything.
    fn has(&mut self) -> Has {
        const LINES_UNSEARCHED: u32 = 500;
        self.doubtful = self.doubtful.saturating_add(1);
        if self.doubtful <= LINES_UNSEARCHED {
            return Has::EVERYTHING;
        }
        let bytes = self.bytes;
        *self.has.get_or_insert_with(|| Has::look(bytes))
    }

    /// Leaves a line to other readers.
    fn not_ours(&mut self, line: Line<'_>) {
        let between = self.between.get_or_insert((0, line.number));
        between.0 += 1;
        let end = line.offset + line.bytes.len();
        match self.counts.others.last_mut() {
            // Only the newline is between them.
            Some(before) if before.end + 1 == line.offset => before.end = end,
            _ => self.counts.others.push(line.offset..end),
        }
    }

    /// Counts a damaged record.
    fn damaged(&mut self, line: Line<'_>, problem: DiagnosticKind) {
        self.diagnostics.note(problem, || self.log.place(self.file, line.number));
        if let Some(piece) = self.log.pieces.last_mut() {
            piece.damaged += 1;
        }
    }

    /// Reads a record that does not begin its line.
    fn late_record(&mut self, line: Line<'a>, record: &line::Record<'_>) {
        if let Some(thread) = self.thread(record.thread, line.number) {
            self.record(line, thread, record.ticks, record.what, record.tail);
        }
    }

    /// Returns the index of a record's thread. If the record is not kept, counts it and returns `None`.
    fn thread(&mut self, id: u64, line: u32) -> Option<u32> {
        let is_beyond = self.log.threads.ids.len() >= THREADS_MAX && !self.log.threads.numbers.contains_key(&id);
        if self.is_full() || is_beyond {
            self.left_out(NAME, line);
            return None;
        }
        Some(self.log.threads.number(id, self.log.records.len()))
    }

    #[inline]
    fn record(&mut self, line: Line<'a>, thread: u32, ticks: u64, what: What, tail: &[u8]) {
        if !line.whole && !self.log.labels.knows(tail) {
            // The name may be cut, or only the file's last newline is missing: a name that was seen before is complete.
            return self.damaged(line, DiagnosticKind::TslogCut);
        }
        let label = self.log.labels.number(tail);
        self.labelled(Record { ticks, thread, label, line: line.number, piece: 0, what });
    }

    /// Adds a record whose line is fully read.
    fn labelled(&mut self, record: Record) {
        let Record { thread, label, what, .. } = record;
        if self.seen.len() <= thread as usize {
            self.seen.resize(thread as usize + 1, (usize::MAX, 0));
        }
        let role = match self.log.labels.role(label) {
            Role::None => Role::None,
            role => role.on(self.log.threads.ids[thread as usize]),
        };
        self.counts.records += 1;
        // Nearly every record follows another, and its function has no role.
        let goes_on = self.open && self.between.is_none() && role == Role::None;
        if !goes_on && (!self.open || self.begins_anew(&record, role)) {
            self.begin(&record);
        }
        if let Some((count, first)) = self.between.take() {
            self.diagnostics.note_many(DiagnosticKind::TslogLinesBetween, count, || self.log.place(self.file, first));
        }
        self.seen[thread as usize] = (self.log.pieces.len(), record.ticks);
        if what == What::Thread && self.log.threads.first[thread as usize] < self.log.records.len() {
            self.log.renamed.push(thread);
        }
        self.log.records.push(record);
        let end = self.log.records.len();
        if let Some(piece) = self.log.pieces.last_mut() {
            piece.add(end, (record.ticks, record.ticks));
            piece.mark(what, role);
        }
        // The records after a gap are from a later time: a new piece.
        self.open = !(role == Role::Note && self.log.labels.text(label) == GAP);
    }

    /// True if a record cannot be of the piece that is being read. There are two such cases. After other text, a thread
    /// is back at an earlier tick. Or a function that runs once is entered again, and other text or a step back in time
    /// shows that this is not just another function of that name.
    fn begins_anew(&self, record: &Record, role: Role) -> bool {
        let Some(piece) = self.log.pieces.last() else { return true };
        let again = || record.what == What::Enter && piece.entered(role, record.ticks);
        let back = || {
            let (seen_in, ticks) = self.seen[record.thread as usize];
            seen_in == self.log.pieces.len() && record.ticks < ticks
        };
        match self.between {
            Some(_) => back() || again(),
            None => role != Role::None && again() && (back() || piece.begins_at(record.ticks)),
        }
    }

    fn begin(&mut self, record: &Record) {
        self.open = true;
        self.between = None;
        let at = self.log.records.len();
        self.log.pieces.push(Piece::new(self.file, at, record));
    }
}
