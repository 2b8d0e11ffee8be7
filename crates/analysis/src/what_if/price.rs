//! The savings of a boot if stretches of its threads' time were shorter.
//!
//! As with a [`super::Saving`], nothing is subtracted: the boot is replayed. Stretches instead of names define here
//! what becomes shorter. So code that finds stretches in the evidence need not describe them in words.

use super::{Cannot, allowed};
use crate::path::boot_path;
use crate::replay::{Replay, Shared, Shrink};
use crate::segments::Segments;
use crate::total;
use hashbrown::HashMap;
use std::collections::BTreeMap;
use std::sync::OnceLock;
use timeline::{Ns, Timeline, TrackId, Wait, WaitedOn};

/// A stretch of a track's time that becomes shorter: the work in it, and every wait that began in it. A wait that
/// another thread ended still lasts until that thread gets there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cut {
    /// The thread whose time it is.
    pub track: TrackId,
    pub from: Ns,
    pub to: Ns,
    /// The part of it that is left, 0 to 1.
    pub left: f64,
    /// True if another thread does the work beside this one: waits for other threads in it become shorter too.
    pub beside: bool,
}

/// The boots to try cuts on: the recorded one, and the others that its log allows. The others are made on first use,
/// because each is a whole timeline, and most boots have nothing to price.
pub struct Prices<'a> {
    timeline: &'a Timeline,
    end: TrackId,
    segments: OnceLock<Segments>,
    /// Data for all replays of the recorded boot.
    shared: Shared,
    allowed: OnceLock<Vec<(Timeline, Shared)>>,
}

impl<'a> Prices<'a> {
    /// The timeline must be finalized.
    ///
    /// # Errors
    /// [`Cannot::NoPath`], [`Cannot::NoWaits`].
    pub fn new(timeline: &'a Timeline) -> Result<Prices<'a>, Cannot> {
        let end = timeline.end.and_then(|end| end.track).ok_or(Cannot::NoPath)?;
        if timeline.cpus_followed_until == Some(Ns::MAX) {
            return Err(Cannot::NoWaits);
        }
        Ok(Prices { timeline, end, segments: OnceLock::new(), shared: Shared::default(), allowed: OnceLock::new() })
    }

    /// Returns the reduction of the recorded boot's length. `O(n log n)` in the number of spans.
    pub fn saved(&self, cuts: &[Cut]) -> Ns {
        self.saved_in(self.timeline, &self.shared, &Cuts::new(cuts))
    }

    /// Returns the reduction of the recorded boot's timed waits. It also walks the boot path, so it takes several times
    /// as long as [`Prices::saved`].
    pub fn saved_waits(&self, cuts: &[Cut]) -> Ns {
        if self.timeline.timed_waits.is_none() {
            return Ns::ZERO;
        }
        let segments = self.segments.get_or_init(|| Segments::new(self.timeline));
        let replay = Replay::new(self.timeline, self.end, segments, &self.shared, &Cuts::new(cuts));
        let waited = |boot: &Timeline| boot_path(boot).cost(boot).waited;
        waited(self.timeline) - waited(&replay.timeline(self.end))
    }

    /// Returns the least and the most that the cuts save in any boot that the log allows. `recorded` is their saving in
    /// the recorded boot.
    pub fn saved_in_any(&self, cuts: &[Cut], recorded: Ns) -> (Ns, Ns) {
        let cuts = Cuts::new(cuts);
        let with_shared = |boot| (boot, Shared::default());
        let allowed = self.allowed.get_or_init(|| allowed::boots(self.timeline).into_iter().map(with_shared).collect());
        let others = allowed.iter().map(|(boot, shared)| self.saved_in(boot, shared, &cuts));
        others.fold((recorded, recorded), |(low, high), saved| (low.min(saved), high.max(saved)))
    }

    /// The other boots differ only in when threads were ready, not in their spans. Therefore the segments serve them
    /// too.
    fn saved_in(&self, boot: &Timeline, shared: &Shared, cuts: &Cuts) -> Ns {
        let Some(end) = boot.end else { return Ns::ZERO };
        let segments = self.segments.get_or_init(|| Segments::new(self.timeline));
        total(boot) - Replay::new(boot, self.end, segments, shared, cuts).time(self.end, end.at)
    }
}

/// Cuts in the form that a replay needs: for each track, stretches that do not overlap, by their start. Where several
/// cuts overlap, the one that leaves least counts.
pub(super) struct Cuts {
    by_track: HashMap<TrackId, BTreeMap<Ns, Piece>>,
    /// The start of the first cut.
    first: Ns,
}

/// A stretch without its start.
#[derive(Clone, Copy)]
struct Piece {
    end: Ns,
    left: f64,
    beside: bool,
}

impl Cuts {
    pub(super) fn new(cuts: &[Cut]) -> Cuts {
        let mut sorted: Vec<Cut> = cuts.iter().copied().filter(|cut| cut.from < cut.to).collect();
        sorted.sort_by(|a, b| (a.left.total_cmp(&b.left)).then(a.from.cmp(&b.from)));
        let mut by_track: HashMap<TrackId, BTreeMap<Ns, Piece>> = HashMap::new();
        for cut in sorted {
            insert(by_track.entry(cut.track).or_default(), cut);
        }
        let first = cuts.iter().map(|cut| cut.from).min().unwrap_or(Ns::MAX);
        Cuts { by_track, first }
    }

