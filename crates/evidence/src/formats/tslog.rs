//! TSLOG: the event log of FreeBSD (12 to 15) and NetBSD kernels, as its sysctls print it.
//!
//! ```text
//! 0x0 52000000 ENTER loader                              the boot loader: thread 0x0
//! 0xffffffff8251db00 14119002 ENTER hammer_time          <thread> <ticks> <what> <name>[ <detail>]
//! 0xffffffff8251db00 28488350 ENTER SYSINIT announce
//! 0xfffff80003a1c000 31000000 THREAD g_event             a new thread and its name
//! 0xffffffff8251db00 40000000 EVENT WAIT root mount      also UNWAIT, HOLD, RELEASE; any other two words
//! ```
//! `sysctl -b debug.tslog`. The thread is an address (in NetBSD a number), ticks are raw. Who writes what, by the source
//! (`sys/kern/kern_tslog.c`, `sys/sys/tslog.h`, `stand/libsa/tslog.c`):
//!
//! * The loader's records come first, as text that it handed over; then the kernel's, in the order in which their
//!   slots were reserved. The counter is read *before* that, so threads of two CPUs, or an interrupt in between, can
//!   leave a record behind one of a later tick.
//! * The buffer is fixed ([`BUFFER_RECORDS`] unless the kernel was built otherwise); what does not fit is dropped and
//!   counted nowhere. A missing name prints as `(null)`, a record of an unknown type without any word for it.
//! * `THREAD` is logged by the creator, with the *new* thread's address (`kthread_add`, `kproc_create`): a thread's first
//!   record is its creation. It does not say who created it. An address is used again for a later thread. Process 1
//!   has no such record: its first one is `ENTER start_init`, and its last in the kernel `EXIT start_init`.
//! * A hold need not be released by who took it: `GEOM events` are held by whoever posts one, and released by `g_event`.
//! * NetBSD counts the first thread 0 (or 1), has no loader records, and begins with `ENTER main`.
//!
//! bootscope's own recorder (`kernel/tslog`) writes the same text, and at its end what it knows of the whole log, such as
//! `0x0 9 EVENT TSLOG dropped 17` or `hz 2445431964`, the counter's rate; its log in an image of memory is read by
//! [`memory`]. [`Log::write`] ends with the rate too, and marks with `gap` where a part of the log is missing.
//!
//! `debug.tslog_user` is [`user`]'s; at what rate the counter runs is [`rate`]'s. All of it is found in whatever text is
//! around it: a console capture with markers or without, NULs, `\r\r\n`, other lines in between, cut lines.
//!
//! The method of blaming waits on holders is Percival's (Profiling the FreeBSD kernel boot, 2018); the path is walked by
//! the analysis, from the waits and holds placed here.

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

/// How many records a kernel keeps unless it was built with another `TSLOGSIZE`.
pub const BUFFER_RECORDS: usize = 262_144;

/// What diagnostics call it.
const NAME: &str = "TSLOG";
/// What a record takes in memory, in the log, in its order and on the timeline.
const RECORD_COST: usize = 200;
/// So many are kept of any log: twice FreeBSD's buffer as it comes, which may be full of short lines.
const MIN_RECORDS: usize = 2 * 262_144;
/// More threads than any boot has, and more lines that say how fast the counter runs or what the machine is.
const THREADS_MAX: usize = 1 << 18;
const LINES_MAX: usize = 1 << 12;
/// As many processes as a boot has that runs out of numbers.
const PROCESSES_MAX: usize = 1 << 17;

/// The note that a part of the log is missing.
const GAP: &[u8] = b"TSLOG gap";

/// A record as it stands in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    ticks: u64,
    /// Its thread's number in [`Threads`].
    thread: u32,
    /// What it names, in [`Labels`].
    label: u32,
    line: u32,
    /// Its place in [`order::Order::pieces`], once that is known.
    piece: u16,
    what: What,
}

