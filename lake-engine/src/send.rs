//! `send`: a lake in a folder goes into another, in an object store. `bootscope lake add --to s3://…` adds to a folder of its own, and then
//! calls this.
//!
//! It keeps the rules of a lake in a folder (`crates/lake/src/folder.rs`). A boot is in the lake when `boots` has it, so its file goes last.
//! Who sends has the object `adding.json`, which is made only if it is not there (a conditional put, as S3 and its likes have it), and
//! which names the batch: so two that send at once lose nothing. An object store cannot say that somebody is dead: who has seen the same version of
//! `adding.json` for the time of a lease takes it over, by this clock alone. What the other sent stays for a day, because it may be alive after
//! all: files of a batch without its `boots` are not read. Who finds that another took over waits for its turn. If its boots are
//! there twice then, it takes its own back.
//!
//! Left: a sender that stands still for the time of a lease while it puts `boots`, and dies before its next turn. Its boots may be there
//! twice.

use crate::LakeArgs;
use crate::engine::{self, ADDING, BOOTS, Engine, EngineArgs, HEAD, SCHEMA, TABLES};
use crate::questions::sums::{at, each};
use anyhow::Context as _;
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
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Who sends is believed dead after so long without a sign.
const LEASE: Duration = Duration::from_secs(120);
/// Files without `boots` that are so old are nobody's any more.
const FORGOTTEN: Duration = Duration::from_secs(24 * 3600);
/// How often is looked whether another is done.
const LOOK: Duration = Duration::from_millis(500);

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

/// What became of a lake that was to be sent.
#[derive(Serialize)]
struct Sent {
    /// Boots that are there now.
    new: usize,
    /// Boots that were there before. Where there is any, nothing was sent: without them it can be.
    there: BTreeSet<String>,
}

/// Prints identities.
pub async fn boot_ids(args: &BootIdsArgs) -> anyhow::Result<ExitCode> {
    let Engine { store, root, .. } = Engine::connect(&args.lake.lake, &args.lake.engine).await?;
    let store = Store { store, root, who: who() };
    if store.is_lake().await? {
        let mut out = stdout().lock();
        for boot in boots_of(&args.lake).await?.ids {
            writeln!(out, "{boot}").context("cannot write to standard output")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// `adding.json`, as a lake in a folder has it, with who, and how often that was said.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
struct Adding {
    day: String,
    name: String,
    #[serde(default)]
    who: String,
    /// So that each version is another.
    #[serde(default)]
    said: u64,
}

/// A batch of files: `TABLE/day=DAY/NAME.parquet`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Batch {
    day: String,
    name: String,
}

impl Batch {
    /// What it is called in the store. Two may send the same boots, of which folders make one name: who loses the lease must remove files of
    /// its own alone.
    fn sent_by(&self, who: &str) -> Batch {
        let mut hasher = DefaultHasher::new();
        (who, &self.name).hash(&mut hasher);
        Batch { day: self.day.clone(), name: format!("{:016x}", hasher.finish()) }
    }

    fn file(&self, table: &str) -> String {
        format!("{table}/day={}/{}.parquet", self.day, self.name)
    }
}

/// Sends.
pub async fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Engine { store, root, .. } = Engine::connect(&args.to.lake, &args.to.engine).await?;
    let store = Store { store, root, who: who() };
    store.make_head().await?;
    let mut doubtful = None;
    let sent = loop {
        let mut held = store.take().await?;
        let turn = send(&store, &mut held, args, &mut doubtful).await;
        if !matches!(turn, Ok(Turn::Sent(_))) {
            // What is there of the batch without its `boots` goes, as far as it can; if not, nobody reads it.
            let _ = store.remove_unfinished(&held.adding).await;
        }
        let left = store.leave().await;
        if let Turn::Sent(sent) = turn? {
            left?;
            break sent;
        }
    };
    println!("{}", serde_json::to_string(&sent)?);
    Ok(ExitCode::SUCCESS)
}

/// Who we are, among all that send.
fn who() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    format!("{:x}-{now:x}", std::process::id())
}

/// How a turn ended.
enum Turn {
    /// By an answer.
    Sent(Sent),
    /// Another took over.
    Lost,
}

