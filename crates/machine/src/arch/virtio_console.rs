//! The emergency register of a virtio console, which prints a byte that is written there. `README.md` says why that.

use std::fmt;

use guest_init::port::{PortEvent, PortReader};

use crate::vmm::channel::{GuestChannel, Wire};

/// The console, and what came out of it so far.
pub(super) struct Console {
    place: u8,
    heard: PortReader,
}

impl Console {
    /// That in this place among those that a machine has for virtio devices.
    pub(super) fn at(place: u8) -> Console {
        Console { place, heard: PortReader::default() }
    }
}

impl GuestChannel for Console {
    fn wire(&self) -> Wire {
        Wire::VirtioConsole(self.place)
    }

    fn origin(&self) -> &'static str {
        "guest-init's words in a virtio console's emergency register"
    }

    fn feed(&mut self, bytes: &[u8], hear: &mut dyn FnMut(PortEvent<'_>)) {
        self.heard.feed(bytes, hear);
    }
}

impl fmt::Debug for Console {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Console")
    }
}
