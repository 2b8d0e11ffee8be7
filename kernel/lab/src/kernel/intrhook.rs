//! Hooks that run once interrupts work, and that the boot waits for: what a driver's attach could not finish.
//!
//! FreeBSD's `config_intrhook(9)`. A driver establishes a hook; `intr_config_hooks` calls all of them, and then waits
//! until each has been taken back, which may be long after it returned, by another thread.

use crate::hold::CONFIG_HOOKS;
use crate::lock::SpinLock;
use crate::sysinit::{Subsystem, sysinit};
use alloc::vec::Vec;

sysinit!(intr_config_hooks, Subsystem::ConfigHooks, 0, intr_config_hooks);

static HOOKS: SpinLock<Vec<fn()>> = SpinLock::new(Vec::new());

/// Has `hook` called, and the boot wait until it is taken back.
pub fn establish(hook: fn()) {
    CONFIG_HOOKS.hold();
    HOOKS.lock().push(hook);
}

/// One hook is done.
pub fn take_back() {
    CONFIG_HOOKS.release();
}

/// SYSINIT intr_config_hooks.
fn intr_config_hooks() {
    let hooks = core::mem::take(&mut *HOOKS.lock());
    hooks.into_iter().for_each(|hook| hook());
    CONFIG_HOOKS.wait();
}
