//! Places calls on the timeline: the longest as spans on tracks, all in the profile. Also derives which track ran on
//! each CPU.
//!
//! With a trace, the work on a stack goes to the thread that the trace shows on that CPU. Without one, each stack is a
//! track, and the CPU is followed from stack to stack. Time in which the CPU slept is a [wait](WaitedOn::Halted) of the
//! function that went to sleep.
//!
//! A boot has a million calls of about a microsecond. Only the longest [`SPANS_MAX`] become spans. Shorter calls are in
//! the profile. It also states how much of each path's time lies in spans of that path, so nothing is lost and nothing
//! is counted twice.

use crate::boot::followed::Followed;
use crate::boot::regions;
use crate::formats::calls::{Calls, Kind, PluginClock, Stretch};
use crate::readers::calls::contexts::{Context, Contexts, NO_THREAD};
use crate::readers::calls::pieces::{Overlap, Piece, awake, pieces};
use crate::readers::calls::placed::Placed;
use crate::readers::calls::profile::{self, Named, Rate};
use crate::readers::first_executions::first_calls::Runners;
use hashbrown::{HashMap, HashSet};
use std::cmp::Reverse;
use timeline::{
    DiagnosticKind, NameId, NodeId, Ns, Os, Phase, Running, SpanKind, SpanRow, TimedWaits, Timeline, TrackId,
    TrackKind, Wait, WaitedOn,
};

/// More spans are slow to draw and show nothing more.
const SPANS_MAX: usize = 100_000;
/// Largest error of a time on the host's clock: ticks are assumed to be even between two sync points.
const HOST_ERROR: Ns = Ns::from_us(5);
/// The last function that a Linux thread calls. It never returns.
const DEAD: &str = "do_task_dead";
const LOW: u64 = 1 << 20;

/// The result of placing calls.
#[derive(Clone, Debug, Default)]
pub(crate) struct Built {
    /// Process 1's track, if one of the stacks is known to be process 1's.
    pub init: Option<TrackId>,
    /// The track that user space ran on at the end mark, and the time of the end mark.
    pub end: Option<(Ns, TrackId)>,
    /// Error of the beginning of a step that is known from its first span: shorter calls have no span.
    pub error: Ns,
}

/// Places calls on the timeline, after the trace. `boot` is the kernel's first thread.
pub(crate) fn build(followed: &Followed, boot: TrackId, timeline: &mut Timeline) -> Built {
    let Followed { calls, symbols, regions, .. } = followed;
    let mut contexts = Contexts::new(followed);
    let last = calls.last_tick();
    let until = profile::end(calls).min(last);
    let pieces = pieces(calls, last);
    let tracks = tracks(&contexts, boot, timeline);
    let runners = (!timeline.running.is_empty()).then(|| Runners::new(&timeline.running));
    let placed = Placed::new(calls, symbols, &contexts, &pieces, &tracks, runners.as_ref());
    placed.name_contexts(&mut contexts, timeline);
    let named = profile::timed_profile(followed, until, &contexts, &mut timeline.names);
    timeline.decompressor = Some(timeline.names.intern(&regions::decompressing(&followed.compression)));
    let mut builder = Builder { calls, contexts: &contexts, placed, named, timeline };
    let spans = builder.longest(last, until);
    let awake = awake(&pieces, &calls.idle);
    builder.in_spans(&spans, &awake, until);
    builder.spans(&spans);
    builder.running(&awake);
    let error = if calls.clock == PluginClock::Virtual { Ns::ZERO } else { HOST_ERROR };
    if regions.is_empty() {
        builder.kernel_begins(&pieces, error);
    }
    let init = contexts.iter().position(|context| context.id == 1).map(|place| tracks[place]);
    if init.is_some() && !builder.timeline.os.is_known() {
        builder.timeline.os = Os::Linux; // process 1 was recognised by its name in Linux
    }
    let end = builder.end(until);
    timeline.profile = builder.named.profile;
    let ticks = calls.min_call_ticks.min(1 << 40);
    let shortest = Ns::truncated(ticks as f64 * 1e9 / calls.ticks_per_second.max(1) as f64);
    Built { init, end, error: error.max(shortest) }
}

