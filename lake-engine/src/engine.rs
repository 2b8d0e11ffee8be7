//! DataFusion with the tables of a lake, in this process or on a Ballista cluster. Both get the same SQL.
//!
//! A table has the columns of all its files. A file of an earlier bootscope lacks some columns, which are null for its rows.
//!
//! A boot is in the lake when `boots` has it. While a process adds boots, or after it was killed, other tables have files of a
//! batch that `boots` does not have: leftovers. In a folder, files may also be renamed during a query, so each table is then
//! read joined with `boots`. In an object store files are not renamed, but the same boots may have been sent again. So for days
//! with leftovers, only files that `boots` has are read there.

use anyhow::{Context as _, anyhow, bail};
use arrow::datatypes::DataType;
use arrow::record_batch::RecordBatch;
use ballista::prelude::SessionContextExt as _;
use ballista_core::object_store::{
    CustomObjectStoreRegistry, S3Options, session_config_with_s3_support, session_state_with_s3_support,
};
use datafusion::config::ExtensionOptions as _;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::prelude::{DataFrame, SQLOptions, SessionConfig, SessionContext};
use futures::{StreamExt as _, TryStreamExt as _};
use object_store::path::Path as ObjectPath;
use object_store::{ObjectStore, ObjectStoreExt as _};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use url::Url;

/// The layout that this program reads, described in `docs/lake.md`.
pub const SCHEMA: &str = "bootscope.lake/1";
/// Name of the file that names a lake's layout.
pub const HEAD: &str = "lake.json";
/// Name of the file with the batch that is being added.
pub const ADDING: &str = "adding.json";
/// The table of boots.
pub const BOOTS: &str = "boots";
/// The table of machines, whose rows have no boot.
const MACHINES: &str = "machines";
/// All tables, in the order in which a batch's files get their names.
pub const TABLES: [&str; 9] =
    ["phases", "rows", "initcalls", "units", "findings", "metrics", "labels", MACHINES, BOOTS];

/// Suffix for the name of a table with its leftovers.
const WITH_LEFTOVERS: &str = "_with_leftovers";
/// DataFusion's messages for statements that would write or change the session.
const REFUSED: [&str; 3] = ["DDL not supported", "DML not supported", "Statement not supported"];
/// By default, a query may use the machine's memory divided by this.
const MEMORY_SHARE: u64 = 2;
/// Minimum memory. With less, hardly any query succeeds.
const MIN_MEMORY: usize = 64 << 20;

/// Options for the place and the resources of a query.
#[derive(Default, clap::Args)]
pub struct EngineArgs {
    /// Ask a Ballista cluster, whose executors reach the lake by the same name: df://SCHEDULER:50050
    #[arg(long, value_name = "URL")]
    pub cluster: Option<String>,
    /// How long to wait for a cluster that gives nothing: what waits for an executor that is gone may wait forever
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = humantime::parse_duration, requires = "cluster")]
    pub give_up: Option<Duration>,
    /// How much memory a query may take here, from 64M on. Sorts and groups then go on in temporary files; a join fails
    /// [default: half of the machine's]
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub memory: Option<usize>,
    /// How many CPUs a query may take here [default: all]
    #[arg(long, value_name = "N")]
    pub threads: Option<std::num::NonZeroUsize>,
}

fn bytes(text: &str) -> Result<usize, String> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let shift = match unit {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return Err("give bytes, or a number with K, M or G, such as 4G".to_owned()),
    };
    let number: usize = number.parse().map_err(|_| "give a number, such as 4G".to_owned())?;
    number.checked_mul(1 << shift).filter(|&bytes| bytes >= MIN_MEMORY).ok_or_else(|| "give at least 64M".to_owned())
}

/// An open lake.
pub struct Engine {
    context: SessionContext,
    /// Name of the lake, as the user gave it.
    pub lake: String,
    /// The store that contains the lake.
    pub store: Arc<dyn ObjectStore>,
    /// Path of the lake in the store.
    pub root: ObjectPath,
    /// Maximum time to wait for the next part of a cluster's answer.
    give_up: Option<Duration>,
}

#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    schema: String,
}

impl Engine {
    /// Opens a lake.
    ///
    /// # Errors
    /// If it is not a lake, if a later bootscope made it, or if the lake or the cluster cannot be reached.
    pub async fn open(lake: &str, args: &EngineArgs) -> anyhow::Result<Engine> {
        Engine::open_tables(lake, args, &TABLES).await
    }

