//! Collects the records of `first-run.bin` in a fixed buffer. The format is `plugin_formats::first_executions`. This
//! module allocates only at the start, and reads no clock.

use plugin_formats::Sink;
use plugin_formats::Start;
use plugin_formats::first_executions::{RECORD_BYTES_MOST, Record, Stream, header_bytes};

/// Size of the buffer that is filled before it is written out.
const BUFFER_BYTES: usize = 1 << 16;

/// The buffer, and the values that the next record is relative to.
pub struct Encoder {
    buffer: Buffer,
    stream: Stream,
}

struct Buffer {
    bytes: Box<[u8]>,
    len: usize,
}

impl Sink for Buffer {
    /// The recorder empties the buffer before a record might not fit, so no record is ever cut here.
    #[inline(always)]
    fn byte(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.len) {
            *place = byte;
            self.len += 1;
        }
    }
}

impl Encoder {
    /// Makes an encoder with the header in its buffer.
    pub fn new(start: &Start) -> Encoder {
        let buffer = Buffer { bytes: vec![0; BUFFER_BYTES].into_boxed_slice(), len: 0 };
        let mut encoder = Encoder { buffer, stream: Stream::new(start) };
        header_bytes(start).into_iter().for_each(|byte| encoder.buffer.byte(byte));
        encoder
    }

    /// The bytes to be written out.
    pub fn pending(&self) -> &[u8] {
        &self.buffer.bytes[..self.buffer.len]
    }

    /// Empties the buffer after its bytes have been written out.
    pub fn clear(&mut self) {
        self.buffer.len = 0;
    }

    /// True if one more record might not fit.
    pub fn is_full(&self) -> bool {
        self.buffer.len + RECORD_BYTES_MOST > self.buffer.bytes.len()
    }

    pub fn record(&mut self, record: &Record) {
        self.stream.write(record, &mut self.buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin_formats::Clock;
    use plugin_formats::first_executions::{Block, Ending, HEADER_BYTES};

    #[test]
    fn the_longest_record_fits() {
        let mut e = Encoder::new(&Start {
            clock: Clock::Virtual,
            api: 4,
            vcpus: 1,
            zero_host_ns: 0,
            install_host_ns: u64::MAX,
            target: *b"a-long-t",
        });
        assert_eq!(e.pending().len(), HEADER_BYTES);
        while !e.is_full() {
            let before = e.pending().len();
            let block = Block {
                vaddr: u64::MAX / 3,
                size: u64::MAX,
                insns: u64::MAX,
                ending: Ending::Call,
                displacement: Some(i64::MIN),
            };
            e.record(&Record::Block(u64::MAX, block));
            assert!((1..=RECORD_BYTES_MOST).contains(&(e.pending().len() - before)));
        }
    }
}
