//! Random graphs of services, and the waits of a boot that starts them: the services, and the time for each.
//!
//! A service starts when all services that it is ordered after have ended. It sleeps, uses the CPU, or sleeps with a
//! lock, in its own order. Services get a lock in the order of their requests. A simulation of that and a walk back
//! from its end compute the answer, and share no code with the program. The simulation cannot compute the time that
//! systemd takes to start a service's program, so that is an input.

use super::scripts::Random;
use std::fmt::Write;

/// A step of a service, with its time in ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Sleep(u64),
    /// Uses the CPU, with the lock of the CPU.
    Cpu(u64),
    /// Sleeps with a lock.
    Hold(u8, u64),
}

/// The lock of the CPU.
const CPU: u8 = 0;
/// The names of all locks.
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

/// A service, and the indices of the services that it is ordered after, all smaller than its own.
#[derive(Clone, Debug)]
pub struct Service {
    pub after: Vec<usize>,
    pub steps: Vec<Step>,
}

#[derive(Clone, Debug)]
pub struct Graph {
    pub services: Vec<Service>,
}

/// A stretch of a service's time, in µs since the graph's start.
#[derive(Clone, Copy, Debug)]
struct Piece {
    from: u64,
    to: u64,
    /// For a wait: the service that held the lock until its end.
    until_released_by: Option<usize>,
}

/// A simulated run of a graph.
#[derive(Clone, Debug, Default)]
pub struct Run {
    pieces: Vec<Vec<Piece>>,
    /// The time of each request for a lock.
    requests: Vec<(u8, u64)>,
    begins_after_us: Vec<u64>,
}

/// The longest time for systemd and the start of programs in a chain. An order that depends on less than this is not
/// certain, and such a graph is not used.
const MIN_DECIDED_US: u64 = 60_000;

impl Graph {
    /// The first graph of this seed whose answer does not depend on a few ms.
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

    /// Simulates the graph, always with the service that is next in time. Each begins this number of µs after it may.
    pub fn run(&self, begins_after_us: &[u64]) -> Run {
        let count = self.services.len();
        let begins_after_us = begins_after_us.to_vec();
        let mut run = Run { pieces: vec![Vec::new(); count], requests: Vec::new(), begins_after_us };
        let mut next = vec![0; count];
        let mut free: [(u64, Option<usize>); LOCKS.len()] = [(0, None); LOCKS.len()];
        loop {
            let ready = (0..count).filter_map(|s| Some((run.at(self, &next, s)?, s))).min();
            let Some((at, service)) = ready else { return run };
            let step = self.services[service].steps[next[service]];
            let (mut from, took) = (at, step.ms() * 1000);
            if let Some(lock) = step.lock() {
                run.requests.push((lock, at));
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

    /// The unit of a service in systemd's syntax. The target `before` comes after the whole graph.
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

    /// The target that is reached when the whole graph has ended.
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
    /// The time of a service's next step; `None` if it has none left, or waits for the end of another service.
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

    /// The service that ended last, and the distance to the end before.
    fn last(&self, of: &[usize]) -> Option<(usize, u64)> {
        let mut ends: Vec<(u64, usize)> = of.iter().map(|service| (self.end(*service), *service)).collect();
        ends.sort_unstable();
        let (end, last) = ends.pop()?;
        Some((last, end - ends.last().map_or(0, |second| second.0)))
    }

    /// True if a few ms more or less anywhere change nothing.
    fn is_decided(&self, graph: &Graph) -> bool {
        let all: Vec<usize> = (0..self.pieces.len()).collect();
        let joins = graph.services.iter().map(|service| &service.after).chain([&all]);
        let mut requests = self.requests.clone();
        requests.sort_unstable();
        let apart = requests.windows(2).all(|two| two[0].0 != two[1].0 || two[1].1 - two[0].1 >= MIN_DECIDED_US);
        // A service that requests a lock right after it released it gets it before the woken service can run.
        let again = |two: &[Step]| two[0].lock().is_some() && two[0].lock() == two[1].lock();
        let in_turn = !graph.services.iter().any(|service| service.steps.windows(2).any(again));
        apart && in_turn && joins.filter_map(|join| self.last(join)).all(|(_, by)| by >= MIN_DECIDED_US)
    }

    /// The waits of the boot, in µs, by service.
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

    /// Charges the services for a stretch: a service for its own steps, and the holders of locks for its waits.
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
