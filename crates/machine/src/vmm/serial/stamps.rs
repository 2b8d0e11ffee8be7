//! When each byte came: by its place on the wire. One read brings several characters, and is stamped when the last of them was
//! there; each of the others came a character's time before the one behind it.

/// Places bytes in time.
#[derive(Debug)]
pub(super) struct Stamps {
    /// What a character takes on the wire, in ns; 0 where there is no wire.
    character_ns: i64,
    /// When the last byte came.
    last_ns: i64,
}

impl Stamps {
    pub(super) fn new(character_ns: i64) -> Stamps {
        Stamps { character_ns, last_ns: i64::MIN }
    }

    /// Cuts the bytes of one read into pieces that end where lines do, each with the moment of its first byte. Without a wire all of
    /// it came at one moment, and is one piece.
    pub(super) fn place(&mut self, bytes: Vec<u8>, at_ns: i64) -> Vec<(i64, Vec<u8>)> {
        let mut left = bytes.len();
        if self.character_ns == 0 && left > 0 {
            self.last_ns = self.last_ns.max(at_ns);
            return vec![(self.last_ns, bytes)];
        }
        let mut placed = Vec::new();
        for line in bytes.split_inclusive(|&b| b == b'\n') {
            let behind = i64::try_from(left).unwrap_or(i64::MAX) - 1;
            let came_ns = at_ns.saturating_sub(behind.saturating_mul(self.character_ns));
            // A read that was late itself has more in it than fits behind the one before.
            placed.push((came_ns.max(self.last_ns), line.to_vec()));
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
    fn each_line_of_a_read_has_its_own_moment() {
        let mut stamps = Stamps::new(100);
        let placed = stamps.place(b"ab\ncd\ne".to_vec(), 10_000);
        let expected = [(9_400, "ab\n"), (9_700, "cd\n"), (10_000, "e")];
        assert_eq!(placed, expected.map(|(at, text)| (at, text.as_bytes().to_vec())));
        assert_eq!(stamps.place(b"0123456789\nx".to_vec(), 10_500)[0].0, 10_000, "not before what came before");
        assert_eq!(stamps.place(b"x".to_vec(), 20_000)[0].0, 20_000);
        assert!(stamps.place(Vec::new(), 30_000).is_empty());
    }

    #[test]
    fn without_a_wire_all_came_when_it_was_read() {
        let placed = Stamps::new(0).place(b"a\nb\n".to_vec(), 5);
        assert_eq!(placed, [(5, b"a\nb\n".to_vec())], "64 KiB of newlines are one piece, not 65 536");
    }
}
