//! What records name, each once: a log has a hundred times as many records as names. What a console put into a name (NULs,
//! escape sequences) is taken out of it.

use crate::kernel_log::{Cleaner, is_unclean};
use hashbrown::HashTable;
use std::hash::BuildHasher;

/// Functions that the log's reader knows, because they run once and say where in the boot one is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    #[default]
    None,
    Loader,
    /// The kernel's first function, which depends on the machine.
    MachineDependent,
    MiStartup,
    /// NetBSD's `main`.
    Main,
    StartInit,
    /// What bootscope's own recorder says of the log as a whole: `TSLOG dropped 17`.
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

    /// What it is on a thread: the loader is thread 0x0 and nobody else.
    #[inline]
    pub fn on(self, thread: u64) -> Role {
        if self == Role::Loader && thread != 0 { Role::None } else { self }
    }

    /// One bit for each.
    pub fn bit(self) -> u8 {
        match self {
            Role::None => 0,
            role => 1 << role as u8,
        }
    }
}

/// Texts by number.
#[derive(Debug)]
pub struct Labels {
    text: Vec<u8>,
    /// `ends[number]` is where a text ends; it starts where the one before it ends.
    ends: Vec<usize>,
    roles: Vec<Role>,
    table: HashTable<u32>,
    hasher: hashbrown::DefaultHashBuilder,
    /// The last text with this length and these ends: hits nearly always, and costs no real hash.
    recent: Vec<u32>,
    /// How many texts were cleaned.
    cleaned: u64,
}

const RECENT: usize = 1 << 10;

impl Default for Labels {
    fn default() -> Self {
        Labels {
            text: Vec::new(),
            ends: Vec::new(),
            roles: Vec::new(),
            table: HashTable::new(),
            hasher: hashbrown::DefaultHashBuilder::default(),
            recent: vec![u32::MAX; RECENT],
            cleaned: 0,
        }
    }
}

impl Labels {
    /// The number of a text, new or known.
    #[inline]
    pub fn number(&mut self, text: &[u8]) -> u32 {
        let place = place(text);
        let guess = self.recent[place];
        if (guess as usize) < self.ends.len() && self.text(guess) == text {
            return guess;
        }
        let number = self.look_up(text);
        self.recent[place] = number;
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
            // A line that has nothing but control characters still is one.
            return self.look_up(if clean.is_empty() { b"?" } else { clean });
        }
        // There are fewer texts than lines, and of those fewer than 2^32.
        let number = ends.len() as u32;
        all.extend_from_slice(text);
        ends.push(all.len());
        self.roles.push(Role::of(text));
        self.table.insert_unique(hash, number, |&number| hasher.hash_one(slice(all, ends, number)));
        number
    }

    /// How many texts were cleaned.
    pub fn cleaned(&self) -> u64 {
        self.cleaned
    }

    /// Whether the text was seen before.
    pub fn knows(&self, text: &[u8]) -> bool {
        let hash = self.hasher.hash_one(text);
        self.table.find(hash, |&number| slice(&self.text, &self.ends, number) == text).is_some()
    }

    /// The text of a number.
    #[inline]
    pub fn text(&self, number: u32) -> &[u8] {
        slice(&self.text, &self.ends, number)
    }

    /// What is special about it.
    #[inline]
    pub fn role(&self, number: u32) -> Role {
        self.roles[number as usize]
    }

    /// All texts, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.ends.len() as u32).map(|number| self.text(number))
    }
}

#[inline]
fn slice<'a>(text: &'a [u8], ends: &[usize], number: u32) -> &'a [u8] {
    let number = number as usize;
    let start = if number == 0 { 0 } else { ends[number - 1] };
    &text[start..ends[number]]
}

/// Where in [`Labels::recent`] a text is remembered: by its length and its first and last bytes.
#[inline]
fn place(text: &[u8]) -> usize {
    let word = |bytes: &[u8]| bytes.iter().fold(0u64, |word, &b| word << 8 | u64::from(b));
    let (head, tail) = match text {
        [_, _, _, _, _, _, _, _, ..] => {
            let (head, tail) = (text.first_chunk::<8>(), text.last_chunk::<8>());
            (head.map_or(0, |h| u64::from_le_bytes(*h)), tail.map_or(0, |t| u64::from_le_bytes(*t)))
        }
        _ => (word(text), 0),
    };
    let mixed = (head ^ tail.rotate_left(23) ^ text.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> (64 - RECENT.ilog2())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(labels.knows(b"SYSINIT thing7") && !labels.knows(b"SYSINIT thing"));
        let start = labels.number(b"start_init");
        assert_eq!(labels.role(start), Role::StartInit);
    }
}
