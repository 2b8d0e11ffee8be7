//! The path in rows: by what a developer can fix, by function, and, as another view, over all threads.

use crate::Groups;
use crate::chain::Frame;
use crate::charge::{Around, Base, BaseId, Charge, Charger, Doer, Owner, Suffix, Things};
use crate::phases::Phase;
use crate::spread::{Follow, Spread};
use crate::stays::Stays;
use crate::stretch::{BootPath, CpuHeld, StretchKind};
use crate::total_time::TotalTimes;
use hashbrown::{HashMap, HashSet};
use std::borrow::Cow;
use timeline::{Cost, DECOMPRESS, INDIRECT, NameId, NodeId, Ns, Timeline, TrackId, TrackKind};

mod functions;
mod track_names;

pub use track_names::TrackNames;
use track_names::TracksByName;

/// The subject of a row. Code that decides something about a row uses this, not the row's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowKey {
    /// Steps or functions of this name and detail. The names are the timeline's.
    Step(NameId, NameId),
    #[default]
    /// Anything else: a thread, the time after a message, a phase, or a row that gets its name from a rule.
    Other,
}

/// A row of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// The subject.
    pub key: RowKey,
    /// The subject as a number in [`Things`]. 0 if it is only a phase, and in tables by function.
    pub thing: u32,
    /// The thing that took the time.
    pub name: String,
    /// Time charged to this row. The self times sum to the table's whole.
    pub self_time: Ns,
    /// Time charged to this row and to what it called or waited for.
    pub total_time: Ns,
    /// The timed waits in `self_time`.
    pub self_waited: Ns,
    /// The timed waits in `total_time`.
    pub total_waited: Ns,
    /// The number of times that it ran.
    pub count: u64,
    /// True if only first calls of functions have its time: later calls are in the rows of their callers.
    pub first_calls_only: bool,
    /// `self_time` as a share of the whole (0 to 1).
    pub share: f64,
    /// The threads that did it.
    pub tracks: TrackNames,
    /// The threads that had the CPU while this row's owner slept, longest first. The evidence does not show since when
    /// the owner could have run, so it may have waited for them.
    pub cpu_held: Vec<(String, Ns)>,
}

impl Row {
    /// The time charged to this row, in its parts.
    pub fn self_cost(&self) -> Cost {
        Cost { length: self.self_time, waited: self.self_waited }
    }

    /// The time charged to this row and to what it called or waited for, in its parts.
    pub fn total_cost(&self) -> Cost {
        Cost { length: self.total_time, waited: self.total_waited }
    }

    /// Returns the name for comparison with a row of another kernel's boot. Another build may call the same function
    /// directly instead of through a pointer. A decompressor is the same step for every format that it unpacks.
    pub fn compared_by(&self, timeline: &Timeline) -> Cow<'_, str> {
        match self.key {
            RowKey::Step(_, NameId::INDIRECT) => Cow::Owned(self.name.replacen(&format!(" {INDIRECT}"), "", 1)),
            RowKey::Step(name, _) if timeline.decompressor == Some(name) => {
                Cow::Owned(self.name.replacen(timeline.names.get(name), DECOMPRESS, 1))
            }
            _ => Cow::Borrowed(&self.name),
        }
    }
}

/// The tables of a boot, largest rows first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tables {
    /// The subjects of the rows of `wheres` and `all_threads`.
    pub things: Things,
    /// The share of the path whose rows say more than a phase does: steps, functions, threads, messages (0 to 1).
    pub explained: f64,
    /// The boot path by what a developer can fix.
    pub wheres: Vec<Row>,
    /// The boot path by function. `self_time` is the time in which a function was innermost.
    pub functions: Vec<Row>,
    /// Everything that every thread did until the end mark, on the path or not.
    pub all_threads: Vec<Row>,
}

/// Charges a boot path to rows by an operating system's rules.
pub fn tables(timeline: &Timeline, path: &BootPath, phases: &[Phase], groups: &Groups) -> Tables {
    tables_of(&Stays::empty(timeline), path, phases, groups)
}

impl Stays<'_> {
    /// Charges the path of these stays to rows by an operating system's rules.
    pub fn tables(&self, path: &BootPath, phases: &[Phase], groups: &Groups) -> Tables {
        tables_of(self, path, phases, groups)
    }
}

