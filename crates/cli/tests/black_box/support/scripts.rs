//! Random scripts for the reference kernel, and its log: the shared code of the tests against a model.

use std::env;
use std::ops::Range;

/// A number from the environment.
pub fn number(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// The seeds of the scripts: fifty from 1 on, or `BOOTSCOPE_TRUTH_SCRIPTS` from `BOOTSCOPE_TRUTH_SEED` on.
pub fn seeds() -> Range<u64> {
    let first = number("BOOTSCOPE_TRUTH_SEED", 1);
    first..first + number("BOOTSCOPE_TRUTH_SCRIPTS", 50)
}

/// Pseudo-random numbers, the same for a seed (xorshift64*).
pub struct Random(u64);

impl Random {
    pub fn of(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound
    }
}

/// The nanoseconds between the first lines of a kernel's log with these endings. Its clock counts nanoseconds.
#[track_caller]
pub fn ns_between(log: &str, events: Range<&str>) -> u64 {
    let [from, to] = [events.start, events.end].map(|event| at_ns(log, |_, line| line.ends_with(event), event));
    to - from
}

/// The time of a thread's first line with this ending.
#[track_caller]
pub fn at_ns_of(log: &str, thread: &str, event: &str) -> u64 {
    let created = format!(" THREAD {thread}");
    let line = log.lines().find(|line| line.ends_with(&created)).unwrap_or_else(|| panic!("no thread {thread}"));
    let id = line.split(' ').next().expect("an id");
    at_ns(log, |of, line| of == id && line.ends_with(event), event)
}

#[track_caller]
fn at_ns(log: &str, is_it: impl Fn(&str, &str) -> bool, what: &str) -> u64 {
    let mut lines = log.lines().filter_map(|line| Some((line.split_once(' ')?, line)));
    let found = lines.find(|((of, _), line)| is_it(of, line));
    let at = found.and_then(|((_, rest), _)| rest.split(' ').next()?.parse().ok());
    at.unwrap_or_else(|| panic!("no {what:?} in the log"))
}
