//! Adds boots to a lake: reads recordings on all CPUs, removes the identities of their machines, and writes batches.

mod bucket;
mod scrub;
mod watch;

use crate::{Notes, boot_findings, opened_boot};
use anyhow::{Context, bail};
use bucket::Bucket;
use lake::{Boot, Labels, Lake};
use recording::Key;
use report::{Summary, harmless};
use serde::Serialize;
use std::collections::HashSet;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};
pub use watch::watch;

/// A request to add boots to a lake.
#[derive(Clone, Debug)]
pub struct Request {
    /// The lake's folder, or the URL of an object store.
    pub to: PathBuf,
    /// Names and values for the labels table.
    pub labels: Labels,
    /// The machine's name. The lake gets a token of it.
    pub machine: Option<String>,
    /// The kind of machine, if the user gives it. It overrides the recordings.
    pub hardware: Option<String>,
    /// True to keep the machine's name and other identities.
    pub identify: bool,
    /// The file of the user's key; `None` for the one in the user's configuration.
    pub key: Option<PathBuf>,
    /// True to skip the findings.
    pub no_findings: bool,
}

/// The most boots in a batch, which is one file of each table. Larger files are faster to read, but a kill costs more
/// boots to read again.
const BATCH: usize = 512;
/// The longest time that boots wait for a full batch.
const MAX_BATCH_WAIT: Duration = Duration::from_secs(10);

/// The JSON document of an add (`--json`).
#[derive(Default, Serialize)]
pub struct Document {
    schema: &'static str,
    /// The lake, as the user named it.
    pub lake: String,
    /// The number of boots that are new in the lake.
    pub new: usize,
    /// The number of boots that were already in it.
    pub there: usize,
    /// The recordings that could not be read.
    pub failed: Vec<FailedLine>,
}

#[derive(Serialize)]
pub struct FailedLine {
    /// The path.
    pub recording: String,
    pub why: String,
}

/// Reads recordings on all CPUs and adds them to a lake, batch by batch.
pub struct Adder<'a> {
    /// The threads that read recordings share it. The thread that adds boots locks it alone.
    lake: RwLock<Lake>,
    /// The object store that gets the lake's files.
    bucket: Option<Bucket>,
    machine: Option<String>,
    labels: Labels,
    request: &'a Request,
    /// The results so far.
    pub done: Document,
}

/// The result of reading a recording.
enum Read {
    Boot(Box<Boot>),
    There,
    Failed(String),
}

impl<'a> Adder<'a> {
    pub fn new(request: &'a Request, notes: &dyn Notes) -> anyhow::Result<Self> {
        let names: HashSet<&str> = request.labels.iter().map(|(name, _)| name.as_str()).collect();
        if names.len() < request.labels.len() {
            bail!("a label is given twice: each name has one value");
        }
        let machine = match &request.machine {
            Some(name) if request.identify => Some(name.clone()),
            Some(name) => Some(lake::token(&load_or_create_key(request.key.as_deref(), notes)?, name)),
            None => None,
        };
        let bucket = bucket::url(&request.to).map(Bucket::open).transpose()?;
        let folder = bucket.as_ref().map_or_else(|| request.to.clone(), Bucket::stage);
        let lake = RwLock::new(Lake::open(&folder)?);
        let schema = "bootscope.lake-add/1";
        let done = Document { schema, lake: request.to.display().to_string(), ..Document::default() };
        Ok(Adder { lake, bucket, machine, labels: request.labels.clone(), request, done })
    }

    /// Adds recordings. Memory is bounded by a batch, whatever the number of recordings. Boots for an object store are
    /// sent at the end.
    pub fn add(
        &mut self,
        paths: &[PathBuf],
        stop: &AtomicBool,
        report_failure: impl Fn(&FailedLine),
    ) -> anyhow::Result<()> {
        self.add_to_folder(paths, stop, report_failure)?;
        if let Some(bucket) = &mut self.bucket {
            let lake = self.lake.get_mut().unwrap_or_else(PoisonError::into_inner);
            let already_there = bucket.send(lake)?;
            self.done.new -= already_there;
            self.done.there += already_there;
        }
        Ok(())
    }

