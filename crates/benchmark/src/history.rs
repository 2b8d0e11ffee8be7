//! All benches of a host, in one SQLite database: whole documents, and beside them the columns that lists and plots need.
//!
//! Several programs may write at once: the database has a write-ahead log (<https://www.sqlite.org/wal.html>), each bench
//! is one transaction, and a writer waits while the database is busy. Adding a bench twice changes nothing: the hash of its
//! document identifies it, or its boots if another version wrote the document. Nothing is ever removed. [`schema`] describes
//! the layout, and [`setup`] decides which benches can be compared. [`boots`] has the boots of machines that people use.

mod boots;
mod error;
mod filter;
mod open;
mod schema;
mod setup;
mod trials;

pub use boots::{AddedBoot, BootPart, Machine, MachineBoot, PartKind, StoredBoot};
pub use error::HistoryError;
pub use filter::Filter;
pub use setup::Setup;
pub use trials::PastTrial;

use crate::document::Document;
use crate::hex;
use crate::metrics::{Metric, PerMetric, Source, by_name};
use crate::runs::Boot;
use open::{check_regular, connect, read_only};
use recording::InputRole;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Transaction, TransactionBehavior, params};
use serde::{Deserialize, Serialize};
use setup::sha256;
use sha2::{Digest, Sha256};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Maximum time to wait for another program's lock.
const MAX_LOCK_WAIT: Duration = Duration::from_secs(20);
/// Maximum size of an unpacked document. No bench writes a larger one.
const MAX_DOCUMENT_BYTES: u64 = 1 << 30;
/// Ratio of unpacked to packed size for which memory is reserved. It is usually 5, and larger if all boots are equal.
const RESERVED_RATIO: usize = 20;
/// Compression level of zstd: quick, and packs to a fifth of the size.
const COMPRESSION_LEVEL: i32 = 3;

/// An open history.
#[derive(Debug)]
pub struct History {
    db: Connection,
    path: PathBuf,
}

/// The bench that an addition added or found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Added {
    /// The bench's number in the database.
    pub bench: i64,
    /// True if the history did not have it before.
    pub new: bool,
}

/// One variant of one bench, as lists and plots need it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Entry {
    /// The bench's number in the database.
    pub bench: i64,
    /// Number of the variant in its bench, from 0.
    pub variant: usize,
    /// The variant's name.
    pub name: String,
    /// The setup's number: entries of one setup can be compared.
    pub setup: i64,
    /// Time when the bench began, RFC 3339, UTC.
    pub created: String,
    /// Kernel release or file name.
    pub kernel: String,
    /// Hash of the kernel, hexadecimal; empty if unknown.
    pub kernel_sha256: String,
    /// True if boots were deterministic, so that times are guest time.
    pub deterministic: bool,
    /// Number of boots that count.
    pub boots: u64,
    /// Number of these that failed.
    pub failed: u64,
    /// Median of the totals, in ns. This and the next four are null if no boot reached its end mark.
    pub median_ns: Option<f64>,
    /// Lower end of the median's interval.
    pub low_ns: Option<f64>,
    /// Upper end of the median's interval.
    pub high_ns: Option<f64>,
    /// Mean of the totals.
    pub mean_ns: Option<f64>,
    /// Standard deviation of the totals. Null for a single boot.
    pub sd_ns: Option<f64>,
    /// The other metrics.
    #[serde(default, with = "by_name")]
    #[schemars(with = "crate::metrics::ByName<Level>")]
    pub metrics: PerMetric<Level>,
}

/// A metric of one variant of one bench, in its unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Level {
    /// Median over the boots.
    pub median: f64,
    /// Lower end of the median's interval.
    pub low: f64,
    /// Upper end of the median's interval.
    pub high: f64,
    /// Mean over the boots.
    pub mean: f64,
    /// Standard deviation over the boots. Null for a single boot.
    pub sd: Option<f64>,
}

impl Entry {
    /// The values of a metric over the boots of this entry. `None` if no boot has the metric.
    pub fn level(&self, metric: &Metric) -> Option<Level> {
        if metric.from != Source::Length {
            return self.metrics.known(metric.name).copied();
        }
        let (median, mean) = (self.median_ns?, self.mean_ns?);
        Some(Level {
            median,
            low: self.low_ns.unwrap_or(median),
            high: self.high_ns.unwrap_or(median),
            mean,
            sd: self.sd_ns,
        })
    }
}