fn tables_of(stays: &Stays, path: &BootPath, phases: &[Phase], groups: &Groups) -> Tables {
    let timeline = stays.timeline;
    let charger = Charger::new(timeline, groups);
    let spread = Spread::new(timeline);
    let spread = spread.as_ref();
    let mut wheres = Charged::new(timeline, &charger, phases, spread);
    for s in &path.stretches {
        wheres.add(s.from, s.to, s.kind, &s.chain);
    }
    for held in &path.cpu_held {
        wheres.note_held(held);
    }
    // Each table's sums are freed before the next table's are made.
    let (wheres, explained) = wheres.rows();
    let mut all_threads = Charged::new(timeline, &charger, phases, spread);
    each_piece(stays, |from, to, frame| all_threads.add(from, to, StretchKind::Running, frame.as_slice()));
    let all_threads = all_threads.rows().0;
    let functions = functions::functions(timeline, &charger, &path.stretches, spread);
    Tables { things: charger.things(), explained, wheres, functions, all_threads }
}

/// The key of a row of [`Charged`]. A stretch that nothing narrower owns is charged to its phase.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    charge: Charge,
    phase: Option<usize>,
}

#[derive(Default)]
struct Sum {
    self_time: Cost,
    /// Time of calls too short to be spans, which no stack shows.
    short: Cost,
    /// Time that is not of a first call alone.
    whole_calls: Ns,
    stretches: u64,
    count: u64,
    tracks: Vec<TrackId>,
}

/// Time that is shared out among short calls: its owner, its phase, and its surroundings.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Shared {
    owner: Owner,
    phase: usize,
    around: Around,
    is_wait: bool,
}

/// Charges each stretch once.
struct Charged<'a> {
    timeline: &'a Timeline,
    charger: &'a Charger<'a>,
    phases: &'a [Phase],
    spread: Option<&'a Spread<'a>>,
    rows: HashMap<Key, u32>,
    sums: Vec<Sum>,
    whole: Ns,
    explained: Ns,
    total_times: TotalTimes<'a>,
    /// The time of each base as a blamed thread. It is on no stack.
    blamed: HashMap<BaseId, Cost>,
    /// The spans, paths and tracks that were counted for each row.
    earners: Pairs,
    paths: Pairs,
    owners: Pairs,
    to_share: HashMap<(NodeId, Shared), Ns>,
    /// The threads that had the CPU in the time of a row.
    held: HashMap<u32, HashMap<TrackId, Ns>>,
}

impl<'a> Charged<'a> {
    fn new(
        timeline: &'a Timeline,
        charger: &'a Charger<'a>,
        phases: &'a [Phase],
        spread: Option<&'a Spread<'a>>,
    ) -> Self {
        Charged {
            timeline,
            charger,
            phases,
            spread,
            rows: HashMap::new(),
            sums: Vec::new(),
            whole: Ns::ZERO,
            explained: Ns::ZERO,
            total_times: TotalTimes::new(&timeline.spans, &charger.base, charger.bases.len()),
            blamed: HashMap::new(),
            earners: Pairs::default(),
            paths: Pairs::default(),
            owners: Pairs::default(),
            to_share: HashMap::new(),
            held: HashMap::new(),
        }
    }

    fn add(&mut self, from: Ns, to: Ns, kind: StretchKind, chain: &[Frame]) {
        self.whole += to - from;
        let cost = self.cost(chain, from, to);
        self.total_times.add(chain, cost);
        let ran = matches!(kind, StretchKind::Running | StretchKind::Runqueue);
        let spread = self.spread.filter(|_| ran);
        match spread.zip(chain.last()).and_then(|(spread, &frame)| Some((spread.path(frame)?, frame))) {
            Some(path) => self.add_shared(from, to, kind, chain, path),
            None => self.add_whole(from, to, kind, chain),
        }
    }

    /// A stretch in its parts, as its owner spent it.
    fn cost(&self, chain: &[Frame], from: Ns, to: Ns) -> Cost {
        match chain.last() {
            Some(owner) => self.timeline.cost_on(owner.track, from, to),
            None => self.timeline.cost(from, to),
        }
    }

