//! Errors and diagnostics of recordings: an error ends the operation, a diagnostic does not.

use std::io;
use std::path::{Path, PathBuf};

/// An error that ended an operation on a recording. Each message says what is wrong, where, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The output folder already exists.
    #[error("{path} exists already: choose another output, or replace it with --force")]
    Exists { path: PathBuf },
    /// `--force` was given for something that is not a recording.
    #[error(
        "{path} is not replaced, not even with --force, because {why}: remove it yourself or choose another output"
    )]
    Foreign {
        path: PathBuf,
        /// The reason why it is not a recording.
        why: &'static str,
    },
    /// Another process records into the folder.
    #[error("{path} is being recorded into at this moment: wait for it, or choose another output")]
    InUse { path: PathBuf },
    /// Neither a folder nor a packed recording.
    #[error(
        "{path} is neither a recording folder nor a packed recording (.tar.zst): wrap other files with `bootscope import`"
    )]
    NotARecording { path: PathBuf },
    /// An attempt to pack a packed recording.
    #[error("{path} is a packed recording already: every command reads it as it is, and `tar --zstd -xf` unpacks it")]
    PackedAlready {
        /// The packed file.
        path: PathBuf,
    },
    /// A later bootscope wrote it.
    #[error("{path} has schema {found}, this bootscope reads up to bootscope.recording/{known}: use a newer bootscope")]
    LaterSchema {
        path: PathBuf,
        found: String,
        /// The latest version that this bootscope reads.
        known: u32,
    },
    /// A packed recording with an entry that no recording can have.
    #[error("{path} is refused, nothing of it was read: entry {entry:?} {why}")]
    HostilePack {
        /// The packed file.
        path: PathBuf,
        /// The entry's path, in printable characters.
        entry: String,
        /// The fault of the entry.
        why: &'static str,
    },
    /// A file larger than this crate reads into memory.
    #[error("{path} is larger than {limit} bytes{hint}")]
    TooLarge {
        path: PathBuf,
        /// The most bytes that this crate reads.
        limit: u64,
        /// An alternative for the user.
        hint: &'static str,
    },
    /// A name that no file in a recording can have.
    #[error("{name:?} cannot be a file of a recording: letters, digits and -_.+,@= only, not hidden")]
    BadName { name: String },
    /// A key file that does not hold a secret of this user.
    #[error("{path} is no key: {why}; move it away, and bootscope makes a new one")]
    UnfitKey {
        path: PathBuf,
        /// The fault of the key file.
        why: &'static str,
    },
    /// No folder for the user's key is known.
    #[error("no home folder is known for the key: set HOME or XDG_CONFIG_HOME")]
    NoConfigFolder,
    /// The disk is full.
    #[error("no space left on the disk while writing {path}: free some space and try again")]
    DiskFull { path: PathBuf },
    /// Any other input or output error.
    #[error("cannot {doing} {path}: {why}{advice}", advice = advice(why))]
    Io {
        /// The failed action, as a verb.
        doing: &'static str,
        path: PathBuf,
        /// The system's reason. It is no `source`: the message already includes it, and an error chain would repeat it.
        why: io::Error,
    },
}

impl Error {
    /// Returns a closure for `map_err` that adds the action and the file to the error.
    pub(crate) fn io<'a>(doing: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Error + 'a {
        move |why| {
            let path = path.to_path_buf();
            match why.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::DiskFull { path },
                _ => Error::Io { doing, path, why },
            }
        }
    }
}

/// Advice for an error from the system, to append to its message. Empty if there is no advice for its kind.
#[must_use]
pub fn advice(why: &io::Error) -> &'static str {
    match why.kind() {
        io::ErrorKind::NotFound => "; check the path",
        io::ErrorKind::PermissionDenied => "; check its permissions and those of the folders above it",
        io::ErrorKind::ReadOnlyFilesystem => "; choose another place",
        io::ErrorKind::IsADirectory => "; name a file in it",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "; free some space and try again",
        io::ErrorKind::WouldBlock => "; it has no end: copy what is of interest to a file, and name that",
        _ => "",
    }
}

/// A difference between a recording and what its recorder would have left. The code that reports it adds the effect on
/// the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Oddity {
    /// `recording.json` says that the boot is still running.
    UnfinishedRecording,
    /// A file that was being written when the recorder was killed.
    UnfinishedFile,
    /// An entry of the folder that is not a plain file.
    IgnoredEntry,
    /// A packed recording that ends before its last entry.
    CutArchive,
    /// There is no `recording.json`.
    MissingManifest,
    /// `recording.json` cannot be read.
    DamagedManifest,
}

/// A fault of a recording that the user should know about. The recording can still be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    pub kind: Oddity,
    /// The file or reason, as text.
    pub detail: String,
}