/// Sends in one turn. `doubtful` is a batch of which `boots` was put when another had taken over.
async fn send(store: &Store, held: &mut Held, args: &Args, doubtful: &mut Option<Batch>) -> anyhow::Result<Turn> {
    store.remove_forgotten(FORGOTTEN).await?;
    let from = LakeArgs { lake: args.from.display().to_string(), engine: EngineArgs::default() };
    let all = boots_of(&from).await?.ids;
    let mut boots = boots_of(&args.to).await?;
    if let Some(batch) = doubtful {
        if !boots.twice.is_disjoint(&all) {
            // `boots` first.
            for table in TABLES.into_iter().rev() {
                store.remove(&batch.file(table)).await?;
            }
            boots = boots_of(&args.to).await?;
        }
        *doubtful = None;
    }
    let there: BTreeSet<String> = all.intersection(&boots.ids).cloned().collect();
    if !there.is_empty() {
        return Ok(Turn::Sent(Sent { new: 0, there }));
    }
    for here in batches(&args.from)? {
        let batch = here.sent_by(&store.who);
        for table in TABLES {
            // Each file is a sign of life, too.
            if !store.note(held, &batch).await? {
                return Ok(Turn::Lost);
            }
            let file = args.from.join(here.file(table));
            let bytes = std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
            store.put(&batch.file(table), bytes).await?;
        }
        if !store.note(held, &batch).await? {
            // Another may have sent the same boots meanwhile; or found them there, and sent none.
            *doubtful = Some(batch);
            return Ok(Turn::Lost);
        }
    }
    Ok(Turn::Sent(Sent { new: all.len(), there }))
}

/// The identities of a lake's boots.
#[derive(Default)]
struct BootIds {
    ids: HashSet<String>,
    /// Those that are there more than once.
    twice: HashSet<String>,
}

