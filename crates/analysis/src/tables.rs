//! The path in rows: by what one can fix, by function, and, as another view, over all threads.

use crate::Groups;
use crate::charge::{Base, BaseId, Charge, Charger, Suffix, joined};
use crate::path::{BootPath, Frame, Stretch, StretchKind};
use crate::phases::Phase;
use crate::segments::Segments;
use crate::under_way::{Touched, UnderWay};
use hashbrown::{HashMap, HashSet};
use timeline::{Ns, SpanId, Timeline, Track, TrackId, TrackKind};

/// A row of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What took the time.
    pub name: String,
    /// Time charged to this row; these sum to the table's whole.
    pub self_time: Ns,
    /// Time during which it was under way, also what other rows are charged for.
    pub total_time: Ns,
    /// How often it was.
    pub count: u64,
    /// `self_time` as a share of the whole (0 to 1).
    pub share: f64,
    /// Who did it.
    pub tracks: Vec<String>,
}

/// The tables of a boot, largest rows first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tables {
    /// The share of the path that something narrower than a phase owns (0 to 1).
    pub explained: f64,
    /// The boot path by what one can fix.
    pub wheres: Vec<Row>,
    /// The boot path by function: `self_time` where it is innermost.
    pub functions: Vec<Row>,
    /// Not the path: everything that every thread did until the end mark.
    pub all_threads: Vec<Row>,
}

/// Charges a boot path by an operating system's rules.
pub fn tables(timeline: &Timeline, path: &BootPath, phases: &[Phase], groups: &Groups) -> Tables {
    let charger = Charger::new(timeline, groups);
    let whole: Ns = path.stretches.iter().map(Stretch::length).sum();
    let explained = path.stretches.iter().map(|s| explained(s, &charger, phases)).sum::<Ns>();
    let mut wheres = Charged::new(timeline, &charger, phases);
    for s in &path.stretches {
        wheres.add(s.from, s.to, s.kind, &s.chain);
    }
    let mut all_threads = Charged::new(timeline, &charger, phases);
    everything(timeline, |from, to, frame| all_threads.add(from, to, StretchKind::Running, &[frame]));
    Tables {
        explained: if whole > Ns::ZERO { explained.0 as f64 / whole.0 as f64 } else { 0.0 },
        wheres: wheres.rows(),
        functions: functions(timeline, &charger, &path.stretches),
        all_threads: all_threads.rows(),
    }
}

/// How much of a stretch has an owner narrower than its phase.
fn explained(s: &Stretch, charger: &Charger, phases: &[Phase]) -> Ns {
    let mut sum = Ns::ZERO;
    by_phase(s.from, s.to, phases, |phase, length| {
        let is_explained = charger.explains(&s.chain, phase.and_then(|i| phases.get(i)));
        sum += if is_explained { length } else { Ns::ZERO };
    });
    sum
}

/// What one row of [`Charged`] is for. A stretch that nothing narrower owns is charged to its phase.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    charge: Charge,
    phase: Option<usize>,
}

#[derive(Default)]
struct Sum {
    self_time: Ns,
    stretches: u64,
    spans: u64,
    tracks: Vec<TrackId>,
}

/// Charges each stretch once.
struct Charged<'a> {
    timeline: &'a Timeline,
    charger: &'a Charger<'a>,
    phases: &'a [Phase],
    rows: HashMap<Key, u32>,
    sums: Vec<Sum>,
    whole: Ns,
    under_way: UnderWay<'a>,
    /// Of each base, its time as a blamed thread, which is on no stack.
    blamed: HashMap<BaseId, Ns>,
    /// Which spans were counted for which rows, and which tracks.
    earners: Pairs,
    owners: Pairs,
}

impl<'a> Charged<'a> {
    fn new(timeline: &'a Timeline, charger: &'a Charger<'a>, phases: &'a [Phase]) -> Self {
        Charged {
            timeline,
            charger,
            phases,
            rows: HashMap::new(),
            sums: Vec::new(),
            whole: Ns::ZERO,
            under_way: UnderWay::new(&timeline.spans, &charger.base, charger.bases.len()),
            blamed: HashMap::new(),
            earners: Pairs::default(),
            owners: Pairs::default(),
        }
    }

