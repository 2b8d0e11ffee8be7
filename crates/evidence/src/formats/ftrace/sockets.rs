//! The guest's sockets, as the scheduler's trace shows their changes.

use timeline::{Ns, TrackId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketChange {
    /// It began to listen.
    Listens,
    /// It stopped listening.
    ListensNoMore,
    /// A connection to it was established.
    Connected,
    /// A thread of the guest closed a connection.
    Closed,
}

/// A change of one of the guest's sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortEvent {
    pub at: Ns,
    /// The track that ran at that time.
    pub track: TrackId,
    pub port: u16,
    /// True if only the guest itself can reach it.
    pub is_loopback: bool,
    pub change: SocketChange,
}
