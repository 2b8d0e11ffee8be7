//! Parses the packets of a stub in the GDB remote serial protocol: `$data#checksum`, answered by `+` or `-`.
//!
//! The caller feeds bytes as they arrive; this module must not wait. A stub is not trusted: a packet that is too long, does not fit its
//! checksum or expands without bound is reported as malformed.

/// Longest packet, expanded. An answer to a read of memory has at most 2 KiB: hexadecimal digits for 1 KiB of memory.
const MAX_PACKET_BYTES: usize = 64 << 10;

/// A message from a stub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// The stub has received the client's packet.
    Ack,
    /// The stub requests the client's packet again.
    Nack,
    /// A packet, expanded.
    Packet(Vec<u8>),
    /// A packet with a wrong checksum or form, or one that is too long.
    Malformed,
}

/// The position of the next byte in a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Position {
    #[default]
    Between,
    Data,
    FirstDigit,
    SecondDigit(u8),
}

/// A parser for the output of a stub.
#[derive(Clone, Debug, Default)]
pub struct Packets {
    position: Position,
    /// The packet's data so far, not expanded.
    raw: Vec<u8>,
    sum: u8,
    is_too_long: bool,
}

impl Packets {
    /// Parses bytes, and returns the messages that they complete.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Received> {
        bytes.iter().filter_map(|&byte| self.take(byte)).collect()
    }

    fn take(&mut self, byte: u8) -> Option<Received> {
        match (self.position, byte) {
            // A `$` in the middle of a packet also begins a new one.
            (_, b'$') => *self = Packets { position: Position::Data, ..Packets::default() },
            (Position::Between, b'+') => return Some(Received::Ack),
            (Position::Between, b'-') => return Some(Received::Nack),
            (Position::Between, _) => {}
            (Position::Data, b'#') => self.position = Position::FirstDigit,
            (Position::Data, _) => {
                self.sum = self.sum.wrapping_add(byte);
                self.is_too_long |= self.raw.len() >= MAX_PACKET_BYTES;
                if !self.is_too_long {
                    self.raw.push(byte);
                }
            }
            (Position::FirstDigit, _) => self.position = Position::SecondDigit(byte),
            (Position::SecondDigit(first), _) => {
                let packet = std::mem::take(self);
                let is_right = !packet.is_too_long && byte_of(first, byte) == Some(packet.sum);
                let data = is_right.then(|| expanded(&packet.raw)).flatten();
                return Some(data.map_or(Received::Malformed, Received::Packet));
            }
        }
        None
    }
}

/// Expands escapes (`}`, and a byte with bit 5 flipped) and runs (a byte, `*`, and the number of repetitions plus 29). Returns `None`
/// if they are malformed, or the result is too long.
fn expanded(raw: &[u8]) -> Option<Vec<u8>> {
    let mut data: Vec<u8> = Vec::with_capacity(raw.len());
    let mut rest = raw.iter().copied();
    while let Some(byte) = rest.next() {
        match byte {
            b'}' => data.push(rest.next()? ^ 0x20),
            b'*' => {
                let times = usize::from(rest.next()?.checked_sub(29)?);
                let last = *data.last()?;
                data.resize(data.len() + times, last);
            }
            byte => data.push(byte),
        }
        if data.len() > MAX_PACKET_BYTES {
            return None;
        }
    }
    Some(data)
}

/// A packet with this data. The data that bootscope sends never needs escapes.
pub(super) fn packet(data: &str) -> Vec<u8> {
    let sum = data.bytes().fold(0u8, u8::wrapping_add);
    format!("${data}#{sum:02x}").into_bytes()
}

/// The bytes of a text in hexadecimal digits, or `None` if it has other characters or an odd length.
pub(super) fn bytes_of(digits: &[u8]) -> Option<Vec<u8>> {
    let pairs = digits.chunks_exact(2);
    if pairs.remainder().is_empty() { pairs.map(|pair| byte_of(pair[0], pair[1])).collect() } else { None }
}

fn byte_of(first: u8, second: u8) -> Option<u8> {
    let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    Some(digit(first)? << 4 | digit(second)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn data(text: &str) -> Received {
        Received::Packet(text.as_bytes().to_vec())
    }

    #[test]
    fn a_packet_is_parsed_in_any_pieces() {
        let bytes = b"+$OK#9a$T05thread:01;#07-";
        let expected = [Received::Ack, data("OK"), data("T05thread:01;"), Received::Nack];
        assert_eq!(Packets::default().feed(bytes), expected);
        let mut packets = Packets::default();
        let one_by_one: Vec<Received> = bytes.iter().flat_map(|&byte| packets.feed(&[byte])).collect();
        assert_eq!(one_by_one, expected);
    }

    #[test]
    fn escapes_and_runs_are_expanded() {
        // `0* ` is four zeros: one, and ' ' - 29 = 3 more.
        assert_eq!(Packets::default().feed(b"$0* 1#ab"), [data("00001")]);
        assert_eq!(Packets::default().feed(b"$a}\x03b#43"), [data("a#b")]);
    }

    #[test]
    fn a_malformed_packet_does_not_affect_the_next() {
        for bad in ["$OK#9b", "$OK#zz", "$*!#4b", "$}#7d", "$0*\x01#5b"] {
            let both = format!("{bad}$OK#9a");
            assert_eq!(Packets::default().feed(both.as_bytes()), [Received::Malformed, data("OK")], "{bad:?}");
        }
        let mut packets = Packets::default();
        assert_eq!(packets.feed(b"$half of it$OK#9a"), [data("OK")]);
        packets.feed(b"$");
        (0..1000).for_each(|_| drop(packets.feed(&[b'x'; 1000])));
        assert!(packets.raw.len() <= MAX_PACKET_BYTES);
        assert_eq!(packets.feed(b"#00"), [Received::Malformed]);
        let runs = format!("${}", "0*~".repeat(2000));
        let sum = runs.bytes().skip(1).fold(0u8, u8::wrapping_add);
        assert_eq!(packets.feed(format!("{runs}#{sum:02x}").as_bytes()), [Received::Malformed], "it expands to 194 kB");
    }

    proptest! {
        #[test]
        fn packets_for_the_stub_can_be_parsed(data in "[0-9a-zA-Z,:;]{0,200}") {
            prop_assert_eq!(Packets::default().feed(&packet(&data)), [self::data(&data)]);
        }

        #[test]
        fn any_bytes_are_parsed_in_any_pieces(bytes in proptest::collection::vec(any::<u8>(), 0..500), cut in 0usize..500) {
            let cut = cut.min(bytes.len());
            let mut packets = Packets::default();
            let pieces = [packets.feed(&bytes[..cut]), packets.feed(&bytes[cut..])].concat();
            prop_assert_eq!(pieces, Packets::default().feed(&bytes));
        }
    }
}
