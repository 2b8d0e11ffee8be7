//! The boot path charged to rows: each stretch to one owner, with the total of everything that was active meanwhile.

use super::track_names::TracksByName;
use super::{Row, RowKey, by_phase, phase_name, sorted};
use crate::chain::Frame;
use crate::charge::{Around, Base, BaseId, Charge, Charger, Doer, Owner, Suffix};
use crate::phases::Phase;
use crate::spread::{Follow, Spread};
use crate::stretch::{CpuHeld, StretchKind};
use crate::total_time::TotalTimes;
use hashbrown::{HashMap, HashSet};
use timeline::{Cost, NodeId, Ns, Timeline, TrackId};

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
pub(super) struct Shared {
    owner: Owner,
    phase: usize,
    around: Around,
    is_wait: bool,
}

/// Charges each stretch once.
pub(super) struct Charged<'a> {
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
    pub(super) fn new(
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

    pub(super) fn add(&mut self, from: Ns, to: Ns, kind: StretchKind, chain: &[Frame]) {
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
    pub(super) fn note_held(&mut self, held: &CpuHeld) {
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
    pub(super) fn rows(mut self) -> (Vec<Row>, f64) {
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
pub(super) fn times_by_thread(timeline: &Timeline, by: &HashMap<TrackId, Ns>) -> Vec<(String, Ns)> {
    let mut names: HashMap<&str, Ns> = HashMap::new();
    for (&track, &length) in by {
        *names.entry(timeline.names.get(timeline.tracks.get(track).name)).or_default() += length;
    }
    let mut held: Vec<(String, Ns)> = names.into_iter().map(|(name, length)| (name.to_owned(), length)).collect();
    held.sort_unstable_by(|a, b| (b.1, &a.0).cmp(&(a.1, &b.0)));
    held
}

pub(super) fn share(part: Ns, whole: Ns) -> f64 {
    if whole > Ns::ZERO { part.0 as f64 / whole.0 as f64 } else { 0.0 }
}

/// Pairs of numbers. Most left numbers have only one right number.
#[derive(Default)]
pub(super) struct Pairs {
    /// The first right number of each left one, or [`Pairs::NONE`].
    first: Vec<u32>,
    further: HashSet<(u32, u32)>,
}

impl Pairs {
    /// A right number that no pair has: there are fewer rows, tracks and paths.
    const NONE: u32 = u32::MAX;

    /// Adds a pair. Returns true if it is new.
    pub(super) fn add(&mut self, left: u32, right: u32) -> bool {
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
