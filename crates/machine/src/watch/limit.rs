//! The end of a piece of work for a boot. A guest can cause work on the host, and a VMM can leave questions unanswered. So
//! each piece has an end, and between pieces the recorder looks at the clock and at the user's Ctrl-C.

use std::cell::RefCell;

use crate::Observer;
use crate::vmm::Vmm;

/// When a piece of work has to end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    /// On the clock of [`Vmm::listened_ns`].
    pub(super) until_ns: i64,
    /// True if it also ends when the user stops the recording. Work that begins after that has a few milliseconds instead.
    pub(super) until_stop: bool,
}

impl Limit {
    /// True if it has to end now.
    pub(super) fn is_over(self, vm: &dyn Vmm, observer: &RefCell<&mut dyn Observer>) -> bool {
        vm.listened_ns() >= self.until_ns || self.until_stop && observer.borrow_mut().stop()
    }
}
