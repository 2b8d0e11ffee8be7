//! The clock of calls: host ticks, or the guest's own time for deterministic boots.
//!
//! **Host**: the CPU's counter, if the CPU guarantees a constant rate, also in all sleep states. Reading it costs a
//! third of reading the system's clock, and it is read for every call and every return. Otherwise `CLOCK_MONOTONIC`.
//!
//! **Virtual** (`-icount shift=0`): one instruction is one nanosecond, so the clock is the number of instructions plus
//! the time that the guest slept. QEMU has the time of sleep, but it ends with "Bad icount read" if a callback reads
//! it. A thread that runs no vCPU may read it. That thread gets the time at which the vCPU's current slice of
//! instructions began. For the first block after a `hlt`, this is the current time.

#![allow(unsafe_code, reason = "calls of C")]

use std::ffi::c_int;
use std::sync::{Condvar, Mutex};

use crate::arch::counter;
use crate::recorder::host_ns;

/// The host's ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostClock {
    /// True if it is the CPU's counter.
    counter: bool,
    zero: u64,
    /// Ticks per second. The rate of the CPU's counter is measured, so it is slightly off.
    pub per_second: u64,
}

impl HostClock {
    /// A clock that reads 0 now. It takes a millisecond to measure the rate.
    pub fn start() -> HostClock {
        let mut clock = HostClock { counter: counter::is_even(), zero: 0, per_second: 1_000_000_000 };
        let (from_ns, from) = (host_ns(), clock.now());
        if clock.counter {
            let mut ns = host_ns() - from_ns;
            while ns < 1_000_000 {
                ns = host_ns() - from_ns;
            }
            clock.per_second = ((clock.now() - from) as u128 * 1_000_000_000 / u128::from(ns)) as u64;
        }
        clock.zero = clock.now();
        clock
    }

    /// Ticks since its start.
    #[inline(always)]
    pub fn now(&self) -> u64 {
        (if self.counter { counter::ticks() } else { host_ns() }).wrapping_sub(self.zero)
    }
}

/// QEMU's `qemu_clock_get_ns`.
pub type GetNs = extern "C" fn(c_int) -> i64;
/// `QEMU_CLOCK_VIRTUAL`
pub const VIRTUAL: c_int = 1;

/// A thread that reads the virtual time from QEMU.
pub struct VirtualTimeThread {
    get: GetNs,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    NoThread,
    Waiting,
    Requested,
    Answered(u64),
}

impl VirtualTimeThread {
    /// Starts no thread yet: QEMU may still fork to become a daemon.
    pub fn new(get: GetNs) -> VirtualTimeThread {
        VirtualTimeThread { get, state: Mutex::new(State::NoThread), changed: Condvar::new() }
    }

    /// The virtual time at which the current slice of instructions began, ns. Returns `None` if no thread can be
    /// started.
    pub fn read(&'static self) -> Option<u64> {
        let mut state = self.lock();
        if *state == State::NoThread {
            self.start()?;
        }
        *state = State::Requested;
        self.changed.notify_all();
        loop {
            if let State::Answered(ns) = *state {
                *state = State::Waiting;
                return Some(ns);
            }
            state = self.changed.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    fn start(&'static self) -> Option<()> {
        // The thread must receive no signal that QEMU expects elsewhere, so it inherits a mask of all signals.
        // SAFETY: both sets are local and are filled before they are read.
        let old = unsafe {
            let (mut all, mut old) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut old);
            old
        };
        let thread = std::thread::Builder::new().name("bootscope".into()).stack_size(64 << 10);
        let started = thread.spawn(|| self.answer());
        // SAFETY: the set that was just read.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &old, std::ptr::null_mut()) };
        started.ok().map(drop)
    }

    fn answer(&self) {
        let mut state = self.lock();
        loop {
            if *state == State::Requested {
                *state = State::Answered((self.get)(VIRTUAL).max(0) as u64);
                self.changed.notify_all();
            }
            state = self.changed.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_s_clock_runs_at_the_rate_it_says() {
        let clock = HostClock::start();
        let (ns, ticks) = (host_ns(), clock.now());
        std::thread::sleep(std::time::Duration::from_millis(20));
        let (ns, ticks) = (host_ns() - ns, clock.now() - ticks);
        let expected = ns as f64 * clock.per_second as f64 / 1e9;
        assert!((ticks as f64 / expected - 1.0).abs() < 0.05, "{ticks} ticks in {ns} ns, {clock:?}");
    }

    #[test]
    fn another_thread_reads_the_virtual_time() {
        extern "C" fn get(clock: c_int) -> i64 {
            assert_eq!(std::thread::current().name(), Some("bootscope"));
            i64::from(clock) + 41
        }
        let time_thread: &'static VirtualTimeThread = Box::leak(Box::new(VirtualTimeThread::new(get)));
        assert_eq!([time_thread.read(), time_thread.read()], [Some(42); 2]);
    }
}
