//! The processes of user space as a trace shows them: who forked whom, what each ran, when it ended, in which unit it was.
//!
//! A thread belongs to user space once it runs a program, and so do all that are forked from there on. Where the trace says so
//! (`task_newtask`), a thread of a process is part of it; elsewhere each is a process. A process ends with its last thread.

use hashbrown::HashMap;
use timeline::{DiagnosticKind, Manager, NameId, Names, Ns, Process, ServiceUnit, Timeline, TrackId};

use super::services;
use crate::input::text::lossy;

/// More ancestors are not counted.
const DEPTH_MAX: u32 = 64;
/// More processes are not listed, but counted.
const PROCESSES_MAX: usize = 1 << 17;

/// All that were seen.
#[derive(Debug, Default)]
pub(super) struct Processes {
    all: Vec<One>,
    /// The process of each thread that is alive.
    now: HashMap<u32, usize>,
    /// Whose each thread was, by its track.
    threads: Vec<(TrackId, usize)>,
    /// Of a thread that forks, the child of which it was said already.
    said: HashMap<u32, u32>,
    /// Of a thread that forks, the unit whose first process the child is.
    begins: HashMap<u32, NameId>,
    /// How many are beyond [`PROCESSES_MAX`].
    beyond: u64,
}

#[derive(Debug)]
struct One {
    pid: u32,
    track: TrackId,
    /// Who forked it, if that was seen.
    parent: Option<usize>,
    start: Ns,
    end: Option<Ns>,
    /// The program that it ran last.
    program: Option<NameId>,
    is_user: bool,
    /// How many of its threads are alive.
    alive: u32,
    unit: Option<NameId>,
    /// The first script of a service that it ran.
    script: Option<NameId>,
    /// When it ran a program last.
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
    /// A thread was created, and the trace says which kind: one more of its process's, or the first of a new process.
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

    /// A thread was forked.
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

    /// It runs a program; `by` is the thread that called for it, `begun` is when that is known to be there.
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

    /// A thread ends.
    pub(super) fn exits(&mut self, thread: u32, at: Ns) {
        let Some(process) = self.now.remove(&thread) else { return };
        let one = &mut self.all[process];
        one.alive = one.alive.saturating_sub(1);
        if one.alive == 0 {
            one.end = Some(at);
        }
    }

    /// A control group has its first process, by what this thread does.
    pub(super) fn group_begins(&mut self, by: u32, group: &[u8], timeline: &mut Timeline) {
        // Said of the group itself first, then of the groups around it.
        if let Some(unit) = unit_of(group).filter(|_| !self.begins.contains_key(&by)) {
            self.begins.insert(by, timeline.names.intern(&unit));
        }
    }

    /// A process comes into a control group.
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

    /// As a table, each process after its parent, in order of time. What ran no program is called like its thread.
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
    /// Finds services by what processes run. Who belongs to a unit already, by its control group, starts none.
    fn services(&mut self, timeline: &mut Timeline) {
        let program = |one: &One| one.program.map_or("", |name| timeline.names.get(name));
        let parent = |one: &One| one.parent.map(|parent| &self.all[parent]);
        // Where OpenRC has one service in a process above the script's, that process is the service.
        let above = self.all.iter().filter_map(|one| {
            let above = parent(one).filter(|above| above.script.is_none() && services::runs_one(program(above)))?;
            one.script.filter(|_| above.unit.is_none()).zip(one.parent)
        });
        let above: Vec<(NameId, usize)> = above.collect();
        above.into_iter().rev().for_each(|(script, above)| self.all[above].script = Some(script));
        let mut found: Vec<Service> = Vec::new();
        // Control groups were handed on at the fork; of these, whose parent is a service stands before its children.
        let mut services: Vec<Option<NameId>> = vec![None; self.all.len()];
        for i in (0..self.all.len()).filter(|&i| self.all[i].unit.is_none()).collect::<Vec<_>>() {
            services[i] = self.all[i].parent.and_then(|parent| services[parent]);
            if services[i].is_none() {
                let service = self.service(i, timeline);
                services[i] = service.as_ref().map(|service| service.name);
                found.extend(service);
            }
            self.all[i].unit = services[i];
        }
        found.sort_by_key(|service| service.start);
        for Service { name, manager, start, settled } in found {
            timeline.unit_managers.insert(name, manager);
            timeline.units.push(ServiceUnit { name, start: Some(start), settled, ..ServiceUnit::default() });
        }
    }

    /// The service that a process is.
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

/// The unit of systemd's that has this control group: the first in the path that is no slice. A name that would collide with one of
/// the kernel's files has an underscore in front.
fn unit_of(group: &[u8]) -> Option<String> {
    let group = lossy(group);
    let mut parts = group.split('/').map(|part| part.strip_prefix('_').unwrap_or(part));
    parts.find(|part| recording::is_unit_name(part) && !part.ends_with(".slice")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_of_the_first_unit_that_is_no_slice() {
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
