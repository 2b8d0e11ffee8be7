//! Errors of a lake.

use parquet::errors::ParquetError;
use std::io;
use std::path::{Path, PathBuf};

/// An error in using a lake.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refused.
    #[error("cannot {what} {}", path.display())]
    Io {
        /// The operation.
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The disk is full.
    #[error("no space left on the disk while writing {}: free some space and try again", path.display())]
    DiskFull {
        /// The file or folder.
        path: PathBuf,
    },
    /// A file of the lake is damaged, or cannot be written.
    #[error("cannot use {}; if bootscope wrote it, bring it back from a copy, or remove the files of its name in all tables and add their \
             boots again", path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// The library's reason.
        source: ParquetError,
    },
    /// The folder has files, but is not a lake.
    #[error("{} is not a lake: it has files, but no {}; give a new folder, or an empty one", path.display(), crate::tables::HEAD)]
    NotALake {
        /// The folder.
        path: PathBuf,
    },
    /// The folder is not a lake.
    #[error("{} is no lake: it has no {}; give the folder that `lake add --to` had", path.display(), crate::tables::HEAD)]
    NoLake {
        /// The folder.
        path: PathBuf,
    },
    /// A boot to forget is in a file that bootscope did not write.
    #[error("{} has rows of it, and is none of bootscope's files: remove it, or move it out of the lake", path.display())]
    NotOurs {
        /// The file.
        path: PathBuf,
    },
    /// A file has a column of a type that only a later bootscope knows.
    #[error("{} has the column {column}, of a kind that a later bootscope made: update bootscope", path.display())]
    UnknownKind {
        /// The file.
        path: PathBuf,
        /// The column's name.
        column: String,
    },
    /// The file `lake.json` cannot be parsed.
    #[error("{} does not say what layout the lake has: {why}", path.display())]
    Head {
        /// The file.
        path: PathBuf,
        /// The parser's message.
        why: String,
    },
    /// A later bootscope made it.
    #[error("{} has the layout {schema:?}, which a later bootscope made: this one knows up to {}; update bootscope", path.display(), crate::SCHEMA)]
    Later {
        /// The lake.
        path: PathBuf,
        /// The layout that it names.
        schema: String,
    },
    /// A file of a table lacks a column of texts.
    #[error("{} has no column {column} with text: it is none of a lake's", path.display())]
    NoColumn {
        /// The file.
        path: PathBuf,
        /// The column's name.
        column: &'static str,
    },
    /// The file system gives no lock.
    #[error("cannot lock {}, so another writer could not be kept out: put the lake on a file system that has locks", path.display())]
    NoLock {
        /// The file to lock.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

impl Error {
    /// True if the reason is a missing file.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Converts the system's errors, for `map_err`.
    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        move |source| match is_full(&source) {
            true => Error::DiskFull { path: path.to_owned() },
            false => Error::Io { what, path: path.to_owned(), source },
        }
    }

    /// Converts errors of the Parquet library, for `map_err`.
    pub(crate) fn parquet(path: &Path) -> impl FnOnce(ParquetError) -> Error {
        move |source| match system_error(&source).is_some_and(is_full) {
            true => Error::DiskFull { path: path.to_owned() },
            false => Error::Parquet { path: path.to_owned(), source },
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// The system's error that caused an error of the Parquet library, if there is one.
fn system_error(error: &ParquetError) -> Option<&io::Error> {
    let ParquetError::External(source) = error else { return None };
    std::iter::successors(Some(&**source as &(dyn std::error::Error + 'static)), |error| error.source())
        .find_map(|error| error.downcast_ref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::Rows;
    use crate::tables::tables;

    #[test]
    fn a_full_disk_is_not_reported_as_damage() {
        for table in tables() {
            let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
            // With a buffer, as for tables, and without.
            let buffered = Rows::new(table).write(io::BufWriter::new(&full)).unwrap_err();
            for error in [buffered, Rows::new(table).write(&full).unwrap_err()] {
                let error = Error::parquet(Path::new("a.parquet"))(error);
                assert!(matches!(error, Error::DiskFull { .. }), "{error}");
                assert!(error.to_string().contains("a.parquet: free some space"), "{error}");
            }
        }
        let damaged = Error::parquet(Path::new("a.parquet"))(ParquetError::General("x".to_owned()));
        assert!(damaged.to_string().contains("bring it back"), "{damaged}");
    }
}
