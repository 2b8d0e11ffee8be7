//! Random graphs of services, and what a boot that starts them waits for: which services, and how long for each.
//!
//! A service is started when all that it is ordered after have ended. It sleeps, has the CPU, or sleeps with a lock, in
//! its own order; who waits for a lock gets it in the order of asking. The answer is worked out by a simulation of that, and a walk
//! back from the end through it, which share nothing with the program's. The one thing that the simulation does not know is how long systemd
//! takes to start a service's program when it may start; it is told.

use super::scripts::Random;
use std::fmt::Write;

/// What a service does, in ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Sleep(u64),
    /// With the lock of the CPU.
    Cpu(u64),
    /// A sleep with a lock.
    Hold(u8, u64),
}

/// The lock of who works.
const CPU: u8 = 0;
/// The others.
const LOCKS: [&str; 3] = ["cpu", "disk", "net"];

impl Step {
    fn lock(self) -> Option<u8> {
        match self {
            Step::Sleep(_) => None,
            Step::Cpu(_) => Some(CPU),
            Step::Hold(lock, _) => Some(lock),
        }
    }

    fn ms(self) -> u64 {
        match self {
            Step::Sleep(ms) | Step::Cpu(ms) | Step::Hold(_, ms) => ms,
        }
    }
}

/// A service and the places of those that it is ordered after, all before its own.
#[derive(Clone, Debug)]
pub struct Service {
    pub after: Vec<usize>,
    pub steps: Vec<Step>,
}

#[derive(Clone, Debug)]
pub struct Graph {
    pub services: Vec<Service>,
}

/// Time that a service spent, in µs since the graph's start.
#[derive(Clone, Copy, Debug)]
struct Piece {
    from: u64,
    to: u64,
    /// Who had the lock until the end of this wait for it.
    until_released_by: Option<usize>,
}

/// How a graph goes.
#[derive(Clone, Debug, Default)]
pub struct Run {
    pieces: Vec<Vec<Piece>>,
    /// When each lock was asked for.
    asked: Vec<(u8, u64)>,
    begins_after_us: Vec<u64>,
}

/// Systemd and the start of a program take time, here up to so much in a chain. What is decided by less than this is
/// not decided, and such a graph is not used.
const UNDECIDED_US: u64 = 60_000;

impl Graph {
    /// The first of the graphs of this seed whose answer does not hang on a few ms.
    pub fn of(seed: u64) -> Graph {
        let random = &mut Random::of(seed);
        loop {
            let graph = Graph::any(random);
            if graph.run(&vec![0; graph.services.len()]).is_decided(&graph) {
                return graph;
            }
        }
    }

    fn any(random: &mut Random) -> Graph {
        let count = 3 + random.below(5) as usize;
        let service = |place: usize, random: &mut Random| {
            let after = (0..place).filter(|_| random.below(100) < 40).collect();
            let steps = (0..1 + random.below(3)).map(|_| Graph::step(random)).collect();
            Service { after, steps }
        };
        Graph { services: (0..count).map(|place| service(place, random)).collect() }
    }

    fn step(random: &mut Random) -> Step {
        let ms = 20 + 10 * random.below(20);
        match random.below(4) {
            0 | 1 => Step::Sleep(ms),
            2 => Step::Cpu(ms / 4),
            _ => Step::Hold(1 + random.below(2) as u8, ms),
        }
    }

    /// Plays it, the service that is first in time next. Each begins so many µs after it may.
    pub fn run(&self, begins_after_us: &[u64]) -> Run {
        let count = self.services.len();
        let begins_after_us = begins_after_us.to_vec();
        let mut run = Run { pieces: vec![Vec::new(); count], asked: Vec::new(), begins_after_us };
        let mut next = vec![0; count];
        let mut free: [(u64, Option<usize>); LOCKS.len()] = [(0, None); LOCKS.len()];
        loop {
            let ready = (0..count).filter_map(|s| Some((run.at(self, &next, s)?, s))).min();
            let Some((at, service)) = ready else { return run };
            let step = self.services[service].steps[next[service]];
            let (mut from, took) = (at, step.ms() * 1000);
            if let Some(lock) = step.lock() {
                run.asked.push((lock, at));
                let (free, by) = &mut free[lock as usize];
                if *free > at {
                    run.pieces[service].push(Piece { from: at, to: *free, until_released_by: *by });
                    from = *free;
                }
                (*free, *by) = (from + took, Some(service));
            }
            run.pieces[service].push(Piece { from, to: from + took, until_released_by: None });
            next[service] += 1;
        }
    }