/// The track of each context, for when the trace does not show which thread used the stack.
fn tracks(contexts: &Contexts, boot: TrackId, timeline: &mut Timeline) -> Vec<TrackId> {
    let mut track = |context: &Context| {
        let name = timeline.names.intern(&context.name);
        let known = match (context.kind, context.id) {
            (TrackKind::Thread, 0) => Some(boot),
            (kind, id) if id < NO_THREAD => timeline.tracks.find(kind, id),
            _ => None,
        };
        let track = known.unwrap_or_else(|| timeline.tracks.add(name, context.kind, context.id));
        let known = timeline.tracks.get_mut(track);
        if std::mem::take(&mut known.is_unnamed) {
            known.name = name;
        }
        track
    };
    contexts.iter().map(&mut track).collect()
}

struct Builder<'a> {
    calls: &'a Calls,
    contexts: &'a Contexts,
    placed: Placed,
    named: Named,
    timeline: &'a mut Timeline,
}

impl Builder<'_> {
    /// The longest calls, which include all initcalls and calls that did not return. They are sorted by stack, then
    /// time, outer ones first. Calls after the end mark come last in the choice: how long a machine runs on after it
    /// varies by chance. Memory grows with the result only, because the file may have every call of a boot.
    fn longest(&self, last: u64, until: u64) -> Vec<Stretch> {
        let under_way = self.under_way(last);
        let is_call = |s: &&Stretch| self.named.node[s.node as usize].is_some() && !self.named.is_part[s.node as usize];
        let all = || self.calls.spans.iter().chain(&under_way).filter(is_call);
        let deaths = self.deaths(all());
        let is_initcall = |s: &Stretch| {
            let id = self.named.node[s.node as usize];
            id.is_some_and(|id| self.named.profile.get(id).kind == SpanKind::Initcall)
        };
        let length = |s: &Stretch| s.to.min(until.max(s.from)) - s.from;
        let rank = |s: &Stretch| (s.from >= until, !is_initcall(s), Reverse(length(s)), s.from, s.node);
        let mut longest = Foremost::new(SPANS_MAX, rank);
        all().for_each(|s| longest.add(Stretch { to: end_at_death(s, self.contexts.place(s.node), &deaths), ..*s }));
        let mut longest = longest.into_vec();
        longest.sort_by_key(|s| (self.contexts.place(s.node), s.from, Reverse(s.to), s.node));
        longest.dedup_by_key(|s| (s.node, s.from));
        longest
    }

    /// The calls without a recorded return. They last until `last`, unless [`Self::end_by_leaving`] gives an earlier
    /// end.
    fn under_way(&self, last: u64) -> Vec<Stretch> {
        let mut open: HashMap<(u32, u64), &Stretch> = self.calls.open.iter().map(|s| ((s.node, s.from), s)).collect();
        self.calls.spans.iter().for_each(|s| _ = open.remove(&(s.node, s.from)));
        open.into_values().map(|s| Stretch { to: self.end_by_leaving(s).unwrap_or(last).max(s.to), ..*s }).collect()
    }

    /// The end of a call that never returns: when its stack was left for the last time. This is the case for code that
    /// runs before the kernel, and for the code that starts a CPU, which is all the kernel code below 1 MiB.
    fn end_by_leaving(&self, call: &Stretch) -> Option<u64> {
        let starts_cpu = (1..LOW).contains(&self.calls.nodes[call.node as usize].function);
        let before_the_kernel = self.contexts.of(call.node).stage.is_some();
        (starts_cpu || before_the_kernel).then(|| self.placed.left_for_good(self.contexts.place(call.node))).flatten()
    }

    /// The calls in which threads died, sorted by stack and time.
    fn deaths<'s>(&self, all: impl Iterator<Item = &'s Stretch>) -> Vec<Death> {
        let Some(dead) = self.timeline.names.find(DEAD) else { return Vec::new() };
        let name = |s: &Stretch| self.named.node[s.node as usize].map(|id| self.named.profile.get(id).name);
        let death = |s: &Stretch| {
            let place = self.contexts.place(s.node);
            let left = self.placed.left(place, s.from).unwrap_or(s.to).clamp(s.from, s.to);
            Death { place, from: s.from, to: s.to, left }
        };
        let mut deaths: Vec<Death> = all.filter(|s| name(s) == Some(dead)).map(death).collect();
        deaths.sort_unstable();
        deaths
    }

    /// Adds to each path of the profile the time in which a span of that path was the innermost on its stack.
    fn in_spans(&mut self, spans: &[Stretch], awake: &[Piece], until: u64) {
        let rate = Rate::until(self.calls, until);
        let mut of_context: Vec<Vec<Piece>> = vec![Vec::new(); self.contexts.iter().len()];
        for piece in awake.iter().filter(|piece| piece.from < until) {
            of_context[self.contexts.place(piece.node)].push(Piece { to: piece.to.min(until), ..*piece });
        }
        of_context.iter_mut().for_each(|pieces| pieces.sort_by_key(|piece| piece.from));
        let mut alone: Vec<u64> = of_context.iter().map(|ps| ps.iter().map(|p| p.to - p.from).sum()).collect();
        for of_stack in spans.chunk_by(|a, b| self.contexts.place(a.node) == self.contexts.place(b.node)) {
            let place = self.contexts.place(of_stack[0].node);
            let mut overlap = Overlap::new(&of_context[place]);
            innermost(of_stack, |node, from, to| {
                let ticks = overlap.of(from, to);
                alone[place] = alone[place].saturating_sub(ticks);
                self.spent_in_spans(node, ticks, rate);
            });
        }
        let bottoms: Vec<u32> = self.contexts.iter().map(|context| context.bottom).collect();
        for (bottom, ticks) in bottoms.into_iter().zip(alone) {
            self.spent_in_spans(bottom, ticks, rate);
        }
    }

    fn spent_in_spans(&mut self, node: u32, ticks: u64, rate: Rate) {
        let ns = if self.calls.clock == PluginClock::Virtual { ticks } else { rate.ns(ticks) };
        if let Some(id) = self.named.node[node as usize] {
            // Time without an open span counts for the bottom of the stack.
            let profile = &mut self.named.profile;
            let is_bottom = self.calls.nodes[node as usize].parent == 0;
            let bottom = profile.get(id).parent.filter(|_| is_bottom);
            profile.add_in_spans(bottom.unwrap_or(id), ns);
        }
    }

    fn spans(&mut self, spans: &[Stretch]) {
        let traced = self.timeline.spans.iter().any(|(_, span)| span.kind == SpanKind::Initcall);
        let initcall = self.timeline.names.intern("initcall");
        self.timeline.spans.reserve(spans.len());
        for span in spans {
            let Some(id) = self.named.node[span.node as usize] else { continue };
            let (place, node) = (self.contexts.place(span.node), self.named.profile.get(id));
            let (from, to) = (self.placed.at(place, span.from, true), self.placed.at(place, span.to, false));
            let track = match (from, to) {
                (Some(from), Some(to)) if from != to && self.contexts.of(span.node).id >= NO_THREAD => {
                    let took = self.calls.at(span.to) - self.calls.at(span.from);
                    self.timeline
                        .diagnostics
                        .note_time(DiagnosticKind::CallOnTwoStacks, took, || format!("tick {}", span.to));
                    continue;
                }
                (from, to) => from.or(to),
            };
            let Some(track) = track else { continue };
            let (name, detail) = match node.kind {
                SpanKind::Initcall if !traced => (initcall, node.name),
                _ => (node.name, NameId::EMPTY),
            };
            let kind = if traced && node.kind == SpanKind::Initcall { SpanKind::Call } else { node.kind };
            let (start, end) = (self.calls.at(span.from), self.calls.at(span.to));
            let pushed = self.timeline.spans.push(SpanRow { name, detail, start, end, track, kind }, None);
            self.timeline.spans.set_node(pushed, Some(id));
        }
        match traced {
            true => self.initcalls_are_calls(),
            false => self.note_short_initcalls(spans),
        }
    }

    /// Initcalls that returned too quickly to have a span are counted. They are in no list.
    fn note_short_initcalls(&mut self, spans: &[Stretch]) {
        let drawn: HashSet<NodeId> = spans.iter().filter_map(|span| self.named.node[span.node as usize]).collect();
        let initcalls = self.named.profile.nodes().filter(|(_, node)| node.kind == SpanKind::Initcall);
        let short = initcalls.filter(|(id, _)| !drawn.contains(id)).count() as u64;
        if short > 0 {
            self.timeline.diagnostics.note_many(DiagnosticKind::InitcallsTooShort, short, String::new);
        }
    }

    /// Initcalls of the trace are more exact, so those of the profile become plain calls.
    fn initcalls_are_calls(&mut self) {
        let profile = &mut self.named.profile;
        let initcalls: Vec<_> = profile.nodes().filter(|(_, node)| node.kind == SpanKind::Initcall).collect();
        initcalls.into_iter().for_each(|(id, _)| profile.set_kind(id, SpanKind::Call));
    }

    /// Adds which track ran on each CPU, up to where the trace begins.
    fn running(&mut self, pieces: &[Piece]) {
        let traced_from = self.timeline.running.iter().map(|r| r.from).min();
        let until = traced_from.unwrap_or(Ns::MAX);
        let mut before: HashMap<u16, TrackId> = HashMap::new();
        for piece in pieces {
            let track = self.placed.at(self.contexts.place(piece.node), piece.from, true);
            let (from, to) = (self.calls.at(piece.from), self.calls.at(piece.to).min(until));
            if let Some(track) = track.filter(|_| from < to) {
                self.timeline.running.push(Running { track, cpu: piece.vcpu.into(), from, to });
                let before = before.insert(piece.vcpu, track).filter(|before| *before != track);
                self.begins(track, from, before);
            }
        }
        self.timed_waits();
        for sleep in &self.calls.idle {
            let track = self.placed.at(self.contexts.place(sleep.node), sleep.from, true);
            let (from, to) = (self.calls.at(sleep.from), self.calls.at(sleep.to).min(until));
            if let Some(track) = track.filter(|_| from < to) {
                self.timeline.waits.push(Wait {
                    track,
                    from,
                    woken: to,
                    until: to,
                    by: WaitedOn::Halted,
                    uninterruptible: false,
                });
            }
        }
        self.timeline.cpus_followed_until = Some(until);
    }

    /// Older recordings have the waits of a deterministic boot only here. If there are several CPUs, one may sleep while
    /// another runs, and nothing shows when all slept.
    fn timed_waits(&mut self) {
        let is_known = self.calls.clock == PluginClock::Virtual && self.calls.vcpus == 1;
        if is_known && self.timeline.timed_waits.is_none() {
            let slept = self.calls.idle.iter().map(|sleep| (self.calls.at(sleep.from), self.calls.at(sleep.to)));
            self.timeline.timed_waits = Some(TimedWaits::new(slept.collect()));
        }
    }

    /// Firmware and the kernel's first thread are created by the track that their CPU ran before.
    fn begins(&mut self, track: TrackId, at: Ns, before: Option<TrackId>) {
        let track = self.timeline.tracks.get_mut(track);
        let is_first = track.kind == TrackKind::Firmware || (track.kind == TrackKind::Thread && track.id == 0);
        if is_first && track.created.is_none() {
            track.created = before.map(|before| (at, before));
        }
    }

    /// Sets the beginnings of the boot and of the kernel, for a boot without evidence of the stages before the kernel.
    fn kernel_begins(&mut self, pieces: &[Piece], error: Ns) {
        let first = |of: &dyn Fn(&Piece) -> bool| pieces.iter().filter(|p| of(p)).map(|p| self.calls.at(p.from)).min();
        let (any, kernel) = (first(&|_| true), first(&|p| self.contexts.of(p.node).id == 0));
        if let Some(at) = any {
            self.timeline.boundary(Phase::BeforeTheKernel, at, error, "calls: the first instruction");
        }
        if let Some(at) = kernel {
            self.timeline.boundary(Phase::EarlyKernel, at, error, "calls: the kernel's own stack");
        }
    }

    /// The time at which user space first wrote to a port, and the track that it ran on.
    fn end(&self, until: u64) -> Option<(Ns, TrackId)> {
        let mark = self.calls.marks.iter().find(|mark| mark.at == until)?;
        let is_user = |context: &&Context| self.calls.nodes[context.bottom as usize].kind == Kind::User;
        let mut places = self.contexts.iter().filter(is_user).map(|user| self.contexts.place(user.bottom));
        let track = places.find_map(|place| self.placed.on(place, mark.vcpu, until))?;
        Some((self.calls.at(until), track))
    }
}

