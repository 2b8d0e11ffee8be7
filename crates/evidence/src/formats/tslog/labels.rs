//! The names in records, each stored once: a log has a hundred times as many records as names. Bytes that a console
//! added to a name (NULs, escape sequences) are removed.

use crate::formats::kernel_log::{Cleaner, is_unclean};
use hashbrown::HashTable;
use std::hash::BuildHasher;

/// Functions with a meaning for the log's reader: they run once, and each marks a point of the boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Role {
    #[default]
    None,
    Loader,
    /// The kernel's first function, which differs by machine.
    MachineDependent,
    MiStartup,
    /// NetBSD's `main`.
    Main,
    StartInit,
    /// A note by bootscope's own recorder about the whole log: `TSLOG dropped 17`.
    Note,
}

impl Role {
    fn of(text: &[u8]) -> Role {
        match text {
            b"loader" => Role::Loader,
            b"hammer_time" | b"init386" | b"initarm" | b"initriscv" | b"powerpc_init" => Role::MachineDependent,
            b"mi_startup" => Role::MiStartup,
            b"main" => Role::Main,
            b"start_init" => Role::StartInit,
            _ if text.starts_with(b"TSLOG ") => Role::Note,
            _ => Role::None,
        }
    }

    /// The role on a thread: only thread 0x0 is the loader.
    #[inline]
    pub(super) fn on(self, thread: u64) -> Role {
        if self == Role::Loader && thread != 0 { Role::None } else { self }
    }

    /// The role's bit in a set.
    pub(super) fn bit(self) -> u8 {
        match self {
            Role::None => 0,
            role => 1 << role as u8,
        }
    }
}

/// Texts by number.
#[derive(Debug)]
pub(super) struct Labels {
    text: Vec<u8>,
    /// `ends[number]` is where a text ends; it starts where the one before it ends.
    ends: Vec<usize>,
    roles: Vec<Role>,
    table: HashTable<u32>,
    hasher: hashbrown::DefaultHashBuilder,
    /// For each hash of a text's ends, the last such text: hits nearly always, and needs no full hash.
    recent: Vec<Recent>,
    /// The number of texts that were cleaned.
    cleaned: u64,
    /// The number of texts replaced by [`OTHERS`].
    beyond: u64,
}

/// More names than a kernel has functions that it logs. Further names become [`OTHERS`].
const LABELS_MAX: usize = 1 << 18;
const OTHERS: &[u8] = timeline::OTHERS.as_bytes();
/// More than the number of different names in a log.
const RECENT: usize = 1 << 13;

#[derive(Clone, Copy, Debug)]
struct Recent {
    ends: Ends,
    number: u32,
}

impl Default for Labels {
    fn default() -> Self {
        Labels {
            text: Vec::new(),
            ends: Vec::new(),
            roles: Vec::new(),
            table: HashTable::with_capacity(RECENT / 2),
            hasher: hashbrown::DefaultHashBuilder::default(),
            // No text has these ends: a text of this length does not fit into memory.
            recent: vec![Recent { ends: Ends { head: 0, tail: 0, length: usize::MAX }, number: 0 }; RECENT],
            cleaned: 0,
            beyond: 0,
        }
    }
}

impl Labels {
    /// Returns the number of a text, new or known.
    #[inline]
    pub(super) fn number(&mut self, text: &[u8]) -> u32 {
        let ends = Ends::of(text);
        let place = ends.place();
        let recent = self.recent[place];
        if recent.ends == ends && (ends.are_all() || self.text(recent.number) == text) {
            return recent.number;
        }
        let number = self.look_up(text);
        // A cleaned text is stored as another text, and each of its occurrences must be counted.
        if self.text(number) == text {
            self.recent[place] = Recent { ends, number };
        }
        number
    }

    fn look_up(&mut self, text: &[u8]) -> u32 {
        let hash = self.hasher.hash_one(text);
        let (all, ends, hasher) = (&mut self.text, &mut self.ends, &self.hasher);
        if let Some(&known) = self.table.find(hash, |&number| slice(all, ends, number) == text) {
            return known;
        }
        if is_unclean(text) {
            self.cleaned += 1;
            let mut cleaner = Cleaner::default();
            let (clean, _) = cleaner.clean(text);
            let clean = super::line::trim(clean);
            // A name of nothing but control characters still is a name.
            return self.look_up(if clean.is_empty() { b"?" } else { clean });
        }
        if ends.len() >= LABELS_MAX && text != OTHERS {
            self.beyond += 1;
            return self.look_up(OTHERS);
        }
        let number = timeline::number(ends.len());
        all.extend_from_slice(text);
        ends.push(all.len());
        self.roles.push(Role::of(text));
        self.table.insert_unique(hash, number, |&number| hasher.hash_one(slice(all, ends, number)));
        number
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The number of texts that were cleaned.
    pub(super) fn cleaned(&self) -> u64 {
        self.cleaned
    }

    /// The number of texts replaced by [`OTHERS`] because there are too many.
    pub(super) fn beyond(&self) -> u64 {
        self.beyond
    }

    /// True if the text was seen before.
    pub(super) fn knows(&self, text: &[u8]) -> bool {
        let hash = self.hasher.hash_one(text);
        self.table.find(hash, |&number| slice(&self.text, &self.ends, number) == text).is_some()
    }

    #[inline]
    pub(super) fn text(&self, number: u32) -> &[u8] {
        slice(&self.text, &self.ends, number)
    }

    #[inline]
    pub(super) fn role(&self, number: u32) -> Role {
        self.roles[number as usize]
    }

    /// All texts, in the order of their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..timeline::number(self.ends.len())).map(|number| self.text(number))
    }
}

