//! Splits a page of a ring buffer into its records. Each record has its length and the time since the record before it.
//!
//! The format is that of Linux, kernel/trace/ring_buffer.c. The page's time stamp stands before its records; the caller
//! reads it.

/// A record's place in a page, and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The time, on the trace's clock.
    pub stamp: u64,
    /// Offset of its first byte.
    pub from: usize,
    /// Offset behind its last byte.
    pub to: usize,
}

/// Returns the records of a page whose stamp is `stamp`, and true if they fit the page.
pub fn records(page: &[u8], mut stamp: u64) -> (Vec<Place>, bool) {
    const PADDING: u32 = 29;
    const EXTENDED: u32 = 30;
    const ABSOLUTE: u32 = 31;
    /// The topmost bits, which an absolute stamp does not hold; those of the last stamp stay.
    const TOP: u64 = 0xf8 << 56;
    let word = |at: usize| page.get(at..)?.first_chunk().copied().map(u32::from_le_bytes);
    let mut found = Vec::new();
    let mut at = 0;
    while at < page.len() {
        let (Some(head), next) = (word(at), word(at + 4)) else { return (found, false) };
        let (kind, delta) = (head & 31, u64::from(head >> 5));
        let wide = u64::from(next.unwrap_or(0)) << 27 | delta;
        let length = match kind {
            // The page ends here, or the kernel discarded a record.
            PADDING if delta == 0 => return (found, true),
            PADDING => 4 + next.unwrap_or(0) as usize,
            EXTENDED => {
                stamp = stamp.wrapping_add(wide);
                8
            }
            ABSOLUTE => {
                stamp = wide & !TOP | stamp & TOP;
                8
            }
            words => {
                stamp = stamp.wrapping_add(delta);
                let (from, length) = match words {
                    // The length comes first, and includes itself.
                    0 => (at + 8, (next.unwrap_or(0) as usize).saturating_sub(4)),
                    words => (at + 4, 4 * words as usize),
                };
                if from + length > page.len() {
                    return (found, false);
                }
                found.push(Place { stamp, from, to: from + length });
                from + length - at
            }
        };
        at += length.max(4);
    }
    (found, at == page.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(kind: u32, delta: u32) -> [u8; 4] {
        (delta << 5 | kind).to_le_bytes()
    }

    #[test]
    fn lengths_and_stamps_of_every_kind_of_record() {
        let page = [
            &head(1, 5)[..],
            b"abcd",
            // A time difference of more than 27 bits.
            &head(30, 1),
            &1u32.to_le_bytes(),
            &head(2, 2),
            b"efghijkl",
            // A long record: its length includes itself.
            &head(0, 3),
            &12u32.to_le_bytes(),
            b"mnopqrst",
            // A discarded record.
            &head(29, 1),
            &8u32.to_le_bytes(),
            b"XXXX",
            // An absolute stamp.
            &head(31, 7),
            &2u32.to_le_bytes(),
            &head(1, 0),
            b"uvwx",
            &head(29, 0),
            b"rest",
        ]
        .concat();
        let (found, whole) = records(&page, 1000);
        let texts: Vec<(u64, &[u8])> = found.iter().map(|place| (place.stamp, &page[place.from..place.to])).collect();
        let far = 1005 + (1 << 27) + 1;
        let expected: [(u64, &[u8]); 4] =
            [(1005, b"abcd"), (far + 2, b"efghijkl"), (far + 5, b"mnopqrst"), ((2 << 27) + 7, b"uvwx")];
        assert_eq!((&texts[..], whole), (&expected[..], true));
        for cut in 0..page.len() {
            assert!(records(&page[..cut], 0).0.len() <= found.len());
        }
    }

    proptest::proptest! {
        /// In any page, the records lie inside it, one after the other.
        #[test]
        fn any_page_is_read(page in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200), stamp: u64) {
            let (found, _) = records(&page, stamp);
            proptest::prop_assert!(found.iter().all(|place| place.from <= place.to && place.to <= page.len()));
            proptest::prop_assert!(found.windows(2).all(|pair| pair[0].to <= pair[1].from));
        }
    }
}
