//! Hooks for work that a driver's attach could not finish. They run once interrupts work, and the boot waits for them.
//!
//! This is FreeBSD's `config_intrhook(9)`. A driver establishes a hook. `intr_config_hooks` calls all hooks, and then waits
//! until each has been taken back. Another thread may take a hook back long after the hook returned.

use crate::hold::CONFIG_HOOKS;
use crate::lock::SpinLock;
use crate::sysinit::{Subsystem, sysinit};
use alloc::vec::Vec;

sysinit!(intr_config_hooks, Subsystem::ConfigHooks, 0, intr_config_hooks);

static HOOKS: SpinLock<Vec<fn()>> = SpinLock::new(Vec::new());

/// Registers a hook. The boot calls it, and waits until it is taken back.
pub fn establish(hook: fn()) {
    CONFIG_HOOKS.hold();
    HOOKS.lock().push(hook);
}

/// Takes a hook back, because its work is done.
pub fn take_back() {
    CONFIG_HOOKS.release();
}

/// SYSINIT intr_config_hooks: calls the hooks and waits for them.
fn intr_config_hooks() {
    let hooks = core::mem::take(&mut *HOOKS.lock());
    hooks.into_iter().for_each(|hook| hook());
    CONFIG_HOOKS.wait();
}
