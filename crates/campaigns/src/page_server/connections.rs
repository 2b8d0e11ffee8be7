//! The open connections: a bounded number, in which silent ones cannot keep others out.

use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most connections that are open at once.
const MAX_OPEN: usize = 64;

/// All open connections, oldest first.
#[derive(Default)]
pub struct Connections(Mutex<(u64, Vec<Open>)>);

struct Open {
    number: u64,
    stream: Arc<TcpStream>,
    /// True if its request had the secret.
    is_trusted: bool,
}

/// An open connection. A drop makes room for another.
pub struct Connection {
    number: u64,
    stream: Arc<TcpStream>,
    all: Arc<Connections>,
}

impl Connections {
    fn lock(&self) -> MutexGuard<'_, (u64, Vec<Open>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection. If there are too many, closes the oldest that has not shown the secret. Returns `None` if all
    /// have shown it.
    pub fn admit(self: &Arc<Self>, stream: TcpStream) -> Option<Connection> {
        let mut all = self.lock();
        if all.1.len() >= MAX_OPEN {
            let oldest = all.1.iter().position(|open| !open.is_trusted)?;
            // Its thread sees the end of the stream, and ends.
            let _ = all.1.remove(oldest).stream.shutdown(Shutdown::Both);
        }
        let (number, stream) = (all.0, Arc::new(stream));
        all.0 += 1;
        all.1.push(Open { number, stream: Arc::clone(&stream), is_trusted: false });
        Some(Connection { number, stream, all: Arc::clone(self) })
    }
}

impl Connection {
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Keeps the connection open when others arrive, because its request had the secret.
    pub fn trust(&self) {
        if let Some(open) = self.all.lock().1.iter_mut().find(|open| open.number == self.number) {
            open.is_trusted = true;
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.all.lock().1.retain(|open| open.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;

    #[test]
    fn the_oldest_silent_connection_makes_room() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut clients = Vec::new();
        let mut connect = || {
            clients.push(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
            listener.accept().unwrap().0
        };
        let all = Arc::new(Connections::default());
        let mut open: Vec<Connection> = (0..MAX_OPEN).map(|_| all.admit(connect()).unwrap()).collect();
        open[0].trust();
        open.push(all.admit(connect()).expect("the second makes room"));
        assert_eq!(open[1].stream().read(&mut [0]).unwrap(), 0, "the second is closed");
        assert!(open[0].stream().peer_addr().is_ok(), "the first is not");
        open.iter().for_each(Connection::trust);
        assert!(all.admit(connect()).is_none(), "all have the secret");
        open.pop();
        assert!(all.admit(connect()).is_some());
    }
}
