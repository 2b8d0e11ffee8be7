//! Chooses the records that make one log: a capture can hold a dump twice, and two files can hold one dump with a hole
//! between.
//!
//! Two pieces may overlap in time, or may both have the kernel's beginning. Then only one is used: the one that has the
//! end of the kernel's part, then the one with more records. A piece from another time counts as another part of the
//! same log.

use super::Record;
use super::labels::Role;
use super::line::What;
use std::ops::Range;
use timeline::{DiagnosticKind, Diagnostics};

/// Records that follow each other in a file.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    /// The file's index.
    pub file: u32,
    /// Indexes into the log's records.
    pub records: Range<usize>,
    /// The line of the first one.
    pub line: u32,
    /// The number of its lines that could not be read.
    pub damaged: u64,
    /// The least and the greatest ticks: the kernel's, or the loader's if there are no others.
    ticks: (u64, u64),
    /// True if the next record is the first after the loader's: the kernel's counter may differ.
    after_loader: bool,
    /// The [bits](Role::bit) of functions that run once and were entered.
    entered: u8,
    ends: bool,
}

impl Piece {
    /// Creates an empty piece that will begin with `record`.
    pub(super) fn new(file: u32, at: usize, record: &Record) -> Piece {
        let ticks = (record.ticks, record.ticks);
        Piece {
            file,
            records: at..at,
            line: record.line,
            damaged: 0,
            ticks,
            after_loader: false,
            entered: 0,
            ends: false,
        }
    }

    /// Adds the records up to `end`; their least and greatest ticks are given.
    pub(super) fn add(&mut self, end: usize, (least, greatest): (u64, u64)) {
        self.records.end = end;
        let (first, last) = if self.after_loader { (least, greatest) } else { self.ticks };
        self.ticks = (first.min(least), last.max(greatest));
        self.after_loader = false;
    }

    /// Notes if the last record begins or ends one of the functions with a role.
    pub(super) fn mark(&mut self, what: What, role: Role) {
        match what {
            What::Enter if role != Role::Main || self.records.len() == 1 => self.entered |= role.bit(),
            What::Exit if role == Role::StartInit => self.ends = true,
            What::Exit if role == Role::Loader => self.after_loader = true,
            _ => {}
        }
    }

    /// True if this function runs once and was entered already, so that an entry at `ticks` is of another log. The
    /// first function of many threads is called `main`: it counts only if it was the log's first and time has
    /// restarted.
    #[inline]
    pub(super) fn entered(&self, role: Role, ticks: u64) -> bool {
        self.entered & role.bit() != 0 && (role != Role::Main || self.begins_at(ticks))
    }

    /// True if all its records are at `ticks` or later.
    pub(super) fn begins_at(&self, ticks: u64) -> bool {
        ticks <= self.ticks.0
    }

    fn rank(&self) -> (bool, usize) {
        (self.ends, self.records.len())
    }

    fn tells_of_the_same(&self, other: &Piece) -> bool {
        let overlap = self.ticks.0 <= other.ticks.1 && other.ticks.0 <= self.ticks.1;
        overlap || self.entered & other.entered != 0
    }
}

/// The greatest number of pieces that are joined; logs have two or three.
const MOST_PIECES: usize = 1000;

/// Returns the pieces to use, in order of time. `place` formats where a piece begins.
pub(super) fn choose(all: &[Piece], diagnostics: &mut Diagnostics, place: impl Fn(&Piece) -> String) -> Vec<usize> {
    let mut by_rank: Vec<usize> = (0..all.len()).collect();
    by_rank.sort_by_key(|&i| std::cmp::Reverse(all[i].rank()));
    let mut used: Vec<usize> = Vec::new();
    for i in by_rank {
        let same = used.iter().any(|&u| all[u].tells_of_the_same(&all[i]));
        if same || used.len() == MOST_PIECES {
            let records = all[i].records.len() as u64;
            diagnostics.note_many(DiagnosticKind::TslogSecondDump, records, || place(&all[i]));
        } else {
            used.push(i);
        }
    }
    used.sort_by_key(|&i| all[i].ticks);
    for pair in used.windows(2) {
        diagnostics.note(DiagnosticKind::TslogGap, || place(&all[pair[1]]));
    }
    used
}
