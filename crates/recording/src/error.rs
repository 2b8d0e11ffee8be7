//! What can go wrong with a recording: errors that end the operation, and diagnostics that do not.

use std::io;
use std::path::{Path, PathBuf};

/// An operation on a recording that could not be done. Each message says what, where, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The output folder is there already.
    #[error("{path} exists already: choose another output, or replace it with --force")]
    Exists {
        /// The folder or file.
        path: PathBuf,
    },
    /// `--force` was given for something that is not a recording.
    #[error(
        "{path} is not replaced, not even with --force, because {why}: remove it yourself or choose another output"
    )]
    Foreign {
        /// The folder or file.
        path: PathBuf,
        /// What gave it away.
        why: &'static str,
    },
    /// Another process records into the folder.
    #[error("{path} is being recorded into at this moment: wait for it, or choose another output")]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// Neither a folder nor a packed recording.
    #[error(
        "{path} is neither a recording folder nor a packed recording (.tar.zst): wrap other files with `bootscope import`"
    )]
    NotARecording {
        /// What was to be opened.
        path: PathBuf,
    },
    /// Packing something that is packed.
    #[error("{path} is a packed recording already: every command reads it as it is, and `tar --zstd -xf` unpacks it")]
    PackedAlready {
        /// The packed file.
        path: PathBuf,
    },
    /// A later bootscope wrote it.
    #[error("{path} has schema {found}, this bootscope reads up to bootscope.recording/{known}: use a newer bootscope")]
    LaterSchema {
        /// The recording.
        path: PathBuf,
        /// Its schema.
        found: String,
        /// The latest version that is understood.
        known: u32,
    },
    /// A packed recording with an entry that has no place in one.
    #[error("{path} is refused, nothing of it was read: entry {entry:?} {why}")]
    HostilePack {
        /// The packed file.
        path: PathBuf,
        /// The entry's path, made printable.
        entry: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// More than this crate takes into memory.
    #[error("{path} is larger than {limit} bytes{hint}")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The most bytes that are taken.
        limit: u64,
        /// What to do instead.
        hint: &'static str,
    },
    /// A name that no file in a recording can have.
    #[error("{name:?} cannot be a file of a recording: letters, digits and -_.+,@= only, not hidden")]
    BadName {
        /// The name.
        name: String,
    },
    /// A key that is not this user's secret.
    #[error("{path} is no key: {why}; move it away, and bootscope makes a new one")]
    UnfitKey {
        /// The key's file.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// There is no folder for the user's key.
    #[error("no home folder is known for the key: set HOME or XDG_CONFIG_HOME")]
    NoConfigFolder,
    /// The disk is full.
    #[error("no space left on the disk while writing {path}: free some space and try again")]
    DiskFull {
        /// The file.
        path: PathBuf,
    },
    /// Any other input or output error.
    #[error("cannot {doing} {path}: {why}{advice}", advice = advice(why))]
    Io {
        /// Verb.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason. Not an error's `source`: it is in the message, and a chain would say it twice.
        why: io::Error,
    },
}

impl Error {
    /// A closure for `map_err` that says what was being done to which file.
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

/// What to do about an error of the system's, to be put behind it; nothing where there is no telling.
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

/// How a recording can differ from what its recorder would have left. Who shows it says what that does to the answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Oddity {
    /// `recording.json` says that the boot still runs.
    UnfinishedRecording,
    /// A file that was being written when the recorder was killed.
    UnfinishedFile,
    /// Something in the folder that is no plain file.
    IgnoredEntry,
    /// A packed recording that ends too early.
    CutArchive,
    /// There is no `recording.json`.
    MissingManifest,
    /// `recording.json` cannot be read.
    DamagedManifest,
}

/// Something about a recording that one should know, but that does not keep it from being read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// What kind of thing.
    pub kind: Oddity,
    /// What exactly.
    pub detail: String,
}
