//! Builds the processes of user space from a trace: parents, programs, ends and units.
//!
//! A thread belongs to user space once it runs a program, and so do all its descendants from then on. If the trace has
//! `task_newtask`, it shows which threads belong to one process; else each thread counts as a process. A process ends
//! with its last thread.

use hashbrown::HashMap;
use timeline::{DiagnosticKind, Manager, NameId, Names, Ns, Process, ServiceUnit, Timeline, TrackId};

use super::services;
use crate::input::text::lossy;

/// Greater depths are set to this one.
const DEPTH_MAX: u32 = 64;
/// Further processes are counted, but not listed.
const PROCESSES_MAX: usize = 1 << 17;

/// The processes seen so far.
#[derive(Debug, Default)]
pub(super) struct Processes {
    all: Vec<One>,
    /// The process of each thread that is alive.
    now: HashMap<u32, usize>,
    /// The process of each thread, by the thread's track.
    threads: Vec<(TrackId, usize)>,
    /// For each thread that forks: the child that `task_newtask` already reported.
    said: HashMap<u32, u32>,
    /// For each thread that forks: the unit whose first process the child is.
    begins: HashMap<u32, NameId>,
    /// The number of processes beyond [`PROCESSES_MAX`].
    beyond: u64,
}

#[derive(Debug)]
struct One {
    pid: u32,
    track: TrackId,
    /// The process that forked it, if that was seen.
    parent: Option<usize>,
    start: Ns,
    end: Option<Ns>,
    /// The program that it ran last.
    program: Option<NameId>,
    is_user: bool,
    /// The number of its threads that are alive.
    alive: u32,
    unit: Option<NameId>,
    /// The first script of a service that it ran.
    script: Option<NameId>,
    /// The time at which it last began to run a program.
    ran: Ns,
}

/// A service of a manager that has no control groups.
struct Service {
    name: NameId,
    manager: Manager,
    start: Ns,
    settled: Option<Ns>,
}

impl Processes {
    /// Adds a new thread whose kind the trace gives: one more of its parent's process, or the first of a new process.
    pub(super) fn created(&mut self, child: (u32, TrackId), parent: u32, is_thread: bool, has_group: bool, at: Ns) {
        let unit = self.begins.remove(&parent).filter(|_| has_group);
        self.said.insert(parent, child.0);
        if !is_thread {
            let new = self.fork(child, parent, at);
            if let (Some(new), Some(unit)) = (new, unit) {
                self.all[new].unit = Some(unit);
            }
            return;
        }
        self.now.remove(&child.0);
        if let Some(&process) = self.now.get(&parent) {
            self.all[process].alive += 1;
            self.now.insert(child.0, process);
            self.threads.push((child.1, process));
        }
    }

    /// Adds a forked thread, unless [`Processes::created`] has added it.
    pub(super) fn forked(&mut self, child: (u32, TrackId), parent: u32, at: Ns) {
        if self.said.remove(&parent) != Some(child.0) {
            self.fork(child, parent, at);
        }
    }

    fn fork(&mut self, child: (u32, TrackId), parent: u32, at: Ns) -> Option<usize> {
        let parent = self.now.get(&parent).copied();
        let is_user = parent.is_some_and(|parent| self.all[parent].is_user);
        self.add(child, parent, at, is_user)
    }

    /// Notes that a process runs a program. `by` is the thread that called `execve`; `begun` is the earliest time at
    /// which the process is known to exist.
    pub(super) fn execs(
        &mut self,
        (pid, track): (u32, TrackId),
        by: u32,
        program: NameId,
        begun: Ns,
        at: Ns,
        names: &mut Names,
    ) {
        if by != pid {
            if let Some(process) = self.now.remove(&by) {
                self.now.insert(pid, process);
            }
        }
        let Some(one) = self.now.get(&pid).copied().or_else(|| self.add((pid, track), None, begun, true)) else {
            return;
        };
        let script = services::script(names.get(program)).map(str::to_owned);
        let one = &mut self.all[one];
        (one.program, one.is_user, one.ran) = (Some(program), true, at);
        one.script = one.script.or(script.map(|script| names.intern(&script)));
    }

    /// Notes that a thread ends.
    pub(super) fn exits(&mut self, thread: u32, at: Ns) {
        let Some(process) = self.now.remove(&thread) else { return };
        let one = &mut self.all[process];
        one.alive = one.alive.saturating_sub(1);
        if one.alive == 0 {
            one.end = Some(at);
        }
    }

    /// Notes that a control group gets its first process through an action of thread `by`.
    pub(super) fn group_begins(&mut self, by: u32, group: &[u8], timeline: &mut Timeline) {
        // The kernel reports the group itself first, then the groups around it.
        if let Some(unit) = unit_of(group).filter(|_| !self.begins.contains_key(&by)) {
            self.begins.insert(by, timeline.names.intern(&unit));
        }
    }

    /// Notes that a process joins a control group.
    pub(super) fn joins(&mut self, by: u32, pid: u32, group: &[u8], timeline: &mut Timeline) {
        self.begins.remove(&by);
        if let (Some(&process), Some(unit)) = (self.now.get(&pid), unit_of(group)) {
            self.all[process].unit = Some(timeline.names.intern(&unit));
        }
    }

    fn add(&mut self, (pid, track): (u32, TrackId), parent: Option<usize>, start: Ns, is_user: bool) -> Option<usize> {
        if self.all.len() == PROCESSES_MAX {
            self.beyond += 1;
            self.now.remove(&pid);
            return None;
        }
        let one = self.all.len();
        let unit = parent.and_then(|parent| self.all[parent].unit);
        let (end, program, script) = (None, None, None);
        self.all.push(One { pid, track, parent, start, end, program, is_user, alive: 1, unit, script, ran: start });
        self.now.insert(pid, one);
        self.threads.push((track, one));
        Some(one)
    }

