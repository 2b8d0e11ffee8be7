//! Probes that a kernel put off.

use crate::{NameId, Ns};

/// A message that the kernel puts off the probe of a device, because something that the device needs is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deferral {
    pub at: Ns,
    /// The device, or the initcall that returned the error.
    pub device: NameId,
    /// The missing supplier, if the message names it.
    pub supplier: Option<NameId>,
    /// The duration of the attempt, if the message has it.
    pub took: Option<Ns>,
    /// True if the kernel has given up for now: nothing will start a further attempt.
    pub is_pending: bool,
    /// The whole message.
    pub message: NameId,
}
