//! Boots of machines that people use, each once: total, phases, milestones, rows, and the packages that were installed.

use super::{COMPRESSION_LEVEL, History, HistoryError, schema};
use crate::hex;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, TransactionBehavior, params};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::io::Read;

/// Maximum size of an unpacked list of packages. `capture` reads no more.
const MAX_LIST_BYTES: u64 = 32 << 20;

/// A boot to add.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MachineBoot {
    /// The identity of the boot. A machine has each boot once.
    pub boot_key: String,
    /// Name or hardware of the machine.
    pub machine: String,
    /// Its place among the machine's boots: `began`, or when it was added if the clock was wrong. RFC 3339, UTC.
    pub placed: String,
    /// The time when it began, RFC 3339, UTC. `None` if the machine's clock was wrong.
    pub began: Option<String>,
    /// Kernel release.
    pub kernel: String,
    /// Firmware version; empty if unknown.
    pub firmware: String,
    /// The outcome, as in `show --json`.
    pub outcome: String,
    /// Code of what shows the end.
    pub end_code: String,
    /// Unit of its times.
    pub unit: String,
    /// Its length. `None` if it has no end mark.
    pub total_ns: Option<i64>,
    /// Error of the length.
    pub error_ns: i64,
    /// Lines of a package's name and version; empty if unknown.
    pub packages: String,
    /// Phases, milestones and rows.
    pub parts: Vec<BootPart>,
}

/// A part of a boot, with its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootPart {
    pub kind: PartKind,
    /// Name of the part, as in `show`.
    pub name: String,
    /// Length of a phase or a row; time of a milestone since time zero.
    pub ns: i64,
}

/// A stretch or a point of a boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PartKind {
    /// A phase: phases are contiguous.
    Phase,
    /// A point that the boot passed.
    Milestone,
    /// A row of the boot path.
    Row,
}

impl PartKind {
    const ALL: [PartKind; 3] = [PartKind::Phase, PartKind::Milestone, PartKind::Row];

    /// The word in the database and in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            PartKind::Phase => "phase",
            PartKind::Milestone => "milestone",
            PartKind::Row => "row",
        }
    }
}

/// A boot that an addition added or found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddedBoot {
    /// The boot's number in the database.
    pub boot: i64,
    /// True if the history did not have it before.
    pub new: bool,
}

/// A boot as the database has it.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredBoot {
    /// The boot's number in the database.
    pub number: i64,
    /// The boot, without its list of packages.
    pub boot: MachineBoot,
    /// Number of its list of packages. `None` if they are unknown.
    pub packages: Option<i64>,
}

/// A machine of the history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Machine {
    /// The machine's name.
    pub machine: String,
    /// Number of its boots.
    pub boots: u64,
    /// Place in time of its newest boot.
    pub newest: String,
}

impl History {
    /// Adds boots: all of them, or on an error not one.
    pub fn add_boots(&mut self, boots: &[MachineBoot]) -> Result<Vec<AddedBoot>, HistoryError> {
        let mut add = || {
            let add = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let added = boots.iter().map(|boot| add_boot(&add, boot)).collect::<Result<Vec<AddedBoot>, _>>()?;
            add.commit()?;
            Ok(added)
        };
        add().map_err(|e: HistoryError| e.of(&self.path))
    }

    /// The machines, the one with the newest boot first.
    pub fn machines(&self) -> Result<Vec<Machine>, HistoryError> {
        let machines = || {
            if !schema::has_boots(&self.db)? {
                return Ok(Vec::new());
            }
            let sql = "SELECT machine, count(*), max(placed) FROM boot GROUP BY machine ORDER BY max(placed) DESC, max(id) DESC";
            let mut select = self.db.prepare(sql)?;
            let machine = |row: &Row| {
                let boots = row.get::<_, i64>(1)?.unsigned_abs();
                Ok(Machine { machine: row.get(0)?, boots, newest: row.get(2)? })
            };
            Ok(select.query_map([], machine)?.collect::<rusqlite::Result<Vec<Machine>>>()?)
        };
        machines().map_err(|e: HistoryError| e.of(&self.path))
    }

