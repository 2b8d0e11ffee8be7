//! What the kernel prints of a check, and what the host reads of it: where a switch decides whether the kernel is
//! correct, an experiment has a verdict in the place of a time.
//!
//! The kernel prints what it counted and judges it; the host takes its word, and that a boot without the line has none.

use core::fmt;

/// What the line begins with.
const BEGINNING: &str = "verdict: ";

/// Whether what a check demands holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It does.
    Correct,
    /// It does not.
    Broken,
}

impl Verdict {
    /// Correct if it holds.
    pub const fn of(holds: bool) -> Verdict {
        if holds { Verdict::Correct } else { Verdict::Broken }
    }

    /// As it is printed.
    pub const fn as_str(self) -> &'static str {
        match self {
            Verdict::Correct => "correct",
            Verdict::Broken => "broken",
        }
    }
}

/// A check that was made: `verdict: tlb-shootdown correct: 1000 rounds, 0 stale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked<C> {
    /// What was checked.
    pub name: &'static str,
    /// Whether it holds.
    pub verdict: Verdict,
    /// What was counted.
    pub counted: C,
}

impl<C: fmt::Display> fmt::Display for Checked<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{BEGINNING}{} {}: {}", self.name, self.verdict.as_str(), self.counted)
    }
}

/// Finds the check of that name on a console. None if it was not made, or its line is not whole.
pub fn find<'a>(console: &'a str, name: &'static str) -> Option<Checked<&'a str>> {
    console.lines().find_map(|line| {
        let (said, counted) = line.trim_end().strip_prefix(BEGINNING)?.split_once(": ")?;
        let verdict = match said.strip_prefix(name)?.strip_prefix(' ')? {
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
    fn what_is_printed_is_found() {
        let of = |verdict| Checked { name: "tlb-shootdown", verdict, counted: "3 rounds: none stale" };
        for verdict in [Verdict::Correct, Verdict::Broken] {
            let console = format!("SMP: 4 CPUs\r\nverdict: tlb correct: 1\n{}\r\ninit: done\n", of(verdict));
            assert_eq!(find(&console, "tlb-shootdown"), Some(of(verdict)));
        }
    }

    #[test]
    fn what_is_not_whole_is_no_verdict() {
        for console in ["", "verdict: x", "verdict: x correct", "verdict: x maybe: 1", "verdict: xx correct: 1"] {
            assert_eq!(find(console, "x"), None, "{console}");
        }
        assert_eq!((Verdict::of(true), Verdict::of(false)), (Verdict::Correct, Verdict::Broken));
    }
}
