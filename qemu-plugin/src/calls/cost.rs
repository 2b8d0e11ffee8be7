//! Measures the recorder's own cost of following a call, on the machine where it runs.

use std::time::Instant;

use super::block::Block;
use super::clock::HostClock;
use super::encode::Out;
use super::follow::{Clock, Shared, Vcpu};
use crate::ending::Ending;

const ROUNDS: u64 = 4000;

/// Picoseconds for a call and its return, with the blocks that they begin and end. It is the shortest possible time,
/// with everything in the caches. QEMU's own path into the callbacks is not included.
pub fn call_cost_ps() -> u64 {
    let shared = Shared::new(Clock::Host(HostClock::start()), u64::MAX, u64::MAX, [16, 16, 1]);
    let mut vcpu = Vcpu::new(&shared, Out::new(None, 0));
    let block = |start, end, ending, d| -> &'static Block {
        Box::leak(Box::new(Block::new(start, end, end - 1, 4, ending, d)))
    };
    let caller = block(0x1000, 0x1010, Ending::Call, Some(0xff0));
    let callee = block(0x2000, 0x2010, Ending::Return, None);
    let back = block(0x1010, 0x1020, Ending::Jump, Some(-32));
    let begun = Instant::now();
    for _ in 0..ROUNDS {
        vcpu.runs(&shared, caller);
        vcpu.stack_pointer(caller, 0x8000);
        vcpu.runs(&shared, callee);
        vcpu.stack_pointer(callee, 0x8000);
        vcpu.runs(&shared, back);
    }
    (begun.elapsed().as_nanos() * 1000) as u64 / ROUNDS
}
