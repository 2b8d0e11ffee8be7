//! Cost of a system call, as the kernel prints it and the host reads it. A loop in user space runs with a system call that
//! does not exist, with a bare `syscall` and `sysret`, and without either.

use core::fmt;

const BEGINNING: &str = "system calls: ";

/// The unit of the loops' ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tick {
    /// A cycle of the TSC: the host's CPU ran the loops.
    Cycle,
    /// A tick of an emulator. In a deterministic machine it is an instruction. Otherwise it is no CPU's cycle.
    Emulated,
}

/// The times of the three loops, which have the same number of rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loops {
    /// Number of rounds of each loop.
    pub rounds: u64,
    /// Ticks of the loop without a call.
    pub empty_ticks: u64,
    /// Ticks of the loop with `syscall` and `sysret`, and nothing between.
    pub bare_ticks: u64,
    /// Ticks of the loop with a system call that does not exist.
    pub call_ticks: u64,
    /// Unit of the ticks.
    pub tick: Tick,
}

impl Tick {
    /// The unit under a hypervisor, by the name that it gives in CPUID 0x4000_0000 (EBX, ECX, EDX), or without one.
    pub fn under(hypervisor: Option<&[u8; 12]>) -> Tick {
        if hypervisor == Some(b"TCGTCGTCGTCG") { Tick::Emulated } else { Tick::Cycle }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Tick::Cycle => "cycles of the TSC",
            Tick::Emulated => "ticks of an emulator",
        }
    }
}

impl Loops {
    /// Length of a bare round trip, in ticks.
    pub fn bare(&self) -> f64 {
        self.per_round(self.bare_ticks)
    }

    /// Length of a system call that does not exist, in ticks.
    pub fn call(&self) -> f64 {
        self.per_round(self.call_ticks)
    }

    /// Ticks per round, without the loop itself.
    fn per_round(&self, ticks: u64) -> f64 {
        (ticks as f64 - self.empty_ticks as f64) / self.rounds as f64
    }

    /// Finds the line of the loops in a console's text.
    pub fn find(console: &str) -> Option<Loops> {
        let line = console.lines().find_map(|line| line.trim_end().strip_prefix(BEGINNING))?;
        let (numbers, tick) = line.split_once(", in ")?;
        let tick = [Tick::Cycle, Tick::Emulated].into_iter().find(|kind| kind.as_str() == tick)?;
        let mut numbers = numbers.split(", ").map(|part| part.split(' ').next().and_then(|word| word.parse().ok()));
        let mut next = || numbers.next().flatten();
        let (rounds, empty_ticks, bare_ticks, call_ticks) = (next()?, next()?, next()?, next()?);
        (rounds > 0).then_some(Loops { rounds, empty_ticks, bare_ticks, call_ticks, tick })
    }
}

impl fmt::Display for Loops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Loops { rounds, empty_ticks, bare_ticks, call_ticks, tick } = self;
        write!(f, "{BEGINNING}{rounds} rounds, {empty_ticks} empty, {bare_ticks} bare, {call_ticks} of a call")?;
        write!(f, ", in {}", tick.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    #[test]
    fn the_printed_line_is_found_and_the_loop_is_subtracted() {
        for tick in [Tick::Cycle, Tick::Emulated] {
            let loops = Loops { rounds: 20, empty_ticks: 60, bare_ticks: 100, call_ticks: 2060, tick };
            assert_eq!(Loops::find(&format!("hello\r\n{loops}\r\nlater\n")), Some(loops));
            assert_eq!((loops.bare(), loops.call()), (2.0, 100.0));
        }
    }

    #[test]
    fn an_incomplete_line_is_not_found() {
        for console in [
            "",
            "system calls: 20 rounds, 60 empty, 100 bare",
            "system calls: 20 rounds, 60 empty, 100 bare, 2060 of a call, in days",
            "system calls: 20 rounds, many empty, 100 bare, 2060 of a call, in cycles of the TSC",
            "system calls: 0 rounds, 60 empty, 100 bare, 2060 of a call, in cycles of the TSC",
        ] {
            assert_eq!(Loops::find(console), None, "{console}");
        }
    }

    #[test]
    fn only_an_emulator_has_no_cycles() {
        assert_eq!(Tick::under(Some(b"TCGTCGTCGTCG")), Tick::Emulated);
        assert_eq!(Tick::under(Some(b"KVMKVMKVM\0\0\0")), Tick::Cycle);
        assert_eq!(Tick::under(None), Tick::Cycle);
    }
}
