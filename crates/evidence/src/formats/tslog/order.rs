//! Sorts records from the order of their slots into the lives of threads, and corrects their ticks.
//!
//! An address is one thread's until a `THREAD` record gives it to another. A `THREAD` record on a running thread
//! ([`late_names`], or the kernel's first thread, which does not end) only names it. The loader's counter may differ
//! from the kernel's: if the kernel's first tick lies before the loader's last one, the kernel is assumed to follow at
//! once. A counter that restarts in the middle is assumed to go on. A single record that is a little late (its thread
//! was interrupted between reading the counter and reserving the slot) is left to the span builder, which lets time
//! stand still.

use super::labels::Role;
use super::late_names::late_names;
use super::line::What;
use super::{Log, Record, hole, pieces};
use hashbrown::HashSet;
use std::ops::Range;
use timeline::{DiagnosticKind, Diagnostics};

/// A thread from its first record to its last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Life {
    pub thread: u64,
    /// The label of its `THREAD` record.
    pub name: Option<u32>,
    /// The tick of that record, and the likely creator: [`Placing::creator`].
    pub created: Option<(u64, u32)>,
    /// The start of its records in [`Order::records`].
    pub begin: usize,
    /// The end of its records there.
    pub end: usize,
}

/// The tick and the life of an event that occurs once.
pub(super) type Moment = (u64, u32);

/// A log's first and last records, and the entries and exits of functions that run once.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// The first entry into each role's function, by [`Role`].
    enters: [Option<Moment>; 7],
    /// The first exit, likewise.
    exits: [Option<Moment>; 7],
    pub first: Option<Moment>,
    /// The first record that is not the loader's.
    pub kernel: Option<Moment>,
    /// The latest tick, and its record.
    pub last: Option<(u64, Record)>,
    /// The number of the kernel's records.
    pub kernel_records: usize,
}

impl Known {
    pub(super) fn enter(&self, role: Role) -> Option<Moment> {
        self.enters[role as usize]
    }

    pub(super) fn exit(&self, role: Role) -> Option<Moment> {
        self.exits[role as usize]
    }

    /// The kernel's first thread.
    pub(super) fn main(&self) -> Option<u32> {
        let entered = self.enter(Role::MiStartup).or_else(|| self.enter(Role::MachineDependent));
        entered.or(self.kernel).map(|(_, life)| life)
    }

    /// Process 1.
    pub(super) fn init(&self) -> Option<u32> {
        self.enter(Role::StartInit).or_else(|| self.exit(Role::StartInit)).map(|(_, life)| life)
    }

    /// The boot loader.
    pub(super) fn loader(&self) -> Option<u32> {
        self.enter(Role::Loader)
            .or_else(|| self.exit(Role::Loader))
            .map(|(_, life)| life)
            .filter(|&l| Some(l) != self.main())
    }
}

/// All records, life by life. A record's `thread` is its life; its `ticks` are corrected.
pub(super) struct Order {
    pub records: Vec<Record>,
    pub lives: Vec<Life>,
    pub known: Known,
    /// For each piece in use, in order: its file, and the latest tick up to its end.
    pub pieces: Vec<(u32, u64)>,
    /// Lines that could not be read.
    pub damaged: u64,
    /// The number of records that the log reports as dropped for lack of room.
    pub dropped: u64,
    /// The ticks added to the kernel's so that they follow the loader's.
    pub kernel_shift: u64,
}