    fn pieces(&self, track: TrackId, from: Ns, to: Ns) -> impl Iterator<Item = (Ns, Piece)> + '_ {
        let all = self.by_track.get(&track);
        let first = all.and_then(|all| all.range(..=from).next_back()).map_or(from, |(&start, _)| start);
        let pieces = all.into_iter().flat_map(move |all| all.range(first.min(to)..to));
        pieces.map(|(&start, &piece)| (start, piece)).filter(move |(_, piece)| piece.end > from)
    }
}

/// Adds the parts of a cut that no earlier cut covers.
fn insert(pieces: &mut BTreeMap<Ns, Piece>, cut: Cut) {
    let mut start = cut.from;
    if let Some((_, piece)) = pieces.range(..=start).next_back() {
        start = start.max(piece.end);
    }
    while start < cut.to {
        let next = pieces.range(start..cut.to).next().map(|(&start, piece)| (start, piece.end));
        let (until, then) = next.map_or((cut.to, cut.to), |(start, end)| (start, end));
        if start < until {
            pieces.insert(start, Piece { end: until, left: cut.left, beside: cut.beside });
        }
        start = then;
    }
}

impl Shrink for Cuts {
    fn unchanged_until(&self) -> Ns {
        self.first
    }

    fn running(&self, track: TrackId, from: Ns, to: Ns, each: &mut dyn FnMut(Ns, f64)) {
        let mut at = from;
        for (start, Piece { end, left, .. }) in self.pieces(track, from, to) {
            if at < start {
                each(at, 1.0);
            }
            each(at.max(start), left);
            at = end.min(to);
        }
        if at < to {
            each(at, 1.0);
        }
    }