    /// Opens a lake with only some of its tables.
    ///
    /// # Errors
    /// As [`Engine::open`].
    pub async fn open_tables(lake: &str, args: &EngineArgs, tables: &[&str]) -> anyhow::Result<Engine> {
        let url = url_of(lake)?;
        let engine = Engine::connect(lake, args).await?;
        check(&*engine.store, &engine.root, lake).await?;
        // List `boots` first. A batch that is completed during the listing then counts as a leftover.
        let of_boots = batches(&*engine.store, &engine.root, BOOTS).await?;
        let mut files = vec![(BOOTS, of_boots.clone())];
        for &table in tables.iter().filter(|table| **table != BOOTS) {
            files.push((table, batches(&*engine.store, &engine.root, table).await?));
        }
        let left: BTreeSet<&String> = files.iter().flat_map(|(_, files)| files.difference(&of_boots)).collect();
        let days: BTreeSet<String> = left.iter().map(|file| day_of(file).to_owned()).collect();
        for (table, files) in &files {
            let leftovers = match () {
                () if days.is_empty() => Leftovers::None,
                // Read all days with leftovers as they were listed, so that no table has a batch that another lacks.
                () if url.scheme() != "file" => Leftovers::Days(&days, &of_boots),
                () if [BOOTS, MACHINES].contains(table) => Leftovers::None,
                () => Leftovers::Joined,
            };
            engine.register(&url, table, files, leftovers).await?;
        }
        Ok(engine)
    }

    /// Connects without opening any table and without checking that the lake exists.
    ///
    /// # Errors
    /// If the store or the cluster cannot be reached.
    pub async fn connect(lake: &str, args: &EngineArgs) -> anyhow::Result<Engine> {
        let url = url_of(lake)?;
        let state = state(args)?;
        let context = match &args.cluster {
            Some(cluster) => SessionContext::remote_with_state(cluster, state)
                .await
                .with_context(|| format!("cannot use the cluster {cluster}: give df://HOST:PORT"))?,
            None => SessionContext::new_with_state(state),
        };
        let store = context.runtime_env().object_store(&ListingTableUrl::parse(&url)?)?;
        let root = ObjectPath::from_url_path(url.path())?;
        let give_up = args.give_up.filter(|_| args.cluster.is_some());
        Ok(Engine { context, lake: lake.to_owned(), store, root, give_up })
    }

    async fn register(
        &self,
        lake: &Url,
        table: &str,
        files: &BTreeSet<String>,
        leftovers: Leftovers<'_>,
    ) -> anyhow::Result<()> {
        let folder = format!("{}/{table}", lake.as_str().trim_end_matches('/'));
        let options = ListingOptions::new(Arc::new(ParquetFormat::default())).with_file_extension(".parquet");
        let by_day = options.clone().with_table_partition_cols(vec![("day".to_owned(), DataType::Utf8)]);
        if files.is_empty() {
            // The lake is empty, or an earlier bootscope without this table filled it.
            return if table == BOOTS { Err(anyhow!("{} has no boots yet", self.lake)) } else { Ok(()) };
        }
        let url = ListingTableUrl::parse(format!("{folder}/"))?;
        let columns = by_day.infer_schema(&self.context.state(), &url).await;
        let columns = columns.with_context(|| format!("{}: cannot read the table {table}", self.lake))?;
        let listed = |urls: Vec<ListingTableUrl>, options: ListingOptions| -> anyhow::Result<_> {
            let config = ListingTableConfig::new_with_multi_paths(urls).with_listing_options(options);
            Ok(Arc::new(ListingTable::try_new(config.with_schema(Arc::clone(&columns)))?))
        };
        let whole = listed(vec![url], by_day)?;
        let all = format!("{table}{WITH_LEFTOVERS}");
        let sql = match leftovers {
            Leftovers::None => {
                self.context.register_table(table, whole)?;
                return Ok(());
            }
            Leftovers::Joined => format!("SELECT * FROM {all} WHERE boot_id IN (SELECT boot_id FROM {BOOTS})"),
            Leftovers::Days(days, of_boots) => {
                let list = days.iter().map(|day| text(day)).collect::<Vec<_>>().join(", ");
                let mut parts = vec![format!("SELECT * FROM {all} WHERE day NOT IN ({list})")];
                let mut of_days: BTreeMap<&str, Vec<ListingTableUrl>> = BTreeMap::new();
                for file in files.intersection(of_boots).filter(|file| days.contains(day_of(file))) {
                    of_days.entry(day_of(file)).or_default().push(ListingTableUrl::parse(format!("{folder}{file}"))?);
                }
                for (place, (day, urls)) in of_days.into_iter().enumerate() {
                    let name = format!("{all}_{place}");
                    self.context.register_table(&name, listed(urls, options.clone())?)?;
                    parts.push(format!("SELECT *, arrow_cast({}, 'Utf8') AS day FROM {name}", text(day)));
                }
                parts.join(" UNION ALL ")
            }
        };
        self.context.register_table(&all, whole)?;
        let view = self.context.sql(&sql).await?;
        self.context.register_table(table, view.into_view())?;
        Ok(())
    }

    /// The next part of a query's result. `None` at its end.
    pub async fn next(&self, batches: &mut SendableRecordBatchStream) -> anyhow::Result<Option<RecordBatch>> {
        let batch = match self.give_up {
            None => batches.next().await,
            Some(long) => tokio::time::timeout(long, batches.next()).await.map_err(|_| {
                let long = humantime::format_duration(long);
                anyhow!("the cluster gave nothing for {long}: its scheduler's page and log say what it waits for")
            })?,
        };
        Ok(batch.transpose()?)
    }