/// Puts the records in order. Linear.
pub(super) fn order(log: &mut Log, diagnostics: &mut Diagnostics) -> Order {
    let used = pieces::choose(&log.pieces, diagnostics, |piece| log.place(piece.file, piece.line));
    let ticks = used.iter().flat_map(|&piece| &log.records[log.pieces[piece].records.clone()]).map(|r| r.ticks);
    let mut placing = Placing {
        first_in_range: first_in_range(ticks),
        current: vec![u32::MAX; log.threads.ids.len()],
        lives: Vec::new(),
        sums: Vec::new(),
        known: Known::default(),
        shift: 0,
        kernel_shift: 0,
        latest: 0,
        before: None,
        of_kernel: false,
        late: late_names(&log.records, used.iter().flat_map(|&piece| log.pieces[piece].records.clone()), &log.renamed),
        strangers: Vec::new(),
        boot_waits: (u32::MAX, 0),
    };
    let mut pieces = Vec::new();
    let (mut damaged, mut dropped) = (0, 0);
    for &piece in &used {
        let piece = log.pieces[piece].clone();
        for i in piece.records.clone() {
            let mut record = log.records[i];
            let role = log.labels.role(record.label);
            if role == Role::None && placing.goes_on(&mut record) {
                record.piece = place_of_piece(pieces.len());
                placing.known.last = Some((record.ticks, record));
                log.records[i] = record;
                continue;
            }
            if record.what == What::Event && role == Role::Note {
                dropped += note(log, i, piece.file, diagnostics);
                log.records[i].thread = NOBODY;
                continue;
            }
            record.piece = place_of_piece(pieces.len());
            placing.bound(log, &mut record, piece.file, diagnostics);
            placing.step(log, i, &record, piece.file, diagnostics);
            placing.place(log, i, &mut record, role, piece.file, diagnostics);
            log.records[i] = record;
        }
        damaged += piece.damaged;
        pieces.extend(placing.hole(log, piece.file, piece.records, diagnostics));
        pieces.push((piece.file, placing.latest));
    }
    let (lives, records) = placing.sort(used.iter().map(|&piece| &log.records[log.pieces[piece].records.clone()]));
    Order { records, lives, known: placing.known, pieces, damaged, dropped, kernel_shift: placing.kernel_shift }
}

/// The thread of a note about the whole log, which belongs to no thread.
const NOBODY: u32 = u32::MAX;

/// Reads a recorder's note about the whole log. Returns how many records the recorder dropped.
fn note(log: &Log, i: usize, file: u32, diagnostics: &mut Diagnostics) -> u64 {
    let record = log.records[i];
    let text = String::from_utf8_lossy(log.labels.text(record.label));
    let mut words = text.split(' ').skip(1);
    let (what, count) = (words.next().unwrap_or_default(), words.next().and_then(|count| count.parse::<u64>().ok()));
    let problem = match (what, count) {
        ("dropped", Some(count)) => return count,
        // The rate is read from the log's names, and the gap was handled when it was read.
        ("hz", Some(_)) | ("gap", None) => return 0,
        ("half-written", _) => DiagnosticKind::TslogHalfWritten,
        ("strange", _) => DiagnosticKind::TslogMalformed,
        ("missing", _) => DiagnosticKind::TslogRecordBeyondImage,
        ("before-start", _) => DiagnosticKind::TslogStartedLate,
        _ => DiagnosticKind::TslogNoteUnknown,
    };
    diagnostics.note_many(problem, count.unwrap_or(1), || log.place(file, record.line));
    0
}

/// The greatest believable distance from the first record to the last: five months at 5 GHz, a hundred years at 24 MHz.
const LATEST_TICKS: u64 = 1 << 56;

/// A tick that no counter reaches: 58 years at 5 GHz.
const NO_COUNTER: u64 = 1 << 63;

/// Returns the tick from which the believable range begins: the first that a counter can reach, unless most cannot be.
fn first_in_range(ticks: impl Iterator<Item = u64> + Clone) -> u64 {
    let (count, beyond) = ticks.clone().fold((0u64, 0u64), |(count, n), t| (count + 1, n + u64::from(t >= NO_COUNTER)));
    let most_beyond = beyond > count / 2;
    ticks.clone().find(|&t| most_beyond == (t >= NO_COUNTER)).unwrap_or_default()
}

