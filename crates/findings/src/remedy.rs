//! What helps against a cause, as changes that a program can make to a boot.

use serde::{Deserialize, Serialize};

/// What helps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remedy {
    /// What to do, in a sentence of the rule's.
    pub what: &'static str,
    /// The changes to try together; empty where only a change of code helps.
    pub changes: Vec<Change>,
}

/// A change to a boot that can be made without a person.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
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
    /// Give QEMU other arguments. Of the further arguments of the recording (`extra`) those of `from` go, which stand there
    /// one after the other; those of `to` come at the end.
    QemuArguments {
        /// Arguments that QEMU was given.
        from: Vec<String>,
        /// Arguments to give in their place.
        to: Vec<String>,
    },
    /// Give the machine so many CPUs.
    Cpus(u32),
    /// Give the machine so many bytes of memory, which is less than it has.
    Memory(u64),
    /// Change the running guest's code: patches as `record --patch` takes them.
    Patch(Vec<String>),
    /// Boot the ELF image that is packed in the kernel's bzImage: its payload, unpacked into a file, is the kernel.
    UnpackedKernel,
    /// Give the guest its own initrd without compression.
    UnpackedInitrd,
    /// Build the kernel from its sources with other options: `-NAME` switches one off, `+NAME` on. Each stands without
    /// `CONFIG_`, as `scripts/config --disable NAME` takes it.
    KernelConfig(Vec<String>),
}

impl Remedy {
    /// None: the time is needed. A draft with it is no finding, and its stretches are no other rule's either.
    pub const NEEDED: Remedy = Remedy { what: "", changes: Vec::new() };

    /// One that takes a change of the kernel's code.
    pub fn code(what: &'static str) -> Remedy {
        Remedy { what, changes: Vec::new() }
    }

    /// One that takes a kernel built without these options.
    pub fn without(what: &'static str, options: &[&str]) -> Remedy {
        let options = options.iter().map(|option| format!("-{option}")).collect();
        Remedy { what, changes: vec![Change::KernelConfig(options)] }
    }

    /// One that takes words on the command line.
    pub fn append(what: &'static str, words: &[&str]) -> Remedy {
        Remedy { what, changes: vec![Change::AppendWords(words.iter().map(|&word| word.to_owned()).collect())] }
    }
}
