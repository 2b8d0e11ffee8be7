//! Which time of a boot belongs to what is to be saved.

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
use timeline::{Ns, Profile, SpanId, Timeline, TrackId, Wait, WaitedOn};

/// Which time of a boot belongs to a target.
pub struct Meant<'a> {
    timeline: &'a Timeline,
    pub charger: Charger<'a>,
    pub segments: Segments,
    phases: Vec<Phase>,
    /// The boot's own tracks, each until which instant; from then on, and on all others, work is a blamed thread's.
    lineage: Vec<(TrackId, Ns)>,
    by: By,
}

enum By {
    /// Their labels, and what was found of each charge.
    Rows(HashSet<String>, RefCell<HashMap<Charge, bool>>),
    Under(Under),
}

/// What belongs to functions and to what they call.
struct Under {
    /// Of each span, whether it or one around it is meant.
    span: Vec<bool>,
    /// Of each span, how much of the time in which it was the innermost belongs to short calls that are meant; of each track,
    /// of the time in which no span was.
    share: Vec<f64>,
    of_track: Vec<f64>,
    /// Of each path of calls, the same.
    paths: Vec<Share>,
}

impl<'a> Meant<'a> {
    pub fn new(timeline: &'a Timeline, groups: &'a Groups, end: TrackId, target: &Target) -> Self {
        let charger = Charger::new(timeline, groups);
        let by = match target {
            Target::Rows(rows) => By::Rows(rows.iter().cloned().collect(), RefCell::default()),
            Target::Functions(functions) => By::Under(Under::new(timeline, &charger, functions)),
        };
        Meant {
            timeline,
            charger,
            segments: Segments::new(timeline),
            phases: phases(timeline),
            lineage: lineage(timeline, end),
            by,
        }
    }

    /// The time of the target on a boot path.
    pub fn on_path(&self, path: &BootPath) -> Ns {
        path.stretches.iter().map(|s| self.of_stretch(s)).sum()
    }

    /// What other rows were charged for while rows of the target were under way, most first.
    pub fn besides(&self, path: &BootPath) -> Vec<(String, Ns)> {
        let By::Rows(rows, _) = &self.by else { return Vec::new() };
        let own: HashSet<&str> = rows.iter().map(|row| row.split_once(" · ").map_or(row.as_str(), |r| r.0)).collect();
        let label = |base: u32| self.charger.label(Charge { base: BaseId(base), suffix: Suffix::None }, "");
        let is_own: Vec<bool> =
            (0..timeline::number(self.charger.bases.len())).map(|b| own.contains(label(b).as_str())).collect();
        let under = spans_under(self.timeline, |span| is_own[self.charger.base[span] as usize]);
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

    fn of_stretch(&self, s: &Stretch) -> Ns {
        let mut sum = Ns::ZERO;
        match &self.by {
            By::Rows(..) => self.rows(s.kind, s.from, s.to, &s.chain, |from, to, meant| {
                sum += if meant { to - from } else { Ns::ZERO };
            }),
            By::Under(under) => {
                let is_under = s.chain.iter().any(|frame| frame.span.is_some_and(|span| under.span[span.0 as usize]));
                let ran = matches!(s.kind, StretchKind::Running | StretchKind::Runqueue);
                let share = if is_under { 1.0 } else { under.share(s.owner()) * f64::from(u8::from(ran)) };
                sum = part(s.length(), share);
            }
        }
        sum
    }

    /// The time of the target on all threads.
    pub fn anywhere(&self) -> Ns {
        let mut sum = Ns::ZERO;
        self.every_piece(|piece, track, blamed| {
            self.of_piece(piece, track, blamed, |from, to, share| sum += part(to - from, share));
        });
        sum
    }

    pub fn every_piece(&self, mut each: impl FnMut(Segment, TrackId, bool)) {
        let end = total(self.timeline);
        for (track, _) in self.timeline.tracks.iter() {
            self.pieces(track, Ns::ZERO, end, |piece, blamed| each(piece, track, blamed));
        }
    }

    /// The pieces of a track, and whether each is a blamed thread's.
    fn pieces(&self, track: TrackId, from: Ns, to: Ns, mut each: impl FnMut(Segment, bool)) {
        let own_until = self.own_until(track);
        self.segments.within(track, from, to, |piece| {
            let cut = own_until.clamp(piece.from, piece.to);
            for (part, blamed) in [(Segment { to: cut, ..piece }, false), (Segment { from: cut, ..piece }, true)] {
                if part.from < part.to {
                    each(part, blamed);
                }
            }
        });
    }

    /// While the CPU is followed nobody is blamed, whatever it runs.
    fn own_until(&self, track: TrackId) -> Ns {
        let own = self.lineage.iter().find(|&&(own, _)| own == track).map_or(Ns::MIN, |&(_, until)| until);
        own.max(self.timeline.cpus_followed_until.unwrap_or(Ns::MIN))
    }

    /// What share of each part of a piece is meant.
    fn of_piece(&self, piece: Segment, track: TrackId, blamed: bool, mut each: impl FnMut(Ns, Ns, f64)) {
        let frame = Frame { track, span: piece.span };
        match &self.by {
            By::Under(under) => each(piece.from, piece.to, under.share(frame)),
            By::Rows(..) => {
                let whole = |from, to, meant| each(from, to, f64::from(u8::from(meant)));
                self.rows(StretchKind::Running, piece.from, piece.to, chain(&[frame; 2], blamed), whole);
            }
        }
    }

    /// What each path of calls has left when what is meant takes `factor` of its time: for itself, and in spans of it.
    pub fn scale(&self, profile: &mut Profile, factor: f64) {
        let By::Under(Under { paths, .. }) = &self.by else { return };
        if paths.is_empty() {
            return;
        }
        profile.scale(|path| match paths[path.index()] {
            Share { is_under: true, .. } => (factor, factor),
            Share { in_spans, .. } => (1.0, shortened(in_spans, factor)),
        });
    }

    /// Cuts a stretch where it is of another row, and says of each part whether that is meant.
    fn rows(&self, kind: StretchKind, from: Ns, to: Ns, chain: &[Frame], mut each: impl FnMut(Ns, Ns, bool)) {
        let By::Rows(rows, known) = &self.by else { return };
        let (charge, _) = self.charger.charge(kind, chain);
        if charge.base != BaseId::NOTHING {
            // Who is waited for because it has the CPU is made shorter where it runs.
            let label = |charge| self.charger.label(charge, "");
            let queued = Charge { suffix: Suffix::Runqueue, ..charge };
            let ran = charge.suffix == Suffix::None;
            let is_meant = || rows.contains(&label(charge)) || (ran && rows.contains(&label(queued)));
            let meant = *known.borrow_mut().entry(charge).or_insert_with(is_meant);
            return each(from, to, meant);
        }
        let mut at = from;
        by_phase(from, to, &self.phases, |phase, length| {
            let label = self.charger.label(charge, phase_name(&self.phases, phase));
            each(at, at + length, rows.contains(&label));
            at += length;
        });
    }
}

/// The chain of a piece: a blamed thread has somebody who waits for it.
pub fn chain(twice: &[Frame; 2], blamed: bool) -> &[Frame] {
    &twice[usize::from(!blamed)..]
}

impl Under {
    fn new(timeline: &Timeline, charger: &Charger, functions: &[String]) -> Under {
        let meant: HashSet<&String> = functions.iter().collect();
        let is_meant: Vec<bool> =
            charger.functions.iter().map(|&(n, d)| meant.contains(&joined(timeline, n, d))).collect();
        let span = spans_under(timeline, |span| is_meant[charger.function[span] as usize]);
        let Some(spread) = Spread::new(timeline) else {
            let of_track = vec![0.0; timeline.tracks.len()];
            let share = span.iter().map(|&under| f64::from(u8::from(under))).collect();
            return Under { span, share, of_track, paths: Vec::new() };
        };
        let paths = spread.share_of(|path| is_meant[charger.path_function[path.index()] as usize]);
        let of = |frame| spread.path(frame).map_or(0.0, |path| paths[path.index()].in_spans);
        let of_span = |i: usize| {
            let id = SpanId(timeline::number(i));
            if span[i] { 1.0 } else { of(Frame { track: timeline.spans.get(id).track, span: Some(id) }) }
        };
        let share = (0..span.len()).map(of_span).collect();
        let of_track = timeline.tracks.iter().map(|(track, _)| of(Frame { track, span: None })).collect();
        Under { span, share, of_track, paths }
    }

