//! Reads a boot back from the parts of a page, exact to the nanosecond, with everything that what-if needs.
//!
//! `crates/report/src/page/parts.rs` lists the tables. Names are the page's: control characters are replaced
//! (`harmless`), and very long names are cut. They keep the recording's order, because it breaks ties. Two names that
//! became the same text stay two names.

use crate::table::{Column, Table};
use std::collections::HashSet;
use std::fmt;
use timeline::{
    Boundary, End, EndEvidence, Hold, Initcalls, Mark, NameId, NodeId, Ns, OffCpu, Os, Phase, Process, Running,
    ServiceUnit, SpanId, SpanKind, SpanRow, Timeline, TrackId, TrackKind, Wait, WaitedOn,
};

/// The kinds of spans. A kind's place is its number in a page.
const KINDS: [SpanKind; 12] = [
    SpanKind::Stage,
    SpanKind::Level,
    SpanKind::Initcall,
    SpanKind::Module,
    SpanKind::Probe,
    SpanKind::Attach,
    SpanKind::Mount,
    SpanKind::Work,
    SpanKind::Call,
    SpanKind::Interrupt,
    SpanKind::Process,
    SpanKind::Message,
];

const TRACK_KINDS: [TrackKind; 6] =
    [TrackKind::Vmm, TrackKind::Firmware, TrackKind::Thread, TrackKind::Cpu, TrackKind::Interrupts, TrackKind::Console];

/// The number of a phase that the evidence names. Smaller numbers are places in [`Phase::ALL`].
const OTHER_PHASE: u64 = 1_000;

/// Initcall phases without a name in the evidence; their numbers follow [`OTHER_PHASE`]. The initcalls of a level come
/// after them.
const INITCALLS: [Initcalls; 4] = [Initcalls::All, Initcalls::OfTheLog, Initcalls::Early, Initcalls::PureToLate];

/// The number of a phase in a page, and the name that the number needs.
///
/// # Panics
/// If the table of phases lacks it.
pub fn phase_number(phase: Phase) -> (u64, NameId) {
    let number = |place: Option<usize>| place.expect("each is in its table") as u64;
    match phase {
        Phase::Other(name) => (OTHER_PHASE, name),
        Phase::Initcalls(Initcalls::Level(level)) => (OTHER_PHASE + 1 + INITCALLS.len() as u64, level),
        Phase::Initcalls(which) => {
            (OTHER_PHASE + 1 + number(INITCALLS.iter().position(|one| *one == which)), NameId::EMPTY)
        }
        named => (number(Phase::ALL.iter().position(|one| *one == named)), NameId::EMPTY),
    }
}

fn phase(number: u64, name: NameId) -> Option<Phase> {
    let place = |number: u64| usize::try_from(number).ok();
    match number.checked_sub(OTHER_PHASE) {
        None => Phase::ALL.get(place(number)?).copied(),
        Some(0) => Some(Phase::Other(name)),
        Some(n) => Some(Phase::Initcalls(*INITCALLS.get(place(n - 1)?).unwrap_or(&Initcalls::Level(name)))),
    }
}

/// True if what-if can run the boot again: it has a boot path, and the evidence has what its threads waited for.
pub fn can_run_again(timeline: &Timeline) -> bool {
    timeline.end.is_some_and(|end| end.track.is_some()) && timeline.cpus_followed_until != Some(Ns::MAX)
}

/// The part or table that a page lacks, so that its boot cannot be run again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing(&'static str);

impl fmt::Display for Missing {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "this page cannot run its boot again: its data has no valid {}", self.0)
    }
}

impl std::error::Error for Missing {}

