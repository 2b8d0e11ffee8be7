//! The change that `try` makes if the reference kernel was booted. The kernel's own table lists the words that make a row slow, and those
//! that do not.

use crate::remedy::{Change, Remedy};
use crate::seen::Machine;
use lab::experiments::{EXPERIMENTS, Experiment};
use std::cmp::Reverse;
use timeline::Os;

/// Separator between a row's owner and the way in which its time passed.
const SUFFIX: &str = " · ";
/// Beginning of the row of a blamed thread.
const THREAD: &str = "THREAD ";

/// The experiments whose slow words, and those of all its boots, this boot had. `always` may be there as the kernel's defaults.
pub fn booted_slow(machine: &Machine) -> impl Iterator<Item = &'static Experiment> + '_ {
    let is_lab = machine.os == Os::Lab;
    let is_slow =
        move |e: &&Experiment| !e.slow.is_empty() && was_given(machine, e.slow) && was_given(machine, e.always);
    EXPERIMENTS.iter().filter(move |_| is_lab).filter(is_slow)
}

/// Adds to a remedy the switch that makes the reference kernel apply it, if an experiment of its table was booted slow. The subject is
/// found by its name and detail.
pub fn of(machine: &Machine, (name, detail): (&str, &str), remedy: Remedy) -> Remedy {
    if machine.os != Os::Lab {
        return remedy;
    }
    let is_about = |row: &str| {
        let owner = row.split(SUFFIX).next().unwrap_or(row);
        // A thread that is blamed is known by its own name.
        let owner = owner.strip_prefix(THREAD).unwrap_or(owner);
        owner.split_once(' ').unwrap_or((owner, "")) == (name, detail)
    };
    // Several experiments may make one row slow: then the one that measures that row, and of these the one with all of its words.
    let measures = |e: &Experiment| e.figures.iter().any(|figure| figure.functions.iter().any(|row| is_about(row)));
    let slow = EXPERIMENTS.iter().filter(|e| was_given(machine, e.slow) && e.blamed.iter().any(|row| is_about(row)));
    let slow = slow.max_by_key(|e| (measures(e), was_given(machine, e.always), Reverse(place(e))));
    // A remedy that the boot already had cannot save more, and one that was published as no better saves nothing.
    let better = |e: &'static Experiment| {
        let is_worse = |fast: &str| e.no_better.iter().any(|(words, _)| *words == fast);
        Some((e, e.remedies.iter().find(|fast| !was_given(machine, fast) && !is_worse(fast))?))
    };
    let Some((slow, fast)) = slow.and_then(better) else { return remedy };
    let switch = Change::LabSwitch { from: words(slow.slow), to: words(fast) };
    Remedy { changes: vec![switch], ..remedy }
}

fn place(experiment: &Experiment) -> Option<usize> {
    EXPERIMENTS.iter().position(|e| e.name == experiment.name)
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn was_given(machine: &Machine, text: &str) -> bool {
    machine.command_line.as_ref().is_some_and(|given| words(text).iter().all(|word| given.contains(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_known_by_its_name_and_detail() {
        let remedy = || Remedy::code("change the code");
        let switched = |os: Os, line: &str, about: (&str, &str)| {
            let command_line = Some(line.split(' ').map(str::to_owned).collect());
            of(&Machine { os, command_line, ..Machine::default() }, about, remedy()) != remedy()
        };
        assert!(switched(Os::Lab, "quiet ps2=probe", ("DEVICE_PROBE", "psm")));
        assert!(!switched(Os::Lab, "quiet ps2=probe", ("DEVICE_PROBE psm", "")), "the same text, another row");
        assert!(switched(Os::Lab, "root_wait=all", ("usbus0", "")), "a blamed thread");
        assert!(!switched(Os::Lab, "quiet", ("DEVICE_PROBE", "psm")));
        assert!(!switched(Os::FreeBsd, "quiet ps2=probe", ("DEVICE_PROBE", "psm")));
    }

    #[test]
    fn what_was_booted_already_is_not_offered_again() {
        let to = |line: &str| {
            let command_line = Some(line.split(' ').map(str::to_owned).collect());
            let machine = Machine { os: Os::Lab, command_line, ..Machine::default() };
            match &of(&machine, ("kthread_bind", ""), Remedy::code("")).changes[..] {
                [Change::LabSwitch { to, .. }] => to.join(" "),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(
            (to("bind=tick"), to("bind=tick hz=1000")),
            ("bind=tick hz=1000".to_owned(), "bind=yield".to_owned())
        );
    }
}