    fn add(&mut self, from: Ns, to: Ns, kind: StretchKind, chain: &[Frame]) {
        let (charge, earner) = self.charger.charge(kind, chain);
        let track = chain.last().map(|owner| owner.track);
        self.whole += to - from;
        self.under_way.add(chain, to - from);
        if charge.base == BaseId::NOTHING {
            let phases = self.phases;
            by_phase(from, to, phases, |phase, length| {
                let phase = Some(phase.unwrap_or(phases.len()));
                self.charge(Key { charge, phase }, length, earner, track);
            });
        } else {
            if matches!(self.charger.base_of(charge.base), Base::Thread(_)) {
                *self.blamed.entry(charge.base).or_default() += to - from;
            }
            self.charge(Key { charge, phase: None }, to - from, earner, track);
        }
    }

    fn charge(&mut self, key: Key, length: Ns, earner: Option<SpanId>, track: Option<TrackId>) {
        let row = *self.rows.entry(key).or_insert_with(|| {
            self.sums.push(Sum::default());
            (self.sums.len() - 1) as u32
        });
        let sum = &mut self.sums[row as usize];
        sum.self_time += length;
        sum.stretches += 1;
        if earner.is_some_and(|span| self.earners.add(span.0, row)) {
            sum.spans += 1;
        }
        sum.tracks.extend(track.filter(|track| self.owners.add(row, track.0)));
    }

    fn rows(self) -> Vec<Row> {
        let Charged { timeline, charger, phases, whole, blamed, .. } = self;
        let totals = self.under_way.totals();
        let by_name = TracksByName::new(timeline);
        let rows = self.rows.into_iter().map(|(Key { charge, phase }, row)| {
            let sum = &self.sums[row as usize];
            let phase = phase_name(phases, phase);
            let under_way = match charge.suffix {
                Suffix::None => totals[charge.base.0 as usize] + blamed.get(&charge.base).copied().unwrap_or_default(),
                _ => Ns::ZERO,
            };
            Row {
                name: charger.label(charge, phase),
                self_time: sum.self_time,
                total_time: under_way.max(sum.self_time),
                count: if sum.spans == 0 { sum.stretches } else { sum.spans },
                share: share(sum.self_time, whole),
                tracks: by_name.names(&sum.tracks),
            }
        });
        sorted(rows.collect())
    }
}

fn share(part: Ns, whole: Ns) -> f64 {
    if whole > Ns::ZERO { part.0 as f64 / whole.0 as f64 } else { 0.0 }
}

/// Pairs of numbers, of which most left ones have only one right one.
#[derive(Default)]
struct Pairs {
    first: Vec<Option<u32>>,
    further: HashSet<(u32, u32)>,
}

impl Pairs {
    /// Whether the pair is new.
    fn add(&mut self, left: u32, right: u32) -> bool {
        let at = left as usize;
        if at >= self.first.len() {
            self.first.resize(at + 1, None);
        }
        match self.first[at] {
            None => {
                self.first[at] = Some(right);
                true
            }
            Some(first) => first != right && self.further.insert((left, right)),
        }
    }
}

/// The tracks' names, in their order: comparing numbers is faster, and there may be many.
struct TracksByName<'a> {
    names: Vec<&'a str>,
    /// Of each track, its name in `names`.
    rank: Vec<u32>,
}

impl<'a> TracksByName<'a> {
    fn new(timeline: &'a Timeline) -> Self {
        let of = |t: &Track| timeline.names.get(t.name);
        let mut names: Vec<&str> = timeline.tracks.iter().map(|(_, t)| of(t)).collect();
        names.sort_unstable();
        names.dedup();
        let rank = timeline.tracks.iter().map(|(_, t)| names.partition_point(|name| *name < of(t)) as u32).collect();
        TracksByName { names, rank }
    }

    fn names(&self, tracks: &[TrackId]) -> Vec<String> {
        let mut ranks: Vec<u32> = tracks.iter().map(|t| self.rank[t.0 as usize]).collect();
        ranks.sort_unstable();
        ranks.dedup();
        ranks.into_iter().map(|rank| self.names[rank as usize].to_owned()).collect()
    }
}

/// What the row of time is called that nothing narrower than a phase owns.
pub(crate) fn phase_name(phases: &[Phase], phase: Option<usize>) -> &str {
    phase.and_then(|p| phases.get(p)).map_or("after the last phase", |p| p.name.as_str())
}