    /// The newest boots of a machine, oldest first. The time for this does not grow with the boots before them.
    pub fn boots(&self, machine: &str, newest: usize) -> Result<Vec<StoredBoot>, HistoryError> {
        let boots = || {
            let mut select = self.db.prepare(
                "SELECT id, boot_key, machine, placed, began, kernel, firmware, outcome, end_code, unit, total_ns, error_ns,
                        packages
                 FROM boot WHERE machine = ? ORDER BY placed DESC, id DESC LIMIT ?",
            )?;
            let newest = i64::try_from(newest).unwrap_or(i64::MAX);
            let mut boots =
                select.query_map(params![machine, newest], stored)?.collect::<rusqlite::Result<Vec<StoredBoot>>>()?;
            boots.reverse();
            boots.iter_mut().try_for_each(|boot| read_parts(&self.db, boot))?;
            Ok(boots)
        };
        boots().map_err(|e: HistoryError| e.of(&self.path))
    }

    /// A list of packages: lines of name and version. Empty if it cannot be read.
    pub fn packages(&self, list: i64) -> Result<String, HistoryError> {
        let read = || {
            let sql = "SELECT list FROM packages WHERE id = ?";
            let packed: Option<Vec<u8>> = self.db.query_row(sql, [list], |row| row.get(0)).optional()?;
            let mut text = String::new();
            if let Some(packed) = packed {
                let unpack = zstd::Decoder::new(&packed[..]).map(|unpacked| unpacked.take(MAX_LIST_BYTES));
                if unpack.and_then(|mut unpacked| unpacked.read_to_string(&mut text)).is_err() {
                    text.clear();
                }
            }
            Ok(text)
        };
        read().map_err(|e: HistoryError| e.of(&self.path))
    }
}

fn add_boot(add: &Transaction, boot: &MachineBoot) -> Result<AddedBoot, HistoryError> {
    let sql = "SELECT id FROM boot WHERE machine = ? AND boot_key = ?";
    let there = add.query_row(sql, [&boot.machine, &boot.boot_key], |row| row.get(0)).optional()?;
    if let Some(boot) = there {
        return Ok(AddedBoot { boot, new: false });
    }
    let packages = if boot.packages.is_empty() { None } else { Some(add_packages(add, &boot.packages)?) };
    add.execute(
        "INSERT INTO boot (boot_key, machine, placed, began, kernel, firmware, outcome, end_code, unit, total_ns, error_ns, packages)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        params![
            boot.boot_key,
            boot.machine,
            boot.placed,
            boot.began,
            boot.kernel,
            boot.firmware,
            boot.outcome,
            boot.end_code,
            boot.unit,
            boot.total_ns,
            boot.error_ns,
            packages
        ],
    )?;
    let number = add.last_insert_rowid();
    // Parts of one name count together.
    let sql = "INSERT INTO boot_part (boot, kind, name, ns) VALUES (?, ?, ?, ?)
               ON CONFLICT DO UPDATE SET ns = ns + excluded.ns WHERE kind <> 'milestone'";
    let mut insert = add.prepare(sql)?;
    for part in &boot.parts {
        insert.execute(params![number, part.kind.as_str(), part.name, part.ns])?;
    }
    Ok(AddedBoot { boot: number, new: true })
}

fn add_packages(add: &Transaction, list: &str) -> Result<i64, HistoryError> {
    let sha256 = hex(&Sha256::digest(list));
    let sql = "SELECT id FROM packages WHERE sha256 = ?";
    if let Some(there) = add.query_row(sql, [&sha256], |row| row.get(0)).optional()? {
        return Ok(there);
    }
    let packed = zstd::bulk::compress(list.as_bytes(), COMPRESSION_LEVEL);
    let packed = packed.map_err(|e| HistoryError::Refused(e.to_string()))?;
    add.execute("INSERT INTO packages (sha256, list) VALUES (?, ?)", params![sha256, packed])?;
    Ok(add.last_insert_rowid())
}

fn stored(row: &Row) -> rusqlite::Result<StoredBoot> {
    let boot = MachineBoot {
        boot_key: row.get(1)?,
        machine: row.get(2)?,
        placed: row.get(3)?,
        began: row.get(4)?,
        kernel: row.get(5)?,
        firmware: row.get(6)?,
        outcome: row.get(7)?,
        end_code: row.get(8)?,
        unit: row.get(9)?,
        total_ns: row.get(10)?,
        error_ns: row.get(11)?,
        packages: String::new(),
        parts: Vec::new(),
    };
    Ok(StoredBoot { number: row.get(0)?, boot, packages: row.get(12)? })
}

