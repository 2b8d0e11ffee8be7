//! The processes of user space as a trace shows them: who forked whom, what each ran, when it ended.
//!
//! A thread belongs to user space once it runs a program, and so do all that are forked from there on. A trace does not say
//! whether what was forked is a process or one more thread of its parent's: both are listed.

use hashbrown::HashMap;
use timeline::{NameId, Ns, Process, Timeline, TrackId};

/// More ancestors are not counted.
const DEPTH_MAX: u32 = 64;

/// All that were seen.
#[derive(Debug, Default)]
pub(super) struct Processes {
    all: Vec<One>,
    /// Who has each number now.
    now: HashMap<u32, usize>,
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
}

impl Processes {
    /// A thread was forked.
    pub(super) fn forked(&mut self, child: (u32, TrackId), parent: u32, at: Ns) {
        let parent = self.now.get(&parent).copied();
        let is_user = parent.is_some_and(|parent| self.all[parent].is_user);
        self.add(child, parent, at, is_user);
    }

    /// It runs a program; `begun` is when its thread is known to be there.
    pub(super) fn execs(&mut self, (pid, track): (u32, TrackId), program: NameId, begun: Ns) {
        let one = match self.now.get(&pid) {
            Some(&known) => known,
            None => self.add((pid, track), None, begun, true),
        };
        self.all[one].program = Some(program);
        self.all[one].is_user = true;
    }

    /// It ends.
    pub(super) fn exits(&mut self, pid: u32, at: Ns) {
        if let Some(one) = self.now.remove(&pid) {
            self.all[one].end = Some(at);
        }
    }

    fn add(&mut self, (pid, track): (u32, TrackId), parent: Option<usize>, start: Ns, is_user: bool) -> usize {
        let one = self.all.len();
        self.all.push(One { pid, track, parent, start, end: None, program: None, is_user });
        self.now.insert(pid, one);
        one
    }

    /// As a table, each process after its parent, in order of time. What ran no program is called like its thread.
    pub(super) fn build(self, timeline: &mut Timeline) {
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); self.all.len()];
        let mut roots = Vec::new();
        for (i, one) in self.all.iter().enumerate().filter(|(_, one)| one.is_user) {
            match one.parent.filter(|&parent| self.all[parent].is_user) {
                Some(parent) => children[parent].push(i),
                None => roots.push(i),
            }
        }
        let mut ahead: Vec<(usize, u32)> = roots.into_iter().rev().map(|root| (root, 0)).collect();
        while let Some((i, depth)) = ahead.pop() {
            let one = &self.all[i];
            let parent = one.parent.map_or(0, |parent| u64::from(self.all[parent].pid));
            let name = one.program.unwrap_or_else(|| timeline.tracks.get(one.track).name);
            let (pid, start, end) = (u64::from(one.pid), one.start, one.end);
            timeline.processes.push(Process { pid, parent, depth, name, start, end });
            ahead.extend(children[i].iter().rev().map(|&child| (child, (depth + 1).min(DEPTH_MAX))));
        }
    }
}
