//! The change that `try` makes if the reference kernel was booted. The kernel's own table lists the words that make a row slow, and those
//! that do not.

use crate::remedy::{Change, Remedy};
use crate::seen::Machine;
use lab::experiments::{EXPERIMENTS, Experiment};
use timeline::Os;

/// Separator between a row's owner and the way in which its time passed.
const SUFFIX: &str = " · ";

/// Adds to a remedy the switch that makes the reference kernel apply it, if an experiment of its table was booted slow. The subject is
/// found by its name and detail.
pub fn of(machine: &Machine, (name, detail): (&str, &str), remedy: Remedy) -> Remedy {
    let Some(given) = machine.command_line.as_ref().filter(|_| machine.os == Os::Lab) else { return remedy };
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<String>>();
    let is_about = |row: &str| {
        let owner = row.split(SUFFIX).next().unwrap_or(row);
        owner.split_once(' ').unwrap_or((owner, "")) == (name, detail)
    };
    let was_booted = |slow: &str| words(slow).iter().all(|word| given.contains(word));
    let slow = EXPERIMENTS.iter().find(|e| was_booted(e.slow) && e.blamed.iter().any(|row| is_about(row)));
    // A remedy that the boot already had cannot save more.
    let better = |e: &'static Experiment| Some((e, e.remedies.iter().find(|fast| !was_booted(fast))?));
    let Some((slow, fast)) = slow.and_then(better) else { return remedy };
    let switch = Change::LabSwitch { from: words(slow.slow), to: words(fast) };
    Remedy { changes: vec![switch], ..remedy }
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
