//! `bootscope lake`: the boots of many machines as Parquet tables.

mod bucket;
mod change;
mod engine;
mod page;
mod scrub;

use crate::output::Output;
use crate::{Done, boot, findings};
use anyhow::{Context, bail};
use bucket::Bucket;
use lake::{Boot, Labels, Lake};
use recording::Key;
use report::{Summary, harmless};
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};

/// Keep the boots of many machines as Parquet tables, for any engine that reads Parquet
///
/// A lake is a folder with a table of boots, and tables of their phases, rows, initcalls, units, findings and metrics.
/// docs/lake.md names every column, and has questions to ask with DuckDB.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Add(AddArgs),
    Watch(WatchArgs),
    Forget(change::ForgetArgs),
    Compact(change::CompactArgs),
    Page(page::PageArgs),
    /// Ask a lake what no sum tells: what became slower, and with which update
    Ask(engine::EngineArgs),
    /// Ask a lake by SQL
    Sql(engine::EngineArgs),
}

/// Put recordings into a lake
///
/// A boot is known by its evidence: one that is there already changes nothing, also packed or under another name. What cannot be
/// read is listed, and the rest goes in. Several may add at once. A kill loses no boot that was there.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
struct AddArgs {
    /// Recordings: folders or packed files
    #[arg(required = true)]
    recordings: Vec<PathBuf>,
    #[command(flatten)]
    how: HowArgs,
}

/// Put recordings that appear in a folder into a lake
///
/// Machines drop packed recordings there, as `capture` writes them. The folder is looked at every few seconds, until Ctrl-C. What
/// cannot be read is said once, and tried again when it changes. Nothing in the folder is changed. Small files of days that are over are
/// merged, as `lake compact` does.
#[derive(clap::Args)]
struct WatchArgs {
    /// The folder
    incoming: PathBuf,
    #[command(flatten)]
    how: HowArgs,
    /// How often to look
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = crate::amount::duration)]
    every: Duration,
}

#[derive(clap::Args)]
struct HowArgs {
    /// The lake's folder, or s3://BUCKET/FOLDER; made if it is not there
    #[arg(long, value_name = "LAKE")]
    to: PathBuf,
    /// Say more of these boots, in the table of labels; may be repeated
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// The machine that these boots are of. The lake gets a token of it, made with your key
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    machine: Option<String>,
    /// The kind of machine, where you know it better than the recordings: compare boots of one kind only
    #[arg(long, value_name = "KIND")]
    hardware: Option<String>,
    /// Keep the machine's name as it is, and addresses, numbers and secrets in names of rows
    #[arg(long)]
    identify: bool,
    /// Your key [default: $XDG_CONFIG_HOME/bootscope/lake.key, made when first needed]
    #[arg(long, value_name = "FILE", requires = "machine")]
    key: Option<PathBuf>,
    /// Do not look for findings, which takes a quarter of the time
    #[arg(long)]
    no_findings: bool,
}

const EXAMPLES: &str = "\
Examples:
  bootscope lake add boots/* captures/*.tar.zst --to lake
  bootscope lake add here.tar.zst --to lake --machine db7 --label team=db
  duckdb -c \"select hardware, time_base, kernel, median(total_ns) / 1e6 ms
             from 'lake/boots/*/*.parquet' group by all\"

Exit status: 1 if some recording could not be read; the others are in.";

/// Boots that are put in at once: a file of each table. Larger files are read faster, and with a kill more is to be read again.
const BATCH: usize = 512;
/// Failures that a watch remembers for its document.
const FAILED_MOST: usize = 1000;
/// Boots wait no longer for a batch to be full.
const WAIT_MOST: Duration = Duration::from_secs(10);

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("give NAME=VALUE".to_owned()),
    }
}

/// What `--json` says.
#[derive(Default, Serialize)]
struct Document {
    schema: &'static str,
    lake: String,
    /// Boots that are new in it.
    new: usize,
    /// Boots that were there.
    there: usize,
    /// What could not be read.
    failed: Vec<FailedLine>,
}

#[derive(Serialize)]
struct FailedLine {
    recording: String,
    why: String,
}

/// Runs it.
pub fn run(args: &Args, output: &Output) -> anyhow::Result<Done> {
    match &args.command {
        Command::Add(args) => add(args, output),
        Command::Watch(args) => watch(args, output),
        Command::Forget(args) => change::forget(args, output),
        Command::Compact(args) => change::compact(args, output),
        Command::Page(args) => page::run(args, output),
        Command::Ask(args) => engine::run("ask", &args.all, output),
        Command::Sql(args) => engine::run("sql", &args.all, output),
    }
}

