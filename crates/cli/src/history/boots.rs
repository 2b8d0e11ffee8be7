//! `bootscope history add` and `bootscope history boots`: the boots of a machine that people use.

use super::database;
use crate::Done;
use crate::output::Output;
use anyhow::bail;
use benchmark::History;
use benchmark::history::MachineBoot;
use campaigns::machine_history::{Known, compared, read};
use serde::Serialize;
use std::path::PathBuf;
use std::time::SystemTime;

#[derive(clap::Subcommand)]
pub enum Command {
    Add(AddArgs),
    Boots(BootsArgs),
}

/// Add boots of a machine to the history: captures, recordings or logs
///
/// A boot counts once, also if two captures or a capture and a journal have it. Model, CPUs and memory tell machines
/// apart: name machines of one model with --machine. What cannot be read is listed, and the rest is added.
#[derive(clap::Args)]
#[command(after_help = ADD_EXAMPLES)]
pub struct AddArgs {
    /// Captures, recordings or logs, each of one boot; `-` is standard input
    #[arg(required = true, value_name = "BOOT")]
    boots: Vec<PathBuf>,
    /// The database [default: $XDG_DATA_HOME/bootscope/history.db]
    #[arg(long, value_name = "FILE")]
    db: Option<PathBuf>,
    /// The machine's name
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    machine: Option<String>,
    /// The time when the boot began, if the log does not show it: 2026-11-26T09:14:02Z
    #[arg(long, value_name = "TIME", value_parser = time)]
    at: Option<SystemTime>,
}

const ADD_EXAMPLES: &str = "\
Examples:
  bootscope capture --identify -o here.tar.zst
  bootscope history add here.tar.zst

The boots that the journal still has:
  for n in $(seq 0 29); do journalctl -b -$n -o export >$n.export; done
  bootscope history add *.export

Exit status: 1 if a boot could not be read; the others are added.";

/// List a machine's last boots, the updates that they came with, and what made them slower
///
/// It reports a step of the length if the noise of the boots hardly explains it. About one machine in 100 has a false alarm
/// after any of 30 boots. If the scatter of the boots is 1.5 %, a step of 5 % is found within five boots.
#[derive(clap::Args)]
#[command(after_help = BOOTS_EXAMPLES)]
pub struct BootsArgs {
    /// The database [default: $XDG_DATA_HOME/bootscope/history.db]
    #[arg(long, value_name = "FILE")]
    db: Option<PathBuf>,
    /// The machine [default: the one with the newest boot]
    #[arg(long, value_name = "NAME")]
    machine: Option<String>,
    /// List at most this many, the newest
    #[arg(long, value_name = "ROWS", default_value_t = 30)]
    top: usize,
}

const BOOTS_EXAMPLES: &str = "\
Examples:
  bootscope history boots
  bootscope history boots --machine db7 --json";

fn time(text: &str) -> Result<SystemTime, String> {
    recording::parse_rfc3339(text).ok_or_else(|| "give a time as 2026-11-26T09:14:02Z".to_owned())
}

/// Runs the command.
pub fn run(command: &Command, output: &Output) -> anyhow::Result<Done> {
    match command {
        Command::Add(args) => add(args, output),
        Command::Boots(args) => list(args, output),
    }
}

fn list(args: &BootsArgs, output: &Output) -> anyhow::Result<Done> {
    let history = History::open_existing(&database(args.db.as_deref())?)?;
    let boots = compared(&history, args.machine.as_deref(), args.top)?;
    if output.json {
        output.document(&boots)?;
    } else {
        output.text(&boots.text(output.layout(args.top)))?;
    }
    Ok(Done::Well)
}

/// The JSON document of added boots (`--json`).
#[derive(Serialize)]
struct AddedDocument {
    schema: &'static str,
    database: String,
    added: Vec<AddedLine>,
    failed: Vec<FailedLine>,
}

#[derive(Serialize)]
struct AddedLine {
    from: String,
    boot: i64,
    new: bool,
    machine: String,
    began: Option<String>,
    total_ns: Option<i64>,
}

#[derive(Serialize)]
struct FailedLine {
    from: String,
    why: String,
}

fn add(args: &AddArgs, output: &Output) -> anyhow::Result<Done> {
    if args.at.is_some() && args.boots.len() > 1 {
        bail!("--at is the time of one boot, and {} are given: add them one by one", args.boots.len());
    }
    let known = Known { machine: args.machine.clone(), began: args.at };
    let (mut names, mut boots, mut failed) = (Vec::new(), Vec::<MachineBoot>::new(), Vec::new());
    for path in &args.boots {
        let from = path.display().to_string();
        match read(path, &known, output) {
            Ok(boot) => {
                names.push(from);
                boots.push(boot);
            }
            Err(error) => {
                let why = format!("{error:#}");
                output.note(&format!("not added: {from}: {why}"));
                failed.push(FailedLine { from, why });
            }
        }
    }
    let path = database(args.db.as_deref())?;
    // A history is not made for nothing.
    let stored = if boots.is_empty() { Vec::new() } else { History::open(&path)?.add_boots(&boots)? };
    let mut added = Vec::new();
    for ((from, boot), stored) in names.into_iter().zip(boots).zip(stored) {
        let how = if stored.new { "added as" } else { "is there already as" };
        output.note(&format!("{from}: {how} boot {} of {}", stored.boot, boot.machine));
        let MachineBoot { machine, began, total_ns, .. } = boot;
        added.push(AddedLine { from, boot: stored.boot, new: stored.new, machine, began, total_ns });
    }
    let is_well = failed.is_empty();
    if output.json {
        let schema = "bootscope.history-add-boots/1";
        output.document(&AddedDocument { schema, database: path.display().to_string(), added, failed })?;
    }
    Ok(if is_well { Done::Well } else { Done::Badly })
}
