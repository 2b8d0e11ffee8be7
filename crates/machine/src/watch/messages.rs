//! What the guest says on its channel: guest-init's messages, and the evidence that comes between them or is announced.

use std::collections::VecDeque;

use guest_init::messages::Message;
use guest_init::port::PortEvent;
use guest_init::round::Chunk;

use super::streams::Streams;
use crate::vmm::Source;
use crate::vmm::channel::GuestChannel;

/// Most rounds that wait to be read. guest-init offers one, and waits for the answer.
const ROUNDS_MAX: usize = 16;

/// One guest's channel, and what came by it and is not dealt with yet.
#[derive(Debug)]
pub(super) struct Messages {
    channel: Box<dyn GuestChannel>,
    /// When the first byte of the present line came.
    line_ns: Option<i64>,
    /// Where in guest memory evidence lies ready.
    pub(super) rounds: VecDeque<u64>,
    /// Evidence that came by the channel itself.
    pub(super) chunks: Vec<(Chunk, Vec<u8>)>,
    /// Lines that were no messages.
    pub(super) malformed: u64,
}

impl Messages {
    pub(super) fn new(channel: Box<dyn GuestChannel>) -> Messages {
        Messages { channel, line_ns: None, rounds: VecDeque::new(), chunks: Vec::new(), malformed: 0 }
    }

    /// Keeps a round that lies ready at this address. False if too many wait already: a guest can offer thousands in no time.
    pub(super) fn keep_round(&mut self, header_phys: u64) -> bool {
        let has_room = self.rounds.len() < ROUNDS_MAX;
        if has_room {
            self.rounds.push_back(header_phys);
        }
        has_room
    }

    /// Takes what arrived: the lines go into the stream, the messages come back, each with when it began.
    pub(super) fn take(
        &mut self,
        bytes: &[u8],
        at_ns: i64,
        streams: &mut Streams,
    ) -> Result<Vec<(Message, i64)>, recording::Error> {
        let (mut words, mut kept) = (Vec::new(), Ok(()));
        let Messages { channel, line_ns, chunks, malformed, .. } = self;
        channel.feed(bytes, &mut |said| match said {
            PortEvent::Output(bytes) => {
                line_ns.get_or_insert(at_ns);
                if kept.is_ok() {
                    kept = streams.append(Source::Guest, bytes, at_ns);
                }
            }
            PortEvent::Message(word) => words.push((word, line_ns.take().unwrap_or(at_ns))),
            PortEvent::Malformed(_) => {
                line_ns.take();
                *malformed += 1;
            }
            PortEvent::Chunk(chunk, bytes) => {
                line_ns.take();
                chunks.push((chunk, bytes.to_vec()));
            }
        });
        kept.map(|()| words)
    }
}