fn read_parts(db: &Connection, stored: &mut StoredBoot) -> rusqlite::Result<()> {
    let mut select = db.prepare("SELECT kind, name, ns FROM boot_part WHERE boot = ?")?;
    let mut rows = select.query([stored.number])?;
    while let Some(row) = rows.next()? {
        let word: String = row.get(0)?;
        // A kind of a later version is left out.
        let Some(kind) = PartKind::ALL.into_iter().find(|kind| kind.as_str() == word) else { continue };
        stored.boot.parts.push(BootPart { kind, name: row.get(1)?, ns: row.get(2)? });
    }
    // Milestones have an order in time; phases and rows by length.
    stored.boot.parts.sort_by_key(|part| match part.kind {
        PartKind::Milestone => (part.kind, part.ns),
        _ => (part.kind, part.ns.saturating_neg()),
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn boot(number: usize) -> MachineBoot {
        let part = |kind, name: &str, ns| BootPart { kind, name: name.to_owned(), ns };
        MachineBoot {
            boot_key: format!("{number:032x}"),
            machine: "m".to_owned(),
            placed: format!("2026-01-01T{:02}:{:02}:{:02}Z", number / 3600, number / 60 % 60, number % 60),
            kernel: "6.1".to_owned(),
            total_ns: Some(1_000_000_000),
            packages: format!("libc {}\n", number / 10),
            parts: vec![
                part(PartKind::Phase, "user space", 600),
                part(PartKind::Phase, "user space", 100),
                part(PartKind::Milestone, "process-1", 300),
                part(PartKind::Row, "x", 5),
            ],
            ..MachineBoot::default()
        }
    }

    #[test]
    fn a_boot_counts_once_for_its_machine() {
        let folder = tempfile::tempdir().unwrap();
        let mut history = History::open(&folder.path().join("history.db")).unwrap();
        let elsewhere = MachineBoot { machine: "other".to_owned(), ..boot(1) };
        let added = history.add_boots(&[boot(1), boot(2), boot(1), elsewhere]).unwrap();
        assert_eq!(
            added.iter().map(|added| (added.boot, added.new)).collect::<Vec<_>>(),
            [(1, true), (2, true), (1, false), (3, true)]
        );
        assert_eq!(history.add_boots(&[boot(2)]).unwrap(), [AddedBoot { boot: 2, new: false }]);
        let machines: Vec<(String, u64)> =
            history.machines().unwrap().into_iter().map(|machine| (machine.machine, machine.boots)).collect();
        assert_eq!(machines, [("m".to_owned(), 2), ("other".to_owned(), 1)]);
        let found = history.boots("m", 5).unwrap();
        let parts: Vec<(PartKind, i64)> = found[0].boot.parts.iter().map(|part| (part.kind, part.ns)).collect();
        assert_eq!(parts, [(PartKind::Phase, 700), (PartKind::Milestone, 300), (PartKind::Row, 5)]);
        assert_eq!(history.packages(found[0].packages.unwrap()).unwrap(), "libc 0\n");
        assert_eq!(history.packages(99).unwrap(), "");
    }

    /// The bound is on what SQLite does, not on time: a host may be busy.
    #[test]
    fn the_newest_of_ten_thousand_boots_are_found_by_the_index() {
        let folder = tempfile::tempdir().unwrap();
        let mut history = History::open(&folder.path().join("history.db")).unwrap();
        let boots: Vec<MachineBoot> = (0..10_000).map(boot).collect();
        let begun = Instant::now();
        history.add_boots(&boots).unwrap();
        let added = begun.elapsed();
        let begun = Instant::now();
        let newest = history.boots("m", 100).unwrap();
        println!(
            "10 000 boots added in {} ms, the newest 100 read in {} ms",
            added.as_millis(),
            begun.elapsed().as_millis()
        );
        assert_eq!((newest.len(), newest[0].number, newest[99].number), (100, 9901, 10_000));
        let sql = "EXPLAIN QUERY PLAN SELECT * FROM boot WHERE machine = 'm' ORDER BY placed DESC, id DESC LIMIT 100";
        let plan: String = history.db.query_row(sql, [], |row| row.get(3)).unwrap();
        assert!(plan.contains("USING INDEX boot_by_time"), "{plan}");
        let lists: i64 = history.db.query_row("SELECT count(*) FROM packages", [], |row| row.get(0)).unwrap();
        assert_eq!(lists, 1000, "equal lists are stored once");
    }
}
