//! One thread that listens to everything a machine says, by whatever ways, and stamps it.
//!
//! It does nothing else, so that writing files, reading guest memory or asking a VMM never makes a stamp late: wait for
//! any descriptor, take the time, read, hand on. What it hands on is bounded: when the receiver falls behind by
//! [`WAITING_MAX`] pieces, listening stops, the pipes fill and who speaks waits; nothing is lost and memory stays small. Only
//! a serial port does not wait: what its driver cannot keep is lost.
//!
//! Ears that are in front are handed on first where several have something to say. A VMM's monitor stands last: what the guest
//! wrote before its reset reaches the receiver before the news of that reset.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use rustix::event::{PollFd, PollFlags, poll};

use crate::Error;
use crate::clock::monotonic_ns;

/// Pieces of at most [`PIECE_BYTES`] that may wait for the receiver.
pub(super) const WAITING_MAX: usize = 256;
const PIECE_BYTES: usize = 64 << 10;

/// Something that was said.
#[derive(Debug)]
pub(super) struct Piece<E> {
    /// By which way.
    pub(super) ear: E,
    /// CLOCK_MONOTONIC when it was there to be read.
    pub(super) at_ns: i64,
    pub(super) what: What,
}

/// What comes by a way.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Bytes: at least one.
    Said(Vec<u8>),
    /// Nothing will come any more, for this reason if there is one.
    Ended(Option<rustix::io::Errno>),
}

/// Where pieces go, also those that no descriptor says.
pub(super) fn ways<E>() -> (SyncSender<Piece<E>>, Receiver<Piece<E>>) {
    sync_channel(WAITING_MAX)
}

/// Starts listening. The channel ends when all descriptors have, and nobody else sends.
pub(super) fn listen<E: Copy + Send + 'static>(
    ears: Vec<(E, OwnedFd)>,
    sender: SyncSender<Piece<E>>,
) -> Result<JoinHandle<()>, Error> {
    thread::Builder::new()
        .name("listen".to_owned())
        .spawn(move || hand_on_all(ears, &sender))
        .map_err(Error::host("start a thread"))
}

fn hand_on_all<E: Copy>(mut ears: Vec<(E, OwnedFd)>, sender: &SyncSender<Piece<E>>) {
    let mut buffer = vec![0; PIECE_BYTES];
    while !ears.is_empty() {
        let Ok(ready) = wait(&ears) else {
            return;
        };
        let at_ns = monotonic_ns();
        let mut ended = Vec::new();
        for at in ready {
            let (ear, fd) = &ears[at];
            let what = match rustix::io::read(fd, &mut buffer) {
                Ok(0) => What::Ended(None),
                Ok(n) => What::Said(buffer[..n].to_vec()),
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => continue,
                // A socket whose other end died with unread data, or a device that is gone.
                Err(errno) => What::Ended(Some(errno)),
            };
            if matches!(what, What::Ended(_)) {
                ended.push(at);
            }
            if sender.send(Piece { ear: *ear, at_ns, what }).is_err() {
                return;
            }
        }
        for at in ended.into_iter().rev() {
            // In order: the last ear stays the last.
            ears.remove(at);
        }
    }
}

/// Waits until something can be read. Returns the places of those ears, in their order.
///
/// The system looks at the last ear first. Where it finds something there, all that was said before that is there too, and
/// is found when it comes to the ears in front. In the other order, the guest's last message could come between the two looks.
fn wait<E>(ears: &[(E, OwnedFd)]) -> io::Result<Vec<usize>> {
    let mut polled: Vec<PollFd<'_>> =
        ears.iter().rev().map(|(_, fd)| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)).collect();
    loop {
        match poll(&mut polled, None) {
            Ok(_) => break,
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(polled.iter().rev().enumerate().filter(|(_, fd)| !fd.revents().is_empty()).map(|(at, _)| at).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pipe::pipe;

    #[test]
    fn what_is_said_arrives_in_order_with_rising_stamps_until_all_have_ended() {
        let ((a, to_a), (b, to_b)) = (pipe().unwrap(), pipe().unwrap());
        let (sender, heard) = ways();
        listen(vec![('a', a), ('b', b)], sender).unwrap();
        let before = monotonic_ns();
        rustix::io::write(&to_a, b"one").unwrap();
        let first = heard.recv().unwrap();
        rustix::io::write(&to_b, b"two").unwrap();
        let second = heard.recv().unwrap();
        let said = |bytes: &[u8]| What::Said(bytes.to_vec());
        assert_eq!((first.ear, first.what), ('a', said(b"one")));
        assert_eq!((second.ear, second.what), ('b', said(b"two")));
        assert!(before <= first.at_ns && first.at_ns <= second.at_ns && second.at_ns <= monotonic_ns());
        drop(to_a);
        let ended = heard.recv().unwrap();
        assert_eq!((ended.ear, ended.what), ('a', What::Ended(None)));
        rustix::io::write(&to_b, b"three").unwrap();
        assert_eq!(heard.recv().unwrap().what, said(b"three"));
        drop(to_b);
        assert_eq!(heard.recv().unwrap().what, What::Ended(None));
        assert!(heard.recv().is_err());
    }

    #[test]
    fn what_was_said_first_is_handed_on_before_the_news_that_followed_it() {
        for _ in 0..300 {
            let ((ended, to_ended), (guest, to_guest), (monitor, to_monitor)) =
                (pipe().unwrap(), pipe().unwrap(), pipe().unwrap());
            let (sender, heard) = ways();
            // One ends, so the order is also that of those that are left.
            drop(to_ended);
            listen(vec![('x', ended), ('g', guest), ('m', monitor)], sender).unwrap();
            assert_eq!(heard.recv().unwrap().ear, 'x');
            rustix::io::write(&to_guest, b"end").unwrap();
            rustix::io::write(&to_monitor, b"reset").unwrap();
            assert_eq!((heard.recv().unwrap().ear, heard.recv().unwrap().ear), ('g', 'm'));
        }
    }
}
