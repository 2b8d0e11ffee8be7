//! Where an arena gets more addresses from, and what it gives them back to.

use crate::Error;

/// Another arena, or whatever has addresses to give. [`Arena::importing`](crate::Arena::importing) takes one.
///
/// It is called with the arena's lock held, so it takes its own lock after the arena's, and does not wait.
pub trait Source {
    /// All that it gives is aligned to this, and a multiple of it: a power of two, not less than the arena's quantum. None
    /// if it never gives anything.
    fn quantum(&self) -> Option<u64>;

    /// A new span of this size, a multiple of its quantum. With `may_wait`, a caller waits if there is none now.
    fn import(&mut self, size: u64, may_wait: bool) -> Result<u64, Error>;

    /// All of a span is free again.
    fn give_back(&mut self, start: u64, size: u64);
}

/// For an arena that has only the spans that are added to it.
#[derive(Clone, Copy, Debug)]
pub struct NoSource;

impl Source for NoSource {
    fn quantum(&self) -> Option<u64> {
        None
    }

    fn import(&mut self, _: u64, _: bool) -> Result<u64, Error> {
        Err(Error::NoSpace)
    }

    fn give_back(&mut self, _: u64, _: u64) {}
}
