//! Remedies against a cause, as changes that a program can make to a boot.

use serde::{Deserialize, Serialize};

/// A remedy against a cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remedy {
    /// Advice, in a sentence of the rule.
    pub what: &'static str,
    /// Changes to try together; empty if only a change of code helps.
    pub changes: Vec<Change>,
}

/// A change to a boot that a program can make.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// Add words to the kernel's command line.
    AppendWords(Vec<String>),
    /// Replace words of a switch of the reference kernel.
    LabSwitch {
        /// Words that the command line has.
        from: Vec<String>,
        /// Words that replace them.
        to: Vec<String>,
    },
    /// Change QEMU's arguments. The consecutive arguments `from` are removed from the recording's further arguments (`extra`); those of
    /// `to` are appended.
    QemuArguments {
        /// Arguments that QEMU got.
        from: Vec<String>,
        /// Arguments that replace them.
        to: Vec<String>,
    },
    /// Give the machine this number of CPUs.
    Cpus(u32),
    /// Give the machine this number of bytes of memory, which is less than it has.
    Memory(u64),
    /// Change the running guest's code, with patches as `record --patch` takes them.
    Patch(Vec<String>),
    /// Boot the ELF image that is packed in the kernel's bzImage: its unpacked payload is the kernel.
    UnpackedKernel,
    /// Give the guest its initrd without compression.
    UnpackedInitrd,
    /// Build the kernel from its sources with other options: `-NAME` switches one off, `+NAME` on. Names have no `CONFIG_`, as in
    /// `scripts/config --disable NAME`.
    KernelConfig(Vec<String>),
}

impl Remedy {
    /// No remedy, because the time is needed. A draft with it is no finding, and later rules cannot claim its stretches.
    pub const NEEDED: Remedy = Remedy { what: "", changes: Vec::new() };

    /// A remedy that changes the kernel's code.
    pub fn code(what: &'static str) -> Remedy {
        Remedy { what, changes: Vec::new() }
    }

    /// A remedy that builds the kernel without these options.
    pub fn without(what: &'static str, options: &[&str]) -> Remedy {
        let options = options.iter().map(|option| format!("-{option}")).collect();
        Remedy { what, changes: vec![Change::KernelConfig(options)] }
    }

    /// A remedy that adds words to the command line.
    pub fn append(what: &'static str, words: &[&str]) -> Remedy {
        Remedy { what, changes: vec![Change::AppendWords(words.iter().map(|&word| word.to_owned()).collect())] }
    }
}
