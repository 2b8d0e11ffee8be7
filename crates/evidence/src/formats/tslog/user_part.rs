//! Builds a timeline from a process table without kernel records: the part of the boot in which rc runs.
//!
//! That part lasts from the fork of rc to its exit. A process is assumed to wait for its children one after the other,
//! but not for a child that outlives it. The table does not show waits; FreeBSD's own scripts assume the same, and it
//! holds for most shells.

use super::Log;
use super::processes::Processes;
use super::user;
use hashbrown::HashMap;
use timeline::{
    End, EndEvidence, Ns, Phase, Process, ProcessNamed, ProcessOf, Timeline, TrackId, Wait, WaitedOn, Warning,
};

/// The tick at which this part begins: rc's fork, or the first fork if there is no rc.
pub(super) fn begins(log: &Log) -> Option<u64> {
    let rc = user::rc(&log.users).map(|rc| log.users[rc].forked);
    rc.or_else(|| log.users.iter().map(|user| user.forked).filter(|&ticks| ticks > 0).min())
}

/// Adds the processes, their waits for each other, and the end mark. `error`: the error of the table's place.
pub(super) fn build(log: &Log, processes: Processes, error: Ns, timeline: &mut Timeline) {
    let last = processes.last();
    let tracks = processes.build(None, timeline);
    let table = std::mem::take(&mut timeline.processes);
    wait_for_children(&table, &tracks, last, timeline);
    let rc_pid = user::rc(&log.users).map(|rc| log.users[rc].pid);
    let rc = table.iter().find(|p| Some(p.pid) == rc_pid);
    let process_of = |p: &Process| ProcessOf { pid: p.pid, name: p.name };
    let (at, evidence) = match rc {
        Some(rc) => match rc.end {
            Some(end) => (end, EndEvidence::Exited(process_of(rc))),
            None => (last, EndEvidence::TableEndsBeforeExit(process_of(rc))),
        },
        None => (last, EndEvidence::TableEnds),
    };
    let zero = rc.map(|p| ProcessNamed { pid: p.pid, name: Some(timeline.names.get(p.name).to_owned()) });
    timeline.warnings.push(Warning::ProcessTableAlone { zero });
    let ends_last = || table.iter().max_by_key(|p| p.end.unwrap_or(p.start));
    let track = rc.or_else(ends_last).and_then(|p| tracks.get(&p.pid)).copied();
    if let Some(begins) = rc.map(|rc| rc.start).or(table.iter().map(|p| p.start).min()) {
        timeline.boundary(
            Phase::UserProcesses,
            begins,
            error,
            if rc.is_some() { "process 1 forked rc" } else { "the first fork" },
        );
    }
    timeline.end = Some(End { at, error, track, evidence });
    timeline.processes = table;
}

/// Adds a wait for each child: it begins at the child's fork, or when the previously forked child ends.
fn wait_for_children(table: &[Process], tracks: &HashMap<u64, TrackId>, last: Ns, timeline: &mut Timeline) {
    let ends: HashMap<u64, Ns> = table.iter().map(|p| (p.pid, p.end.unwrap_or(last))).collect();
    let mut children: Vec<&Process> = table.iter().filter(|p| p.parent != p.pid).collect();
    children.sort_by_key(|p| (p.parent, p.start, p.pid));
    for siblings in children.chunk_by(|a, b| a.parent == b.parent) {
        let Some((&track, &parent_ends)) = tracks.get(&siblings[0].parent).zip(ends.get(&siblings[0].parent)) else {
            continue;
        };
        let mut at = Ns::MIN;
        for child in siblings {
            let (Some(until), Some(&by)) = (child.end.filter(|&end| end <= parent_ends), tracks.get(&child.pid)) else {
                continue;
            };
            let from = child.start.max(at);
            if from < until {
                let by = WaitedOn::Thread(by);
                timeline.waits.push(Wait { track, from, woken: until, until, by, uninterruptible: false });
                at = until;
            }
        }
    }
}
