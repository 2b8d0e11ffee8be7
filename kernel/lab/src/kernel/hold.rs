//! Holds: what keeps the boot from going on until somebody else is done.
//!
//! Whoever still has something to find takes a hold on a topic and releases it when it has; whoever must not go on
//! before waits for the topic. Both are logged, so that a reader can tell who kept the boot waiting.

use crate::wait::Shared;

pub struct Topic {
    name: &'static str,
    holds: Shared<u32>,
}

/// Buses that may still find the disk that root is on.
pub static ROOT_MOUNT: Topic = Topic::new("root mount");
/// Drivers that need interrupts to finish what their attach began.
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

/// Devices on PCI that are probed by threads of their own.
pub static PCI_PROBE: Topic = Topic::new("pci probe");

impl Topic {
    pub const fn new(name: &'static str) -> Self {
        Topic { name, holds: Shared::new(0) }
    }

    pub fn hold(&self) {
        tslog::hold!(self.name);
        self.holds.change(|holds| *holds += 1);
    }

    /// Holds it as long as what is given back lives.
    pub fn held(&'static self) -> Held {
        self.hold();
        Held(self)
    }

    /// How many hold it.
    pub fn holds(&self) -> u32 {
        self.holds.change_unawaited(|holds| *holds)
    }

    pub fn release(&self) {
        tslog::release!(self.name);
        self.holds.change(|holds| *holds = holds.checked_sub(1).unwrap_or_else(|| panic!("release: no {}", self.name)));
    }

    /// Waits until nobody holds it.
    pub fn wait(&self) {
        self.wait_until(|| false);
    }

    /// Waits until it is enough, or nobody holds it. That is looked at whenever somebody lets go.
    pub fn wait_until(&self, is_enough: impl Fn() -> bool) {
        tslog::wait!(self.name);
        self.holds.wait_for(|holds| (*holds == 0 || is_enough()).then_some(()));
        tslog::unwait!(self.name);
    }
}

/// A lock that its holder may sleep with. Both who waits for it and who holds it is logged.
pub struct Lock {
    name: &'static str,
    is_held: Shared<bool>,
}

/// Releases its lock when it is dropped.
pub struct Locked(&'static Lock);

impl Lock {
    /// Waits until nobody holds it, and takes it.
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
