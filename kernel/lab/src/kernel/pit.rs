//! The programmable interval timer: the one clock whose rate is known beforehand.
//!
//! Channel 0 counts down from 65 536 at 1 193 182 Hz, over and over, and is only read. Its count is lengthened to 64 bits
//! here, which is right as long as it is read more often than it wraps: every 54.9 ms.

use crate::cpu::{inb, outb};
use crate::lock::SpinLock;

pub const HZ: u64 = 1_193_182;

const CHANNEL_0: u16 = 0x40;
const COMMAND: u16 = 0x43;
/// Channel 0, low byte then high byte, mode 2: down to 1, then from the top again.
const RATE_GENERATOR: u8 = 0x34;
const LATCH_CHANNEL_0: u8 = 0x00;

struct Count {
    last: u16,
    total: u64,
}

static COUNT: SpinLock<Count> = SpinLock::new(Count { last: 0, total: 0 });

pub fn start() {
    outb(COMMAND, RATE_GENERATOR);
    outb(CHANNEL_0, 0);
    outb(CHANNEL_0, 0);
    // Both interrupt controllers masked: ticks come from the local APIC.
    outb(0x21, 0xff);
    outb(0xa1, 0xff);
    // It stands still until both bytes have arrived.
    COUNT.lock().last = latched();
}

fn latched() -> u16 {
    outb(COMMAND, LATCH_CHANNEL_0);
    u16::from_le_bytes([inb(CHANNEL_0), inb(CHANNEL_0)])
}

/// Ticks since `start`.
pub fn read() -> u64 {
    let mut count = COUNT.lock();
    let now = latched();
    // It counts down, modulo 65 536.
    count.total += u64::from(count.last.wrapping_sub(now));
    count.last = now;
    count.total
}
