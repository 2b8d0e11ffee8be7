//! Computes when each byte of a read arrived. One read returns several characters and is stamped at the arrival of the last one. Each
//! other character arrived one character's time before its successor.

/// Computes the arrival times of the bytes of a port.
#[derive(Debug)]
pub(super) struct Stamps {
    /// The duration of a character on the wire, in ns; 0 where there is no wire.
    character_ns: i64,
    /// The arrival of the last byte.
    last_ns: i64,
}

impl Stamps {
    pub(super) fn new(character_ns: i64) -> Stamps {
        Stamps { character_ns, last_ns: i64::MIN }
    }

    /// Splits the bytes of one read into lines, each with the arrival of its first byte. Without a wire all bytes arrived at one
    /// moment, and are one piece.
    pub(super) fn place(&mut self, bytes: Vec<u8>, at_ns: i64) -> Vec<(i64, Vec<u8>)> {
        let mut left = bytes.len();
        if self.character_ns == 0 && left > 0 {
            self.last_ns = self.last_ns.max(at_ns);
            return vec![(self.last_ns, bytes)];
        }
        let mut placed = Vec::new();
        for line in bytes.split_inclusive(|&b| b == b'\n') {
            let behind = i64::try_from(left).unwrap_or(i64::MAX) - 1;
            let arrival_ns = at_ns.saturating_sub(behind.saturating_mul(self.character_ns));
            // A late read contains more characters than fit in the time since the read before.
            placed.push((arrival_ns.max(self.last_ns), line.to_vec()));
            left -= line.len();
        }
        self.last_ns = self.last_ns.max(at_ns);
        placed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_of_a_read_has_its_own_stamp() {
        let mut stamps = Stamps::new(100);
        let placed = stamps.place(b"ab\ncd\ne".to_vec(), 10_000);
        let expected = [(9_400, "ab\n"), (9_700, "cd\n"), (10_000, "e")];
        assert_eq!(placed, expected.map(|(at, text)| (at, text.as_bytes().to_vec())));
        assert_eq!(stamps.place(b"0123456789\nx".to_vec(), 10_500)[0].0, 10_000, "not before what came before");
        assert_eq!(stamps.place(b"x".to_vec(), 20_000)[0].0, 20_000);
        assert!(stamps.place(Vec::new(), 30_000).is_empty());
    }

    #[test]
    fn without_a_wire_bytes_arrive_when_they_are_read() {
        let placed = Stamps::new(0).place(b"a\nb\n".to_vec(), 5);
        assert_eq!(placed, [(5, b"a\nb\n".to_vec())], "64 KiB of newlines are one piece, not 65 536");
    }
}