    /// Adds the table: each process after its parent, in order of time. A process that ran no program has its thread's
    /// name.
    pub(super) fn build(mut self, timeline: &mut Timeline, place: impl Fn() -> String) {
        self.services(timeline);
        for _ in 0..self.beyond {
            timeline.diagnostics.note_about(DiagnosticKind::EntriesBeyondBound, "the table of processes", &place);
        }
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); self.all.len()];
        let mut roots = Vec::new();
        for (i, one) in self.all.iter().enumerate().filter(|(_, one)| one.is_user) {
            match one.parent.filter(|&parent| self.all[parent].is_user) {
                Some(parent) => children[parent].push(i),
                None => roots.push(i),
            }
        }
        let mut places: Vec<Option<usize>> = vec![None; self.all.len()];
        let mut ahead: Vec<(usize, u32)> = roots.into_iter().rev().map(|root| (root, 0)).collect();
        while let Some((i, depth)) = ahead.pop() {
            let one = &self.all[i];
            let parent = one.parent.map_or(0, |parent| u64::from(self.all[parent].pid));
            let name = one.program.unwrap_or_else(|| timeline.tracks.get(one.track).name);
            let (pid, start, end) = (u64::from(one.pid), one.start, one.end);
            places[i] = Some(timeline.processes.len());
            timeline.processes.push(Process { pid, parent, depth, name, start, end });
            ahead.extend(children[i].iter().rev().map(|&child| (child, (depth + 1).min(DEPTH_MAX))));
        }
        for &(track, process) in &self.threads {
            let Some(place) = places[process] else { continue };
            let track = timeline.tracks.get_mut(track);
            (track.process, track.unit) = (Some(timeline::number(place)), self.all[process].unit);
        }
    }
}

impl Processes {
    /// Finds services by the programs that processes run. A process that belongs to a unit by its control group starts
    /// none.
    fn services(&mut self, timeline: &mut Timeline) {
        let program = |one: &One| one.program.map_or("", |name| timeline.names.get(name));
        let parent = |one: &One| one.parent.map(|parent| &self.all[parent]);
        // If OpenRC runs one service in the parent of the script's process, the parent is the service.
        let above = self.all.iter().filter_map(|one| {
            let above = parent(one).filter(|above| above.script.is_none() && services::runs_one(program(above)))?;
            one.script.filter(|_| above.unit.is_none()).zip(one.parent)
        });
        let above: Vec<(NameId, usize)> = above.collect();
        above.into_iter().rev().for_each(|(script, above)| self.all[above].script = Some(script));
        let mut new_services: Vec<Service> = Vec::new();
        // Children inherited control groups at the fork already. Services are passed on here: parents stand before
        // their children.
        let mut services: Vec<Option<NameId>> = vec![None; self.all.len()];
        for i in (0..self.all.len()).filter(|&i| self.all[i].unit.is_none()).collect::<Vec<_>>() {
            services[i] = self.all[i].parent.and_then(|parent| services[parent]);
            if services[i].is_none() {
                let service = self.service(i, timeline);
                services[i] = service.as_ref().map(|service| service.name);
                new_services.extend(service);
            }
            self.all[i].unit = services[i];
        }
        new_services.sort_by_key(|service| service.start);
        for Service { name, manager, start, settled } in new_services {
            timeline.unit_managers.insert(name, manager);
            timeline.units.push(ServiceUnit { name, start: Some(start), settled, ..ServiceUnit::default() });
        }
    }

    /// Returns the service of a process, if it starts one.
    fn service(&self, i: usize, timeline: &mut Timeline) -> Option<Service> {
        let one = &self.all[i];
        let program = |one: &One| one.program.map_or("", |name| timeline.names.get(name));
        let above = one.parent.map_or("", |parent| program(&self.all[parent]));
        if let Some(name) = one.script {
            let is_openrc = services::is_openrc(above) || services::runs_one(program(one));
            let manager = if is_openrc { Manager::OpenRc } else { Manager::SysvInit };
            return Some(Service { name, manager, start: one.start, settled: one.end });
        }
        let manager = services::supervisor(above).filter(|_| !services::is_run_script(program(one)))?;
        let name = services::base(program(one)).to_owned();
        let name = timeline.names.intern(&name);
        Some(Service { name, manager, start: one.start, settled: Some(one.ran) })
    }
}

/// The systemd unit of a control group: the first part of the path that is not a slice. A unit name that would collide
/// with one of the kernel's files has an underscore in front.
fn unit_of(group: &[u8]) -> Option<String> {
    let group = lossy(group);
    let mut parts = group.split('/').map(|part| part.strip_prefix('_').unwrap_or(part));
    parts.find(|part| recording::is_unit_name(part) && !part.ends_with(".slice")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_groups_unit_is_the_first_part_that_is_not_a_slice() {
        let unit = |group: &str| unit_of(group.as_bytes());
        assert_eq!(unit("/system.slice/ssh.service").as_deref(), Some("ssh.service"));
        assert_eq!(
            unit("/user.slice/user-0.slice/user@0.service/app.slice/a.service").as_deref(),
            Some("user@0.service")
        );
        let escaped = r"/system.slice/system-serial\x2dgetty.slice/serial-getty@ttyS0.service";
        assert_eq!(unit(escaped).as_deref(), Some("serial-getty@ttyS0.service"));
        assert_eq!(unit("/system.slice/_cpu.service/inner").as_deref(), Some("cpu.service"));
        assert_eq!((unit("/"), unit("/system.slice"), unit("/a b.service")), (None, None, None));
    }
}