/// The default path of the history: `$XDG_DATA_HOME/bootscope/history.db`.
pub fn default_path() -> Result<PathBuf, HistoryError> {
    xdg::BaseDirectories::with_prefix("bootscope").get_data_file("history.db").ok_or(HistoryError::Nowhere)
}

impl History {
    /// Opens the history, or creates it.
    pub fn open(path: &Path) -> Result<History, HistoryError> {
        check_regular(path).map_err(|e| e.of(path))?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(Err(why)) = folder.map(std::fs::create_dir_all) {
            return Err(HistoryError::Refused(format!("its folder cannot be made: {why}")).of(path));
        }
        connect(path, OpenFlags::SQLITE_OPEN_CREATE).map_err(|e| e.of(path))
    }

    /// Opens an existing history for reading, even if neither it nor its folder may be written.
    pub fn open_existing(path: &Path) -> Result<History, HistoryError> {
        check_regular(path).map_err(|e| e.of(path))?;
        if !path.exists() {
            return Err(HistoryError::None(path.to_owned()));
        }
        match connect(path, OpenFlags::empty()) {
            Err(HistoryError::Refused(_)) => read_only(path),
            opened => opened,
        }
        .map_err(|e| e.of(path))
    }

    /// Sets the maximum time to wait for another program's lock; the default is 20 s.
    pub fn wait_at_most(&self, max_wait: Duration) -> Result<(), HistoryError> {
        self.db.busy_timeout(max_wait).map_err(|e| HistoryError::from(e).of(&self.path))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a bench. If this succeeds, all of it is on disk; if not, nothing of it is in the database.
    pub fn add(&mut self, document: &Document) -> Result<Added, HistoryError> {
        let added = self.add_all(std::slice::from_ref(document))?;
        Ok(added[0])
    }

    /// Adds benches: all of them, or on an error not one.
    pub fn add_all(&mut self, documents: &[Document]) -> Result<Vec<Added>, HistoryError> {
        self.add_inside(documents).map_err(|e| e.of(&self.path))
    }

    fn add_inside(&mut self, documents: &[Document]) -> Result<Vec<Added>, HistoryError> {
        let add = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let added = documents.iter().map(|document| add_one(&add, document)).collect::<Result<Vec<Added>, _>>()?;
        add.commit()?;
        Ok(added)
    }

    /// The selected entries, oldest first.
    pub fn entries(&self, filter: &Filter) -> Result<Vec<Entry>, HistoryError> {
        self.entries_inside(filter).map_err(|e| e.of(&self.path))
    }

    fn entries_inside(&self, filter: &Filter) -> Result<Vec<Entry>, HistoryError> {
        let sql = format!(
            "SELECT bench, number, name, setup, created, kernel, kernel_sha256, deterministic, boots, failed,
                    median_ns, low_ns, high_ns, mean_ns, sd_ns
             FROM variant WHERE {} ORDER BY created DESC, bench DESC, number DESC LIMIT :newest",
            filter.conditions()
        );
        let mut select = self.db.prepare(&sql)?;
        let newest = filter.newest.map_or(-1, |n| i64::try_from(n).unwrap_or(i64::MAX));
        let mut rows = filter.bind(&mut select, &[(":newest", &newest)])?;
        let mut entries = Vec::new();
        while let Some(row) = rows.next()? {
            entries.push(entry(row)?);
        }
        entries.reverse();
        if schema::has_metrics(&self.db)? {
            entries.iter_mut().try_for_each(|entry| self.read_metrics(entry))?;
        }
        Ok(entries)
    }

    /// The first entry of a bench. `None` if there is no such bench.
    pub fn entry(&self, bench: i64) -> Result<Option<Entry>, HistoryError> {
        let one = Filter { bench: Some(bench), ..Filter::default() };
        Ok(self.entries(&one)?.into_iter().next())
    }

    /// Number of selected entries. Ignores [`Filter::newest`].
    pub fn count(&self, filter: &Filter) -> Result<u64, HistoryError> {
        let count = || {
            let mut select = self.db.prepare(&format!("SELECT count(*) FROM variant WHERE {}", filter.conditions()))?;
            let mut rows = filter.bind(&mut select, &[])?;
            Ok(rows.next()?.map_or(Ok(0), |row| row.get::<_, i64>(0))?.unsigned_abs())
        };
        count().map_err(|e: HistoryError| e.of(&self.path))
    }

    fn read_metrics(&self, entry: &mut Entry) -> rusqlite::Result<()> {
        let sql = "SELECT median, low, high, mean, sd FROM metric WHERE bench = ? AND number = ? AND metric = ?";
        let mut select = self.db.prepare(sql)?;
        let number = i64::try_from(entry.variant).unwrap_or(i64::MAX);
        let mut failed = None;
        entry.metrics = PerMetric::of(|metric| {
            let level = |row: &rusqlite::Row| {
                Ok(Level {
                    median: row.get(0)?,
                    low: row.get(1)?,
                    high: row.get(2)?,
                    mean: row.get(3)?,
                    sd: row.get(4)?,
                })
            };
            let stored = select.query_row(params![entry.bench, number, metric.name], level).optional();
            stored.unwrap_or_else(|e| {
                failed = Some(e);
                None
            })
        });
        failed.map_or(Ok(()), Err)
    }

    /// The benches and a metric's medians of the selected entries, oldest first. Entries without the metric are left out.
    pub fn medians(&self, filter: &Filter, metric: &Metric) -> Result<Vec<(i64, f64)>, HistoryError> {
        let medians = || {
            let is_length = metric.from == Source::Length;
            if !is_length && !schema::has_metrics(&self.db)? {
                return Ok(Vec::new());
            }
            let (median, from) = match is_length {
                true => ("median_ns", "variant".to_owned()),
                // The name is a constant of the table METRICS and needs no escaping.
                false => (
                    "median",
                    format!(
                        "variant JOIN (SELECT * FROM metric WHERE metric = '{}') USING (bench, number)",
                        metric.name
                    ),
                ),
            };
            let sql = format!(
                "SELECT bench, {median} FROM {from} WHERE {median} IS NOT NULL AND {} ORDER BY created, bench, number",
                filter.conditions()
            );
            let mut select = self.db.prepare(&sql)?;
            let mut rows = filter.bind(&mut select, &[])?;
            let mut medians = Vec::new();
            while let Some(row) = rows.next()? {
                medians.push((row.get(0)?, row.get(1)?));
            }
            Ok(medians)
        };
        medians().map_err(|e: HistoryError| e.of(&self.path))
    }

    /// Reads a setup by its number.
    pub fn setup(&self, setup: i64) -> Result<Setup, HistoryError> {
        Setup::read(&self.db, setup).map_err(|e| HistoryError::from(e).of(&self.path))
    }

    /// The document of a bench, with every raw sample. `None` if there is no such bench.
    pub fn document(&self, bench: i64) -> Result<Option<Document>, HistoryError> {
        self.document_inside(bench).map_err(|e| e.of(&self.path))
    }

    fn document_inside(&self, bench: i64) -> Result<Option<Document>, HistoryError> {
        let mut select = self.db.prepare("SELECT json FROM document WHERE bench = ?")?;
        let mut rows = select.query([bench])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        unpack(bench, &row.get::<_, Vec<u8>>(0)?).map(Some)
    }

    /// The number of a variant's setup, if the history has it: entries of that setup can be compared with the variant.
    pub fn setup_of(&self, document: &Document, variant: usize) -> Result<Option<i64>, HistoryError> {
        let setup = Setup::of(document, variant);
        setup.find(&self.db).map_err(|e| HistoryError::from(e).of(&self.path))
    }
}

/// Hash of a variant's kernel, hexadecimal. Empty if unknown.
pub fn kernel_sha256(document: &Document, variant: usize) -> String {
    document.head.variants.get(variant).map(|variant| sha256(variant, InputRole::Kernel)).unwrap_or_default()
}

fn add_one(add: &Transaction, document: &Document) -> Result<Added, HistoryError> {
    let json = serde_json::to_vec(document).expect("plain data always serializes");
    let sha256 = hex(&Sha256::digest(&json));
    if let Some(bench) = same_bench(add, document)? {
        return Ok(Added { bench, new: false });
    }
    let insert = "INSERT INTO bench (sha256, created) VALUES (?, ?) ON CONFLICT DO NOTHING";
    if add.execute(insert, [&sha256, &document.head.created])? == 0 {
        let bench = add.query_row("SELECT id FROM bench WHERE sha256 = ?", [&sha256], |row| row.get(0))?;
        return Ok(Added { bench, new: false });
    }
    let bench = add.last_insert_rowid();
    for number in 0..document.head.variants.len() {
        add_variant(add, document, bench, number)?;
    }
    trials::add(add, document, bench)?;
    let packed = zstd::bulk::compress(&json, COMPRESSION_LEVEL).map_err(|e| HistoryError::Refused(e.to_string()))?;
    add.execute("INSERT INTO document (bench, json) VALUES (?, ?)", params![bench, packed])?;
    Ok(Added { bench, new: true })
}

/// The stored bench with the same boots, if there is one. Its document may differ: another version computes other results.
fn same_bench(add: &Transaction, document: &Document) -> Result<Option<i64>, HistoryError> {
    let sql = "SELECT bench, json FROM document WHERE bench IN (SELECT bench FROM variant WHERE created = ?)";
    let mut select = add.prepare(sql)?;
    let mut rows = select.query([&document.head.created])?;
    while let Some(row) = rows.next()? {
        let bench = row.get(0)?;
        if unpack(bench, &row.get::<_, Vec<u8>>(1)?).is_ok_and(|stored| has_same_boots(&stored, document)) {
            return Ok(Some(bench));
        }
    }
    Ok(None)
}

/// True if two documents have the same boots: one plan, the same kernels, and the same begins and lengths to the nanosecond.
fn has_same_boots(one: &Document, other: &Document) -> bool {
    let boots = |document: &Document| -> Vec<_> {
        let boot = |boot: &Boot| (boot.number, boot.variant, boot.began_ns, boot.measured.total_ns);
        document.boots.iter().map(boot).collect()
    };
    let kernels = |document: &Document| -> Vec<String> {
        document.head.variants.iter().map(|variant| sha256(variant, InputRole::Kernel)).collect()
    };
    one.head.plan.seed == other.head.plan.seed
        && one.head.up_to == other.head.up_to
        && one.head.trial == other.head.trial
        && one.ended == other.ended
        && kernels(one) == kernels(other)
        && boots(one) == boots(other)
}

fn add_variant(add: &Transaction, document: &Document, bench: i64, number: usize) -> Result<(), HistoryError> {
    let setup = Setup::of(document, number).find_or_add(add)?;
    let variant = &document.head.variants[number];
    let counted = document.boots.iter().filter(|boot| boot.variant == number && boot.round.is_some());
    let (boots, failed) = counted.fold((0, 0), |(n, f), b| (n + 1, f + i64::from(b.measured.total_ns.is_none())));
    let total = document.results.variants.get(number).and_then(|variant| variant.total.as_ref());
    add.execute(
        "INSERT INTO variant (bench, number, name, setup, kernel, kernel_sha256, created, deterministic, boots, failed,
                              median_ns, low_ns, high_ns, mean_ns, sd_ns)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        params![
            bench,
            i64::try_from(number).unwrap_or(i64::MAX),
            variant.name,
            setup,
            variant.booted.kernel,
            sha256(variant, InputRole::Kernel),
            document.head.created,
            document.head.deterministic,
            boots,
            failed,
            total.map(|t| t.median.estimate),
            total.map(|t| t.median.low),
            total.map(|t| t.median.high),
            total.map(|t| t.mean),
            total.and_then(|t| t.sd),
        ],
    )?;
    add_metrics(add, document, bench, number)?;
    Ok(())
}

