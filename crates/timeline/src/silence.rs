//! Where the CPUs were while the console said nothing: their stacks, found at a few moments.
//!
//! It is no evidence of how long anything took. Times are the host's, also where the timeline's are the guest's.

use crate::Ns;
use std::cmp::Reverse;
use std::collections::HashMap;

/// What was seen in a boot's silences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Silences {
    /// How long the console had to say nothing.
    pub after: Ns,
    /// In order of time.
    pub silences: Vec<Silence>,
    /// What named the functions, in sentences; or why something did not.
    pub names: Vec<String>,
    /// What else is to be known, in sentences.
    pub notes: Vec<String>,
}

/// A time in which the console said nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Silence {
    /// Its first moment.
    pub from: Ns,
    /// Its last.
    pub until: Ns,
    /// The moments at which the CPUs were looked at.
    pub stops: Vec<Stop>,
}

/// All CPUs, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stop {
    /// When.
    pub at: Ns,
    /// How long they stood still for that, at most.
    pub stood: Ns,
    /// Each CPU, by its number; none where they could not be read.
    pub cpus: Vec<StoppedCpu>,
}

/// A CPU that stood still.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoppedCpu {
    /// What ran on it.
    pub ran: StoppedIn,
    /// Whether the callers are a guess: what on the stack looks like return addresses.
    pub is_guess: bool,
    /// The function that ran and its callers, innermost first; an address where nothing names it.
    pub stack: Vec<String>,
}

/// What ran on a CPU that was stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StoppedIn {
    /// A kernel.
    #[default]
    Kernel,
    /// A process.
    User,
    /// Firmware or a loader.
    Boot,
}

/// Where CPUs were in most stops of a silence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MostlyAt {
    /// The CPUs of which this is true, alike.
    pub cpus: Vec<usize>,
    /// How many stops saw each of them.
    pub stops: usize,
    /// What ran.
    pub ran: StoppedIn,
    /// Whether callers are a guess in any of these stops.
    pub is_guess: bool,
    /// The functions that more than half of the stops found on the stack, innermost first, and how many did.
    pub stack: Vec<(String, usize)>,
}

impl Silences {
    /// How long the CPUs stood still in all, at most.
    pub fn stood(&self) -> Ns {
        self.silences.iter().fold(Ns(0), |sum, silence| Ns(sum.0.saturating_add(silence.stood().0)))
    }
}

impl Silence {
    /// How long the CPUs stood still in it, at most.
    pub fn stood(&self) -> Ns {
        self.stops.iter().fold(Ns(0), |sum, stop| Ns(sum.0.saturating_add(stop.stood.0)))
    }

    /// How many stops found where a CPU was.
    pub fn read_stops(&self) -> usize {
        self.stops.iter().filter(|stop| !stop.cpus.is_empty()).count()
    }

    /// Where each CPU was in most of its stops. CPUs that were in one place are one entry.
    pub fn mostly_at(&self) -> Vec<MostlyAt> {
        let cpus = self.stops.iter().map(|stop| stop.cpus.len()).max().unwrap_or(0);
        let mut all: Vec<MostlyAt> = Vec::new();
        for cpu in 0..cpus {
            let seen: Vec<&StoppedCpu> = self.stops.iter().filter_map(|stop| stop.cpus.get(cpu)).collect();
            let found = mostly_at(&seen);
            let what = |at: &MostlyAt| (at.stops, at.ran, at.is_guess);
            let is_alike = |other: &&mut MostlyAt| {
                !found.stack.is_empty() && what(other) == what(&found) && other.stack == found.stack
            };
            match all.iter_mut().find(is_alike) {
                Some(alike) => alike.cpus.push(cpu),
                None => all.push(MostlyAt { cpus: vec![cpu], ..found }),
            }
        }
        all
    }
}

/// Where one CPU was, as most of these moments agree.
fn mostly_at(seen: &[&StoppedCpu]) -> MostlyAt {
    let in_what = |ran: StoppedIn| seen.iter().filter(|cpu| cpu.ran == ran).count();
    let all = [StoppedIn::Boot, StoppedIn::User, StoppedIn::Kernel];
    let ran = all.into_iter().max_by_key(|ran| in_what(*ran)).unwrap_or_default();
    let mut group: Vec<&StoppedCpu> = seen.iter().copied().filter(|cpu| cpu.ran == ran).collect();
    let is_guess = group.iter().any(|cpu| cpu.is_guess);
    let mut stack: Vec<(String, usize)> = Vec::new();
    // From the outermost function inwards, along what most of the stops went.
    while let Some(next) = most(&group, stack.len()).filter(|found| found.1 * 2 > seen.len()) {
        let depth = stack.len();
        group.retain(|cpu| outer(cpu, depth) == Some(&next.0));
        stack.push(next);
    }
    stack.reverse();
    MostlyAt { cpus: Vec::new(), stops: seen.len(), ran, is_guess, stack }
}

/// The function that most of these have at this depth, and how many have it.
fn most(group: &[&StoppedCpu], depth: usize) -> Option<(String, usize)> {
    let mut counts: HashMap<&String, usize> = HashMap::new();
    for name in group.iter().filter_map(|cpu| outer(cpu, depth)) {
        *counts.entry(name).or_default() += 1;
    }
    // Of equals the first by name, so that it is always the same.
    let found = counts.into_iter().max_by_key(|&(name, count)| (count, Reverse(name)))?;
    Some((found.0.clone(), found.1))
}

/// The function at this depth, counted from the outermost.
fn outer(cpu: &StoppedCpu, depth: usize) -> Option<&String> {
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
}
