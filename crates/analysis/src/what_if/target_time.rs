//! The time of a boot that belongs to the target of a saving.

use super::Target;
use crate::Groups;
use crate::chain::Frame;
use crate::charge::{BaseId, Charge, Charger, Suffix, joined};
use crate::path::lineage;
use crate::phases::{Phase, phases};
use crate::replay::Shrink;
use crate::segments::{Segment, Segments};
use crate::spread::{Share, Spread};
use crate::stretch::{BootPath, Stretch, StretchKind};
use crate::tables::{by_phase, phase_name};
use crate::total;
use hashbrown::{HashMap, HashSet};
use std::cell::RefCell;
use timeline::{Cost, Ns, Profile, SpanId, Timeline, TrackId, Wait, WaitedOn};

/// The time of a boot that belongs to a target.
pub struct TargetTime<'a> {
    timeline: &'a Timeline,
    pub charger: Charger<'a>,
    pub segments: Segments,
    phases: Vec<Phase>,
    /// The tracks of the boot itself, each with the instant until which the path is on it. After that, and on all other
    /// tracks, work is that of a blamed thread.
    lineage: Vec<(TrackId, Ns)>,
    selection: Selection,
}

enum Selection {
    /// The rows' labels, and the answer for each charge that was looked up.
    Rows(HashSet<String>, RefCell<HashMap<Charge, bool>>),
    Functions(UnderFunctions),
}

/// The time that belongs to functions and to what they call.
struct UnderFunctions {
    /// For each span: true if it or a span around it belongs to the target.
    span: Vec<bool>,
    /// For each span, the share of the time in which it was the innermost that belongs to short calls of the target.
    /// `track_shares` has the same for the time of each track without a span.
    span_shares: Vec<f64>,
    track_shares: Vec<f64>,
    /// The same for each call path.
    paths: Vec<Share>,
}

impl<'a> TargetTime<'a> {
    pub fn new(timeline: &'a Timeline, groups: &'a Groups, end: TrackId, target: &Target) -> Self {
        let charger = Charger::new(timeline, groups);
        let selection = match target {
            Target::Rows(rows) => Selection::Rows(rows.iter().cloned().collect(), RefCell::default()),
            Target::Functions(functions) => Selection::Functions(UnderFunctions::new(timeline, &charger, functions)),
        };
        TargetTime {
            timeline,
            charger,
            segments: Segments::new(timeline),
            phases: phases(timeline),
            lineage: lineage(timeline, end),
            selection,
        }
    }

    /// Returns the target's time on a boot path.
    pub fn on_path(&self, path: &BootPath) -> Cost {
        path.stretches.iter().map(|s| self.time_in_stretch(s)).sum()
    }

    /// Returns the rows that were charged while rows of the target were on a stack, longest first.
    pub fn besides(&self, path: &BootPath) -> Vec<(String, Ns)> {
        let Selection::Rows(rows, _) = &self.selection else { return Vec::new() };
        let target_bases: HashSet<&str> =
            rows.iter().map(|row| row.split_once(" · ").map_or(row.as_str(), |r| r.0)).collect();
        let label = |base: u32| self.charger.label(Charge { base: BaseId(base), suffix: Suffix::None }, "");
        let is_target_base: Vec<bool> =
            (0..timeline::number(self.charger.bases.len())).map(|b| target_bases.contains(label(b).as_str())).collect();
        let under = spans_under(self.timeline, |span| is_target_base[self.charger.base[span] as usize]);
        let mut besides: HashMap<String, Ns> = HashMap::new();
        for s in &path.stretches {
            if s.chain.iter().any(|frame| frame.span.is_some_and(|span| under[span.0 as usize])) {
                let phase = self.phases.iter().find(|p| p.end > s.from).map_or("", |p| p.name.as_str());
                let label = self.charger.label(self.charger.charge(s.kind, &s.chain).0, phase);
                if !rows.contains(&label) {
                    *besides.entry(label).or_default() += s.length();
                }
            }
        }
        let mut besides: Vec<(String, Ns)> = besides.into_iter().collect();
        besides.sort_unstable_by(|a, b| (b.1, &a.0).cmp(&(a.1, &b.0)));
        besides
    }