/// A call in which a thread died. The call's stretch ends at `to` in the file; the thread's stack was left at `left`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Death {
    place: usize,
    from: u64,
    to: u64,
    left: u64,
}

/// A dead thread does not return. All calls that it was in end when its stack is left for the last time, and not later,
/// when another thread has that stack.
fn end_at_death(s: &Stretch, place: usize, deaths: &[Death]) -> u64 {
    let next = deaths.partition_point(|death| (death.place, death.from) < (place, s.from));
    let around = deaths.get(next).filter(|death| death.place == place && death.to <= s.to);
    let within = || deaths[..next].last().filter(|death| death.place == place && s.from < death.left);
    around.or_else(within).map_or(s.to, |death| s.to.min(death.left))
}

/// Keeps the `most` items with the lowest rank. All ranks are different.
struct Foremost<T, F> {
    most: usize,
    rank: F,
    kept: Vec<T>,
}

impl<T, R: Ord, F: Fn(&T) -> R> Foremost<T, F> {
    fn new(most: usize, rank: F) -> Self {
        Foremost { most, rank, kept: Vec::new() }
    }

    /// Takes constant time on average: when `kept` has twice as many items as needed, the worse half is dropped.
    fn add(&mut self, thing: T) {
        self.kept.push(thing);
        if self.kept.len() >= 2 * self.most.max(1) {
            self.cut();
        }
    }

