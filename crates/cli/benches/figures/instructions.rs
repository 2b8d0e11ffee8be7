//! How many instructions a command takes in user space: a figure that a busy host leaves as it is.
//!
//! valgrind counts them on any machine, perf only where the CPU's counters are to be had.

use crate::host;
use crate::table::last_line;
use std::process::Command;

/// What counts them here, or why nothing does.
pub enum Counter {
    Valgrind,
    Perf,
    None(&'static str),
}

impl Counter {
    /// Looks for one: valgrind first, because it says the same on every machine.
    pub fn find() -> Counter {
        if host::said("valgrind", &["--version"]).is_some() {
            return Counter::Valgrind;
        }
        match Counter::Perf.count(&Command::new("true")) {
            Ok(_) => Counter::Perf,
            Err(_) => Counter::None("neither valgrind nor perf can count instructions here: install Debian's valgrind"),
        }
    }

    /// Runs a command to its end; how many instructions it and its children took.
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
        let said = String::from_utf8_lossy(&output.stderr);
        let found = said.lines().rev().find_map(|line| self.number(line));
        found.ok_or_else(|| format!("{} says no number: {}", self.name(), last_line(&output.stderr)))
    }

    /// `==7== Collected : 2375054` of valgrind; `2375054,,instructions:u,…` of perf.
    fn number(&self, line: &str) -> Option<f64> {
        match self {
            Counter::Valgrind => line.split_once("Collected :")?.1.trim().parse().ok(),
            _ => line.contains("instructions").then(|| line.split(',').next()?.parse().ok())?,
        }
    }

    /// What it is called.
    pub fn name(&self) -> &'static str {
        match self {
            Counter::Valgrind => "valgrind",
            Counter::Perf => "perf",
            Counter::None(_) => "nothing",
        }
    }
}