    /// Plans a statement that only reads. Refuses statements that would write or change the session.
    pub async fn query(&self, sql: &str) -> anyhow::Result<DataFrame> {
        let reads = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
        let found = self.context.sql_with_options(sql, reads).await;
        found.map_err(|e| match e.strip_backtrace() {
            said if REFUSED.iter().any(|what| said.contains(what)) => anyhow!("a lake is only read: {said}"),
            _ => e.into(),
        })
    }
}

/// Options of the object store from the user's environment, for this process or for executors.
fn s3_options() -> anyhow::Result<S3Options> {
    let mut options = S3Options::default();
    let known = [
        ("access_key_id", "AWS_ACCESS_KEY_ID"),
        ("secret_access_key", "AWS_SECRET_ACCESS_KEY"),
        ("session_token", "AWS_SESSION_TOKEN"),
        ("region", "AWS_REGION"),
        ("endpoint", "AWS_ENDPOINT_URL"),
        ("allow_http", "AWS_ALLOW_HTTP"),
    ];
    for (option, variable) in known {
        if let Ok(value) = std::env::var(variable) {
            options.set(option, &value).with_context(|| format!("cannot use {variable}"))?;
        }
    }
    Ok(options)
}

/// Quotes a text for SQL.
pub fn text(value: &str) -> String {
    format!("'{}'", value.replace('\'', "''"))
}

fn url_of(lake: &str) -> anyhow::Result<Url> {
    if lake.contains("://") {
        return Url::parse(lake).with_context(|| format!("{lake} is no URL"));
    }
    let path = Path::new(lake).canonicalize().with_context(|| format!("cannot open the lake {lake}"))?;
    Url::from_directory_path(path).map_err(|()| anyhow!("{lake} has no name that a URL can have"))
}

fn state(args: &EngineArgs) -> anyhow::Result<SessionState> {
    let s3 = s3_options()?;
    if args.cluster.is_some() {
        return Ok(session_state_with_s3_support(session_config_with_s3_support().with_option_extension(s3))?);
    }
    let mut config = SessionConfig::new().with_information_schema(true).with_option_extension(s3.clone());
    if let Some(threads) = args.threads {
        config = config.with_target_partitions(threads.get());
    }
    let bytes = args.memory.or_else(memory_here).unwrap_or(1 << 30);
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(FairSpillPool::new(bytes)))
        .with_object_store_registry(Arc::new(CustomObjectStoreRegistry::new(s3)))
        .build_arc()?;
    let builder = SessionStateBuilder::new().with_default_features();
    Ok(builder.with_config(config).with_runtime_env(runtime).build())
}

/// The default memory of a query: a share of the memory that Linux reports.
fn memory_here() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    usize::try_from(kib * 1024 / MEMORY_SHARE).ok()
}

async fn check(store: &dyn ObjectStore, root: &ObjectPath, lake: &str) -> anyhow::Result<()> {
    let head = match store.get(&root.clone().join(HEAD)).await {
        Err(object_store::Error::NotFound { .. }) => bail!("{lake} is no lake: `bootscope lake add … --to` makes one"),
        Err(e) => return Err(e).with_context(|| format!("cannot read the lake {lake}")),
        Ok(found) => found.bytes().await.with_context(|| format!("cannot read the lake {lake}"))?,
    };
    let head: Head = serde_json::from_slice(&head).with_context(|| format!("{}: no head of a lake", HEAD))?;
    if head.schema != SCHEMA {
        bail!("{lake} has the layout {:?}, and this bootscope reads {:?}: use a later one", head.schema, SCHEMA);
    }
    Ok(())
}

/// Treatment of the leftovers of a table: files of a batch that `boots` does not have.
enum Leftovers<'a> {
    /// The table has no leftovers, or reading them does no harm.
    None,
    /// Read only rows of boots that `boots` has.
    Joined,
    /// For these days, read only the files that `boots` has.
    Days(&'a BTreeSet<String>, &'a BTreeSet<String>),
}

/// The day of a file from [`batches`].
fn day_of(file: &str) -> &str {
    file.split('/').find_map(|part| part.strip_prefix("day=")).unwrap_or_default()
}

/// The batches of a table, as days and names of files: `/day=2026-11-26/3a1d662dde9871b4.parquet`.
pub async fn batches(store: &dyn ObjectStore, root: &ObjectPath, table: &str) -> anyhow::Result<BTreeSet<String>> {
    let table = root.clone().join(table);
    let files: Vec<_> = store.list(Some(&table)).try_collect().await?;
    let names = files.iter().filter(|file| file.location.extension() == Some("parquet"));
    Ok(names.map(|file| file.location.as_ref()[table.as_ref().len()..].to_owned()).collect())
}