/// All TSLOG evidence of a recording, as it was written.
#[derive(Debug, Default)]
pub struct Log {
    files: Vec<String>,
    labels: Labels,
    threads: Threads,
    records: Vec<Record>,
    /// Runs of records that were written in one go, in the order of the files.
    pieces: Vec<Piece>,
    users: Vec<user::Entry>,
    rates: Vec<Rate>,
    said: Vec<console::Said>,
    facts: Facts,
    /// Threads that have a `THREAD` record which is not their first.
    renamed: Vec<u32>,
    /// The rate that the user gave.
    given_hz: Option<f64>,
    /// How many bytes were read, of all files together: more records than follow from it are counted.
    bytes: usize,
}

/// What of a file was used, and what else is in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records.
    pub records: u64,
    /// Lines of the process table, unused numbers included.
    pub processes: u64,
    /// Lines that say how fast the counter runs.
    pub rates: u64,
    /// Lines that say what the machine or its system is.
    pub facts: u64,
    /// Where the lines are that are none of these.
    pub others: Vec<Range<usize>>,
}

impl Counts {
    /// Whether none of it was used.
    pub fn is_nothing(&self) -> bool {
        self.records + self.processes + self.rates + self.facts == 0
    }
}

impl Log {
    /// Reads what there is in a file; what stands between records and is none is counted.
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

    /// Whether there is any record or process.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty() && self.users.is_empty()
    }

    /// What the console says of the machine.
    pub(crate) fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The rate that the user gave, if there is one.
    pub(crate) fn given_hz(&mut self, hz: Option<f64>) {
        self.given_hz = hz.filter(|hz| Clock::can_run_at(*hz));
    }

    /// How fast the counter runs, if anything says so. The user's word comes first.
    fn rate(&self) -> Option<f64> {
        self.given_hz.or_else(|| self.own_rate().map(|(hz, _)| hz))
    }

    /// The same by the evidence alone, and what of it says so.
    pub(crate) fn own_rate(&self) -> Option<(f64, RateSource)> {
        let noted = self.noted_rate().filter(|rate| Clock::can_run_at(rate.hz));
        let rates: Vec<Rate> = self.rates.iter().cloned().chain(noted).collect();
        rate::choose(&rates, |rate| self.place(rate.file, rate.line)).filter(|(hz, _)| Clock::can_run_at(*hz))
    }

    /// The rate that a record notes, whatever it is.
    fn noted_rate(&self) -> Option<Rate> {
        let noted = self.labels.iter().any(|text| rate::note(text).is_some());
        let at = noted.then(|| self.records.iter().position(|record| self.is_rate(record))).flatten()?;
        let hz = rate::note(self.labels.text(self.records[at].label))?;
        let file = self.pieces.iter().find(|piece| piece.records.contains(&at))?.file;
        Some(Rate { hz, source: rate::Source::Log, file, line: self.records[at].line })
    }

    /// Writes the records that are used as FreeBSD prints them, in their order and with their own ticks. Where a part is
    /// missing between them, and how fast the counter runs, is written as the recorder of bootscope notes such things.
    ///
    /// # Errors
    /// What `out` says.
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

    /// Whether a record is a note that [`Log::write`] makes anew.
    fn is_ours(&self, record: &Record) -> bool {
        self.is_rate(record) || self.labels.text(record.label) == GAP
    }

    /// Whether a record is the note of the rate.
    fn is_rate(&self, record: &Record) -> bool {
        self.labels.role(record.label) == Role::Note && rate::note(self.labels.text(record.label)).is_some()
    }

    fn place(&self, file: u32, line: u32) -> String {
        format!("{}:{line}", self.files[file as usize])
    }
}

/// Whether a line is a record.
pub(crate) fn is_record(line: &[u8]) -> bool {
    line::is_record(line)
}

/// Whether a line is of the process table.
pub(crate) fn is_process(line: &[u8]) -> bool {
    user::fields(line).is_some()
}

