//! The guest's channel through a serial port for which the guest has no driver, so that process 1 may write to it. `README.md` explains
//! the choice.

use std::fmt;

use guest_init::port::{PortEvent, PortReader};

use crate::guest_channel::{GuestChannel, Wire};

/// A serial port of a board.
#[derive(Clone, Copy, Debug)]
pub(super) struct SerialPort {
    /// Its place among the serial ports of the machine.
    pub(super) place: u8,
    /// The physical address of its registers.
    pub(super) registers: u64,
}

impl SerialPort {
    /// A channel through this port, with a parser for its output.
    pub(super) fn open(self) -> Box<dyn GuestChannel> {
        Box::new(SerialChannel { port: self, parser: PortReader::default() })
    }
}

struct SerialChannel {
    port: SerialPort,
    parser: PortReader,
}

impl GuestChannel for SerialChannel {
    fn wire(&self) -> Wire {
        Wire::SerialPort { place: self.port.place, registers: self.port.registers }
    }

    fn origin(&self) -> &'static str {
        "guest-init's words on a serial port of the board"
    }

    fn feed(&mut self, bytes: &[u8], hear: &mut dyn FnMut(PortEvent<'_>)) {
        self.parser.feed(bytes, hear);
    }
}

impl fmt::Debug for SerialChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.port.fmt(f)
    }
}
