//! The source from which an arena imports spans.

use crate::Error;

/// Another arena, or any other provider of addresses, for [`Arena::importing`](crate::Arena::importing).
///
/// The arena calls it with the arena's lock held. So it must take its own lock after the arena's, and must not wait.
pub trait Source {
    /// The quantum of the source: every span it provides begins at a multiple of it and has a size that is one. A power of
    /// two, at least the arena's quantum. `None` if it never provides a span.
    fn quantum(&self) -> Option<u64>;

    /// Provides a new span of this size, a multiple of the source's quantum. `may_wait` is true if the caller can wait for
    /// space.
    fn import(&mut self, size: u64, may_wait: bool) -> Result<u64, Error>;

    /// Takes a span back, all of which is free again.
    fn give_back(&mut self, start: u64, size: u64);
}

/// The source of an arena that does not import.
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