/// Adds the metrics of benches that were added when the history did not store metrics yet.
fn add_metrics_of_all(add: &Transaction) -> Result<(), HistoryError> {
    let mut select = add.prepare("SELECT bench, json FROM document")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let bench = row.get(0)?;
        // A document that cannot be read keeps its row without metrics.
        let Ok(document) = unpack(bench, &row.get::<_, Vec<u8>>(1)?) else { continue };
        for number in 0..document.results.variants.len() {
            add_metrics(add, &document, bench, number)?;
        }
    }
    Ok(())
}

fn add_metrics(add: &Connection, document: &Document, bench: i64, number: usize) -> rusqlite::Result<()> {
    let Some(runs) = document.results.variants.get(number) else { return Ok(()) };
    let sql = "INSERT INTO metric (bench, number, metric, median, low, high, mean, sd) VALUES (?, ?, ?, ?, ?, ?, ?, ?)";
    let mut insert = add.prepare(sql)?;
    let number = i64::try_from(number).unwrap_or(i64::MAX);
    for (metric, description) in runs.metrics.iter() {
        let Some(description) = description else { continue };
        let median = &description.median;
        insert.execute(params![
            bench,
            number,
            metric.name,
            median.estimate,
            median.low,
            median.high,
            description.mean,
            description.sd
        ])?;
    }
    Ok(())
}