    fn time_in_stretch(&self, s: &Stretch) -> Cost {
        let mut sum = Cost::ZERO;
        match &self.selection {
            Selection::Rows(..) => self.cut_by_row(s.kind, s.from, s.to, &s.chain, |from, to, is_target| {
                let cost = || self.timeline.cost_on(s.owner().track, from, to);
                sum += if is_target { cost() } else { Cost::ZERO };
            }),
            Selection::Functions(under) => {
                let is_under = s.chain.iter().any(|frame| frame.span.is_some_and(|span| under.span[span.0 as usize]));
                let ran = matches!(s.kind, StretchKind::Running | StretchKind::Runqueue);
                let share = if is_under { 1.0 } else { under.share(s.owner()) * f64::from(u8::from(ran)) };
                let Cost { length, waited } = s.cost(self.timeline);
                sum = Cost { length: part(length, share), waited: part(waited, share) };
            }
        }
        sum
    }

    /// Returns the target's time on all threads.
    pub fn on_all_threads(&self) -> Ns {
        let mut sum = Ns::ZERO;
        self.every_piece(|piece, track, blamed| {
            self.cut_piece(piece, track, blamed, |from, to, share| sum += part(to - from, share));
        });
        sum
    }

    pub fn every_piece(&self, mut each: impl FnMut(Segment, TrackId, bool)) {
        let end = total(self.timeline);
        for (track, _) in self.timeline.tracks.iter() {
            self.pieces(track, Ns::ZERO, end, |piece, blamed| each(piece, track, blamed));
        }
    }

    /// Passes on the pieces of a track, each with true if it is a blamed thread's.
    fn pieces(&self, track: TrackId, from: Ns, to: Ns, mut each: impl FnMut(Segment, bool)) {
        let path_until = self.path_until(track);
        self.segments.within(track, from, to, |piece| {
            let cut = path_until.clamp(piece.from, piece.to);
            for (part, blamed) in [(Segment { to: cut, ..piece }, false), (Segment { from: cut, ..piece }, true)] {
                if part.from < part.to {
                    each(part, blamed);
                }
            }
        });
    }

    /// While the walk follows the CPU, no thread is blamed, whatever the CPU runs.
    fn path_until(&self, track: TrackId) -> Ns {
        let track_until = self.lineage.iter().find(|&&(own, _)| own == track).map_or(Ns::MIN, |&(_, until)| until);
        track_until.max(self.timeline.cpus_followed_until.unwrap_or(Ns::MIN))
    }

    /// Passes on the parts of a piece, each with the share that belongs to the target.
    fn cut_piece(&self, piece: Segment, track: TrackId, blamed: bool, mut each: impl FnMut(Ns, Ns, f64)) {
        let frame = Frame { track, span: piece.span };
        match &self.selection {
            Selection::Functions(under) => each(piece.from, piece.to, under.share(frame)),
            Selection::Rows(..) => {
                let whole = |from, to, is_target| each(from, to, f64::from(u8::from(is_target)));
                self.cut_by_row(StretchKind::Running, piece.from, piece.to, chain(&[frame; 2], blamed), whole);
            }
        }
    }

    /// Scales a profile for the target taking `factor` of its time: each path's own time, and the time in its spans.
    pub fn scale(&self, profile: &mut Profile, factor: f64) {
        let Selection::Functions(UnderFunctions { paths, .. }) = &self.selection else { return };
        if paths.is_empty() {
            return;
        }
        profile.scale(|path| match paths[path.index()] {
            Share { is_under: true, .. } => (factor, factor),
            Share { in_spans, .. } => (1.0, shortened(in_spans, factor)),
        });
    }

    /// Cuts a stretch where its row changes. Passes on each part, with true if it belongs to the target.
    fn cut_by_row(&self, kind: StretchKind, from: Ns, to: Ns, chain: &[Frame], mut each: impl FnMut(Ns, Ns, bool)) {
        let Selection::Rows(rows, answers) = &self.selection else { return };
        let (charge, _) = self.charger.charge(kind, chain);
        if charge.base != BaseId::NOTHING {
            // A thread that others wait for because it has the CPU is made shorter where it runs.
            let label = |charge| self.charger.label(charge, "");
            let queued = Charge { suffix: Suffix::Runqueue, ..charge };
            let ran = charge.suffix == Suffix::None;
            let is_in_target = || rows.contains(&label(charge)) || (ran && rows.contains(&label(queued)));
            let in_target = *answers.borrow_mut().entry(charge).or_insert_with(is_in_target);
            return each(from, to, in_target);
        }
        by_phase(from, to, &self.phases, |phase, from, to| {
            let label = self.charger.label(charge, phase_name(&self.phases, phase));
            each(from, to, rows.contains(&label));
        });
    }
}

