//! Packets of the GDB remote serial protocol, as a stub sends them: `$data#checksum`, answered by `+` or `-`.
//!
//! Bytes are fed in as they come; nothing here waits. A stub is anybody's: a packet that is longer than any that is asked
//! for, that does not fit its checksum or that expands without bound is dropped and counted.

/// The most that a packet may hold, expanded. What is asked for is at most 2 KiB of memory, in hexadecimal digits.
const PACKET_BYTES_MAX: usize = 64 << 10;

/// Something that a stub sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// It has our packet.
    Ack,
    /// It wants our packet once more.
    Nack,
    /// A packet, expanded.
    Packet(Vec<u8>),
    /// A packet that is no good: its checksum or its form is wrong, or it is too long.
    Malformed,
}

/// Where in a packet the next byte is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    #[default]
    Between,
    Data,
    FirstDigit,
    SecondDigit(u8),
}

/// Takes what a stub sends apart.
#[derive(Clone, Debug, Default)]
pub struct Packets {
    at: At,
    /// What is in the packet, as it was sent.
    raw: Vec<u8>,
    sum: u8,
    is_too_long: bool,
}

impl Packets {
    /// Takes bytes, and gives what they complete.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Received> {
        bytes.iter().filter_map(|&byte| self.take(byte)).collect()
    }

    fn take(&mut self, byte: u8) -> Option<Received> {
        match (self.at, byte) {
            // Also in the middle of one: the stub begins again.
            (_, b'$') => *self = Packets { at: At::Data, ..Packets::default() },
            (At::Between, b'+') => return Some(Received::Ack),
            (At::Between, b'-') => return Some(Received::Nack),
            (At::Between, _) => {}
            (At::Data, b'#') => self.at = At::FirstDigit,
            (At::Data, _) => {
                self.sum = self.sum.wrapping_add(byte);
                self.is_too_long |= self.raw.len() >= PACKET_BYTES_MAX;
                if !self.is_too_long {
                    self.raw.push(byte);
                }
            }
            (At::FirstDigit, _) => self.at = At::SecondDigit(byte),
            (At::SecondDigit(first), _) => {
                let whole = std::mem::take(self);
                let is_right = !whole.is_too_long && byte_of(first, byte) == Some(whole.sum);
                let data = is_right.then(|| expanded(&whole.raw)).flatten();
                return Some(data.map_or(Received::Malformed, Received::Packet));
            }
        }
        None
    }
}

/// What escapes (`}` and a byte, of which bit 5 is flipped) and runs (a byte, `*`, and how often it is repeated, plus 29)
/// stand for; none if they do not fit together, or stand for too much.
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
        if data.len() > PACKET_BYTES_MAX {
            return None;
        }
    }
    Some(data)
}

/// What we send, as a packet. Nothing that is sent here has to be escaped.
pub(super) fn packet(data: &str) -> Vec<u8> {
    let sum = data.bytes().fold(0u8, u8::wrapping_add);
    format!("${data}#{sum:02x}").into_bytes()
}

/// The bytes that hexadecimal digits stand for; none if they are no such digits.
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
    fn a_packet_is_taken_apart_in_whatever_pieces_it_comes() {
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
    fn what_does_not_fit_is_malformed_and_the_next_packet_is_read() {
        for bad in ["$OK#9b", "$OK#zz", "$*!#4b", "$}#7d", "$0*\x01#5b"] {
            let both = format!("{bad}$OK#9a");
            assert_eq!(Packets::default().feed(both.as_bytes()), [Received::Malformed, data("OK")], "{bad:?}");
        }
        let mut packets = Packets::default();
        assert_eq!(packets.feed(b"$half of it$OK#9a"), [data("OK")]);
        packets.feed(b"$");
        (0..1000).for_each(|_| drop(packets.feed(&[b'x'; 1000])));
        assert!(packets.raw.len() <= PACKET_BYTES_MAX);
        assert_eq!(packets.feed(b"#00"), [Received::Malformed]);
        let runs = format!("${}", "0*~".repeat(2000));
        let sum = runs.bytes().skip(1).fold(0u8, u8::wrapping_add);
        assert_eq!(packets.feed(format!("{runs}#{sum:02x}").as_bytes()), [Received::Malformed], "it expands to 194 kB");
    }

    proptest! {
        #[test]
        fn what_we_send_could_be_read(data in "[0-9a-zA-Z,:;]{0,200}") {
            prop_assert_eq!(Packets::default().feed(&packet(&data)), [self::data(&data)]);
        }

        #[test]
        fn any_bytes_are_taken_in_any_pieces(bytes in proptest::collection::vec(any::<u8>(), 0..500), cut in 0usize..500) {
            let cut = cut.min(bytes.len());
            let mut packets = Packets::default();
            let pieces = [packets.feed(&bytes[..cut]), packets.feed(&bytes[cut..])].concat();
            prop_assert_eq!(pieces, Packets::default().feed(&bytes));
        }
    }
}
