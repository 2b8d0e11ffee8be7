//! The channel to the host, on any machine.

use super::port_io::put;
use guest_init::messages::{Lacked, Message};

/// The channel to the host. Without a host, messages are dropped.
#[derive(Clone, Copy)]
pub struct Port {
    connected: bool,
}

impl Port {
    /// A channel with a host. This process may send, or will be allowed to before it sends anything.
    pub fn connected() -> Port {
        Port { connected: true }
    }

    /// A channel without a host, or that this process may not use.
    pub fn disconnected() -> Port {
        Port { connected: false }
    }

    /// True if there is a host.
    pub fn is_connected(self) -> bool {
        self.connected
    }

    pub fn send_message(self, message: &Message) {
        self.send_bytes(format!("{message}\n").as_bytes());
    }

    /// Reports something that is lacking.
    pub fn report_lack(self, what: impl Into<Lacked>, why: impl ToString) {
        self.send_message(&Message::Lack { what: what.into(), why: why.to_string() });
    }

    /// Sends bytes unchanged.
    pub fn send_bytes(self, bytes: &[u8]) {
        if self.connected {
            put(bytes);
        }
    }
}
