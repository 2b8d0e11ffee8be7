//! The answers of scripted devices. A device answers a request after the time on the command line
//! (`delay.answer.ena0=100`). A driver polls for the answer, as it would poll a register, and must not use the time.

use crate::{clock, script};

pub struct Answer {
    /// Instant of the answer, by `clock::now_ns`.
    at_ns: u64,
}

impl Answer {
    /// Sends a request to the device of that name. Without a delay on the command line it answers at once.
    pub fn ask(device: &'static str) -> Answer {
        Answer { at_ns: clock::now_ns() + script::answers_after_ns(device) }
    }

    pub fn is_there(&self) -> bool {
        clock::now_ns() >= self.at_ns
    }

    /// Polls until the answer is there, with a pause of `us` microseconds after each failed poll.
    pub fn poll(&self, pause_us: impl Fn(u64), us: u64) {
        while !self.is_there() {
            pause_us(us);
        }
    }
}
