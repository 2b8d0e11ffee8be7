//! Why the history cannot be read or written, and what to do then.

use rusqlite::ErrorCode;
use std::path::{Path, PathBuf};

/// Why the history cannot be read or written. What was in it before is in it still.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// There is none.
    #[error("there is no history at {0}: `bootscope bench` begins one, or name another with --db")]
    None(PathBuf),
    /// No place for it is known.
    #[error("neither XDG_DATA_HOME nor HOME says where the history is: name it with --db")]
    Nowhere,
    /// Another program's database.
    #[error("it is a database, but no history of bootscope's: name another file with --db")]
    NotOurs,
    /// A later version's.
    #[error("it was written by a later bootscope (layout {found}, this one knows {newest}): use that one")]
    Later {
        /// Its layout.
        found: usize,
        /// The newest that this version knows.
        newest: usize,
    },
    /// It is in use for too long.
    #[error("another program holds it locked: try again when that is done; nothing was changed")]
    Locked,
    /// It is damaged, or something else.
    #[error(
        "it is damaged, or no database at all ({0}): move it away and a new one is begun; `sqlite3 FILE .recover` may read \
         what is left. Nothing was changed"
    )]
    Damaged(String),
    /// No room.
    #[error("no space left on its disk: nothing was changed; free some space and try again")]
    Full,
    /// The system or SQLite refused.
    #[error("{0}")]
    Refused(String),
    /// A stored document that is none.
    #[error("bench {bench} in it cannot be read: {why}")]
    Unreadable {
        /// Its number.
        bench: i64,
        /// What is wrong.
        why: String,
    },
    /// Any of these, in this file.
    #[error("history {path}: {why}")]
    In {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: Box<HistoryError>,
    },
}

impl HistoryError {
    /// Names the file, unless it is named.
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