    /// Of the time of a frame that runs.
    fn share(&self, frame: Frame) -> f64 {
        frame.span.map_or(self.of_track[frame.track.0 as usize], |span| self.share[span.0 as usize])
    }
}

fn part(length: Ns, share: f64) -> Ns {
    if share == 1.0 { length } else { Ns::truncated(length.0 as f64 * share) }
}

/// What is left of something of which a share takes `factor` of its time.
fn shortened(share: f64, factor: f64) -> f64 {
    if share == 1.0 { factor } else { 1.0 - share * (1.0 - factor) }
}

/// Of each span, whether it or one around it is one of those.
fn spans_under(timeline: &Timeline, is_one: impl Fn(usize) -> bool) -> Vec<bool> {
    let mut under: Vec<bool> = Vec::with_capacity(timeline.spans.len());
    for i in 0..timeline.spans.len() {
        let around = timeline.spans.parent(SpanId(timeline::number(i))).is_some_and(|p| under[p.0 as usize]);
        under.push(around || is_one(i));
    }
    under
}

/// What is meant takes `factor` of its time.
pub struct Shrunk<'a> {
    pub meant: &'a Meant<'a>,
    pub factor: f64,
}

impl Shrink for Shrunk<'_> {
    fn running(&self, track: TrackId, from: Ns, to: Ns, each: &mut dyn FnMut(Ns, f64)) {
        self.meant.pieces(track, from, to, |piece, blamed| {
            self.meant.of_piece(piece, track, blamed, |from, _, share| each(from, shortened(share, self.factor)));
        });
    }

    fn waiting(&self, wait: &Wait) -> (f64, f64) {
        let span = self.meant.segments.waiting(wait);
        let factor = |meant| if meant { self.factor } else { 1.0 };
        match &self.meant.by {
            By::Under(under) => (1.0, factor(span.is_some_and(|span| under.span[span.0 as usize]))),
            By::Rows(..) => {
                let kind = match wait.by {
                    WaitedOn::Interrupt(name) => StretchKind::Interrupt(name),
                    WaitedOn::Holders(topic) => StretchKind::Topic(topic),
                    _ => StretchKind::Wait,
                };
                let frames = [Frame { track: wait.track, span }; 2];
                let chain = chain(&frames, wait.from >= self.meant.own_until(wait.track));
                let mut all = true;
                self.meant.rows(kind, wait.from, wait.from + Ns(1), chain, |_, _, meant| all &= meant);
                (factor(all), 1.0)
            }
        }
    }
}
