//! The parts that a page needs to run the boot again beside the shown ones.

use super::Names;
use crate::Boot;
use page_data::{Column, Table};
use timeline::{NameId, Ns};

/// The number of process 1.
const INIT_PID: u64 = 1;

/// The parts that running the boot again needs beside the shown ones. If the boot cannot be run again, only its model,
/// which says why.
pub(super) fn model(boot: &Boot, names: &mut Names) -> Vec<Table<'static>> {
    let t = boot.timeline;
    let one = |count: u64| Column::Counts(vec![count]);
    let flag = |is: bool| Column::Bytes(vec![u8::from(is)]);
    let os = if t.os.is_known() { t.os.name() } else { &boot.facts.subject.os };
    let model = Table::new("model", 1)
        .with("os", Column::Texts(vec![os.to_owned().into()]))
        .with("end", Column::Deltas(vec![t.end.map_or(0, |end| end.at.0)]))
        .with("end_track", one(t.end.and_then(|end| end.track).map_or(0, |track| 1 + u64::from(track.0))))
        .with("cpus", one(t.cpu_count.into()))
        .with("is_followed", flag(t.cpus_followed_until.is_some()))
        .with("followed", Column::Deltas(vec![t.cpus_followed_until.unwrap_or_default().0]))
        .with("is_cut", flag(t.threads_seen_until.is_some()))
        .with("seen", Column::Deltas(vec![t.threads_seen_until.unwrap_or_default().0]))
        .with("decompressor", one(t.decompressor.map_or(0, |name| 1 + names.name(name))))
        .with("is_logged", flag(t.occupancy.is_logged))
        .with("has_timeouts", flag(t.occupancy.has_timeouts))
        .with("is_traced", flag(!t.running.is_empty()));
    if !page_data::can_run_again(t) {
        return vec![model];
    }
    let tracks: Vec<_> = t.tracks.iter().map(|(_, track)| track).collect();
    let is_init =
        |track: &timeline::Track| track.process.is_some_and(|process| t.processes[process as usize].pid == INIT_PID);
    let track_names = Table::new("track_names", tracks.len())
        .with("name", Column::Counts(tracks.iter().map(|track| names.name(track.name)).collect()))
        .with("is_unnamed", Column::Bytes(tracks.iter().map(|track| u8::from(track.is_unnamed)).collect()))
        .with("unit", Column::Counts(tracks.iter().map(|t| t.unit.map_or(0, |unit| 1 + names.name(unit))).collect()))
        .with("is_init", Column::Bytes(tracks.iter().map(|t| u8::from(is_init(t))).collect()));
    let settled: Vec<(NameId, Ns)> = t.units.iter().filter_map(|unit| Some((unit.name, unit.settled?))).collect();
    let units = Table::new("units", settled.len())
        .with("name", Column::Counts(settled.iter().map(|&(name, _)| names.name(name)).collect()))
        .with("settled", Column::Deltas(settled.iter().map(|(_, at)| at.0).collect()));
    let mut all = vec![model, track_names, units];
    if !t.profile.is_empty() {
        let node =
            |node: Option<timeline::NodeId>| node.map_or(0, |node| 1 + u64::from(timeline::number(node.index())));
        let nodes = t.spans.iter().map(|(id, _)| node(t.spans.node(id))).collect();
        let spent = t.profile.nodes().map(|(id, _)| t.profile.in_spans(id)).collect();
        all.push(Table::new("nodes", t.spans.len()).with("node", Column::Counts(nodes)));
        all.push(Table::new("in_spans", t.profile.len()).with("spent", Column::Counts(spent)));
    }
    all.extend([holds(boot, names), turns(boot), off(boot), boundaries(boot, names)]);
    // Last, because all names are then known.
    let mut order: Vec<(NameId, u64)> = names.names.iter().copied().zip(0..).collect();
    order.sort_unstable();
    let order = order.into_iter().map(|(_, number)| i64::try_from(number).expect("names have 32 bits")).collect();
    all.push(Table::new("order", names.names.len()).with("name", Column::Deltas(order)));
    all
}

fn holds(boot: &Boot, names: &mut Names) -> Table<'static> {
    let all = &boot.timeline.holds;
    Table::new("holds", all.len())
        .with("topic", Column::Counts(all.iter().map(|h| names.name(h.topic)).collect()))
        .with("track", Column::Deltas(all.iter().map(|h| i64::from(h.track.0)).collect()))
        .with("from", Column::Deltas(all.iter().map(|h| h.from.0).collect()))
        .with("to", Column::Deltas(all.iter().map(|h| h.to.0).collect()))
}

fn turns(boot: &Boot) -> Table<'static> {
    let all = &boot.timeline.occupancy.turns;
    Table::new("turns", all.len())
        .with("track", Column::Deltas(all.iter().map(|r| i64::from(r.track.0)).collect()))
        .with("cpu", Column::Counts(all.iter().map(|r| u64::from(r.cpu)).collect()))
        .with("from", Column::Deltas(all.iter().map(|r| r.from.0).collect()))
        .with("to", Column::Deltas(all.iter().map(|r| r.to.0).collect()))
}

fn off(boot: &Boot) -> Table<'static> {
    let all = &boot.timeline.occupancy.off;
    Table::new("off", all.len())
        .with("track", Column::Deltas(all.iter().map(|o| i64::from(o.track.0)).collect()))
        .with("from", Column::Deltas(all.iter().map(|o| o.from.0).collect()))
        .with("is_known", Column::Bytes(all.iter().map(|o| u8::from(o.ready.is_some())).collect()))
        .with("ready", Column::Deltas(all.iter().map(|o| o.ready.unwrap_or(o.from).0).collect()))
        .with("until", Column::Deltas(all.iter().map(|o| o.until.0).collect()))
        .with("by", Column::Counts(all.iter().map(|o| o.by.map_or(0, |by| 1 + u64::from(by.0))).collect()))
}

fn boundaries(boot: &Boot, names: &mut Names) -> Table<'static> {
    let all = &boot.timeline.boundaries;
    let phases: Vec<(u64, NameId)> = all.iter().map(|b| page_data::phase_number(b.phase)).collect();
    Table::new("boundaries", all.len())
        .with("phase", Column::Counts(phases.iter().map(|(number, _)| *number).collect()))
        .with("name", Column::Counts(phases.iter().map(|(_, name)| names.name(*name)).collect()))
        .with("at", Column::Deltas(all.iter().map(|b| b.at.0).collect()))
        .with("error", Column::Deltas(all.iter().map(|b| b.error.0).collect()))
        .with("evidence", Column::Counts(all.iter().map(|b| names.name(b.evidence)).collect()))
}