    /// Notes a stretch of a path, to be shared out among short calls.
    fn add_shared(&mut self, from: Ns, to: Ns, kind: StretchKind, chain: &[Frame], (path, frame): (NodeId, Frame)) {
        let owner = Owner { track: frame.track, blamed: chain.len() > 1, kind };
        let around = self.charger.around(frame.span);
        // The span that has the row is counted here. Time that is shared out belongs to any span of its kind.
        self.count_earner(around, owner);
        let around = around.of_any_span();
        let phases = self.phases;
        by_phase(from, to, phases, |phase, from, to| {
            let phase = phase.unwrap_or(phases.len());
            for (length, is_wait) in self.timeline.cost_on(frame.track, from, to).parts() {
                if length > Ns::ZERO {
                    let shared = Shared { owner, phase, around, is_wait };
                    *self.to_share.entry((path, shared)).or_default() += length;
                }
            }
        });
    }

    /// Notes a stretch in which another thread had the CPU, perhaps instead of the owner.
    fn note_held(&mut self, held: &CpuHeld) {
        let (charge, _) = self.charger.charge(held.kind, &held.chain);
        let phase = (charge.base == BaseId::NOTHING).then(|| self.phases.partition_point(|p| p.end <= held.from));
        let row = self.row(Key { charge, phase });
        *self.held.entry(row).or_default().entry(held.by).or_default() += held.length;
    }

    /// Charges all of a stretch at once.
    fn add_whole(&mut self, from: Ns, to: Ns, kind: StretchKind, chain: &[Frame]) {
        let (charge, earner) = self.charger.charge(kind, chain);
        let track = chain.last().map(|owner| owner.track);
        let (charger, phases) = (self.charger, self.phases);
        // The CPU is known to have slept in this function.
        let asleep = kind == StretchKind::Wait && earner.is_some_and(|by| self.is_followed(by));
        let unknown = kind == StretchKind::Wait && charger.is_in_process(chain);
        by_phase(from, to, phases, |phase, from, to| {
            let explained = asleep || !unknown && charger.explains(chain, phase.and_then(|phase| phases.get(phase)));
            self.explained += if explained { to - from } else { Ns::ZERO };
        });
        if charge.base == BaseId::NOTHING {
            by_phase(from, to, phases, |phase, from, to| {
                let phase = Some(phase.unwrap_or(phases.len()));
                self.charge(Key { charge, phase }, self.cost(chain, from, to), earner, track);
            });
        } else {
            let cost = self.cost(chain, from, to);
            self.blame(charge, cost);
            self.charge(Key { charge, phase: None }, cost, earner, track);
        }
    }

    fn is_followed(&self, by: Doer) -> bool {
        match by {
            Doer::Span(span) => self.timeline.spans.node(span).is_some(),
            Doer::Spans | Doer::Path(_) => true,
        }
    }

    fn blame(&mut self, charge: Charge, cost: Cost) {
        if matches!(self.charger.base_of(charge.base), Base::Thread(_) | Base::UnitThread(..)) {
            *self.blamed.entry(charge.base).or_default() += cost;
        }
    }

    fn count_earner(&mut self, around: Around, owner: Owner) {
        let (charge, earner) = self.charger.charge_at(around, owner);
        if charge.base != BaseId::NOTHING {
            let row = self.row(Key { charge, phase: None });
            self.count(row, earner);
        }
    }

    fn row(&mut self, key: Key) -> u32 {
        *self.rows.entry(key).or_insert_with(|| {
            self.sums.push(Sum::default());
            timeline::number(self.sums.len() - 1)
        })
    }

    fn charge(&mut self, key: Key, cost: Cost, earner: Option<Doer>, track: Option<TrackId>) {
        let row = self.row(key);
        let sum = &mut self.sums[row as usize];
        sum.self_time += cost;
        sum.stretches += 1;
        if matches!(earner, Some(Doer::Path(_))) {
            sum.short += cost;
        }
        if !matches!(earner, Some(Doer::Span(span)) if self.timeline.spans.is_first_call(span)) {
            sum.whole_calls += cost.length;
        }
        sum.tracks.extend(track.filter(|track| self.owners.add(row, track.0)));
        self.count(row, earner);
    }

