//! `guest.log`: what process 1 (guest-init) said on its port, one [`Word`] a line.
//!
//! What the words are is guest-init's to say ([`guest_init::words`]); here each gets the time at which
//! its first byte arrived. That stamp is never early and sometimes late.

use crate::index::Index;
use crate::text::{Lines, lossy};
use guest_init::words::Word;
use timeline::{DiagnosticKind, Diagnostics, Ns};

/// A word, when it arrived and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    /// What was said.
    pub word: Word,
    /// When its first byte arrived, if the index says.
    pub arrival: Option<Ns>,
    /// Its line, from 1.
    pub line: u32,
}

/// Reads `guest.log` with its index. What is no word is counted.
pub fn read(file: &str, bytes: &[u8], index: &Index, diagnostics: &mut Diagnostics) -> Vec<Said> {
    let mut said = Vec::new();
    for line in Lines::new(bytes).filter(|line| !line.bytes.trim_ascii().is_empty()) {
        let word = Word::parse(&lossy(line.bytes.trim_ascii_end())).filter(|_| line.whole);
        match word {
            Some(word) => said.push(Said { word, arrival: index.arrival(line.offset as u64), line: line.number }),
            None => diagnostics.note(DiagnosticKind::GuestMessageUnreadable, || format!("{file}:{}", line.number)),
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_the_arrival_of_their_lines() {
        let mut diagnostics = Diagnostics::default();
        let index = Index::read("guest.idx", b"0 1000\n6 2000\n", &mut diagnostics);
        let said = read("guest.log", b"I 123\nT 456\nE poweroff\n", &index, &mut diagnostics);
        assert!(diagnostics.is_empty(), "{diagnostics:?}");
        let found: Vec<_> = said.iter().map(|s| (s.word.to_string(), s.arrival, s.line)).collect();
        let word = |text: &str, at, line| (text.to_owned(), Some(Ns(at)), line);
        assert_eq!(found, [word("I 123", 1000, 1), word("T 456", 2000, 2), word("E poweroff", 2000, 3)]);
    }

    #[test]
    fn what_is_no_word_is_counted() {
        let mut diagnostics = Diagnostics::default();
        let text = b"I 12x\nHello\n\nS trace 1\nS clock 1 2 3 4 5\n\xff\xfe\nT 99999999999999999999\nI 5";
        assert_eq!(read("guest.log", text, &Index::default(), &mut diagnostics), []);
        assert_eq!(diagnostics.count(timeline::DiagnosticKind::GuestMessageUnreadable), 7);
    }
}
