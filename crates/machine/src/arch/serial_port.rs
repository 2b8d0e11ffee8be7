//! A serial port that a guest has no driver for, and so may write to by itself. `README.md` says why that.

use std::fmt;

use guest_init::port::{PortEvent, PortReader};

use crate::vmm::channel::{GuestChannel, Wire};

/// The port of a board.
#[derive(Clone, Copy, Debug)]
pub(super) struct SerialPort {
    /// Its place among the serial ports of the machine.
    pub(super) place: u8,
    /// The physical address of its registers.
    pub(super) registers: u64,
}

impl SerialPort {
    /// The port, and what came out of it so far.
    pub(super) fn open(self) -> Box<dyn GuestChannel> {
        Box::new(Open { port: self, heard: PortReader::default() })
    }
}

struct Open {
    port: SerialPort,
    heard: PortReader,
}

impl GuestChannel for Open {
    fn wire(&self) -> Wire {
        Wire::SerialPort { place: self.port.place, registers: self.port.registers }
    }

    fn origin(&self) -> &'static str {
        "guest-init's words on a serial port of the board"
    }

    fn feed(&mut self, bytes: &[u8], hear: &mut dyn FnMut(PortEvent<'_>)) {
        self.heard.feed(bytes, hear);
    }
}

impl fmt::Debug for Open {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.port.fmt(f)
    }
}
