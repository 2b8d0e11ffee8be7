//! A value that threads can wait for. It is the only way to wait for another thread.

use crate::lock::SpinLock;
use crate::thread::{self, Killed};

/// A value under a lock. Every change wakes the threads that wait for the value.
pub struct Shared<T> {
    value: SpinLock<T>,
}

impl<T> Shared<T> {
    pub const fn new(value: T) -> Self {
        Shared { value: SpinLock::new(value) }
    }

    /// Changes the value, and wakes the waiting threads. The second result is true if there were any.
    pub fn change<R>(&self, change: impl FnOnce(&mut T) -> R) -> (R, bool) {
        let result = change(&mut self.value.lock());
        (result, thread::wake(self.channel()))
    }

    /// Changes the value without waking threads, when none waits for it.
    pub fn change_unawaited<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        change(&mut self.value.lock())
    }

    /// Waits until `ready` returns a result.
    pub fn wait_for<R>(&self, mut ready: impl FnMut(&mut T) -> Option<R>) -> R {
        let mut guard = self.value.lock();
        loop {
            match ready(&mut guard) {
                Some(result) => return result,
                None => guard = thread::block(self.channel(), guard, &self.value),
            }
        }
    }

    /// Waits until `ready` returns a result, or this thread is killed.
    pub fn wait_for_or_killed<R>(&self, mut ready: impl FnMut(&mut T) -> Option<R>) -> Result<R, Killed> {
        let mut guard = self.value.lock();
        loop {
            match ready(&mut guard) {
                Some(result) => return Ok(result),
                None => guard = thread::block_or_killed(self.channel(), guard, &self.value)?,
            }
        }
    }

    fn channel(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }
}
