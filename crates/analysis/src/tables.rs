//! The path in rows: by what a developer can fix, by function, and, as another view, over all threads.

use crate::Groups;
use crate::chain::Frame;
use crate::charge::{Charger, Things};
use crate::phases::Phase;
use crate::spread::Spread;
use crate::stays::Stays;
use crate::stretch::{BootPath, StretchKind};
use std::borrow::Cow;
use timeline::{Cost, DECOMPRESS, INDIRECT, NameId, Ns, Timeline, TrackId, TrackKind};

mod charged;
mod functions;
mod row_stretches;
mod track_names;

use charged::Charged;
pub use row_stretches::{RowStretch, RowStretches};
pub use track_names::TrackNames;

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