/// Drops processes with ticks that no counter can reach from the log's first record, or from the first fork.
pub(super) fn drop_out_of_range(log: &mut Log, first: Option<u64>, diagnostics: &mut Diagnostics) {
    let forks = log.users.iter().map(|user| user.forked).filter(|&forked| forked > 0);
    let latest = first.unwrap_or_else(|| first_in_range(forks)).saturating_add(LATEST_TICKS);
    let mut users = std::mem::take(&mut log.users);
    users.retain(|user| {
        let in_range = user.forked.max(user.exited) <= latest;
        if !in_range {
            diagnostics.note(DiagnosticKind::ProcessTickOutOfRange, || log.place(user.file, user.line));
        }
        in_range
    });
    log.users = users;
}

struct Placing {
    /// The life that each thread's address stands for now.
    current: Vec<u32>,
    lives: Vec<Life>,
    /// For each life: the number of its records, and its last tick.
    sums: Vec<(usize, u64)>,
    known: Known,
    /// The ticks added because the counter restarted.
    shift: u64,
    /// The ticks added to the kernel's first tick.
    kernel_shift: u64,
    /// The latest tick so far.
    latest: u64,
    /// The tick from which the believable range begins.
    first_in_range: u64,
    /// The life of the record before, and true if that record is the kernel's.
    before: Option<u32>,
    of_kernel: bool,
    /// `THREAD` records that name a running thread.
    late: HashSet<usize>,
    /// Records that begin a life with an exit.
    strangers: Vec<usize>,
    /// The boot thread, and the number of waits that it is in.
    boot_waits: (u32, u32),
}

/// Converts a piece's index in [`Order::pieces`].
#[expect(clippy::cast_possible_truncation, reason = "pieces::choose takes at most 1000, each with at most one hole")]
const fn place_of_piece(place: usize) -> u16 {
    place as u16
}

impl Placing {
    /// Places a record of the same life as the one before and no earlier, as nearly all are. It begins and ends
    /// nothing, so the facts about the record before hold for it too. Returns false if the record is not of this kind.
    #[inline]
    fn goes_on(&mut self, record: &mut Record) -> bool {
        let life = self.current[record.thread as usize];
        let Some(ticks) = record.ticks.checked_add(self.shift) else { return false };
        let in_range = self.latest <= ticks && ticks <= self.first_in_range.saturating_add(LATEST_TICKS);
        let is_call = matches!(record.what, What::Enter | What::Exit);
        if !is_call || !in_range || self.before != Some(life) {
            return false;
        }
        (record.ticks, record.thread) = (ticks, life);
        let (count, last) = &mut self.sums[life as usize];
        (*count, *last) = (*count + 1, ticks);
        self.latest = ticks;
        self.known.kernel_records += usize::from(self.of_kernel);
        true
    }

    /// If no counter can reach a record's ticks from the first record, gives it the ticks of the record before.
    #[inline]
    fn bound(&self, log: &Log, record: &mut Record, file: u32, diagnostics: &mut Diagnostics) {
        let ticks = record.ticks.checked_add(self.shift);
        if ticks.is_none_or(|ticks| ticks > self.first_in_range.saturating_add(LATEST_TICKS)) {
            record.ticks = self.latest.max(self.first_in_range).saturating_sub(self.shift);
            let line = record.line;
            diagnostics.note(DiagnosticKind::TslogTickOutOfRange, || log.place(file, line));
        }
    }

    /// Checks if the counter restarted with this record.
    #[inline]
    fn step(&mut self, log: &Log, i: usize, record: &Record, file: u32, diagnostics: &mut Diagnostics) {
        let ticks = record.ticks.saturating_add(self.shift);
        if ticks < self.latest {
            self.step_back(log, i, record, file, diagnostics);
        }
    }

