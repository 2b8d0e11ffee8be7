//! The guest's sockets, as the scheduler's trace shows their changes.

use timeline::{Ns, TrackId};

/// What became of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketChange {
    /// It waits for connections.
    Listens,
    /// It does no longer.
    ListensNoMore,
    /// A connection to it is there.
    Connected,
    /// A thread of the guest's closes a connection.
    Closed,
}

/// A socket of the guest's changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortEvent {
    pub at: Ns,
    /// What ran then.
    pub track: TrackId,
    pub port: u16,
    /// Only the guest itself can reach it.
    pub is_loopback: bool,
    pub change: SocketChange,
}
