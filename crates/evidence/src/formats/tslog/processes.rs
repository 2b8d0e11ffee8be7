//! Places user processes on the timeline: a track and a span each, and the tree as a table.

use super::Log;
use super::events::Process1;
use super::order::{Life, named_lives};
use super::user::{self, Node};
use crate::input::text::lossy;
use hashbrown::HashMap;
use timeline::{Clock, DiagnosticKind, NameId, Ns, Process, SpanKind, SpanRow, Ticks, Timeline, TrackId, TrackKind};

/// The process table with names and times.
pub(super) struct Processes {
    /// Each process stands after its parent.
    table: Vec<Process>,
    /// The time of the last known event of the boot.
    last: Ns,
}

impl Processes {
    /// Reads the table of a log whose last record is at `last`.
    pub(super) fn new(log: &Log, lives: &[Life], clock: &Clock, last: Ns, timeline: &mut Timeline) -> Processes {
        for entry in log.users.iter().filter(|entry| entry.forked == 0) {
            let place = || log.place(entry.file, entry.line);
            timeline.diagnostics.note(DiagnosticKind::ProcessWithoutFork, place);
        }
        let entries: Vec<user::Entry> = log.users.iter().filter(|entry| entry.forked > 0).copied().collect();
        let nodes = user::tree(&entries, &log.labels);
        note_repeated(log, &entries, &nodes, timeline);
        let named = Named::new(log, lives, &entries);
        let mut processes = Processes { table: Vec::with_capacity(nodes.len()), last };
        for Node { entry, depth, name } in nodes {
            let e = entries[entry];
            if e.exited > 0 && e.exited < e.forked {
                timeline.diagnostics.note(DiagnosticKind::ProcessEndsBeforeItsStart, || log.place(e.file, e.line));
            }
            let start = clock.to_ns(Ticks(e.forked));
            let end = (e.exited > 0).then(|| clock.to_ns(Ticks(e.exited)).max(start));
            let name = if name.is_empty() { named.after(e.forked) } else { lossy(&name).into_owned() };
            let name = timeline.names.intern(&name);
            processes.table.push(Process { pid: e.pid, parent: e.parent, depth, name, start, end });
            processes.last = processes.last.max(end.unwrap_or(start));
        }
        processes
    }

    /// Returns process 1 from the moment it left the kernel, on its thread's track.
    pub(super) fn process_1(&self, track: TrackId, left_kernel: Ns) -> Option<Process1> {
        let process = self.table.iter().find(|p| p.pid == 1)?;
        let from = process.start.max(left_kernel);
        Some(Process1 { track, from, to: process.end.unwrap_or(self.last).max(from), name: process.name })
    }

    /// The time of the last known event of the boot.
    pub(super) fn last(&self) -> Ns {
        self.last
    }

    /// Adds a track and a span for each process; process 1 gets none if `init` is its track already. Returns the tracks
    /// by process number.
    pub(super) fn build(self, init: Option<TrackId>, timeline: &mut Timeline) -> HashMap<u64, TrackId> {
        let mut tracks: HashMap<u64, TrackId> = HashMap::with_capacity(self.table.len());
        for p in &self.table {
            if let Some(init) = init.filter(|_| p.pid == 1) {
                tracks.insert(p.pid, init);
                continue;
            }
            let track = timeline.tracks.add(p.name, TrackKind::Thread, p.pid);
            timeline.tracks.get_mut(track).created = tracks.get(&p.parent).map(|&parent| (p.start, parent));
            tracks.insert(p.pid, track);
            let (start, end) = (p.start, p.end.unwrap_or(self.last));
            let row = SpanRow { name: p.name, detail: NameId::EMPTY, start, end, track, kind: SpanKind::Process };
            timeline.spans.push(row, None);
        }
        timeline.processes = self.table;
        tracks
    }
}

/// Counts the lines of processes that are missing in `nodes` because an earlier line has the same number.
fn note_repeated(log: &Log, entries: &[user::Entry], nodes: &[Node], timeline: &mut Timeline) {
    let mut repeated = vec![true; entries.len()];
    nodes.iter().for_each(|node| repeated[node.entry] = false);
    for (e, _) in entries.iter().zip(repeated).filter(|(_, repeated)| *repeated) {
        timeline.diagnostics.note(DiagnosticKind::ProcessListedTwice, || log.place(e.file, e.line));
    }
}

/// Names of the kernel's own processes: a process's first thread is named right after the fork.
struct Named<'a> {
    log: &'a Log,
    /// Tick and label of each `THREAD` record.
    threads: Vec<(u64, u32)>,
    forks: Vec<u64>,
}

impl<'a> Named<'a> {
    fn new(log: &'a Log, lives: &[Life], entries: &[user::Entry]) -> Self {
        let mut forks: Vec<u64> = entries.iter().map(|e| e.forked).collect();
        forks.sort_unstable();
        Named { log, threads: named_lives(lives), forks }
    }

    fn after(&self, forked: u64) -> String {
        let next_fork = self.forks.get(self.forks.partition_point(|&fork| fork <= forked)).copied().unwrap_or(u64::MAX);
        let thread = self.threads.get(self.threads.partition_point(|&(ticks, _)| ticks < forked));
        match thread.filter(|&&(ticks, _)| ticks < next_fork) {
            Some(&(_, label)) => lossy(self.log.labels.text(label)).into_owned(),
            None => "(kernel)".to_owned(),
        }
    }
}