/// Returns the chain of a piece. For a blamed thread the chain has a waiter.
pub fn chain(frames: &[Frame; 2], blamed: bool) -> &[Frame] {
    &frames[usize::from(!blamed)..]
}

impl UnderFunctions {
    fn new(timeline: &Timeline, charger: &Charger, functions: &[String]) -> UnderFunctions {
        let names: HashSet<&String> = functions.iter().collect();
        let is_in_target: Vec<bool> =
            charger.functions.iter().map(|&(n, d)| names.contains(&joined(timeline, n, d))).collect();
        let span = spans_under(timeline, |span| is_in_target[charger.function[span] as usize]);
        let Some(spread) = Spread::new(timeline) else {
            let track_shares = vec![0.0; timeline.tracks.len()];
            let span_shares = span.iter().map(|&under| f64::from(u8::from(under))).collect();
            return UnderFunctions { span, span_shares, track_shares, paths: Vec::new() };
        };
        let paths = spread.share_of(|path| is_in_target[charger.path_function[path.index()] as usize]);
        let share_of = |frame| spread.path(frame).map_or(0.0, |path| paths[path.index()].in_spans);
        let span_share = |i: usize| {
            let id = SpanId(timeline::number(i));
            if span[i] { 1.0 } else { share_of(Frame { track: timeline.spans.get(id).track, span: Some(id) }) }
        };
        let span_shares = (0..span.len()).map(span_share).collect();
        let track_shares = timeline.tracks.iter().map(|(track, _)| share_of(Frame { track, span: None })).collect();
        UnderFunctions { span, span_shares, track_shares, paths }
    }

    /// Returns the target's share of a running frame's time.
    fn share(&self, frame: Frame) -> f64 {
        frame.span.map_or(self.track_shares[frame.track.0 as usize], |span| self.span_shares[span.0 as usize])
    }
}

fn part(length: Ns, share: f64) -> Ns {
    if share == 1.0 { length } else { Ns::truncated(length.0 as f64 * share) }
}

/// Returns what is left if this share takes `factor` of its time.
fn shortened(share: f64, factor: f64) -> f64 {
    if share == 1.0 { factor } else { 1.0 - share * (1.0 - factor) }
}

/// Returns true for each span that matches or that lies in one that does.
fn spans_under(timeline: &Timeline, is_one: impl Fn(usize) -> bool) -> Vec<bool> {
    let mut under: Vec<bool> = Vec::with_capacity(timeline.spans.len());
    for i in 0..timeline.spans.len() {
        let around = timeline.spans.parent(SpanId(timeline::number(i))).is_some_and(|p| under[p.0 as usize]);
        under.push(around || is_one(i));
    }
    under
}

/// A replay input: the target takes `factor` of its time.
pub struct Shrunk<'a> {
    pub target: &'a TargetTime<'a>,
    pub factor: f64,
}

impl Shrink for Shrunk<'_> {
    fn running(&self, track: TrackId, from: Ns, to: Ns, each: &mut dyn FnMut(Ns, f64)) {
        self.target.pieces(track, from, to, |piece, blamed| {
            self.target.cut_piece(piece, track, blamed, |from, _, share| each(from, shortened(share, self.factor)));
        });
    }

    fn waiting(&self, wait: &Wait) -> (f64, f64) {
        let span = self.target.segments.waiting(wait);
        let factor = |target| if target { self.factor } else { 1.0 };
        match &self.target.selection {
            Selection::Functions(under) => (1.0, factor(span.is_some_and(|span| under.span[span.0 as usize]))),
            Selection::Rows(..) => {
                let kind = match wait.by {
                    WaitedOn::Interrupt(name) => StretchKind::Interrupt(name),
                    WaitedOn::Holders(topic) => StretchKind::Topic(topic),
                    _ => StretchKind::Wait,
                };
                let frames = [Frame { track: wait.track, span }; 2];
                let chain = chain(&frames, wait.from >= self.target.path_until(wait.track));
                let mut all_in_target = true;
                self.target
                    .cut_by_row(kind, wait.from, wait.from + Ns(1), chain, |_, _, target| all_in_target &= target);
                (factor(all_in_target), 1.0)
            }
        }
    }
}