/// Threads by the address that the log knows them by.
#[derive(Debug, Default)]
struct Threads {
    ids: Vec<u64>,
    /// How many records there were before each one's first.
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

/// What can be in a file at all. Most imported files are something else altogether, and looking at each of their lines for
/// all of this would cost more than reading them.
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

/// Goes through one file.
struct Reader<'a> {
    log: &'a mut Log,
    diagnostics: &'a mut Diagnostics,
    file: u32,
    /// How a logger stamped the lines, once there is one that is no record.
    loggers: Option<Loggers>,
    counts: Counts,
    /// Whether a piece is being read.
    open: bool,
    /// Lines since the last record that are none, and the first of them: inside the log only if another record follows.
    between: Option<(u64, u32)>,
    /// Of each thread, the piece it was last seen in and its ticks there.
    seen: Vec<(usize, u64)>,
    /// How the last record's line begins, up to the space behind the thread, and that thread: mostly the next one's too.
    head: (&'a [u8], u32),
    bytes: &'a [u8],
    /// The most records that the log has.
    records_max: usize,
    /// Not looked at before there are many lines that are no records.
    has: Option<Has>,
    /// Lines that do not begin with a record.
    doubtful: u32,
    cleaner: Cleaner,
}

impl<'a> Reader<'a> {
    fn new(log: &'a mut Log, file: &str, bytes: &'a [u8], diagnostics: &'a mut Diagnostics) -> Self {
        log.files.push(file.to_owned());
        let file = timeline::number(log.files.len() - 1);
        log.bytes = log.bytes.saturating_add(bytes.len());
        let records_max = records_max(log.bytes, RECORD_COST).max(MIN_RECORDS);
        // A record is about this long. Guessed too high costs no memory that is not touched.
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

    /// Reads on while records are of the same thread as the last one, and of functions that nothing depends on: nearly all
    /// are. What is to be known of a run of them is noted at its end.
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

    /// Whether no more records are kept.
    fn is_full(&self) -> bool {
        self.log.records.len() >= self.records_max
    }

    /// Counts something that is not kept.
    fn left_out(&mut self, about: &str, line: u32) {
        let place = || self.log.place(self.file, line);
        self.diagnostics.note_about(DiagnosticKind::EntriesBeyondBound, about, place);
    }

    /// Notes that the records from `begin` on were read; `ticks_seen` are their least and greatest ticks.
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

    /// A line that does not begin with a record.
    fn other(&mut self, line: Line<'a>) {
        let mut cleaner = std::mem::take(&mut self.cleaner);
        let (text, _) = cleaner.clean(line::trim(line.bytes));
        self.clean(line, text);
        self.cleaner = cleaner;
    }

    /// The same; `text` is the line without control characters.
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

    /// What a line can be. The first few are looked at for everything: a log of records alone is not searched for the rest.
    fn has(&mut self) -> Has {
        const LINES_UNSEARCHED: u32 = 500;
        self.doubtful = self.doubtful.saturating_add(1);
        if self.doubtful <= LINES_UNSEARCHED {
            return Has::EVERYTHING;
        }
        let bytes = self.bytes;
        *self.has.get_or_insert_with(|| Has::look(bytes))
    }

    /// A line that other readers may know.
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

    /// A line of the log that says nothing.
    fn damaged(&mut self, line: Line<'_>, problem: DiagnosticKind) {
        self.diagnostics.note(problem, || self.log.place(self.file, line.number));
        if let Some(piece) = self.log.pieces.last_mut() {
            piece.damaged += 1;
        }
    }

    /// A record that does not begin its line.
    fn late_record(&mut self, line: Line<'a>, record: &line::Record<'_>) {
        if let Some(thread) = self.thread(record.thread, line.number) {
            self.record(line, thread, record.ticks, record.what, record.tail);
        }
    }

    /// The number of a record's thread; none if the record is not kept, which is counted.
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
            // The name may go on, or the file may just lack its last newline: a name that was seen before is whole.
            return self.damaged(line, DiagnosticKind::TslogCut);
        }
        let label = self.log.labels.number(tail);
        self.labelled(Record { ticks, thread, label, line: line.number, piece: 0, what });
    }

    /// A record of which all is known that its line says.
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
        // Nearly every record follows another, and is of a function that nothing depends on.
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
        // What comes next is of another time.
        self.open = !(role == Role::Note && self.log.labels.text(label) == GAP);
    }

    /// Whether a record cannot be of the piece that is being read: after other text a thread is back at an earlier tick;
    /// or a function that runs once is entered again, and other text or such a step back says that it is not just a
    /// function of that name.
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