    fn cut(&mut self) {
        if self.kept.len() > self.most {
            self.kept.select_nth_unstable_by_key(self.most, &self.rank);
            self.kept.truncate(self.most);
        }
    }

    fn into_vec(mut self) -> Vec<T> {
        self.cut();
        self.kept
    }
}

/// Calls `each` with the innermost span and its stretch of time, for spans of one stack that are sorted by time with
/// outer ones first.
fn innermost(spans: &[Stretch], mut each: impl FnMut(u32, u64, u64)) {
    let mut open: Vec<(u32, u64)> = Vec::new();
    let mut cursor = 0;
    let mut close = |open: &mut Vec<(u32, u64)>, cursor: &mut u64, until: u64| {
        while let Some(&(node, to)) = open.last().filter(|(_, to)| *to <= until) {
            if *cursor < to {
                each(node, *cursor, to);
                *cursor = to;
            }
            open.pop();
        }
        if let Some(&(node, _)) = open.last().filter(|_| *cursor < until && until != u64::MAX) {
            each(node, *cursor, until);
        }
        *cursor = until;
    };
    for span in spans {
        close(&mut open, &mut cursor, span.from);
        let around = open.last().map_or(u64::MAX, |(_, to)| *to);
        open.push((span.node, span.to.min(around)));
    }
    close(&mut open, &mut cursor, u64::MAX);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_ranks_are_kept_in_any_order_of_input() {
        let mut foremost = Foremost::new(3, |n: &u32| *n);
        (0..100).map(|i| i * 37 % 101).for_each(|n| foremost.add(n));
        let mut kept = foremost.into_vec();
        kept.sort_unstable();
        assert_eq!(kept, [0, 1, 2]);
    }

    #[test]
    fn the_innermost_span_has_the_time() {
        let span = |node, from, to| Stretch { node, vcpu: 0, from, to };
        let mut got = Vec::new();
        let spans = [span(1, 0, 100), span(2, 10, 40), span(3, 20, 30), span(4, 40, 120), span(5, 200, 210)];
        innermost(&spans, |node, from, to| got.push((node, from, to)));
        let expected = [(1, 0, 10), (2, 10, 20), (3, 20, 30), (2, 30, 40), (4, 40, 100), (5, 200, 210)];
        assert_eq!(got, expected);
    }
}
