//! Errors that prevent a recording. A *boot* that fails is an outcome, not an error.

use std::io;
use std::path::{Path, PathBuf};

use recording::advice;

use crate::refusal::{Refusal, Text, Words};
use recording::Field;

/// A recording that could not be begun or written. Each message contains the reason and what to do next. No error has a `source`, because a
/// chain of errors would print the reason twice.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The options do not fit together, or name something that cannot be used.
    #[error("{0}")]
    Refused(Refusal),
    /// A file or a boot cannot be used. The text says why, and what to do.
    #[error("{0}")]
    Unusable(String),
    /// The user stopped the recording before there was a boot.
    #[error("stopped by the user before the boot was begun")]
    Stopped,
    /// A named file cannot be read.
    #[error("cannot read {path}: {why}{advice}", advice = advice(why))]
    Unreadable {
        path: PathBuf,
        /// The system's reason.
        why: io::Error,
    },
    /// The kernel's file is not a kernel.
    #[error(
        "{path} is not a kernel that QEMU can start: {found}; give a bzImage (/boot/vmlinuz-…) or an ELF image with a PVH note"
    )]
    NotAKernel {
        path: PathBuf,
        /// Kind of file that it seems to be.
        found: String,
    },
    /// The VMM's program is missing.
    #[error("{binary} is not there: {instead}")]
    VmmMissing {
        /// The program that was searched for.
        binary: PathBuf,
        /// Advice to get it, or to name another.
        instead: Text,
    },
    /// The VMM's program is there, but does not run.
    #[error("{binary} does not work: {why}")]
    VmmBroken {
        binary: PathBuf,
        /// Its output, or the reason.
        why: Text,
    },
    /// The VMM is too old.
    #[error(
        "{binary} is version {found}, bootscope needs at least {needed}: install a newer QEMU, or name one with {instead}"
    )]
    VmmTooOld {
        binary: PathBuf,
        /// Its version.
        found: String,
        /// Oldest version that works.
        needed: &'static str,
        /// The setting that names another.
        instead: Text,
    },
    /// The VMM ended before the machine ran: it cannot do what was requested.
    #[error("{name} did not start, and nothing was recorded: {why}")]
    VmmRefused {
        /// The VMM's name as users write it.
        name: &'static str,
        /// Its exit status and its output.
        why: String,
    },
    /// A part of bootscope itself is missing.
    #[error("{missing}{instead}")]
    LibraryMissing {
        /// The missing part, where it was searched for, and how to get it.
        missing: String,
        /// A way to do without it.
        instead: Text,
    },
    /// The recording cannot be written.
    #[error(transparent)]
    Recording(#[from] recording::Error),
    /// The recording could not be completed. What there is of it is finished and marked as incomplete.
    #[error("{why}; what was recorded until then is in {folder}, and can be read")]
    CutShort {
        /// The recording's folder.
        folder: PathBuf,
        /// The first error.
        why: Box<Error>,
    },
    /// The host refused an operation that no other variant describes.
    #[error("cannot {doing}: {why}{advice}", advice = advice(why))]
    Host {
        /// The operation.
        doing: &'static str,
        /// The system's reason.
        why: io::Error,
    },
}

impl Error {
    /// The same error in the words of the caller's users.
    #[must_use]
    pub fn in_words(self, words: Words) -> Error {
        match self {
            Error::Refused(refusal) => Error::Refused(refusal.in_words(words)),
            Error::VmmMissing { binary, instead } => Error::VmmMissing { binary, instead: instead.in_words(words) },
            Error::VmmBroken { binary, why } => Error::VmmBroken { binary, why: why.in_words(words) },
            Error::VmmTooOld { binary, found, needed, instead } => {
                Error::VmmTooOld { binary, found, needed, instead: instead.in_words(words) }
            }
            Error::LibraryMissing { missing, instead } => {
                Error::LibraryMissing { missing, instead: instead.in_words(words) }
            }
            Error::CutShort { folder, why } => Error::CutShort { folder, why: Box::new(why.in_words(words)) },
            Error::Stopped
            | Error::Unreadable { .. }
            | Error::Unusable(_)
            | Error::NotAKernel { .. }
            | Error::VmmRefused { .. }
            | Error::Recording(_)
            | Error::Host { .. } => self,
        }
    }

    /// A problem with this field, and the next step for the user.
    pub(crate) fn refused(field: Field, why: impl Into<Text>, instead: impl Into<Text>) -> Error {
        Error::Refused(Refusal { field, why: why.into(), instead: instead.into() })
    }

    pub(crate) fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> Error + '_ {
        move |why| Error::Unreadable { path: path.to_path_buf(), why }
    }

    pub(crate) fn host<E: Into<io::Error>>(doing: &'static str) -> impl FnOnce(E) -> Error {
        move |why| Error::Host { doing, why: why.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refusal::text;

    #[test]
    fn a_caller_s_words_are_those_of_its_users() {
        let refusal = Refusal {
            field: Field::Deterministic,
            why: text![Field::Deterministic, " counts instructions, which KVM cannot"],
            instead: text!["leave out ", Field::Accel.is("kvm")],
        };
        let error = Error::Refused(refusal);
        let expected = "deterministic counts instructions, which KVM cannot: leave out accel=kvm";
        assert_eq!(error.to_string(), expected);
        let words = Words(|setting| format!("<{} {}>", setting.field.name(), setting.value));
        let expected = "<deterministic > counts instructions, which KVM cannot: leave out <accel kvm>";
        assert_eq!(error.in_words(words).to_string(), expected);
    }
}
