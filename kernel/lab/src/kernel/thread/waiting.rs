//! The waits of threads: on channels, for a time, and for a turn.

use super::{Killed, State, TABLE, Table, check_killed, make_runnable, switch_away};
use crate::lock::{Guard, SpinLock};
use crate::{apic, boot, clock, cpu, trap};
use lab::switches::SchedLog;

/// Waits on a channel. Releases the lock of `guard` once no wake-up can be missed, and takes it again after the wait.
pub fn block<'a, T>(channel: usize, guard: Guard<'a, T>, lock: &'a SpinLock<T>) -> Guard<'a, T> {
    let _scope = tslog::scope!("_sleep");
    let mut table = TABLE.lock();
    drop(guard);
    table.threads[cpu::this().current.get() as usize].state = State::Blocked(channel);
    switch_away(table);
    lock.lock()
}

/// As [`block`], but the wait also ends when this thread is killed.
pub fn block_or_killed<'a, T>(
    channel: usize,
    guard: Guard<'a, T>,
    lock: &'a SpinLock<T>,
) -> Result<Guard<'a, T>, Killed> {
    let _scope = tslog::scope!("_sleep");
    let table = TABLE.lock();
    drop(guard);
    wait_unless_killed(table, State::Blocked(channel), |_| ())?;
    Ok(lock.lock())
}

/// Waits, unless this thread was already killed. Then checks whether it was killed meanwhile.
fn wait_unless_killed(
    mut table: Guard<'_, Table>,
    state: State,
    prepare: impl FnOnce(&mut Table),
) -> Result<(), Killed> {
    let slot = cpu::this().current.get();
    let thread = &mut table.threads[slot as usize];
    if thread.is_killed {
        drop(table);
        return check_killed();
    }
    (thread.state, thread.wakes_if_killed) = (state, true);
    prepare(&mut table);
    switch_away(table);
    TABLE.lock().threads[slot as usize].wakes_if_killed = false;
    check_killed()
}

/// Wakes all threads that wait on a channel, in the order of their creation. Returns true if there were any.
pub fn wake(channel: usize) -> bool {
    let mut table = TABLE.lock();
    let mut any = false;
    for slot in 0..table.used {
        if table.threads[slot].state == State::Blocked(channel) {
            make_runnable(&mut table, slot as u16, None);
            any = true;
        }
    }
    any
}

/// Lets other threads run first.
pub fn yield_now() {
    // If CPUs take turns, this gives the next CPU its turn. A thread that yields repeatedly may be waiting for another CPU.
    core::hint::spin_loop();
    let mut table = TABLE.lock();
    let slot = cpu::this().current.get();
    make_runnable(&mut table, slot, None);
    switch_away(table);
}

/// Sleeps. Before there are ticks nothing could wake the thread, so it delays instead.
pub fn sleep_ns(ns: u64) {
    if clock::is_ticking() { sleep_until(clock::now_ns() + ns) } else { clock::delay_us(ns / 1000) }
}

pub fn sleep_us(us: u64) {
    sleep_ns(us * 1000);
}

/// Sleeps on a relative timer, like Linux's `schedule_hrtimeout`. While timers are of low resolution, it expires at the first
/// tick at its time or later.
pub fn schedule_hrtimeout(ns: u64) {
    if clock::is_ticking() { sleep_until(clock::expiry_ns(ns)) } else { yield_now() }
}

/// Sleeps until an instant of `clock::now_ns`, exact to the nanosecond.
pub fn sleep_until(instant_ns: u64) {
    let _scope = tslog::scope!("_sleep");
    if boot::switches().sched_log == SchedLog::Timeouts {
        let length_ns = instant_ns.saturating_sub(clock::now_ns());
        tslog::timeout!(tslog::copy(&alloc::format!("{length_ns}ns")));
    }
    let mut table = TABLE.lock();
    queue_sleeper(&mut table, instant_ns);
    table.threads[cpu::this().current.get() as usize].state = State::Sleeping;
    switch_away(table);
}

/// Sleeps until the time is over or this thread is killed.
pub fn sleep_or_killed(ns: u64) -> Result<(), Killed> {
    let _scope = tslog::scope!("_sleep");
    let until_ns = clock::now_ns() + ns;
    wait_unless_killed(TABLE.lock(), State::Sleeping, |table| queue_sleeper(table, until_ns))
}

/// Queues the running thread for a wake-up at an instant. The caller then makes it sleep, before it releases the table.
fn queue_sleeper(table: &mut Table, instant_ns: u64) {
    let slot = cpu::this().current.get();
    assert!(table.sleepers.push(instant_ns, slot), "thread::sleep_until: {slot} sleeps twice");
    if cpu::this().index.get() != 0 {
        apic::interrupt(cpu::apic_id_of(0), trap::RESCHEDULE);
    }
    clock::rearm_for(table.sleepers.next());
}

/// Wakes the threads whose instant has come, and returns the next instant.
pub fn wake_sleepers(now_ns: u64) -> Option<u64> {
    let mut table = TABLE.lock();
    while let Some(slot) = table.sleepers.pop_due(now_ns) {
        make_runnable(&mut table, slot, Some("timer"));
    }
    table.sleepers.next()
}
