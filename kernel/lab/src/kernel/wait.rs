//! A value that threads can wait for: the one way to wait for another thread.

use crate::lock::SpinLock;
use crate::thread::{self, Killed};

/// A value under a lock; every change wakes those who wait for it to become something.
pub struct Shared<T> {
    value: SpinLock<T>,
}

impl<T> Shared<T> {
    pub const fn new(value: T) -> Self {
        Shared { value: SpinLock::new(value) }
    }

    /// Changes the value, and wakes those who wait. Also whether anybody did.
    pub fn change<R>(&self, change: impl FnOnce(&mut T) -> R) -> (R, bool) {
        let result = change(&mut self.value.lock());
        (result, thread::wake(self.channel()))
    }

    /// Changes what nobody waits for.
    pub fn change_unawaited<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        change(&mut self.value.lock())
    }

    /// Waits until `ready` has something to give.
    pub fn wait_for<R>(&self, mut ready: impl FnMut(&mut T) -> Option<R>) -> R {
        let mut guard = self.value.lock();
        loop {
            match ready(&mut guard) {
                Some(result) => return result,
                None => guard = thread::block(self.channel(), guard, &self.value),
            }
        }
    }

    /// Waits until `ready` has something to give, or this thread is killed.
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
