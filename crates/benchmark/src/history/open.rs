//! Opens the file of a history, for writing or for reading alone. The file may be another user's: it is not trusted.

use super::{History, HistoryError, MAX_LOCK_WAIT, schema};
use rusqlite::{Connection, OpenFlags};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The bytes at the end of a rollback journal that names a journal of several databases
/// (<https://www.sqlite.org/fileformat.html#the_rollback_journal>).
const JOURNAL_MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

/// Fails if a path that SQLite opens is not a regular file: opening a FIFO would wait for ever. A link could lead to
/// another database of the user, which would then be changed.
///
/// The history may be another user's, with files beside it. SQLite writes into a write-ahead log through a link, and deletes
/// any file that a rollback journal names as the journal of several databases. A history never has these.
pub(super) fn check_regular(path: &Path) -> Result<(), HistoryError> {
    if path.is_symlink() {
        let target =
            std::fs::read_link(path).map_or_else(|_| "the file itself".to_owned(), |to| to.display().to_string());
        return Err(HistoryError::Refused(format!("it is a symbolic link, which is not followed: name {target}")));
    }
    recording::check_regular(path).map_err(|why| HistoryError::Refused(why.to_string()))?;
    let beside = |ending: &str| {
        let mut file = path.as_os_str().to_owned();
        file.push(ending);
        PathBuf::from(file)
    };
    let refuse = |file: &Path, why: &str| Err(HistoryError::Refused(format!("{}: {why}", file.display())));
    for file in ["-journal", "-wal", "-shm"].map(beside) {
        if file.is_symlink() {
            return refuse(&file, "it is a symbolic link: put the file in its place");
        }
        if let Err(why) = recording::check_regular(&file) {
            return refuse(&file, &why.to_string());
        }
    }
    let journal = beside("-journal");
    if names_other_journal(&journal) {
        return refuse(&journal, "it names a file that SQLite would delete, so bootscope did not write it: remove it");
    }
    Ok(())
}

/// True if a rollback journal ends with the name of a journal of several databases.
fn names_other_journal(journal: &Path) -> bool {
    let end = || {
        let (mut file, mut end) = (File::open(journal)?, [0; 8]);
        file.seek(SeekFrom::End(-8))?;
        file.read_exact(&mut end)?;
        Ok::<_, std::io::Error>(end)
    };
    end().is_ok_and(|end| end == JOURNAL_MAGIC)
}

/// SQLite's flags for every history: a link that took the file's place since [`check_regular`] is not followed.
const FLAGS: OpenFlags = OpenFlags::SQLITE_OPEN_NO_MUTEX.union(OpenFlags::SQLITE_OPEN_NOFOLLOW);

/// The same path in a folder without links: with [`FLAGS`], SQLite refuses a link anywhere in a path.
fn without_links(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (folder.canonicalize(), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
}

pub(super) fn connect(path: &Path, create: OpenFlags) -> Result<History, HistoryError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | FLAGS | create;
    let mut db = Connection::open_with_flags(without_links(path), flags)?;
    db.busy_timeout(MAX_LOCK_WAIT)?;
    schema::check(&db)?;
    use_write_ahead_log(&db)?;
    // A bench must be on disk when `add` returns, even if the power fails then.
    db.pragma_update(None, "synchronous", "FULL")?;
    db.pragma_update(None, "foreign_keys", true)?;
    schema::migrate(&mut db)?;
    Ok(History { db, path: path.to_owned() })
}

/// Opens a history for reading.
///
/// A write-ahead log needs an index in shared memory, a file beside the database. If that file does not exist and cannot be
/// created, no program can be writing. SQLite then keeps the index in private memory. It takes no locks, because they need
/// a writable file (<https://www.sqlite.org/wal.html#noshm>). Without a log, the database file holds everything.
pub(super) fn read_only(path: &Path) -> Result<History, HistoryError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | FLAGS;
    let opened =
        Connection::open_with_flags(without_links(path), flags).map_err(HistoryError::from).and_then(check_readable);
    let db = match opened {
        Err(HistoryError::Refused(_)) => {
            let mut log = path.as_os_str().to_owned();
            log.push("-wal");
            let has_log = std::fs::metadata(log).is_ok_and(|log| log.len() > 0);
            let parameters = if has_log { "mode=ro&vfs=unix-none" } else { "immutable=1" };
            let db = Connection::open_with_flags(
                uri(&without_links(path), parameters)?,
                flags | OpenFlags::SQLITE_OPEN_URI,
            )?;
            db.pragma_update_and_check(None, "locking_mode", "EXCLUSIVE", |_| Ok(()))?;
            check_readable(db)?
        }
        opened => opened?,
    };
    Ok(History { db, path: path.to_owned() })
}

/// Fails unless it is a history whose layout can be read without a migration.
fn check_readable(db: Connection) -> Result<Connection, HistoryError> {
    db.busy_timeout(MAX_LOCK_WAIT)?;
    schema::check(&db)?;
    schema::check_has_layout(&db)?;
    Ok(db)
}

/// The path as a URI for SQLite, with query parameters.
fn uri(path: &Path, parameters: &str) -> Result<String, HistoryError> {
    let path = std::path::absolute(path).map_err(|why| HistoryError::Refused(why.to_string()))?;
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"/-_.~".contains(b);
    let escaped = path.as_os_str().as_encoded_bytes().iter().map(|b| match b {
        b if plain(b) => char::from(*b).to_string(),
        b => format!("%{b:02X}"),
    });
    Ok(format!("file:{}?{parameters}", escaped.collect::<String>()))
}

/// Switches to a write-ahead log. SQLite does not wait if another program switches at the same time, so this retries.
fn use_write_ahead_log(db: &Connection) -> Result<(), HistoryError> {
    let since = Instant::now();
    loop {
        match db.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0)) {
            Ok(_) => return Ok(()),
            Err(e) => match HistoryError::from(e) {
                HistoryError::Locked if since.elapsed() < MAX_LOCK_WAIT => {
                    std::thread::sleep(Duration::from_millis(20))
                }
                other => return Err(other),
            },
        }
    }
}
