//! The path by function: the time that each spent itself, and with everything under it.
//!
//! If a function's calls were followed, every call until the end mark is counted, on the path or not. The profile does
//! not show where each short call was.

use super::charged::{Pairs, share};
use super::track_names::TracksByName;
use super::{OUTSIDE, Row, RowKey, sorted};
use crate::charge::{Charger, after, joined};
use crate::spread::{Follow, Spread};
use crate::stretch::{Stretch, StretchKind};
use crate::total_time::{TotalTimes, Touched};
use hashbrown::HashMap;
use timeline::{Cost, NodeId, Ns, Profile, SpanKind, Timeline, TrackId};

#[derive(Clone, Default)]
struct Sum {
    self_time: Cost,
    /// Time in calls too short to be spans, including what they called.
    short: Cost,
    /// Self time that is not of a first call alone.
    whole_calls: Ns,
    count: u64,
    tracks: Vec<TrackId>,
}

/// Returns a row for every function on the path.
pub fn functions(timeline: &Timeline, charger: &Charger, path: &[Stretch], spread: Option<&Spread>) -> Vec<Row> {
    let (spans, keys) = (&timeline.spans, &charger.function);
    let mut functions = Functions::new(timeline, charger);
    let mut total_times = TotalTimes::new(spans, keys, charger.functions.len());
    let mut touched = Touched::new(spans);
    let mut to_share: HashMap<(NodeId, Part), Ns> = HashMap::new();
    for stretch in path {
        let cost = stretch.cost(timeline);
        total_times.add(&stretch.chain, cost);
        touched.add(&stretch.chain);
        let owner = stretch.owner();
        let ran = matches!(stretch.kind, StretchKind::Running | StretchKind::Runqueue);
        match (spread.filter(|_| ran).and_then(|spread| spread.path(owner)), owner.span) {
            (Some(path), _) => {
                for (length, is_wait) in cost.parts() {
                    if length > Ns::ZERO {
                        *to_share.entry((path, Part { track: owner.track, is_wait })).or_default() += length;
                    }
                }
            }
            (None, Some(span)) => {
                let sum = &mut functions.sums[keys[span.0 as usize] as usize];
                sum.self_time += cost;
                sum.whole_calls += if spans.is_first_call(span) { Ns::ZERO } else { cost.length };
            }
            (None, None) => functions.add_outside(owner.track, cost),
        }
    }
    if let Some(spread) = spread {
        spread.share(to_share, &mut functions);
    }
    let touched = touched.with_outer(spans);
    for (id, row) in spans.iter().filter(|(id, _)| touched[id.0 as usize]) {
        let sum = &mut functions.sums[keys[id.0 as usize] as usize];
        sum.count += 1;
        // Spans come track by track.
        if sum.tracks.last() != Some(&row.track) {
            sum.tracks.push(row.track);
        }
    }
    functions.count_calls(&timeline.profile);
    functions.rows(path.iter().map(Stretch::length).sum(), total_times.totals())
}

struct Functions<'a> {
    timeline: &'a Timeline,
    charger: &'a Charger<'a>,
    outermost: Vec<bool>,
    sums: Vec<Sum>,
    outside: Sum,
    /// The tracks that were noted for each function, and those that were noted for no function.
    tracks: Pairs,
    outsiders: Pairs,
}

impl<'a> Functions<'a> {
    fn new(timeline: &'a Timeline, charger: &'a Charger<'a>) -> Self {
        let sums = vec![Sum::default(); charger.functions.len()];
        Functions {
            timeline,
            charger,
            outermost: timeline.profile.outermost(),
            sums,
            outside: Sum::default(),
            tracks: Pairs::default(),
            outsiders: Pairs::default(),
        }
    }

    fn add_outside(&mut self, track: TrackId, cost: Cost) {
        self.outside.self_time += cost;
        self.outside.whole_calls += cost.length;
        self.outside.count += 1;
        self.outside.tracks.extend(self.outsiders.add(track.0, 0).then_some(track));
    }

    fn sum_mut(&mut self, path: NodeId) -> &mut Sum {
        &mut self.sums[self.charger.path_function[path.index()] as usize]
    }

