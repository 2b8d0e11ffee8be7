//! A scripted device's side of a driver: it is asked for something, and answers so long after that as the command line
//! says (`delay.answer.ena0=100`). A driver polls it, as it would poll a register, and does not know how long it takes.

use crate::{clock, script};

pub struct Answer {
    /// Of `clock::now_ns`.
    at_ns: u64,
}

impl Answer {
    /// Asks the device of that name. It answers at once if nothing else is said.
    pub fn ask(device: &'static str) -> Answer {
        Answer { at_ns: clock::now_ns() + script::answers_after_ns(device) }
    }

    pub fn is_there(&self) -> bool {
        clock::now_ns() >= self.at_ns
    }

    /// Looks until it is there, with a pause of so many microseconds after each look in vain.
    pub fn poll(&self, pause_us: impl Fn(u64), us: u64) {
        while !self.is_there() {
            pause_us(us);
        }
    }
}
