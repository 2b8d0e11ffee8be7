//! Why a remedy's change cannot be made to a boot, in words for the user.

use crate::Interrupted;
use std::fmt;

/// Why a change cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cannot {
    /// It is made already.
    IsSo,
    /// The machine boots from its own disk.
    NoCommandLine,
    /// The words that are to go are not there.
    NotThere(String),
    /// It is no change to code; why.
    NoPatch(String),
    /// The root's modules are found by the kernel's release, which an unpacked image does not tell.
    NoModules,
    /// The kernel would have to be built with these options, and nobody gave its sources.
    NoSources(String),
    /// There is no such kernel; why.
    NoKernel(String),
    /// There is no such initrd; why.
    NoInitrd(String),
    /// The user stopped what makes it, which says nothing of the change.
    Stopped(String),
}

impl fmt::Display for Cannot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cannot::IsSo => f.write_str("this boot has that already"),
            Cannot::NoCommandLine => f.write_str(
                "the machine boots from its own disk, and its command line is not bootscope's: record with --kernel",
            ),
            Cannot::NotThere(words) => write!(f, "the recording was made without `{words}`"),
            Cannot::NoPatch(why) => f.write_str(why),
            Cannot::NoModules => {
                f.write_str("with --root the kernel has to be a bzImage, which tells for what release modules are")
            }
            Cannot::NoSources(options) => {
                write!(f, "give the kernel's sources: --tree DIR builds it with --config {options}")
            }
            Cannot::NoKernel(why) | Cannot::NoInitrd(why) | Cannot::Stopped(why) => f.write_str(why),
        }
    }
}

impl From<Cannot> for anyhow::Error {
    fn from(why: Cannot) -> anyhow::Error {
        match why {
            Cannot::Stopped(why) => Interrupted(why).into(),
            why => anyhow::anyhow!("{why}"),
        }
    }
}