/// None of a lake that has none yet.
async fn boots_of(lake: &LakeArgs) -> anyhow::Result<BootIds> {
    let mut boots = BootIds::default();
    let engine = Engine::connect(&lake.lake, &lake.engine).await?;
    if engine::batches(&*engine.store, &engine.root, BOOTS).await?.is_empty() {
        return Ok(boots);
    }
    each(&lake.open().await?, "SELECT boot_id FROM boots", |part| {
        let ids = part.texts(0)?;
        for row in 0..part.rows() {
            let id = at(&ids, row);
            if !boots.ids.insert(id.to_owned()) {
                boots.twice.insert(id.to_owned());
            }
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

/// Whether a file has a name that a sender gives. Others are the user's.
fn is_batch(file: &str) -> bool {
    let name = file.rsplit('/').next().and_then(|name| name.strip_suffix(".parquet"));
    file.starts_with("/day=")
        && name.is_some_and(|name| name.len() == 16 && name.bytes().all(|b| b.is_ascii_hexdigit()))
}

struct Store {
    store: Arc<dyn ObjectStore>,
    root: ObjectPath,
    who: String,
}

/// That we may send, and the version of `adding.json` that says so.
struct Held {
    adding: Adding,
    version: UpdateVersion,
}

impl Store {
    fn at(&self, file: &str) -> ObjectPath {
        file.split('/').fold(self.root.clone(), |path, part| path.join(part))
    }

    async fn put(&self, file: &str, bytes: Vec<u8>) -> anyhow::Result<()> {
        self.store.put(&self.at(file), bytes.into()).await.with_context(|| format!("cannot write {file}"))?;
        Ok(())
    }

    async fn is_lake(&self) -> anyhow::Result<bool> {
        match self.store.head(&self.at(HEAD)).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(e) => Err(e).context("cannot reach the object store"),
        }
    }

    /// Makes a lake of an empty place.
    async fn make_head(&self) -> anyhow::Result<()> {
        let head = format!("{{\"schema\": \"{SCHEMA}\"}}\n");
        let create = PutOptions::from(PutMode::Create);
        match self.store.put_opts(&self.at(HEAD), head.into(), create).await {
            Ok(_) | Err(object_store::Error::AlreadyExists { .. }) => Ok(()),
            Err(e) => Err(e).context("cannot make the lake (the object store must take conditional puts)"),
        }
    }

    /// Waits until nobody else sends.
    async fn take(&self) -> anyhow::Result<Held> {
        let mine = Adding { who: self.who.clone(), ..Adding::default() };
        let mut seen: Option<(UpdateVersion, Instant)> = None;
        loop {
            if let Some(version) = self.write(&mine, PutMode::Create).await? {
                return Ok(Held { adding: mine, version });
            }
            let Some((_, version)) = self.noted().await? else { continue };
            match &seen {
                Some((same, since)) if same.e_tag == version.e_tag && same.version == version.version => {
                    if since.elapsed() > LEASE
                        && let Some(version) = self.write(&mine, PutMode::Update(version)).await?
                    {
                        return Ok(Held { adding: mine, version });
                    }
                }
                _ => seen = Some((version, Instant::now())),
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Writes `adding.json`, unless another was quicker.
    async fn write(&self, adding: &Adding, mode: PutMode) -> anyhow::Result<Option<UpdateVersion>> {
        let bytes = PutPayload::from(serde_json::to_vec(adding)?);
        let refused = match self.store.put_opts(&self.at(ADDING), bytes, PutOptions::from(mode)).await {
            Ok(put) => return Ok(Some(put.into())),
            Err(e) => e,
        };
        // The answer may have been lost, and not the request.
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

    /// Says which batch comes now, and that we are alive. Not if another took over.
    async fn note(&self, held: &mut Held, batch: &Batch) -> anyhow::Result<bool> {
        let said = held.adding.said + 1;
        let adding = Adding { day: batch.day.clone(), name: batch.name.clone(), said, ..held.adding.clone() };
        let Some(version) = self.write(&adding, PutMode::Update(held.version.clone())).await? else {
            return Ok(false);
        };
        *held = Held { adding, version };
        Ok(true)
    }

    /// Removes what senders left without `boots` that are dead for sure: by the store's clock, so long before `adding.json`.
    async fn remove_forgotten(&self, long: Duration) -> anyhow::Result<()> {
        let now = self.store.head(&self.at(ADDING)).await.context("cannot read adding.json")?.last_modified;
        let boots = engine::batches(&*self.store, &self.root, BOOTS).await?;
        for table in TABLES.into_iter().filter(|table| *table != BOOTS) {
            let files: Vec<_> = self.store.list(Some(&self.at(table))).try_collect().await?;
            for file in files {
                let age = (now - file.last_modified).to_std().unwrap_or_default();
                let name = &file.location.as_ref()[self.at(table).as_ref().len()..];
                if age >= long && is_batch(name) && !boots.contains(name) {
                    self.remove(&format!("{table}{name}")).await?;
                }
            }
        }
        Ok(())
    }

    /// Removes the files of a batch that did not get its `boots`.
    async fn remove_unfinished(&self, adding: &Adding) -> anyhow::Result<()> {
        let batch = Batch { day: adding.day.clone(), name: adding.name.clone() };
        if batch.name.is_empty() {
            return Ok(());
        }
        match self.store.head(&self.at(&batch.file(BOOTS))).await {
            Err(object_store::Error::NotFound { .. }) => {}
            // It is there, or nobody knows.
            found => return Ok(found.map(drop)?),
        }
        for table in TABLES {
            self.remove(&batch.file(table)).await?;
        }
        Ok(())
    }

    async fn remove(&self, file: &str) -> anyhow::Result<()> {
        match self.store.delete(&self.at(file)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(e) => Err(e).with_context(|| format!("cannot remove {file}")),
        }
    }

    /// Lets others send, unless another took over.
    async fn leave(&self) -> anyhow::Result<()> {
        let is_ours = self.noted().await?.is_some_and(|(noted, _)| noted.who == self.who);
        if is_ours { self.remove(ADDING).await } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::memory::InMemory;

    #[test]
    fn only_names_of_batches_are_ours() {
        assert!(is_batch("/day=2026-11-26/3a1d662dde9871b4.parquet"));
        for theirs in
            ["/day=2026-11-26/mine.parquet", "/3a1d662dde9871b4.parquet", "/day=2026-11-26/3a1d662dde9871b4.csv", ""]
        {
            assert!(!is_batch(theirs), "{theirs}");
        }
    }

    #[tokio::test]
    async fn what_a_dead_sender_left_goes_after_a_day() {
        let store = Store { store: Arc::new(InMemory::new()), root: ObjectPath::from("lake"), who: who() };
        store.take().await.unwrap();
        let [whole, left, theirs] = ["aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb", "mine"]
            .map(|name| Batch { day: "2026-11-26".to_owned(), name: name.to_owned() });
        store.put(&whole.file(BOOTS), vec![1]).await.unwrap();
        for batch in [&whole, &left, &theirs] {
            store.put(&batch.file("rows"), vec![1]).await.unwrap();
        }
        let rows = async || engine::batches(&*store.store, &store.root, "rows").await.unwrap().len();
        store.remove_forgotten(FORGOTTEN).await.unwrap();
        assert_eq!(rows().await, 3, "a sender may be alive");
        store.remove_forgotten(Duration::ZERO).await.unwrap();
        assert_eq!(rows().await, 2);
        let names = engine::batches(&*store.store, &store.root, "rows").await.unwrap();
        assert!(names.iter().all(|name| !name.contains("bbbb")), "{names:?}");
    }
}
