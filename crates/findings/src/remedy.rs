//! What helps against a cause, as changes that a program can make to a boot.

/// What helps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remedy {
    /// What to do, in a sentence of the rule's.
    pub what: &'static str,
    /// The changes to try together; empty where only a change of code helps.
    pub changes: Vec<Change>,
}

/// A change to a boot that can be made without a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Add words to the kernel's command line.
    AppendWords(Vec<String>),
    /// Give a switch of the reference kernel other words.
    LabSwitch {
        /// Words that the command line has.
        from: Vec<String>,
        /// Words to give in their place.
        to: Vec<String>,
    },
}

impl Remedy {
    /// One that takes a change of the kernel's code.
    pub fn code(what: &'static str) -> Remedy {
        Remedy { what, changes: Vec::new() }
    }

    /// One that takes words on the command line.
    pub fn append(what: &'static str, words: &[&str]) -> Remedy {
        Remedy { what, changes: vec![Change::AppendWords(words.iter().map(|&word| word.to_owned()).collect())] }
    }
}
