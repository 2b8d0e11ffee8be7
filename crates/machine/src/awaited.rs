//! The line that ends the boot, as it is looked for in what the guest says: a pattern, or what systemd logs of a unit.
//!
//! An initrd's systemd has units of the same names as the root's. What it logs counts only for units that no root has: those `initrd.target`
//! and `initrd-…`. A unit that fails ends the boot too: it will not be active by itself.

use regex::bytes::Regex;

use crate::units_logged::UnitsLogged;

/// What systemd logs when a unit is active (src/core/job.c: job_done_messages_table).
const ACTIVE: &str =
    "Started|Finished|Reached target|Mounted|Listening on|Activated swap|Found device|Set up automount|Created slice";
/// What it logs when a unit is not, and will not be.
const FAILED: &str = "Failed to (?:start|mount|listen on|activate swap|set up automount)|(?:Dependency|Assertion) failed for|\
    Timed out (?:starting|mounting|activating swap|waiting for device)";
/// What systemd logs first, in an initrd as in the root (src/core/main.c).
const BEGINS: &[u8] = b"systemd[1]: systemd ";
/// What it logs soon after that in an initrd, up to version 247 and since then.
const IN_INITRD: [&[u8]; 2] = [b"systemd[1]: Running in initial RAM disk.", b"systemd[1]: Running in initrd."];

/// What a line means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// It is another one.
    Nothing,
    /// The boot is done.
    Reached,
    /// The unit that is waited for has failed.
    Failed,
}

/// A line that is waited for, in one of the places where the guest's lines come from.
#[derive(Clone, Debug)]
pub(crate) struct Awaited {
    reached: Regex,
    unit: Option<AwaitedUnit>,
}

/// What a line has to be told apart from, where a unit is awaited.
#[derive(Clone, Debug)]
struct AwaitedUnit {
    name: String,
    failed: Regex,
    logged: UnitsLogged,
    is_in_initrd: bool,
}

impl Awaited {
    /// A line that matches.
    ///
    /// # Errors
    /// If it is no pattern.
    pub(crate) fn line(pattern: &str) -> Result<Awaited, regex::Error> {
        let reached = Regex::new(pattern)?;
        Ok(Awaited { reached, unit: None })
    }

    /// What systemd logs of a unit.
    ///
    /// # Errors
    /// None: a unit's name makes no pattern that is not one.
    pub(crate) fn unit(name: &str) -> Result<Awaited, regex::Error> {
        let says = |words: &str| Regex::new(&format!(r"systemd\[1\]: (?:{words}) {}(?: - |\.$)", regex::escape(name)));
        let logged = UnitsLogged::new(&format!("{ACTIVE}|{FAILED}"))?;
        let unit = AwaitedUnit { name: name.to_owned(), failed: says(FAILED)?, logged, is_in_initrd: false };
        Ok(Awaited { reached: says(ACTIVE)?, unit: Some(unit) })
    }

    /// Takes the next line, or as much of it as there is.
    pub(crate) fn hear(&mut self, line: &[u8]) -> Meaning {
        let may_count = self.unit.as_mut().is_none_or(|unit| unit.hear(line));
        match &self.unit {
            _ if !may_count => Meaning::Nothing,
            _ if self.reached.is_match(line) => Meaning::Reached,
            Some(unit) if unit.failed.is_match(line) => Meaning::Failed,
            _ => Meaning::Nothing,
        }
    }

    /// What systemd logged instead, where a unit was awaited for nothing; none where a line was.
    pub(crate) fn instead(&self) -> Option<String> {
        self.unit.as_ref().map(|unit| unit.logged.instead_of(&unit.name))
    }

    /// How many units systemd logged.
    pub(crate) fn units(&self) -> usize {
        self.unit.as_ref().map_or(0, |unit| unit.logged.count())
    }
}

impl AwaitedUnit {
    /// Whether the line may be of the awaited unit: an initrd's are others.
    fn hear(&mut self, line: &[u8]) -> bool {
        let says = |words: &[u8]| memchr::memmem::find(line, words).is_some();
        self.is_in_initrd = !says(BEGINS) && (self.is_in_initrd || IN_INITRD.iter().any(|words| says(words)));
        self.logged.hear(line, |name| !self.is_in_initrd || is_of_initrd(name));
        !self.is_in_initrd || is_of_initrd(&self.name)
    }
}

/// Whether a unit is one that only an initrd has.
fn is_of_initrd(name: &str) -> bool {
    name.starts_with("initrd-") || name == "initrd.target"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(unit: &str, lines: &[&str]) -> Vec<Meaning> {
        let mut awaited = Awaited::unit(unit).unwrap();
        lines.iter().map(|line| awaited.hear(line.as_bytes())).collect()
    }

    #[test]
    fn a_unit_is_awaited_by_its_whole_name_and_may_fail() {
        let lines = [
            "[    2.1] systemd[1]: Starting a.service - A...",
            "[    2.1] systemd[1]: Started aa.service - A.",
            "[    2.1] systemd[1]: Failed to start aa.service - A.",
            "[    2.1] cron[7]: Started a.service - A.",
            "[    2.1] systemd[1]: Started a.service - A.",
            "[    2.1] systemd[1]: Finished a.service.",
            "[    2.1] systemd[1]: Failed to start a.service - A.",
            "[    2.1] systemd[1]: Dependency failed for a.service - A.",
        ];
        use Meaning::{Failed, Nothing, Reached};
        let expected = [Nothing, Nothing, Nothing, Nothing, Reached, Reached, Failed, Failed];
        assert_eq!(heard("a.service", &lines), expected);
    }

    #[test]
    fn an_initrds_units_are_not_the_roots() {
        let lines = [
            "systemd[1]: systemd 252.39-1~deb12u1 running in system mode (+PAM)",
            "systemd[1]: Running in initrd.",
            "systemd[1]: Reached target basic.target - Basic System.",
            "systemd[1]: Reached target initrd.target - Initrd Default Target.",
            "systemd[1]: Switching root.",
            "systemd[1]: Failed to start basic.target - Basic System.",
            "systemd[1]: systemd 252.39-1~deb12u1 running in system mode (+PAM)",
            "systemd[1]: Reached target basic.target - Basic System.",
        ];
        use Meaning::{Nothing, Reached};
        let mut expected = [Nothing; 8];
        expected[7] = Reached;
        assert_eq!(heard("basic.target", &lines), expected);
        assert_eq!(heard("initrd.target", &lines)[3], Reached);
    }

    #[test]
    fn a_pattern_is_awaited_everywhere() {
        let mut awaited = Awaited::line("a.*b").unwrap();
        assert_eq!(awaited.hear(b"systemd[1]: Running in initrd."), Meaning::Nothing);
        assert_eq!(awaited.hear(b"a b"), Meaning::Reached);
        assert!(Awaited::line("(").is_err());
    }
}
