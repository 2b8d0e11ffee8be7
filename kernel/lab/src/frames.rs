//! The frame allocator: which page frames are free, a bit for each.
//!
//! A set bit is a free frame. Single frames are searched for from where the last was found, so that a boot that mostly
//! allocates looks at each word once. Freeing a free frame, or one that
//! was never there, is an error of the caller's and is told.

/// Frames by number (address / 4096). The bits are the caller's, so that they can lie in the memory they describe.
#[derive(Debug)]
pub struct Frames<'a> {
    words: &'a mut [u64],
    free: u64,
    /// Words before this one have no free frame.
    hint: usize,
}

/// What was freed was not allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAllocated {
    /// The frame's number.
    pub frame: u64,
}

/// How many words describe so many frames.
pub const fn words_for(frames: u64) -> usize {
    frames.div_ceil(64) as usize
}

impl<'a> Frames<'a> {
    /// An allocator with no free frame. The words are cleared.
    pub fn new(words: &'a mut [u64]) -> Frames<'a> {
        words.fill(0);
        Frames { words, free: 0, hint: 0 }
    }

    /// Makes `count` frames from `first` free, a word at a time. What lies past the end of the map is ignored; what is
    /// free already stays so.
    pub fn add(&mut self, first: u64, count: u64) {
        let end = (first.saturating_add(count)).min(self.words.len() as u64 * 64);
        let mut at = first;
        while at < end {
            let (word, from) = (at as usize / 64, at % 64);
            let length = (64 - from).min(end - at);
            let bits = (u64::MAX >> (64 - length)) << from;
            self.free += u64::from((bits & !self.words[word]).count_ones());
            self.words[word] |= bits;
            self.hint = self.hint.min(word);
            at += length;
        }
    }

    /// A free frame's number, the lowest there is.
    pub fn allocate(&mut self) -> Option<u64> {
        let word = (self.hint..self.words.len()).find(|&word| self.words[word] != 0)?;
        self.hint = word;
        let bit = self.words[word].trailing_zeros();
        self.words[word] &= !(1 << bit);
        self.free -= 1;
        Some(word as u64 * 64 + u64::from(bit))
    }

    /// Gives a frame back.
    pub fn free(&mut self, frame: u64) -> Result<(), NotAllocated> {
        let word = frame as usize / 64;
        if word >= self.words.len() || self.is_free(frame) {
            return Err(NotAllocated { frame });
        }
        self.words[word] |= 1 << (frame % 64);
        self.hint = self.hint.min(word);
        self.free += 1;
        Ok(())
    }

    /// How many frames are free.
    pub fn count(&self) -> u64 {
        self.free
    }

    fn is_free(&self, frame: u64) -> bool {
        self.words[frame as usize / 64] >> (frame % 64) & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn frames_come_in_order_and_come_back() {
        let mut words = [u64::MAX; 3];
        let mut frames = Frames::new(&mut words);
        assert_eq!(frames.allocate(), None);
        frames.add(60, 10);
        assert_eq!(frames.count(), 10);
        let all: Vec<u64> = core::iter::from_fn(|| frames.allocate()).collect();
        assert_eq!(all, (60..70).collect::<Vec<_>>());
        frames.free(62).unwrap();
        assert_eq!(frames.free(62), Err(NotAllocated { frame: 62 }));
        assert_eq!(frames.free(192), Err(NotAllocated { frame: 192 }));
        assert_eq!(frames.allocate(), Some(62));
    }

    #[test]
    fn memory_past_the_map_is_ignored() {
        let mut words = [0; 1];
        let mut frames = Frames::new(&mut words);
        frames.add(62, u64::MAX);
        assert_eq!(frames.count(), 2);
    }

    proptest::proptest! {
        #[test]
        fn as_a_set_of_numbers_would(steps in proptest::collection::vec((0u8..3, 0u64..260, 1u64..9), 1..200)) {
            let mut words = [0; 4];
            let (mut frames, mut model) = (Frames::new(&mut words), BTreeSet::new());
            for (what, at, count) in steps {
                match what {
                    0 => {
                        frames.add(at, count);
                        model.extend((at..at + count).filter(|&frame| frame < 256));
                    }
                    1 => proptest::prop_assert_eq!(frames.allocate(), model.pop_first()),
                    _ => proptest::prop_assert_eq!(frames.free(at).is_ok(), at < 256 && model.insert(at)),
                }
                proptest::prop_assert_eq!(frames.count(), model.len() as u64);
            }
        }
    }
}
