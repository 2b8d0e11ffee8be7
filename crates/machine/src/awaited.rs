//! The line that ends a boot: matches the guest's lines with a pattern, or with systemd's messages about a unit.
//!
//! An initrd's systemd has units of the same names as the root's. Its messages count only for units that no root has: `initrd.target` and
//! `initrd-…`. A unit that fails ends the boot too, because it will not become active by itself.

use regex::bytes::Regex;

use crate::logged_units::LoggedUnits;

/// Words that systemd logs when a unit is active (src/core/job.c: job_done_messages_table).
const ACTIVE: &str =
    "Started|Finished|Reached target|Mounted|Listening on|Activated swap|Found device|Set up automount|Created slice";
/// Words that it logs when a unit is not active and will not be.
const FAILED: &str = "Failed to (?:start|mount|listen on|activate swap|set up automount)|(?:Dependency|Assertion) failed for|\
    Timed out (?:starting|mounting|activating swap|waiting for device)";
/// The first message of systemd, in an initrd and in the root (src/core/main.c).
const BEGINS: &[u8] = b"systemd[1]: systemd ";
/// Messages that follow soon in an initrd: up to version 247, and since then.
const IN_INITRD: [&[u8]; 2] = [b"systemd[1]: Running in initial RAM disk.", b"systemd[1]: Running in initrd."];

/// The meaning of a line for the end of the boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// The line is unrelated.
    Nothing,
    /// The boot has reached its end.
    Reached,
    /// The awaited unit has failed.
    Failed,
}

/// A matcher for the awaited line in one of the sources of the guest's lines.
#[derive(Clone, Debug)]
pub(crate) struct Awaited {
    reached: Regex,
    unit: Option<AwaitedUnit>,
}

/// State that tells the awaited unit's lines from other units' lines.
#[derive(Clone, Debug)]
struct AwaitedUnit {
    name: String,
    failed: Regex,
    logged: LoggedUnits,
    is_in_initrd: bool,
}

impl Awaited {
    /// Awaits a line that matches this pattern.
    ///
    /// # Errors
    /// If the pattern is not a regular expression.
    pub(crate) fn line(pattern: &str) -> Result<Awaited, regex::Error> {
        let reached = Regex::new(pattern)?;
        Ok(Awaited { reached, unit: None })
    }

    /// Awaits systemd's message that this unit is active.
    ///
    /// # Errors
    /// Never in practice: an escaped unit name always makes a valid pattern.
    pub(crate) fn unit(name: &str) -> Result<Awaited, regex::Error> {
        let pattern =
            |words: &str| Regex::new(&format!(r"systemd\[1\]: (?:{words}) {}(?: - |\.$)", regex::escape(name)));
        let logged = LoggedUnits::new(&format!("{ACTIVE}|{FAILED}"))?;
        let unit = AwaitedUnit { name: name.to_owned(), failed: pattern(FAILED)?, logged, is_in_initrd: false };
        Ok(Awaited { reached: pattern(ACTIVE)?, unit: Some(unit) })
    }

    /// Takes the next line, or the part of it that has arrived.
    pub(crate) fn hear(&mut self, line: &[u8]) -> Meaning {
        let may_count = self.unit.as_mut().is_none_or(|unit| unit.hear(line));
        match &self.unit {
            _ if !may_count => Meaning::Nothing,
            _ if self.reached.is_match(line) => Meaning::Reached,
            Some(unit) if unit.failed.is_match(line) => Meaning::Failed,
            _ => Meaning::Nothing,
        }
    }

    /// A description of what systemd logged instead of the awaited unit; `None` if a line was awaited.
    pub(crate) fn instead(&self) -> Option<String> {
        self.unit.as_ref().map(|unit| unit.logged.instead_of(&unit.name))
    }

    /// The number of units that systemd logged.
    pub(crate) fn units(&self) -> usize {
        self.unit.as_ref().map_or(0, |unit| unit.logged.count())
    }
}

impl AwaitedUnit {
    /// True if the line may be about the awaited unit: an initrd's units are not the root's.
    fn hear(&mut self, line: &[u8]) -> bool {
        let contains = |words: &[u8]| memchr::memmem::find(line, words).is_some();
        self.is_in_initrd = !contains(BEGINS) && (self.is_in_initrd || IN_INITRD.iter().any(|words| contains(words)));
        self.logged.hear(line, |name| !self.is_in_initrd || is_of_initrd(name));
        !self.is_in_initrd || is_of_initrd(&self.name)
    }
}

/// True if only an initrd has a unit of this name.
fn is_of_initrd(name: &str) -> bool {
    name.starts_with("initrd-") || name == "initrd.target"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meanings(unit: &str, lines: &[&str]) -> Vec<Meaning> {
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
        assert_eq!(meanings("a.service", &lines), expected);
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
        assert_eq!(meanings("basic.target", &lines), expected);
        assert_eq!(meanings("initrd.target", &lines)[3], Reached);
    }

    #[test]
    fn a_pattern_is_awaited_everywhere() {
        let mut awaited = Awaited::line("a.*b").unwrap();
        assert_eq!(awaited.hear(b"systemd[1]: Running in initrd."), Meaning::Nothing);
        assert_eq!(awaited.hear(b"a b"), Meaning::Reached);
        assert!(Awaited::line("(").is_err());
    }
}