    /// The unit of a service, as systemd reads it. `before` is the target that all of the graph comes after.
    pub fn unit(&self, graph: usize, place: usize, before: &str) -> String {
        let service = &self.services[place];
        let mut text = format!("[Unit]\nAfter={before}\n");
        service.after.iter().for_each(|other| writeln!(text, "After={}", name(graph, *other)).unwrap());
        write!(text, "[Service]\nType=oneshot\nExecStart=/usr/bin/work {}", name(graph, place)).unwrap();
        for step in &service.steps {
            match step {
                Step::Sleep(ms) => write!(text, " sleep={ms}").unwrap(),
                Step::Cpu(ms) => write!(text, " cpu={ms}").unwrap(),
                Step::Hold(lock, ms) => write!(text, " hold={}:{ms}", LOCKS[*lock as usize]).unwrap(),
            }
        }
        text + "\n"
    }

    /// The target that is reached when all of it has ended.
    pub fn target(&self, graph: usize) -> String {
        let all: Vec<String> = (0..self.services.len()).map(|place| name(graph, place)).collect();
        let all = all.join(" ");
        format!("[Unit]\nRequires={all}\nAfter={all}\n")
    }
}

/// The name of a service's unit.
pub fn name(graph: usize, place: usize) -> String {
    format!("g{graph}-{place}.service")
}

impl Run {
    /// When a service can take its next step; none if it has none, or waits for another's end.
    fn at(&self, graph: &Graph, next: &[usize], service: usize) -> Option<u64> {
        let Service { after, steps } = &graph.services[service];
        let ended = |other: &usize| next[*other] == graph.services[*other].steps.len();
        if next[service] == steps.len() || !after.iter().all(ended) {
            return None;
        }
        let since = after.iter().map(|other| self.end(*other)).max().unwrap_or(0);
        Some(self.pieces[service].last().map_or(since + self.begins_after_us[service], |piece| piece.to))
    }

    fn end(&self, service: usize) -> u64 {
        self.pieces[service].last().map_or(0, |piece| piece.to)
    }

    /// Who ended last, and by how much.
    fn last(&self, of: &[usize]) -> Option<(usize, u64)> {
        let mut ends: Vec<(u64, usize)> = of.iter().map(|service| (self.end(*service), *service)).collect();
        ends.sort_unstable();
        let (end, last) = ends.pop()?;
        Some((last, end - ends.last().map_or(0, |second| second.0)))
    }

    /// Whether a few ms more or less anywhere change nothing.
    fn is_decided(&self, graph: &Graph) -> bool {
        let all: Vec<usize> = (0..self.pieces.len()).collect();
        let joins = graph.services.iter().map(|service| &service.after).chain([&all]);
        let mut asked = self.asked.clone();
        asked.sort_unstable();
        let apart = asked.windows(2).all(|two| two[0].0 != two[1].0 || two[1].1 - two[0].1 >= UNDECIDED_US);
        // Who takes the lock again that it has just given back has it before the one who was woken for it can run.
        let again = |two: &[Step]| two[0].lock().is_some() && two[0].lock() == two[1].lock();
        let in_turn = !graph.services.iter().any(|service| service.steps.windows(2).any(again));
        apart && in_turn && joins.filter_map(|join| self.last(join)).all(|(_, by)| by >= UNDECIDED_US)
    }

    /// What the boot waited for, in µs, by service.
    pub fn waited_for(&self, graph: &Graph) -> Vec<u64> {
        let mut charged = vec![0; self.pieces.len()];
        let all: Vec<usize> = (0..self.pieces.len()).collect();
        let mut next = self.last(&all);
        while let Some((service, _)) = next {
            self.charge(service, 0, u64::MAX, &mut charged);
            next = self.last(&graph.services[service].after);
        }
        charged
    }

    /// Charges what a service did in a stretch to it, and what it waited for to whoever it waited for.
    fn charge(&self, service: usize, from: u64, to: u64, charged: &mut [u64]) {
        for piece in &self.pieces[service] {
            let (from, to) = (piece.from.max(from), piece.to.min(to));
            if from < to {
                match piece.until_released_by {
                    Some(other) => self.charge(other, from, to, charged),
                    None => charged[service] += to - from,
                }
            }
        }
    }
}
