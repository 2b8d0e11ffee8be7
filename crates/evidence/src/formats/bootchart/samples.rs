//! Turns samples into processes: the time in which each existed, its names, and its time on a CPU.
//!
//! Memory is proportional to the input: a process is kept once, and consecutive stretches with the same use are joined.

use super::NAME;
use super::parse::{Row, from_stat, from_taskstats, time};
use crate::input::records_max;
use crate::input::text::{Line, Lines, lossy, shorten};
use hashbrown::HashMap;
use timeline::{DiagnosticKind, Diagnostics, Ns};

/// Ten times the number of processes that a boot starts.
pub(super) const PROCESSES_MAX: usize = 1 << 17;
/// The bytes of memory that a process takes here, as a track with a span, and in the table of processes.
const PROCESS_COST: usize = 470;
/// If a process seems to have begun this long after it was sampled, the collector uses another clock.
const OTHER_CLOCK: Ns = Ns::from_ms(1_000);

/// A process's main activity in a stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// It had a CPU.
    Cpu,
    /// It waited for a disk, or for swapped memory.
    Disk,
    /// It could have run, but had no CPU.
    Queue,
    /// It waited for something else.
    Other,
}

/// A stretch of a process's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Its main activity.
    pub used: Use,
    pub from: Ns,
    pub to: Ns,
}

/// A process. Its times are on the collector's clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    pub pid: u64,
    /// Its parent's number, as first seen.
    pub parent: u64,
    /// Its names, each with the time from which it applies; never empty.
    pub names: Vec<(Ns, String)>,
    /// The sample in which it was last seen, or the one in which it was missing.
    pub until: Ns,
    /// True if it was missing from the last sample.
    pub is_over: bool,
    /// Its activities, in order of time.
    pub stretches: Vec<Stretch>,
    /// Its total CPU time.
    pub cpu: Ns,
    began: Option<Ns>,
    disk: Ns,
    /// The number of the last sample that contains it.
    sample: u64,
}

/// Numbers of lines by kind; they sum to `lines`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub lines: u64,
    /// Lines with the time of a sample.
    pub samples: u64,
    /// Lines with a process in a sample.
    pub rows: u64,
    /// Empty lines between samples.
    pub blank: u64,
    /// Lines that could not be read.
    pub unreadable: u64,
    /// Lines with processes beyond the bound, or before the first sample's time.
    pub beyond: u64,
}

/// All samples of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Samples {
    /// The processes, in the order in which they were first seen.
    pub processes: Vec<Process>,
    /// Time of the first sample.
    pub first: Ns,
    /// Time of the last sample.
    pub last: Ns,
    /// The longest time between two samples.
    pub longest: Ns,
    /// Numbers of lines by kind.
    pub counts: Counts,
    /// The latest process of each process number.
    known: HashMap<u64, usize>,
    /// Time of the sample before the current one.
    before: Ns,
    /// The largest number of processes to keep.
    most: usize,
    /// True if each sample has every process, so that a missing one has ended.
    pub(crate) knows_ends: bool,
    /// The time at which the collector found that the machine was idle.
    pub idle: Option<Ns>,
}

impl Samples {
    /// Reads `proc_ps.log`, which has every process in each sample, or `taskstats.log`.
    pub(super) fn of_text(file: &str, bytes: &[u8], knows_ends: bool, diagnostics: &mut Diagnostics) -> Samples {
        let row = |line| if knows_ends { from_stat(line) } else { from_taskstats(line) };
        let most = records_max(bytes.len(), PROCESS_COST).min(PROCESSES_MAX);
        let mut samples = Samples { knows_ends, most, ..Samples::default() };
        for line in Lines::new(bytes) {
            samples.counts.lines += 1;
            let place = || format!("{file}:{}", line.number);
            if let Some(at) = time(line.bytes) {
                samples.begin(at, diagnostics, place);
            } else if let Some(row) = row(line.bytes) {
                samples.add(row, diagnostics, place);
            } else if line.bytes.trim_ascii().is_empty() {
                samples.counts.blank += 1;
            } else {
                samples.unreadable(line, file, diagnostics);
            }
        }
        samples.finish();
        samples
    }

    /// An empty result for a source that has every process in each sample.
    pub(super) fn of_whole_tables(first: Ns) -> Samples {
        Samples { knows_ends: true, first, ..Samples::default() }
    }

    fn unreadable(&mut self, line: Line<'_>, file: &str, diagnostics: &mut Diagnostics) {
        self.counts.unreadable += 1;
        diagnostics.note_about(DiagnosticKind::LinesUnreadable, NAME, || format!("{file}:{}", line.number));
    }

    /// Begins a sample. A sample earlier than the one before it counts as taken at the same time.
    fn begin(&mut self, at: Ns, diagnostics: &mut Diagnostics, place: impl FnOnce() -> String) {
        if self.counts.samples == 0 {
            (self.first, self.before, self.last) = (at, at, at);
        } else if at < self.last {
            diagnostics.note(DiagnosticKind::ClockBack, place);
            self.before = self.last;
        } else {
            (self.before, self.last) = (self.last, at);
            self.longest = self.longest.max(self.last - self.before);
        }
        self.counts.samples += 1;
    }

