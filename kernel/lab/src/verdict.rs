//! The line that the kernel prints after a check, and that the host reads. If a switch decides whether the kernel is correct,
//! an experiment has a verdict instead of a time.
//!
//! The kernel prints its counts and its verdict. The host accepts them; a boot without the line has no verdict.

use core::fmt;

/// First word of the line.
const BEGINNING: &str = "verdict: ";

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The kernel passed the check.
    Correct,
    /// The kernel failed the check.
    Broken,
}

impl Verdict {
    /// [`Correct`](Verdict::Correct) if the check holds.
    pub const fn of(holds: bool) -> Verdict {
        if holds { Verdict::Correct } else { Verdict::Broken }
    }

    /// The word that is printed.
    pub const fn as_str(self) -> &'static str {
        match self {
            Verdict::Correct => "correct",
            Verdict::Broken => "broken",
        }
    }
}

/// A finished check: `verdict: tlb-shootdown correct: 1000 rounds, 0 stale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked<C> {
    /// Name of the check.
    pub name: &'static str,
    pub verdict: Verdict,
    /// The counts of the check.
    pub counted: C,
}

impl<C: fmt::Display> fmt::Display for Checked<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{BEGINNING}{} {}: {}", self.name, self.verdict.as_str(), self.counted)
    }
}

/// Finds the check of that name in a console's text. Returns `None` if there was no such check, or if its line is incomplete.
pub fn find<'a>(console: &'a str, name: &'static str) -> Option<Checked<&'a str>> {
    console.lines().find_map(|line| {
        let (name_and_verdict, counted) = line.trim_end().strip_prefix(BEGINNING)?.split_once(": ")?;
        let verdict = match name_and_verdict.strip_prefix(name)?.strip_prefix(' ')? {
            "correct" => Verdict::Correct,
            "broken" => Verdict::Broken,
            _ => return None,
        };
        Some(Checked { name, verdict, counted })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_printed_line_is_found() {
        let checked = |verdict| Checked { name: "tlb-shootdown", verdict, counted: "3 rounds: none stale" };
        for verdict in [Verdict::Correct, Verdict::Broken] {
            let console = format!("SMP: 4 CPUs\r\nverdict: tlb correct: 1\n{}\r\ninit: done\n", checked(verdict));
            assert_eq!(find(&console, "tlb-shootdown"), Some(checked(verdict)));
        }
    }

    #[test]
    fn an_incomplete_line_has_no_verdict() {
        for console in ["", "verdict: x", "verdict: x correct", "verdict: x maybe: 1", "verdict: xx correct: 1"] {
            assert_eq!(find(console, "x"), None, "{console}");
        }
        assert_eq!((Verdict::of(true), Verdict::of(false)), (Verdict::Correct, Verdict::Broken));
    }
}
