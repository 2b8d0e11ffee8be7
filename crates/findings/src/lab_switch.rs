//! What `try` changes where the reference kernel was booted: its own table says which words make a row slow, and which not.

use crate::remedy::{Change, Remedy};
use crate::seen::Machine;
use lab::experiments::EXPERIMENTS;
use timeline::Os;

/// What separates a row's owner from the way in which its time passed.
const SUFFIX: &str = " · ";

/// A remedy, with the switch that makes the reference kernel do it, if one of its experiments was booted slow.
pub fn of(machine: &Machine, about: &str, remedy: Remedy) -> Remedy {
    let Some(given) = machine.command_line.as_ref().filter(|_| machine.os == Os::Lab) else { return remedy };
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<String>>();
    let is_about = |row: &str| row.split(SUFFIX).next() == Some(about);
    let was_booted = |slow: &str| words(slow).iter().all(|word| given.contains(word));
    let slow = EXPERIMENTS.iter().find(|e| was_booted(e.slow) && e.blamed.iter().any(|row| is_about(row)));
    let Some((slow, fast)) = slow.and_then(|e| Some((e, e.remedies.first()?))) else { return remedy };
    let switch = Change::LabSwitch { from: words(slow.slow), to: words(fast) };
    Remedy { changes: vec![switch], ..remedy }
}
