//! The database's layout, and its migration from older layouts.
//!
//! ```text
//! setup     id, and everything that comparable benches share: machine, accelerator, cpus, memory_bytes, append,
//!           initrd_sha256, vmm, host, options (the recorder's, JSON, without paths of kernel and initrd)
//! bench     id, sha256 of the document, created (RFC 3339, UTC)
//! variant   bench, number in it, name, setup, kernel, kernel_sha256, and for lists and plots: boots and failed (warm-ups left
//!           out), deterministic, median_ns, low_ns, high_ns, mean_ns, sd_ns (null where no boot reached its end)
//! trial     bench, variant's number, kernel_sha256, machine, and the finding whose remedy was tried: rule, about (both empty
//!           for a remedy that the user proposed, and for all remedies together)
//! boot      id, boot_key (its identity), machine, placed (its place in time), began (null if unknown), kernel, firmware, outcome,
//!           end_code, unit, total_ns (null without an end mark), error_ns, packages (a list below, or null)
//! boot_part boot, kind (phase, milestone or row), name, ns
//! packages  id, sha256, list: zstd-packed lines of name and version
//! document  bench, the whole `bootscope.bench/1` document as zstd-packed JSON: every raw sample
//! ```
//! `application_id` marks the file as bootscope's; `user_version` is the number of its layout. The first program that opens an
//! older file migrates it, in one transaction. Columns are added, never renamed.

use super::HistoryError;
use rusqlite::{Connection, TransactionBehavior};

/// The `application_id`: "boot", in ASCII.
const APPLICATION: i32 = 0x626f_6f74;