fn add(args: &AddArgs, output: &Output) -> anyhow::Result<Done> {
    let mut adder = Adder::new(&args.how, output)?;
    let stop = AtomicBool::new(false);
    adder.add(&args.recordings, &stop, |failed| {
        if !output.json {
            output.note(&format!("not added: {}: {}", failed.recording, failed.why));
        }
    })?;
    let done = adder.done;
    let is_well = done.failed.is_empty();
    if output.json {
        output.document(&done)?;
    } else if !output.quiet {
        output.text(&said(&done))?;
    }
    Ok(if is_well { Done::Well } else { Done::Badly })
}

fn boots(count: usize) -> String {
    if count == 1 { "1 boot".to_owned() } else { format!("{count} boots") }
}

fn said(done: &Document) -> String {
    let mut text = format!("added {} to {}", boots(done.new), harmless(&done.lake));
    if done.there > 0 {
        text.push_str(&format!(", {} there already", boots(done.there)));
    }
    match done.failed.len() {
        0 => {}
        1 => text.push_str(", 1 recording could not be read"),
        count => text.push_str(&format!(", {count} recordings could not be read")),
    }
    text.push('\n');
    text
}

fn watch(args: &WatchArgs, output: &Output) -> anyhow::Result<Done> {
    let stop = machine::stop_on_signals()?;
    let mut adder = Adder::new(&args.how, output)?;
    let mut watched = Watched::default();
    let mut nightly = change::Nightly::default();
    let mut told = String::new();
    // A folder that cannot be read at all is a mistake; one that cannot be read for a while is not.
    entries(&args.incoming)?;
    while !stop.load(Ordering::Relaxed) {
        let before = (adder.done.new, adder.done.there);
        let ready = entries(&args.incoming).map(|found| watched.ready(found));
        let passed = ready.and_then(|ready| {
            let added = adder
                .add(&ready, &stop, |failed| output.note(&format!("not added: {}: {}", failed.recording, failed.why)));
            added.inspect_err(|_| ready.iter().for_each(|path| watched.again(path)))?;
            match adder.bucket {
                Some(_) => Ok(()),
                None => nightly.compact(adder.lake.get_mut().unwrap_or_else(PoisonError::into_inner)),
            }
        });
        let trouble = passed.err().map_or_else(String::new, |e| format!("{e:#}; trying again"));
        // Once, and not at each look.
        if !trouble.is_empty() && trouble != told {
            output.note(&trouble);
        }
        told = trouble;
        let (new, there) = (adder.done.new - before.0, adder.done.there - before.1);
        if !output.quiet && !output.json && new + there > 0 {
            output.text(&said(&Document { lake: adder.done.lake.clone(), new, there, ..Document::default() }))?;
        }
        // A long watch must not remember every failure.
        let first = if output.json { FAILED_MOST } else { 0 };
        adder.done.failed.truncate(first);
        let next = Instant::now() + args.every;
        while Instant::now() < next && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(50).min(args.every));
        }
    }
    if output.json {
        output.document(&adder.done)?;
    }
    Ok(Done::Well)
}

/// What an entry of the folder was at a look: how many files, their bytes, and the latest change. What is still being written, or copied
/// file by file, is another thing at the next look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Looked {
    files: usize,
    bytes: u64,
    changed: Option<SystemTime>,
}

/// The entries of a folder that were seen, each with whether it was taken as it is.
#[derive(Default)]
struct Watched(HashMap<PathBuf, (Looked, bool)>);

impl Watched {
    /// Those that were the same at two looks, and were not taken yet.
    fn ready(&mut self, found: Vec<(PathBuf, Looked)>) -> Vec<PathBuf> {
        let mut ready = Vec::new();
        let mut now = HashMap::with_capacity(found.len());
        for (path, looked) in found {
            let taken = match self.0.get(&path) {
                Some(&(before, taken)) if before == looked => {
                    if !taken {
                        ready.push(path.clone());
                    }
                    true
                }
                _ => false,
            };
            now.insert(path, (looked, taken));
        }
        self.0 = now;
        ready
    }