    fn waiting(&self, wait: &Wait) -> (f64, f64) {
        let around = self.pieces(wait.track, wait.from, wait.from + Ns(1)).next();
        let (left, beside) = around.map_or((1.0, false), |(_, piece)| (piece.left, piece.beside));
        match wait.by {
            _ if beside => (1.0, left),
            // A preempted thread waits until the threads that ran instead leave the CPU.
            WaitedOn::Thread(_) | WaitedOn::Holders(_) | WaitedOn::Nothing => (left, 1.0),
            _ => (1.0, left),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use timeline::{End, EndEvidence, Hold, NameId, Running, SpanKind, SpanRow, TimeBase, TrackKind};

    const LENGTH: Ns = Ns(1_000);

    /// One thread works for [`LENGTH`], and from 400 to 700 it waits for another, which works from 0 to 700.
    fn boot() -> (Timeline, TrackId, TrackId) {
        let mut t = Timeline::new(TimeBase::GuestVirtual);
        let name = t.names.intern("f");
        let [boot, other] = [1, 2].map(|id| t.tracks.add(name, TrackKind::Thread, id));
        t.tracks.get_mut(other).created = Some((Ns(0), boot));
        for (track, end) in [(boot, LENGTH), (other, Ns(700))] {
            let row = SpanRow { name, detail: NameId::EMPTY, start: Ns(0), end, track, kind: SpanKind::Call };
            t.spans.push(row, None);
        }
        t.waits.push(Wait {
            track: boot,
            from: Ns(400),
            woken: Ns(700),
            until: Ns(700),
            by: WaitedOn::Thread(other),
            uninterruptible: false,
        });
        t.end = Some(End { at: LENGTH, error: Ns(0), track: Some(boot), evidence: EndEvidence::LastSign });
        t.finalize(Ns::ZERO);
        (t, boot, other)
    }

    fn cut(track: TrackId, from: i64, to: i64, left: f64) -> Cut {
        Cut { track, from: Ns(from), to: Ns(to), left, beside: false }
    }

    #[test]
    fn cuts_off_the_path_save_nothing_and_overlaps_count_once() {
        let (t, boot, other) = boot();
        let prices = Prices::new(&t).unwrap();
        let saved = |cuts: &[Cut]| prices.saved(cuts).0;
        assert_eq!(saved(&[]), 0);
        assert_eq!(saved(&[cut(boot, 800, 900, 0.0)]), 100);
        assert_eq!(saved(&[cut(boot, 800, 900, 0.25)]), 75);
        // The boot then waits that much longer for the other thread.
        assert_eq!(saved(&[cut(boot, 0, 300, 0.0)]), 0);
        // The boot waits for the other thread from 400 on, so at most the time after that can be saved.
        assert_eq!(saved(&[cut(other, 0, 200, 0.0)]), 200);
        assert_eq!(saved(&[cut(other, 0, 700, 0.0)]), 300);
        assert_eq!(saved(&[cut(other, 0, 700, 0.0), cut(boot, 0, 300, 0.0)]), 600);
        assert_eq!(saved(&[cut(boot, 800, 900, 0.0), cut(boot, 850, 950, 0.0), cut(boot, 700, 1000, 0.5)]), 150 + 75);
        assert_eq!(saved(&[cut(boot, 900, 800, 0.0), cut(boot, -50, 0, 0.0)]), 0, "no time at all, or before the boot");
        assert_eq!(prices.saved_in_any(&[cut(boot, 800, 900, 0.0)], Ns(100)), (Ns(100), Ns(100)));
    }

    #[test]
    fn boots_are_copied_only_for_an_interval() {
        let (t, boot, _) = boot();
        let prices = Prices::new(&t).unwrap();
        assert!(prices.segments.get().is_none() && prices.allowed.get().is_none());
        prices.saved(&[cut(boot, 800, 900, 0.0)]);
        assert!(prices.segments.get().is_some() && prices.allowed.get().is_none());
        prices.saved_in_any(&[cut(boot, 800, 900, 0.0)], Ns(100));
        assert!(prices.allowed.get().is_some());
    }

    #[test]
    fn a_wait_that_begins_in_a_cut_becomes_shorter_as_a_whole() {
        for by in [WaitedOn::Unknown, WaitedOn::Interrupt(NameId::EMPTY)] {
            let (mut t, boot, _) = boot();
            t.waits[0].by = by;
            assert_eq!(Prices::new(&t).unwrap().saved(&[cut(boot, 390, 410, 0.0)]), Ns(10 + 300), "{by:?}");
        }
    }

    #[test]
    fn a_preempted_thread_waits_for_the_thread_on_its_cpu() {
        let (mut t, boot, other) = boot();
        let cut = [cut(boot, 390, 410, 0.0)];
        t.waits[0] = Wait { woken: Ns(400), by: WaitedOn::Nothing, ..t.waits[0] };
        t.running.push(Running { track: other, cpu: 0, from: Ns(400), to: Ns(700) });
        t.running.extend([(0, 400), (700, 1000)].map(|(from, to)| Running {
            track: boot,
            cpu: 0,
            from: Ns(from),
            to: Ns(to),
        }));
        t.finalize(Ns::ZERO);
        assert_eq!(Prices::new(&t).unwrap().saved(&cut), Ns(10), "the other has as much to do as before");
    }

    #[test]
    fn a_wait_for_another_thread_lasts_until_it_gets_there() {
        let (mut t, boot, other) = boot();
        assert_eq!(Prices::new(&t).unwrap().saved(&[cut(boot, 390, 410, 0.0)]), Ns(0), "until 700 another works");
        let topic = t.names.intern("topic");
        t.waits[0].by = WaitedOn::Holders(topic);
        t.holds.push(Hold { track: other, topic, from: Ns(0), to: Ns(700) });
        assert_eq!(Prices::new(&t).unwrap().saved(&[cut(boot, 390, 410, 0.0)]), Ns(0), "and holds it");
    }

    proptest::proptest! {
        #[test]
        fn pieces_never_overlap_and_leave_the_least(
            cuts in proptest::collection::vec((0i64..60, 0i64..60, 0u8..4), 0..12),
        ) {
            let track = TrackId(0);
            let all: Vec<Cut> = cuts.iter().map(|&(from, to, left)| cut(track, from, to, f64::from(left) / 4.0)).collect();
            let built = Cuts::new(&all);
            let mut steps: Vec<(Ns, f64)> = Vec::new();
            built.running(track, Ns(0), Ns(60), &mut |from, left| steps.push((from, left)));
            for at in 0..60 {
                let covering = all.iter().filter(|cut| cut.from.0 <= at && at < cut.to.0).map(|cut| cut.left);
                let expected = covering.fold(1.0, f64::min);
                let step = steps.iter().rev().find(|(from, _)| from.0 <= at).unwrap();
                proptest::prop_assert_eq!(step.1, expected, "at {}", at);
            }
        }
    }
}
