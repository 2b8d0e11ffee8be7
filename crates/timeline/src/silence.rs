//! Stacks of the CPUs, taken at a few moments while the console was silent.
//!
//! They are no evidence of lengths of time. Times are the host's, even if the timeline has guest time.

use crate::Ns;
use std::cmp::Reverse;
use std::collections::HashMap;

/// The observations from a boot's silences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Silences {
    /// The time without console output after which the CPUs were stopped.
    pub after: Ns,
    /// In order of time.
    pub silences: Vec<Silence>,
    /// The sources of the functions' names, in sentences, or why a source could not be used.
    pub names: Vec<String>,
    /// Further facts about the silences, in sentences.
    pub notes: Vec<String>,
}

/// A time without console output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Silence {
    pub from: Ns,
    pub until: Ns,
    /// The moments at which the CPUs were stopped.
    pub stops: Vec<Stop>,
}

/// The state of all CPUs at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stop {
    pub at: Ns,
    /// The longest time that the CPUs can have stood still for this stop.
    pub stood: Ns,
    /// The CPUs, by number; empty if they could not be read.
    pub cpus: Vec<StoppedCpu>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoppedCpu {
    /// The kind of code that ran on it.
    pub ran: StoppedIn,
    /// True if the callers are a guess from values on the stack that look like return addresses.
    pub is_guess: bool,
    /// The function that ran and its callers, innermost first. An address stands for a function without a name.
    pub stack: Vec<String>,
}

/// The kind of code that ran on a stopped CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StoppedIn {
    #[default]
    Kernel,
    /// A process.
    User,
    /// Firmware or a loader.
    Boot,
}

/// The place of CPUs in most stops of a silence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MostlyAt {
    /// The CPUs that were all in this place.
    pub cpus: Vec<usize>,
    /// The number of stops that saw each of them.
    pub stops: usize,
    /// The kind of code that ran.
    pub ran: StoppedIn,
    /// True if callers are a guess in any of these stops.
    pub is_guess: bool,
    /// The functions that more than half of the stops found on the stack, innermost first, each with the number of
    /// those stops.
    pub stack: Vec<(String, usize)>,
}

impl Silences {
    /// An upper bound of the time that the CPUs stood still in all.
    pub fn stood(&self) -> Ns {
        self.silences.iter().fold(Ns(0), |sum, silence| Ns(sum.0.saturating_add(silence.stood().0)))
    }
}

impl Silence {
    /// An upper bound of the time that the CPUs stood still in this silence.
    pub fn stood(&self) -> Ns {
        self.stops.iter().fold(Ns(0), |sum, stop| Ns(sum.0.saturating_add(stop.stood.0)))
    }

    /// The number of stops that could read the CPUs.
    pub fn read_stops(&self) -> usize {
        self.stops.iter().filter(|stop| !stop.cpus.is_empty()).count()
    }

    /// The place of each CPU in most of its stops. CPUs in one place share an entry.
    pub fn mostly_at(&self) -> Vec<MostlyAt> {
        let cpus = self.stops.iter().map(|stop| stop.cpus.len()).max().unwrap_or(0);
        let mut all: Vec<MostlyAt> = Vec::new();
        for cpu in 0..cpus {
            let states: Vec<&StoppedCpu> = self.stops.iter().filter_map(|stop| stop.cpus.get(cpu)).collect();
            let place = mostly_at(&states);
            let state = |at: &MostlyAt| (at.stops, at.ran, at.is_guess);
            let is_alike = |other: &&mut MostlyAt| {
                !place.stack.is_empty() && state(other) == state(&place) && other.stack == place.stack
            };
            match all.iter_mut().find(is_alike) {
                Some(alike) => alike.cpus.push(cpu),
                None => all.push(MostlyAt { cpus: vec![cpu], ..place }),
            }
        }
        all
    }
}