/// Unpacks and parses a stored document.
fn unpack(bench: i64, packed: &[u8]) -> Result<Document, HistoryError> {
    let unreadable = |why: String| HistoryError::Unreadable { bench, why };
    // A frame declares the length of its content. A wrong length must not reserve more than the packed bytes can become.
    let declared = zstd::zstd_safe::get_frame_content_size(packed).ok().flatten().unwrap_or_default();
    let declared = usize::try_from(declared).unwrap_or(usize::MAX);
    let mut json = Vec::with_capacity(declared.min(packed.len().saturating_mul(RESERVED_RATIO)));
    let unpacking = zstd::Decoder::with_buffer(packed).map_err(|e| unreadable(e.to_string()))?;
    unpacking.take(MAX_DOCUMENT_BYTES + 1).read_to_end(&mut json).map_err(|e| unreadable(e.to_string()))?;
    if json.len() as u64 > MAX_DOCUMENT_BYTES {
        return Err(unreadable(format!("it has more than {} MiB", MAX_DOCUMENT_BYTES >> 20)));
    }
    let document: Document = serde_json::from_slice(&json).map_err(|e| unreadable(e.to_string()))?;
    Ok(document.computed_again())
}

fn entry(row: &rusqlite::Row) -> rusqlite::Result<Entry> {
    let count = |i| row.get::<_, i64>(i).map(|n| u64::try_from(n).unwrap_or(0));
    Ok(Entry {
        bench: row.get(0)?,
        variant: usize::try_from(count(1)?).unwrap_or(usize::MAX),
        name: row.get(2)?,
        setup: row.get(3)?,
        created: row.get(4)?,
        kernel: row.get(5)?,
        kernel_sha256: row.get(6)?,
        deterministic: row.get(7)?,
        boots: count(8)?,
        failed: count(9)?,
        median_ns: row.get(10)?,
        low_ns: row.get(11)?,
        high_ns: row.get(12)?,
        mean_ns: row.get(13)?,
        sd_ns: row.get(14)?,
        metrics: PerMetric::default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::Variant;
    use crate::metrics::{TOTAL, Values};
    use crate::{Boot, Head, Measured, Plan, Stop};

    #[test]
    fn a_history_of_the_layout_without_metrics_is_read_and_gets_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.db");
        let boot = |number: u32| {
            let of = |source| (source == Source::Meminfo("MemTotal")).then_some(500_000_000 + u64::from(number));
            let (total_ns, metrics) = (Some(1_000_000_000), Values::gather(of));
            let measured = Measured { total_ns, metrics, ..Measured::default() };
            Boot { number, round: Some(number), variant: 0, began_ns: 0, measured }
        };
        let plan =
            Plan { variants: 1, warm_ups: 0, stop: Stop { rounds: 7, ..Stop::default() }, seed: 1, ..Plan::default() };
        let head = Head::of(plan, vec![Variant::named("as given")]);
        let document = Document::new(head, (0..7).map(boot).collect(), None);
        History::open(&path).unwrap().add(&document).unwrap();
        let as_before = |db: &Connection| {
            db.execute_batch(
                "DROP TABLE metric; DROP TABLE trial; DROP TABLE boot_part; DROP TABLE boot; DROP TABLE packages; PRAGMA user_version = 1; PRAGMA journal_mode = DELETE",
            )
            .unwrap();
        };
        as_before(&Connection::open(&path).unwrap());
        // As if the user may not write the file.
        let bytes = std::fs::read(&path).unwrap();
        let total = Metric::named("guest_total").unwrap();
        let medians = |history: &History| history.medians(&Filter::default(), total).unwrap();
        let opened = read_only(&path).unwrap();
        assert_eq!(opened.entries(&Filter::default()).unwrap()[0].level(total), None);
        assert_eq!((medians(&opened), opened.medians(&Filter::default(), &TOTAL).unwrap().len()), (vec![], 1));
        drop(opened);
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
        let found = History::open_existing(&path).unwrap();
        assert_eq!(medians(&found), [(1, 500_000_003.0)], "from the document, with every raw sample");
        assert_eq!(found.entries(&Filter::default()).unwrap()[0].level(total).unwrap().low, 500_000_000.0);
    }
}
