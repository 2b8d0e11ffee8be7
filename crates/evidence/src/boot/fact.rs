//! One fact of a boot, and a note of what a reader did with it: so that the table of readers is held against what they do.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};

/// The facts that one reader provides and another needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FactKind {
    /// The machine and its system.
    Subject,
    /// Names of functions.
    Lists,
    /// The time at which each block of code ran first, and the stages of the machine that follow from it.
    FirstExecutions,
    /// The kernel's messages with arrival times.
    HeardMessages,
    /// The kernel's messages in a journal.
    JournalMessages,
    /// The time at which the host heard that the virtual CPUs were started.
    VcpusStarted,
    /// Process 1 spoke to the host.
    Process1,
    /// The firmware printed something.
    Firmware,
    /// The time at which a container began.
    Container,
    /// Accesses that leave the guest are counted, and the call paths that they mention.
    Exits,
}

/// A fact: its value, and whether it was looked at and changed since [`Fact::forget_use`].
#[derive(Default)]
pub(crate) struct Fact<T> {
    value: T,
    is_read: Cell<bool>,
    is_changed: bool,
}

impl<T> Deref for Fact<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.is_read.set(true);
        &self.value
    }
}

impl<T> DerefMut for Fact<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.is_changed = true;
        &mut self.value
    }
}

impl<T: Default> Fact<T> {
    /// Takes the value, as the only reader that needs it.
    pub(crate) fn take(&mut self) -> T {
        self.is_read.set(true);
        std::mem::take(&mut self.value)
    }

    /// True if it was looked at, and true if it was changed, since this was asked before.
    pub(crate) fn forget_use(&mut self) -> (bool, bool) {
        (self.is_read.take(), std::mem::take(&mut self.is_changed))
    }
}
