//! The instructions of a command in user space: a figure that does not depend on the host's load.
//!
//! valgrind counts them on any machine, perf only if the CPU's counters are available.

use crate::host;
use crate::table::last_line;
use std::process::Command;

/// The program that counts instructions here, or the reason why none does.
pub enum Counter {
    Valgrind,
    Perf,
    None(&'static str),
}

impl Counter {
    /// Finds a counter. valgrind is preferred, because its counts are the same on every machine.
    pub fn find() -> Counter {
        if host::first_line("valgrind", &["--version"]).is_some() {
            return Counter::Valgrind;
        }
        match Counter::Perf.count(&Command::new("true")) {
            Ok(_) => Counter::Perf,
            Err(_) => Counter::None("neither valgrind nor perf can count instructions here: install Debian's valgrind"),
        }
    }

    /// Runs a command to its end. Returns the instructions of the command and its children.
    pub fn count(&self, command: &Command) -> Result<f64, String> {
        let mut counting = match self {
            Counter::Valgrind => {
                let mut valgrind = Command::new("valgrind");
                valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
                valgrind
            }
            Counter::Perf => {
                let mut perf = Command::new("perf");
                perf.args(["stat", "-x,", "-e", "instructions:u", "--"]);
                perf
            }
            Counter::None(why) => return Err((*why).to_owned()),
        };
        let output =
            counting.arg(command.get_program()).args(command.get_args()).output().map_err(|e| e.to_string())?;
        if !output.status.success() {
            return Err(last_line(&output.stderr));
        }
        let output_text = String::from_utf8_lossy(&output.stderr);
        let found = output_text.lines().rev().find_map(|line| self.number(line));
        found.ok_or_else(|| format!("{} says no number: {}", self.name(), last_line(&output.stderr)))
    }

    /// Parses `==7== Collected : 2375054` of valgrind, or `2375054,,instructions:u,…` of perf.
    fn number(&self, line: &str) -> Option<f64> {
        match self {
            Counter::Valgrind => line.split_once("Collected :")?.1.trim().parse().ok(),
            _ => line.contains("instructions").then(|| line.split(',').next()?.parse().ok())?,
        }
    }

    pub fn name(&self) -> &'static str {
        match self {
            Counter::Valgrind => "valgrind",
            Counter::Perf => "perf",
            Counter::None(_) => "nothing",
        }
    }
}