    /// Takes the number of calls of followed functions from the profile.
    fn count_calls(&mut self, profile: &Profile) {
        let on_the_path: Vec<bool> = self.sums.iter().map(|sum| sum.count > 0).collect();
        let is_on_path = |id: NodeId| on_the_path[self.charger.path_function[id.index()] as usize];
        let called: Vec<_> = profile.nodes().filter(|&(id, node)| node.parent.is_some() && is_on_path(id)).collect();
        called.iter().for_each(|&(id, _)| self.sum_mut(id).count = 0);
        called.iter().for_each(|&(id, node)| self.sum_mut(id).count += node.calls);
    }

    /// Returns, for each name, true if only messages have it. The time of such a row is what followed the message.
    fn messages(&self) -> Vec<bool> {
        let (mut messages, mut others) = (vec![false; self.sums.len()], vec![false; self.sums.len()]);
        for (id, row) in self.timeline.spans.iter() {
            let kind = if row.kind == SpanKind::Message { &mut messages } else { &mut others };
            kind[self.charger.function[id.0 as usize] as usize] = true;
        }
        self.charger.path_function.iter().for_each(|&function| others[function as usize] = true);
        messages.into_iter().zip(others).map(|(message, other)| message && !other).collect()
    }

    fn rows(self, whole: Ns, totals: Vec<Cost>) -> Vec<Row> {
        let mut by_name = TracksByName::new(self.timeline);
        let mut row = |key: RowKey, name: String, sum: &Sum, total: Cost| Row {
            key,
            thing: 0,
            name,
            self_time: sum.self_time.length,
            total_time: (total + sum.short).length.max(sum.self_time.length),
            self_waited: sum.self_time.waited,
            total_waited: (total + sum.short).waited.max(sum.self_time.waited),
            count: sum.count,
            first_calls_only: sum.self_time.length > Ns::ZERO && sum.whole_calls == Ns::ZERO,
            share: share(sum.self_time.length, whole),
            tracks: by_name.names(&sum.tracks),
            cpu_held: Vec::new(),
        };
        let messages = self.messages();
        let is_on_the_path = |sum: &Sum| sum.count > 0 || sum.self_time.length > Ns::ZERO;
        let most = self.sums.iter().filter(|sum| is_on_the_path(sum)).count() + 1;
        let all = self.charger.functions.iter().zip(&self.sums).zip(totals).zip(messages);
        let outside = &self.outside;
        let outside = (outside.self_time.length > Ns::ZERO)
            .then(|| row(RowKey::Other, OUTSIDE.to_owned(), outside, outside.self_time));
        let on_the_path = all.filter(|(((_, sum), _), _)| is_on_the_path(sum));
        let rows = on_the_path.map(|(((&(name, detail), sum), total), is_message)| {
            let text = joined(self.timeline, name, detail);
            let (key, text) =
                if is_message { (RowKey::Other, after(&text)) } else { (RowKey::Step(name, detail), text) };
            row(key, text, sum, total)
        });
        sorted(rows.chain(outside), most)
    }
}

/// A part of a track's time that is shared out among short calls.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Part {
    track: TrackId,
    is_wait: bool,
}

impl Follow for Functions<'_> {
    type Key = Part;

    fn called(&mut self, part: Part, path: NodeId, length: u64) -> Part {
        let outermost = self.outermost[path.index()];
        let new = self.tracks.add(self.charger.path_function[path.index()], part.track.0);
        let sum = self.sum_mut(path);
        sum.count += 1;
        if outermost {
            sum.short += Cost::of(Ns::saturated(length), part.is_wait);
        }
        sum.tracks.extend(new.then_some(part.track));
        part
    }

    fn interrupted(&mut self, part: Part) -> Part {
        part
    }

    fn own(&mut self, part: Part, path: NodeId, length: u64) {
        let cost = Cost::of(Ns::saturated(length), part.is_wait);
        match self.timeline.profile.get(path).parent {
            Some(_) => {
                let sum = self.sum_mut(path);
                sum.self_time += cost;
                sum.whole_calls += cost.length;
            }
            None => self.add_outside(part.track, cost),
        }
    }
}