/// The tables of one boot, in the order in which they were added.
#[derive(Default)]
pub struct Parts(Vec<Table<'static>>);

impl Parts {
    pub fn add(&mut self, table: Table<'static>) {
        self.0.push(table);
    }

    /// Builds the timeline from the tables. A boot that what-if cannot run again gets its end and its CPUs only.
    ///
    /// # Errors
    /// [`Missing`], with the name of the first table that is missing or malformed.
    pub fn timeline(&self) -> Result<Timeline, Missing> {
        let mut t = Timeline::default();
        self.model(&mut t)?;
        if !can_run_again(&t) {
            // The caller needs no more to say why the boot cannot be run again.
            return Ok(t);
        }
        let ids = self.names(&mut t)?;
        let name = |number: u64| usize::try_from(number).ok().and_then(|n| ids.get(n)).copied();
        t.decompressor = self.decompressor()?.and_then(name);
        self.tracks(&mut t, &name)?;
        let tracks = timeline::number(t.tracks.len());
        let track = |number: u64| u32::try_from(number).ok().filter(|n| *n < tracks).map(TrackId);
        self.calls(&mut t, &name)?;
        self.spans(&mut t, &name, &track)?;
        self.waits_and_cpus(&mut t, &name, &track)?;
        for i in self.rows("marks") {
            let (at, mark, on) =
                (self.at("marks", "at", i)?, self.at("marks", "name", i)?, self.at("marks", "track", i)?);
            let both = name(u(mark)).zip(track(u(on)));
            let (name, track) = both.ok_or(Missing("marks"))?;
            t.marks.push(Mark { at: Ns(at), name, track });
        }
        for i in self.rows("boundaries") {
            let at = |column| self.at("boundaries", column, i);
            let all = name(u(at("name")?)).zip(name(u(at("evidence")?)));
            let (named, evidence) = all.ok_or(Missing("boundaries"))?;
            let phase = phase(u(at("phase")?), named).ok_or(Missing("boundaries"))?;
            t.boundaries.push(Boundary { phase, at: Ns(at("at")?), error: Ns(at("error")?), evidence });
        }
        Ok(t)
    }

    /// The rows of all tables with this name, in order, each as the place of its table and the place in it.
    fn rows(&self, name: &'static str) -> impl Iterator<Item = (usize, usize)> + '_ {
        let tables = self.0.iter().enumerate().filter(move |(_, table)| table.name == name);
        tables.flat_map(|(i, table)| (0..table.rows).map(move |row| (i, row)))
    }

    /// The value of a column. A count beyond `i64::MAX` keeps its bits.
    fn at(&self, what: &'static str, column: &str, (table, row): (usize, usize)) -> Result<i64, Missing> {
        match self.0[table].column(column) {
            Some(Column::Bytes(values)) => Ok(values[row].into()),
            Some(Column::Counts(values)) => Ok(i64::from_ne_bytes(values[row].to_ne_bytes())),
            Some(Column::Deltas(values)) => Ok(values[row]),
            _ => Err(Missing(what)),
        }
    }

    fn text(&self, what: &'static str, column: &str, (table, row): (usize, usize)) -> Result<&str, Missing> {
        match self.0[table].column(column) {
            Some(Column::Texts(values)) => Ok(&values[row]),
            _ => Err(Missing(what)),
        }
    }

    /// The names, by their numbers in the page.
    fn names(&self, t: &mut Timeline) -> Result<Vec<NameId>, Missing> {
        let texts = self.rows("names").map(|i| self.text("names", "name", i)).collect::<Result<Vec<&str>, _>>()?;
        let mut ids = vec![NameId::EMPTY; texts.len()];
        let mut seen: HashSet<NameId> = HashSet::new();
        for i in self.rows("order") {
            let number = usize::try_from(self.at("order", "name", i)?).map_err(|_| Missing("order of names"))?;
            let text = *texts.get(number).ok_or(Missing("order of names"))?;
            let mut id = t.names.intern(text);
            let mut copies = 1;
            while !seen.insert(id) {
                copies += 1;
                id = t.names.intern(&format!("{text} ({copies})"));
            }
            ids[number] = id;
        }
        if seen.len() == ids.len() { Ok(ids) } else { Err(Missing("order of names")) }
    }

    fn decompressor(&self) -> Result<Option<u64>, Missing> {
        let row = self.rows("model").next().ok_or(Missing("model"))?;
        Ok(u(self.at("model", "decompressor", row)?).checked_sub(1))
    }

    fn model(&self, t: &mut Timeline) -> Result<(), Missing> {
        const WHAT: &str = "model";
        let row = self.rows(WHAT).next().ok_or(Missing(WHAT))?;
        let at = |column| self.at(WHAT, column, row);
        t.os = Os::of(self.text(WHAT, "os", row)?);
        let track = u(at("end_track")?).checked_sub(1).and_then(|n| u32::try_from(n).ok());
        // The page shows the kind of end evidence, and no analysis reads it.
        let evidence = EndEvidence::OfAllEvidence;
        t.end = Some(End { at: Ns(at("end")?), error: Ns::ZERO, track: track.map(TrackId), evidence });
        t.cpu_count = u32::try_from(at("cpus")?).map_err(|_| Missing(WHAT))?;
        t.cpus_followed_until = (at("is_followed")? != 0).then_some(Ns(at("followed")?));
        t.threads_seen_until = (at("is_cut")? != 0).then_some(Ns(at("seen")?));
        (t.occupancy.is_logged, t.occupancy.has_timeouts) = (at("is_logged")? != 0, at("has_timeouts")? != 0);
        Ok(())
    }

    fn tracks(&self, t: &mut Timeline, name_of: &impl Fn(u64) -> Option<NameId>) -> Result<(), Missing> {
        const WHAT: &str = "tracks";
        let count = self.rows(WHAT).count();
        for (i, called) in self.rows(WHAT).zip(self.rows("track_names")) {
            let at = |column| self.at(WHAT, column, i);
            let name = name_of(u(self.at("track_names", "name", called)?)).ok_or(Missing(WHAT))?;
            let kind = usize::try_from(at("kind")?).ok().and_then(|kind| TRACK_KINDS.get(kind)).ok_or(Missing(WHAT))?;
            let id = t.tracks.add(name, *kind, u(at("number")?));
            let by = u(at("by")?).checked_sub(1).map(u32::try_from);
            let by = by.transpose().ok().filter(|by| by.is_none_or(|by| (by as usize) < count)).ok_or(Missing(WHAT))?;
            let created = at("created")?;
            let track = t.tracks.get_mut(id);
            track.created = by.map(|by| (Ns(created), TrackId(by)));
            track.idle = at("idle")? != 0;
            track.is_unnamed = self.at("track_names", "is_unnamed", called)? != 0;
            let unit = u(self.at("track_names", "unit", called)?).checked_sub(1);
            track.unit = unit.map(|unit| name_of(unit).ok_or(Missing(WHAT))).transpose()?;
            if self.at("track_names", "is_init", called)? != 0 {
                track.process = Some(0);
                if t.processes.is_empty() {
                    t.processes.push(Process { pid: 1, parent: 0, depth: 0, name, start: Ns::ZERO, end: None });
                }
            }
        }
        for i in self.rows("units") {
            let name = name_of(u(self.at("units", "name", i)?)).ok_or(Missing("units"))?;
            let settled = Some(Ns(self.at("units", "settled", i)?));
            t.units.push(ServiceUnit { name, settled, ..ServiceUnit::default() });
        }
        let end = t.end.and_then(|end| end.track).is_none_or(|track| (track.0 as usize) < count);
        if end && t.tracks.len() == count { Ok(()) } else { Err(Missing("names of tracks")) }
    }

    fn calls(&self, t: &mut Timeline, name: &impl Fn(u64) -> Option<NameId>) -> Result<(), Missing> {
        const WHAT: &str = "calls";
        let mut nodes: Vec<NodeId> = Vec::new();
        for (i, held) in self.rows(WHAT).zip(self.rows("in_spans")) {
            let at = |column| self.at(WHAT, column, i);
            let parent = match u(at("parent")?) {
                0 => None,
                n => Some(*usize::try_from(n - 1).ok().and_then(|n| nodes.get(n)).ok_or(Missing(WHAT))?),
            };
            let name = name(u(at("name")?)).ok_or(Missing(WHAT))?;
            let node = t.profile.node(parent, name);
            t.profile.set_kind(node, kind(at("kind")?).ok_or(Missing(WHAT))?);
            t.profile.add(node, u(at("calls")?), u(at("self")?));
            t.profile.add_in_spans(node, u(self.at("in_spans", "spent", held)?));
            nodes.push(node);
        }
        let all = self.rows(WHAT).count();
        if t.profile.len() == all && nodes.len() == all { Ok(()) } else { Err(Missing(WHAT)) }
    }

    fn spans(
        &self,
        t: &mut Timeline,
        name: &impl Fn(u64) -> Option<NameId>,
        track: &impl Fn(u64) -> Option<TrackId>,
    ) -> Result<(), Missing> {
        const WHAT: &str = "spans";
        let label = |i| {
            let at = |column| self.at("labels", column, i);
            let (first, second) = (name(u(at("name")?)), name(u(at("detail")?)));
            Ok((first.ok_or(Missing(WHAT))?, second.ok_or(Missing(WHAT))?, kind(at("kind")?).ok_or(Missing(WHAT))?))
        };
        let labels = self.rows("labels").map(label).collect::<Result<Vec<_>, Missing>>()?;
        let paths: Vec<NodeId> = t.profile.nodes().map(|(id, _)| id).collect();
        let mut nodes = self.rows("nodes");
        let mut open: Vec<SpanId> = Vec::new();
        for i in self.rows(WHAT) {
            let at = |column| self.at(WHAT, column, i);
            let (name, detail, kind) =
                *usize::try_from(at("label")?).ok().and_then(|label| labels.get(label)).ok_or(Missing(WHAT))?;
            let track = track(u(at("track")?)).ok_or(Missing(WHAT))?;
            let start = at("start")?;
            let end = Ns(start.wrapping_add(at("length")?));
            let depth = usize::try_from(at("depth")?).map_err(|_| Missing(WHAT))?;
            if depth > open.len() {
                return Err(Missing(WHAT));
            }
            open.truncate(depth);
            let id = t.spans.push(SpanRow { name, detail, start: Ns(start), end, track, kind }, open.last().copied());
            open.push(id);
            if let Some(row) = nodes.next() {
                let node = usize::try_from(self.at("nodes", "node", row)?).ok().and_then(|n| n.checked_sub(1));
                t.spans.set_node(id, node.and_then(|n| paths.get(n)).copied());
            }
        }
        Ok(())
    }

    fn waits_and_cpus(
        &self,
        t: &mut Timeline,
        name: &impl Fn(u64) -> Option<NameId>,
        track: &impl Fn(u64) -> Option<TrackId>,
    ) -> Result<(), Missing> {
        for i in self.rows("waits") {
            let at = |column| self.at("waits", column, i);
            let (from, on) = (at("from")?, u(at("on")?));
            let by = match at("kind")? {
                0 => WaitedOn::Thread(track(on).ok_or(Missing("waits"))?),
                1 => WaitedOn::Interrupt(name(on).ok_or(Missing("waits"))?),
                2 => WaitedOn::Holders(name(on).ok_or(Missing("waits"))?),
                3 => WaitedOn::Nothing,
                4 => WaitedOn::Halted,
                _ => WaitedOn::Unknown,
            };
            let woken = Ns(from.wrapping_add(at("woken")?));
            let until = until(from, at("length")?);
            let track = track(u(at("track")?)).ok_or(Missing("waits"))?;
            t.waits.push(Wait { track, from: Ns(from), woken, until, by, uninterruptible: false });
        }
        let cpu = |number: i64| u32::try_from(number).map_err(|_| Missing("CPUs"));
        let traced = self.rows("model").next().map(|row| self.at("model", "is_traced", row)).transpose()?;
        for i in self.rows("running").filter(|_| traced != Some(0)) {
            let at = |column| self.at("running", column, i);
            let from = at("from")?;
            let track = track(u(at("track")?)).ok_or(Missing("running"))?;
            t.running.push(Running { track, cpu: cpu(at("cpu")?)?, from: Ns(from), to: until(from, at("length")?) });
        }
        for i in self.rows("turns") {
            let at = |column| self.at("turns", column, i);
            let track = track(u(at("track")?)).ok_or(Missing("turns"))?;
            t.occupancy.turns.push(Running { track, cpu: cpu(at("cpu")?)?, from: Ns(at("from")?), to: Ns(at("to")?) });
        }
        for i in self.rows("off") {
            let at = |column| self.at("off", column, i);
            t.occupancy.off.push(OffCpu {
                track: track(u(at("track")?)).ok_or(Missing("off"))?,
                from: Ns(at("from")?),
                ready: (at("is_known")? != 0).then_some(Ns(at("ready")?)),
                until: Ns(at("until")?),
                by: u(at("by")?).checked_sub(1).and_then(track),
            });
        }
        for i in self.rows("holds") {
            let at = |column| self.at("holds", column, i);
            let both = name(u(at("topic")?)).zip(track(u(at("track")?)));
            let (topic, track) = both.ok_or(Missing("holds"))?;
            t.holds.push(Hold { topic, track, from: Ns(at("from")?), to: Ns(at("to")?) });
        }
        // The numbers of names in the page have another order, so sort again.
        t.holds.sort_by_key(|h| (h.topic, h.to, h.from));
        Ok(())
    }
}

/// The bits of a value that is not negative.
fn u(value: i64) -> u64 {
    u64::from_ne_bytes(value.to_ne_bytes())
}

fn kind(number: i64) -> Option<SpanKind> {
    usize::try_from(number).ok().and_then(|kind| KINDS.get(kind)).copied()
}

/// The end of an interval. Its length is stored plus one; a stored 0 means that the interval is open.
fn until(from: i64, length: i64) -> Ns {
    if length == 0 { Ns::MAX } else { Ns(from.wrapping_add(length).wrapping_sub(1)) }
}
