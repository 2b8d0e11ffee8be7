//! The thread that had the CPU while another was ready to use it, by a kernel's own log ([`timeline::Occupancy`]).
//!
//! A log of each thread's actions says nothing about a thread that could not run. With one CPU, or where the kernel
//! logs its context switches, the log shows which thread ran instead.

use hashbrown::HashMap;
use timeline::{Ns, OffCpu, Running, Timeline, TrackId};

/// The thread that had the CPU during a stretch of another thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occupant {
    /// The thread itself: it ran, or it slept, or the CPU was idle.
    Itself,
    /// Another thread, while this one was ready.
    Other(TrackId),
    /// Another thread. The evidence does not say since when this one was ready.
    MaybeOther(TrackId),
}

/// A piece of a stretch with one occupant of the CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OccupantPiece {
    pub from: Ns,
    pub to: Ns,
    pub occupant: Occupant,
}

/// Turns and stretches off the CPU, for look-up.
pub struct CpuOccupants<'a> {
    /// Stretches off the CPU for each track, by time.
    off: Vec<&'a [OffCpu]>,
    /// Turns for each CPU, by time.
    turns: HashMap<u32, &'a [Running]>,
    /// The CPU on which each turn of a track begins. Empty with one CPU.
    turn_starts: HashMap<(TrackId, Ns), u32>,
    single_cpu: Option<u32>,
}

impl<'a> CpuOccupants<'a> {
    /// Linear in the number of turns and stretches.
    pub fn new(timeline: &'a Timeline) -> CpuOccupants<'a> {
        let occupancy = &timeline.occupancy;
        let mut cpus = CpuOccupants {
            off: vec![&[]; timeline.tracks.len()],
            turns: HashMap::new(),
            turn_starts: HashMap::new(),
            single_cpu: occupancy.turns.first().filter(|_| occupancy.is_of_one_cpu()).map(|turn| turn.cpu),
        };
        for off in occupancy.off.chunk_by(|a, b| a.track == b.track) {
            cpus.off[off[0].track.0 as usize] = off;
        }
        for turns in occupancy.turns.chunk_by(|a, b| a.cpu == b.cpu) {
            cpus.turns.insert(turns[0].cpu, turns);
        }
        if cpus.single_cpu.is_none() {
            cpus.turn_starts = occupancy.turns.iter().map(|turn| ((turn.track, turn.from), turn.cpu)).collect();
        }
        cpus
    }

    /// True if the evidence shows no occupant of any CPU.
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Cuts `from..to` of a track where the CPU's occupant changes. The pieces are in order of time, without gaps. With
    /// `ready`, the thread counts as ready from then on, even if its own log shows a later time or no time.
    pub fn pieces(&self, track: TrackId, (from, to): (Ns, Ns), ready: Option<Ns>) -> Vec<OccupantPiece> {
        let mut pieces = Pieces { all: Vec::new(), at: from };
        let off = self.off[track.0 as usize];
        for off in &off[off.partition_point(|off| off.until <= from)..] {
            let (begin, end) = (off.from.max(from), off.until.min(to));
            if begin >= end {
                if off.from >= to {
                    break;
                }
                continue;
            }
            let since = off.ready.into_iter().chain(ready).min();
            let begin = begin.max(since.unwrap_or(begin));
            let cpu = self.single_cpu.or_else(|| self.turn_starts.get(&(track, off.until)).copied());
            let Some(turns) = cpu.and_then(|cpu| self.turns.get(&cpu)) else { continue };
            let first = turns.partition_point(|turn| turn.to <= begin);
            for turn in turns[first..].iter().take_while(|turn| turn.from < end).filter(|turn| turn.track != track) {
                let occupant =
                    if since.is_some() { Occupant::Other(turn.track) } else { Occupant::MaybeOther(turn.track) };
                pieces.push(turn.from.max(begin), turn.to.min(end), occupant);
            }
        }
        pieces.fill(to);
        pieces.all
    }
}

struct Pieces {
    all: Vec<OccupantPiece>,
    at: Ns,
}

impl Pieces {
    fn push(&mut self, from: Ns, to: Ns, occupant: Occupant) {
        self.fill(from);
        let from = from.max(self.at);
        if from < to {
            self.all.push(OccupantPiece { from, to, occupant });
            self.at = to;
        }
    }

    fn fill(&mut self, to: Ns) {
        if self.at < to {
            self.all.push(OccupantPiece { from: self.at, to, occupant: Occupant::Itself });
            self.at = to;
        }
    }
}