    fn step_back(&mut self, log: &Log, i: usize, record: &Record, file: u32, diagnostics: &mut Diagnostics) {
        let ticks = record.ticks.saturating_add(self.shift);
        let life = self.current[record.thread as usize];
        let loader = self.known.loader();
        let after_loader =
            self.known.kernel.is_none() && loader.is_some() && self.before == loader && life != loader.unwrap_or(life);
        let stepped_back = self.sums.get(life as usize).is_some_and(|&(_, last)| ticks < last);
        let problem = match (after_loader, stepped_back) {
            (true, _) => DiagnosticKind::KernelCounterEarly,
            (_, true) if self.stays_behind(log, i) => DiagnosticKind::CounterRestarted,
            _ => return,
        };
        diagnostics.note(problem, || log.place(file, record.line));
        self.shift = self.latest.saturating_add(1).saturating_sub(record.ticks);
        if after_loader {
            self.kernel_shift = self.shift;
        }
    }

    /// True if the next records, too, lie before the latest: after a mere interruption, others soon pass it.
    fn stays_behind(&self, log: &Log, i: usize) -> bool {
        const LOOKED_AT: usize = 64;
        const AT_LEAST: usize = 8;
        let ahead = log.records.get(i..(i + LOOKED_AT).min(log.records.len())).unwrap_or_default();
        ahead.len() >= AT_LEAST && ahead.iter().all(|r| r.ticks.saturating_add(self.shift) < self.latest)
    }

    #[inline]
    fn place(
        &mut self,
        log: &Log,
        i: usize,
        record: &mut Record,
        role: Role,
        file: u32,
        diagnostics: &mut Diagnostics,
    ) {
        record.ticks = record.ticks.saturating_add(self.shift);
        let mut life = self.current[record.thread as usize];
        if life == u32::MAX || record.what == What::Thread {
            life = match self.named_late(life, i) {
                true => self.rename(life, record.label, diagnostics, || log.place(file, record.line)),
                false => self.begin(record, i, &log.threads.ids),
            };
        }
        record.thread = life;
        let (count, last) = &mut self.sums[life as usize];
        *count += 1;
        *last = record.ticks;
        self.latest = self.latest.max(record.ticks);
        self.before = Some(life);
        let role = if role == Role::None { role } else { role.on(self.lives[life as usize].thread) };
        self.know(record, role);
        if record.what == What::Event {
            self.wait(record, log.labels.text(record.label));
        }
    }

    /// True if a `THREAD` record names the life that its address stands for, instead of beginning another.
    fn named_late(&self, life: u32, i: usize) -> bool {
        let first = || self.known.kernel.is_some_and(|(_, kernel)| kernel == life);
        let unnamed = |life: &Life| life.name.is_none();
        self.lives.get(life as usize).is_some_and(|known| self.late.contains(&i) || (first() && unnamed(known)))
    }

    /// Names a life, and returns it.
    fn rename(&mut self, life: u32, name: u32, diagnostics: &mut Diagnostics, place: impl Fn() -> String) -> u32 {
        let named = &mut self.lives[life as usize];
        if named.name.is_some_and(|first| first != name) {
            diagnostics.note(DiagnosticKind::ThreadRenamed, place);
        }
        named.name.get_or_insert(name);
        life
    }

    /// Looks for a hole in a run of placed records, and puts the records after it into a piece of their own. Returns
    /// the piece that ends at the hole.
    fn hole(&self, log: &mut Log, file: u32, run: Range<usize>, diagnostics: &mut Diagnostics) -> Option<(u32, u64)> {
        let path = self.known.init().or_else(|| self.known.main())?;
        let at = hole::hole(log, run.clone(), path, &self.strangers)?;
        diagnostics.note(DiagnosticKind::TslogGap, || log.place(file, log.records[at].line));
        let before = log.records[run.start..at].iter().filter(|r| r.thread != NOBODY).map(|r| r.ticks).max()?;
        log.records[at..run.end].iter_mut().for_each(|record| record.piece += 1);
        Some((file, before))
    }