    fn add_to_folder(
        &mut self,
        paths: &[PathBuf],
        stop: &AtomicBool,
        report_failure: impl Fn(&FailedLine),
    ) -> anyhow::Result<()> {
        let workers = std::thread::available_parallelism().map_or(1, NonZero::get).min(paths.len());
        let (next, ended) = (AtomicUsize::new(0), AtomicBool::new(false));
        let (to_us, from_workers) = sync_channel(2 * workers.max(1));
        let Adder { lake, bucket, machine, labels, request, done } = self;
        let (request, machine, labels) = (*request, &*machine, &*labels);
        let (lake, next, ended) = (&*lake, &next, &ended);
        let nothing = HashSet::new();
        let elsewhere = bucket.as_ref().map_or(&nothing, Bucket::boots);
        let is_in_lake = |id: &str| {
            elsewhere.contains(id) || lake.read().unwrap_or_else(PoisonError::into_inner).boots().contains(id)
        };
        let is_in_lake = &is_in_lake;
        std::thread::scope(|scope| {
            for _ in 0..workers {
                let to_us = to_us.clone();
                scope.spawn(move || {
                    let is_stopped = || ended.load(Ordering::Relaxed) || stop.load(Ordering::Relaxed);
                    let send_next = || {
                        let path = paths.get(next.fetch_add(1, Ordering::Relaxed)).filter(|_| !is_stopped())?;
                        to_us.send((path, read(path, request, machine.as_deref(), labels, is_in_lake))).ok()
                    };
                    while send_next().is_some() {}
                });
            }
            drop(to_us);
            let mut batch = Vec::new();
            let mut begun = Instant::now();
            let put = |batch: &mut Vec<Boot>, done: &mut Document| {
                put(lake, std::mem::take(batch), done).inspect_err(|_| ended.store(true, Ordering::Relaxed))
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
                        report_failure(&failed);
                        done.failed.push(failed);
                    }
                }
                if batch.len() >= BATCH || (!batch.is_empty() && begun.elapsed() > MAX_BATCH_WAIT) {
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

fn put(lake: &RwLock<Lake>, batch: Vec<Boot>, done: &mut Document) -> anyhow::Result<()> {
    let added = lake.write().unwrap_or_else(PoisonError::into_inner).add(batch)?;
    done.new += added.new;
    done.there += added.there;
    Ok(())
}

pub fn key(file: Option<&Path>) -> anyhow::Result<Key> {
    Ok(Key::at(&key_path(file)?)?)
}

/// Loads or creates the key. Reports a new key, because a typo in its name would give other tokens.
fn load_or_create_key(file: Option<&Path>, notes: &dyn Notes) -> anyhow::Result<Key> {
    let is_known = key_path(file)?.exists();
    let key = key(file)?;
    if !is_known {
        let path = key_path(file)?.display().to_string();
        notes.note(&format!("made the key {}: keep it, machines have other tokens with another", harmless(&path)));
    }
    Ok(key)
}

pub fn key_path(file: Option<&Path>) -> anyhow::Result<PathBuf> {
    match file {
        Some(path) => Ok(path.to_owned()),
        None => xdg::BaseDirectories::with_prefix("bootscope")
            .get_config_file("lake.key")
            .context("no home directory is known: give the key with --key FILE, or keep the name with --identify"),
    }
}

/// A predicate: true if a boot is in the lake.
type IsInLake<'a> = dyn Fn(&str) -> bool + Sync + 'a;

/// Reads one recording. A panic in a reader costs only this recording.
fn read(path: &Path, request: &Request, machine: Option<&str>, labels: &Labels, is_in_lake: &IsInLake) -> Read {
    let read = catch_unwind(AssertUnwindSafe(|| read_boot(path, request, machine, labels, is_in_lake)));
    match read {
        Ok(Ok(Some(boot))) => Read::Boot(Box::new(boot)),
        Ok(Ok(None)) => Read::There,
        Ok(Err(e)) => Read::Failed(format!("{e:#}")),
        Err(_) => Read::Failed("bootscope itself failed on it: please report it, with the recording".to_owned()),
    }
}

fn read_boot(
    path: &Path,
    request: &Request,
    machine: Option<&str>,
    labels: &Labels,
    is_in_lake: &IsInLake,
) -> anyhow::Result<Option<Boot>> {
    let recording = opened_boot::open_recording(path)?;
    if *recording.condition() == recording::Condition::AtWork {
        bail!("it is being recorded at this moment: add it when that is done");
    }
    if let Some(lost) = recording.lost().first() {
        bail!("{} is missing or cut, so its figures are not the boot's", lost.file);
    }
    let Some(id) = lake::identity(&recording, machine)? else { bail!("it has no evidence") };
    if is_in_lake(&id) {
        return Ok(None);
    }
    let opened = opened_boot::from_recording(recording)?;
    let mut analysed = opened.boot(None)?;
    if !request.no_findings {
        let findings = boot_findings::find_on_one_cpu(&opened);
        analysed.findings = Some(report::Findings::new(&opened.timeline, &findings));
    }
    let (mut summary, mut manifest) = (Summary::brief(&analysed), opened.recording.manifest().clone());
    if !request.identify {
        scrub::scrub(&opened.recording, request.machine.as_deref(), &mut summary, &mut manifest)?;
    }
    let ended = opened.timeline.end.is_some_and(|end| end.evidence.is_mark());
    drop(analysed);
    Ok(Some(Boot {
        id,
        manifest,
        summary,
        machine: machine.map(str::to_owned),
        hardware: request.hardware.clone(),
        ended,
        labels: labels.clone(),
    }))
}
