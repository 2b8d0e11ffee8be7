//! The guest's channel through port 0xe9, which PC emulators have for debug messages.

use std::fmt;

use guest_init::port::{PortEvent, PortReader};

use crate::guest_channel::{GuestChannel, Wire};

/// The port, with a parser for its output.
#[derive(Default)]
pub(super) struct DebugPort(PortReader);

impl GuestChannel for DebugPort {
    fn wire(&self) -> Wire {
        Wire::IoPort(guest_init::messages::PORT)
    }

    fn origin(&self) -> &'static str {
        "guest-init's words on port 0xe9"
    }

    fn feed(&mut self, bytes: &[u8], hear: &mut dyn FnMut(PortEvent<'_>)) {
        self.0.feed(bytes, hear);
    }
}

impl fmt::Debug for DebugPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DebugPort")
    }
}
