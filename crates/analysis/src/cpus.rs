//! Who had the CPU that a thread was ready to use, by a kernel's own log ([`timeline::Occupancy`]).
//!
//! A log that says what each thread did says nothing of a thread that could not run. With one CPU, or where the kernel logs
//! its context switches, it is known who ran instead.

use hashbrown::HashMap;
use timeline::{Ns, OffCpu, Running, Timeline, TrackId};

/// What became of a stretch of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Had {
    /// It ran, or it slept, or the CPU was idle.
    Itself,
    /// It was ready, and this thread had the CPU.
    Other(TrackId),
    /// This thread had the CPU; nobody says since when the other was ready.
    Perhaps(TrackId),
}

/// A piece of a stretch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HadPiece {
    pub from: Ns,
    pub to: Ns,
    pub had: Had,
}

/// Turns and stretches off the CPU, for look-up.
pub struct Cpus<'a> {
    /// Of each track, by time.
    off: Vec<&'a [OffCpu]>,
    /// Of each CPU, by time.
    turns: HashMap<u32, &'a [Running]>,
    /// On which CPU a track's turn begins.
    begins: HashMap<(TrackId, Ns), u32>,
    one: Option<u32>,
}

impl<'a> Cpus<'a> {
    /// Linear.
    pub fn new(timeline: &'a Timeline) -> Cpus<'a> {
        let known = &timeline.occupancy;
        let mut cpus = Cpus {
            off: vec![&[]; timeline.tracks.len()],
            turns: HashMap::new(),
            begins: HashMap::new(),
            one: known.turns.first().filter(|_| known.is_of_one_cpu()).map(|turn| turn.cpu),
        };
        for off in known.off.chunk_by(|a, b| a.track == b.track) {
            cpus.off[off[0].track.0 as usize] = off;
        }
        for turns in known.turns.chunk_by(|a, b| a.cpu == b.cpu) {
            cpus.turns.insert(turns[0].cpu, turns);
        }
        if cpus.one.is_none() {
            cpus.begins = known.turns.iter().map(|turn| ((turn.track, turn.from), turn.cpu)).collect();
        }
        cpus
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Cuts `from..to` of a track by who had the CPU, in order of time and without gap. `ready`: it was ready then, whatever
    /// its own log says.
    pub fn pieces(&self, track: TrackId, (from, to): (Ns, Ns), ready: Option<Ns>) -> Vec<HadPiece> {
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
            let cpu = self.one.or_else(|| self.begins.get(&(track, off.until)).copied());
            let Some(turns) = cpu.and_then(|cpu| self.turns.get(&cpu)) else { continue };
            let first = turns.partition_point(|turn| turn.to <= begin);
            for turn in turns[first..].iter().take_while(|turn| turn.from < end).filter(|turn| turn.track != track) {
                let had = if since.is_some() { Had::Other(turn.track) } else { Had::Perhaps(turn.track) };
                pieces.push(turn.from.max(begin), turn.to.min(end), had);
            }
        }
        pieces.fill(to);
        pieces.all
    }
}

struct Pieces {
    all: Vec<HadPiece>,
    at: Ns,
}

impl Pieces {
    fn push(&mut self, from: Ns, to: Ns, had: Had) {
        self.fill(from);
        let from = from.max(self.at);
        if from < to {
            self.all.push(HadPiece { from, to, had });
            self.at = to;
        }
    }

    fn fill(&mut self, to: Ns) {
        if self.at < to {
            self.all.push(HadPiece { from: self.at, to, had: Had::Itself });
            self.at = to;
        }
    }
}