/// SQL that migrates from the layout of the same number to the next one.
const STEPS: &[&str] = &[
    "
    CREATE TABLE setup (
        id INTEGER PRIMARY KEY,
        machine TEXT NOT NULL, accelerator TEXT NOT NULL, cpus INTEGER NOT NULL, memory_bytes INTEGER NOT NULL,
        append TEXT NOT NULL, initrd_sha256 TEXT NOT NULL, vmm TEXT NOT NULL, host TEXT NOT NULL, options TEXT NOT NULL,
        UNIQUE (machine, accelerator, cpus, memory_bytes, append, initrd_sha256, vmm, host, options)
    ) STRICT;
    CREATE TABLE bench (
        id INTEGER PRIMARY KEY, sha256 TEXT NOT NULL UNIQUE, created TEXT NOT NULL
    ) STRICT;
    CREATE TABLE variant (
        bench INTEGER NOT NULL REFERENCES bench, number INTEGER NOT NULL, name TEXT NOT NULL,
        setup INTEGER NOT NULL REFERENCES setup, kernel TEXT NOT NULL, kernel_sha256 TEXT NOT NULL,
        created TEXT NOT NULL, deterministic INTEGER NOT NULL, boots INTEGER NOT NULL, failed INTEGER NOT NULL,
        median_ns REAL, low_ns REAL, high_ns REAL, mean_ns REAL, sd_ns REAL,
        PRIMARY KEY (bench, number)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX variant_by_time ON variant (created, bench, number);
    CREATE INDEX variant_by_setup ON variant (setup, created, bench, number, median_ns);
    CREATE INDEX variant_by_kernel ON variant (kernel_sha256);
    CREATE TABLE document (bench INTEGER PRIMARY KEY REFERENCES bench, json BLOB NOT NULL) STRICT;
",
    "
    CREATE TABLE metric (
        bench INTEGER NOT NULL REFERENCES bench, number INTEGER NOT NULL, metric TEXT NOT NULL,
        median REAL NOT NULL, low REAL NOT NULL, high REAL NOT NULL, mean REAL NOT NULL, sd REAL,
        PRIMARY KEY (bench, number, metric)
    ) STRICT, WITHOUT ROWID;
",
    "
    CREATE TABLE trial (
        bench INTEGER NOT NULL REFERENCES bench, number INTEGER NOT NULL, rule TEXT NOT NULL, about TEXT NOT NULL,
        kernel_sha256 TEXT NOT NULL, machine TEXT NOT NULL,
        PRIMARY KEY (bench, number, rule, about)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX trial_by_kernel ON trial (kernel_sha256, machine, bench);
",
    "
    CREATE TABLE packages (id INTEGER PRIMARY KEY, sha256 TEXT NOT NULL UNIQUE, list BLOB NOT NULL) STRICT;
    CREATE TABLE boot (
        id INTEGER PRIMARY KEY, boot_key TEXT NOT NULL, machine TEXT NOT NULL, placed TEXT NOT NULL, began TEXT,
        kernel TEXT NOT NULL, firmware TEXT NOT NULL, outcome TEXT NOT NULL, end_code TEXT NOT NULL, unit TEXT NOT NULL,
        total_ns INTEGER, error_ns INTEGER NOT NULL, packages INTEGER REFERENCES packages,
        UNIQUE (machine, boot_key)
    ) STRICT;
    CREATE INDEX boot_by_time ON boot (machine, placed, id);
    CREATE TABLE boot_part (
        boot INTEGER NOT NULL REFERENCES boot, kind TEXT NOT NULL, name TEXT NOT NULL, ns INTEGER NOT NULL,
        PRIMARY KEY (boot, kind, name)
    ) STRICT, WITHOUT ROWID;
",
];

/// The first layout with metrics beside the boot's length.
const WITH_METRICS: usize = 2;

/// The first layout with trials. Older benches have no trials.
const WITH_TRIALS: usize = 3;

/// The first layout with boots of machines.
const WITH_BOOTS: usize = 4;

/// The newest layout.
const NEWEST: usize = STEPS.len();

/// Fails unless the database is empty or a history that this version knows. Reads only.
pub(super) fn check(db: &Connection) -> Result<(), HistoryError> {
    let tables: u32 = db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if application(db)? != APPLICATION && tables > 0 {
        return Err(HistoryError::NotOurs);
    }
    match version(db)? {
        layout if layout > NEWEST => Err(HistoryError::Later { found: layout, newest: NEWEST }),
        _ => Ok(()),
    }
}

/// Migrates a checked database to the newest layout. An empty file gets all of it.
pub(super) fn migrate(db: &mut Connection) -> Result<(), HistoryError> {
    if version(db)? == NEWEST {
        return Ok(());
    }
    let step = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Read the version again under the lock: another process may have migrated meanwhile.
    let before = version(&step)?;
    for sql in STEPS.get(before..).unwrap_or_default() {
        step.execute_batch(sql)?;
    }
    if before < WITH_METRICS {
        super::add_metrics_of_all(&step)?;
    }
    step.pragma_update(None, "application_id", APPLICATION)?;
    step.pragma_update(None, "user_version", i64::try_from(NEWEST).unwrap_or(i64::MAX))?;
    step.commit()?;
    Ok(())
}

/// Fails if the database is empty, because only a writer could give it a layout.
pub(super) fn check_has_layout(db: &Connection) -> Result<(), HistoryError> {
    match version(db)? {
        0 => Err(HistoryError::Refused("it is empty, and may not be written".to_owned())),
        _ => Ok(()),
    }
}

/// True if it has metrics beside the boot's length. A history of an older layout that may not be written has none of them.
pub(super) fn has_metrics(db: &Connection) -> rusqlite::Result<bool> {
    Ok(version(db)? >= WITH_METRICS)
}

/// True if its layout has trials.
pub(super) fn has_trials(db: &Connection) -> rusqlite::Result<bool> {
    Ok(version(db)? >= WITH_TRIALS)
}

/// True if its layout has boots of machines.
pub(super) fn has_boots(db: &Connection) -> rusqlite::Result<bool> {
    Ok(version(db)? >= WITH_BOOTS)
}

fn version(db: &Connection) -> rusqlite::Result<usize> {
    db.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0))
        .map(|v| usize::try_from(v).unwrap_or(usize::MAX))
}

fn application(db: &Connection) -> rusqlite::Result<i32> {
    db.pragma_query_value(None, "application_id", |row| row.get(0))
}
