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
mod reader;
mod stacks;
mod user;
mod user_part;

pub use build::{Built, Counter, build};
pub use rate::parse_frequency;

pub(crate) use console::Facts;

use crate::input::text::Lines;
use hashbrown::HashMap;
use labels::{Labels, Role};
use line::What;
use pieces::Piece;
use rate::Rate;
use reader::{Has, Reader};
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
