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
    /// Leave words out of it.
    DropWords(Vec<String>),
    /// Give the VMM further arguments.
    VmmArguments(Vec<String>),
    /// Take another model of a device, or none.
    DeviceModel {
        /// The VMM's name of the one that is there.
        from: String,
        /// That of the one to take; none: leave it out.
        to: Option<String>,
    },
    /// Boot another image of the same kernel.
    KernelImage(ImageForm),
    /// Leave files out of the initial RAM disk.
    InitrdWithout(Vec<String>),
    /// Give a switch of the reference kernel other words.
    LabSwitch {
        /// Words that the command line has.
        from: Vec<String>,
        /// Words to give in their place.
        to: Vec<String>,
    },
    /// Build the kernel with an option on or off.
    KernelOption {
        /// Its name, without `CONFIG_`.
        name: String,
        /// Whether it is to be on.
        on: bool,
    },
}

/// How a kernel's image is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageForm {
    /// Not compressed, entered by PVH.
    Pvh,
    /// Compressed so that it unpacks fast (lz4).
    FastToUnpack,
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
