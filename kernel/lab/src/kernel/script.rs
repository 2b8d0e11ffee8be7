//! Scripted delays, hangs and panics, which the command line requests for places of the boot.
//!
//! A delayed thread sleeps, so that others run meanwhile. A delayed device answers later (`answer.rs`). Every other place is
//! delayed in `DELAY`, like a slow driver. A busy thread is also delayed in `DELAY`, after its sleep.

use crate::console::kprintln;
use crate::{boot, clock, cpu, thread};
use lab::switches::{Kind, means};

/// Runs the script of a place that the boot has reached.
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

/// Time until a device answers a request, by the script.
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

/// Spins with interrupts off, like a kernel that waits for an event that never comes.
fn hang(kind: Kind, name: &str) -> ! {
    kprintln!("hang: at {} {name}", kind.as_str());
    x86_64::instructions::interrupts::disable();
    loop {
        cpu::spin(1000);
        core::hint::spin_loop();
    }
}