/// The place of one CPU in most of these states.
fn mostly_at(states: &[&StoppedCpu]) -> MostlyAt {
    let count = |ran: StoppedIn| states.iter().filter(|cpu| cpu.ran == ran).count();
    let all = [StoppedIn::Boot, StoppedIn::User, StoppedIn::Kernel];
    let ran = all.into_iter().max_by_key(|ran| count(*ran)).unwrap_or_default();
    let mut group: Vec<&StoppedCpu> = states.iter().copied().filter(|cpu| cpu.ran == ran).collect();
    let is_guess = group.iter().any(|cpu| cpu.is_guess);
    let mut stack: Vec<(String, usize)> = Vec::new();
    // From the outermost function inwards, along the path that most of the stops took.
    while let Some(next) = most_common(&group, stack.len()).filter(|found| found.1 * 2 > states.len()) {
        let depth = stack.len();
        group.retain(|cpu| function_at(cpu, depth) == Some(&next.0));
        stack.push(next);
    }
    stack.reverse();
    MostlyAt { cpus: Vec::new(), stops: states.len(), ran, is_guess, stack }
}

/// The most common function of these states at this depth, and the number of states that have it.
fn most_common(group: &[&StoppedCpu], depth: usize) -> Option<(String, usize)> {
    let mut counts: HashMap<&String, usize> = HashMap::new();
    for name in group.iter().filter_map(|cpu| function_at(cpu, depth)) {
        *counts.entry(name).or_default() += 1;
    }
    // The first by name wins a tie, so that the result is deterministic.
    let found = counts.into_iter().max_by_key(|&(name, count)| (count, Reverse(name)))?;
    Some((found.0.clone(), found.1))
}

/// The function at this depth, counted from the outermost.
fn function_at(cpu: &StoppedCpu, depth: usize) -> Option<&String> {
    cpu.stack.len().checked_sub(depth + 1).map(|at| &cpu.stack[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stop(stacks: &[&str]) -> Stop {
        let cpu = |stack: &&str| StoppedCpu {
            stack: stack.split_whitespace().map(str::to_owned).collect(),
            ..StoppedCpu::default()
        };
        Stop { at: Ns(1), stood: Ns(5), cpus: stacks.iter().map(cpu).collect() }
    }

    #[test]
    fn most_stops_say_where_a_cpu_was() {
        let stops = vec![
            stop(&["delete free stop main", "hlt idle"]),
            stop(&["delete free stop main", "hlt idle"]),
            stop(&["lock free stop main", "hlt idle"]),
            stop(&["delete free stop main", "tick hlt idle"]),
            stop(&["main", "hlt idle"]),
        ];
        let silence = Silence { stops, ..Silence::default() };
        let found = silence.mostly_at();
        let shown: Vec<String> =
            found.iter().map(|at| format!("{:?} of {}: {:?}", at.cpus, at.stops, at.stack)).collect();
        assert_eq!(
            shown,
            [
                r#"[0] of 5: [("delete", 3), ("free", 4), ("stop", 4), ("main", 5)]"#,
                r#"[1] of 5: [("hlt", 5), ("idle", 5)]"#
            ]
        );
        assert_eq!(silence.stood(), Ns(25));
        let failed = Silence { stops: vec![stop(&["main"]), stop(&[])], ..Silence::default() };
        assert_eq!((failed.read_stops(), failed.stood()), (1, Ns(10)), "one that failed took time too");
    }

    #[test]
    fn many_stops_of_which_no_two_agree_take_no_longer_each() {
        let stops = (0..200_000).map(|i| stop(&[&format!("f{i}")])).collect();
        let found = Silence { stops, ..Silence::default() }.mostly_at();
        assert_eq!((found.len(), found[0].stops, found[0].stack.len()), (1, 200_000, 0));
    }

    #[test]
    fn cpus_in_one_place_are_one_entry_and_where_all_differ_nothing_is_said() {
        let silence = Silence {
            stops: vec![stop(&["hlt idle", "hlt idle", "a", "c"]), stop(&["hlt idle", "hlt idle", "b", "d"])],
            ..Silence::default()
        };
        let found = silence.mostly_at();
        assert_eq!(found.iter().map(|at| at.cpus.clone()).collect::<Vec<_>>(), [vec![0, 1], vec![2], vec![3]]);
        assert_eq!(found[1].stack, []);
    }

    #[test]
    fn stops_that_read_a_cpu_are_counted() {
        let read_stops = |stops: &[Stop]| Silence { stops: stops.to_vec(), ..Silence::default() }.read_stops();
        assert_eq!(read_stops(&[]), 0);
        assert_eq!(read_stops(&[stop(&["main"]), stop(&[]), stop(&["main", "hlt idle"])]), 2);
    }
}