#[inline]
fn slice<'a>(text: &'a [u8], ends: &[usize], number: u32) -> &'a [u8] {
    let number = number as usize;
    let start = if number == 0 { 0 } else { ends[number - 1] };
    &text[start..ends[number]]
}

/// A text's length and its first and last bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ends {
    head: u64,
    tail: u64,
    length: usize,
}

impl Ends {
    /// Takes eight bytes from each end. Shorter texts give fewer bytes, which may overlap.
    #[inline]
    fn of(text: &[u8]) -> Ends {
        let length = text.len();
        if let (Some(head), Some(tail)) = (text.first_chunk(), text.last_chunk()) {
            return Ends { head: u64::from_le_bytes(*head), tail: u64::from_le_bytes(*tail), length };
        }
        if let (Some(head), Some(tail)) = (text.first_chunk(), text.last_chunk()) {
            return Ends { head: u32::from_le_bytes(*head).into(), tail: u32::from_le_bytes(*tail).into(), length };
        }
        Ends { head: text.iter().fold(0, |word, &b| word << 8 | u64::from(b)), tail: 0, length }
    }

    /// True if the ends cover the whole text, so that texts with equal ends are equal.
    #[inline]
    fn are_all(self) -> bool {
        self.length <= 16
    }

    /// The text's index in [`Labels::recent`].
    #[inline]
    fn place(self) -> usize {
        let mixed = (self.head ^ self.tail.rotate_left(23) ^ self.length as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        #[expect(clippy::cast_possible_truncation, reason = "what is left is less than RECENT")]
        let place = (mixed >> (64 - RECENT.ilog2())) as usize;
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The texts of each pair have the same length and the same ends, or nearly.
    #[test]
    fn similar_texts_have_different_numbers() {
        let mut labels = Labels::default();
        let texts = ["", "a", "ab", "ba", "abc", "cab", "abcd", "dbca", "abcdabc", "abcXabc", "abcdefgh", "abcdefgi"];
        let middles = ["12345678abcdefgh", "12345678Xabcdefgh", "12345678Yabcdefgh", "12345678XYabcdefgh"];
        let texts: Vec<&str> = texts.into_iter().chain(middles).collect();
        for _ in 0..2 {
            let numbers: Vec<u32> = texts.iter().map(|text| labels.number(text.as_bytes())).collect();
            assert_eq!(numbers, (0..timeline::number(texts.len())).collect::<Vec<_>>());
        }
    }

    #[test]
    fn texts_beyond_the_bound_are_one() {
        let mut labels = Labels::default();
        let number = |labels: &mut Labels, i: usize| labels.number(format!("f{i}").as_bytes()) as usize;
        assert!((0..LABELS_MAX).all(|i| number(&mut labels, i) == i));
        assert_eq!([1, 2, 3].map(|i| number(&mut labels, LABELS_MAX + i)), [LABELS_MAX; 3]);
        assert_eq!(
            (number(&mut labels, 7), labels.text(u32::try_from(LABELS_MAX).unwrap()), labels.beyond()),
            (7, OTHERS, 3)
        );
    }

    #[test]
    fn each_text_has_one_number() {
        let mut labels = Labels::default();
        let texts: Vec<String> = (0..5000).map(|i| format!("SYSINIT thing{i}")).collect();
        let numbers: Vec<u32> = texts.iter().map(|t| labels.number(t.as_bytes())).collect();
        assert_eq!(numbers, (0..5000).collect::<Vec<_>>());
        for (text, number) in texts.iter().zip(numbers) {
            assert_eq!(labels.number(text.as_bytes()), number);
            assert_eq!(labels.text(number), text.as_bytes());
        }
        assert_eq!(labels.number(b"SYSINIT\0 th\x1b[1ming7\x1b[0m"), 7);
        assert_eq!(labels.number(b"\0\x07"), labels.number(b"?"));
        assert_eq!(labels.number(b"SYSINIT thing7 \0"), 7, "no space is left at its end");
        assert_eq!(labels.cleaned(), 3);
        for _ in 0..2 {
            assert_eq!(labels.number(b"SYSINIT thing7\r"), 7);
        }
        assert_eq!(labels.cleaned(), 5, "also what was seen before");
        assert!(labels.knows(b"SYSINIT thing7") && !labels.knows(b"SYSINIT thing"));
        let start = labels.number(b"start_init");
        assert_eq!(labels.role(start), Role::StartInit);
    }
}