    /// It was not taken after all.
    fn again(&mut self, path: &Path) {
        if let Some((_, taken)) = self.0.get_mut(path) {
            *taken = false;
        }
    }
}

/// What is in the folder. What has just gone is not; of what cannot be looked at, the reader will say why.
fn entries(incoming: &Path) -> anyhow::Result<Vec<(PathBuf, Looked)>> {
    let cannot = || format!("cannot read the folder {}", incoming.display());
    let mut found = Vec::new();
    for entry in std::fs::read_dir(incoming).with_context(cannot)? {
        let path = entry.with_context(cannot)?.path();
        let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if is_hidden || !path.exists() {
            continue;
        }
        let mut looked = Looked::default();
        let inside = std::fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path());
        for file in inside.chain([path.clone()]) {
            if let Ok(meta) = std::fs::metadata(file) {
                looked.files += 1;
                looked.bytes = looked.bytes.saturating_add(meta.len());
                looked.changed = looked.changed.max(meta.modified().ok());
            }
        }
        found.push((path, looked));
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}

/// Reads recordings on all CPUs, and puts them into a lake batch by batch.
struct Adder<'a> {
    /// Who reads asks it; who adds has it alone.
    lake: RwLock<Lake>,
    /// Where it goes from there.
    bucket: Option<Bucket>,
    machine: Option<String>,
    labels: Labels,
    how: &'a HowArgs,
    done: Document,
}

/// What became of a recording.
enum Read {
    Boot(Box<Boot>),
    There,
    Failed(String),
}

impl<'a> Adder<'a> {
    fn new(how: &'a HowArgs, output: &Output) -> anyhow::Result<Self> {
        let names: HashSet<&str> = how.labels.iter().map(|(name, _)| name.as_str()).collect();
        if names.len() < how.labels.len() {
            bail!("a label is given twice: each name has one value");
        }
        let machine = match &how.machine {
            Some(name) if how.identify => Some(name.clone()),
            Some(name) => Some(lake::token(&made_or_known(how.key.as_deref(), output)?, name)),
            None => None,
        };
        let bucket = bucket::url(&how.to).map(Bucket::open).transpose()?;
        let folder = bucket.as_ref().map_or_else(|| how.to.clone(), Bucket::stage);
        let lake = RwLock::new(Lake::open(&folder)?);
        let schema = "bootscope.lake-add/1";
        let done = Document { schema, lake: how.to.display().to_string(), ..Document::default() };
        Ok(Adder { lake, bucket, machine, labels: how.labels.clone(), how, done })
    }

    /// Memory is bounded by a batch, whatever the number of recordings. What goes to an object store is sent at the end.
    fn add(&mut self, paths: &[PathBuf], stop: &AtomicBool, told: impl Fn(&FailedLine)) -> anyhow::Result<()> {
        self.add_to_folder(paths, stop, told)?;
        if let Some(bucket) = &mut self.bucket {
            let lake = self.lake.get_mut().unwrap_or_else(PoisonError::into_inner);
            let there = bucket.send(lake)?;
            self.done.new -= there;
            self.done.there += there;
        }
        Ok(())
    }

