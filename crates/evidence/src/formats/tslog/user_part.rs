//! A process table without any record of the kernel: the part of the boot in which rc runs.
//!
//! It lasts from the fork of rc to its exit. A process waits for its children, one after the other, but not for one that
//! outlives it. The table does not say so; FreeBSD's own scripts take it so, and a shell mostly does.

use super::Log;
use super::processes::Processes;
use super::user;
use hashbrown::HashMap;
use timeline::{
    End, EndEvidence, Ns, Phase, Process, ProcessNamed, ProcessOf, Timeline, TrackId, Wait, WaitedOn, Warning,
};

/// The tick at which that part begins: rc's fork, or the first one if there is no rc.
pub fn begins(log: &Log) -> Option<u64> {
    let rc = user::rc(&log.users).map(|rc| log.users[rc].forked);
    rc.or_else(|| log.users.iter().map(|user| user.forked).filter(|&ticks| ticks > 0).min())
}

/// Lays the processes, who of them waits for whom, and the end mark. `error`: how well the table's place is known.
pub fn build(log: &Log, processes: Processes, error: Ns, timeline: &mut Timeline) {
    let last = processes.last();
    let tracks = processes.build(None, timeline);
    let table = std::mem::take(&mut timeline.processes);
    wait_for_children(&table, &tracks, last, timeline);
    let rc_pid = user::rc(&log.users).map(|rc| log.users[rc].pid);
    let rc = table.iter().find(|p| Some(p.pid) == rc_pid);
    let of = |p: &Process| ProcessOf { pid: p.pid, name: p.name };
    let (at, evidence) = match rc {
        Some(rc) => match rc.end {
            Some(end) => (end, EndEvidence::Exited(of(rc))),
            None => (last, EndEvidence::TableEndsBeforeExit(of(rc))),
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

/// Each process waits for the next child that it forked when the one before it is gone.
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
