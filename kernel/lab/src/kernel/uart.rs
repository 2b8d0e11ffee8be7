//! The first serial port, a 16550, polled and for output only.
//!
//! The wait for the transmitter makes a verbose console slow: about 87 µs per character at 115 200 baud on a real line. On a
//! virtual line it is the exit to the hypervisor. If no port answers, the output is lost.

use crate::cpu::{inb, outb};
use core::sync::atomic::{AtomicBool, Ordering};

const BASE: u16 = 0x3f8;
const DATA: u16 = BASE;
const INTERRUPT_ENABLE: u16 = BASE + 1;
const FIFO_CONTROL: u16 = BASE + 2;
const LINE_CONTROL: u16 = BASE + 3;
const MODEM_CONTROL: u16 = BASE + 4;
const LINE_STATUS: u16 = BASE + 5;
const SCRATCH: u16 = BASE + 7;

const DIVISOR_LATCH: u8 = 0x80;
const EIGHT_BITS: u8 = 0x03;
const TRANSMITTER_EMPTY: u8 = 0x20;
/// 1 843 200 Hz / 16 / 115 200.
const DIVISOR_115200: u8 = 1;
/// Largest number of polls. If the transmitter is not empty by then, the character is dropped.
const MAX_POLLS: u32 = 100_000;

static PRESENT: AtomicBool = AtomicBool::new(false);

pub fn start() {
    outb(SCRATCH, 0x5a);
    if inb(SCRATCH) != 0x5a {
        return;
    }
    outb(INTERRUPT_ENABLE, 0);
    outb(LINE_CONTROL, DIVISOR_LATCH);
    outb(DATA, DIVISOR_115200);
    outb(INTERRUPT_ENABLE, 0);
    outb(LINE_CONTROL, EIGHT_BITS);
    outb(FIFO_CONTROL, 0x07); // on, both cleared
    outb(MODEM_CONTROL, 0x03); // DTR, RTS
    PRESENT.store(true, Ordering::Relaxed);
}

pub fn is_present() -> bool {
    PRESENT.load(Ordering::Relaxed)
}

pub fn put(byte: u8) {
    if is_present() && (0..MAX_POLLS).any(|_| inb(LINE_STATUS) & TRANSMITTER_EMPTY != 0) {
        outb(DATA, byte);
    }
}
