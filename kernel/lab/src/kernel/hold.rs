//! Holds, which make the boot wait until other threads are done.
//!
//! A thread that still has something to find takes a hold on a topic, and releases it when it is done. A thread that must not
//! go on before that waits for the topic. Both are logged, so that a reader can tell which thread the boot waited for.

use crate::wait::Shared;

pub struct Topic {
    name: &'static str,
    holds: Shared<u32>,
}

/// Held by buses that may still find root's disk.
pub static ROOT_MOUNT: Topic = Topic::new("root mount");
/// Held by drivers that need interrupts to finish their attach.
pub static CONFIG_HOOKS: Topic = Topic::new("config hooks");

/// Releases its topic when it is dropped.
pub struct Held(&'static Topic);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// One lock for all drivers (`driver_lock=giant`).
pub static GIANT: Lock = Lock { name: "Giant", is_held: Shared::new(false) };

/// Held by the threads that each probe a device on PCI.
pub static PCI_PROBE: Topic = Topic::new("pci probe");

impl Topic {
    pub const fn new(name: &'static str) -> Self {
        Topic { name, holds: Shared::new(0) }
    }

    pub fn hold(&self) {
        tslog::hold!(self.name);
        self.holds.change(|holds| *holds += 1);
    }

    /// Takes a hold that lasts as long as the returned value.
    pub fn held(&'static self) -> Held {
        self.hold();
        Held(self)
    }

    /// Number of holds.
    pub fn holds(&self) -> u32 {
        self.holds.change_unawaited(|holds| *holds)
    }

    pub fn release(&self) {
        tslog::release!(self.name);
        self.holds.change(|holds| *holds = holds.checked_sub(1).unwrap_or_else(|| panic!("release: no {}", self.name)));
    }

    /// Waits until there are no holds.
    pub fn wait(&self) {
        self.wait_until(|| false);
    }

    /// Waits until `is_enough` is true, or until there are no holds. Checks this at every release.
    pub fn wait_until(&self, is_enough: impl Fn() -> bool) {
        tslog::wait!(self.name);
        self.holds.wait_for(|holds| (*holds == 0 || is_enough()).then_some(()));
        tslog::unwait!(self.name);
    }
}

/// A lock that its holder may sleep with. Waits and holds are logged.
pub struct Lock {
    name: &'static str,
    is_held: Shared<bool>,
}

/// Releases its lock when it is dropped.
pub struct Locked(&'static Lock);

impl Lock {
    /// Waits until the lock is free, and takes it.
    pub fn lock(&'static self) -> Locked {
        tslog::wait!(self.name);
        self.is_held.wait_for(|is_held| (!core::mem::replace(is_held, true)).then_some(()));
        tslog::unwait!(self.name);
        tslog::hold!(self.name);
        Locked(self)
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        tslog::release!(self.0.name);
        self.0.is_held.change(|is_held| *is_held = false);
    }
}
