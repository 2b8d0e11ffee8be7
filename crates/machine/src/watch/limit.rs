//! Limits for pieces of work. A guest can cause work on the host, and a VMM can leave questions unanswered. So each piece of work has a
//! limit, and between pieces the recorder checks the clock and the user's Ctrl-C.

use std::cell::RefCell;

use crate::Observer;
use crate::vmm::Vmm;

/// The conditions that end a piece of work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    /// On the clock of [`Vmm::listened_ns`].
    pub(super) until_ns: i64,
    /// True if the work also ends when the user stops the recording. Work that begins after that gets a few milliseconds instead.
    pub(super) until_stop: bool,
}

impl Limit {
    /// True if the work has to end now.
    pub(super) fn is_over(self, vm: &dyn Vmm, observer: &RefCell<&mut dyn Observer>) -> bool {
        vm.listened_ns() >= self.until_ns || self.until_stop && observer.borrow_mut().stop()
    }
}
