//! A value that one thread uses at a time, until one thread takes it away from all others: a vCPU's state, and the end of QEMU.
//!
//! A vCPU's callbacks come one after the other, so they need no lock among themselves. But QEMU may end while they come: a device that a
//! guest writes to can end it from the thread of another vCPU. A lock would cost each block of code an atomic exchange. Here a
//! callback costs two plain stores and a load, and the end of QEMU pays for the order of them: `membarrier(2)` makes each thread of this
//! process pass a full barrier. So either the callback sees that it has come too late, or the end sees that it is under way and waits.

#![allow(unsafe_code, reason = "a cell of its own, and a call of the system's")]

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence, fence};
use std::time::{Duration, Instant};

/// A callback that has not ended by then is stuck in a write, and what it works on is left to it.
const WAIT: Duration = Duration::from_secs(1);

/// Whether all values are taken away.
#[derive(Debug)]
pub struct Ending {
    has_come: AtomicBool,
    /// Whether the system can make all threads pass a barrier.
    is_possible: bool,
}

impl Ending {
    /// Registers this process for the barrier.
    pub fn new() -> Ending {
        let is_possible = membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
        Ending { has_come: AtomicBool::new(false), is_possible }
    }

    /// From now on no cell can be used any more. False: it cannot be known when the last use ends.
    pub fn comes(&self) -> bool {
        self.has_come.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        !self.is_possible || membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED)
    }
}

impl Default for Ending {
    fn default() -> Ending {
        Ending::new()
    }
}

fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: the call takes numbers only, and changes nothing but the order in which threads see stores.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// The value, with a cache line on either side of it.
#[repr(align(128))]
#[derive(Debug)]
pub struct Cell<T> {
    value: UnsafeCell<T>,
    is_used: AtomicBool,
}

// SAFETY: `use_by_owner` gives the value to one thread at a time, by its contract, and `take` only to the thread that no use can follow.
unsafe impl<T: Send> Sync for Cell<T> {}

/// The value while it is used.
pub struct Used<'a, T>(&'a Cell<T>);

impl<T> Cell<T> {
    /// A value that nothing uses.
    pub fn new(value: T) -> Cell<T> {
        Cell { value: UnsafeCell::new(value), is_used: AtomicBool::new(false) }
    }

    /// The value, unless the end has come.
    ///
    /// # Safety
    /// No other use of this cell is under way, in any thread.
    #[inline(always)]
    pub unsafe fn use_by_owner(&self, ending: &Ending) -> Option<Used<'_, T>> {
        self.is_used.store(true, Ordering::Relaxed);
        // The store is before the load for the compiler here, and for the CPU by the barrier of `Ending::comes`.
        compiler_fence(Ordering::SeqCst);
        if !ending.is_possible {
            fence(Ordering::SeqCst); // each use pays for it, where the system has no such barrier
        }
        if ending.has_come.load(Ordering::Relaxed) {
            self.is_used.store(false, Ordering::Relaxed);
            return None;
        }
        Some(Used(self))
    }

    /// The value, for the one thread that is left. None if a use is still under way after a while.
    ///
    /// # Safety
    /// [`Ending::comes`] has returned true, and this is called once.
    #[allow(clippy::mut_from_ref, reason = "the contract is the exclusion")]
    pub unsafe fn take(&self) -> Option<&mut T> {
        let begun = Instant::now();
        while self.is_used.load(Ordering::Acquire) {
            if begun.elapsed() > WAIT {
                return None;
            }
            std::thread::yield_now();
        }
        // SAFETY: the last use has ended, no other begins after the end has come, and nothing else is ever given this value.
        Some(unsafe { &mut *self.value.get() })
    }
}

impl<T> Deref for Used<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: as below.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Used<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this is the only use, by the contract of `use_by_owner`, and `take` waits until it ends.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Used<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.is_used.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn what_is_taken_away_in_the_middle_of_its_use_is_whole() {
        for _ in 0..50 {
            let (ending, cells) = (Ending::new(), [0, 1].map(|_| Cell::new([0_u64; 64])));
            let uses = AtomicU64::new(0);
            std::thread::scope(|scope| {
                for cell in &cells {
                    let (ending, uses) = (&ending, &uses);
                    let owner = move || {
                        // SAFETY: this thread alone uses the cell.
                        let next = || unsafe { cell.use_by_owner(ending) };
                        while let Some(mut value) = next() {
                            value.iter_mut().for_each(|n| *n += 1);
                            uses.fetch_add(1, Ordering::Relaxed);
                        }
                    };
                    scope.spawn(owner);
                }
                while uses.load(Ordering::Relaxed) < 100 {
                    std::hint::spin_loop();
                }
                assert!(ending.comes(), "this system has membarrier");
                // SAFETY: the end has come, and each is taken once.
                let values = cells.each_ref().map(|cell| *unsafe { cell.take() }.expect("uses are short"));
                assert!(values.iter().all(|value| value.iter().all(|n| *n == value[0])), "{values:?}");
                assert!(values.iter().map(|value| value[0]).sum::<u64>() >= 100);
            });
        }
    }

    #[test]
    fn a_use_that_does_not_end_keeps_its_value() {
        let (ending, cell) = (Ending::new(), Cell::new(1));
        // SAFETY: the only use.
        let used = unsafe { cell.use_by_owner(&ending) };
        assert!(ending.comes() && used.is_some());
        // SAFETY: the end has come.
        assert!(unsafe { cell.take() }.is_none());
        drop(used);
        // SAFETY: no other use is under way.
        assert!(unsafe { cell.use_by_owner(&ending) }.is_none());
    }
}
