//! The system and machine that a recording is of, according to its evidence.

use crate::formats::tslog::Facts;
use timeline::Os;

/// The booted system according to the evidence. A field is unknown, empty or 0 if the evidence does not show it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    pub os: Os,
    /// The kernel's release.
    pub kernel: String,
    /// Number of CPUs.
    pub cpus: u32,
    /// Size of the memory, in bytes.
    pub memory_bytes: u64,
    /// The kernel's command line, as its log shows it.
    pub command_line: Option<String>,
}

impl Subject {
    /// The facts about the machine that a BSD kernel's console shows.
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
