//! Which records are one log: a capture can hold a dump twice, and one dump can lie in two files with a hole between.
//!
//! Of two pieces that tell of the same time, or that both have the kernel's beginning, one is used: the one that has
//! the end of the kernel's part, then the one with more records. A piece from another time is taken for another part
//! of the same log.

use super::Record;
use super::labels::Role;
use super::line::What;
use std::ops::Range;
use timeline::{DiagnosticKind, Diagnostics};

/// Records that were written in one go.
#[derive(Clone, Debug)]
pub struct Piece {
    /// The file's number.
    pub file: u32,
    /// Which records.
    pub records: Range<usize>,
    /// The line of the first one.
    pub line: u32,
    /// How many lines of it could not be read.
    pub damaged: u64,
    /// The least and the greatest ticks: the kernel's, or the loader's where there are no others.
    ticks: (u64, u64),
    /// Whether the next record is the first after the loader's, whose counter may be another.
    after_loader: bool,
    /// The [bits](Role::bit) of functions that run once and were entered.
    entered: u8,
    ends: bool,
}

impl Piece {
    /// A piece that begins with `record`, which is still to be added.
    pub fn new(file: u32, at: usize, record: &Record) -> Piece {
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

    /// Takes in the records up to `end`, which have these least and greatest ticks.
    pub fn add(&mut self, end: usize, (least, greatest): (u64, u64)) {
        self.records.end = end;
        let (first, last) = if self.after_loader { (least, greatest) } else { self.ticks };
        self.ticks = (first.min(least), last.max(greatest));
        self.after_loader = false;
    }

    /// Notes what the last record is the beginning or the end of.
    pub fn mark(&mut self, what: What, role: Role) {
        match what {
            What::Enter if role != Role::Main || self.records.len() == 1 => self.entered |= role.bit(),
            What::Exit if role == Role::StartInit => self.ends = true,
            What::Exit if role == Role::Loader => self.after_loader = true,
            _ => {}
        }
    }

    /// Whether a function that runs once was entered, so that entering it at `ticks` is of another log. Many a thread's
    /// first function is called `main`: it counts only where it was the log's first, and time has begun again.
    #[inline]
    pub fn entered(&self, role: Role, ticks: u64) -> bool {
        self.entered & role.bit() != 0 && (role != Role::Main || self.begins_at(ticks))
    }

    /// Whether nothing in it is earlier than `ticks`.
    pub fn begins_at(&self, ticks: u64) -> bool {
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

/// So many pieces are joined at most; there are two or three.
const MOST_PIECES: usize = 1000;

/// The pieces to use, in order of time. `place` says where a piece begins.
pub fn choose(all: &[Piece], diagnostics: &mut Diagnostics, place: impl Fn(&Piece) -> String) -> Vec<usize> {
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
