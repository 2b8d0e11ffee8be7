//! A spinlock that keeps interrupts off while it is held. Otherwise an interrupt that takes the same lock would wait for ever.

use crate::cpu;
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, Ordering};

pub struct SpinLock<T> {
    held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: only the holder of the lock reaches the value.
unsafe impl<T: Send> Sync for SpinLock<T> {}

/// Releases the lock when it is dropped.
pub struct Guard<'a, T> {
    lock: &'a SpinLock<T>,
}

impl<T> SpinLock<T> {
    pub const fn new(value: T) -> Self {
        SpinLock { held: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    pub fn lock(&self) -> Guard<'_, T> {
        interrupts_off();
        while self.held.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            core::hint::spin_loop();
        }
        Guard { lock: self }
    }

    /// Releases a lock whose guard was forgotten, because another thread or the scheduler continues with the lock.
    ///
    /// # Safety
    /// This CPU holds the lock, and no guard of it is left.
    pub unsafe fn release_forgotten(&self) {
        drop(Guard { lock: self });
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the guard exists, so this CPU holds the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.lock.held.store(false, Ordering::Release);
        interrupts_back();
    }
}

/// Turns interrupts off, and counts the locks of this CPU. Releasing the outermost lock turns interrupts back on.
fn interrupts_off() {
    let were_on = cpu::interrupts_are_on();
    x86_64::instructions::interrupts::disable();
    let cpu = cpu::this();
    if cpu.locks_held.get() == 0 {
        cpu.interrupts_were_on.set(were_on);
    }
    cpu.locks_held.set(cpu.locks_held.get() + 1);
}

fn interrupts_back() {
    let cpu = cpu::this();
    let held = cpu.locks_held.get();
    assert!(held > 0, "interrupts_back: CPU {} holds {held} locks", cpu.index.get());
    cpu.locks_held.set(held - 1);
    if held == 1 && cpu.interrupts_were_on.get() {
        x86_64::instructions::interrupts::enable();
    }
}
