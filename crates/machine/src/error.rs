//! Why a recording could not be made. How a *boot* failed is an outcome, not an error.

use std::io;
use std::path::{Path, PathBuf};

use recording::advice;

/// A recording that could not be begun, or could not be written. Each message says what to do next, and the reason too:
/// none is an error's `source`, which a chain of errors would say again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The options do not fit together, or name something that cannot be used.
    #[error("{0}")]
    Option(String),
    /// The user stopped it before there was a boot.
    #[error("stopped by the user before the boot was begun")]
    Stopped,
    /// A file that was named cannot be read.
    #[error("cannot read {path}: {why}{advice}", advice = advice(why))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        why: io::Error,
    },
    /// The kernel is not a kernel.
    #[error(
        "{path} is not a kernel that QEMU can start: {found}; give a bzImage (/boot/vmlinuz-…) or an ELF image with a PVH note"
    )]
    NotAKernel {
        /// The file.
        path: PathBuf,
        /// What it looks like.
        found: String,
    },
    /// There is no such VMM.
    #[error(
        "{binary} is not there: install QEMU (Debian: apt install qemu-system-x86, for ARM guests qemu-system-arm, for riscv64 qemu-system-misc or -riscv), or name it with --qemu"
    )]
    VmmMissing {
        /// What was looked for.
        binary: PathBuf,
    },
    /// The VMM is there, but does not run.
    #[error("{binary} does not work: {why}")]
    VmmBroken {
        /// The binary.
        binary: PathBuf,
        /// What it said.
        why: String,
    },
    /// The VMM is too old.
    #[error(
        "{binary} is version {found}, bootscope needs at least {needed}: install a newer QEMU, or name one with --qemu"
    )]
    VmmTooOld {
        /// The binary.
        binary: PathBuf,
        /// Its version.
        found: String,
        /// The oldest that will do.
        needed: &'static str,
    },
    /// The VMM ended before the machine ran: what it was asked for cannot be had.
    #[error("{name} did not start, and nothing was recorded: {why}")]
    VmmRefused {
        /// What people call it.
        name: &'static str,
        /// How it ended and what it said.
        why: String,
    },
    /// A part of bootscope itself is not where it should be.
    #[error("{missing}{instead}")]
    LibraryMissing {
        /// Which, where it was looked for, and how to get it.
        missing: String,
        /// How to do without.
        instead: &'static str,
    },
    /// The recording cannot be written.
    #[error(transparent)]
    Recording(#[from] recording::Error),
    /// The recording could not be written to its end. What there is of it is finished, and says so.
    #[error("{why}; what was recorded until then is in {folder}, and can be read")]
    CutShort {
        /// The recording.
        folder: PathBuf,
        /// What went wrong first.
        why: Box<Error>,
    },
    /// The host refused something that has no other name.
    #[error("cannot {doing}: {why}{advice}", advice = advice(why))]
    Host {
        /// What was tried.
        doing: &'static str,
        /// The system's reason.
        why: io::Error,
    },
}

impl Error {
    pub(crate) fn option(text: impl Into<String>) -> Error {
        Error::Option(text.into())
    }

    pub(crate) fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> Error + '_ {
        move |why| Error::Unreadable { path: path.to_path_buf(), why }
    }

    pub(crate) fn host<E: Into<io::Error>>(doing: &'static str) -> impl FnOnce(E) -> Error {
        move |why| Error::Host { doing, why: why.into() }
    }
}