    fn add(&mut self, row: Row<'_>, diagnostics: &mut Diagnostics, place: impl FnOnce() -> String) {
        if self.counts.samples == 0 {
            self.counts.beyond += 1;
            diagnostics.note_about(DiagnosticKind::LinesUnreadable, NAME, place);
            return;
        }
        // A process number is used again after its process has ended. The new process began later.
        let known = self.known.get(&row.pid).copied();
        let known = known.filter(|known| {
            let process = &self.processes[*known];
            process.began == row.began && (!self.knows_ends || process.sample + 1 >= self.counts.samples)
        });
        let known = match known {
            Some(known) => known,
            None if self.processes.len() == self.most => {
                self.counts.beyond += 1;
                diagnostics.note_about(DiagnosticKind::EntriesBeyondBound, NAME, place);
                return;
            }
            None => self.appear(row, diagnostics, place),
        };
        self.counts.rows += 1;
        self.go_on(known, row);
    }

    /// Adds a process that is sampled for the first time.
    fn appear(&mut self, row: Row<'_>, diagnostics: &mut Diagnostics, place: impl FnOnce() -> String) -> usize {
        let seen = if self.counts.samples == 1 { self.first } else { self.before };
        let began = row.began.unwrap_or(seen);
        if began - self.last > OTHER_CLOCK {
            diagnostics.note(DiagnosticKind::BootchartOtherClock, place);
        }
        let from = began.min(self.last);
        let (pid, parent) = (row.pid, row.parent);
        let names = vec![(from, shorten(&lossy(row.name)))];
        // CPU time from before the first sample cannot be placed.
        let before = self.counts.samples == 1;
        let (cpu, disk) = if before { (row.cpu, row.disk.unwrap_or_default()) } else { (Ns::ZERO, Ns::ZERO) };
        let (until, stretches, sample) = (self.last, Vec::new(), self.counts.samples);
        let process =
            Process { pid, parent, names, until, is_over: false, stretches, cpu, began: row.began, disk, sample };
        self.processes.push(process);
        self.known.insert(pid, self.processes.len() - 1);
        self.processes.len() - 1
    }

    /// Extends a process's stretches up to this sample.
    fn go_on(&mut self, known: usize, row: Row<'_>) {
        let (before, now, sample) = (self.before, self.last, self.counts.samples);
        let process = &mut self.processes[known];
        let since = process.stretches.last().map_or(process.names[0].0, |last| last.to);
        // A sample can contain a process twice.
        let from = before.max(since);
        let cpu = Ns(row.cpu.0.saturating_sub(process.cpu.0));
        let disk = row.disk.map(|disk| Ns(disk.0.saturating_sub(process.disk.0)));
        let half = Ns((now - from).0 / 2);
        let waits_for_disk = disk.map_or(row.is_blocked, |disk| disk > Ns::ZERO && disk >= half);
        let used = match () {
            () if cpu > Ns::ZERO && cpu >= half => Use::Cpu,
            () if waits_for_disk => Use::Disk,
            () => Use::Other,
        };
        if from < now {
            // taskstats leaves out processes with nothing new: up to the previous sample this one did nothing.
            process.extend(Use::Other, since, from);
            process.extend(used, from, now);
        }
        let name = shorten(&lossy(row.name));
        if process.names.last().is_some_and(|(_, last)| *last != name) {
            process.names.push((from.max(process.names[process.names.len() - 1].0), name));
        }
        (process.cpu, process.until, process.sample) = (process.cpu.max(row.cpu), now, sample);
        process.disk = process.disk.max(row.disk.unwrap_or_default());
    }

    /// A process that is missing from the last sample has ended. With taskstats it may also have been idle; then it
    /// ends after its last activity.
    fn finish(&mut self) {
        let samples = self.counts.samples;
        self.processes.iter_mut().for_each(|process| process.is_over = process.sample < samples);
        self.known = HashMap::new();
        self.process_1();
    }

    /// Adds process 1 if taskstats left it out because it did nothing, but has its children.
    fn process_1(&mut self) {
        let has_1 = self.processes.iter().any(|process| process.pid == 1);
        if has_1 || !self.processes.iter().any(|process| process.parent == 1) {
            return;
        }
        let (from, until) = (self.first, self.last);
        let mut process_1 = Process::new(1, 0, "init".to_owned(), from, until);
        process_1.extend(Use::Other, from, until);
        self.processes.insert(0, process_1);
    }

    /// The mean time between two samples.
    pub(crate) fn interval(&self) -> Ns {
        let between = i64::try_from(self.counts.samples.saturating_sub(1)).unwrap_or(i64::MAX).max(1);
        Ns((self.last - self.first).0 / between)
    }
}

impl Process {
    /// A process without any activity yet.
    pub(super) fn new(pid: u64, parent: u64, name: String, from: Ns, until: Ns) -> Process {
        Process { pid, parent, names: vec![(from, name)], until, ..Process::default() }
    }

    /// Adds a stretch; joins it to the last one if both have the same use.
    fn extend(&mut self, used: Use, from: Ns, to: Ns) {
        if from >= to {
            return;
        }
        match self.stretches.last_mut() {
            Some(last) if last.used == used && last.to == from => last.to = to,
            _ => self.stretches.push(Stretch { used, from, to }),
        }
    }

    /// Adds a stretch from a picture. Between that and the previous stretch the process did something else.
    pub(super) fn draw(&mut self, used: Use, from: Ns, to: Ns) {
        let since = self.stretches.last().map_or(self.from(), |last| last.to);
        self.extend(Use::Other, since, from);
        self.extend(used, from.max(since), to);
    }

    /// The time when it began.
    pub fn from(&self) -> Ns {
        self.names[0].0
    }

    /// True for a kernel thread: kthreadd, or a thread that kthreadd started.
    pub(crate) fn is_kernels(&self) -> bool {
        const KTHREADD: u64 = 2;
        self.pid == KTHREADD || self.parent == KTHREADD
    }
}
