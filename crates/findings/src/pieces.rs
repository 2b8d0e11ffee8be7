//! Splits a change into pieces, so that remedies can be compared.

use crate::Change;
use crate::blacklist;

/// Two numbers are nearly the same if they differ by at most this part of the larger.
const NEARLY: f64 = 0.01;

/// A piece of a change. Two changes are the same if their pieces are the same in any order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Piece {
    /// A word of the command line. A word that lists initcalls to leave out gives one piece for each initcall.
    Word(String),
    /// An option of the kernel's build.
    Option(String),
    /// A change that has no separate parts.
    Whole(Change),
}

impl Change {
    pub fn pieces(&self) -> Vec<Piece> {
        match self {
            Change::AppendWords(words) => {
                words.iter().flat_map(|word| blacklist::split(word)).map(Piece::Word).collect()
            }
            Change::KernelConfig(options) => options.iter().cloned().map(Piece::Option).collect(),
            _ => vec![Piece::Whole(self.clone())],
        }
    }
}

impl Piece {
    /// True if both are the same, or if both are words that give the same parameter nearly the same number. The kernel measures some
    /// numbers anew in each boot.
    pub fn is_nearly(&self, other: &Piece) -> bool {
        let number = |word: &str| -> Option<(String, u64)> {
            let (parameter, value) = word.split_once('=')?;
            Some((parameter.to_owned(), value.parse().ok()?))
        };
        let near = || {
            let (Piece::Word(one), Piece::Word(other)) = (self, other) else { return None };
            let ((parameter, one), (other_parameter, other)) = (number(one)?, number(other)?);
            let less_by = (one.max(other) - one.min(other)) as f64;
            Some(parameter == other_parameter && less_by <= one.max(other) as f64 * NEARLY)
        };
        self == other || near() == Some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_names_are_sets_and_other_words_are_not() {
        let pieces = |word: &str| Change::AppendWords(vec![word.to_owned()]).pieces();
        let sorted = |word: &str| {
            let mut pieces = pieces(word);
            pieces.sort();
            pieces
        };
        assert_eq!(sorted("initcall_blacklist=a,b"), sorted("initcall_blacklist=b,a"));
        assert_ne!(sorted("console=ttyS0,115200"), sorted("console=115200,ttyS0"));
        assert_ne!(sorted("initcall_blacklist=a"), sorted("a"));
        assert_eq!(pieces("initcall_blacklist=a,b").len(), 2);
        let arguments = Change::QemuArguments { from: vec![], to: vec!["-bios".to_owned(), "qboot.rom".to_owned()] };
        assert_eq!(arguments.pieces().len(), 1);
    }

    #[test]
    fn a_number_that_each_boot_measures_is_nearly_the_same() {
        let word = |word: &str| Piece::Word(word.to_owned());
        assert!(word("lpj=4990464").is_nearly(&word("lpj=4990465")));
        assert!(!word("lpj=4990464").is_nearly(&word("lpj=2495232")), "another machine's");
        assert!(!word("lpj=4990464").is_nearly(&word("loglevel=4990464")));
        assert!(!word("maxcpus=1").is_nearly(&word("maxcpus=2")));
        assert!(!word("lpj=x").is_nearly(&word("lpj=y")));
    }
}
