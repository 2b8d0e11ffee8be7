//! The content of one record, and its encoding in five words (see [`layout`](crate::layout)).

use crate::name::{FUNCTION_PATH, Name};
use crate::slots::Words;

/// The kind of a record. The names in the text form are FreeBSD's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A function, or a named step, began.
    Enter = 1,
    /// A function, or a named step, ended.
    Exit = 2,
    /// The thread has this name.
    Thread = 3,
    /// Any other event. `WAIT`, `UNWAIT`, `HOLD` and `RELEASE`, with a topic as detail, are events.
    Event = 4,
}

impl Kind {
    /// Word for the kind in the text form.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Enter => "ENTER",
            Kind::Exit => "EXIT",
            Kind::Thread => "THREAD",
            Kind::Event => "EVENT",
        }
    }
}

/// One whole record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Raw value of the counter.
    pub ticks: u64,
    /// The thread of the event: for [`Kind::Thread`] the thread that gets a name, else usually the recording thread.
    pub thread: u64,
    pub kind: Kind,
    /// The function, the thread's name, or the event.
    pub name: Name,
    /// The instance, for example the name of a driver; often [`Name::NONE`].
    pub detail: Name,
}

/// The upper 16 bits of the word. No recorder wrote a word without them.
const MARK: u64 = 0x5354;

/// Encodes the word that makes a record whole. Never 0.
#[inline(always)]
pub(crate) const fn word(kind: Kind, name: Name, detail: Name) -> u64 {
    name.bytes as u64 | (detail.bytes as u64) << 16 | (kind as u64) << 32 | (name.flags as u64) << 40 | MARK << 48
}

impl Entry {
    /// The record as it lies in memory.
    #[inline(always)]
    pub fn to_words(&self) -> Words {
        [self.ticks, self.thread, self.name.address, self.detail.address, word(self.kind, self.name, self.detail)]
    }

    /// Decodes a record's words. Returns `None` if no recorder of this version wrote them.
    pub fn from_words([ticks, thread, name, detail, word]: Words) -> Option<Entry> {
        let kind = match word >> 32 & 0xff {
            1 => Kind::Enter,
            2 => Kind::Exit,
            3 => Kind::Thread,
            4 => Kind::Event,
            _ => return None,
        };
        let flags = (word >> 40) as u8;
        if word >> 48 != MARK || flags & !FUNCTION_PATH != 0 {
            return None;
        }
        let name = Name { address: name, bytes: word as u16, flags };
        let detail = Name { address: detail, bytes: (word >> 16) as u16, flags: 0 };
        Some(Entry { ticks, thread, kind, name, detail })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_follow_the_layout() {
        let name = Name { address: 0x1000, bytes: 0x0102, flags: FUNCTION_PATH };
        let detail = Name { address: 0x2000, bytes: 0x0304, flags: 0 };
        let entry = Entry { ticks: 7, thread: 8, kind: Kind::Thread, name, detail };
        let bytes: Vec<u8> = entry.to_words().iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(bytes[32..40], [2, 1, 4, 3, 3, 1, 0x54, 0x53]);
        assert_eq!(Entry::from_words(entry.to_words()), Some(entry));
    }

    proptest! {
        #[test]
        fn any_words_are_refused_or_decode_to_the_same_words(words in any::<[u64; 5]>(), kind in 0u64..6, flags in 0u64..3) {
            let made = words[4] & 0xffff_ffff | kind << 32 | flags << 40 | MARK << 48;
            for last in [words[4], made] {
                let words = [words[0], words[1], words[2], words[3], last];
                if let Some(entry) = Entry::from_words(words) {
                    prop_assert_eq!(entry.to_words(), words);
                }
            }
        }
    }
}
