//! Errors of the history, each with what to do about it.

use rusqlite::ErrorCode;
use std::path::{Path, PathBuf};

/// An error in reading or writing the history. The database keeps what it had before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// The file does not exist.
    #[error(
        "there is no history at {0}: `bootscope bench` or `bootscope history add` begins one, or name another with --db"
    )]
    None(PathBuf),
    /// No environment variable gives a place for it.
    #[error("neither XDG_DATA_HOME nor HOME says where the history is: name it with --db")]
    Nowhere,
    /// It is another program's database.
    #[error("it is a database, but no history of bootscope's: name another file with --db")]
    NotOurs,
    /// A later version wrote it.
    #[error("it was written by a later bootscope (layout {found}, this one knows {newest}): use that one")]
    Later {
        /// Number of its layout.
        found: usize,
        /// The newest layout that this version knows.
        newest: usize,
    },
    /// Another program held the lock for too long.
    #[error("another program holds it locked: try again when that is done; nothing was changed")]
    Locked,
    /// It is damaged, or no database.
    #[error(
        "it is damaged, or no database at all ({0}): move it away and a new one is begun; `sqlite3 FILE .recover` may read \
         what is left. Nothing was changed"
    )]
    Damaged(String),
    #[error("no space left on its disk: nothing was changed; free some space and try again")]
    Full,
    /// The system or SQLite refused.
    #[error("{0}")]
    Refused(String),
    /// A stored document cannot be parsed.
    #[error("bench {bench} in it cannot be read: {why}")]
    Unreadable {
        /// The bench's number.
        bench: i64,
        /// The reason.
        why: String,
    },
    /// One of these errors, with the path of the history.
    #[error("history {path}: {why}")]
    In {
        /// The file.
        path: PathBuf,
        why: Box<HistoryError>,
    },
}

impl HistoryError {
    /// Adds the file's path, unless the error has one.
    pub(super) fn of(self, path: &Path) -> HistoryError {
        match self {
            HistoryError::None(_) | HistoryError::Nowhere | HistoryError::In { .. } => self,
            why => HistoryError::In { path: path.to_owned(), why: Box::new(why) },
        }
    }
}

impl From<rusqlite::Error> for HistoryError {
    fn from(error: rusqlite::Error) -> HistoryError {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => HistoryError::Locked,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => HistoryError::Damaged(error.to_string()),
            Some(ErrorCode::DiskFull) => HistoryError::Full,
            _ => HistoryError::Refused(error.to_string()),
        }
    }
}