    fn count(&mut self, row: u32, earner: Option<Doer>) {
        let path = match earner {
            Some(Doer::Span(span)) => self.timeline.spans.node(span),
            Some(Doer::Path(path)) => Some(path),
            _ => None,
        };
        let more = match (path, earner) {
            // For followed calls, the profile has the number of calls.
            (Some(path), _) if self.paths.add(timeline::number(path.index()), row) => {
                self.timeline.profile.get(path).calls
            }
            (None, Some(Doer::Span(span))) if self.earners.add(span.0, row) => 1,
            _ => 0,
        };
        self.sums[row as usize].count += more;
    }

    /// Returns the rows, and the share of the time whose rows say more than a phase does.
    fn rows(mut self) -> (Vec<Row>, f64) {
        let to_share = std::mem::take(&mut self.to_share);
        if let Some(spread) = self.spread {
            spread.share(to_share, &mut self);
        }
        let Charged { timeline, charger, phases, whole, blamed, sums, held, .. } = self;
        let totals = self.total_times.totals();
        let mut by_name = TracksByName::new(timeline);
        let most = sums.iter().filter(|sum| sum.stretches > 0).count();
        let rows = self.rows.into_iter().map(|(key, row)| (key, row, &sums[row as usize]));
        let rows = rows.filter(|(.., sum)| sum.stretches > 0).map(|(Key { charge, phase }, row, sum)| {
            let phase = phase_name(phases, phase);
            let total = match charge.suffix {
                Suffix::None => totals[charge.base.0 as usize] + blamed.get(&charge.base).copied().unwrap_or_default(),
                _ => Cost::ZERO,
            };
            Row {
                key: match charger.base_of(charge.base) {
                    Base::Work(name, detail) => RowKey::Step(name, detail),
                    _ => RowKey::Other,
                },
                thing: charge.base.0,
                name: charger.label(charge, phase),
                self_time: sum.self_time.length,
                total_time: (total + sum.short).length.max(sum.self_time.length),
                self_waited: sum.self_time.waited,
                total_waited: (total + sum.short).waited.max(sum.self_time.waited),
                count: match charger.base_of(charge.base) {
                    _ if sum.count > 0 => sum.count,
                    // A thread that was waited for.
                    Base::Thread(_) | Base::UnitThread(..) => sum.tracks.len() as u64,
                    _ => sum.stretches,
                },
                first_calls_only: sum.self_time.length > Ns::ZERO && sum.whole_calls == Ns::ZERO,
                share: share(sum.self_time.length, whole),
                tracks: by_name.names(&sum.tracks),
                cpu_held: held.get(&row).map(|held| times_by_thread(timeline, held)).unwrap_or_default(),
            }
        });
        (sorted(rows, most), share(self.explained, whole))
    }
}

impl Follow for Charged<'_> {
    type Key = Shared;

    fn called(&mut self, key: Shared, path: NodeId, _: u64) -> Shared {
        Shared { around: self.charger.called(key.around, path), ..key }
    }

    fn interrupted(&mut self, key: Shared) -> Shared {
        Shared { around: Around::default(), ..key }
    }

    fn own(&mut self, key: Shared, _: NodeId, length: u64) {
        let length = Ns::saturated(length);
        let (charge, earner) = self.charger.charge_at(key.around, key.owner);
        if self.charger.explains_at(key.around, key.owner.blamed, self.phases.get(key.phase)) {
            self.explained += length;
        }
        let phase = (charge.base == BaseId::NOTHING).then_some(key.phase);
        let cost = Cost::of(length, key.is_wait);
        self.blame(charge, cost);
        self.charge(Key { charge, phase }, cost, earner, Some(key.owner.track));
    }
}

/// Returns the times by thread name, longest first.
fn times_by_thread(timeline: &Timeline, by: &HashMap<TrackId, Ns>) -> Vec<(String, Ns)> {
    let mut names: HashMap<&str, Ns> = HashMap::new();
    for (&track, &length) in by {
        *names.entry(timeline.names.get(timeline.tracks.get(track).name)).or_default() += length;
    }
    let mut held: Vec<(String, Ns)> = names.into_iter().map(|(name, length)| (name.to_owned(), length)).collect();
    held.sort_unstable_by(|a, b| (b.1, &a.0).cmp(&(a.1, &b.0)));
    held
}

fn share(part: Ns, whole: Ns) -> f64 {
    if whole > Ns::ZERO { part.0 as f64 / whole.0 as f64 } else { 0.0 }
}

