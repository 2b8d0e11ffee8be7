//! One thread that listens to everything QEMU and its guest say, and stamps it.
//!
//! It does nothing else, so that writing files, reading guest memory or asking QEMU never makes a stamp late: wait for
//! any descriptor, take the time, read, hand on. What it hands on is bounded: when the receiver falls behind by
//! [`WAITING_MAX`] pieces, listening stops, the pipes fill and QEMU waits; nothing is lost and memory stays small.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};

use crate::Error;
use crate::clock::monotonic_ns;
use crate::vmm::Source;

/// Pieces of at most [`PIECE_BYTES`] that may wait for the receiver.
const WAITING_MAX: usize = 256;
const PIECE_BYTES: usize = 64 << 10;

/// Who said something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ear {
    /// What is recorded.
    Of(Source),
    /// QEMU's monitor.
    Monitor,
}

/// Something that was said.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) source: Ear,
    /// CLOCK_MONOTONIC when it was there to be read.
    pub(super) at_ns: i64,
    pub(super) bytes: Vec<u8>,
}

/// Starts listening. The channel ends when all descriptors have.
pub(super) fn listen(ears: Vec<(Ear, OwnedFd)>) -> Result<Receiver<Piece>, Error> {
    let (sender, receiver) = sync_channel(WAITING_MAX);
    thread::Builder::new()
        .name("listen".to_owned())
        .spawn(move || hand_on_all(ears, &sender))
        .map_err(Error::host("start a thread"))?;
    Ok(receiver)
}

fn hand_on_all(mut ears: Vec<(Ear, OwnedFd)>, sender: &SyncSender<Piece>) {
    let mut buffer = vec![0; PIECE_BYTES];
    while !ears.is_empty() {
        let Ok(ready) = wait(&ears) else {
            return;
        };
        let at_ns = monotonic_ns();
        let mut ended = Vec::new();
        for at in ready {
            let (source, fd) = &ears[at];
            match rustix::io::read(fd, &mut buffer) {
                Ok(0) => ended.push(at),
                Ok(n) => {
                    let bytes = buffer[..n].to_vec();
                    if sender.send(Piece { source: *source, at_ns, bytes }).is_err() {
                        return;
                    }
                }
                Err(e) if e == rustix::io::Errno::INTR || e == rustix::io::Errno::AGAIN => {}
                // A socket whose other end died with unread data.
                Err(_) => ended.push(at),
            }
        }
        for at in ended.into_iter().rev() {
            ears.swap_remove(at);
        }
    }
}

/// Waits until something can be read; which.
fn wait(ears: &[(Ear, OwnedFd)]) -> io::Result<Vec<usize>> {
    let mut polled: Vec<PollFd<'_>> =
        ears.iter().map(|(_, fd)| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)).collect();
    loop {
        match poll(&mut polled, None) {
            Ok(_) => break,
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(polled.iter().enumerate().filter(|(_, fd)| !fd.revents().is_empty()).map(|(at, _)| at).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pipe::pipe;

    #[test]
    fn what_is_said_arrives_in_order_with_rising_stamps_until_all_have_ended() {
        let ((a, to_a), (b, to_b)) = (pipe().unwrap(), pipe().unwrap());
        let heard = listen(vec![(Ear::Of(Source::Console), a), (Ear::Of(Source::Guest), b)]).unwrap();
        let before = monotonic_ns();
        rustix::io::write(&to_a, b"one").unwrap();
        let first = heard.recv().unwrap();
        rustix::io::write(&to_b, b"two").unwrap();
        let second = heard.recv().unwrap();
        assert_eq!((first.source, first.bytes.as_slice()), (Ear::Of(Source::Console), &b"one"[..]));
        assert_eq!((second.source, second.bytes.as_slice()), (Ear::Of(Source::Guest), &b"two"[..]));
        assert!(before <= first.at_ns && first.at_ns <= second.at_ns && second.at_ns <= monotonic_ns());
        drop(to_a);
        rustix::io::write(&to_b, b"three").unwrap();
        assert_eq!(heard.recv().unwrap().bytes, b"three");
        drop(to_b);
        assert!(heard.recv().is_err());
    }
}
