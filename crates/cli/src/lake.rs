//! `bootscope lake`: keeps the boots of many machines as Parquet tables.

mod engine;
mod page;
mod rewrite;

use crate::Done;
use crate::output::Output;
use campaigns::lake::{Adder, Document, Request};
use report::harmless;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

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
    Forget(rewrite::ForgetArgs),
    Compact(rewrite::CompactArgs),
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
/// Machines drop packed recordings there, as `capture` writes them. The folder is looked at every few seconds, until
/// Ctrl-C. A file that cannot be read is reported once, and tried again when it changes. Nothing in the folder is
/// changed. Small files of days that are over are merged, as `lake compact` does.
#[derive(clap::Args)]
struct WatchArgs {
    /// The folder
    incoming: PathBuf,
    #[command(flatten)]
    how: HowArgs,
    /// The time between two looks at the folder
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

impl HowArgs {
    fn request(&self) -> Request {
        Request {
            to: self.to.clone(),
            labels: self.labels.clone(),
            machine: self.machine.clone(),
            hardware: self.hardware.clone(),
            identify: self.identify,
            key: self.key.clone(),
            no_findings: self.no_findings,
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  bootscope lake add boots/* captures/*.tar.zst --to lake
  bootscope lake add here.tar.zst --to lake --machine db7 --label team=db
  duckdb -c \"select hardware, time_base, kernel, median(total_ns) / 1e6 ms
             from 'lake/boots/*/*.parquet' group by all\"

Exit status: 1 if some recording could not be read; the others are in.";

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("give NAME=VALUE".to_owned()),
    }
}

/// Runs the command.
pub fn run(args: &Args, output: &Output) -> anyhow::Result<Done> {
    match &args.command {
        Command::Add(args) => add(args, output),
        Command::Watch(args) => watch(args, output),
        Command::Forget(args) => rewrite::forget(args, output),
        Command::Compact(args) => rewrite::compact(args, output),
        Command::Page(args) => page::run(args, output),
        Command::Ask(args) => engine::run("ask", &args.all, output),
        Command::Sql(args) => engine::run("sql", &args.all, output),
    }
}

fn add(args: &AddArgs, output: &Output) -> anyhow::Result<Done> {
    let request = args.how.request();
    let mut adder = Adder::new(&request, output)?;
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
        output.text(&summary(&done))?;
    }
    Ok(if is_well { Done::Well } else { Done::Badly })
}

fn boots(count: usize) -> String {
    if count == 1 { "1 boot".to_owned() } else { format!("{count} boots") }
}

fn summary(done: &Document) -> String {
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
    let looks = (&*args.incoming, args.every);
    let done = campaigns::lake::watch(&args.how.request(), looks, &stop, output.json, output, |added| {
        if output.quiet || output.json { Ok(()) } else { output.text(&summary(added)) }
    })?;
    if output.json {
        output.document(&done)?;
    }
    Ok(Done::Well)
}