/// Pairs of numbers. Most left numbers have only one right number.
#[derive(Default)]
struct Pairs {
    /// The first right number of each left one, or [`Pairs::NONE`].
    first: Vec<u32>,
    further: HashSet<(u32, u32)>,
}

impl Pairs {
    /// A right number that no pair has: there are fewer rows, tracks and paths.
    const NONE: u32 = u32::MAX;

    /// Adds a pair. Returns true if it is new.
    fn add(&mut self, left: u32, right: u32) -> bool {
        let at = left as usize;
        if at >= self.first.len() {
            self.first.resize(at + 1, Pairs::NONE);
        }
        match self.first[at] {
            Pairs::NONE => {
                self.first[at] = right;
                true
            }
            first => first != right && self.further.insert((left, right)),
        }
    }
}

/// Returns the name of the row of time that nothing narrower than a phase owns.
pub(crate) fn phase_name(phases: &[Phase], phase: Option<usize>) -> &str {
    phase.and_then(|p| phases.get(p)).map_or("after the last phase", |p| p.name.as_str())
}

/// Cuts `from..to` where phases change. Without phases it stays whole.
pub(crate) fn by_phase(from: Ns, to: Ns, phases: &[Phase], mut each: impl FnMut(Option<usize>, Ns, Ns)) {
    let mut at = from;
    let first = phases.partition_point(|p| p.end <= at);
    for (i, phase) in phases.iter().enumerate().skip(first).take_while(|(_, p)| p.start < to) {
        let end = phase.end.min(to);
        each(Some(i), at, end);
        at = end;
    }
    if at < to {
        each(None, at, to);
    }
}

/// The row in the table by function for time in which no function is known.
const OUTSIDE: &str = "(no function known)";

/// Passes on what every thread did, piece by piece, cut at the end mark. Idle loops are left out. Then passes on the
/// time in which no thread is known to run, so that at least one piece covers each instant of the boot.
fn each_piece(stays: &Stays, mut each: impl FnMut(Ns, Ns, Option<Frame>)) {
    let timeline = stays.timeline;
    let end = crate::total(timeline);
    let mut covered: Vec<(Ns, Ns)> = Vec::new();
    let mut add = |track: TrackId, from: Ns, to: Ns, spans_only: bool| {
        let (from, to) = (from.max(Ns::ZERO), to.min(end));
        if from >= to {
            return; // all of it came after the end mark
        }
        stays.segments().within(track, from, to, |piece| {
            if piece.span.is_some() || !spans_only {
                match covered.last_mut() {
                    Some(last) if last.1 == piece.from => last.1 = piece.to,
                    _ => covered.push((piece.from, piece.to)),
                }
                each(piece.from, piece.to, Some(Frame { track, span: piece.span }));
            }
        });
    };
    let mut is_scheduled = vec![false; timeline.tracks.len()];
    for r in &timeline.running {
        is_scheduled[r.track.0 as usize] = true;
        if !timeline.tracks.get(r.track).idle {
            add(r.track, r.from, r.to, false);
        }
    }
    // The scheduler's trace begins late in a boot. Before it, only spans show what its threads did.
    let traced_from = timeline.running.iter().map(|r| r.from).min().unwrap_or(end);
    for (track, t) in timeline.tracks.iter() {
        if t.kind != TrackKind::Console && !t.idle {
            add(track, Ns::ZERO, if is_scheduled[track.0 as usize] { traced_from } else { end }, true);
        }
    }
    let mut covered_until = Ns::ZERO;
    for (from, to) in timeline::merged(covered).into_iter().chain([(end, end)]) {
        if from > covered_until {
            each(covered_until, from, None);
        }
        covered_until = to;
    }
}

/// Sorts rows, largest first. Rows of equal size are sorted by name, so that the order is reproducible. Rows of one
/// name come in any order.
/// `most` is an upper bound for the number of rows. Growing a list of ten thousands of rows would take twice its memory.
fn sorted(some: impl Iterator<Item = Row>, most: usize) -> Vec<Row> {
    let mut rows = Vec::with_capacity(most);
    rows.extend(some);
    rows.sort_unstable_by(|a, b| (b.self_time, b.total_time, &a.name).cmp(&(a.self_time, a.total_time, &b.name)));
    rows
}
