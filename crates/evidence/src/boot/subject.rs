//! Which system on what machine a recording is of, as far as its evidence says.

use crate::formats::tslog::Facts;
use timeline::Os;

/// What the evidence says was booted; each is unknown, empty or 0 where it does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// The operating system.
    pub os: Os,
    /// Its release.
    pub kernel: String,
    /// How many CPUs it has.
    pub cpus: u32,
    /// How much memory it has.
    pub memory_bytes: u64,
    /// The kernel's command line, as its log has it.
    pub command_line: Option<String>,
}

impl Subject {
    /// What the console of a BSD kernel says of its machine.
    pub(crate) fn of(facts: &Facts) -> Subject {
        Subject {
            os: facts.os.clone().unwrap_or_default(),
            kernel: facts.release.clone().unwrap_or_default(),
            cpus: facts.cpus.unwrap_or_default(),
            memory_bytes: facts.memory_bytes.unwrap_or_default(),
            command_line: None,
        }
    }
}
