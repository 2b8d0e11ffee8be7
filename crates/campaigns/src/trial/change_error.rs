//! The reasons why a remedy's change cannot be made to a boot, in words for the user.

use crate::Interrupted;
use std::fmt;

/// The reason why a change cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeError {
    /// The change is already made.
    AlreadyMade,
    /// The machine boots from its own disk.
    NoCommandLine,
    /// The words to remove are not on the command line.
    NotThere(String),
    /// The change to code is malformed; with the reason.
    NoPatch(String),
    /// The root's modules depend on the kernel's release, and an unpacked image does not contain it.
    NoModules,
    /// The kernel would have to be built with these options, but its sources were not given.
    NoSources(String),
    /// The kernel cannot be made; with the reason.
    NoKernel(String),
    /// The initrd cannot be made; with the reason.
    NoInitrd(String),
    /// The user stopped the work on the change. The change itself may be possible.
    Stopped(String),
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChangeError::AlreadyMade => f.write_str("this boot has that already"),
            ChangeError::NoCommandLine => f.write_str(
                "the machine boots from its own disk, and its command line is not bootscope's: record with --kernel",
            ),
            ChangeError::NotThere(words) => write!(f, "the recording was made without `{words}`"),
            ChangeError::NoPatch(why) => f.write_str(why),
            ChangeError::NoModules => {
                f.write_str("with --root the kernel has to be a bzImage, which tells for what release modules are")
            }
            ChangeError::NoSources(options) => {
                write!(f, "give the kernel's sources: --tree DIR builds it with --config {options}")
            }
            ChangeError::NoKernel(why) | ChangeError::NoInitrd(why) | ChangeError::Stopped(why) => f.write_str(why),
        }
    }
}

impl From<ChangeError> for anyhow::Error {
    fn from(why: ChangeError) -> anyhow::Error {
        match why {
            ChangeError::Stopped(why) => Interrupted(why).into(),
            why => anyhow::anyhow!("{why}"),
        }
    }
}
