//! The guest's channel through the emergency register of a virtio console, which prints each byte that is written to it. `README.md`
//! explains the choice.

use std::fmt;

use guest_init::port::{PortEvent, PortReader};

use crate::guest_channel::{GuestChannel, Wire};

/// The console, and a parser for its output.
pub(super) struct Console {
    place: u8,
    parser: PortReader,
}

impl Console {
    /// The console in this place among the machine's places for virtio devices.
    pub(super) fn at(place: u8) -> Console {
        Console { place, parser: PortReader::default() }
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
        self.parser.feed(bytes, hear);
    }
}

impl fmt::Debug for Console {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Console")
    }
}
