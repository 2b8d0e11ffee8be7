//! `bootscope history`: lists past benches, and the boots of a machine.

mod boots;

use crate::{Done, output::Output};
use anyhow::{Context, bail};
use benchmark::history::{self, Entry, Filter};
use benchmark::metrics::{METRICS, Metric, TOTAL};
use benchmark::{Document, History};
use campaigns::benches;
use report::{LevelChange, Median, PastBenches};
use serde::Serialize;
use statistics::changes::changes;
use std::path::{Path, PathBuf};

/// List past benches or boots of a machine, and say where boot time changed
///
/// Every bench adds itself to the history, with all its samples. The drawing shows one setup: the same machine, CPUs,
/// memory, command line, QEMU and host. The kernel may differ. `add` and `boots` are for boots of a machine that people use:
/// did the update make my boots slower?
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    of_boots: Option<boots::Command>,
    /// The database [default: $XDG_DATA_HOME/bootscope/history.db]
    #[arg(long, value_name = "FILE")]
    db: Option<PathBuf>,
    /// Only kernels whose hash or name begins with this
    #[arg(long, value_name = "TEXT")]
    kernel: Option<String>,
    /// Only this setup, by its number in the list
    #[arg(long, value_name = "NUMBER")]
    setup: Option<i64>,
    /// Only benches since this date (2026-01, 2026-01-31)
    #[arg(long, value_name = "DATE")]
    since: Option<String>,
    /// List at most this many, the newest [default: 20; with --json all]
    #[arg(long, value_name = "ROWS")]
    top: Option<usize>,
    /// Add benches that were run elsewhere: folders or documents; one that is there already stays
    #[arg(long, value_name = "BENCH", num_args = 1.., conflicts_with_all = ["kernel", "setup", "since", "top", "bench", "metric"])]
    add: Vec<PathBuf>,
    /// Print the document of the bench with this number, with every sample
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["kernel", "setup", "since", "top", "metric"])]
    bench: Option<i64>,
    /// List and draw this metric, by its name in --json [default: total, the boot's length]
    #[arg(long, value_name = "METRIC")]
    metric: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  bootscope history
  bootscope history --kernel 6.1 --since 2026-01
  bootscope history --metric vmm_max_rss
  bootscope history --bench 12 >bench.json
  bootscope history --db ci.db --add artefacts/*/bench.json
  bootscope history add here.tar.zst && bootscope history boots";

/// The most medians that are searched for level changes; the newest are taken.
const MAX_SEARCHED: usize = 5000;
/// The default number of listed entries.
const DEFAULT_TOP: usize = 20;

/// Runs the command.
pub fn run(args: &Args, output: &Output) -> anyhow::Result<Done> {
    if let Some(command) = &args.of_boots {
        return boots::run(command, output);
    }
    let path = database(args.db.as_deref())?;
    if !args.add.is_empty() {
        return add(&path, &args.add, output);
    }
    let history = History::open_existing(&path)?;
    if let Some(bench) = args.bench {
        let found = history.document(bench)?;
        output.document(&found.with_context(|| format!("{} has no bench {bench}", path.display()))?)?;
        return Ok(Done::Well);
    }
    let past = past(&history, args, output)?;
    if output.json {
        output.document(&past)?
    } else {
        output.text(&past.text(output.layout(DEFAULT_TOP)))?
    }
    Ok(Done::Well)
}

/// The path of the database.
fn database(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    Ok(given.map_or_else(history::default_path, |path| Ok(path.to_owned()))?)
}

/// The metric to draw.
fn metric(args: &Args) -> anyhow::Result<&'static Metric> {
    let name = args.metric.as_deref().unwrap_or(TOTAL.name);
    Metric::named(name).with_context(|| {
        let names: Vec<&str> = METRICS.iter().map(|metric| metric.name).collect();
        format!("no metric is called {name:?}: give {} or one of {}", TOTAL.name, names.join(", "))
    })
}

fn past(history: &History, args: &Args, output: &Output) -> anyhow::Result<PastBenches> {
    let metric = metric(args)?;
    let newest = args.top.or(if output.json { None } else { Some(DEFAULT_TOP) });
    let (kernel, since) = (args.kernel.clone(), args.since.clone());
    let filter = Filter { kernel, setup: args.setup, since, newest, bench: None };
    let entries = history.entries(&filter)?;
    let entries_in_all = history.count(&filter)?;
    if entries_in_all == 0 {
        bail!("{} has no such bench: leave out --kernel, --setup or --since to see all", history.path().display());
    }
    let drawn = args.setup.or_else(|| entries.iter().rev().find(|e| e.level(metric).is_some()).map(|e| e.setup));
    let of_setup = Filter { setup: drawn, newest: None, ..filter };
    let medians = if drawn.is_some() { history.medians(&of_setup, metric)? } else { Vec::new() };
    let (searched, changes) = level_changes(history, metric, &medians)?;
    Ok(PastBenches {
        schema: report::HISTORY_SCHEMA.to_owned(),
        database: history.path().display().to_string(),
        entries_in_all,
        entries,
        setup: drawn.map(|setup| history.setup(setup)).transpose()?,
        metric: metric.name.to_owned(),
        medians: medians.iter().map(|&(bench, median)| Median::of(metric, bench, median)).collect(),
        asked_for_changes: searched as u64,
        changes,
    })
}

/// Searches the newest medians for changes of level. Returns how many were searched, and the changes.
fn level_changes(
    history: &History,
    metric: &Metric,
    medians: &[(i64, f64)],
) -> anyhow::Result<(usize, Vec<LevelChange>)> {
    let before = medians.len().saturating_sub(MAX_SEARCHED);
    let searched: Vec<f64> = medians[before..].iter().map(|m| m.1).collect();
    let mut level_changes = Vec::new();
    for change in changes(&searched) {
        let at = before + change.at;
        let entry = entry(history, medians[at].0)?;
        level_changes.push(LevelChange::of(metric, &change, at, &entry));
    }
    Ok((searched.len(), level_changes))
}

fn entry(history: &History, bench: i64) -> anyhow::Result<Entry> {
    history.entry(bench)?.with_context(|| format!("{} has no bench {bench}", history.path().display()))
}

/// The JSON document of added benches (`--json`).
#[derive(Serialize)]
struct AddedDocument {
    schema: &'static str,
    database: String,
    added: Vec<AddedBench>,
}

#[derive(Serialize)]
struct AddedBench {
    from: String,
    bench: i64,
    new: bool,
}

fn add(path: &Path, benches: &[PathBuf], output: &Output) -> anyhow::Result<Done> {
    // Read all benches before adding the first: an unreadable one must change nothing.
    let mut documents = Vec::new();
    for bench in benches {
        let (document, damaged) = benches::read(bench)?;
        if damaged > 0 {
            output.note(&format!("{}: {damaged} damaged lines were left out", bench.display()));
        }
        documents.push((bench.display().to_string(), document));
    }
    let (names, documents): (Vec<String>, Vec<Document>) = documents.into_iter().unzip();
    let kept = History::open(path)?.add_all(&documents)?;
    let mut added = Vec::new();
    for (from, kept) in names.into_iter().zip(kept) {
        let how = if kept.new { "added as" } else { "is there already as" };
        output.note(&format!("{from}: {how} bench {}", kept.bench));
        added.push(AddedBench { from, bench: kept.bench, new: kept.new });
    }
    if output.json {
        output.document(&AddedDocument {
            schema: "bootscope.history-add/1",
            database: path.display().to_string(),
            added,
        })?;
    }
    Ok(Done::Well)
}
