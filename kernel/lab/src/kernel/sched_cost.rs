//! Measures the costs of the remedies for slow thread creation (`sched_cost=yes`): throughput at a higher `hz=`, and the latency
//! of a wake-up under `preempt=voluntary` or `none`.
//!
//! A fixed piece of work, `cpu_bound`, takes longer by the ticks that interrupt it. Another thread sleeps to certain instants,
//! and measures the delay of its wake-ups. The amount of work, the interval of the preemption points (about a millisecond at one
//! instruction per nanosecond) and the instants are chosen, not measured.

use crate::console::kprintln;
use crate::sysinit::{Subsystem, sysinit};
use crate::wait::Shared;
use crate::{boot, clock, cpu, preempt, thread};
use lab::switches::SchedCost;

sysinit!(sched_cost, Subsystem::SchedCost, 0, measure);

const PIECES: u32 = 100;
const ROUNDS_A_PIECE: u32 = 333_333;
const WAKE_UPS: u32 = 20;
/// Length of the first sleep.
const SLEEP_NS: u64 = 4_000_000;
/// Difference in length between a sleep and the next, so that wake-ups come at any moment of a piece of work.
const LONGER_NS: u64 = 37_000;

/// Largest delay of the thread's wake-ups, once it has finished.
static LATEST_NS: Shared<Option<u64>> = Shared::new(None);

fn measure() {
    if boot::switches().sched_cost == SchedCost::No {
        return;
    }
    thread::create("latency", latency, 0);
    // The new thread begins to sleep.
    thread::yield_now();
    let began_ns = clock::now_ns();
    preempt::allowed(cpu_bound);
    let took_us = (clock::now_ns() - began_ns) / 1000;
    let late_us = LATEST_NS.wait_for(|latest| *latest) / 1000;
    let (hz, preempt) = (boot::switches().hz, boot::switches().preempt.as_str());
    kprintln!("sched_cost: hz={hz} preempt={preempt}: work {took_us} us, woken at most {late_us} us late");
}

#[inline(never)]
fn cpu_bound() {
    let _scope = tslog::scope!("cpu_bound");
    for _ in 0..PIECES {
        cpu::spin(ROUNDS_A_PIECE);
        preempt::point();
    }
}

fn latency(_: usize) {
    let mut latest_ns = 0;
    for nth in 0..WAKE_UPS {
        let due_ns = clock::now_ns() + SLEEP_NS + u64::from(nth) * LONGER_NS;
        thread::sleep_until(due_ns);
        latest_ns = latest_ns.max(clock::now_ns() - due_ns);
    }
    LATEST_NS.change(|latest| *latest = Some(latest_ns));
}
