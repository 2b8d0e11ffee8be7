//! The programmable interval timer, the only clock whose rate is known without calibration.
//!
//! Channel 0 counts down from 65 536 at 1 193 182 Hz, over and over, and is only read. This file extends its count to 64 bits.
//! The count is correct if it is read more often than it wraps, which is every 54.9 ms. If the boot is sampled, channel 0 beats
//! for the sampling, and channel 2 counts.

use crate::boot;
use crate::cpu::{inb, outb};
use crate::lock::SpinLock;

pub const HZ: u64 = 1_193_182;

const CHANNEL_0: u16 = 0x40;
const COMMAND: u16 = 0x43;
/// Channel 0, low byte then high byte, mode 2: counts down to 1, then from the top again.
const RATE_GENERATOR: u8 = 0x34;
const CHANNEL_2: u16 = 0x42;
const RATE_GENERATOR_2: u8 = 0xb4;
const LATCH_CHANNEL_0: u8 = 0x00;
const LATCH_CHANNEL_2: u8 = 0x80;
/// Bit 0 lets channel 2 count, bit 1 connects it to the speaker.
const SPEAKER: u16 = 0x61;

struct Count {
    last: u16,
    total: u64,
}

static COUNT: SpinLock<Count> = SpinLock::new(Count { last: 0, total: 0 });

pub fn start() {
    if counts_by_channel_2() {
        outb(SPEAKER, inb(SPEAKER) & !2 | 1);
        outb(COMMAND, RATE_GENERATOR_2);
        outb(CHANNEL_2, 0);
        outb(CHANNEL_2, 0);
    } else {
        outb(COMMAND, RATE_GENERATOR);
        outb(CHANNEL_0, 0);
        outb(CHANNEL_0, 0);
    }
    // Masks both interrupt controllers, because ticks come from the local APIC.
    outb(0x21, 0xff);
    outb(0xa1, 0xff);
    // The counter stands still until both bytes have arrived.
    COUNT.lock().last = latched();
}

fn counts_by_channel_2() -> bool {
    boot::switches().sample > 0
}

/// Makes channel 0 beat `hz` times per second.
pub fn beat(hz: u32) {
    let [low, high] = beat_ticks(hz).to_le_bytes();
    outb(COMMAND, RATE_GENERATOR);
    outb(CHANNEL_0, low);
    outb(CHANNEL_0, high);
}

/// Number of PIT ticks between two beats.
pub fn beat_ticks(hz: u32) -> u16 {
    (HZ / u64::from(hz.max(1))).min(u64::from(u16::MAX)) as u16
}

fn latched() -> u16 {
    let (latch, port) = if counts_by_channel_2() { (LATCH_CHANNEL_2, CHANNEL_2) } else { (LATCH_CHANNEL_0, CHANNEL_0) };
    outb(COMMAND, latch);
    u16::from_le_bytes([inb(port), inb(port)])
}

/// Number of ticks since `start`.
pub fn read() -> u64 {
    let mut count = COUNT.lock();
    let now = latched();
    // The counter counts down, modulo 65 536.
    count.total += u64::from(count.last.wrapping_sub(now));
    count.last = now;
    count.total
}
