//! Receives the guest's channel: guest-init's messages, and the evidence between them or announced by them.

use std::collections::VecDeque;

use guest_init::messages::Message;
use guest_init::port::PortEvent;
use guest_init::round::Chunk;

use super::streams::Streams;
use crate::guest_channel::GuestChannel;
use crate::vmm::Source;

/// Largest number of rounds that wait to be read. guest-init offers one, and waits for the answer.
const MAX_QUEUED_ROUNDS: usize = 16;

/// A guest's channel, and the evidence from it that is not processed yet.
#[derive(Debug)]
pub(super) struct Messages {
    channel: Box<dyn GuestChannel>,
    /// Arrival of the first byte of the current line.
    line_ns: Option<i64>,
    /// Addresses in guest memory of evidence that is ready.
    pub(super) rounds: VecDeque<u64>,
    /// Evidence that was sent over the channel itself.
    pub(super) chunks: Vec<(Chunk, Vec<u8>)>,
    /// The number of lines that are no messages.
    pub(super) malformed: u64,
}

impl Messages {
    pub(super) fn new(channel: Box<dyn GuestChannel>) -> Messages {
        Messages { channel, line_ns: None, rounds: VecDeque::new(), chunks: Vec::new(), malformed: 0 }
    }

    /// Queues a round that is ready at this address. Returns false if the queue is full: a guest can offer thousands in no time.
    pub(super) fn keep_round(&mut self, header_phys: u64) -> bool {
        let has_room = self.rounds.len() < MAX_QUEUED_ROUNDS;
        if has_room {
            self.rounds.push_back(header_phys);
        }
        has_room
    }

    /// Parses bytes that arrived. The output goes into the stream. Returns the messages, each with the arrival of its first byte.
    pub(super) fn take(
        &mut self,
        bytes: &[u8],
        at_ns: i64,
        streams: &mut Streams,
    ) -> Result<Vec<(Message, i64)>, recording::Error> {
        let (mut messages, mut result) = (Vec::new(), Ok(()));
        let Messages { channel, line_ns, chunks, malformed, .. } = self;
        channel.feed(bytes, &mut |event| match event {
            PortEvent::Output(bytes) => {
                line_ns.get_or_insert(at_ns);
                if result.is_ok() {
                    result = streams.append(Source::Guest, bytes, at_ns);
                }
            }
            PortEvent::Message(message) => messages.push((message, line_ns.take().unwrap_or(at_ns))),
            PortEvent::Malformed(_) => {
                line_ns.take();
                *malformed += 1;
            }
            PortEvent::Chunk(chunk, bytes) => {
                line_ns.take();
                chunks.push((chunk, bytes.to_vec()));
            }
        });
        result.map(|()| messages)
    }
}
