//! The emergency register of a virtio console, which prints a byte that is written there. `../README.md` says why that.

use std::fmt;

use guest_init::port::{PortEvent, PortReader};

use crate::vmm::channel::{GuestChannel, Wire};

/// The console, and what came out of it so far.
#[derive(Default)]
pub(super) struct Console(PortReader);

impl GuestChannel for Console {
    fn wire(&self) -> Wire {
        // The machine gives these places out from the last one on, so this page of registers stays without a driver for long.
        Wire::VirtioConsole(0)
    }

    fn origin(&self) -> &'static str {
        "guest-init's words in a virtio console's emergency register"
    }

    fn feed(&mut self, bytes: &[u8], hear: &mut dyn FnMut(PortEvent<'_>)) {
        self.0.feed(bytes, hear);
    }
}

impl fmt::Debug for Console {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Console")
    }
}
