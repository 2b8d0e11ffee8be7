//! `send`: copies the boots of a lake in a folder to a lake in an object store. `bootscope lake add --to s3://…` first adds to a
//! temporary folder, and then calls this.
//!
//! It keeps the rules of a lake in a folder (`crates/lake/src/folder.rs`). A boot is in the lake when `boots` has it, so that
//! file is sent last. A sender holds the object `adding.json`, which names the batch. A conditional put, as in S3 and compatible
//! stores, creates it only if it does not exist. So two senders at the same time lose nothing. An object store cannot report
//! that a sender is dead. A sender that sees the same version of `adding.json` for the time of a lease, by its own clock, takes
//! over. The files of the other stay for a day, because it may still be alive; files of a batch without its `boots` are not
//! read.
//!
//! A request may arrive long after its sender gave it up. So a file is put only once, and only if it does not exist. If a sender
//! gives up a batch after it requested its `boots`, it puts a `boots` without rows, so that the store refuses the late request.
//! If that fails, because the sender died or the store cannot be reached, boots may be in the lake twice. The next sender finds
//! them and takes one of the batches back.

use crate::LakeArgs;
use crate::engine::{self, ADDING, BOOTS, Engine, EngineArgs, HEAD, SCHEMA, TABLES};
use crate::questions::sums::{at, each};
use anyhow::Context as _;
use arrow::array::AsArray as _;
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use datafusion::parquet::file::reader::ChunkReader;
use futures::TryStreamExt as _;
use object_store::path::Path as ObjectPath;
use object_store::{ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, PutPayload, UpdateVersion};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{Write as _, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time without a new version of `adding.json` after which a sender counts as dead.
const LEASE: Duration = Duration::from_secs(120);
/// Age after which files without `boots` count as abandoned.
const ABANDONED_AGE: Duration = Duration::from_secs(24 * 3600);
/// Maximum number of abandoned batches that are given up in one turn.
const MAX_ABANDONED: usize = 50;
/// Interval between checks for the end of another sender.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Send a lake in a folder to one in an object store
#[derive(clap::Args)]
pub struct Args {
    /// The folder
    from: PathBuf,
    #[command(flatten)]
    to: LakeArgs,
}

/// Print the identities of a lake's boots, a line each; none if no lake is there
#[derive(clap::Args)]
pub struct BootIdsArgs {
    #[command(flatten)]
    lake: LakeArgs,
}

/// Result of sending a lake.
#[derive(Serialize)]
struct Sent {
    /// Number of boots that were added.
    new: usize,
    /// Boots that the lake had already. If there are any, nothing was sent; the caller can send again without them.
    there: BTreeSet<String>,
}

/// Prints the identities of a lake's boots.
pub async fn boot_ids(args: &BootIdsArgs) -> anyhow::Result<ExitCode> {
    let Engine { store, root, .. } = Engine::connect(&args.lake.lake, &args.lake.engine).await?;
    let store = Store { store, root, who: who(), turns: AtomicUsize::new(0) };
    if store.is_lake().await? {
        let mut out = stdout().lock();
        for boot in boots_of(&args.lake).await?.ids {
            writeln!(out, "{boot}").context("cannot write to standard output")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Content of `adding.json`, as for a lake in a folder, with the sender and a counter.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
struct Adding {
    day: String,
    name: String,
    #[serde(default)]
    who: String,
    /// Counter that makes each version different.
    #[serde(default)]
    said: u64,
}

impl Adding {
    fn batch(&self) -> Batch {
        Batch { day: self.day.clone(), name: self.name.clone() }
    }
}

/// A batch, whose files are `TABLE/day=DAY/NAME.parquet`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Batch {
    day: String,
    name: String,
}

impl Batch {
    /// The batch's name in the store. Two senders may send the same boots, which have the same name in folders. A sender that loses
    /// the lease must give up only its own files, so the name depends on the sender. It also depends on the turn, so that a batch
    /// given up in one turn does not block the next.
    fn sent_by(&self, held: &Held) -> Batch {
        let mut hasher = DefaultHasher::new();
        (&held.adding.who, held.turn, &self.name).hash(&mut hasher);
        Batch { day: self.day.clone(), name: format!("{:016x}", hasher.finish()) }
    }

    fn file(&self, table: &str) -> String {
        format!("{table}/day={}/{}.parquet", self.day, self.name)
    }
}

/// Sends a lake. After an error, tries one more turn.
pub async fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Engine { store, root, .. } = Engine::connect(&args.to.lake, &args.to.engine).await?;
    let store = Store { store, root, who: who(), turns: AtomicUsize::new(0) };
    store.make_head().await?;
    let none = no_boots(&args.from)?;
    let mut doubtful = None;
    let mut failed = None;
    let sent = loop {
        let mut held = store.take().await?;
        let turn = send(&store, &mut held, args, &none, &mut doubtful).await;
        // Remove the files of a batch that is given up. If that fails, they do no harm: readers ignore them.
        match (&turn, &doubtful) {
            (Ok(Turn::Sent(_)), _) => {}
            (_, None) => drop(store.remove_unfinished(&held.adding.batch()).await),
            (Err(_), Some(batch)) if failed.is_some() => drop(store.give_up(batch, &none).await),
            // Another turn finds out if its `boots` arrived.
            (_, Some(_)) => {}
        }
        let left = store.leave(&held).await;
        match turn {
            Ok(Turn::Sent(sent)) => {
                left?;
                break sent;
            }
            Ok(Turn::Lost) => {}
            Err(e) if failed.is_none() => failed = Some(e),
            Err(e) => return Err(failed.unwrap_or(e)),
        }
    };
    println!("{}", serde_json::to_string(&sent)?);
    Ok(ExitCode::SUCCESS)
}

/// An identity of this sender, different from all others.
fn who() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    format!("{:x}-{now:x}", std::process::id())
}

/// The end of a turn.
enum Turn {
    /// The turn has a result.
    Sent(Sent),
    /// Another sender took over.
    Lost,
}

/// Sends in one turn. Sets `doubtful` to the batch whose `boots` may or may not have arrived during this turn.
async fn send(
    store: &Store,
    held: &mut Held,
    args: &Args,
    none: &[u8],
    doubtful: &mut Option<Batch>,
) -> anyhow::Result<Turn> {
    store.remove_forgotten(ABANDONED_AGE, none).await?;
    let from = LakeArgs { lake: args.from.display().to_string(), engine: EngineArgs::default() };
    let all = boots_of(&from).await?.ids;
    let mut boots = boots_of(&args.to).await?;
    if boots.has_twice && !none.is_empty() {
        store.take_back_twice(none).await?;
        boots = boots_of(&args.to).await?;
    }
    *doubtful = None;
    let there: BTreeSet<String> = all.intersection(&boots.ids).cloned().collect();
    if !there.is_empty() {
        return Ok(Turn::Sent(Sent { new: 0, there }));
    }
    for here in batches(&args.from)? {
        let batch = here.sent_by(held);
        for table in TABLES {
            // Update `adding.json` for each file, to show that this sender is alive.
            if !store.note(held, &batch).await? {
                return Ok(Turn::Lost);
            }
            let file = args.from.join(here.file(table));
            let bytes = std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
            if table == BOOTS {
                // Doubtful until the lease is confirmed: another sender may send the same boots, or find them and send none.
                *doubtful = Some(batch.clone());
            }
            store.put(&batch.file(table), bytes).await?;
        }
        if !store.note(held, &batch).await? {
            return Ok(Turn::Lost);
        }
        *doubtful = None;
    }
    Ok(Turn::Sent(Sent { new: all.len(), there }))
}

/// The identities of a lake's boots.
#[derive(Default)]
struct BootIds {
    ids: HashSet<String>,
    /// True if a boot is in the lake more than once.
    has_twice: bool,
}

/// Reads the identities of a lake's boots. An empty lake has none.
async fn boots_of(lake: &LakeArgs) -> anyhow::Result<BootIds> {
    let mut boots = BootIds::default();
    let engine = Engine::connect(&lake.lake, &lake.engine).await?;
    if engine::batches(&*engine.store, &engine.root, BOOTS).await?.is_empty() {
        return Ok(boots);
    }
    each(&Engine::open_tables(&lake.lake, &lake.engine, &[BOOTS]).await?, "SELECT boot_id FROM boots", |part| {
        let ids = part.texts(0)?;
        for row in 0..part.rows() {
            boots.has_twice |= !boots.ids.insert(at(&ids, row).to_owned());
        }
        Ok(())
    })
    .await?;
    Ok(boots)
}

/// The batches of a lake in a folder, by its files of `boots`.
fn batches(lake: &Path) -> anyhow::Result<Vec<Batch>> {
    let mut batches = Vec::new();
    let folder = lake.join("boots");
    if !folder.exists() {
        return Ok(batches);
    }
    for day in std::fs::read_dir(&folder)? {
        let day = day?.path();
        let Some(name) = day.file_name().and_then(|name| name.to_str()?.strip_prefix("day=")).map(str::to_owned) else {
            continue;
        };
        for file in std::fs::read_dir(&day)? {
            let file = file?.path();
            let is_parquet = file.extension().is_some_and(|extension| extension == "parquet");
            if let Some(stem) = file.file_stem().and_then(|stem| stem.to_str()).filter(|_| is_parquet) {
                batches.push(Batch { day: name.clone(), name: stem.to_owned() });
            }
        }
    }
    batches.sort();
    Ok(batches)
}

/// The batch of a file with a name in a sender's format, `/day=2026-11-26/3a1d662dde9871b4.parquet`. Other files belong to the
/// user.
fn batch_of(file: &str) -> Option<Batch> {
    let (day, name) = file.strip_prefix("/day=")?.split_once('/')?;
    let name = name.strip_suffix(".parquet")?;
    let is_ours = name.len() == 16 && name.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    is_ours.then(|| Batch { day: day.to_owned(), name: name.to_owned() })
}

/// Reads the identities in a file of `boots`.
fn boots_in(bytes: impl ChunkReader + 'static) -> anyhow::Result<HashSet<String>> {
    let mut boots = HashSet::new();
    for rows in ParquetRecordBatchReaderBuilder::try_new(bytes)?.build()? {
        let rows = rows?;
        let ids = rows.column_by_name("boot_id").context("a file of boots has no boot_id")?;
        let ids = cast(ids, &DataType::Utf8)?;
        boots.extend(ids.as_string::<i32>().iter().flatten().map(str::to_owned));
    }
    Ok(boots)
}

/// A file of `boots` without rows, with the columns of a lake's. Empty if the lake has no batch.
fn no_boots(lake: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(batch) = batches(lake)?.first() {
        let path = lake.join(batch.file(BOOTS));
        let file = std::fs::File::open(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let columns = ParquetRecordBatchReaderBuilder::try_new(file)?.schema().clone();
        ArrowWriter::try_new(&mut bytes, columns, None)?.close()?;
    }
    Ok(bytes)
}

struct Store {
    store: Arc<dyn ObjectStore>,
    root: ObjectPath,
    who: String,
    /// Number of turns that this sender has begun.
    turns: AtomicUsize,
}

/// The lease, with the version of `adding.json` that grants it.
struct Held {
    adding: Adding,
    version: UpdateVersion,
    /// Number of turns of this sender before this one.
    turn: usize,
}

impl Store {
    fn at(&self, file: &str) -> ObjectPath {
        file.split('/').fold(self.root.clone(), |path, part| path.join(part))
    }

    /// Puts a file once. No other sender uses its name.
    async fn put(&self, file: &str, bytes: Vec<u8>) -> anyhow::Result<()> {
        match self.store.put_opts(&self.at(file), bytes.into(), PutOptions::from(PutMode::Create)).await {
            Ok(_) => Ok(()),
            // The request may have succeeded although its answer was lost.
            Err(_) if self.store.head(&self.at(file)).await.is_ok() => Ok(()),
            Err(e) => Err(e).with_context(|| format!("cannot write {file}")),
        }
    }

    async fn is_lake(&self) -> anyhow::Result<bool> {
        match self.store.head(&self.at(HEAD)).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(e) => Err(e).context("cannot reach the object store"),
        }
    }

    /// Creates `lake.json`, unless it exists.
    async fn make_head(&self) -> anyhow::Result<()> {
        let head = format!("{{\"schema\": \"{SCHEMA}\"}}\n");
        let create = PutOptions::from(PutMode::Create);
        match self.store.put_opts(&self.at(HEAD), head.into(), create).await {
            Ok(_) | Err(object_store::Error::AlreadyExists { .. }) => Ok(()),
            Err(e) => Err(e).context("cannot make the lake (the object store must take conditional puts)"),
        }
    }

    /// Takes the lease. Waits until no other sender holds it.
    async fn take(&self) -> anyhow::Result<Held> {
        let turn = self.turns.fetch_add(1, Ordering::Relaxed);
        let mut mine = Adding { who: self.who.clone(), ..Adding::default() };
        let mut seen: Option<(UpdateVersion, Instant)> = None;
        loop {
            if let Some(version) = self.write(&mine, PutMode::Create).await? {
                return Ok(Held { adding: mine, version, turn });
            }
            let Some((noted, version)) = self.noted().await? else { continue };
            mine.said = noted.said + 1;
            let is_free = noted.who.is_empty();
            let is_same =
                |(same, _): &&(UpdateVersion, Instant)| same.e_tag == version.e_tag && same.version == version.version;
            match seen.as_ref().filter(is_same) {
                Some((_, since)) if since.elapsed() <= LEASE && !is_free => {}
                None if !is_free => seen = Some((version, Instant::now())),
                _ => {
                    if let Some(version) = self.write(&mine, PutMode::Update(version)).await? {
                        return Ok(Held { adding: mine, version, turn });
                    }
                }
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Writes `adding.json`. Returns `None` if another sender was quicker.
    async fn write(&self, adding: &Adding, mode: PutMode) -> anyhow::Result<Option<UpdateVersion>> {
        let bytes = PutPayload::from(serde_json::to_vec(adding)?);
        let refused = match self.store.put_opts(&self.at(ADDING), bytes, PutOptions::from(mode)).await {
            Ok(put) => return Ok(Some(put.into())),
            Err(e) => e,
        };
        // The request may have succeeded although its answer was lost.
        if let Ok(Some((noted, version))) = self.noted().await
            && noted == *adding
        {
            return Ok(Some(version));
        }
        match refused {
            object_store::Error::AlreadyExists { .. }
            | object_store::Error::Precondition { .. }
            | object_store::Error::NotFound { .. } => Ok(None),
            e => Err(e).context("cannot write adding.json (the object store must take conditional puts)"),
        }
    }

    async fn noted(&self) -> anyhow::Result<Option<(Adding, UpdateVersion)>> {
        let found = match self.store.get(&self.at(ADDING)).await {
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            found => found?,
        };
        let version = UpdateVersion { e_tag: found.meta.e_tag.clone(), version: found.meta.version.clone() };
        Ok(Some((serde_json::from_slice(&found.bytes().await?).unwrap_or_default(), version)))
    }

    /// Writes the next batch to `adding.json`, which also shows that this sender is alive. Returns false if another took over.
    async fn note(&self, held: &mut Held, batch: &Batch) -> anyhow::Result<bool> {
        let said = held.adding.said + 1;
        let adding = Adding { day: batch.day.clone(), name: batch.name.clone(), said, ..held.adding.clone() };
        let Some(version) = self.write(&adding, PutMode::Update(held.version.clone())).await? else {
            return Ok(false);
        };
        *held = Held { adding, version, turn: held.turn };
        Ok(true)
    }

    /// Gives up the batches without `boots` of dead senders: those that are at least `long` older than `adding.json`, by the store's
    /// clock.
    async fn remove_forgotten(&self, long: Duration, none: &[u8]) -> anyhow::Result<()> {
        let now = self.store.head(&self.at(ADDING)).await.context("cannot read adding.json")?.last_modified;
        let mut left = BTreeSet::new();
        for table in TABLES.into_iter().filter(|table| *table != BOOTS) {
            let files: Vec<_> = self.store.list(Some(&self.at(table))).try_collect().await?;
            let is_old = |age: Result<Duration, _>| age.unwrap_or_default() >= long;
            let old = files.iter().filter(|file| is_old((now - file.last_modified).to_std()));
            left.extend(old.filter_map(|file| batch_of(&file.location.as_ref()[self.at(table).as_ref().len()..])));
        }
        let boots = engine::batches(&*self.store, &self.root, BOOTS).await?;
        left.retain(|batch| !boots.contains(&batch.file("")));
        // Leave the rest for another time, so that this does not take longer than the lease.
        for batch in left.iter().take(if none.is_empty() { 0 } else { MAX_ABANDONED }) {
            self.give_up(batch, none).await?;
        }
        Ok(())
    }

    /// Blocks the `boots` of a batch that did not get one, and then removes the batch's files.
    async fn give_up(&self, batch: &Batch, none: &[u8]) -> anyhow::Result<()> {
        let create = PutOptions::from(PutMode::Create);
        match self.store.put_opts(&self.at(&batch.file(BOOTS)), none.to_vec().into(), create).await {
            Ok(_) => self.remove_tables(batch).await,
            // The batch got its `boots` after all.
            Err(object_store::Error::AlreadyExists { .. }) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Removes the files of a batch whose `boots` was not requested. Keeps a batch that was sent completely before.
    async fn remove_unfinished(&self, batch: &Batch) -> anyhow::Result<()> {
        match self.store.head(&self.at(&batch.file(BOOTS))).await {
            Err(object_store::Error::NotFound { .. }) => self.remove_tables(batch).await,
            // The `boots` exists, or the store cannot be reached.
            found => Ok(found.map(drop)?),
        }
    }

    /// Removes the files of a batch, except its `boots`.
    async fn remove_tables(&self, batch: &Batch) -> anyhow::Result<()> {
        for table in TABLES.into_iter().filter(|table| *table != BOOTS && !batch.name.is_empty()) {
            self.remove(&batch.file(table)).await?;
        }
        Ok(())
    }

    /// Takes back each batch whose boots are all in earlier ones. Reads all of `boots`. Such batches are very rare.
    async fn take_back_twice(&self, none: &[u8]) -> anyhow::Result<()> {
        let mut seen: HashSet<String> = HashSet::new();
        for name in engine::batches(&*self.store, &self.root, BOOTS).await? {
            let Some(batch) = batch_of(&name) else { continue };
            let file = self.at(&batch.file(BOOTS));
            let boots = boots_in(self.store.get(&file).await?.bytes().await?)?;
            if !boots.is_empty() && boots.is_subset(&seen) {
                self.store.put(&file, none.to_vec().into()).await.context("cannot take back boots")?;
                self.remove_tables(&batch).await?;
            }
            seen.extend(boots);
        }
        Ok(())
    }

    async fn remove(&self, file: &str) -> anyhow::Result<()> {
        match self.store.delete(&self.at(file)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(e) => Err(e).with_context(|| format!("cannot remove {file}")),
        }
    }

    /// Releases the lease, unless another sender took over.
    async fn leave(&self, held: &Held) -> anyhow::Result<()> {
        let free = Adding { said: held.adding.said + 1, ..Adding::default() };
        self.write(&free, PutMode::Update(held.version.clone())).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::memory::InMemory;

    #[test]
    fn only_names_of_batches_are_ours() {
        assert!(batch_of("/day=2026-11-26/3a1d662dde9871b4.parquet").is_some());
        for theirs in [
            "/day=2026-11-26/mine.parquet",
            "/day=2026-11-26/backup/3a1d662dde9871b4.parquet",
            "/day=2026-11-26/3A1D662DDE9871B4.parquet",
            "/3a1d662dde9871b4.parquet",
            "/day=2026-11-26/3a1d662dde9871b4.csv",
            "",
        ] {
            assert!(batch_of(theirs).is_none(), "{theirs}");
        }
    }

    fn store() -> Store {
        let root = ObjectPath::from("lake");
        Store { store: Arc::new(InMemory::new()), root, who: who(), turns: AtomicUsize::new(0) }
    }

    fn batch(name: &str) -> Batch {
        Batch { day: "2026-11-26".to_owned(), name: name.to_owned() }
    }

    #[tokio::test]
    async fn what_a_dead_sender_left_goes_after_a_day() {
        let store = store();
        store.take().await.unwrap();
        let [whole, left, theirs] = ["aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb", "mine"].map(batch);
        store.put(&whole.file(BOOTS), vec![1]).await.unwrap();
        for batch in [&whole, &left, &theirs] {
            store.put(&batch.file("rows"), vec![1]).await.unwrap();
        }
        let rows = async || engine::batches(&*store.store, &store.root, "rows").await.unwrap().len();
        store.remove_forgotten(ABANDONED_AGE, &[7]).await.unwrap();
        assert_eq!(rows().await, 3, "a sender may be alive");
        store.remove_forgotten(Duration::ZERO, &[7]).await.unwrap();
        assert_eq!(rows().await, 2);
        let names = engine::batches(&*store.store, &store.root, "rows").await.unwrap();
        assert!(names.iter().all(|name| !name.contains("bbbb")), "{names:?}");
    }

    #[tokio::test]
    async fn boots_that_come_after_a_batch_was_given_up_are_refused() {
        let store = store();
        let (given_up, whole) = (batch("aaaaaaaaaaaaaaaa"), batch("bbbbbbbbbbbbbbbb"));
        for batch in [&given_up, &whole] {
            store.put(&batch.file("rows"), vec![1]).await.unwrap();
        }
        store.put(&whole.file(BOOTS), vec![1]).await.unwrap();
        store.give_up(&given_up, &[7]).await.unwrap();
        store.give_up(&whole, &[7]).await.unwrap();
        store.put(&given_up.file(BOOTS), vec![1]).await.unwrap();
        let bytes = async |file: &str| store.store.get(&store.at(file)).await.unwrap().bytes().await.unwrap();
        assert_eq!(&*bytes(&given_up.file(BOOTS)).await, [7]);
        assert_eq!(&*bytes(&whole.file(BOOTS)).await, [1]);
        let rows = engine::batches(&*store.store, &store.root, "rows").await.unwrap();
        assert_eq!(rows.into_iter().collect::<Vec<_>>(), [whole.file("")]);
    }

    #[tokio::test]
    async fn a_turn_that_was_left_is_free_at_once_and_a_name_is_of_one_turn() {
        let store = store();
        let first = store.take().await.unwrap();
        store.leave(&first).await.unwrap();
        let second = store.take().await.unwrap();
        assert!(second.adding.said > first.adding.said);
        let here = batch("aaaaaaaaaaaaaaaa");
        assert!(here.sent_by(&first).name != here.sent_by(&second).name);
        // A sender that has lost the lease does not change it.
        store.leave(&first).await.unwrap();
        assert!(store.noted().await.unwrap().unwrap().0 == second.adding);
    }
}
