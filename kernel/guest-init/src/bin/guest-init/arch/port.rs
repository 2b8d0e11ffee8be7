//! The way to the host, whatever the machine sends bytes by.

use super::port_io::put;
use guest_init::messages::{Lacked, Message};

/// The way to the host, if somebody listens there; else what is said is lost.
#[derive(Clone, Copy)]
pub struct Port {
    heard: bool,
}

impl Port {
    /// Somebody listens, and this process may send, or will be allowed to before anything is said.
    pub fn heard() -> Port {
        Port { heard: true }
    }

    /// Nobody listens, or this process may not send.
    pub fn unheard() -> Port {
        Port { heard: false }
    }

    /// Whether somebody listens.
    pub fn is_heard(self) -> bool {
        self.heard
    }

    /// Says a line.
    pub fn say(self, word: &Message) {
        self.send(format!("{word}\n").as_bytes());
    }

    /// Says that something is lacking.
    pub fn lack(self, what: impl Into<Lacked>, why: impl ToString) {
        self.say(&Message::Lack { what: what.into(), why: why.to_string() });
    }

    /// Sends bytes as they are.
    pub fn send(self, bytes: &[u8]) {
        if self.heard {
            put(bytes);
        }
    }
}
