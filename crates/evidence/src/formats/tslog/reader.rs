//! Reads the text of a log, line by line, into records. What the records mean is for `order` and `build`.

use super::labels::Role;
use super::line::{self, Entry, What};
use super::pieces::Piece;
use super::rate::{self, Rate};
use super::{
    Counts, GAP, LINES_MAX, Log, MIN_RECORDS, NAME, PROCESSES_MAX, RECORD_COST, Record, THREADS_MAX, console, user,
};
use crate::formats::kernel_log::{Cleaner, Loggers};
use crate::input::records_max;
use crate::input::text::{Line, Lines};
use timeline::{Clock, DiagnosticKind, Diagnostics};

/// The kinds of evidence that a file can have. Most imported files are something else altogether; testing each of their
/// lines for all kinds would cost more than reading them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Has {
    records: bool,
    rates: bool,
    processes: bool,
    facts: bool,
}

impl Has {
    const EVERYTHING: Has = Has { records: true, rates: true, processes: true, facts: true };

    pub(super) fn look(bytes: &[u8]) -> Has {
        let any = |words: &[&[u8]]| words.iter().any(|word| memchr::memmem::find(bytes, word).is_some());
        Has {
            records: any(&[b" ENTER ", b" EXIT ", b" EVENT ", b" THREAD "]),
            rates: any(&[b"freq", b"-MHz"]),
            processes: any(&[b" \""]),
            facts: any(&[b"FreeBSD", b"NetBSD", b"hw.", b"ncpu=", b"real memory"]),
        }
    }

    pub(super) fn nothing(self) -> bool {
        !(self.records || self.rates || self.processes || self.facts)
    }
}

/// Reads one file into a log.
pub(super) struct Reader<'a> {
    log: &'a mut Log,
    diagnostics: &'a mut Diagnostics,
    file: u32,
    /// The loggers' stamps in the file, detected at the first line that is not a record.
    loggers: Option<Loggers>,
    pub(super) counts: Counts,
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
    pub(super) fn new(log: &'a mut Log, file: &str, bytes: &'a [u8], diagnostics: &'a mut Diagnostics) -> Self {
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
    pub(super) fn run(&mut self, lines: &mut Lines<'a>) {
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

    pub(super) fn line(&mut self, line: Line<'a>) {
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