    fn begin(&mut self, record: &Record, i: usize, ids: &[u64]) -> u32 {
        let life = timeline::number(self.lives.len());
        let named = record.what == What::Thread;
        if record.what == What::Exit && self.before.is_some() {
            self.strangers.push(i);
        }
        self.lives.push(Life {
            thread: ids[record.thread as usize],
            name: named.then_some(record.label),
            created: self.creator().filter(|_| named).map(|by| (record.ticks, by)),
            begin: 0,
            end: 0,
        });
        self.sums.push((0, 0));
        self.current[record.thread as usize] = life;
        life
    }

    /// Guesses which thread creates another now, since no record names it. Nearly always it is the boot thread. If that
    /// is waiting, it cannot create threads; then the best guess is the thread that logged last.
    fn creator(&self) -> Option<u32> {
        let (boot, waits) = self.boot_waits;
        self.boot().filter(|&life| life != boot || waits == 0).or(self.before)
    }

    /// The boot thread: the kernel's first, then process 1.
    fn boot(&self) -> Option<u32> {
        self.known.init().or_else(|| self.known.main())
    }

    /// Counts the waits that the boot thread is in.
    fn wait(&mut self, record: &Record, text: &[u8]) {
        let (waits, over) = (text.starts_with(b"WAIT "), text.starts_with(b"UNWAIT "));
        if self.boot() == Some(record.thread) && (waits || over) {
            let before = if self.boot_waits.0 == record.thread { self.boot_waits.1 } else { 0 };
            self.boot_waits = (record.thread, if waits { before + 1 } else { before.saturating_sub(1) });
        }
    }

    #[inline]
    fn know(&mut self, record: &Record, role: Role) {
        let moment = (record.ticks, record.thread);
        let known = &mut self.known;
        known.first.get_or_insert(moment);
        if role != Role::None {
            let moments = match record.what {
                What::Enter => Some(&mut known.enters),
                What::Exit => Some(&mut known.exits),
                // A thread may be named `main`.
                What::Thread | What::Event => None,
            };
            if let Some(moments) = moments {
                moments[role as usize].get_or_insert(moment);
            }
        }
        let of_loader = known.enters[Role::Loader as usize].is_some_and(|(_, loader)| loader == record.thread);
        self.of_kernel = !of_loader || known.enters[Role::Main as usize].is_some();
        if self.of_kernel {
            known.kernel.get_or_insert(moment);
            known.kernel_records += 1;
        }
        if known.last.is_none_or(|(last, _)| record.ticks >= last) {
            known.last = Some((record.ticks, *record));
        }
    }

    /// Sorts the records by life, with a counting sort.
    fn sort<'a>(&mut self, pieces: impl Iterator<Item = &'a [Record]>) -> (Vec<Life>, Vec<Record>) {
        let mut at = 0;
        for (life, &(count, _)) in self.lives.iter_mut().zip(&self.sums) {
            (life.begin, life.end) = (at, at);
            at += count;
        }
        let none = Record { ticks: 0, thread: 0, label: 0, line: 0, piece: 0, what: What::Enter };
        let mut sorted = vec![none; at];
        // Mostly one thread logs many records before another does.
        for run in pieces.flat_map(|piece| piece.chunk_by(|a, b| a.thread == b.thread)) {
            if let Some(life) = self.lives.get_mut(run[0].thread as usize) {
                sorted[life.end..life.end + run.len()].copy_from_slice(run);
                life.end += run.len();
            }
        }
        (std::mem::take(&mut self.lives), sorted)
    }
}

/// Ticks and names from the `THREAD` records, in order of time, to match lives with the process table.
pub(super) fn named_lives(lives: &[Life]) -> Vec<(u64, u32)> {
    let named = lives.iter().filter_map(|life| Some((life.created?.0, life.name?)));
    let mut named: Vec<(u64, u32)> = named.collect();
    named.sort_unstable();
    named
}
