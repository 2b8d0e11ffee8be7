//! One thread that reads all output of a machine, from any number of descriptors, and stamps it on arrival.
//!
//! It waits for any descriptor, takes the time, reads, and forwards the bytes. It must do nothing else, so that writing files, reading
//! guest memory or questions to a VMM never make a stamp late. The queue is bounded: when the receiver falls behind by
//! [`MAX_QUEUED_PIECES`], the thread waits, the pipes fill, and the writers wait. Nothing is lost and memory stays small. Only a
//! serial port does not wait: its driver drops bytes that it cannot keep.
//!
//! If several inputs are readable, the first in the list is forwarded first. A VMM's monitor is the last: output that the guest wrote
//! before its reset reaches the receiver before the news of that reset.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use rustix::event::{PollFd, PollFlags, poll};

use crate::Error;
use crate::clock::monotonic_ns;

/// Pieces of at most [`MAX_PIECE_BYTES`] that may wait for the receiver.
pub(super) const MAX_QUEUED_PIECES: usize = 256;
const MAX_PIECE_BYTES: usize = 64 << 10;

/// A piece of output.
#[derive(Debug)]
pub(super) struct Piece<I> {
    pub(super) input: I,
    /// CLOCK_MONOTONIC when the piece became readable.
    pub(super) at_ns: i64,
    pub(super) content: Content,
}

/// Bytes, or the end of an input.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// Bytes: at least one.
    Bytes(Vec<u8>),
    /// The input has ended, with an error or without.
    Ended(Option<rustix::io::Errno>),
}

/// The bounded queue of pieces. Other threads may also send, for example the end of a process.
pub(super) fn piece_queue<I>() -> (SyncSender<Piece<I>>, Receiver<Piece<I>>) {
    sync_channel(MAX_QUEUED_PIECES)
}

/// Starts the thread. The queue ends when all descriptors have ended and no other sender is left.
pub(super) fn listen<I: Copy + Send + 'static>(
    inputs: Vec<(I, OwnedFd)>,
    sender: SyncSender<Piece<I>>,
) -> Result<JoinHandle<()>, Error> {
    thread::Builder::new()
        .name("listen".to_owned())
        .spawn(move || forward_all(inputs, &sender))
        .map_err(Error::host("start a thread"))
}

fn forward_all<I: Copy>(mut inputs: Vec<(I, OwnedFd)>, sender: &SyncSender<Piece<I>>) {
    let mut buffer = vec![0; MAX_PIECE_BYTES];
    while !inputs.is_empty() {
        let Ok(ready) = wait(&inputs) else {
            return;
        };
        let at_ns = monotonic_ns();
        let mut ended = Vec::new();
        for at in ready {
            let (input, fd) = &inputs[at];
            let content = match rustix::io::read(fd, &mut buffer) {
                Ok(0) => Content::Ended(None),
                Ok(n) => Content::Bytes(buffer[..n].to_vec()),
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => continue,
                // The peer of a socket died with unread data, or a device is gone.
                Err(errno) => Content::Ended(Some(errno)),
            };
            if matches!(content, Content::Ended(_)) {
                ended.push(at);
            }
            if sender.send(Piece { input: *input, at_ns, content }).is_err() {
                return;
            }
        }
        for at in ended.into_iter().rev() {
            // `remove` keeps the order: the last input stays the last.
            inputs.remove(at);
        }
    }
}

/// Waits until an input is readable. Returns the indices of the readable inputs, ascending.
///
/// The descriptors are passed to `poll` in reverse, so that the kernel checks the last input first. If that one is readable, `poll`
/// also finds everything that was written to the other inputs before. In list order, the guest's last message could arrive between
/// the two checks.
fn wait<I>(inputs: &[(I, OwnedFd)]) -> io::Result<Vec<usize>> {
    let mut polled: Vec<PollFd<'_>> =
        inputs.iter().rev().map(|(_, fd)| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)).collect();
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
    fn pieces_arrive_in_order_with_rising_stamps_until_all_inputs_have_ended() {
        let ((a, to_a), (b, to_b)) = (pipe().unwrap(), pipe().unwrap());
        let (sender, pieces) = piece_queue();
        listen(vec![('a', a), ('b', b)], sender).unwrap();
        let before = monotonic_ns();
        rustix::io::write(&to_a, b"one").unwrap();
        let first = pieces.recv().unwrap();
        rustix::io::write(&to_b, b"two").unwrap();
        let second = pieces.recv().unwrap();
        let bytes_of = |bytes: &[u8]| Content::Bytes(bytes.to_vec());
        assert_eq!((first.input, first.content), ('a', bytes_of(b"one")));
        assert_eq!((second.input, second.content), ('b', bytes_of(b"two")));
        assert!(before <= first.at_ns && first.at_ns <= second.at_ns && second.at_ns <= monotonic_ns());
        drop(to_a);
        let ended = pieces.recv().unwrap();
        assert_eq!((ended.input, ended.content), ('a', Content::Ended(None)));
        rustix::io::write(&to_b, b"three").unwrap();
        assert_eq!(pieces.recv().unwrap().content, bytes_of(b"three"));
        drop(to_b);
        assert_eq!(pieces.recv().unwrap().content, Content::Ended(None));
        assert!(pieces.recv().is_err());
    }

    #[test]
    fn output_is_forwarded_before_the_news_that_followed_it() {
        for _ in 0..300 {
            let ((ended, to_ended), (guest, to_guest), (monitor, to_monitor)) =
                (pipe().unwrap(), pipe().unwrap(), pipe().unwrap());
            let (sender, pieces) = piece_queue();
            // One input ends, so this also checks the order of the remaining ones.
            drop(to_ended);
            listen(vec![('x', ended), ('g', guest), ('m', monitor)], sender).unwrap();
            assert_eq!(pieces.recv().unwrap().input, 'x');
            rustix::io::write(&to_guest, b"end").unwrap();
            rustix::io::write(&to_monitor, b"reset").unwrap();
            assert_eq!((pieces.recv().unwrap().input, pieces.recv().unwrap().input), ('g', 'm'));
        }
    }
}
