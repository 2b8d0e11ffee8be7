//! Scripted delays, hangs and panics: whatever the command line asks for at a place of the boot.
//!
//! A thread is delayed asleep, so that others run meanwhile; a device answers later (`answer.rs`); every other place is
//! delayed in `DELAY`, as a slow driver would be. So is a thread that is to be busy, after its sleep.

use crate::console::kprintln;
use crate::{boot, clock, cpu, thread};
use lab::switches::{Kind, means};

/// The boot has come to a place.
pub fn at(kind: Kind, name: &'static str) {
    let switches = boot::switches();
    match switches.delay_ns(kind, name) {
        0 => {}
        ns if kind == Kind::Thread => thread::sleep_ns(ns),
        ns => clock::delay_us(ns / 1000),
    }
    match switches.busy_ns(kind, name) {
        0 => {}
        ns => clock::delay_us(ns / 1000),
    }
    stop_at(kind, name);
}

/// A device is asked for something. After how long it answers.
pub fn answers_after_ns(device: &'static str) -> u64 {
    stop_at(Kind::Answer, device);
    boot::switches().delay_ns(Kind::Answer, device)
}

fn stop_at(kind: Kind, name: &'static str) {
    let switches = boot::switches();
    let is_here = |place: Option<&str>| place.is_some_and(|place| means(place, kind, name));
    if is_here(switches.panic) {
        panic!("asked for at {} {name}", kind.as_str());
    }
    if is_here(switches.fault) {
        cpu::invalid_instruction();
    }
    if is_here(switches.hang) {
        hang(kind, name);
    }
}

/// What a kernel does that waits for what never comes: spin, with interrupts off.
fn hang(kind: Kind, name: &str) -> ! {
    kprintln!("hang: at {} {name}", kind.as_str());
    x86_64::instructions::interrupts::disable();
    loop {
        cpu::spin(1000);
        core::hint::spin_loop();
    }
}