    fn add_to_folder(
        &mut self,
        paths: &[PathBuf],
        stop: &AtomicBool,
        told: impl Fn(&FailedLine),
    ) -> anyhow::Result<()> {
        let workers = std::thread::available_parallelism().map_or(1, NonZero::get).min(paths.len());
        let (next, ended) = (AtomicUsize::new(0), AtomicBool::new(false));
        let (to_us, from_workers) = sync_channel(2 * workers.max(1));
        let Adder { lake, bucket, machine, labels, how, done } = self;
        let (how, machine, labels) = (*how, &*machine, &*labels);
        let (lake, next, ended) = (&*lake, &next, &ended);
        let nothing = HashSet::new();
        let elsewhere = bucket.as_ref().map_or(&nothing, Bucket::boots);
        let is_there = |id: &str| {
            elsewhere.contains(id) || lake.read().unwrap_or_else(PoisonError::into_inner).boots().contains(id)
        };
        let is_there = &is_there;
        std::thread::scope(|scope| {
            for _ in 0..workers {
                let to_us = to_us.clone();
                scope.spawn(move || {
                    while let Some(path) = paths.get(next.fetch_add(1, Ordering::Relaxed)) {
                        if ended.load(Ordering::Relaxed) || stop.load(Ordering::Relaxed) {
                            return;
                        }
                        let read = read(path, how, machine.as_deref(), labels, is_there);
                        if to_us.send((path, read)).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(to_us);
            let mut batch = Vec::new();
            let mut begun = Instant::now();
            let put = |batch: &mut Vec<Boot>, done: &mut Document| {
                let mut lake = lake.write().unwrap_or_else(PoisonError::into_inner);
                let added = lake.add(std::mem::take(batch)).inspect_err(|_| ended.store(true, Ordering::Relaxed))?;
                done.new += added.new;
                done.there += added.there;
                anyhow::Ok(())
            };
            for (path, read) in from_workers {
                match read {
                    Read::Boot(boot) => {
                        if batch.is_empty() {
                            begun = Instant::now();
                        }
                        batch.push(*boot);
                    }
                    Read::There => done.there += 1,
                    Read::Failed(why) => {
                        let failed = FailedLine { recording: path.display().to_string(), why };
                        told(&failed);
                        done.failed.push(failed);
                    }
                }
                if batch.len() >= BATCH || (!batch.is_empty() && begun.elapsed() > WAIT_MOST) {
                    put(&mut batch, done)?;
                }
            }
            if !batch.is_empty() {
                put(&mut batch, done)?;
            }
            Ok(())
        })
    }
}

fn key(file: Option<&Path>) -> anyhow::Result<Key> {
    Ok(Key::at(&key_path(file)?)?)
}

/// The key. One that is made now is told: a typo in its name would make tokens of other keys.
fn made_or_known(file: Option<&Path>, output: &Output) -> anyhow::Result<Key> {
    let is_known = key_path(file)?.exists();
    let key = key(file)?;
    if !is_known {
        let path = key_path(file)?.display().to_string();
        output.note(&format!("made the key {}: keep it, machines have other tokens with another", harmless(&path)));
    }
    Ok(key)
}

fn key_path(file: Option<&Path>) -> anyhow::Result<PathBuf> {
    match file {
        Some(path) => Ok(path.to_owned()),
        None => xdg::BaseDirectories::with_prefix("bootscope")
            .get_config_file("lake.key")
            .context("no home directory is known: give the key with --key FILE, or keep the name with --identify"),
    }
}

/// Whether a boot is in the lake.
type IsThere<'a> = dyn Fn(&str) -> bool + Sync + 'a;

/// Reads one recording. One that our readers fail on costs itself and no other.
fn read(path: &Path, how: &HowArgs, machine: Option<&str>, labels: &Labels, is_there: &IsThere) -> Read {
    let read = catch_unwind(AssertUnwindSafe(|| read_boot(path, how, machine, labels, is_there)));
    match read {
        Ok(Ok(Some(boot))) => Read::Boot(Box::new(boot)),
        Ok(Ok(None)) => Read::There,
        Ok(Err(e)) => Read::Failed(format!("{e:#}")),
        Err(_) => Read::Failed("bootscope itself failed on it: please report it, with the recording".to_owned()),
    }
}

fn read_boot(
    path: &Path,
    how: &HowArgs,
    machine: Option<&str>,
    labels: &Labels,
    is_there: &IsThere,
) -> anyhow::Result<Option<Boot>> {
    let recording = boot::open_recording(path)?;
    if *recording.condition() == recording::Condition::AtWork {
        bail!("it is being recorded at this moment: add it when that is done");
    }
    if let Some(lost) = recording.lost().first() {
        bail!("{} is missing or cut, so its figures are not the boot's", lost.file);
    }
    let Some(id) = lake::identity(&recording, machine)? else { bail!("it has no evidence") };
    if is_there(&id) {
        return Ok(None);
    }
    let opened = boot::of_recording(recording)?;
    let mut analysed = opened.boot(None)?;
    if !how.no_findings {
        let found = findings::look_alone(&opened);
        analysed.findings = Some(report::Findings::new(&opened.timeline, &found));
    }
    let (mut summary, mut manifest) = (Summary::brief(&analysed), opened.recording.manifest().clone());
    if !how.identify {
        scrub::scrub(&opened.recording, how.machine.as_deref(), &mut summary, &mut manifest)?;
    }
    let ended = opened.timeline.end.is_some_and(|end| end.evidence.is_mark());
    drop(analysed);
    Ok(Some(Boot {
        id,
        manifest,
        summary,
        machine: machine.map(str::to_owned),
        hardware: how.hardware.clone(),
        ended,
        labels: labels.clone(),
    }))
}
