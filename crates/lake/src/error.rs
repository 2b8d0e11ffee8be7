//! What can go wrong with a lake.

use std::io;
use std::path::{Path, PathBuf};

/// What can go wrong with a lake.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refused.
    #[error("cannot {what} {}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file of the lake is damaged, or cannot be written.
    #[error("cannot use {}; if bootscope wrote it, bring it back from a copy, or remove the files of its name in all tables and add their \
             boots again", path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: parquet::errors::ParquetError,
    },
    /// The folder is there, and is something else.
    #[error("{} is not a lake: it has files, but no {}; give a new folder, or an empty one", path.display(), crate::tables::HEAD)]
    NotALake {
        /// The folder.
        path: PathBuf,
    },
    /// There is no lake.
    #[error("{} is no lake: it has no {}; give the folder that `lake add --to` had", path.display(), crate::tables::HEAD)]
    NoLake {
        /// The folder.
        path: PathBuf,
    },
    /// What is to be forgotten is in a file of the user's.
    #[error("{} has rows of it, and is none of bootscope's files: remove it, or move it out of the lake", path.display())]
    NotOurs {
        /// The file.
        path: PathBuf,
    },
    /// A file has values that only a later bootscope knows.
    #[error("{} has the column {column}, of a kind that a later bootscope made: update bootscope", path.display())]
    UnknownKind {
        /// The file.
        path: PathBuf,
        /// The column's name.
        column: String,
    },
    /// The lake's own description cannot be read.
    #[error("{} does not say what layout the lake has: {why}", path.display())]
    Head {
        /// The file.
        path: PathBuf,
        /// What its parser found.
        why: String,
    },
    /// A later bootscope made it.
    #[error("{} has the layout {schema:?}, which a later bootscope made: this one knows up to {}; update bootscope", path.display(), crate::SCHEMA)]
    Later {
        /// The lake.
        path: PathBuf,
        /// What it says of itself.
        schema: String,
    },
    /// A file of a table lacks a column.
    #[error("{} has no column {column} with text: it is none of a lake's", path.display())]
    NoColumn {
        /// The file.
        path: PathBuf,
        /// The column's name.
        column: &'static str,
    },
    /// No lock can be had.
    #[error("cannot lock {}, so another writer could not be kept out: put the lake on a file system that has locks", path.display())]
    NoLock {
        /// What is locked.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl Error {
    /// Whether a file was not there.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// For `map_err`.
    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Io { what, path: path.to_owned(), source }
    }

    /// For `map_err`.
    pub(crate) fn parquet(path: &Path) -> impl FnOnce(parquet::errors::ParquetError) -> Error {
        move |source| Error::Parquet { path: path.to_owned(), source }
    }
}
