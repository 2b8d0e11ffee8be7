//! A value that one thread uses at a time, until QEMU's end takes it from all threads. It holds a vCPU's state.
//!
//! The callbacks of one vCPU come one after the other, so they need no lock among themselves. But QEMU may end while
//! they run: a guest's write to a device can end QEMU from the thread of another vCPU. A lock would cost each block of
//! code an atomic exchange. Here a callback costs two plain stores and a load, and QEMU's end pays for their order.
//! `membarrier(2)` makes each thread of this process pass a full barrier. Then either the callback sees that it came
//! too late, or QEMU's end sees that the callback is running and waits.

#![allow(unsafe_code, reason = "a cell of its own, and a call of the system's")]

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence, fence};
use std::time::{Duration, Instant};

/// The longest wait for a callback. A callback that takes longer is stuck in a write, and keeps its value.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// The end of QEMU, after which no value can be used.
#[derive(Debug)]
pub struct Shutdown {
    has_begun: AtomicBool,
    /// True if the system can make all threads pass a barrier.
    has_membarrier: bool,
}

impl Shutdown {
    /// Registers this process for the barrier.
    pub fn new() -> Shutdown {
        let has_membarrier = membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
        Shutdown { has_begun: AtomicBool::new(false), has_membarrier }
    }

    /// After this, no cell can be used any more. Returns false if the end of the last use cannot be detected.
    pub fn begin(&self) -> bool {
        self.has_begun.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        !self.has_membarrier || membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED)
    }
}

impl Default for Shutdown {
    fn default() -> Shutdown {
        Shutdown::new()
    }
}

fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: the call takes only numbers, and only affects the order in which threads see stores.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// The value, with a cache line on each side of it.
#[repr(align(128))]
#[derive(Debug)]
pub struct Cell<T> {
    value: UnsafeCell<T>,
    is_used: AtomicBool,
}

// SAFETY: `use_by_owner` gives the value to one thread at a time, by its contract. `take` gives it only to the thread
// after which no use can follow.
unsafe impl<T: Send> Sync for Cell<T> {}

/// The value during one use.
pub struct Used<'a, T>(&'a Cell<T>);

impl<T> Cell<T> {
    /// A value that is not in use.
    pub fn new(value: T) -> Cell<T> {
        Cell { value: UnsafeCell::new(value), is_used: AtomicBool::new(false) }
    }

    /// The value, unless QEMU's end has begun.
    ///
    /// # Safety
    /// No other use of this cell may be running, in any thread.
    #[inline(always)]
    pub unsafe fn use_by_owner(&self, shutdown: &Shutdown) -> Option<Used<'_, T>> {
        self.is_used.store(true, Ordering::Relaxed);
        // The compiler keeps the store before the load here; the barrier of `Shutdown::begin` does so for the CPU.
        compiler_fence(Ordering::SeqCst);
        if !shutdown.has_membarrier {
            fence(Ordering::SeqCst); // the system has no such barrier, so each use pays for it
        }
        if shutdown.has_begun.load(Ordering::Relaxed) {
            self.is_used.store(false, Ordering::Relaxed);
            return None;
        }
        Some(Used(self))
    }

    /// The value, for the one remaining thread. Returns `None` if a use is still running after a second.
    ///
    /// # Safety
    /// [`Shutdown::begin`] must have returned true, and this may be called only once.
    #[allow(clippy::mut_from_ref, reason = "the contract is the exclusion")]
    pub unsafe fn take(&self) -> Option<&mut T> {
        let begun = Instant::now();
        while self.is_used.load(Ordering::Acquire) {
            if begun.elapsed() > MAX_WAIT {
                return None;
            }
            std::thread::yield_now();
        }
        // SAFETY: the last use has ended, and no other can begin after the end has begun. Nothing else ever gets this
        // value.
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
        // SAFETY: this is the only use, by the contract of `use_by_owner`, and `take` waits for its end.
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
    fn a_value_taken_during_its_use_is_whole() {
        for _ in 0..50 {
            let (shutdown, cells) = (Shutdown::new(), [0, 1].map(|_| Cell::new([0_u64; 64])));
            let uses = AtomicU64::new(0);
            std::thread::scope(|scope| {
                for cell in &cells {
                    let (shutdown, uses) = (&shutdown, &uses);
                    let owner = move || {
                        // SAFETY: only this thread uses the cell.
                        let next = || unsafe { cell.use_by_owner(shutdown) };
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
                assert!(shutdown.begin(), "this system has membarrier");
                // SAFETY: the end has begun, and each value is taken once.
                let values = cells.each_ref().map(|cell| *unsafe { cell.take() }.expect("uses are short"));
                assert!(values.iter().all(|value| value.iter().all(|n| *n == value[0])), "{values:?}");
                assert!(values.iter().map(|value| value[0]).sum::<u64>() >= 100);
            });
        }
    }

    #[test]
    fn a_use_that_does_not_end_keeps_its_value() {
        let (shutdown, cell) = (Shutdown::new(), Cell::new(1));
        // SAFETY: this is the only use.
        let used = unsafe { cell.use_by_owner(&shutdown) };
        assert!(shutdown.begin() && used.is_some());
        // SAFETY: the end has begun.
        assert!(unsafe { cell.take() }.is_none());
        drop(used);
        // SAFETY: no other use is running.
        assert!(unsafe { cell.use_by_owner(&shutdown) }.is_none());
    }
}