/// Cuts `from..to` where phases change. Without any phase it stays whole.
pub(crate) fn by_phase(from: Ns, to: Ns, phases: &[Phase], mut each: impl FnMut(Option<usize>, Ns)) {
    let mut at = from;
    let first = phases.partition_point(|p| p.end <= at);
    for (i, phase) in phases.iter().enumerate().skip(first).take_while(|(_, p)| p.start < to) {
        let end = phase.end.min(to);
        each(Some(i), end - at);
        at = end;
    }
    if at < to {
        each(None, to - at);
    }
}

/// Every function on the path, with what it did itself and all under it.
fn functions(timeline: &Timeline, charger: &Charger, stretches: &[Stretch]) -> Vec<Row> {
    let (spans, keys) = (&timeline.spans, &charger.function);
    let (mut outside, mut outsiders) = (Sum::default(), Pairs::default());
    let mut sums: Vec<Sum> = Vec::new();
    sums.resize_with(charger.functions.len(), Sum::default);
    let mut under_way = UnderWay::new(spans, keys, charger.functions.len());
    let mut touched = Touched::new(spans);
    for stretch in stretches {
        under_way.add(&stretch.chain, stretch.length());
        touched.add(&stretch.chain);
        match stretch.owner().span {
            Some(span) => sums[keys[span.0 as usize] as usize].self_time += stretch.length(),
            None => {
                outside.self_time += stretch.length();
                outside.stretches += 1;
                let track = stretch.owner().track;
                outside.tracks.extend(outsiders.add(track.0, 0).then_some(track));
            }
        }
    }
    let touched = touched.with_outer(spans);
    for (id, row) in spans.iter().filter(|(id, _)| touched[id.0 as usize]) {
        let sum = &mut sums[keys[id.0 as usize] as usize];
        sum.spans += 1;
        // Spans come track by track.
        if sum.tracks.last() != Some(&row.track) {
            sum.tracks.push(row.track);
        }
    }
    let whole = stretches.iter().map(Stretch::length).sum();
    let by_name = TracksByName::new(timeline);
    let totals = under_way.totals();
    let on_the_path = charger.functions.iter().zip(sums).zip(totals).filter(|((_, sum), _)| sum.spans > 0);
    let rows = on_the_path.map(|((&(name, detail), sum), total)| Row {
        name: joined(timeline, name, detail),
        self_time: sum.self_time,
        total_time: total.max(sum.self_time),
        count: sum.spans,
        share: share(sum.self_time, whole),
        tracks: by_name.names(&sum.tracks),
    });
    let outside = (outside.self_time > Ns::ZERO).then(|| Row {
        name: OUTSIDE.to_owned(),
        self_time: outside.self_time,
        total_time: outside.self_time,
        count: outside.stretches,
        share: share(outside.self_time, whole),
        tracks: by_name.names(&outside.tracks),
    });
    sorted(rows.chain(outside).collect())
}

/// The row of the functions' table for time in which no function is known.
const OUTSIDE: &str = "(no function known)";

/// What every thread did, piece by piece: idle loops left out, cut at the end mark.
fn everything(timeline: &Timeline, mut each: impl FnMut(Ns, Ns, Frame)) {
    let end = crate::total(timeline);
    let segments = Segments::new(timeline);
    let mut add = |track: TrackId, from: Ns, to: Ns, spans_only: bool| {
        segments.within(track, from.max(Ns::ZERO), to.min(end), |piece| {
            if piece.span.is_some() || !spans_only {
                each(piece.from, piece.to, Frame { track, span: piece.span });
            }
        });
    };
    let mut scheduled = vec![false; timeline.tracks.len()];
    for r in &timeline.running {
        scheduled[r.track.0 as usize] = true;
        if !timeline.tracks.get(r.track).idle {
            add(r.track, r.from, r.to, false);
        }
    }
    for (track, t) in timeline.tracks.iter() {
        if !scheduled[track.0 as usize] && t.kind != TrackKind::Console {
            add(track, Ns::ZERO, end, true);
        }
    }
}

/// Largest first; rows of equal size by name, so that the order is the same each time.
fn sorted(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort_by(|a, b| (b.self_time, b.total_time, &a.name).cmp(&(a.self_time, a.total_time, &b.name)));
    rows
}
