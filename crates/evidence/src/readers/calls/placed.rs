//! The track that each stack belonged to over time: one track for each piece of time that a vCPU spent on the stack.
//!
//! Without a trace, each stack is a track. With one, a stack belongs to the thread that the trace shows on that CPU.
//! The clocks of trace and calls differ by some microseconds, which is longer than many threads run at a time. So the
//! track is chosen by majority over the pieces of a stack. When a thread ends, another may get its stack. Each new
//! thread begins with one of a few calls at the bottom of its stack; from there the majority is counted anew.
//! Interrupts and user space belong to the thread that ran before them.

use crate::formats::calls::Calls;
use crate::formats::symbols::Symbols;
use crate::readers::calls::contexts::{Contexts, NO_THREAD};
use crate::readers::calls::pieces::Piece;
use crate::readers::first_executions::first_calls::Runners;
use timeline::{Timeline, TrackId};

/// Linux calls one of these first in a new thread.
const NEW_THREAD: [&str; 4] = ["ret_from_fork", "kthread", "kernel_init", "call_usermodehelper_exec_async"];

/// The pieces of each context in order of time, each with its track.
pub(super) struct Placed {
    of_context: Vec<Vec<(Piece, TrackId)>>,
}

impl Placed {
    /// Finds the track of each piece. `tracks` has one track for each context; `runners` is from the trace.
    pub(super) fn new(
        calls: &Calls,
        symbols: &Symbols,
        contexts: &Contexts,
        pieces: &[Piece],
        tracks: &[TrackId],
        runners: Option<&Runners>,
    ) -> Placed {
        let mut of_context: Vec<Vec<(Piece, TrackId)>> = vec![Vec::new(); tracks.len()];
        for piece in pieces {
            let place = contexts.place(piece.node);
            of_context[place].push((*piece, tracks[place]));
        }
        of_context.iter_mut().for_each(|pieces| pieces.sort_by_key(|(piece, _)| piece.from));
        let mut placed = Placed { of_context };
        if let Some(runners) = runners {
            placed.vote(calls, symbols, contexts, runners);
            placed.inherit(contexts, pieces);
        }
        placed
    }

    fn vote(&mut self, calls: &Calls, symbols: &Symbols, contexts: &Contexts, runners: &Runners) {
        let begins = new_threads(calls, symbols, contexts);
        for ((context, pieces), begins) in contexts.iter().zip(&mut self.of_context).zip(begins) {
            if context.is_any_thread_s || context.stage.is_some() {
                continue;
            }
            let runner = |piece: &Piece| {
                // The middle of the piece, because the stack changes a little later than the trace shows the switch.
                runners.at(u32::from(piece.vcpu), calls.at(piece.from + (piece.to - piece.from) / 2))
            };
            // The idle thread runs on the stack of the thread that booted, and is another track.
            if context.id == 0 {
                pieces.iter_mut().for_each(|(piece, track)| *track = runner(piece).unwrap_or(*track));
                continue;
            }
            let life = |piece: &Piece| begins.partition_point(|&begin| begin < piece.to);
            for of_one in pieces.chunk_by_mut(|(a, _), (b, _)| life(a) == life(b)) {
                let votes = of_one.iter().filter_map(|(piece, _)| Some((runner(piece)?, piece.to - piece.from)));
                if let Some(elected) = most(votes) {
                    of_one.iter_mut().for_each(|(_, track)| *track = elected);
                }
            }
        }
    }

    fn inherit(&mut self, contexts: &Contexts, pieces: &[Piece]) {
        let mut before: Option<(u16, TrackId)> = None;
        for piece in pieces {
            let place = contexts.place(piece.node);
            let of_stack = &mut self.of_context[place];
            let first = of_stack.partition_point(|(known, _)| known.from < piece.from);
            let Some((_, track)) = of_stack[first..].iter_mut().find(|(known, _)| known == piece) else { continue };
            match before.filter(|(vcpu, _)| *vcpu == piece.vcpu && contexts.of(piece.node).is_any_thread_s) {
                Some((_, of_thread)) => *track = of_thread,
                None => before = Some((piece.vcpu, *track)),
            }
        }
    }

    /// The track that the stack belonged to at a tick. If two pieces meet there, `later` chooses the later one.
    pub(super) fn at(&self, place: usize, tick: u64, later: bool) -> Option<TrackId> {
        let pieces = &self.of_context[place];
        let before = pieces.partition_point(|(piece, _)| piece.from < tick || (later && piece.from == tick));
        Some(pieces.get(before.checked_sub(1)?)?.1)
    }

    /// The track that the stack belonged to while this vCPU was on it, at or up to the tick.
    pub(super) fn on(&self, place: usize, vcpu: u16, tick: u64) -> Option<TrackId> {
        let pieces = &self.of_context[place];
        let before = pieces.partition_point(|(piece, _)| piece.from <= tick);
        let on = |(piece, _): &&(Piece, TrackId)| piece.vcpu == vcpu && piece.to >= tick;
        pieces[..before].iter().rev().find(on).map(|(_, track)| *track)
    }

    /// The end of the piece that includes a tick, or of the last one before it.
    pub(super) fn left(&self, place: usize, tick: u64) -> Option<u64> {
        let pieces = &self.of_context[place];
        let before = pieces.partition_point(|(piece, _)| piece.from <= tick).checked_sub(1)?;
        Some(pieces[before].0.to)
    }

    /// The last time at which a CPU was on the stack.
    pub(super) fn left_for_good(&self, place: usize) -> Option<u64> {
        self.of_context[place].iter().map(|(piece, _)| piece.to).max()
    }

    /// Names each context after the track that it ran on most, so that the profile's paths begin with thread names.
    pub(super) fn name_contexts(&self, contexts: &mut Contexts, timeline: &Timeline) {
        for (context, pieces) in contexts.iter_mut().zip(&self.of_context) {
            let mostly = most(pieces.iter().map(|(piece, track)| (*track, piece.to - piece.from)));
            if let Some(track) = mostly.filter(|_| !context.is_any_thread_s && context.stage.is_none()) {
                timeline.names.get(timeline.tracks.get(track).name).clone_into(&mut context.name);
            }
        }
    }
}

/// The ticks at which new threads began, for each stack.
fn new_threads(calls: &Calls, symbols: &Symbols, contexts: &Contexts) -> Vec<Vec<u64>> {
    let mut begins = vec![Vec::new(); contexts.iter().len()];
    for span in calls.spans.iter().chain(&calls.open) {
        let node = calls.nodes[span.node as usize];
        let context = contexts.of(span.node);
        if context.bottom == node.parent && context.id >= NO_THREAD {
            let name = symbols.find(node.function).map(|place| place.name);
            if name.is_some_and(|name| NEW_THREAD.contains(&name)) {
                begins[contexts.place(span.node)].push(span.from);
            }
        }
    }
    begins.iter_mut().for_each(|ticks: &mut Vec<u64>| ticks.sort_unstable());
    begins
}

/// The track with most ticks.
fn most(votes: impl Iterator<Item = (TrackId, u64)>) -> Option<TrackId> {
    let mut sums: Vec<(TrackId, u64)> = Vec::new();
    for (track, ticks) in votes {
        match sums.iter_mut().find(|(known, _)| *known == track) {
            Some((_, sum)) => *sum += ticks,
            None => sums.push((track, ticks)),
        }
    }
    sums.into_iter().max_by_key(|(track, sum)| (*sum, std::cmp::Reverse(*track))).map(|(track, _)| track)
}
